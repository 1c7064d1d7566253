//! Objects that the client of a target does not write: another client does, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;

use crate::object::ObjectId;

/// A set of objects withheld from the client of a [`Target`](crate::Target). Cheap to clone; clones share the set.
///
/// With its own client, these objects are read, written and removed with that client. Without one they are left
/// alone: not read, written, removed or waited for.
#[derive(Clone, Default)]
pub struct ReservedObjects {
    ids: Arc<ArcSwap<BTreeSet<ObjectId>>>,
    client: Option<Client>,
}

impl ReservedObjects {
    /// Objects that are left alone.
    pub fn skipped(ids: impl IntoIterator<Item = ObjectId>) -> Self {
        Self { ids: Arc::new(ArcSwap::from_pointee(ids.into_iter().collect())), client: None }
    }

    /// Objects that are written with another client.
    pub fn with_client(client: Client, ids: impl IntoIterator<Item = ObjectId>) -> Self {
        Self { client: Some(client), ..Self::skipped(ids) }
    }

    /// The same set, left alone.
    #[must_use]
    pub fn without_client(&self) -> Self {
        Self { ids: self.ids.clone(), client: None }
    }

    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    pub fn add(&self, more: &BTreeSet<ObjectId>) {
        self.ids.rcu(|ids| ids.union(more).cloned().collect::<BTreeSet<ObjectId>>());
    }

    pub fn ids(&self) -> Arc<BTreeSet<ObjectId>> {
        self.ids.load_full()
    }

    /// Whether an object is in the set. An object whose scope was unknown when added is stored under the namespace
    /// that a namespaced object would have.
    pub fn contains(&self, id: &ObjectId, default_namespace: &str) -> bool {
        let ids = self.ids.load();
        let placed = || ObjectId { namespace: Some(default_namespace.to_owned()), ..id.clone() };
        !ids.is_empty() && (ids.contains(id) || (id.namespace.is_none() && ids.contains(&placed())))
    }
}
