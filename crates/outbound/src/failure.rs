//! Errors of a fetch.
//!
//! Messages name the address without its query and never contain request data.

use std::time::Duration;

use domain::Kind;

use crate::address::{Address, BadAddress, Origin};
use crate::dial::DialError;

/// Maximum number of redirects per fetch.
pub const REDIRECTS: usize = 5;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Address(#[from] BadAddress),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("cannot agree with {at} on a secure connection: {why}")]
    Tls { at: Origin, why: String },
    #[error("the certificates for {at} cannot be used: {why}")]
    Certificates { at: Origin, why: String },
    #[error("the user name, password or token for {at} has characters that cannot be sent")]
    Unsendable { at: Origin },
    #[error("{at} broke off: {why}")]
    Broken { at: Address, why: String },
    #[error("{at} has not begun to answer within {} s", .within.as_secs_f32())]
    Silent { at: Origin, within: Duration },
    #[error("{at} sends too slowly: less than {least} bytes in {} s", .within.as_secs_f32())]
    Slow { at: Address, least: usize, within: Duration },
    #[error("{at} has not been read within {} s", .within.as_secs_f32())]
    TooLong { at: Address, within: Duration },
    #[error("{at} is larger than {limit} bytes")]
    TooLarge { at: Address, limit: usize },
    #[error("{at} cannot be read now: {why}")]
    OverBudget { at: Address, why: String },
    #[error("{at} is damaged: {why}")]
    Damaged { at: Address, why: String },
    #[error("{at} leads on more than {REDIRECTS} times")]
    Redirects { at: Address },
    #[error("{at} leads on to what is no address: {why}")]
    Astray { at: Address, why: BadAddress },
    #[error("{at} leads on to {to}, which is not secure")]
    Downgrade { at: Address, to: Origin },
    #[error("{at} answers {status}")]
    Status { at: Address, status: u16 },
}

impl Failure {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Status { status, .. } => of_status(*status),
            Self::Address(_) | Self::Unsendable { .. } | Self::Certificates { .. } => Kind::Invalid,
            Self::Dial(DialError::Refused { .. }) | Self::Downgrade { .. } => Kind::Forbidden,
            Self::Silent { .. } | Self::Slow { .. } | Self::TooLong { .. } => Kind::Timeout,
            Self::TooLarge { .. } => Kind::TooLarge,
            Self::OverBudget { .. } => Kind::Exhausted,
            Self::Dial(_)
            | Self::Tls { .. }
            | Self::Broken { .. }
            | Self::Damaged { .. }
            | Self::Redirects { .. }
            | Self::Astray { .. } => Kind::Unavailable,
        }
    }
}

fn of_status(status: u16) -> Kind {
    match status {
        // 401 and 403 mean that the remote server rejected the platform's credentials, not the caller's: the caller is
        // authenticated.
        401 | 403 => Kind::Forbidden,
        404 | 410 => Kind::NotFound,
        429 => Kind::Exhausted,
        500.. => Kind::Unavailable,
        _ => Kind::Invalid,
    }
}
