//! How a failure is to be treated, whatever carried the request.
//!
//! Every error that can reach a caller answers with a [`Kind`], and [`TABLE`] gives each kind its HTTP status, its gRPC
//! code and whether to try again. The doors and the controllers read it, and nothing else decides.

use Kind::*;
use Retry::*;

/// What sort of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What was sent cannot be right, now or later.
    Invalid,
    /// Nobody knows who asks.
    Unauthenticated,
    /// It is known who asks, and they may not.
    Forbidden,
    /// It is not there, or not for those who ask.
    NotFound,
    /// It is there already, or somebody else was faster.
    Conflict,
    /// Another version was expected.
    Precondition,
    TooLarge,
    /// A limit on how often or how much is used up.
    Exhausted,
    Timeout,
    /// Something that we need does not answer.
    Unavailable,
    /// It makes sense, and we do not offer it.
    Unsupported,
    /// Our own defect.
    Internal,
}

/// Whether the same request can succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not before it or the world is changed.
    Never,
    /// After looking again at what is there.
    Afresh,
    /// As it is, after a pause.
    Later,
}

/// Each kind with its HTTP status, its gRPC code, and whether to try again.
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

    /// The kind that an HTTP status of somebody else's answer means to us.
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
