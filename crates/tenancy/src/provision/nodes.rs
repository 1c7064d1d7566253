//! Reconciles the Nodes of accounts: each Node carries its owner's label and taints, and the account's status counts them.
//!
//! The platform creates the Node of a machine before the machine gets a certificate, and recreates it after a deletion: a tenant's
//! node cannot register itself without its taints (policy `longshore-node-owners`), and a kubelet that may not create a Node uses the
//! existing one. A Node that no kubelet reports to within an hour is deleted, and so is one that leaves (annotation [`LEAVING`]); either
//! frees its slot in the account. A machine that returns under a name of its account belongs to that account again. One whose account is
//! deleted is cordoned.
//!
//! Elsewhere: approval of machines ([`super::joining`]), removal of nodes with their account ([`super::leaving`]).

use std::sync::Arc;

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube_access::feed::Change;
use kube_access::queue::Next;
use kube_types::User;
use kube_types::marks::{
    CERTIFICATES_NOT_BEFORE, DESIRED_POOL, EDGE_WORKER, LEAVING, POOL, SIMULATED, TENANT,
};
use kube_types::user::JoinedNode;
use serde_json::{Value, json};

use super::removal::gone;
use super::{Doing, ProvisionError, Provisioner};
use crate::edge::names::{NAMES, Names};
use crate::edge::ruling::WITHIN;
use crate::secrets::writing;

/// Effects of the taint: pods of other tenants are not scheduled there, and running ones are evicted.
const EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];

/// The cached part of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one Node")]
pub(super) struct Kept {
    pub name: Box<str>,
    pub uid: Box<str>,
    created: Timestamp,
    /// The owner that its label names.
    labelled: Option<Box<str>>,
    /// Whether the taints name the label's owner too, with every effect.
    tainted: bool,
    cordoned: bool,
    /// A kubelet has reported its status.
    reported: bool,
    leaving: bool,
}

impl Kept {
    pub fn of(node: &Node) -> Self {
        let label = node.labels().get(TENANT);
        let spec = node.spec.as_ref();
        let tainted = |effect: &str| {
            let mut taints = spec.into_iter().flat_map(|spec| spec.taints.iter().flatten());
            taints.any(|taint| taint.key == TENANT && taint.value.as_ref() == label && taint.effect == effect)
        };
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        Self {
            name: node.name_any().into(),
            uid: node.uid().unwrap_or_default().into(),
            created: node.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            labelled: label.map(|id| id.as_str().into()),
            tainted: EFFECTS.into_iter().all(tainted),
            cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
            reported: info.is_some_and(|info| !info.kubelet_version.is_empty()),
            leaving: node.annotations().get(LEAVING).is_some_and(|value| value == "true"),
        }
    }

    /// The UID for the account's record: empty before a kubelet has reported.
    fn reported_uid(&self) -> &str {
        if self.reported { &self.uid } else { "" }
    }

    fn is_labelled(&self, id: &UserId) -> bool {
        self.labelled.as_deref() == Some(id.as_str())
    }

    /// Whether label and taints name this owner.
    fn is_marked(&self, id: &UserId) -> bool {
        self.is_labelled(id) && self.tainted
    }
}

/// Whether the label of a Node names this owner.
pub(super) fn is_labelled(node: &Node, id: &UserId) -> bool {
    node.labels().get(TENANT).is_some_and(|label| label == id.as_str())
}

/// The decision about a record. Pure: no I/O, no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Keep the record: the kubelet reports.
    Keep,
    /// Keep the record until no kubelet has reported for too long.
    Await { until: Timestamp },
    /// Create the Node (again).
    Create,
    /// Drop the record, and delete the Node if there is one.
    Drop,
}

/// Decides about a record by the state of its Node.
fn fate(record: &JoinedNode, node: Option<&Kept>, now: Timestamp) -> Fate {
    let patience = |since: Timestamp| since.checked_add(WITHIN).ok().filter(|until| now < *until);
    match node {
        Some(node) if node.leaving => Fate::Drop,
        Some(node) if node.reported => Fate::Keep,
        Some(node) => {
            patience(record.since.0.max(node.created)).map_or(Fate::Drop, |until| Fate::Await { until })
        }
        // A node that returned without a granted request is not recreated, nor one that never reported in time.
        None if record.requests.is_empty() => Fate::Drop,
        None if record.uid.is_empty() && patience(record.since.0).is_none() => Fate::Drop,
        None => Fate::Create,
    }
}

/// The nodes of an account after a reconcile.
#[derive(Default)]
pub(super) struct Tended {
    pub joined: Vec<JoinedNode>,
    /// The number of nodes that report.
    pub present: usize,
    /// The earliest deadline of a node that has not reported yet.
    pub next: Option<Timestamp>,
}

impl Provisioner {
    /// Reconciles the account's nodes and returns its records.
    pub(super) async fn tend_nodes(
        &self,
        user: &User,
        id: &UserId,
        now: Timestamp,
    ) -> Result<Tended, ProvisionError> {
        let recorded = user.status.clone().unwrap_or_default().joined;
        let most = usize::try_from(user.spec.max_node_num).unwrap_or(0);
        let mut tended = Tended::default();
        for mut record in recorded.into_iter().chain(self.returned(user, id, now)) {
            let mut node = self.kept(&record.name).await?;
            let mut fate = fate(&record, node.as_ref(), now);
            if fate == Fate::Create {
                let created = self.create_node(&record.name, id, &record.pool, record.since.0).await?;
                tracing::info!(node.name = record.name, tenant.id = %id, "created the Node of a tenant");
                // A new Node is always awaited, whatever the record's time.
                fate = Fate::Await { until: now.checked_add(WITHIN).unwrap_or(Timestamp::MAX) };
                node = Some(Kept::of(&created));
            }
            let Some(node) = node.filter(|_| fate != Fate::Drop) else {
                self.delete_node(&record.name).await?;
                tracing::info!(node.name = record.name, tenant.id = %id, "a tenant's node has left or did not report");
                continue;
            };
            if let Fate::Await { until } = fate {
                tended.next = Some(tended.next.map_or(until, |next| next.min(until)));
            }
            // A node that returned after its slot was taken by others.
            let surplus = record.requests.is_empty() && tended.joined.len() >= most;
            self.mark(&record, &node, id, surplus).await?;
            record.uid = node.reported_uid().to_owned();
            tended.present += usize::from(node.reported);
            tended.joined.push(record);
        }
        Ok(tended)
    }

    /// Creates the Node of a machine admitted at `since`, with its owner's label and taints. An existing Node gets them.
    pub(super) async fn create_node(
        &self,
        name: &str,
        id: &UserId,
        pool: &str,
        since: Timestamp,
    ) -> Result<Node, ProvisionError> {
        let doing = || format!("create node `{name}`");
        let mut labels = json!({ TENANT: id, EDGE_WORKER: "true", SIMULATED: "false" });
        if !pool.is_empty() {
            labels[DESIRED_POOL] = pool.into();
        }
        let annotations = json!({ CERTIFICATES_NOT_BEFORE: since });
        let node = json!({
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "spec": { "taints": taints(id) },
        });
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError).doing(doing)?;
        match self.api::<Node>().create(&writing(), &node).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let found = self.api::<Node>().get(name).await.doing(doing)?;
                if !Kept::of(&found).is_marked(id) {
                    self.patch_node(&found, marks(&found, id, Some(pool), false)).await?;
                }
                Ok(found)
            }
            created => created.doing(doing),
        }
    }

    /// Deletes the Node of a dropped record, if there is one.
    async fn delete_node(&self, name: &str) -> Result<(), ProvisionError> {
        let Some(node) = self.node(name).await? else { return Ok(()) };
        let now = Kept::of(&node);
        if now.reported && !now.leaving {
            // Its kubelet has reported in the meantime: it counts as a returned node.
            return Ok(());
        }
        let same = Preconditions { uid: node.uid(), resource_version: node.resource_version() };
        let deleted = self.api::<Node>().delete(name, &DeleteParams::default().preconditions(same)).await;
        gone(deleted.map(drop)).doing(|| format!("delete node `{name}`"))
    }

    /// Records for nodes that returned under a name of this account.
    fn returned(&self, user: &User, id: &UserId, now: Timestamp) -> Vec<JoinedNode> {
        let status = user.status.as_ref();
        let is_recorded =
            |name: &str| status.is_some_and(|status| status.joined.iter().any(|joined| joined.name == name));
        let record = |name: &str| JoinedNode {
            name: name.to_owned(),
            since: Time(now),
            token: String::new(),
            pool: String::new(),
            requests: Vec::new(),
            uid: String::new(),
        };
        let present = self.nodes_labelled(&self.known_names(), id);
        let new = present.iter().filter(|node| !is_recorded(&node.name) && !node.leaving);
        new.map(|node| record(&node.name)).collect()
    }

    /// The cached names of older nodes.
    fn known_names(&self) -> Arc<Names> {
        self.names.get(NAMES).unwrap_or_default()
    }

    /// The Nodes of an account: by the label, which a tenant's node cannot choose, under a name of that account; older nodes by their name.
    pub(super) fn nodes_labelled(&self, names: &Names, id: &UserId) -> Vec<Arc<Kept>> {
        let is_theirs = |node: &Arc<Kept>| {
            (node.is_labelled(id) || names.is_older(&node.name))
                && names.owner(&node.name).as_ref() == Some(id)
        };
        self.nodes.all().into_iter().filter(is_theirs).collect()
    }

    /// The node from the cache, otherwise from the cluster: no record is dropped because of a stale cache.
    async fn kept(&self, name: &str) -> Result<Option<Kept>, ProvisionError> {
        if let Some(kept) = self.nodes.get(name) {
            return Ok(Some(kept.as_ref().clone()));
        }
        Ok(self.node(name).await?.as_ref().map(Kept::of))
    }

    /// Applies label, taints and pool where they differ, and cordons the node if `cordon` is set.
    async fn mark(
        &self,
        record: &JoinedNode,
        seen: &Kept,
        id: &UserId,
        cordon: bool,
    ) -> Result<(), ProvisionError> {
        let is_new = *record.uid != *seen.reported_uid();
        if !is_new && seen.is_marked(id) && (seen.cordoned || !cordon) {
            return Ok(());
        }
        let Some(node) =
            self.node(&record.name).await?.filter(|node| node.uid().as_deref() == Some(&seen.uid))
        else {
            // Replaced by another Node; the watch will report it.
            return Ok(());
        };
        let pool = is_new.then_some(record.pool.as_str());
        self.patch_node(&node, marks(&node, id, pool, cordon)).await
    }

    /// Patches a node at the `resourceVersion` that was read.
    pub(super) async fn patch_node(&self, node: &Node, change: Value) -> Result<(), ProvisionError> {
        let Value::Object(mut patch) = change else { return Ok(()) };
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = json!(node.resource_version());
        let name = node.name_any();
        let patched = self.api::<Node>().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).doing(|| format!("mark node `{name}`"))
    }

    /// Reconciles a node whose account is deleted: no new pods are scheduled there.
    pub(super) async fn sync_stray(&self, name: &str) -> Result<Next, ProvisionError> {
        let Some(id) = self.known_names().owner(name) else { return Ok(Next::Rest) };
        let Some(node) = self.node(name).await? else { return Ok(Next::Rest) };
        let kept = Kept::of(&node);
        if self.user_of(&id).is_none() && !(kept.is_marked(&id) && kept.cordoned) {
            self.patch_node(&node, marks(&node, &id, Some(""), true)).await?;
            tracing::warn!(node.name = name, tenant.id = %id, "a machine of an account that is gone came back");
        }
        Ok(Next::Rest)
    }

    /// The account to reconcile after a node changed.
    pub(super) fn owner_of_node(&self, change: &Change<Kept>) -> Option<String> {
        let (node, there) = match change {
            Change::Applied(node) => (node, true),
            Change::Deleted(node) => (node, false),
        };
        let names = self.known_names();
        let account = self.directory.account(&names.owner(&node.name)?)?;
        let record = account.joined.iter().find(|joined| joined.name == *node.name);
        let due = match record {
            Some(record) if there => {
                *record.uid != *node.reported_uid() || node.leaving || !node.is_marked(&account.id)
            }
            Some(_) => true,
            None => there && (node.is_labelled(&account.id) || names.is_older(&node.name)),
        };
        due.then(|| account.name.clone())
    }

    /// The node, if it belongs to no account's reconcile. Excludes operators' nodes, whatever their names look like.
    pub(super) fn stray(&self, change: &Change<Kept>) -> Option<String> {
        let Change::Applied(node) = change else { return None };
        let names = self.known_names();
        let owner = names.owner(&node.name)?;
        let is_tenants = node.is_labelled(&owner) || names.is_older(&node.name);
        let settled = node.is_marked(&owner) && node.cordoned;
        (is_tenants && !settled && self.directory.account(&owner).is_none()).then(|| node.name.to_string())
    }

    /// Changes for nodes that were cached before their names.
    pub(super) fn named(&self, names: &Change<Names>) -> Vec<Change<Kept>> {
        let Change::Applied(names) = names else { return Vec::new() };
        names.all().filter_map(|name| self.nodes.get(name)).map(Change::Applied).collect()
    }
}

/// The patch with the owner's label and taints. `pool` is given once, when the Node has just appeared: it replaces the pool that the
/// machine chose. Later changes of the pool are up to those with the right to.
fn marks(node: &Node, id: &UserId, pool: Option<&str>, cordon: bool) -> Value {
    let spec = node.spec.clone().unwrap_or_default();
    let others = spec.taints.into_iter().flatten().filter(|taint| taint.key != TENANT);
    let taints: Vec<Taint> = others.chain(taints(id)).collect();
    let mut labels = json!({ TENANT: id });
    if let Some(pool) = pool {
        labels[DESIRED_POOL] = if pool.is_empty() { Value::Null } else { pool.into() };
        if node.labels().get(POOL).is_some_and(|said| said != pool) {
            labels[POOL] = Value::Null;
        }
    }
    let mut spec = json!({ "taints": taints });
    if cordon {
        spec["unschedulable"] = true.into();
    }
    json!({ "metadata": { "labels": labels }, "spec": spec })
}

/// The taints of a tenant's node.
fn taints(id: &UserId) -> [Taint; 2] {
    EFFECTS.map(|effect| Taint {
        key: TENANT.to_owned(),
        value: Some(id.to_string()),
        effect: effect.to_owned(),
        time_added: None,
    })
}

#[cfg(test)]
mod tests;
