//! A Kubernetes API server in process, over one crash-safe file.
//!
//! Modules in reading order: the whole ([`cluster`]), what is asked ([`http`], [`discovery`], [`openapi`], [`metrics`]),
//! what it means ([`verbs`]), how a body is read ([`decode`], [`selector`], [`quantity`]), what the kinds are
//! ([`registry`], [`schema`], [`rules`], [`crd`], [`print`]), who may ([`access`], [`admission`], [`policy`]),
//! how a change is computed ([`write`]), where it is kept ([`store`]), and what follows from it by itself
//! ([`control`], [`bootstrap`], [`sim`]).
//!
//! ```no_run
//! # async fn example() {
//! use kube_embedded::access::User;
//! use kube_embedded::cluster::Cluster;
//!
//! let cluster = Cluster::in_memory().await;
//! let client = cluster.client(User::admin()); // a `kube::Client` without a socket
//! # }
//! ```
//!
//! # What is not offered, and what is answered instead
//!
//! | asked for | answer |
//! |---|---|
//! | `exec`, `attach`, `portforward`, `proxy` | 501 `NotImplemented`: no process runs in a simulated pod |
//! | alpha and beta versions, and those that Kubernetes has removed | 404 |
//! | admission webhooks, `MutatingAdmissionPolicy` | stored where the kind is stable, with a `Warning`; never called |
//! | conversion webhooks | accepted with a `Warning`; only `apiVersion` is rewritten |
//! | aggregated API servers (`APIService` with a service) | stored; their groups are 404 |
//! | answers in protobuf or CBOR | JSON, which every client of ours accepts too; CBOR bodies are 415 |
//! | objects nested deeper than 100 levels | 400 |
//! | constrained impersonation (`impersonate-on:...`) | 403 in Kubernetes' words |
//! | `authorizer` in CEL expressions | the expression fails, and with it what it guards |
//! | API priority and fairness | objects are stored; levels and shares are fixed (`governor`), what exceeds them is 429 |
//! | the `metrics.k8s.io` group | 404, as on a cluster without a metrics server |
//! | containers, networks, disks | nodes and kubelets are simulated, and say so; no process runs |
//! | one file opened by two servers | the second is refused by name |

pub mod clock;
pub mod error;
pub mod field;
pub mod go;

pub mod cluster;

pub mod discovery;
pub mod http;
pub mod metrics;
pub mod openapi;

pub mod verbs;

pub mod decode;
pub use domain::quantity;
pub mod selector;

pub mod crd;
pub mod print;
pub mod registry;
pub mod rules;
pub mod schema;

pub mod access;
pub mod admission;
pub mod policy;

pub mod write;

pub mod store;

pub mod bootstrap;
pub mod control;
pub mod sim;

#[cfg(test)]
mod hostile;
