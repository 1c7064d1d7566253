//! Members, tokens, sessions and invitations under attack.
//!
//! Modules:
//!
//! - [`tokens`]: ServiceAccount tokens and removed members
//! - [`restored_bindings`]: RoleBindings that a release creates again
//! - [`invitations`], invitations
//! - [`credentials`]: revocation and scoped tokens
//! - [`browsers`]: cross-site requests

mod browsers;
mod credentials;
mod invitations;
mod restored_bindings;
mod tokens;

pub use tokens::kubernetes_client;
