//! Detects and corrects drift: live objects that differ from their manifests.
//!
//! A server-side dry run shows what an apply would change, so defaults and fields of other managers are not drift.
//! Ignored fields keep their live value, in detection and correction.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Map, Value};

use crate::apply::{Applied, marked};
use crate::call::{self, Mode};
use crate::compute::{self, are_large};
use crate::diff::{Change, compare};
use crate::error::{ApplyError, Failure};
use crate::mask::Mask;
use crate::merge::difference;
use crate::object::{Id, Object};
use crate::owner::Ownership;
use crate::target::{Placed, Target};
use crate::tell::{Outcome, Step, Tell};

/// Annotation or label that disables drift detection of an object, as in Flux.
const SWITCH: &str = "helm.toolkit.fluxcd.io/driftDetection";
const OFF: &str = "disabled";

/// Maximum bytes of reported changes per object.
const MOST_CHANGES: usize = 1 << 20;

const CHECK: Mode = Mode { dry_run: true, validate: false };
const WRITE: Mode = Mode { dry_run: false, validate: false };

/// JSON pointers of an object's fields that may differ.
pub type Ignored<'a> = dyn Fn(&Object) -> Vec<String> + Sync + 'a;

/// An object that differs from its manifest.
pub struct Drift {
    pub id: Id,
    /// `None` if the object is missing. Values are masked: `before` is live, `after` is desired.
    pub changes: Option<Vec<Change>>,
    placed: Placed,
    /// Contains unmasked values; never shown.
    patch: Option<Value>,
}

impl Drift {
    /// Approximate size of the changes.
    pub fn bytes(&self) -> usize {
        self.changes.iter().flatten().map(Change::bytes).fold(0, usize::saturating_add)
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
    ignored: &Ignored<'_>,
    sensitive: &[String],
) -> Result<Vec<Drift>, Vec<Failure>> {
    let watched: Vec<Object> = objects.iter().filter(|object| is_watched(object)).cloned().collect();
    let large = are_large(objects.iter().map(Object::value));
    let (placed, ownership) = (target.place(&watched).await?, ownership.clone());
    let (objects, sensitive) = (objects.to_vec(), sensitive.to_vec());
    let prepare = move || (marked(placed, Some(&ownership)), Arc::new(Mask::new(&objects, &sensitive)));
    let (placed, mask) = compute::run(large, prepare).await;
    let looks = placed.into_iter().map(|placed| look(target, placed, ignored, &mask).boxed());
    let answers = call::all(looks.collect()).await;
    let (mut drifts, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(drift) => drifts.extend(drift),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(drifts) } else { Err(failures) }
}

fn is_watched(object: &Object) -> bool {
    let off = [object.annotation(SWITCH), object.label(SWITCH)].contains(&Some(OFF));
    !off && !object.name().is_empty()
}

async fn look(
    target: &Target,
    placed: Placed,
    ignored: &Ignored<'_>,
    mask: &Arc<Mask>,
) -> Result<Option<Drift>, Failure> {
    let failed = |error: &kube::Error| Failure::of_cluster(&placed.object, placed.id(), error);
    let live = call::get(target.client_for(&placed), &placed).await.map_err(|error| failed(&error))?;
    let id = placed.id();
    let Some(live) = live else { return Ok(Some(Drift { id, changes: None, placed, patch: None })) };
    let wanted = call::apply(target.client_for(&placed), &placed, true, CHECK).await;
    let wanted = wanted.map_err(|error| failed(&error))?;
    let (large, pointers, mask) = (are_large([&live, &wanted]), ignored(&placed.object), mask.clone());
    let found = compute::run(large, move || changes(live, wanted, &pointers, &mask)).await;
    Ok(found.map(|(changes, patch)| Drift { id, changes: Some(changes), placed, patch: Some(patch) }))
}

/// Masked differences, and the merge patch from `live` to `wanted`.
fn changes(live: Value, wanted: Value, ignored: &[String], mask: &Mask) -> Option<(Vec<Change>, Value)> {
    let (live, mut wanted) = (stable(live), stable(wanted));
    for pointer in ignored {
        leave(&mut wanted, &live, pointer);
    }
    let patch = difference(&live, &wanted)?;
    let (before, after) = mask.pair(Some(&live), Some(&wanted));
    let (changes, _) = compare(before.as_ref(), after.as_ref(), MOST_CHANGES);
    Some((changes, patch))
}

/// Removes the fields that the API server maintains.
fn stable(mut object: Value) -> Value {
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
fn leave(wanted: &mut Value, live: &Value, pointer: &str) {
    let Some((above, last)) = pointer.rsplit_once('/') else { return };
    let last = last.replace("~1", "/").replace("~0", "~");
    match live.pointer(pointer) {
        Some(there) => {
            if let Some(place) = make(wanted, above) {
                set(place, &last, Some(there.clone()));
            }
        }
        None => {
            if let Some(place) = wanted.pointer_mut(above) {
                set(place, &last, None);
            }
        }
    }
}

/// Value at the pointer; creates missing maps on the way.
fn make<'a>(mut value: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
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

fn set(place: &mut Value, last: &str, value: Option<Value>) {
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
pub fn text(drifts: &[Drift]) -> String {
    drifts.iter().map(said).collect()
}

fn said(drift: &Drift) -> String {
    let Some(changes) = &drift.changes else { return format!("{} is not there\n", drift.id) };
    let mut lines = vec![drift.id.to_string()];
    for Change { path, before, after } in changes {
        lines.extend(after.iter().map(|wanted| format!("- {path}: {wanted}")));
        lines.extend(before.iter().map(|there| format!("+ {path}: {there}")));
    }
    lines.join("\n") + "\n"
}

/// Corrects the drift. Ignored fields keep their values.
pub async fn correct(target: &Target, drifts: &[Drift], tell: &dyn Tell) -> Result<Applied, ApplyError> {
    let writes = drifts.iter().map(|drift| async move {
        tell.tell(Step::Applying { id: drift.id.clone() });
        let outcome = put_right(target, drift).await;
        match &outcome {
            Ok(outcome) => tell.tell(Step::Applied { id: drift.id.clone(), outcome: *outcome }),
            Err(failure) => tell.tell(Step::Failed { id: drift.id.clone(), reason: failure.why.to_string() }),
        }
        (drift, outcome)
    });
    let answers = call::all(writes.map(FutureExt::boxed).collect()).await;
    let (mut applied, mut failures) = (Applied::default(), Vec::new());
    for (drift, outcome) in answers {
        match outcome {
            Ok(Outcome::Created) => applied.created.push(drift.placed.object.clone()),
            Ok(_) => applied.changed.push(drift.placed.object.clone()),
            Err(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() { Ok(applied) } else { Err(ApplyError { failures, applied }) }
}

async fn put_right(target: &Target, drift: &Drift) -> Result<Outcome, Failure> {
    let placed = &drift.placed;
    let failed = |error: &kube::Error| Failure::of_cluster(&placed.object, placed.id(), error);
    let client = target.client_for(placed);
    let done = match &drift.patch {
        None => call::apply(client, placed, false, WRITE).await.map(|_| Outcome::Created),
        Some(patch) => call::merge(client, placed, patch, WRITE).await.map(|_| Outcome::Changed),
    };
    done.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests;
