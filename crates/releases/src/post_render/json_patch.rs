//! JSON patches (RFC 6902) with bounded memory and work: without a bound, a short list of copies could build an object that fills the
//! memory.

use helm_template::budget::Budget;
use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use super::accounting;

/// The maximum depth of an object after any operation.
const MAX_DEPTH: usize = 200;

/// Applies all operations. An error names the operation and its path, never a value.
pub fn apply(object: &Value, operations: &[PatchOperation], budget: &Budget<'_>) -> Result<Value, String> {
    let mut bytes = accounting::bytes(object);
    accounting::charge_copy(budget, bytes)?;
    let mut object = object.clone();
    for (index, operation) in operations.iter().enumerate() {
        let at = |why: &str| format!("operation {index} at {}: {why}", operation.path());
        bytes = charge_operation(&object, operation, bytes, budget).map_err(|why| at(&why))?;
        json_patch::patch(&mut object, std::slice::from_ref(operation))
            .map_err(|error| at(&error.kind.to_string()))?;
    }
    Ok(object)
}

/// Charges everything that an operation needs before it is executed. Returns an upper bound of the object's size after it.
fn charge_operation(
    object: &Value,
    operation: &PatchOperation,
    bytes: usize,
    budget: &Budget<'_>,
) -> Result<usize, String> {
    let path = operation.path();
    // An operation follows its path, and shifts the items behind it in a list.
    let moved = |path: &Pointer| match path.parent().and_then(|parent| value_at(object, parent)) {
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    accounting::charge_compare(budget, path.count().saturating_add(moved(path)))?;
    let (added, copied) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), true),
        PatchOperation::Replace(replace) => (Some(&replace.value), true),
        PatchOperation::Copy(copy) => (value_at(object, &copy.from), true),
        PatchOperation::Move(from) => {
            accounting::charge_compare(budget, from.from.count().saturating_add(moved(&from.from)))?;
            (value_at(object, &from.from), false)
        }
        PatchOperation::Test(test) => {
            accounting::charge_compare(budget, accounting::bytes(&test.value))?;
            (None, false)
        }
        PatchOperation::Remove(_) => (None, false),
    };
    let Some(added) = added else { return Ok(bytes) };
    let more = accounting::bytes(added);
    accounting::charge_compare(budget, more / 16)?;
    if path.count().saturating_add(accounting::depth(added)) > MAX_DEPTH {
        return Err(format!("the object exceeds the depth limit of {MAX_DEPTH}"));
    }
    if !copied {
        return Ok(bytes);
    }
    accounting::charge_copy(budget, more)?;
    let bytes = bytes.saturating_add(more);
    if bytes > accounting::MAX_OBJECT_BYTES {
        return Err(format!("the object becomes larger than {} bytes", accounting::MAX_OBJECT_BYTES));
    }
    Ok(bytes)
}

fn value_at<'v>(object: &'v Value, path: &Pointer) -> Option<&'v Value> {
    object.pointer(path.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(object: &Value, operations: Value) -> Result<Value, String> {
        let operations: Vec<PatchOperation> = serde_json::from_value(operations).unwrap();
        apply(object, &operations, &Budget::default())
    }

    #[test]
    fn operations_apply_in_order() {
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
    fn nested_copies_are_bounded() {
        let wide: Vec<Value> =
            (0..60).map(|index| json!({"op": "copy", "from": "", "path": format!("/k{index}")})).collect();
        let error = run(&json!({"a": 1}), wide.into()).unwrap_err();
        assert!(error.ends_with("the object becomes larger than 8388608 bytes"), "{error}");
        let mut path = String::new();
        let deep = (0..60).map(|_| {
            path = format!("{path}{path}/k");
            json!({"op": "copy", "from": "", "path": path})
        });
        let deep: Vec<Value> = deep.take(10).collect();
        assert!(run(&json!({"k": {}}), deep.into()).is_err());
    }

    /// Without the limit, one text of 8 MB and twelve copies take 8 GB.
    #[test]
    fn large_copies_are_rejected_before_allocation() {
        let copies =
            (0..12).map(|index| json!({"op": "copy", "from": "/data", "path": format!("/data/k{index}")}));
        for length in [100_000, 8_000_000] {
            let object = json!({"data": {"text": "x".repeat(length)}});
            let error = run(&object, copies.clone().collect()).unwrap_err();
            assert!(error.contains("the object becomes larger than 8388608 bytes"), "{error}");
        }
        let adds: Vec<Value> = (0..20)
            .map(|index| json!({"op": "add", "path": format!("/k{index}"), "value": "x".repeat(1 << 20)}))
            .collect();
        assert!(run(&json!({}), adds.into()).is_err());
    }

    #[test]
    fn deep_moves_are_rejected() {
        let deep = (0..150).fold(json!(1), |inner, _| json!({"c": inner}));
        let below = "/c".repeat(100);
        let error = run(
            &json!({"a": deep.clone(), "c": deep}),
            json!([{"op": "move", "from": "/a", "path": format!("{below}/m")}]),
        );
        assert!(error.unwrap_err().ends_with("the object exceeds the depth limit of 200"));
    }

    #[test]
    fn moves_in_a_long_list_are_charged() {
        let object = json!({"list": vec![0; 900_000]});
        let moves: Vec<Value> =
            (0..9_900).map(|_| json!({"op": "move", "from": "/list/0", "path": "/list/899998"})).collect();
        let error = run(&object, moves.into()).unwrap_err();
        assert!(error.contains("too much"), "{error}");
    }
}
