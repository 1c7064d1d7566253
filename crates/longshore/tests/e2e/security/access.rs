//! Members, tokens, sessions and invitations under attack.
//!
//! Modules:
//!
//! - [`tokens`]: ServiceAccount tokens and removed members
//! - [`invitations`], invitations
//! - [`credentials`]: revocation and scoped tokens
//! - [`browsers`]: cross-site requests

mod browsers;
mod credentials;
mod invitations;
mod tokens;

pub use tokens::kubernetes_client;
