//! Removes owned objects from a cluster, in Helm's order.

use futures::FutureExt;
use kube::api::PropagationPolicy;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::ObjectError;
use crate::object::Object;
use crate::order;
use crate::ownership::Ownership;
use crate::progress::{ProgressEvent, ProgressSink};
use crate::readiness;
use crate::request;
use crate::target::{ResolvedObject, Target};

pub(crate) const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
const KEEP: &str = "keep";

/// Options of a removal.
#[derive(Clone, Debug)]
pub struct RemoveOptions {
    /// Deletion propagation for dependents.
    pub propagation: PropagationPolicy,
    /// Owner of the objects. Objects of another release are kept.
    pub ownership: Option<Ownership>,
    /// Wait for the deletion until this time.
    pub wait_until: Option<Instant>,
    pub dry_run: bool,
}

impl Default for RemoveOptions {
    fn default() -> Self {
        Self { propagation: PropagationPolicy::Background, ownership: None, wait_until: None, dry_run: false }
    }
}

/// Result of a removal.
#[derive(Debug, Default)]
pub struct RemoveResult {
    /// Deleted, or already missing.
    pub removed: Vec<Object>,
    /// Kept by their annotation or because they have another owner.
    pub kept: Vec<Object>,
}

/// Some objects could not be removed. All were tried.
#[derive(Debug)]
pub struct RemoveError {
    pub failures: Vec<ObjectError>,
    pub removed: RemoveResult,
}

impl RemoveError {
    pub fn kind(&self) -> domain::ErrorKind {
        self.failures.first().map_or(domain::ErrorKind::Internal, ObjectError::kind)
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
    options: &RemoveOptions,
    progress: &dyn ProgressSink,
) -> Result<RemoveResult, RemoveError> {
    remove_resolved(target, target.resolve_previous(objects), options, progress).await
}

/// Whether the object has the `keep` resource policy.
pub fn is_kept(object: &Object) -> bool {
    object.annotation(RESOURCE_POLICY) == Some(KEEP)
}

enum RemoveOutcome {
    Removed(ResolvedObject),
    Kept(Object),
}

pub(crate) async fn remove_resolved(
    target: &Target,
    placed: Vec<ResolvedObject>,
    options: &RemoveOptions,
    progress: &dyn ProgressSink,
) -> Result<RemoveResult, RemoveError> {
    let (mut removed, mut failures, mut going) = (RemoveResult::default(), Vec::new(), Vec::new());
    for wave in order::uninstall_waves(placed) {
        let fates = wave.into_iter().map(|placed| remove_one(target, placed, options, progress).boxed());
        let fates = request::run_all(fates.collect()).await;
        for fate in fates {
            match fate {
                Ok(RemoveOutcome::Removed(placed)) => going.push(placed),
                Ok(RemoveOutcome::Kept(object)) => removed.kept.push(object),
                Err(failure) => failures.push(failure),
            }
        }
    }
    if let Some(deadline) = options.wait_until.filter(|_| !options.dry_run) {
        failures.extend(readiness::wait_until_deleted(target, &going, deadline, progress).await);
    }
    removed.removed = going.into_iter().map(|placed| placed.object).collect();
    if failures.is_empty() { Ok(removed) } else { Err(RemoveError { failures, removed }) }
}

async fn remove_one(
    target: &Target,
    placed: ResolvedObject,
    options: &RemoveOptions,
    progress: &dyn ProgressSink,
) -> Result<RemoveOutcome, ObjectError> {
    let id = placed.id();
    let failed = |error: &kube::Error| ObjectError::from_api_error(&placed.object, placed.id(), error);
    let client = target.client_for(&placed);
    let found = request::get_metadata(client, &placed).await.map_err(|error| failed(&error))?;
    let Some(found) = found else {
        progress.report(ProgressEvent::Removed { id });
        return Ok(RemoveOutcome::Removed(placed));
    };
    if let Some(reason) = reason_to_keep(&placed.object, &found, options.ownership.as_ref()) {
        progress.report(ProgressEvent::Kept { id, reason });
        return Ok(RemoveOutcome::Kept(placed.object));
    }
    progress.report(ProgressEvent::Removing { id: id.clone() });
    let uid = found["metadata"]["uid"].as_str().map(ToOwned::to_owned);
    let deleted = request::delete(client, &placed, uid, options.propagation.clone(), options.dry_run).await;
    deleted.map_err(|error| failed(&error))?;
    progress.report(ProgressEvent::Removed { id });
    Ok(RemoveOutcome::Removed(placed))
}

/// Reason to keep an object.
fn reason_to_keep(wanted: &Object, live: &Value, ownership: Option<&Ownership>) -> Option<String> {
    let keeps = live["metadata"]["annotations"][RESOURCE_POLICY] == KEEP || is_kept(wanted);
    if keeps {
        return Some(format!("it has the annotation {RESOURCE_POLICY}: {KEEP}"));
    }
    let other = ownership.and_then(|ownership| ownership.other_owner(live))?;
    Some(format!("it belongs to the release {other}"))
}
