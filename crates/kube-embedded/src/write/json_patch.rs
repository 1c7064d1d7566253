//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), as lenient as the library that Kubernetes uses: `replace` of an absent member
//! adds it, `copy` of an absent member copies null, indices may count from the end, and a merge patch drops nulls inside lists as well.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};
use crate::go;

const MAX_OPERATIONS: usize = 10_000;
/// Limit of list elements shifted and values visited by all operations of one patch. At most a tenth of a second.
const MAX_STEPS: usize = 50_000_000;
/// Limit of bytes added by all `copy` operations of one patch.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Maximum depth of a patched document. JSON parsers, including ours, fail at 128 levels, so stored documents must stay below that.
const MAX_DEPTH: usize = 100;

/// Why a patch is refused.
#[derive(Debug)]
enum PatchError {
    /// It does not apply. Kubernetes does not return the reason.
    NotApplicable,
    TooExpensive,
}

impl From<PatchError> for ApiError {
    fn from(refused: PatchError) -> Self {
        match refused {
            PatchError::NotApplicable => not_applicable_error(),
            PatchError::TooExpensive => ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!(
                    "Request entity too large: the operations of the JSON patch shift more than {MAX_STEPS} list elements; send \
                     the new list with one replace operation"
                ),
            ),
        }
    }
}

/// Work done by a patch.
#[derive(Default)]
struct PatchWork {
    /// Bytes copied.
    copied: usize,
    /// Elements shifted and values visited.
    steps: usize,
}

impl PatchWork {
    fn copy(&mut self, bytes: usize) -> Result<(), PatchError> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPIED_BYTES { Err(PatchError::NotApplicable) } else { Ok(()) }
    }

    fn apply_operation(&mut self, count: usize) -> Result<(), PatchError> {
        self.steps = self.steps.saturating_add(count);
        if self.steps > MAX_STEPS { Err(PatchError::TooExpensive) } else { Ok(()) }
    }
}

/// The 422 error of a patch that cannot be applied.
pub(super) fn not_applicable_error() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError::new(422, "Invalid", message).with_details(&[])
}

/// Returns the document after all operations of `patch`.
pub fn apply(doc: &Value, patch: &[u8]) -> Result<Value> {
    let operations = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let mut doc = doc.clone();
    let mut work = PatchWork::default();
    // An upper bound of the document's depth, computed exactly only when it exceeds the limit.
    let mut levels = depth(&doc);
    let limit = levels.max(MAX_DEPTH);
    for operation in &operations {
        step(&mut doc, operation, &mut work)?;
        levels += operation
            .values()
            .map(|member| member.as_str().map_or(depth(member), pointer_depth))
            .sum::<usize>();
        if levels > limit {
            work.apply_operation(count(&doc))?;
            levels = depth(&doc);
            if levels > limit {
                return Err(PatchError::NotApplicable.into());
            }
        }
    }
    Ok(doc)
}

fn pointer_depth(pointer: &str) -> usize {
    pointer.matches('/').count()
}

/// Number of values in a document.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the strict decoding errors of the patch itself: unknown and duplicate members of operations.
pub fn strict_errors(patch: &[u8]) -> Vec<String> {
    let operations: Vec<MemberNames> = serde_json::from_slice(patch).unwrap_or_default();
    let mut complaints = Vec::new();
    for (i, MemberNames(names)) in operations.iter().enumerate() {
        let mut seen = HashSet::new();
        for name in names {
            let what = match seen.insert(name) {
                false => "duplicate",
                true if !["op", "path", "from", "value"].contains(&name.as_str()) => "unknown",
                true => continue,
            };
            complaints.push(format!("json patch {what} field \"[{i}].{name}\""));
        }
    }
    complaints
}

/// Names of an object's members in source order, including duplicates.
struct MemberNames(Vec<String>);

impl<'de> Deserialize<'de> for MemberNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberNamesVisitor)
    }
}

struct MemberNamesVisitor;

impl<'de> Visitor<'de> for MemberNamesVisitor {
    type Value = MemberNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MemberNames, A::Error> {
        let mut names = Vec::new();
        while let Some((name, IgnoredAny)) = map.next_entry()? {
            names.push(name);
        }
        Ok(MemberNames(names))
    }
}

/// Statistics of a patch, collected without decoding it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PatchStatistics {
    pub count: usize,
    /// Operations that copy a part of the document.
    pub copies: usize,
}

impl PatchStatistics {
    /// A patch that cannot be decoded counts as empty: it is refused before its first operation.
    pub fn from_patch(patch: &[u8]) -> Self {
        let operations: Option<Vec<Option<OperationStatistics>>> =
            serde_json::from_slice(patch).unwrap_or_default();
        let operations = operations.unwrap_or_default();
        let copies = operations.iter().flatten().filter(|operation| operation.is_copy);
        Self { count: operations.len(), copies: copies.count() }
    }
}

/// One operation.
struct OperationStatistics {
    /// Whether any `op` member is `copy`; the decoder decides which of several counts.
    is_copy: bool,
}

impl<'de> Deserialize<'de> for OperationStatistics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OperationStatisticsVisitor)
    }
}

struct OperationStatisticsVisitor;

impl<'de> Visitor<'de> for OperationStatisticsVisitor {
    type Value = OperationStatistics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OperationStatistics, A::Error> {
        let mut is_copy = false;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == "op" {
                is_copy |= map.next_value::<Value>()? == "copy";
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(OperationStatistics { is_copy })
    }
}

fn decode(patch: &[u8]) -> Result<Vec<Map<String, Value>>> {
    let bad = |why: String| ApiError::bad_request(format!("error decoding patch: {why}"));
    let operations = match serde_json::from_slice(patch).map_err(|error| bad(go::syntax_error(&error)))? {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => {
            let why = format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                go::json_kind(&other)
            );
            return Err(bad(why));
        }
    };
    let mut decoded = Vec::with_capacity(operations.len());
    for operation in operations {
        match operation {
            Value::Object(members) => {
                for name in ["op", "path", "from"] {
                    if let Some(other) = members.get(name).filter(|v| !v.is_string() && !v.is_null()) {
                        return Err(bad(format!(
                            "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                            go::json_kind(other)
                        )));
                    }
                }
                decoded.push(members);
            }
            Value::Null => decoded.push(Map::new()),
            other => {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    go::json_kind(&other)
                );
                return Err(bad(why));
            }
        }
    }
    Ok(decoded)
}

fn step(doc: &mut Value, operation: &Map<String, Value>, work: &mut PatchWork) -> Result<(), PatchError> {
    let member = |name: &str| operation.get(name).and_then(Value::as_str).ok_or(PatchError::NotApplicable);
    let value = || operation.get("value").cloned().unwrap_or_default();
    match member("op")? {
        "add" => PointerTarget::find(doc, member("path")?)?.add(value(), work),
        "remove" => PointerTarget::find(doc, member("path")?)?.remove(work).map(drop),
        "replace" if member("path")?.is_empty() => {
            let value = value();
            if !value.is_object() && !value.is_array() {
                return Err(PatchError::NotApplicable);
            }
            *doc = value;
            Ok(())
        }
        "replace" => PointerTarget::find(doc, member("path")?)?.replace(value(), work),
        "move" => {
            let value = PointerTarget::find(doc, member("from")?)?.remove(work)?;
            PointerTarget::find(doc, member("path")?)?.add(value, work)
        }
        "copy" => {
            let value = PointerTarget::find(doc, member("from")?)?.get()?.clone();
            let mut to = PointerTarget::find(doc, member("path")?)?;
            work.copy(value.to_string().len())?;
            to.add(value, work)
        }
        "test" => {
            let path = member("path")?;
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            let is_equal = if path.is_empty() {
                doc == wanted
            } else {
                PointerTarget::find(doc, path)?.get()? == wanted
            };
            if is_equal { Ok(()) } else { Err(PatchError::NotApplicable) }
        }
        _ => Err(PatchError::NotApplicable),
    }
}

/// The target of a JSON pointer: an existing container and the key in it.
struct PointerTarget<'a> {
    container: &'a mut Value,
    key: String,
}

impl<'a> PointerTarget<'a> {
    fn find(doc: &'a mut Value, pointer: &str) -> Result<Self, PatchError> {
        // Text before the first slash is ignored.
        let (_, rest) = pointer.split_once('/').ok_or(PatchError::NotApplicable)?;
        let mut steps = rest.split('/').map(unescape).peekable();
        let mut container = doc;
        while let Some(key) = steps.next() {
            if steps.peek().is_none() {
                return Ok(Self { container, key });
            }
            container = match container {
                Value::Object(members) => members.get_mut(&key).ok_or(PatchError::NotApplicable)?,
                Value::Array(items) => {
                    let at = index(&key, items.len())?;
                    items.get_mut(at).ok_or(PatchError::NotApplicable)?
                }
                _ => return Err(PatchError::NotApplicable),
            };
        }
        Err(PatchError::NotApplicable)
    }

    fn get(&self) -> Result<&Value, PatchError> {
        match &*self.container {
            Value::Object(members) => Ok(members.get(&self.key).unwrap_or(&Value::Null)),
            Value::Array(items) => items.get(index(&self.key, items.len())?).ok_or(PatchError::NotApplicable),
            _ => Err(PatchError::NotApplicable),
        }
    }

    fn add(&mut self, value: Value, work: &mut PatchWork) -> Result<(), PatchError> {
        match &mut *self.container {
            Value::Object(members) => {
                members.insert(std::mem::take(&mut self.key), value);
            }
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&self.key, items.len() + 1)?;
                if at > items.len() {
                    return Err(PatchError::NotApplicable);
                }
                work.apply_operation(items.len() - at)?;
                items.insert(at, value);
            }
            _ => return Err(PatchError::NotApplicable),
        }
        Ok(())
    }

    fn replace(&mut self, value: Value, work: &mut PatchWork) -> Result<(), PatchError> {
        match &mut *self.container {
            Value::Array(items) => {
                let at = index(&self.key, items.len())?;
                *items.get_mut(at).ok_or(PatchError::NotApplicable)? = value;
                Ok(())
            }
            _ => self.add(value, work),
        }
    }

    fn remove(&mut self, work: &mut PatchWork) -> Result<Value, PatchError> {
        match &mut *self.container {
            Value::Object(members) => members.remove(&self.key).ok_or(PatchError::NotApplicable),
            Value::Array(items) => {
                let at = index(&self.key, items.len())?;
                if at >= items.len() {
                    return Err(PatchError::NotApplicable);
                }
                work.apply_operation(items.len() - at)?;
                Ok(items.remove(at))
            }
            _ => Err(PatchError::NotApplicable),
        }
    }
}

/// Parses an index; negative ones count from the end. It may be out of range.
fn index(key: &str, length: usize) -> Result<usize, PatchError> {
    let index: i64 = key.parse().map_err(|_| PatchError::NotApplicable)?;
    let length = i64::try_from(length).map_err(|_| PatchError::NotApplicable)?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).map_err(|_| PatchError::NotApplicable)
}

fn unescape(step: &str) -> String {
    if !step.contains('~') {
        return step.to_owned();
    }
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (plain, skip) = match rest.as_bytes().first() {
            Some(b'1') => ('/', 1),
            Some(b'0') => ('~', 1),
            _ => ('~', 0),
        };
        out.push(plain);
        rest = &rest[skip..];
    }
    out.push_str(rest);
    out
}

/// Returns the document after a merge patch: null removes, objects merge, other values replace.
pub fn merge(doc: &Value, patch: &Value) -> Result<Value> {
    match patch {
        Value::Object(_) => {
            let mut merged = doc.clone();
            merge_into(&mut merged, patch);
            Ok(merged)
        }
        Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        other => Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_kind(other)
        ))),
    }
}

fn merge_into(current: &mut Value, patch: &Value) {
    let (Value::Object(members), Value::Object(changes)) = (&mut *current, patch) else {
        // A list that replaces an object keeps its nulls; other values lose them at every depth.
        let keep = current.is_object();
        *current = patch.clone();
        if !keep {
            drop_nulls(current);
        }
        return;
    };
    for (name, change) in changes {
        match members.get_mut(name).filter(|old| !old.is_null()) {
            _ if change.is_null() => {
                members.remove(name);
            }
            Some(old) => merge_into(old, change),
            None => {
                let mut new = change.clone();
                drop_nulls(&mut new);
                members.insert(name.clone(), new);
            }
        }
    }
}

/// Removes null members at every depth; null elements of lists remain.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(doc: &Value, operations: &Value) -> Result<Value, u16> {
        apply(doc, operations.to_string().as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn moves_through_a_long_list_are_refused_when_they_shift_too_many_elements() {
        let doc = json!({"list": vec![0; 200_000]});
        let shift = json!({"op": "move", "from": "/list/0", "path": "/list/-1"});
        let few: Value = vec![shift.clone(); 100].into();
        assert!(patched(&doc, &few).is_ok());
        let many: Value = vec![shift; 9_900].into();
        assert_eq!(patched(&doc, &many), Err(413));
        let test = json!({"op": "test", "path": "", "value": {}});
        assert_eq!(patched(&doc, &vec![test; 9_900].into()), Err(422));
    }

    #[test]
    fn json_patch_operations_match_kubernetes() {
        let doc = json!({"data": {"k": "v", "n": null}, "list": ["a", "b"]});
        let rows = [
            (
                json!([{"op": "add", "path": "/data/x", "value": 1}]),
                Ok(json!({"data": {"k": "v", "n": null, "x": 1}, "list": ["a", "b"]})),
            ),
            (
                json!([{"op": "add", "path": "/list/-", "value": "c"}, {"op": "remove", "path": "/list/0"}]),
                Ok(json!({"data": {"k": "v", "n": null}, "list": ["b", "c"]})),
            ),
            (
                json!([{"op": "add", "path": "/list/-1", "value": "c"}]),
                Ok(json!({"data": {"k": "v", "n": null}, "list": ["a", "b", "c"]})),
            ),
            (
                json!([{"op": "replace", "path": "/data/none", "value": "x"}, {"op": "remove", "path": "/list"}]),
                Ok(json!({"data": {"k": "v", "n": null, "none": "x"}})),
            ),
            (
                json!([{"op": "copy", "from": "/data/none", "path": "/data/c"}, {"op": "remove", "path": "/list"}]),
                Ok(json!({"data": {"k": "v", "n": null, "c": null}})),
            ),
            (
                json!([{"op": "move", "from": "/data", "path": "/a~1b~01"}, {"op": "remove", "path": "/list"}]),
                Ok(json!({"a/b~1": {"k": "v", "n": null}})),
            ),
            (
                json!([{"op": "test", "path": "/data/none", "value": null}, {"op": "test", "path": "", "value": doc}]),
                Ok(doc.clone()),
            ),
            (json!([]), Ok(doc.clone())),
            (json!([{"op": "replace", "path": "", "value": {}}]), Ok(json!({}))),
            (json!([{"op": "test", "path": "/data/k", "value": "w"}]), Err(422)),
            (json!([{"op": "remove", "path": "/data/none"}]), Err(422)),
            (json!([{"op": "add", "path": "/none/deep", "value": 1}]), Err(422)),
            (json!([{"op": "add", "path": "", "value": {}}]), Err(422)),
            (json!([{"op": "add", "path": "/list/3", "value": 1}]), Err(422)),
            (json!([{"op": "replace", "path": "/list/2", "value": 1}]), Err(422)),
            (json!([{"op": "move", "from": "/data", "path": "/data/x"}]), Err(422)),
            (json!([{"op": "turn", "path": "/data"}]), Err(422)),
            (json!([null]), Err(422)),
            (json!({"op": "remove"}), Err(400)),
            (json!([{"op": "remove", "path": 5}]), Err(400)),
            (json!(vec![json!({"op": "test", "path": "/data/k", "value": "v"}); 10_001]), Err(413)),
        ];
        for (operations, expected) in rows {
            assert_eq!(patched(&doc, &operations), expected, "{operations}");
        }
    }

    #[test]
    fn strict_decoding_reports_unknown_members() {
        let patch = br#"[{"op":"add","path":"/a","foo":1},{"op":"add","path":"/a","path":"/b"}]"#;
        assert_eq!(
            strict_errors(patch),
            [r#"json patch unknown field "[0].foo""#, r#"json patch duplicate field "[1].path""#]
        );
        assert!(strict_errors(b"[1, {").is_empty());
    }

    #[test]
    fn copied_bytes_are_bounded() {
        let doc = json!({"a": ["x".repeat(1024)]});
        let operations: Vec<_> =
            (0..40).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
        assert_eq!(patched(&doc, &json!(operations)), Err(422));
    }

    #[test]
    fn moves_cannot_exceed_document_depth() {
        let mut operations = Vec::new();
        for _ in 0..3000 {
            operations.push(json!({"op": "add", "path": "/n", "value": {}}));
            operations.push(json!({"op": "move", "from": "/a", "path": "/n/a"}));
            operations.push(json!({"op": "move", "from": "/n", "path": "/a"}));
        }
        assert_eq!(patched(&json!({"a": 1}), &json!(operations)), Err(422));
        assert!(patched(&json!({"a": 1}), &json!(operations[..150])).is_ok());
    }

    #[test]
    fn merge_patch_drops_nulls_as_in_kubernetes() {
        let doc = json!({"a": {"b": 1, "c": 2}, "l": [1], "o": {"x": 1}});
        let patch = json!({"a": {"b": null, "n": {"z": null}}, "l": [{"p": null}, null], "o": [{"q": null}], "none": null});
        let expected = json!({"a": {"c": 2, "n": {}}, "l": [{}, null], "o": [{"q": null}]});
        assert_eq!(merge(&doc, &patch).unwrap(), expected);
        assert_eq!(merge(&doc, &json!([])).unwrap_err().code, 400);
        assert_eq!(merge(&doc, &Value::Null).unwrap_err().message, "Invalid JSON Patch");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<i8>().prop_map(Value::from), "[a-c]".prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", any_json(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn merging_twice_is_merging_once(doc in any_object(), patch in any_object()) {
            // Nulls inside a list that replaces an object survive the first merge only.
            let once = merge(&doc, &patch).unwrap();
            let twice = merge(&once, &patch).unwrap();
            let mut settled = once.clone();
            drop_nulls(&mut settled);
            let mut twice_settled = twice;
            drop_nulls(&mut twice_settled);
            prop_assert_eq!(settled, twice_settled);
        }

        #[test]
        fn no_patch_panics(doc in any_json(), op in "add|remove|replace|move|copy|test", path in "(/([a-c]|-|-?[0-3]|~[01]?)){0,3}", from in "(/([a-c]|[0-3])){0,2}", value in any_json()) {
            let _ = patched(&doc, &json!([{"op": op, "path": path, "from": from, "value": value}]));
        }
    }
}
