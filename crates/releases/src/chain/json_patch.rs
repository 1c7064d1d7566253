//! JSON patches (RFC 6902) onto a manifest, held to what an object can be: a short list of copies could otherwise make
//! one that fills the memory.

use json_patch::PatchOperation;
use serde_json::Value;

/// How many values an object may have after any operation, and how deep they may be.
const MOST_VALUES: usize = 200_000;
const DEEPEST: usize = 200;

/// The object after all operations. An error says which one failed and where, never what stands there.
pub fn apply(object: &Value, operations: &[PatchOperation]) -> Result<Value, String> {
    let mut object = object.clone();
    for (index, operation) in operations.iter().enumerate() {
        json_patch::patch(&mut object, std::slice::from_ref(operation))
            .map_err(|error| format!("operation {index} at {}: {}", operation.path(), error.kind))?;
        if matches!(operation, PatchOperation::Copy(_) | PatchOperation::Add(_)) {
            let mut left = MOST_VALUES;
            if !is_bounded(&object, &mut left, DEEPEST) {
                return Err(format!(
                    "operation {index} at {}: the object becomes too large",
                    operation.path()
                ));
            }
        }
    }
    Ok(object)
}

fn is_bounded(value: &Value, left: &mut usize, deeper: usize) -> bool {
    if *left == 0 || deeper == 0 {
        return false;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter().all(|item| is_bounded(item, left, deeper - 1)),
        Value::Object(fields) => fields.values().all(|item| is_bounded(item, left, deeper - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(object: &Value, operations: Value) -> Result<Value, String> {
        apply(object, &serde_json::from_value::<Vec<PatchOperation>>(operations).unwrap())
    }

    #[test]
    fn operations_one_after_the_other() {
        let object = json!({"a": [1], "b": {"c/d": 2}});
        let operations = json!([
            {"op": "add", "path": "/a/-", "value": 2},
            {"op": "replace", "path": "/b/c~1d", "value": 3},
            {"op": "move", "from": "/b", "path": "/e"},
            {"op": "test", "path": "/e/c~1d", "value": 3},
            {"op": "remove", "path": "/a/0"},
        ]);
        assert_eq!(run(&object, operations), Ok(json!({"a": [2], "e": {"c/d": 3}})));
        let missing = json!([{"op": "test", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/x"}]);
        assert_eq!(run(&object, missing), Err("operation 1 at /x: path is invalid".to_owned()));
        let unlike = json!([{"op": "test", "path": "/a", "value": "secret"}]);
        assert_eq!(run(&object, unlike), Err("operation 0 at /a: value did not match".to_owned()));
    }

    #[test]
    fn copies_of_copies_come_to_an_end() {
        let wide: Vec<Value> =
            (0..60).map(|index| json!({"op": "copy", "from": "", "path": format!("/k{index}")})).collect();
        assert!(run(&json!({"a": 1}), wide.into()).unwrap_err().ends_with("the object becomes too large"));
        let mut path = String::new();
        let deep = (0..60).map(|_| {
            path = format!("{path}{path}/k");
            json!({"op": "copy", "from": "", "path": path})
        });
        let deep: Vec<Value> = deep.take(10).collect();
        assert!(run(&json!({"k": {}}), deep.into()).is_err());
    }
}
