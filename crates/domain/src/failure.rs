//! Error kinds, independent of the transport.
//!
//! Every error that can reach a caller has a [`Kind`]. [`TABLE`] maps each kind to its HTTP status, gRPC code and retry
//! policy. HTTP handlers, gRPC handlers and controllers read these from the table only.

use Kind::*;
use Retry::*;

/// Class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
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
pub enum Retry {
    /// Not until the request or the state of the system changes.
    Never,
    /// After reading the current state again.
    Afresh,
    /// Unchanged, after a backoff.
    Later,
}

/// Every kind with its HTTP status, gRPC code and retry policy.
#[rustfmt::skip]
pub const TABLE: &[(Kind, u16, u8, Retry)] = &[
    (Invalid,         400,  3, Never),
    (Unauthenticated, 401, 16, Never),
    (Forbidden,       403,  7, Never),
    (NotFound,        404,  5, Never),
    (Conflict,        409,  6, Afresh),
    (Precondition,    412,  9, Afresh),
    (TooLarge,        413,  3, Never),
    (Exhausted,       429,  8, Later),
    (Timeout,         504,  4, Later),
    (Unavailable,     503, 14, Later),
    (Unsupported,     501, 12, Never),
    (Internal,        500, 13, Later),
];

impl Kind {
    fn row(self) -> &'static (Kind, u16, u8, Retry) {
        TABLE.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    pub fn http_status(self) -> u16 {
        self.row().1
    }

    pub fn grpc_code(self) -> u8 {
        self.row().2
    }

    pub fn retry(self) -> Retry {
        self.row().3
    }

    /// Maps the HTTP status of a remote server's response to a kind.
    pub fn of_http_status(status: u16) -> Self {
        match status {
            400 | 405 | 406 | 415 | 422 => Invalid,
            401 => Unauthenticated,
            408 => Timeout,
            502 => Unavailable,
            410 => Precondition,
            _ => TABLE.iter().find(|row| row.1 == status).map_or(Internal, |row| row.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_one_row_and_comes_back_from_its_status() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(TABLE.iter().position(|other| other.0 == row.0), Some(place), "{:?}", row.0);
            assert_eq!(Kind::of_http_status(row.0.http_status()), row.0);
        }
        assert_eq!(TABLE.len(), Internal as usize + 1);
    }
}
