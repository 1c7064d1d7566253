//! A Kubernetes API server in process, over one crash-safe file.
//!
//! Modules:
//! - [`cluster`]: the whole server
//! - [`http`], [`discovery`], [`openapi`], [`metrics`]: HTTP API and documents
//! - [`verbs`]: handlers of the API verbs
//! - [`decode`], [`selector`], [`quantity`]: request bodies and values
//! - [`registry`], [`schema`], [`rules`], [`crd`], [`print`]: the served kinds
//! - [`access`], [`admission`], [`policy`]: authorization and admission
//! - [`write`]: patches and server-side apply
//! - [`store`]: storage and watch cache
//! - [`control`], [`bootstrap`], [`sim`]: controllers, bootstrap objects, simulated nodes
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
//! # Unsupported features and their responses
//!
//! | feature | response |
//! |---|---|
//! | `exec`, `attach`, `portforward`, `proxy` | 501 `NotImplemented`: no process runs in a simulated pod |
//! | alpha and beta versions, and versions that Kubernetes has removed | 404 |
//! | admission webhooks, `MutatingAdmissionPolicy` | stored where the kind is stable, with a `Warning`; never called |
//! | conversion webhooks | accepted with a `Warning`; only `apiVersion` is rewritten |
//! | aggregated API servers (`APIService` with a service) | stored; their groups are 404 |
//! | responses in protobuf or CBOR | JSON, which every client of ours accepts too; CBOR bodies are 415 |
//! | objects nested deeper than 100 levels | 400 |
//! | constrained impersonation (`impersonate-on:...`) | 403 in Kubernetes' words |
//! | `authorizer` in CEL expressions | the expression fails, and `failurePolicy` applies |
//! | API priority and fairness | objects are stored; levels and shares are fixed (`governor`), excess requests get 429 |
//! | the `metrics.k8s.io` group | 404, as on a cluster without a metrics server |
//! | containers, networks, disks | nodes and kubelets are simulated, and report so; no process runs |
//! | one file opened by two servers | the second fails with an error that names the folder |

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
