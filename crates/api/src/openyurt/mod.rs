//! The API of the OpenYurt console, at the root: accounts, what there is on the cluster, nodes and their pools, workloads.
//!
//! The routes are rows of the one table ([`crate::routes`]) in a dialect of their own ([`crate::dialect`]): who asks may be told by
//! more ways, and a refusal is `{"msg", "status": false, "code"}`. Modules in reading order: what is sent ([`form`]), who sees what
//! ([`sight`]), becoming somebody ([`register`], [`login`]), and what there is ([`look`], [`page`], [`events`]), and what may be changed of it ([`pools`]).
//!
//! Always true: a kubeconfig that somebody sends is not looked at, and a `namespace` is a filter, not a grant.

pub mod events;
pub mod form;
pub mod login;
pub mod look;
pub mod page;
pub mod pools;
pub mod register;
pub mod sight;
