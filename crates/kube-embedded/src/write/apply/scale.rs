//! Field ownership through `/scale`: the parent's replicas field is the Scale's `.spec.replicas`.
//!
//! A write to `/scale` runs [`update`](super::update) or [`apply`](super::apply) on the Scale: set the entries of [`to_scale`] on the live
//! Scale, and afterwards the entries of [`to_parent`] on the parent.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    element::PathElement,
    fieldset::FieldSet,
    managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerIdentity},
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Path of the replicas field in each version of the parent; empty if that version has no scale.
pub type VersionedPaths<'a> = &'a [(&'a str, &'a [&'a str])];

fn path_in_version(paths: VersionedPaths<'_>, version: &str) -> Option<Vec<PathElement>> {
    let (_, path) = paths.iter().find(|(known, _)| *known == version)?;
    Some(path.iter().map(|name| PathElement::field(name)).collect())
}

/// Converts the parent's `metadata.managedFields` to its Scale's. Null if no manager owns the replicas.
pub fn to_scale(parent: &Value, paths: VersionedPaths<'_>) -> Value {
    let managed = ManagedFields::decode(parent).unwrap_or_default();
    let owns = |entry: &ManagedFieldsEntry| {
        path_in_version(paths, &entry.api_version).is_some_and(|path| entry.set.contains(&path))
    };
    let entries = managed.entries.into_iter().filter(owns).map(|entry| ManagedFieldsEntry {
        api_version: SCALE_VERSION.to_owned(),
        set: FieldSet::from_paths(&[&["spec", "replicas"]]),
        ..entry
    });
    ManagedFields { entries: entries.collect() }.encode().unwrap_or_default()
}

/// Returns the parent's `metadata.managedFields` after a change of its Scale. `version` is the parent's in the request.
pub fn to_parent(parent: &Value, scale: &Value, version: &str, paths: VersionedPaths<'_>) -> Value {
    let before = ManagedFields::decode(parent).unwrap_or_default();
    let scaled = ManagedFields::decode(scale).unwrap_or_default();
    let places: HashMap<ManagerIdentity, usize> =
        scaled.entries.iter().enumerate().map(|(at, entry)| (entry.identity_key(), at)).collect();
    let mut is_kept = vec![false; scaled.entries.len()];
    let mut after = ManagedFields::default();
    for mut entry in before.entries {
        // Entries in versions that are no longer served are dropped.
        let Some(path) = path_in_version(paths, &entry.api_version) else { continue };
        if entry.set.contains(&path) {
            // The identity of an update includes its version, so that an update's entry is always added separately below.
            if let Some(at) = places.get(&entry.identity_key()) {
                is_kept[*at] = true;
            } else {
                let mut taken = FieldSet::default();
                taken.insert(&path);
                entry.set = entry.set.difference(&taken);
            }
        }
        if !entry.set.is_empty() {
            after.entries.push(entry);
        }
    }
    let replicas = [PathElement::field("spec"), PathElement::field("replicas")];
    if let Some(path) = path_in_version(paths, version) {
        let new = scaled.entries.into_iter().zip(is_kept).filter(|(_, is_kept)| !is_kept);
        for (entry, _) in new.filter(|(entry, _)| entry.set.contains(&replicas)) {
            let mut set = FieldSet::default();
            set.insert(&path);
            after.entries.push(ManagedFieldsEntry {
                api_version: version.to_owned(),
                time: None,
                set,
                ..entry
            });
        }
    }
    after.encode().unwrap_or_default()
}

/// Replaces the entries of an object; null clears them.
pub fn with_managed_fields(mut object: Value, entries: Value) -> Value {
    let Value::Object(members) = &mut object else { return object };
    let metadata = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.remove("managedFields");
        if !entries.is_null() {
            metadata.insert("managedFields".to_owned(), entries);
        }
    }
    object
}
