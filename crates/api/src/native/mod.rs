//! Our own routes, below `/api/longshore/v1`. A file for each family, with what it takes and gives.

pub mod accounts;
pub mod invitations;
pub mod kubeconfig;
pub mod members;
pub mod progress;
pub mod quota;
pub mod roles;
pub mod session;
pub mod tokens;
pub mod users;
pub mod workspaces;
