//! A Kubernetes API server in process, over one crash-safe file.
//!
//! Modules in reading order: what is asked (`http`), what it means (`verbs`), what the kinds are
//! (`schema`, `rules`, `crd`, `print`), who may (`access`, `admission`, `policy`), how a change is
//! computed (`write`), where it is kept (`store`), and what follows from it by itself (`control`).

pub mod clock;
pub mod decode;
pub mod error;
pub mod field;
pub mod quantity;

pub mod access;
pub mod admission;
pub mod control;
pub mod crd;
pub mod http;
pub mod policy;
pub mod print;
pub mod rules;
pub mod schema;
pub mod selector;
pub mod store;
pub mod verbs;
pub mod write;
