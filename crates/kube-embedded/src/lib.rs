//! A Kubernetes API server in process, over one crash-safe file.
//!
//! Modules in reading order: what is asked (`http`), what it means (`verbs`), what the kinds are
//! (`schema`, `rules`, `crd`, `print`) and how clients are told of them (`discovery`, `openapi`), who may
//! (`access`, `admission`, `policy`), how a change is computed (`write`), where it is kept (`store`), and
//! what follows from it by itself (`control`).

pub mod clock;
pub mod error;
pub mod field;

pub mod access;
pub mod admission;
pub mod control;
pub mod crd;
pub mod discovery;
pub mod http;
pub mod openapi;
pub mod policy;
pub mod print;
pub mod rules;
pub mod schema;
pub mod store;
pub mod verbs;
pub mod write;
