//! Who somebody is, what they own, what they may do.
//!
//! Modules in reading order: what is known at once (`directory`), how somebody is recognised (`passwords`, `tokens`,
//! `sessions`, `throttle`, `sign_in`, `kubernetes`, `administrator`), what they can ask for (`register`, `users`,
//! `workspaces`, `members`, `quota`, `kubeconfig`), and what follows from it by itself (`provision`).
//!
//! Always true: every function that a caller can reach takes an [`domain::Actor`] and asks it first, but for
//! registration and sign-in.
//! Elsewhere: the table of roles (`domain::roles`), the resources (`kube_types`), the routes (`api`).

pub mod error;
pub mod manifests;
pub mod provision;
pub mod quota;
pub mod roles;

pub use error::Error;
