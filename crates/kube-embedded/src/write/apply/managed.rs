//! `metadata.managedFields`: the fields of each manager, with times.
//!
//! Invariant of [`Managed`]: no two entries have the same identity. The identity is manager, operation and subresource, and for updates
//! also the version: an applier keeps its entry when it changes to another version.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::fieldset::FieldSet;
use crate::clock::rfc3339;

/// Maximum number of separate update entries.
const MAX_UPDATES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Manager, operation, subresource, and for updates the version.
pub type Identity = (String, Operation, String, String);

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<Timestamp>,
    pub set: FieldSet,
}

impl Entry {
    pub fn is(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns the identity of the entry.
    pub fn key(&self) -> Identity {
        let version = if self.operation == Operation::Apply { "" } else { self.api_version.as_str() };
        (self.manager.clone(), self.operation, self.subresource.clone(), version.to_owned())
    }

    /// Returns the JSON text by which Kubernetes identifies and sorts managers.
    pub fn identity(&self) -> String {
        let mut text =
            format!("{{\"manager\":{},\"operation\":\"{}\"", json!(self.manager), self.operation.name());
        if self.operation == Operation::Update {
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
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
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
pub struct Managed {
    pub entries: Vec<Entry>,
}

impl Managed {
    /// Reads the entries of `object`.
    pub fn of(object: &Value) -> Result<Self, String> {
        Self::decode(&object["metadata"]["managedFields"])
    }

    pub fn decode(list: &Value) -> Result<Self, String> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<Identity, usize> = HashMap::new();
        for (at, entry) in list.as_array().into_iter().flatten().enumerate() {
            let entry = Entry::decode(at, entry)?;
            match places.entry(entry.key()) {
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
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|a, b| {
            let key = |e: &Entry| (e.operation, e.seconds());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        (!entries.is_empty()).then(|| entries.into_iter().map(Entry::encode).collect())
    }

    /// Replaces the entries of `object`.
    pub fn write(&self, object: &mut Value) {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        match self.encode() {
            Some(entries) => metadata.insert("managedFields".to_owned(), entries),
            None => metadata.remove("managedFields"),
        };
    }

    /// Adds an entry, replacing the one with its identity.
    pub fn put(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|other| other.is(&entry)) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }

    pub fn take(&mut self, like: &Entry) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.is(like))?;
        Some(self.entries.remove(at))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the fields in `lost` from the entries of their owners, and entries that become empty.
    pub fn lose(&mut self, lost: &[(Entry, FieldSet)]) {
        let lost: HashMap<Identity, &FieldSet> = lost.iter().map(|(owner, set)| (owner.key(), set)).collect();
        if lost.is_empty() {
            return;
        }
        self.entries.retain_mut(|entry| {
            let Some(lost) = lost.get(&entry.key()) else { return true };
            entry.set = entry.set.difference(lost);
            !entry.set.is_empty()
        });
    }

    /// Merges the oldest updates of each version into one `ancient-changes` entry until at most `MAX_UPDATES` remain.
    pub fn cap(&mut self) {
        let mut updates: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.operation == Operation::Update).collect();
        let mut count = updates.len();
        if count <= MAX_UPDATES {
            return;
        }
        updates.sort_by_cached_key(|entry| (entry.seconds(), entry.identity()));
        let bucket_of = |entry: &Entry| Entry {
            manager: "ancient-changes".to_owned(),
            operation: Operation::Update,
            api_version: entry.api_version.clone(),
            subresource: String::new(),
            time: entry.time,
            set: FieldSet::default(),
        };
        let known: HashMap<Identity, &Entry> = updates.iter().map(|entry| (entry.key(), *entry)).collect();
        let mut buckets: HashMap<&str, Entry> = HashMap::new();
        let mut firsts: HashMap<&str, &Entry> = HashMap::new();
        let mut gone: HashSet<Identity> = HashSet::new();
        for entry in &updates {
            if count <= MAX_UPDATES {
                break;
            }
            let version = entry.api_version.as_str();
            let Some(first) = firsts.get(version) else {
                firsts.insert(version, entry);
                continue;
            };
            let bucket = buckets.entry(version).or_insert_with(|| {
                let name = bucket_of(entry);
                if let Some(there) = known.get(&name.key()) {
                    (*there).clone()
                } else {
                    gone.insert(first.key());
                    Entry { set: first.set.clone(), ..name }
                }
            });
            if bucket.key() == entry.key() {
                // The bucket itself is the next oldest: its fields are already included.
                bucket.time = entry.time;
            } else {
                bucket.time = entry.time;
                bucket.set = entry.set.union(&bucket.set);
                gone.insert(entry.key());
            }
            count -= 1;
        }
        let buckets: Vec<Entry> = buckets.into_values().collect();
        gone.extend(buckets.iter().map(Entry::key));
        self.entries.retain(|entry| !gone.contains(&entry.key()));
        self.entries.extend(buckets);
    }
}
