//! Labels of a record's Secret: Helm's own and the user's.

use std::collections::BTreeMap;

use crate::record::{Record, Status};

/// Label keys reserved by Helm.
pub const SYSTEM_LABELS: &[&str] = &["name", "owner", "status", "version", "createdAt", "modifiedAt"];

pub(super) const CREATED_AT: &str = "createdAt";
pub(super) const MODIFIED_AT: &str = "modifiedAt";

/// Whether none of the keys is reserved by Helm.
pub fn has_no_system_labels(labels: &BTreeMap<String, String>) -> bool {
    labels.keys().all(|key| !SYSTEM_LABELS.contains(&key.as_str()))
}

/// The user's labels among all labels of the Secret.
pub(super) fn user_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let free = labels.iter().filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str()));
    free.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// All labels of a record.
pub(super) fn for_record(record: &Record) -> BTreeMap<String, String> {
    let mut labels = record.labels.clone();
    labels.extend([
        ("name".to_owned(), record.name.clone()),
        ("owner".to_owned(), "helm".to_owned()),
        ("status".to_owned(), record.info.status.to_string()),
        ("version".to_owned(), record.version.to_string()),
    ]);
    labels
}

/// Label selector for the records of one release, or for all records.
pub(super) fn selector(name: Option<&str>) -> String {
    name.map_or_else(|| "owner=helm".to_owned(), |name| format!("name={name},owner=helm"))
}

pub(super) fn status(labels: &BTreeMap<String, String>) -> Status {
    labels.get("status").map_or(Status::Unknown, |text| Status::parse(text))
}
