//! Detects and corrects drift: live objects that differ from their manifests.
//!
//! A server-side dry run shows the changes of an apply, so defaults and fields of other managers are not drift. Ignored
//! fields keep their live value, in detection and correction.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Map, Value};

use crate::apply::{ApplyResult, with_ownership};
use crate::compute::are_large;
use crate::diff::{FieldDiff, compare};
use crate::error::{ApplyError, ObjectError};
use crate::mask::Mask;
use crate::merge::merge_patch;
use crate::object::{Object, ObjectId};
use crate::ownership::Ownership;
use crate::progress::{ProgressEvent, ProgressSink, WriteOutcome};
use crate::request::{self, WriteMode};
use crate::target::{ResolvedObject, Target};

/// Annotation or label that disables drift detection of an object, as in Flux.
const DRIFT_DETECTION: &str = "helm.toolkit.fluxcd.io/driftDetection";
const DISABLED: &str = "disabled";

/// Maximum bytes of reported changes per object.
const MAX_CHANGES_BYTES: usize = 1 << 20;

const DRY_RUN_MODE: WriteMode = WriteMode { dry_run: true, validate: false };
const WRITE_MODE: WriteMode = WriteMode { dry_run: false, validate: false };

/// JSON pointers of an object's fields that may differ.
pub type IgnorePathsFn<'a> = dyn Fn(&Object) -> Vec<String> + Sync + 'a;

/// An object that differs from its manifest.
pub struct Drift {
    pub id: ObjectId,
    /// `None` if the object is missing. Values are masked: `before` is live, `after` is desired.
    pub changes: Option<Vec<FieldDiff>>,
    placed: ResolvedObject,
    /// Contains unmasked values; never shown.
    patch: Option<Value>,
}

impl Drift {
    /// Approximate size of the changes.
    pub fn bytes(&self) -> usize {
        self.changes.iter().flatten().map(FieldDiff::bytes).fold(0, usize::saturating_add)
    }
}

/// Ids and field paths only.
impl fmt::Debug for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string())
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.changes {
            None => write!(f, "{} is missing", self.id),
            Some(changes) => {
                let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
                write!(f, "{} differs at {}", self.id, paths.join(", "))
            }
        }
    }
}

/// Finds all objects that differ from their manifests. Writes nothing.
pub async fn find(
    target: &Target,
    objects: &[Object],
    ownership: &Ownership,
    ignored: &IgnorePathsFn<'_>,
    sensitive: &[String],
) -> Result<Vec<Drift>, Vec<ObjectError>> {
    let watched: Vec<Object> =
        objects.iter().filter(|object| is_detection_enabled(object)).cloned().collect();
    let large = are_large(objects.iter().map(Object::value));
    let (placed, ownership) = (target.resolve(&watched).await?, ownership.clone());
    let (objects, sensitive) = (objects.to_vec(), sensitive.to_vec());
    let prepare =
        move || (with_ownership(placed, Some(&ownership)), Arc::new(Mask::new(&objects, &sensitive)));
    let (placed, mask) = target.compute.run(large, prepare).await;
    let looks = placed.into_iter().map(|placed| detect(target, placed, ignored, &mask).boxed());
    let answers = request::run_all(looks.collect()).await;
    let (mut drifts, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(drift) => drifts.extend(drift),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(drifts) } else { Err(failures) }
}

fn is_detection_enabled(object: &Object) -> bool {
    let off = [object.annotation(DRIFT_DETECTION), object.label(DRIFT_DETECTION)].contains(&Some(DISABLED));
    !off && !object.name().is_empty()
}

async fn detect(
    target: &Target,
    placed: ResolvedObject,
    ignored: &IgnorePathsFn<'_>,
    mask: &Arc<Mask>,
) -> Result<Option<Drift>, ObjectError> {
    let failed = |error: &kube::Error| ObjectError::from_api_error(&placed.object, placed.id(), error);
    let live = request::get(target.client_for(&placed), &placed).await.map_err(|error| failed(&error))?;
    let id = placed.id();
    let Some(live) = live else { return Ok(Some(Drift { id, changes: None, placed, patch: None })) };
    let wanted = request::apply(target.client_for(&placed), &placed, true, DRY_RUN_MODE).await;
    let wanted = wanted.map_err(|error| failed(&error))?;
    let (large, pointers, mask) = (are_large([&live, &wanted]), ignored(&placed.object), mask.clone());
    let found = target.compute.run(large, move || masked_changes(live, wanted, &pointers, &mask)).await;
    Ok(found.map(|(changes, patch)| Drift { id, changes: Some(changes), placed, patch: Some(patch) }))
}

/// Masked differences, and the merge patch from `live` to `wanted`.
fn masked_changes(
    live: Value,
    wanted: Value,
    ignored: &[String],
    mask: &Mask,
) -> Option<(Vec<FieldDiff>, Value)> {
    let (live, mut wanted) = (without_server_fields(live), without_server_fields(wanted));
    for pointer in ignored {
        keep_live_value(&mut wanted, &live, pointer);
    }
    let patch = merge_patch(&live, &wanted)?;
    let (before, after) = mask.mask_pair(Some(&live), Some(&wanted));
    let (changes, _) = compare(before.as_ref(), after.as_ref(), MAX_CHANGES_BYTES);
    Some((changes, patch))
}

/// Removes the fields that the API server maintains.
fn without_server_fields(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// Copies the value at the pointer from `live`, or removes it if `live` has none.
fn keep_live_value(wanted: &mut Value, live: &Value, pointer: &str) {
    let Some((above, last)) = pointer.rsplit_once('/') else { return };
    let last = last.replace("~1", "/").replace("~0", "~");
    match live.pointer(pointer) {
        Some(there) => {
            if let Some(place) = pointer_or_insert(wanted, above) {
                set_member(place, &last, Some(there.clone()));
            }
        }
        None => {
            if let Some(place) = wanted.pointer_mut(above) {
                set_member(place, &last, None);
            }
        }
    }
}

/// Value at the pointer; creates missing maps on the way.
fn pointer_or_insert<'a>(mut value: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = match value {
            Value::Object(map) => map.entry(token).or_insert_with(|| Value::Object(Map::new())),
            Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

fn set_member(place: &mut Value, last: &str, value: Option<Value>) {
    match (place, value) {
        (Value::Object(map), Some(value)) => _ = map.insert(last.to_owned(), value),
        (Value::Object(map), None) => _ = map.remove(last),
        (Value::Array(items), Some(value)) => {
            if let Some(item) = last.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
                *item = value;
            }
        }
        _ => {}
    }
}

/// Text for users: desired and live values.
pub fn describe_all(drifts: &[Drift]) -> String {
    drifts.iter().map(describe).collect()
}

fn describe(drift: &Drift) -> String {
    let Some(changes) = &drift.changes else { return format!("{} not found\n", drift.id) };
    let mut lines = vec![drift.id.to_string()];
    for FieldDiff { path, before, after } in changes {
        lines.extend(after.iter().map(|wanted| format!("- {path}: {wanted}")));
        lines.extend(before.iter().map(|there| format!("+ {path}: {there}")));
    }
    lines.join("\n") + "\n"
}

/// Corrects the drift. Ignored fields keep their values.
pub async fn correct(
    target: &Target,
    drifts: &[Drift],
    progress: &dyn ProgressSink,
) -> Result<ApplyResult, ApplyError> {
    let writes = drifts.iter().map(|drift| async move {
        progress.report(ProgressEvent::Applying { id: drift.id.clone() });
        let outcome = correct_one(target, drift).await;
        match &outcome {
            Ok(outcome) => {
                progress.report(ProgressEvent::Applied { id: drift.id.clone(), outcome: *outcome });
            }
            Err(failure) => progress
                .report(ProgressEvent::Failed { id: drift.id.clone(), reason: failure.error.to_string() }),
        }
        (drift, outcome)
    });
    let answers = request::run_all(writes.map(FutureExt::boxed).collect()).await;
    let (mut applied, mut failures) = (ApplyResult::default(), Vec::new());
    for (drift, outcome) in answers {
        match outcome {
            Ok(WriteOutcome::Created) => applied.created.push(drift.placed.object.clone()),
            Ok(_) => applied.changed.push(drift.placed.object.clone()),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(applied) } else { Err(ApplyError { failures, applied }) }
}

async fn correct_one(target: &Target, drift: &Drift) -> Result<WriteOutcome, ObjectError> {
    let placed = &drift.placed;
    let failed = |error: &kube::Error| ObjectError::from_api_error(&placed.object, placed.id(), error);
    let client = target.client_for(placed);
    let done = match &drift.patch {
        None => request::apply(client, placed, false, WRITE_MODE).await.map(|_| WriteOutcome::Created),
        Some(patch) => request::merge(client, placed, patch, WRITE_MODE).await.map(|_| WriteOutcome::Changed),
    };
    done.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests;
