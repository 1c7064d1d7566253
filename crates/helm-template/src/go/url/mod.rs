//! Addresses of the web as Go's `net/url` takes them apart and puts them together.

mod address;
mod escape;
mod parse;
mod write;

pub use parse::user_of;

/// An address in its parts, decoded but for the query. Bytes, because what is behind an escape need not be text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: Vec<u8>,
    /// What follows the scheme where that is no path: `mailto:a@b`.
    pub opaque: Vec<u8>,
    pub user: Option<User>,
    /// With its port.
    pub host: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub fragment: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Vec<u8>,
    pub password: Option<Vec<u8>>,
}
