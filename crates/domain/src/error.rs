//! Error kinds, independent of the transport.
//!
//! Every error that can reach a caller has an [`ErrorKind`]. [`ERROR_KINDS`] maps each kind to its HTTP status, gRPC code and retry
//! policy. HTTP handlers, gRPC handlers and controllers read these from the table only.

use ErrorKind::*;
use RetryPolicy::*;

/// Class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The request is invalid, now and later.
    Invalid,
    /// The caller is not authenticated.
    Unauthenticated,
    /// The caller is authenticated but not authorised.
    Forbidden,
    /// The object does not exist, or the caller may not see it.
    NotFound,
    /// The object already exists, or a concurrent write won.
    Conflict,
    /// The object has another version than the caller expected.
    Precondition,
    TooLarge,
    /// A rate limit or quota is exhausted.
    Exhausted,
    Timeout,
    /// A dependency does not respond.
    Unavailable,
    /// The request is valid, but the operation is not supported.
    Unsupported,
    /// A defect of the platform.
    Internal,
}

/// Retry policy: whether the same request can succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Not until the request or the state of the system changes.
    Never,
    /// After reading the current state again.
    AfterReread,
    /// Unchanged, after a backoff.
    AfterBackoff,
}

/// Every kind with its HTTP status, gRPC code and retry policy.
#[rustfmt::skip]
pub const ERROR_KINDS: &[(ErrorKind, u16, u8, RetryPolicy)] = &[
    (Invalid,         400,  3, Never),
    (Unauthenticated, 401, 16, Never),
    (Forbidden,       403,  7, Never),
    (NotFound,        404,  5, Never),
    (Conflict,        409,  6, AfterReread),
    (Precondition,    412,  9, AfterReread),
    (TooLarge,        413,  3, Never),
    (Exhausted,       429,  8, AfterBackoff),
    (Timeout,         504,  4, AfterBackoff),
    (Unavailable,     503, 14, AfterBackoff),
    (Unsupported,     501, 12, Never),
    (Internal,        500, 13, AfterBackoff),
];

impl ErrorKind {
    fn row(self) -> &'static (ErrorKind, u16, u8, RetryPolicy) {
        ERROR_KINDS.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    pub fn http_status(self) -> u16 {
        self.row().1
    }

    pub fn grpc_code(self) -> u8 {
        self.row().2
    }

    pub fn retry_policy(self) -> RetryPolicy {
        self.row().3
    }

    /// Maps the HTTP status of a remote server's response to a kind.
    pub fn from_http_status(status: u16) -> Self {
        match status {
            400 | 405 | 406 | 415 | 422 => Invalid,
            401 => Unauthenticated,
            408 => Timeout,
            502 => Unavailable,
            410 => Precondition,
            _ => ERROR_KINDS.iter().find(|row| row.1 == status).map_or(Internal, |row| row.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_kind_table_has_one_row_per_kind_and_round_trips_http_status() {
        for (place, row) in ERROR_KINDS.iter().enumerate() {
            assert_eq!(ERROR_KINDS.iter().position(|other| other.0 == row.0), Some(place), "{:?}", row.0);
            assert_eq!(ErrorKind::from_http_status(row.0.http_status()), row.0);
        }
        assert_eq!(ERROR_KINDS.len(), Internal as usize + 1);
    }
}
