//! Migrates managed fields from Helm 3 to Helm 4.
//!
//! Client-side writes are recorded in `managedFields` as an `Update` by `helm`. The first server-side apply by the
//! same manager would add a second entry and could not remove fields of the first. The `Update` entry is therefore
//! converted to `Apply`, as Helm 4 does.

use serde_json::{Map, Value};

use crate::request::FIELD_MANAGER;

/// Converts every `Update` by `helm` to `Apply`; `None` if there is none.
pub fn migrate_to_apply(notes: &Value) -> Option<Value> {
    let notes = notes.as_array()?;
    let first = notes.iter().position(is_update)?;
    let target = notes.iter().position(is_apply).unwrap_or(first);
    let mut joined = notes[target].clone();
    joined["operation"] = "Apply".into();
    let version = notes[target]["apiVersion"].clone();
    for note in notes.iter().filter(|note| is_update(note) && note["apiVersion"] == version) {
        merge_field_sets(&mut joined["fieldsV1"], &note["fieldsV1"]);
    }
    let kept = notes.iter().enumerate().filter(|(at, note)| *at == target || !is_update(note));
    Some(kept.map(|(at, note)| if at == target { joined.clone() } else { note.clone() }).collect())
}

fn is_update(note: &Value) -> bool {
    is_ours(note) && note["operation"] == "Update"
}

fn is_apply(note: &Value) -> bool {
    is_ours(note) && note["operation"] == "Apply"
}

fn is_ours(note: &Value) -> bool {
    note["manager"] == FIELD_MANAGER && note["subresource"].as_str().unwrap_or_default().is_empty()
}

/// Merges two field sets.
fn merge_field_sets(fields: &mut Value, more: &Value) {
    let Some(more) = more.as_object() else { return };
    if !fields.is_object() {
        *fields = Value::Object(Map::new());
    }
    for (key, below) in more {
        merge_field_sets(&mut fields[key.as_str()], below);
        if !fields[key.as_str()].is_object() {
            fields[key.as_str()] = below.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields})
    }

    #[test]
    fn update_entry_becomes_apply_entry() {
        let other = entry("kubectl", "Update", &json!({"f:x": {}}));
        let notes = json!([other, entry("helm", "Update", &json!({"f:data": {"f:a": {}}}))]);
        let want = json!([other, entry("helm", "Apply", &json!({"f:data": {"f:a": {}}}))]);
        assert_eq!(migrate_to_apply(&notes), Some(want.clone()));
        assert_eq!(migrate_to_apply(&want), None);
    }

    #[test]
    fn update_entry_is_merged_into_existing_apply_entry() {
        let notes = json!([
            entry("helm", "Update", &json!({"f:data": {"f:a": {}, ".": {}}})),
            entry("helm", "Apply", &json!({"f:data": {"f:b": {}}})),
        ]);
        let joined = json!({"f:data": {"f:a": {}, "f:b": {}, ".": {}}});
        assert_eq!(migrate_to_apply(&notes), Some(json!([entry("helm", "Apply", &joined)])));
    }

    #[test]
    fn status_entry_is_not_migrated() {
        let mut status = entry("helm", "Update", &json!({"f:status": {}}));
        status["subresource"] = json!("status");
        assert_eq!(migrate_to_apply(&json!([status])), None);
        assert_eq!(migrate_to_apply(&Value::Null), None);
    }
}
