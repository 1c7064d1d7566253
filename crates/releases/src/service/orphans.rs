//! Objects that a forced deletion, or an uninstallation without `asAdministrator`, leaves behind.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube_apply::{LiveObject, Object, Target, read_live};
use kube_types::release::InventoryEntry;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use kube_apply::ownership::Ownership;

/// Maximum number of concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

/// Object that was not deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct OrphanedObject {
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub why: String,
}

impl std::fmt::Display for OrphanedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name, why } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{kind} {namespace}{slash}{name} ({why})")
    }
}

/// An object that an operation without `asAdministrator` leaves in place.
pub(crate) fn administrator_orphan(entry: &InventoryEntry) -> OrphanedObject {
    let InventoryEntry { group: _, kind, namespace, name } = entry.clone();
    OrphanedObject {
        kind,
        namespace,
        name,
        why: "only an administrator can delete it (asAdministrator)".to_owned(),
    }
}

/// Which of these objects still exist and are readable. Objects of another release are omitted.
pub(crate) async fn find_orphans(
    target: &Target,
    objects: &[Object],
    owner: &Ownership,
) -> Vec<OrphanedObject> {
    // Read one by one: a failure for one object does not hide the others.
    let looks: Vec<_> =
        objects.iter().map(|object| read_live(target, std::slice::from_ref(object))).collect();
    let mut looks = stream::iter(looks).buffer_unordered(MAX_CONCURRENT_READS);
    let mut left = BTreeSet::new();
    while let Some(looked) = looks.next().await {
        left.extend(looked.iter().flatten().filter_map(|seen| orphan_from_live(seen, owner)));
    }
    left.into_iter().collect()
}

fn orphan_from_live(seen: &LiveObject, owner: &Ownership) -> Option<OrphanedObject> {
    let value = seen.value.as_ref()?;
    if owner.other_owner(value).is_some() {
        return None;
    }
    let metadata = &value["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let finalizers = finalizers.collect::<Vec<_>>().join(", ");
    let why = if metadata["annotations"]["helm.sh/resource-policy"] == "keep" {
        "its resource policy is keep".to_owned()
    } else if metadata["deletionTimestamp"].is_null() {
        "deletion failed".to_owned()
    } else if finalizers.is_empty() {
        "it is being deleted".to_owned()
    } else {
        format!("it is being deleted and waits for {finalizers}")
    };
    let text = |place: &Value| place.as_str().unwrap_or_default().to_owned();
    Some(OrphanedObject {
        kind: seen.id.kind.clone(),
        namespace: text(&metadata["namespace"]),
        name: text(&metadata["name"]),
        why,
    })
}
