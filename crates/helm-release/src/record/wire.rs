//! What Go does with JSON by itself: null is nothing, and what is empty is left out.

use serde::{Deserialize, Deserializer};

/// Go leaves a field as it is where JSON says null.
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
