//! Members, tokens, sessions and invitations under attack.
//!
//! Modules: ServiceAccount tokens and removed members ([`tokens`]), invitations ([`invitations`]), revocation and scoped tokens
//! ([`credentials`]), pages of other sites ([`browsers`]).

mod browsers;
mod credentials;
mod invitations;
mod tokens;

pub use tokens::kubernetes;
