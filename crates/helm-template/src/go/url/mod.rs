//! Go's `net/url`: parsing and formatting of URLs.

mod address;
mod escape;
mod parse;
mod write;

pub use parse::parse_userinfo;

/// A parsed URL. All parts except the query are unescaped. Parts are bytes, because an escape may denote invalid UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: Vec<u8>,
    /// The text after the scheme, if it is not a path: `mailto:a@b`.
    pub opaque: Vec<u8>,
    pub user: Option<User>,
    /// Including the port.
    pub host: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub fragment: Vec<u8>,
}

/// The userinfo of a URL, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Vec<u8>,
    pub password: Option<Vec<u8>>,
}
