//! Metadata of objects of any kind, for controllers that look at many of them.
//!
//! Objects of tenants can be large, and each of their changes may lead to a reconcile of all of them. So nothing but the metadata is parsed,
//! and other namespaces get their turn in between.

use serde::Deserialize;
use serde_json::Value;

use crate::store::Object;

/// Bytes that are parsed before the task yields.
pub(super) const YIELD_BYTES: usize = 1 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectMetadata {
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Value>>,
}

impl ObjectMetadata {
    pub fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    pub fn owner_references(&self) -> &[Value] {
        self.owner_references.as_deref().unwrap_or_default()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    metadata: ObjectMetadata,
}

/// Parses metadata and counts the bytes of the objects.
#[derive(Default)]
pub(super) struct MetadataParser {
    parsed: usize,
}

impl MetadataParser {
    /// Yields after each [`YIELD_BYTES`].
    pub async fn parse(&mut self, object: &Object) -> ObjectMetadata {
        self.parsed = self.parsed.saturating_add(object.bytes.len());
        if self.parsed > YIELD_BYTES {
            self.parsed = 0;
            tokio::task::yield_now().await;
        }
        serde_json::from_slice::<Document>(&object.bytes).unwrap_or_default().metadata
    }
}
