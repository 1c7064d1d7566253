//! Go's JSON conventions: `null` equals a missing field, and empty fields are omitted.

use serde::{Deserialize, Deserializer};

/// Deserializes `null` as the default: Go leaves a field unchanged on `null`.
pub(super) fn nothing<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
pub(super) fn is_zero(n: &i64) -> bool {
    *n == 0
}
