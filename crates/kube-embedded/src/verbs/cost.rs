//! Cost estimates of calls: calls above [`crate::cluster::Config::inline_bytes`] run on the pool.
//!
//! The estimate is pessimistic and made before decoding. Small bodies may cause much work: JSON patches copy and shift parts of stored
//! objects, aliases repeat parts of a YAML document.

use super::{ResourceRequest, subresource};
use crate::decode::yaml;
use crate::http::negotiate::Representation;
use crate::http::service::BODY_LIMIT;
use crate::write::json_patch::PatchStatistics;

/// An operation of a JSON patch may shift each element of a list, or visit each value of the document. That is cheaper than decoding and
/// validating it by this factor.
const SHIFT_DIVISOR: usize = 8;
/// Upper bound of work that uses no memory: it waits for the pool like larger work, and never exceeds its capacity.
const MAX_STEPS_WEIGHT: usize = 1 << 20;
/// A write costs this many times as much as a read of the same size: admission policies, validation and field managers visit its object.
const WRITE_FACTOR: usize = 4;
/// Bytes counted per object of a deleted collection, for its metadata.
const METADATA_BYTES: usize = 512;

impl ResourceRequest {
    /// Bytes that this call may have to read, parse and print at once. Lists, watches and deletions of collections process objects one by
    /// one, the large ones on the pool.
    pub fn weight(&self) -> usize {
        let is_of_one = !self.name.is_empty() && self.verb != "watch";
        let is_sent_as_stored = self.verb == "get" && self.representation == Representation::default();
        let stored = match self.verb {
            "deletecollection" => self.collection_weight(),
            _ if is_of_one && !is_sent_as_stored => self.stored_size(),
            _ => 0,
        };
        let sent = self.body.len().saturating_add(stored).saturating_add(subresource::rules_weight(self));
        // Large bodies run on the pool anyway, where more than their size is reserved.
        sent.saturating_add(amplification(self.content_type.as_deref(), &self.body, stored))
    }

    /// Whether a call of this weight takes so little time that it does not need the pool.
    pub fn is_inline(&self, weight: usize) -> bool {
        let factor = if matches!(self.verb, "get" | "list" | "watch") { 1 } else { WRITE_FACTOR };
        weight <= self.cluster.inline_bytes() / factor
    }

    /// Cost of deleting a collection: objects are deleted one by one, so that the largest one counts in full and each of the others as its
    /// metadata.
    fn collection_weight(&self) -> usize {
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let objects = self.cluster.store().list(&self.resource.storage, namespace).objects;
        let largest = objects.iter().map(|object| object.bytes.len()).max().unwrap_or(0);
        objects.len().saturating_mul(METADATA_BYTES).min(MAX_STEPS_WEIGHT).saturating_add(largest)
    }

    /// Size of the stored object of this call.
    pub fn stored_size(&self) -> usize {
        let found = self.cluster.store().get(&self.resource.storage, &self.namespace, &self.name);
        found.map_or(0, |object| object.bytes.len())
    }
}

/// Cost of a body beyond its size and that of the stored object.
fn amplification(content_type: Option<&str>, body: &[u8], stored: usize) -> usize {
    let media = content_type.unwrap_or_default().to_ascii_lowercase();
    if media.contains("json-patch") {
        return patch_amplification(&PatchStatistics::from_patch(body), body.len().saturating_add(stored));
    }
    if media.contains("yaml") { yaml::amplification(body) } else { 0 }
}

/// A copy at most doubles the document.
fn patch_amplification(operations: &PatchStatistics, document: usize) -> usize {
    let doublings = u32::try_from(operations.copies).unwrap_or(u32::MAX);
    let factor = 1_usize.checked_shl(doublings).unwrap_or(usize::MAX).saturating_sub(1);
    let copied = document.saturating_mul(factor).min(BODY_LIMIT);
    let steps = operations.count.saturating_mul(document / SHIFT_DIVISOR).min(MAX_STEPS_WEIGHT);
    copied.saturating_add(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "application/json-patch+json; charset=utf-8";

    #[test]
    fn amplification_of_json_patches_when_they_copy_or_have_many_operations() {
        let of = |patch: &str, stored| amplification(Some(PATCH), patch.as_bytes(), stored);
        assert_eq!(of("null", 60_000), 0);
        assert!(of(r#"[{"op": "replace", "path": "/a", "value": "copy"}]"#, 30_000) < 4_000);
        let copies = |op: &str, count: usize| {
            let operations = vec![format!("{{{op}, \"from\": \"/a\", \"path\": \"/b\"}}"); count];
            format!("[{}]", operations.join(","))
        };
        for op in [
            r#""op": "copy""#,
            r#""op": "c\u006fpy""#,
            r#""o\u0070": "copy""#,
            r#""op": "add", "op": "copy""#,
        ] {
            assert!((1_000..2_000).contains(&of(&copies(op, 1), 1_000)), "{op}");
            assert!(of(&copies(op, 12), 1_000) >= BODY_LIMIT, "{op}");
            assert!(of(&copies(op, 1_000), 1_000) < 2 * BODY_LIMIT, "{op}");
            // Operations before a faulty one are executed.
            assert!(of(&copies(op, 12).replace(']', ",null]"), 1_000) >= BODY_LIMIT, "{op}");
        }
        assert!(of(&copies(r#""op": "move""#, 200), 40_000) > 500_000);
    }
}
