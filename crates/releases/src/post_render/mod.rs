//! Post-rendering: changes the rendered objects of a release on every install, upgrade and rollback. First role overrides, then
//! `spec.patches`, then pause.
//!
//! Stateless: each run starts from the chart's output, so an override, a patch or the pause is removed by rendering without it.
//!
//! Invariants: an object's kind, name, namespace and owner never change, and neither does a selector; a patch that would change one is
//! rejected, and the error names its path. Hooks are changed by patches only: a hook scaled to zero would block its own operation.
//!
//! Not implemented yet: plugins, which will run first.

mod accounting;
mod immutable_fields;
mod json_patch;
#[cfg(test)]
mod malicious_input;
mod patches;
mod pause;
mod role_overrides;
pub(crate) mod selector;
mod strategic;

use std::collections::HashSet;

use domain::ErrorKind;
use helm_template::budget::Budget;
use kube_apply::Object;
use kube_types::release::{ManifestPatch, RoleOverride};

pub use pause::{OFFLINE_ANNOTATION, PAUSED_NODE_LABEL, USE_OFFLINE_ANNOTATION};

/// The changes of one release.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostRenderSpec<'a> {
    pub roles: &'a [RoleOverride],
    pub patches: &'a [ManifestPatch],
    pub paused: bool,
}

/// Why post-rendering failed. Names paths and objects, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct PostRenderError {
    /// The path in the spec, e.g. `spec.patches[2]`.
    pub place: String,
    pub why: String,
}

impl PostRenderError {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

impl PostRenderSpec<'_> {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.patches.is_empty() && !self.paused
    }
}

/// Applies all changes. All steps share one budget.
pub fn apply(
    objects: Vec<Object>,
    chain: &PostRenderSpec<'_>,
    budget: &Budget<'_>,
) -> Result<Vec<Object>, PostRenderError> {
    let objects = role_overrides::apply(objects, chain.roles, budget)?;
    let objects = patches::apply(objects, chain.patches, budget)?;
    if !chain.paused {
        return Ok(objects);
    }
    let bytes: usize = objects.iter().map(|object| accounting::bytes(object.value())).sum();
    accounting::charge_copy(budget, bytes)
        .map_err(|why| PostRenderError { place: "spec.paused".to_owned(), why })?;
    Ok(pause::pause_all(objects))
}

/// Overrides whose workload does not exist. They are kept, because a later chart version may contain it again; callers report them to the
/// user.
pub fn unmatched_overrides<'a>(objects: &[Object], roles: &'a [RoleOverride]) -> Vec<&'a RoleOverride> {
    let workloads = objects.iter().filter(|object| role_overrides::is_workload(object));
    let workloads: HashSet<(&str, &str)> = workloads.map(|object| (object.kind(), object.name())).collect();
    roles.iter().filter(|role| !workloads.contains(&(role.kind.as_str(), role.name.as_str()))).collect()
}

/// Whether Helm runs this object as a hook.
fn is_hook(object: &Object) -> bool {
    object.annotation("helm.sh/hook").is_some()
}

#[cfg(test)]
mod tests;
