//! Ownership through `/scale`: the parent's `replicas` is what a Scale shows as `.spec.replicas`.
//!
//! A write to `/scale` goes through [`update`](super::update) or [`apply`](super::apply) with the Scale as
//! its object: give the live Scale the entries of [`to_scale`], and afterwards give the parent those of
//! [`to_parent`].

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    element::Element,
    fieldset::FieldSet,
    managed::{Entry, Identity, Managed},
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the replicas are in each version of the parent; an empty path where that version has no scale.
pub type Paths<'a> = &'a [(&'a str, &'a [&'a str])];

fn path_in(paths: Paths<'_>, version: &str) -> Option<Vec<Element>> {
    let (_, path) = paths.iter().find(|(known, _)| *known == version)?;
    Some(path.iter().map(|name| Element::field(name)).collect())
}

/// `metadata.managedFields` of the Scale, out of its parent's. Null if nobody owns the replicas.
pub fn to_scale(parent: &Value, paths: Paths<'_>) -> Value {
    let managed = Managed::decode(parent).unwrap_or_default();
    let owns = |entry: &Entry| path_in(paths, &entry.api_version).is_some_and(|path| entry.set.has(&path));
    let entries = managed.entries.into_iter().filter(owns).map(|entry| Entry {
        api_version: SCALE_VERSION.to_owned(),
        set: FieldSet::of(&[&["spec", "replicas"]]),
        ..entry
    });
    Managed { entries: entries.collect() }.encode().unwrap_or_default()
}

/// `metadata.managedFields` of the parent after a change of its Scale. `version` is the parent's in the request.
pub fn to_parent(parent: &Value, scale: &Value, version: &str, paths: Paths<'_>) -> Value {
    let before = Managed::decode(parent).unwrap_or_default();
    let scaled = Managed::decode(scale).unwrap_or_default();
    let places: HashMap<Identity, usize> =
        scaled.entries.iter().enumerate().map(|(at, entry)| (entry.key(), at)).collect();
    let mut is_kept = vec![false; scaled.entries.len()];
    let mut after = Managed::default();
    for mut entry in before.entries {
        // Whoever owned fields in a version that is gone is forgotten.
        let Some(path) = path_in(paths, &entry.api_version) else { continue };
        if entry.set.has(&path) {
            // An update's entry differs by its version, so it always comes back as one of its own below.
            if let Some(at) = places.get(&entry.key()) {
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
    let replicas = [Element::field("spec"), Element::field("replicas")];
    if let Some(path) = path_in(paths, version) {
        let new = scaled.entries.into_iter().zip(is_kept).filter(|(_, is_kept)| !is_kept);
        for (entry, _) in new.filter(|(entry, _)| entry.set.has(&replicas)) {
            let mut set = FieldSet::default();
            set.insert(&path);
            after.entries.push(Entry { api_version: version.to_owned(), time: None, set, ..entry });
        }
    }
    after.encode().unwrap_or_default()
}

/// An object whose entries are `entries`; null clears them.
pub fn with_entries(mut object: Value, entries: Value) -> Value {
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
