//! Fields of an object that post-rendering may not change.

use kube_apply::Object;
use serde_json::Value;

/// Labels and annotations that identify the owner of an object and mark it as a hook.
#[rustfmt::skip]
const IMMUTABLE_METADATA: &[(&str, &str)] = &[
    ("labels",      "app.kubernetes.io/managed-by"),
    ("annotations", "meta.helm.sh/release-name"),
    ("annotations", "meta.helm.sh/release-namespace"),
    ("annotations", "helm.sh/hook"),
];

/// The first protected field that differs between `before` and `after`.
pub fn changed_immutable_field(before: &Object, after: &Value) -> Option<String> {
    let before = before.value();
    let fields = [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("metadata.name", "/metadata/name"),
        ("metadata.generateName", "/metadata/generateName"),
        ("metadata.namespace", "/metadata/namespace"),
        ("spec.selector", "/spec/selector"),
    ];
    let field = fields.iter().find(|(_, pointer)| before.pointer(pointer) != after.pointer(pointer));
    if let Some((name, _)) = field {
        return Some((*name).to_owned());
    }
    let mark = |object: &Value, (place, key): &(&str, &str)| object["metadata"][*place].get(*key).cloned();
    let mark = IMMUTABLE_METADATA.iter().find(|row| mark(before, row) != mark(after, row));
    mark.map(|(place, key)| format!("metadata.{place}[{key}]"))
}
