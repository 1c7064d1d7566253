//! Reconciles the Nodes of accounts: each Node carries its owner's label and taints, and the account's status counts them.
//!
//! The platform creates the Node of a machine before the machine gets a certificate, and recreates it after a deletion: a tenant's
//! node cannot register itself without its taints (policy `longshore-node-owners`), and a kubelet that may not create a Node uses the
//! existing one. A Node that no kubelet reports to within an hour is deleted, and so is one that leaves (annotation [`NODE_LEAVING`]);
//! either frees its slot in the account. A machine that returns under a name of its account belongs to that account again. One whose
//! account is deleted is cordoned.
//!
//! Elsewhere: approval of machines ([`super::node_csr`]), removal of nodes with their account ([`super::node_cleanup`]).

use std::sync::Arc;

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube_access::cache::CacheEvent;
use kube_access::queue::Action;
use kube_types::User;
use kube_types::user::JoinedNode;
use kube_types::well_known::{
    CERTIFICATES_NOT_BEFORE, DESIRED_POOL, EDGE_WORKER, NODE_LEAVING, POOL, SIMULATED, TENANT,
};
use serde_json::{Value, json};

use super::deletion::ignore_not_found;
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::credential_store::post_params;
use crate::node_join::csr_decision::MAX_REQUEST_AGE;
use crate::node_join::node_names::{NODE_NAMES_CONFIG_MAP, NodeNameRegistry};

/// Effects of the taint: pods of other tenants are not scheduled there, and running ones are evicted.
const TAINT_EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];

/// The cached part of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one Node")]
pub(super) struct NodeSummary {
    pub name: Box<str>,
    pub uid: Box<str>,
    created: Timestamp,
    /// The owner that its label names.
    owner_label: Option<Box<str>>,
    /// Whether the taints name the label's owner too, with every effect.
    has_owner_taints: bool,
    is_cordoned: bool,
    /// A kubelet has reported its status.
    has_reported: bool,
    is_leaving: bool,
}

impl NodeSummary {
    pub fn from_node(node: &Node) -> Self {
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
            owner_label: label.map(|id| id.as_str().into()),
            has_owner_taints: TAINT_EFFECTS.into_iter().all(tainted),
            is_cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
            has_reported: info.is_some_and(|info| !info.kubelet_version.is_empty()),
            is_leaving: node.annotations().get(NODE_LEAVING).is_some_and(|value| value == "true"),
        }
    }

    /// The UID for the account's record: empty before a kubelet has reported.
    fn reported_uid(&self) -> &str {
        if self.has_reported { &self.uid } else { "" }
    }

    fn is_labelled(&self, id: &UserId) -> bool {
        self.owner_label.as_deref() == Some(id.as_str())
    }

    /// Whether label and taints name this owner.
    fn has_owner_marks(&self, id: &UserId) -> bool {
        self.is_labelled(id) && self.has_owner_taints
    }
}

/// Whether the label of a Node names this owner.
pub(super) fn is_labelled(node: &Node, id: &UserId) -> bool {
    node.labels().get(TENANT).is_some_and(|label| label == id.as_str())
}

/// The decision about a record. Pure: no I/O, no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeDecision {
    /// Keep the record: the kubelet reports.
    Keep,
    /// Keep the record until no kubelet has reported for too long.
    AwaitReport { until: Timestamp },
    /// Create the Node (again).
    Create,
    /// Drop the record, and delete the Node if there is one.
    Drop,
}

/// Decides about a record by the state of its Node.
fn decide(record: &JoinedNode, node: Option<&NodeSummary>, now: Timestamp) -> NodeDecision {
    let patience = |since: Timestamp| since.checked_add(MAX_REQUEST_AGE).ok().filter(|until| now < *until);
    match node {
        Some(node) if node.is_leaving => NodeDecision::Drop,
        Some(node) if node.has_reported => NodeDecision::Keep,
        Some(node) => patience(record.since.0.max(node.created))
            .map_or(NodeDecision::Drop, |until| NodeDecision::AwaitReport { until }),
        // A node that returned without a granted request is not recreated, nor one that never reported in time.
        None if record.requests.is_empty() => NodeDecision::Drop,
        None if record.uid.is_empty() && patience(record.since.0).is_none() => NodeDecision::Drop,
        None => NodeDecision::Create,
    }
}

/// The nodes of an account after a reconcile.
#[derive(Default)]
pub(super) struct NodeReport {
    pub joined: Vec<JoinedNode>,
    /// The number of nodes that report.
    pub reporting: usize,
    /// The earliest deadline of a node that has not reported yet.
    pub next_deadline: Option<Timestamp>,
    /// Names without a record. Their Nodes are deleted after the records: a Node with a record would be created again after a crash.
    pub dropped: Vec<String>,
}

impl TenancyController {
    /// Reconciles the account's nodes and returns its records.
    pub(super) async fn reconcile_nodes(
        &self,
        user: &User,
        id: &UserId,
        now: Timestamp,
    ) -> Result<NodeReport, ReconcileError> {
        let recorded = user.status.clone().unwrap_or_default().joined;
        let most = usize::try_from(user.spec.max_node_num).unwrap_or(0);
        let mut tended =
            NodeReport { dropped: self.unrecorded_leaving_nodes(&recorded, id), ..NodeReport::default() };
        for mut record in recorded.into_iter().chain(self.returned_nodes(user, id, now)) {
            let mut node = self.get_node_summary(&record.name).await?;
            let mut fate = decide(&record, node.as_ref(), now);
            if fate == NodeDecision::Create {
                let created = self.create_node(&record.name, id, &record.pool, record.since.0).await?;
                tracing::info!(node.name = record.name, tenant.id = %id, "created the Node of a tenant");
                // A new Node is always awaited, whatever the record's time.
                fate = NodeDecision::AwaitReport {
                    until: now.checked_add(MAX_REQUEST_AGE).unwrap_or(Timestamp::MAX),
                };
                node = Some(NodeSummary::from_node(&created));
            }
            let Some(node) = node.filter(|_| fate != NodeDecision::Drop) else {
                tended.dropped.push(record.name);
                continue;
            };
            if let NodeDecision::AwaitReport { until } = fate {
                tended.next_deadline = Some(tended.next_deadline.map_or(until, |next| next.min(until)));
            }
            // A node that returned after its slot was taken by others.
            let surplus = record.requests.is_empty() && tended.joined.len() >= most;
            self.ensure_owner_marks(&record, &node, id, surplus).await?;
            record.uid = node.reported_uid().to_owned();
            tended.reporting += usize::from(node.has_reported);
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
    ) -> Result<Node, ReconcileError> {
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
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError).context(doing)?;
        match self.api::<Node>().create(&post_params(), &node).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let found = self.api::<Node>().get(name).await.context(doing)?;
                if !NodeSummary::from_node(&found).has_owner_marks(id) {
                    self.patch_node(&found, tenant_patch(&found, id, Some(pool), false)).await?;
                }
                Ok(found)
            }
            created => created.context(doing),
        }
    }

    /// Leaving Nodes whose records were dropped by a reconcile that did not delete them.
    fn unrecorded_leaving_nodes(&self, recorded: &[JoinedNode], id: &UserId) -> Vec<String> {
        let is_recorded = |node: &NodeSummary| recorded.iter().any(|joined| joined.name == *node.name);
        let present = self.nodes_of_account(&self.cached_node_names(), id);
        let leaving = present.iter().filter(|node| node.is_leaving && !is_recorded(node));
        leaving.map(|node| node.name.to_string()).collect()
    }

    /// Deletes the Node of a dropped record, if there is one.
    pub(super) async fn delete_dropped_node(&self, name: &str, id: &UserId) -> Result<(), ReconcileError> {
        let Some(node) = self.get_node(name).await? else { return Ok(()) };
        let now = NodeSummary::from_node(&node);
        if now.has_reported && !now.is_leaving {
            // Its kubelet has reported in the meantime: it counts as a returned node.
            return Ok(());
        }
        // A leaving machine could change its Node faster than it is deleted.
        let unchanged = node.resource_version().filter(|_| !now.is_leaving);
        let same = Preconditions { uid: node.uid(), resource_version: unchanged };
        let deleted = self.api::<Node>().delete(name, &DeleteParams::default().preconditions(same)).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete node `{name}`"))?;
        tracing::info!(node.name = name, tenant.id = %id, "deleted a tenant's node that left or did not report");
        Ok(())
    }

    /// Records for nodes that returned under a name of this account.
    fn returned_nodes(&self, user: &User, id: &UserId, now: Timestamp) -> Vec<JoinedNode> {
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
        let present = self.nodes_of_account(&self.cached_node_names(), id);
        let new = present.iter().filter(|node| !is_recorded(&node.name) && !node.is_leaving);
        new.map(|node| record(&node.name)).collect()
    }

    /// The cached names of older nodes.
    fn cached_node_names(&self) -> Arc<NodeNameRegistry> {
        self.node_names.get(NODE_NAMES_CONFIG_MAP).unwrap_or_default()
    }

    /// The Nodes of an account: by the label, which a tenant's node cannot choose, under a name of that account; older nodes by their name.
    pub(super) fn nodes_of_account(&self, names: &NodeNameRegistry, id: &UserId) -> Vec<Arc<NodeSummary>> {
        let is_theirs = |node: &Arc<NodeSummary>| {
            (node.is_labelled(id) || names.is_legacy(&node.name))
                && names.owner(&node.name).as_ref() == Some(id)
        };
        self.nodes.list().into_iter().filter(is_theirs).collect()
    }

    /// The node from the cache, otherwise from the cluster: no record is dropped because of a stale cache.
    async fn get_node_summary(&self, name: &str) -> Result<Option<NodeSummary>, ReconcileError> {
        if let Some(kept) = self.nodes.get(name) {
            return Ok(Some(kept.as_ref().clone()));
        }
        Ok(self.get_node(name).await?.as_ref().map(NodeSummary::from_node))
    }

    /// Applies label, taints and pool where they differ, and cordons the node if `cordon` is set.
    async fn ensure_owner_marks(
        &self,
        record: &JoinedNode,
        seen: &NodeSummary,
        id: &UserId,
        cordon: bool,
    ) -> Result<(), ReconcileError> {
        let is_new = *record.uid != *seen.reported_uid();
        if !is_new && seen.has_owner_marks(id) && (seen.is_cordoned || !cordon) {
            return Ok(());
        }
        let Some(node) =
            self.get_node(&record.name).await?.filter(|node| node.uid().as_deref() == Some(&seen.uid))
        else {
            // Replaced by another Node; the watch will report it.
            return Ok(());
        };
        let pool = is_new.then_some(record.pool.as_str());
        self.patch_node(&node, tenant_patch(&node, id, pool, cordon)).await
    }

    /// Patches a node at the `resourceVersion` that was read.
    pub(super) async fn patch_node(&self, node: &Node, change: Value) -> Result<(), ReconcileError> {
        let Value::Object(mut patch) = change else { return Ok(()) };
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = json!(node.resource_version());
        let name = node.name_any();
        let patched = self.api::<Node>().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).context(|| format!("update node `{name}`"))
    }

    /// Reconciles a node whose account is deleted: no new pods are scheduled there.
    pub(super) async fn reconcile_orphan_node(&self, name: &str) -> Result<Action, ReconcileError> {
        let Some(id) = self.cached_node_names().owner(name) else { return Ok(Action::AwaitChange) };
        let Some(node) = self.get_node(name).await? else { return Ok(Action::AwaitChange) };
        let kept = NodeSummary::from_node(&node);
        if self.user_name_by_id(&id).is_none() && !(kept.has_owner_marks(&id) && kept.is_cordoned) {
            self.patch_node(&node, tenant_patch(&node, &id, Some(""), true)).await?;
            tracing::warn!(node.name = name, tenant.id = %id, "a machine of a deleted account reconnected");
        }
        Ok(Action::AwaitChange)
    }

    /// The account to reconcile after a node changed.
    pub(super) fn owner_of_node(&self, change: &CacheEvent<NodeSummary>) -> Option<String> {
        let (node, there) = match change {
            CacheEvent::Applied(node) => (node, true),
            CacheEvent::Deleted(node) => (node, false),
        };
        let names = self.cached_node_names();
        let account = self.directory.account(&names.owner(&node.name)?)?;
        let record = account.joined.iter().find(|joined| joined.name == *node.name);
        let due = match record {
            Some(record) if there => {
                *record.uid != *node.reported_uid() || node.is_leaving || !node.has_owner_marks(&account.id)
            }
            Some(_) => true,
            None => there && (node.is_labelled(&account.id) || names.is_legacy(&node.name)),
        };
        due.then(|| account.name.clone())
    }

    /// The node, if it belongs to no account's reconcile. Excludes operators' nodes, whatever their names look like.
    pub(super) fn orphan_node(&self, change: &CacheEvent<NodeSummary>) -> Option<String> {
        let CacheEvent::Applied(node) = change else { return None };
        let names = self.cached_node_names();
        let owner = names.owner(&node.name)?;
        let is_tenants = node.is_labelled(&owner) || names.is_legacy(&node.name);
        let settled = node.has_owner_marks(&owner) && node.is_cordoned;
        (is_tenants && !settled && self.directory.account(&owner).is_none()).then(|| node.name.to_string())
    }

    /// Changes for nodes that were cached before their names.
    pub(super) fn changes_for_names(
        &self,
        names: &CacheEvent<NodeNameRegistry>,
    ) -> Vec<CacheEvent<NodeSummary>> {
        let CacheEvent::Applied(names) = names else { return Vec::new() };
        names.all().filter_map(|name| self.nodes.get(name)).map(CacheEvent::Applied).collect()
    }
}

/// The patch with the owner's label and taints. `pool` is given once, when the Node has just appeared: it replaces the pool that the
/// machine chose. Later changes of the pool are up to those with the right to.
fn tenant_patch(node: &Node, id: &UserId, pool: Option<&str>, cordon: bool) -> Value {
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
    TAINT_EFFECTS.map(|effect| Taint {
        key: TENANT.to_owned(),
        value: Some(id.to_string()),
        effect: effect.to_owned(),
        time_added: None,
    })
}

#[cfg(test)]
mod tests;
