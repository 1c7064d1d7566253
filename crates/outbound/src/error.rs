//! Errors of a fetch.
//!
//! Messages name the address without its query and never contain request data.

use std::time::Duration;

use domain::ErrorKind;

use crate::address::{Address, Origin, ParseAddressError};
use crate::dial::DialError;

/// Maximum number of redirects per fetch.
pub const REDIRECTS: usize = 5;

#[derive(Clone, Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Address(#[from] ParseAddressError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("TLS handshake with {at} failed: {why}")]
    Tls { at: Origin, why: String },
    #[error("cannot use the certificates for {at}: {why}")]
    Certificates { at: Origin, why: String },
    #[error("the user name, password or token for {at} has invalid characters")]
    InvalidCredentials { at: Origin },
    #[error("connection to {at} was interrupted: {why}")]
    Interrupted { at: Address, why: String },
    #[error("no response from {at} within {} s", .within.as_secs_f32())]
    ResponseTimeout { at: Origin, within: Duration },
    #[error("{at} sends too slowly: fewer than {least} bytes in {} s", .within.as_secs_f32())]
    BodyTooSlow { at: Address, least: usize, within: Duration },
    #[error("reading {at} took longer than {} s", .within.as_secs_f32())]
    TotalTimeout { at: Address, within: Duration },
    #[error("{at} is larger than {limit} bytes")]
    TooLarge { at: Address, limit: usize },
    #[error("cannot read {at} now: {why}")]
    OverBudget { at: Address, why: String },
    #[error("{at} is damaged: {why}")]
    Damaged { at: Address, why: String },
    #[error("{at} redirects more than {REDIRECTS} times")]
    TooManyRedirects { at: Address },
    #[error("{at} redirects to an invalid URL: {why}")]
    InvalidRedirect { at: Address, why: ParseAddressError },
    #[error("{at} redirects to {to}, which does not use https")]
    InsecureRedirect { at: Address, to: Origin },
    #[error("{at} returned status {status}")]
    Status { at: Address, status: u16 },
}

impl FetchError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Status { status, .. } => kind_for_status(*status),
            Self::Address(_) | Self::InvalidCredentials { .. } | Self::Certificates { .. } => {
                ErrorKind::Invalid
            }
            Self::Dial(DialError::Refused { .. }) | Self::InsecureRedirect { .. } => ErrorKind::Forbidden,
            Self::ResponseTimeout { .. } | Self::BodyTooSlow { .. } | Self::TotalTimeout { .. } => {
                ErrorKind::Timeout
            }
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::OverBudget { .. } => ErrorKind::Exhausted,
            Self::Dial(_)
            | Self::Tls { .. }
            | Self::Interrupted { .. }
            | Self::Damaged { .. }
            | Self::TooManyRedirects { .. }
            | Self::InvalidRedirect { .. } => ErrorKind::Unavailable,
        }
    }
}

fn kind_for_status(status: u16) -> ErrorKind {
    match status {
        // 401 and 403 mean that the remote server rejected the platform's credentials, not the caller's: the caller is
        // authenticated.
        401 | 403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::Exhausted,
        500.. => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}
