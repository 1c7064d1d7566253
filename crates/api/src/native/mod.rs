//! Our own routes, below `/api/longshore/v1`. A file for each family, with what it takes and gives.

pub mod accounts;
pub mod invitations;
pub mod kubeconfig;
pub mod members;
pub mod operations;
pub mod packages;
pub mod progress;
pub mod quota;
pub mod releases;
pub mod repos;
pub mod roles;
pub mod session;
pub mod tokens;
pub mod users;
pub mod workspaces;
