//! Key of a release: namespace and name.

use std::fmt;
use std::sync::Arc;

use kube::{Resource, ResourceExt};

/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ReleaseKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a namespaced object.
    pub fn from_object<K: Resource>(object: &K) -> Self {
        Self::new(&object.namespace().unwrap_or_default(), &object.name_any())
    }
}

impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
