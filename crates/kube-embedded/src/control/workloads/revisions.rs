//! Controller history: each template of a StatefulSet or DaemonSet is stored as a `ControllerRevision`.
//!
//! The data is a patch that restores the template (`kubectl rollout undo` sends it unchanged). Revisions
//! are equal if their patches are; a rollback to an old template gives its revision a new number.
//!
//! See also: the two controllers choose the current revision and delete old ones.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::pods::{self, Owner};
use crate::control::view::Meta;
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::store::{Key, Object};

pub const REVISIONS: &str = "controllerrevisions.apps";

/// Label of a pod: the revision of its owner.
pub const POD_LABEL: &str = "controller-revision-hash";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "Kubernetes calls it so")]
pub struct Revision {
    pub metadata: Meta,
    pub data: Value,
    pub revision: i64,
}

impl Revision {
    /// The stored template.
    pub fn template(&self) -> Value {
        let mut template = self.data["spec"]["template"].clone();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        template
    }
}

/// The patch for a template.
pub fn template_patch(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The hash in a revision's name. For StatefulSets it equals Kubernetes' value: of the patch in Go's JSON encoding, and
/// of the number of collisions.
pub fn hash(data: &Value, collisions: i64) -> String {
    // An alphabet that cannot form words.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // Go's additional escapes in JSON; these characters occur only inside strings.
    let text = data
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let fnv = |hash: u32, byte: u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    let sum = text.bytes().chain(collisions.to_string().bytes()).fold(0x811c_9dc5, fnv);
    sum.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Formats as `<owner>-<hash>`.
pub fn name(owner: &str, hash: &str) -> String {
    let prefix = owner.get(..223).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// Returns the revisions of `owner`, oldest first. Matching ones without controller are adopted.
pub async fn owned_revisions(
    context: &Context,
    owner: &Owner<'_>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    let mut found = pods::claim_from(context, owner, selector, REVISIONS, |_| true).await?;
    found.sort_by_cached_key(|object| {
        let revision = object.view::<Revision>();
        (revision.revision, revision.metadata.creation_timestamp, object.name.clone())
    });
    Ok(found)
}

/// A revision to create.
pub struct NewRevision<'a> {
    pub owner: &'a Owner<'a>,
    /// The owner's annotations are copied: they may contain the change cause.
    pub annotations: &'a std::collections::BTreeMap<String, String>,
    pub data: &'a Value,
    pub revision: i64,
    /// The label with the hash.
    pub label: &'static str,
}

/// Creates a revision, or returns the one created before a crash. `collisions` counts different revisions with
/// the same name.
pub async fn create(
    context: &Context,
    new: &NewRevision<'_>,
    collisions: &mut i64,
) -> Result<Arc<Object>, ReconcileError> {
    let owner = new.owner.object;
    loop {
        let hash = hash(new.data, *collisions);
        let name = name(&owner.name, &hash);
        let labels = &new.data["spec"]["template"]["metadata"]["labels"];
        let mut labels = labels.as_object().cloned().unwrap_or_else(Map::new);
        labels.insert(new.label.to_owned(), hash.into());
        let mut metadata = json!({
            "name": name, "namespace": owner.namespace, "labels": labels,
            "ownerReferences": [new.owner.reference()],
        });
        if !new.annotations.is_empty() {
            metadata["annotations"] = json!(new.annotations);
        }
        let document = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
            "data": new.data, "revision": new.revision,
        });
        match context.client.create(Component::ControllerManager, document).await {
            Err(error) if is_already_exists(&error) => {
                match context.store.get(REVISIONS, &owner.namespace, &name) {
                    Some(found) if found.view::<Revision>().data == *new.data => return Ok(found),
                    Some(_) => *collisions += 1,
                    None => return Err(error.into()),
                }
            }
            created => return Ok(created?),
        }
    }
}

fn is_already_exists(error: &ApiError) -> bool {
    error.reason == "AlreadyExists"
}

/// Sets the number of a revision.
pub async fn renumber(
    context: &Context,
    object: &Object,
    revision: i64,
) -> Result<Arc<Object>, ReconcileError> {
    let mut document = object.value();
    document["revision"] = revision.into();
    Ok(context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?)
}

pub async fn delete(context: &Context, object: &Object) -> Result<(), ReconcileError> {
    let key = Key::new(&REVISIONS.into(), &object.namespace, &object.name);
    let this = Preconditions { uid: &object.uid, version: None };
    Ok(ignore_not_found_or_conflict(context.client.delete(&key, this, Propagation::Background).await)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_hash_matches_kubernetes() {
        // Recorded from a real control plane.
        let template = json!({
            "metadata": {"labels": {"app": "vol", "x": "y"}, "annotations": {"t": "1"}},
            "spec": {
                "containers": [{
                    "name": "main", "image": "app:1", "command": ["sh", "-c", "a < b && c > d"],
                    "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "volumeMounts": [{"name": "data", "mountPath": "/d"}],
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        });
        let data = template_patch(&template);
        assert_eq!(hash(&data, 0), "58bf9b9974");
        assert_ne!(hash(&data, 1), hash(&data, 0));
        let kept = Revision { data, ..Revision::default() };
        assert_eq!(kept.template(), template);
    }

    #[test]
    fn long_name_is_truncated_before_the_hash() {
        assert_eq!(name(&"n".repeat(253), "h").len(), 225);
        assert_eq!(name("db", "h"), "db-h");
    }
}
