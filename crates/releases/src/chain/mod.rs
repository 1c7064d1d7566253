//! What happens to the objects of a release between rendering and applying, on every install, upgrade and rollback:
//! role overrides, then `spec.patches`, then pause.
//!
//! Nothing is remembered: each time the chain starts from what the chart says, so that taking an override, a patch or the
//! pause away is to render again without it.
//!
//! Always true: no object becomes another one (kind, name, namespace, whose it is), and no selector changes; a patch
//! that would is refused, and named by its place. What Helm runs as a hook is changed by patches only: a hook that is
//! held at zero would hold up the very operation.
//! Elsewhere: plugins, which will be the first link of the chain.

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

/// What is to be different from what the chart says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chain<'a> {
    pub roles: &'a [RoleOverride],
    pub patches: &'a [Patch],
    pub paused: bool,
}

/// Why the objects cannot be changed so. It names places and objects, and repeats nothing of what stands there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ChainError {
    /// `spec.patches[2]`
    pub place: String,
    pub why: String,
}

impl ChainError {
    pub fn kind(&self) -> Kind {
        Kind::Invalid
    }
}

impl Chain<'_> {
    /// Nothing is to be different.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.patches.is_empty() && !self.paused
    }
}

/// The objects as they are to be applied. All of it draws on one budget.
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

/// The overrides whose workload is not there. They are kept, as the chart may bring it back; who sets one wants to know.
pub fn idle<'a>(objects: &[Object], roles: &'a [RoleOverride]) -> Vec<&'a RoleOverride> {
    let workloads = objects.iter().filter(|object| roles::is_workload(object));
    let workloads: HashSet<(&str, &str)> = workloads.map(|object| (object.kind(), object.name())).collect();
    roles.iter().filter(|role| !workloads.contains(&(role.kind.as_str(), role.name.as_str()))).collect()
}

/// What Helm runs at a certain moment instead of keeping it.
fn is_hook(object: &Object) -> bool {
    object.annotation("helm.sh/hook").is_some()
}

#[cfg(test)]
mod tests;
