//! Charts and values to manifests, as Helm renders them.
//!
//! An [`Engine`] follows one generation of Helm. It takes a chart that is [`Prepared`], so that its templates are parsed
//! once, and a [`Request`]; what comes of it is a [`Release`]: manifests in the order of installation, hooks, notes.
//! Modules in reading order: what is asked and answered ([`release`]), who sees what ([`scope`], [`objects`],
//! [`capabilities`]), running templates ([`render`]), what errors are called ([`trace`]), from texts to documents
//! ([`split`], [`manifests`], [`hooks`]), the text that `helm template` prints ([`output`]), and what `helm lint` finds
//! ([`lint`]).
//!
//! Every document knows the file it was cut from, and every piece of text the place in its template; a mode that
//! says which line made a field can be built on that.
//!
//! Nothing here touches a file system, a network, a clock or chance but through `helm_template::outside`.

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
