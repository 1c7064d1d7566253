//! Removes owned objects from a cluster, in Helm's order.

use futures::FutureExt;
use kube::api::PropagationPolicy;
use serde_json::Value;
use tokio::time::Instant;

use crate::call;
use crate::error::Failure;
use crate::object::Object;
use crate::order;
use crate::owner::Ownership;
use crate::ready;
use crate::target::{Placed, Target};
use crate::tell::{Step, Tell};

pub(crate) const POLICY: &str = "helm.sh/resource-policy";
const KEEP: &str = "keep";

/// Options of a removal.
#[derive(Clone, Debug)]
pub struct Removal {
    /// Deletion propagation for dependents.
    pub propagation: PropagationPolicy,
    /// Owner of the objects. Objects of another release are kept.
    pub ownership: Option<Ownership>,
    /// Wait for the deletion until this time.
    pub wait_until: Option<Instant>,
    pub dry_run: bool,
}

impl Default for Removal {
    fn default() -> Self {
        Self { propagation: PropagationPolicy::Background, ownership: None, wait_until: None, dry_run: false }
    }
}

/// Result of a removal.
#[derive(Debug, Default)]
pub struct Removed {
    /// Deleted, or already missing.
    pub removed: Vec<Object>,
    /// Kept by their annotation or because they have another owner.
    pub kept: Vec<Object>,
}

/// Some objects could not be removed. All were tried.
#[derive(Debug)]
pub struct RemoveError {
    pub failures: Vec<Failure>,
    pub removed: Removed,
}

impl RemoveError {
    pub fn kind(&self) -> domain::Kind {
        self.failures.first().map_or(domain::Kind::Internal, Failure::kind)
    }
}

impl std::fmt::Display for RemoveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let failures: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
        f.write_str(&failures.join("; "))
    }
}

impl std::error::Error for RemoveError {}

/// Removes objects. Kinds that the cluster no longer serves have no objects.
pub async fn remove(
    target: &Target,
    objects: &[Object],
    how: &Removal,
    tell: &dyn Tell,
) -> Result<Removed, RemoveError> {
    take_away(target, target.place_former(objects), how, tell).await
}

/// Whether the object has the `keep` resource policy.
pub fn is_kept(object: &Object) -> bool {
    object.annotation(POLICY) == Some(KEEP)
}

enum Fate {
    Removed(Placed),
    Kept(Object),
}

pub(crate) async fn take_away(
    target: &Target,
    placed: Vec<Placed>,
    how: &Removal,
    tell: &dyn Tell,
) -> Result<Removed, RemoveError> {
    let (mut removed, mut failures, mut going) = (Removed::default(), Vec::new(), Vec::new());
    for wave in order::uninstall(placed) {
        let fates = wave.into_iter().map(|placed| take_one(target, placed, how, tell).boxed());
        let fates = call::all(fates.collect()).await;
        for fate in fates {
            match fate {
                Ok(Fate::Removed(placed)) => going.push(placed),
                Ok(Fate::Kept(object)) => removed.kept.push(object),
                Err(failure) => failures.push(failure),
            }
        }
    }
    if let Some(deadline) = how.wait_until.filter(|_| !how.dry_run) {
        failures.extend(ready::wait_gone(target, &going, deadline, tell).await);
    }
    removed.removed = going.into_iter().map(|placed| placed.object).collect();
    if failures.is_empty() { Ok(removed) } else { Err(RemoveError { failures, removed }) }
}

async fn take_one(target: &Target, placed: Placed, how: &Removal, tell: &dyn Tell) -> Result<Fate, Failure> {
    let id = placed.id();
    let failed = |error: &kube::Error| Failure::of_cluster(&placed.object, placed.id(), error);
    let client = target.client_for(&placed);
    let found = call::get_metadata(client, &placed).await.map_err(|error| failed(&error))?;
    let Some(found) = found else {
        tell.tell(Step::Removed { id });
        return Ok(Fate::Removed(placed));
    };
    if let Some(reason) = reason_to_keep(&placed.object, &found, how.ownership.as_ref()) {
        tell.tell(Step::Kept { id, reason });
        return Ok(Fate::Kept(placed.object));
    }
    tell.tell(Step::Removing { id: id.clone() });
    let uid = found["metadata"]["uid"].as_str().map(ToOwned::to_owned);
    let deleted = call::delete(client, &placed, uid, how.propagation.clone(), how.dry_run).await;
    deleted.map_err(|error| failed(&error))?;
    tell.tell(Step::Removed { id });
    Ok(Fate::Removed(placed))
}

/// Reason to keep an object.
fn reason_to_keep(wanted: &Object, live: &Value, ownership: Option<&Ownership>) -> Option<String> {
    let keeps = live["metadata"]["annotations"][POLICY] == KEEP || is_kept(wanted);
    if keeps {
        return Some(format!("it has the annotation {POLICY}: {KEEP}"));
    }
    let other = ownership.and_then(|ownership| ownership.other_owner(live))?;
    Some(format!("it belongs to the release {other}"))
}
