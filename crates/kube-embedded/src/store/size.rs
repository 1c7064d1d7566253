//! The limit of an object's size: that of etcd, so that a real cluster accepts every object that is accepted here.

use serde_json::Value;

use super::{Change, CommitError, Object, Op};

/// Default of etcd's `--max-request-bytes`.
pub const MAX_OBJECT_BYTES: usize = 1_572_864;

/// Refuses a change that makes an object larger than [`MAX_OBJECT_BYTES`].
///
/// An object that exceeds the limit because it is older than the limit can be made smaller, marked as deleted, and removed.
pub(super) fn check(
    change: &Change,
    old: impl FnOnce() -> Option<std::sync::Arc<Object>>,
) -> Result<(), CommitError> {
    let (Op::Put(new) | Op::Rebase(new, _)) = &change.op else { return Ok(()) };
    let size = size(new);
    if size <= MAX_OBJECT_BYTES {
        return Ok(());
    }
    let shrinks = old().is_some_and(|old| {
        let marks = !old.is_deleting && !new["metadata"]["deletionTimestamp"].is_null();
        let before = self::size(&old.value());
        before > MAX_OBJECT_BYTES && (size <= before || marks)
    });
    if shrinks { Ok(()) } else { Err(CommitError::TooLarge(size)) }
}

/// Approximates the bytes of an object in etcd: keys and strings without JSON escapes, plus two bytes each. Scalars count as
/// eight bytes.
fn size(value: &Value) -> usize {
    let parts = |sizes: &mut dyn Iterator<Item = usize>| sizes.fold(2, usize::saturating_add);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len().saturating_add(2),
        Value::Array(items) => parts(&mut items.iter().map(size)),
        Value::Object(fields) => parts(
            &mut fields.iter().map(|(name, value)| name.len().saturating_add(2).saturating_add(size(value))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Expect, Key};
    use super::*;

    #[test]
    fn oversized_object_can_only_shrink() {
        let put = |length: usize, deleted: bool| {
            let mut value = json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(length)}});
            if deleted {
                value["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
            }
            let key = Key::new(&"configmaps".into(), "n", "a");
            Change { key, expect: Expect::Version(1), op: Op::Put(value) }
        };
        let object = |length: usize| {
            let Op::Put(value) = put(length, false).op else { unreachable!() };
            Some(std::sync::Arc::new(Object::new(value, 1)))
        };
        assert!(check(&put(1_500_000, false), || None).is_ok());
        assert!(matches!(check(&put(1_600_000, false), || None), Err(CommitError::TooLarge(_))));
        assert!(check(&put(1_600_000, false), || object(1_000_000)).is_err());
        assert!(check(&put(1_600_000, true), || object(1_000_000)).is_err());
        assert!(check(&put(1_700_000, false), || object(1_800_000)).is_ok());
        assert!(check(&put(1_800_000, true), || object(1_800_000)).is_ok());
        assert!(check(&put(1_900_000, false), || object(1_800_000)).is_err());
    }
}
