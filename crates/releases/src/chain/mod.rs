//! Post-rendering: changes the rendered objects of a release on every install, upgrade and rollback. First role overrides, then
//! `spec.patches`, then pause.
//!
//! Stateless: each run starts from the chart's output, so an override, a patch or the pause is removed by rendering without it.
//!
//! Invariants: an object's kind, name, namespace and owner never change, and neither does a selector; a patch that would change one is
//! rejected, and the error names its path. Hooks are changed by patches only: a hook scaled to zero would block its own operation.
//!
//! Not implemented yet: plugins, which will run first.

mod guard;
#[cfg(test)]
mod hostile;
mod json_patch;
mod patches;
mod pause;
mod roles;
pub(crate) mod select;
mod size;
mod strategic;

use std::collections::HashSet;

use domain::Kind;
use helm_template::budget::Budget;
use kube_apply::Object;
use kube_types::release::{Patch, RoleOverride};

pub use pause::{OFFLINE, PAUSED, USE_OFFLINE};

/// The changes of one release.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chain<'a> {
    pub roles: &'a [RoleOverride],
    pub patches: &'a [Patch],
    pub paused: bool,
}

/// Why post-rendering failed. Names paths and objects, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ChainError {
    /// The path in the spec, e.g. `spec.patches[2]`.
    pub place: String,
    pub why: String,
}

impl ChainError {
    pub fn kind(&self) -> Kind {
        Kind::Invalid
    }
}

impl Chain<'_> {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.patches.is_empty() && !self.paused
    }
}

/// Applies all changes. All steps share one budget.
pub fn change(
    objects: Vec<Object>,
    chain: &Chain<'_>,
    budget: &Budget<'_>,
) -> Result<Vec<Object>, ChainError> {
    let objects = roles::change(objects, chain.roles, budget)?;
    let objects = patches::change(objects, chain.patches, budget)?;
    if !chain.paused {
        return Ok(objects);
    }
    let bytes: usize = objects.iter().map(|object| size::bytes(object.value())).sum();
    size::copy(budget, bytes).map_err(|why| ChainError { place: "spec.paused".to_owned(), why })?;
    Ok(pause::all(objects))
}

/// Overrides whose workload does not exist. They are kept, because a later chart version may contain it again; callers report them to the
/// user.
pub fn idle<'a>(objects: &[Object], roles: &'a [RoleOverride]) -> Vec<&'a RoleOverride> {
    let workloads = objects.iter().filter(|object| roles::is_workload(object));
    let workloads: HashSet<(&str, &str)> = workloads.map(|object| (object.kind(), object.name())).collect();
    roles.iter().filter(|role| !workloads.contains(&(role.kind.as_str(), role.name.as_str()))).collect()
}

/// Whether Helm runs this object as a hook.
fn is_hook(object: &Object) -> bool {
    object.annotation("helm.sh/hook").is_some()
}

#[cfg(test)]
mod tests;
