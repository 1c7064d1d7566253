//! Renders charts and values to manifests, as Helm does.
//!
//! An [`Engine`] follows one major version of Helm. It takes a [`ParsedChart`], whose templates are parsed once, and an
//! [`EngineRequest`]. The result is a [`Release`]: manifests in installation order, hooks and notes.
//!
//! Modules:
//! - [`release`]: requests and results.
//! - [`scope`], [`objects`], [`capabilities`]: the data that templates see.
//! - [`parsed_chart`]: charts with a cache of parsed templates.
//! - [`render`]: execution of templates.
//! - [`error_format`]: error messages.
//! - [`split`], [`manifests`], [`hooks`]: from text to documents.
//! - [`output`]: the output of `helm template`.
//! - [`lint`]: `helm lint`.
//!
//! Every document records its source file, and every piece of text its position in the template. A mode that maps fields to
//! template lines can be built on that.
//!
//! Invariant: no I/O, clock or randomness except through `helm_template::env`.

mod capabilities;
mod error_format;
mod glob;
mod hooks;
mod lint;
mod manifests;
pub mod names;
mod objects;
pub mod output;
mod parsed_chart;
mod path;
mod release;
mod render;
mod scope;
mod split;

pub use capabilities::{Capabilities, KubeVersion};
pub use hooks::{Hook, HookEvent};
pub use lint::{LintRequest, LintResult};
pub use manifests::{Manifest, SortedManifests, sort_manifests};
pub use output::OutputOptions;
pub use parsed_chart::{CacheBudget, CacheReservation, ParsedChart};
pub use release::{Crd, Engine, EngineError, EngineRequest, Release, RenderStage};
pub use render::RenderedFile;
