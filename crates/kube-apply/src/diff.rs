//! Differences between two sets of objects, with sensitive values masked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use helm_template::data::{Data, Members};
use helm_template::yaml;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::mask::Mask;
use crate::object::{Object, ObjectId};

/// Time limit of one text diff; beyond it the diff is less minimal.
const TEXT_DIFF_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of all text diffs together.
const TOTAL_TEXT_DIFF_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of field changes of one object, and of all differences.
const MAX_OBJECT_BYTES: usize = 4 << 20;
const MAX_TOTAL_BYTES: usize = 32 << 20;
/// Context lines around a change.
const CONTEXT_LINES: usize = 3;

/// Difference of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDiff {
    pub id: ObjectId,
    /// Chart file of the object.
    pub source: Option<String>,
    pub kind: DiffKind,
    /// Field changes. Values are masked.
    pub changes: Vec<FieldDiff>,
    /// Unified diff of the YAML. Values are masked.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DiffKind {
    Added,
    Changed,
    Removed,
}

/// Change of one field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// JSON pointer.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Compares two sets of objects: the objects of `before` in order, then added ones. `sensitive` values are masked; so
/// is the data of all Secrets among the objects.
pub fn diff(before: &[Object], after: &[Object], sensitive: &[String]) -> Vec<ObjectDiff> {
    let mask = Mask::new(before.iter().chain(after), sensitive);
    let new: BTreeMap<ObjectId, &Object> = after.iter().map(|object| (object.id(), object)).collect();
    let old: BTreeMap<ObjectId, &Object> = before.iter().map(|object| (object.id(), object)).collect();
    let mut left = DiffBudget { bytes: MAX_TOTAL_BYTES, deadline: Instant::now() + TOTAL_TEXT_DIFF_TIMEOUT };
    let kept = before.iter().map(|object| (Some(object), new.get(&object.id()).copied()));
    let added =
        after.iter().filter(|object| !old.contains_key(&object.id())).map(|object| (None, Some(object)));
    kept.chain(added).filter_map(|(before, after)| diff_object(before, after, &mask, &mut left)).collect()
}

/// Compares two documents and returns field changes and a unified diff. `shown` are the documents to display,
/// possibly masked.
pub fn diff_documents(
    (before, after): (&Value, &Value),
    shown: (&Value, &Value),
    titles: (&str, &str),
) -> (Vec<FieldDiff>, String) {
    let mut changes = compare(Some(before), Some(after), MAX_OBJECT_BYTES).0;
    for change in &mut changes {
        change.before = change.before.take().and_then(|_| shown.0.pointer(&change.path).cloned());
        change.after = change.after.take().and_then(|_| shown.1.pointer(&change.path).cloned());
    }
    (changes, unified_diff(&to_yaml(shown.0), &to_yaml(shown.1), titles, TEXT_DIFF_TIMEOUT))
}

/// Concatenated unified diffs.
pub fn unified_text(differences: &[ObjectDiff]) -> String {
    differences.iter().map(|difference| difference.text.as_str()).collect()
}

/// Remaining budget of a comparison.
struct DiffBudget {
    bytes: usize,
    deadline: Instant,
}

fn diff_object(
    before: Option<&Object>,
    after: Option<&Object>,
    mask: &Mask,
    left: &mut DiffBudget,
) -> Option<ObjectDiff> {
    let what = match (before, after) {
        (None, _) => DiffKind::Added,
        (_, None) => DiffKind::Removed,
        (Some(before), Some(after)) if before.value() == after.value() => return None,
        _ => DiffKind::Changed,
    };
    let object = after.or(before)?;
    let (old, new) = mask.mask_pair(before.map(Object::value), after.map(Object::value));
    let (changes, complete) = compare(old.as_ref(), new.as_ref(), left.bytes.min(MAX_OBJECT_BYTES));
    let timeout = left.deadline.saturating_duration_since(Instant::now()).min(TEXT_DIFF_TIMEOUT);
    let mut text = if timeout.is_zero() || left.bytes == 0 {
        format!("{} {what:?}: not shown: the comparison is too large\n", object.id())
    } else {
        object_diff_text(&object.id(), old.as_ref(), new.as_ref(), what, timeout)
    };
    if text.len() > left.bytes {
        text.truncate(text.floor_char_boundary(left.bytes));
        text.push_str("\n(the rest is not shown: the comparison is too large)\n");
    }
    let shown: usize = changes.iter().map(FieldDiff::bytes).sum();
    left.bytes = left.bytes.saturating_sub(shown + text.len());
    if !complete {
        text.push_str("(not all changes are listed by field)\n");
    }
    Some(ObjectDiff { id: object.id(), source: object.source.clone(), kind: what, changes, text })
}

impl FieldDiff {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.path.len()
            + [&self.before, &self.after].into_iter().flatten().map(bytes).sum::<usize>()
    }
}

fn bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + bytes(value)).sum(),
            _ => 0,
        }
}

/// Field changes up to `max_bytes` bytes, and whether they are complete. Lists of different lengths are one change.
pub(crate) fn compare(
    before: Option<&Value>,
    after: Option<&Value>,
    max_bytes: usize,
) -> (Vec<FieldDiff>, bool) {
    let mut comparison = FieldComparison {
        path: String::new(),
        changes: Vec::new(),
        remaining_bytes: max_bytes,
        is_complete: true,
    };
    comparison.compare_values(before, after);
    (comparison.changes, comparison.is_complete)
}

struct FieldComparison {
    /// JSON pointer of the compared value.
    path: String,
    changes: Vec<FieldDiff>,
    remaining_bytes: usize,
    is_complete: bool,
}

impl FieldComparison {
    /// Compares the values under a token of the current pointer.
    fn compare_child(&mut self, token: &str, before: Option<&Value>, after: Option<&Value>) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(token);
        self.compare_values(before, after);
        self.path.truncate(length);
    }

    fn compare_values(&mut self, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let added = new.keys().filter(|key| !old.contains_key(*key));
                for key in old.keys().chain(added) {
                    let token = key.replace('~', "~0").replace('/', "~1");
                    self.compare_child(&token, old.get(key), new.get(key));
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
                for (at, (old, new)) in old.iter().zip(new).enumerate() {
                    self.compare_child(&at.to_string(), Some(old), Some(new));
                }
            }
            (before, after) if before == after => {}
            (before, after) => {
                let texts: usize = [before, after].into_iter().flatten().map(bytes).sum();
                let Some(left) =
                    self.remaining_bytes.checked_sub(size_of::<FieldDiff>() + self.path.len() + texts)
                else {
                    self.is_complete = false;
                    return;
                };
                self.remaining_bytes = left;
                let (before, after) = (before.cloned(), after.cloned());
                self.changes.push(FieldDiff { path: self.path.clone(), before, after });
            }
        }
    }
}

fn object_diff_text(
    id: &ObjectId,
    before: Option<&Value>,
    after: Option<&Value>,
    what: DiffKind,
    timeout: Duration,
) -> String {
    let (old, new) = (before.map(to_yaml).unwrap_or_default(), after.map(to_yaml).unwrap_or_default());
    let title = |there: bool| if there { id.to_string() } else { "nothing".to_owned() };
    let header = (title(what != DiffKind::Added), title(what != DiffKind::Removed));
    let text = unified_diff(&old, &new, (&header.0, &header.1), timeout);
    // The objects differ only in masked names.
    if text.is_empty() {
        format!("--- {}\n+++ {}\n(only masked values differ)\n", header.0, header.1)
    } else {
        text
    }
}

/// Unified diff; empty if there is no difference.
fn unified_diff(before: &str, after: &str, titles: (&str, &str), timeout: Duration) -> String {
    let lines = TextDiff::configure().timeout(timeout).diff_lines(before, after);
    let mut unified = lines.unified_diff();
    unified.context_radius(CONTEXT_LINES).header(titles.0, titles.1).missing_newline_hint(false);
    unified.to_string()
}

/// The value as YAML.
fn to_yaml(value: &Value) -> String {
    yaml::write(&to_yaml_data(value)).unwrap_or_else(|_| format!("{value}\n"))
}

fn to_yaml_data(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(truth) => Data::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Data::Int(whole),
            None => number.as_f64().map_or(Data::Null, Data::Float),
        },
        Value::String(text) => Data::string(text.as_str()),
        Value::Array(items) => Data::List(items.iter().map(to_yaml_data).collect()),
        Value::Object(map) => {
            let members: Members =
                map.iter().map(|(key, value)| (key.as_str().into(), to_yaml_data(value))).collect();
            Data::Map(members)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn objects(text: &str) -> Vec<Object> {
        Object::parse_all(text).unwrap()
    }

    #[test]
    fn a_difference_reads_well() {
        let before = objects(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: correct-horse, user: admin}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\ndata: {a: '1'}\n---\n\
             # Source: c/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
             spec:\n  replicas: 1\n  paused: false\n  template:\n    spec:\n      containers:\n      - name: c\n        image: web:1\n\
             \x20       env: [{name: URL, value: 'pg://admin:correct-horse@db'}]\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {name: same}\n",
        );
        let after = objects(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: battery-staple, user: admin}\n---\n\
             # Source: c/templates/web.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
             spec:\n  replicas: 2\n  paused: false\n  template:\n    spec:\n      containers:\n      - name: c\n        image: web:2\n\
             \x20       env: [{name: URL, value: 'pg://admin:battery-staple@db'}]\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {name: same}\n---\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {note: \"two\\nlines\", token: tok-12345}\n",
        );
        let found = diff(&before, &after, &["tok-12345".to_owned()]);
        insta::assert_snapshot!(unified_text(&found));
        let changes: Vec<_> = found.iter().map(|one| (one.id.to_string(), one.kind, &one.changes)).collect();
        insta::assert_json_snapshot!(changes);
    }

    /// Each changed member repeats the long key in its path.
    #[test]
    fn differences_are_bounded_in_bytes() {
        let object = |value: &str| {
            let members: serde_json::Map<_, _> =
                (0..20_000).map(|n| (format!("m{n}"), json!(value))).collect();
            let data = json!({"k".repeat(100_000): members});
            let value =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            vec![Object::from_value(value).unwrap()]
        };
        let found = diff(&object("a"), &object("b"), &[]);
        assert_eq!(found.len(), 1);
        let shown: usize = found[0].changes.iter().map(FieldDiff::bytes).sum();
        assert!(!found[0].changes.is_empty() && shown <= MAX_OBJECT_BYTES, "{shown}");
        assert!(found[0].text.ends_with("(not all changes are listed by field)\n"));
    }

    #[test]
    fn equal_objects_are_no_difference() {
        let same = objects("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        assert_eq!(diff(&same, &same, &[]), []);
    }

    /// Sensitive values that no other generated text resembles.
    const SENSITIVE: [&str; 3] = ["S3CRET+ONE", "S3CRET: 'TWO'", "S3CRET-THREE\nWITH-LINES"];

    fn any_text() -> impl Strategy<Value = String> {
        let secret = prop::sample::select(&SENSITIVE[..]).prop_map(ToOwned::to_owned);
        let plain = prop_oneof!["[a-z]{0,3}", "[ -~]{0,6}", Just("line\nline".to_owned())];
        prop_oneof![
            secret.clone(),
            plain.clone(),
            (plain.clone(), secret.clone(), plain).prop_map(|(a, b, c)| format!("{a}{b}{c}")),
            secret.prop_map(|text| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text)),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any_text().prop_map(Value::from), (0..9i64).prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any_text(), inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Object> {
        (any_value(), prop_oneof![Just("Secret"), Just("ConfigMap"), Just("Thing")]).prop_map(|(data, kind)| {
            let value = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "data": data, "spec": data});
            Object::from_value(value).unwrap()
        })
    }

    proptest! {
        #[test]
        fn no_sensitive_value_appears(before in any_object(), after in any_object()) {
            let sensitive: Vec<String> = SENSITIVE.iter().map(|text| (*text).to_owned()).collect();
            let differs = before.value() != after.value();
            let found = diff(&[before], &[after], &sensitive);
            let mut shown = unified_text(&found);
            for one in &found {
                shown.push_str(&serde_json::to_string(&one.changes).unwrap());
            }
            for secret in ["S3CRET", "UzNDUkVU"] {
                prop_assert!(!shown.contains(secret), "{shown}");
            }
            prop_assert_eq!(differs, !found.is_empty());
        }
    }
}
