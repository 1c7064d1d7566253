//! Renders charts and values to manifests, as Helm does.
//!
//! An [`Engine`] follows one major version of Helm. It takes a [`Prepared`] chart, whose templates are parsed once, and a
//! [`Request`]. The result is a [`Release`]: manifests in installation order, hooks and notes.
//!
//! Modules:
//! - [`release`]: requests and results.
//! - [`scope`], [`objects`], [`capabilities`]: the data that templates see.
//! - [`prepared`]: charts with a cache of parsed templates.
//! - [`render`]: execution of templates.
//! - [`trace`]: error messages.
//! - [`split`], [`manifests`], [`hooks`]: from text to documents.
//! - [`output`]: the output of `helm template`.
//! - [`lint`]: `helm lint`.
//!
//! Every document records its source file, and every piece of text its position in the template. A mode that maps fields to
//! template lines can be built on that.
//!
//! Invariant: no I/O, clock or randomness except through `helm_template::outside`.

mod capabilities;
mod glob;
mod hooks;
mod lint;
mod manifests;
pub mod names;
mod objects;
pub mod output;
mod path;
mod prepared;
mod release;
mod render;
mod scope;
mod split;
mod trace;

pub use capabilities::{Capabilities, KubeVersion};
pub use hooks::{Event, Hook};
pub use lint::{LintRequest, Linted};
pub use manifests::{Manifest, Sorted, sort};
pub use output::Shown;
pub use prepared::{CacheMemory, CachedBytes, Prepared};
pub use release::{Crd, Engine, Failure, Release, Request, Stage};
pub use render::Rendered;
