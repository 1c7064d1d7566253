//! Migration from client-side apply: the last-applied annotation lets `kubectl` take over its own fields, and is kept up to date.

use serde_json::Value;

use super::{
    ApplyContext, compare::compare, field_ownership, fieldset::FieldSet, updater::Conflict, validate,
};
use crate::go;

/// The only manager with this migration.
pub const KUBECTL_MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum total size of an object's annotations, keys and values.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Returns the conflicts on fields that the annotation does not show to be kubectl's own; all conflicts if there is no usable annotation.
pub fn remaining_conflicts(ctx: &ApplyContext<'_>, live: &Value, conflicts: Vec<Conflict>) -> Vec<Conflict> {
    let Some(own) = own_fields(ctx, live) else { return conflicts };
    conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect()
}

/// Returns the fields of the last client-side apply that have not changed since.
fn own_fields(ctx: &ApplyContext<'_>, live: &Value) -> Option<FieldSet> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != ctx.api_version {
        return None;
    }
    let root = ctx.root();
    validate::validate(root, live).ok()?;
    validate::validate(root, &last).ok()?;
    let difference = compare(root, &last, live).ok()?;
    let set = field_ownership::field_set(root, &last);
    Some(set.difference(&difference.modified).difference(&difference.added).difference(&difference.removed))
}

/// Updates the annotation if the object has it.
pub fn refresh_annotation(object: &mut Value, body: &Value) {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = body.clone();
    if let Some(own) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        own.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), format!("{}\n", go::json(&applied)).into());
    let size: usize =
        annotations.iter().map(|(name, text)| name.len() + text.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}
