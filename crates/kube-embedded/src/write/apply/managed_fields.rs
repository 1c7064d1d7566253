//! `metadata.managedFields`: the fields of each manager, with times.
//!
//! Invariant of [`ManagedFields`]: no two entries have the same identity. The identity is manager, operation and subresource, and for
//! updates also the version: an applier keeps its entry when it changes to another version.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fieldset::FieldSet;
use crate::clock::rfc3339;

/// Maximum number of separate update entries.
const MAX_UPDATE_ENTRIES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagerOperation {
    Apply,
    Update,
}

impl ManagerOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Manager, operation, subresource, and for updates the version.
pub type ManagerIdentity = (String, ManagerOperation, String, String);

#[derive(Clone, Debug, PartialEq)]
pub struct ManagedFieldsEntry {
    pub manager: String,
    pub operation: ManagerOperation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<Timestamp>,
    pub set: FieldSet,
}

impl ManagedFieldsEntry {
    pub fn has_same_identity(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == ManagerOperation::Apply || self.api_version == other.api_version)
    }

    /// Returns the identity of the entry.
    pub fn identity_key(&self) -> ManagerIdentity {
        let version = if self.operation == ManagerOperation::Apply { "" } else { self.api_version.as_str() };
        (self.manager.clone(), self.operation, self.subresource.clone(), version.to_owned())
    }

    /// Returns the JSON text by which Kubernetes identifies and sorts managers.
    pub fn sort_key(&self) -> String {
        let mut text =
            format!("{{\"manager\":{},\"operation\":\"{}\"", json!(self.manager), self.operation.name());
        if self.operation == ManagerOperation::Update {
            text = format!("{text},\"apiVersion\":{}", json!(self.api_version));
        }
        if !self.subresource.is_empty() {
            text = format!("{text},\"subresource\":{}", json!(self.subresource));
        }
        text + "}"
    }

    fn seconds(&self) -> i64 {
        self.time.map_or(0, Timestamp::as_second)
    }

    fn decode(at: usize, value: &Value) -> Result<Self, String> {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let operation = match value["operation"].as_str() {
            Some("Apply") => ManagerOperation::Apply,
            Some("Update") => ManagerOperation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match value["fieldsType"].as_str().unwrap_or_default() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
        }
        let time = match &value["time"] {
            Value::String(time) => {
                Some(time.parse().map_err(|error| format!("invalid time {time:?}: {error}"))?)
            }
            _ => None,
        };
        let set = FieldSet::decode(&value["fieldsV1"])?;
        Ok(Self {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
            time,
            set,
        })
    }

    fn encode(&self) -> Value {
        let mut out = Map::new();
        let texts = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("fieldsType", "FieldsV1"),
            ("subresource", &self.subresource),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            out.insert(name.to_owned(), text.into());
        }
        if let Some(time) = self.time {
            out.insert("time".to_owned(), rfc3339(time).into());
        }
        out.insert("fieldsV1".to_owned(), self.set.encode());
        Value::Object(out)
    }
}

/// All managed-fields entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagedFields {
    pub entries: Vec<ManagedFieldsEntry>,
}

impl ManagedFields {
    /// Reads the entries of `object`.
    pub fn from_object(object: &Value) -> Result<Self, String> {
        Self::decode(&object["metadata"]["managedFields"])
    }

    pub fn decode(list: &Value) -> Result<Self, String> {
        let mut entries: Vec<ManagedFieldsEntry> = Vec::new();
        let mut places: HashMap<ManagerIdentity, usize> = HashMap::new();
        for (at, entry) in list.as_array().into_iter().flatten().enumerate() {
            let entry = ManagedFieldsEntry::decode(at, entry)?;
            match places.entry(entry.identity_key()) {
                Slot::Occupied(place) => entries[*place.get()] = entry,
                Slot::Vacant(place) => {
                    place.insert(entries.len());
                    entries.push(entry);
                }
            }
        }
        Ok(Self { entries })
    }

    /// Encodes `metadata.managedFields` in the order of Kubernetes; `None` if empty.
    pub fn encode(&self) -> Option<Value> {
        let mut entries: Vec<&ManagedFieldsEntry> = self.entries.iter().collect();
        entries.sort_by(|a, b| {
            let key = |e: &ManagedFieldsEntry| (e.operation, e.seconds());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        (!entries.is_empty()).then(|| entries.into_iter().map(ManagedFieldsEntry::encode).collect())
    }

    /// Replaces the entries of `object`.
    pub fn write_to(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        match self.encode() {
            Some(entries) => metadata.insert("managedFields".to_owned(), entries),
            None => metadata.remove("managedFields"),
        };
    }

    /// Adds an entry, replacing the one with its identity.
    pub fn upsert(&mut self, entry: ManagedFieldsEntry) {
        match self.entries.iter_mut().find(|other| other.has_same_identity(&entry)) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }

    pub fn remove_matching(&mut self, like: &ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
        let at = self.entries.iter().position(|entry| entry.has_same_identity(like))?;
        Some(self.entries.remove(at))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the fields in `lost` from the entries of their owners, and entries that become empty.
    pub fn remove_fields(&mut self, lost: &[(ManagedFieldsEntry, FieldSet)]) {
        let lost: HashMap<ManagerIdentity, &FieldSet> =
            lost.iter().map(|(owner, set)| (owner.identity_key(), set)).collect();
        if lost.is_empty() {
            return;
        }
        self.entries.retain_mut(|entry| {
            let Some(lost) = lost.get(&entry.identity_key()) else { return true };
            entry.set = entry.set.difference(lost);
            !entry.set.is_empty()
        });
    }

    /// Merges the oldest updates of each version into one `ancient-changes` entry until at most `MAX_UPDATE_ENTRIES` remain.
    pub fn merge_old_updates(&mut self) {
        let mut updates: Vec<&ManagedFieldsEntry> =
            self.entries.iter().filter(|entry| entry.operation == ManagerOperation::Update).collect();
        let mut count = updates.len();
        if count <= MAX_UPDATE_ENTRIES {
            return;
        }
        updates.sort_by_cached_key(|entry| (entry.seconds(), entry.sort_key()));
        let bucket_of = |entry: &ManagedFieldsEntry| ManagedFieldsEntry {
            manager: "ancient-changes".to_owned(),
            operation: ManagerOperation::Update,
            api_version: entry.api_version.clone(),
            subresource: String::new(),
            time: entry.time,
            set: FieldSet::default(),
        };
        let known: HashMap<ManagerIdentity, &ManagedFieldsEntry> =
            updates.iter().map(|entry| (entry.identity_key(), *entry)).collect();
        let mut buckets: HashMap<&str, ManagedFieldsEntry> = HashMap::new();
        let mut firsts: HashMap<&str, &ManagedFieldsEntry> = HashMap::new();
        let mut gone: HashSet<ManagerIdentity> = HashSet::new();
        for entry in &updates {
            if count <= MAX_UPDATE_ENTRIES {
                break;
            }
            let version = entry.api_version.as_str();
            let Some(first) = firsts.get(version) else {
                firsts.insert(version, entry);
                continue;
            };
            let bucket = buckets.entry(version).or_insert_with(|| {
                let name = bucket_of(entry);
                if let Some(there) = known.get(&name.identity_key()) {
                    (*there).clone()
                } else {
                    gone.insert(first.identity_key());
                    ManagedFieldsEntry { set: first.set.clone(), ..name }
                }
            });
            if bucket.identity_key() == entry.identity_key() {
                // The bucket itself is the next oldest: its fields are already included.
                bucket.time = entry.time;
            } else {
                bucket.time = entry.time;
                bucket.set = entry.set.union(&bucket.set);
                gone.insert(entry.identity_key());
            }
            count -= 1;
        }
        let buckets: Vec<ManagedFieldsEntry> = buckets.into_values().collect();
        gone.extend(buckets.iter().map(ManagedFieldsEntry::identity_key));
        self.entries.retain(|entry| !gone.contains(&entry.identity_key()));
        self.entries.extend(buckets);
    }
}
