//! Native routes, below `/api/longshore/v1`: one module per endpoint family, with its request and response types.

pub mod accounts;
pub mod invitations;
pub mod kubeconfig;
pub mod members;
pub mod nodes;
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
