//! API of the OpenYurt console, at the root path: accounts, cluster overview, nodes, node pools, workloads.
//!
//! The routes are rows of the route table ([`crate::routes`]) with an API flavour of their own ([`crate::flavour`]): more ways to send a
//! token, and errors as `{"msg", "status": false, "code"}`.
//!
//! Modules:
//! - [`form_body`]: request bodies
//! - [`visibility`]: visibility of nodes and namespaces per caller
//! - [`register`], [`login`]: registration and login
//! - [`overview`], [`paging`], [`events`]: read-only routes and paging
//! - [`pools`]: mutations of pools and nodes
//!
//! Invariants: a kubeconfig that a client sends is ignored. A `namespace` parameter is a filter and grants nothing.

pub mod events;
pub mod form_body;
pub mod login;
pub mod overview;
pub mod paging;
pub mod pools;
pub mod register;
pub mod visibility;
