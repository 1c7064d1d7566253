//! Looks after the nodes of accounts: whose a node is stands on it as label and taint, and in the account's status how many there are.
//!
//! A node that was let in and does not appear within an hour frees its slot, and so does one that is gone. A machine that comes back
//! under a name that was its account's is that account's again; one whose account is gone is kept away from everybody.
//! Elsewhere: who is let in ([`super::joining`]), how nodes go with their account ([`super::leaving`]).

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube_access::feed::Change;
use kube_access::queue::Next;
use kube_types::User;
use kube_types::marks::{DESIRED_POOL, POOL, TENANT};
use kube_types::user::JoinedNode;
use serde_json::{Value, json};

use super::{Doing, ProvisionError, Provisioner};
use crate::edge::names::{NAMES, Names};
use crate::edge::ruling::WITHIN;

const EFFECT: &str = "NoSchedule";

/// What watching keeps of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub name: Box<str>,
    pub uid: Box<str>,
    /// Whose label and taint it has, where both say the same.
    marked: Option<Box<str>>,
    cordoned: bool,
}

impl Kept {
    pub fn of(node: &Node) -> Self {
        let label = node.labels().get(TENANT);
        let spec = node.spec.as_ref();
        let mut taints = spec.into_iter().flat_map(|spec| spec.taints.iter().flatten());
        let tainted = taints
            .any(|taint| taint.key == TENANT && taint.value.as_ref() == label && taint.effect == EFFECT);
        Self {
            name: node.name_any().into(),
            uid: node.uid().unwrap_or_default().into(),
            marked: label.filter(|_| tainted).map(|id| id.as_str().into()),
            cordoned: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
        }
    }

    fn is_marked(&self, id: &UserId) -> bool {
        self.marked.as_deref() == Some(id.as_str())
    }
}

/// What becomes of a record. Pure.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Not there yet.
    Waits {
        until: Timestamp,
    },
    Stays,
    /// It has appeared, or come back as another object.
    Appears,
    /// Its slot is free.
    Ends,
}

fn fate(record: &JoinedNode, node: Option<&Kept>, now: Timestamp) -> Fate {
    match node {
        Some(node) if *node.uid == *record.uid => Fate::Stays,
        Some(_) => Fate::Appears,
        None if !record.uid.is_empty() => Fate::Ends,
        None => match record.since.0.checked_add(WITHIN) {
            Ok(until) if now < until => Fate::Waits { until },
            _ => Fate::Ends,
        },
    }
}

/// The nodes of an account, as a pass leaves them.
#[derive(Default)]
pub(super) struct Tended {
    pub joined: Vec<JoinedNode>,
    /// How many of them there are.
    pub present: usize,
    /// When one that is awaited will have taken too long.
    pub next: Option<Timestamp>,
}

impl Provisioner {
    /// Marks the account's nodes, and says which ones it has.
    pub(super) async fn tend_nodes(
        &self,
        user: &User,
        id: &UserId,
        now: Timestamp,
    ) -> Result<Tended, ProvisionError> {
        let recorded = user.status.clone().unwrap_or_default().joined;
        let mut tended = Tended::default();
        for mut record in recorded.into_iter().chain(self.returned(user, id, now)) {
            let node = self.kept(&record.name).await?;
            match fate(&record, node.as_ref(), now) {
                Fate::Ends => {
                    tracing::info!(node.name = record.name, tenant.id = %id, "a node is gone, or never came");
                    continue;
                }
                Fate::Waits { until } => {
                    tended.next = Some(tended.next.map_or(until, |next| next.min(until)));
                }
                Fate::Stays | Fate::Appears => {
                    let most = usize::try_from(user.spec.max_node_num).unwrap_or(0);
                    // One that came back when others had taken its place.
                    let surplus = record.requests.is_empty() && tended.joined.len() >= most;
                    if let Some(node) = node {
                        self.mark(&record, &node, id, surplus).await?;
                        record.uid = node.uid.to_string();
                        tended.present += 1;
                    }
                }
            }
            tended.joined.push(record);
        }
        Ok(tended)
    }

    /// Nodes that came back under a name of this account.
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
        let names = self.names.get(NAMES);
        let theirs = names.iter().flat_map(|names| names.of_account(id));
        theirs.filter(|name| !is_recorded(name) && self.nodes.get(name).is_some()).map(record).collect()
    }

    /// A node as it was heard of, and where it was not, as it is: nothing is given up for what was not heard.
    async fn kept(&self, name: &str) -> Result<Option<Kept>, ProvisionError> {
        if let Some(kept) = self.nodes.get(name) {
            return Ok(Some(kept.as_ref().clone()));
        }
        Ok(self.node(name).await?.as_ref().map(Kept::of))
    }

    async fn mark(
        &self,
        record: &JoinedNode,
        seen: &Kept,
        id: &UserId,
        cordon: bool,
    ) -> Result<(), ProvisionError> {
        let is_new = record.uid.is_empty();
        if !is_new && seen.is_marked(id) && (seen.cordoned || !cordon) {
            return Ok(());
        }
        let Some(node) =
            self.node(&record.name).await?.filter(|node| node.uid().as_deref() == Some(&seen.uid))
        else {
            // Another since; it will be heard of.
            return Ok(());
        };
        let pool = is_new.then_some(record.pool.as_str());
        self.patch_node(&node, marks(&node, id, pool, cordon)).await
    }

    /// Changes a node as it was read, or not at all.
    pub(super) async fn patch_node(&self, node: &Node, change: Value) -> Result<(), ProvisionError> {
        let Value::Object(mut patch) = change else { return Ok(()) };
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        metadata["resourceVersion"] = json!(node.resource_version());
        let name = node.name_any();
        let patched = self.api::<Node>().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).doing(|| format!("mark node `{name}`"))
    }

    /// A node whose account is gone: nobody's pods go there.
    pub(super) async fn sync_stray(&self, name: &str) -> Result<Next, ProvisionError> {
        let names = self.names.get(NAMES);
        let Some(id) = names.as_ref().and_then(|names| names.owner(name)) else { return Ok(Next::Rest) };
        let Some(node) = self.node(name).await? else { return Ok(Next::Rest) };
        let kept = Kept::of(&node);
        if self.user_of(id).is_none() && !(kept.is_marked(id) && kept.cordoned) {
            self.patch_node(&node, marks(&node, id, Some(""), true)).await?;
            tracing::warn!(node.name = name, tenant.id = %id, "a machine of an account that is gone came back");
        }
        Ok(Next::Rest)
    }

    /// Whose pass is due after a change of a node.
    pub(super) fn owner_of_node(&self, change: &Change<Kept>) -> Option<String> {
        let (node, there) = match change {
            Change::Applied(node) => (node, true),
            Change::Deleted(node) => (node, false),
        };
        let names = self.names.get(NAMES)?;
        let account = self.directory.account(names.owner(&node.name)?)?;
        let record = account.joined.iter().find(|joined| joined.name == *node.name);
        let due = match record {
            Some(record) if there => *record.uid != *node.uid || !node.is_marked(&account.id),
            Some(_) => true,
            None => there,
        };
        due.then(|| account.name.clone())
    }

    /// The node, where nobody's pass will look after it.
    pub(super) fn stray(&self, change: &Change<Kept>) -> Option<String> {
        let Change::Applied(node) = change else { return None };
        let names = self.names.get(NAMES)?;
        let owner = names.owner(&node.name)?;
        let settled = node.is_marked(owner) && node.cordoned;
        (!settled && self.directory.account(owner).is_none()).then(|| node.name.to_string())
    }

    /// Nodes that were heard of before their names were.
    pub(super) fn named(&self, names: &Change<Names>) -> Vec<Change<Kept>> {
        let Change::Applied(names) = names else { return Vec::new() };
        names.all().filter_map(|name| self.nodes.get(name)).map(Change::Applied).collect()
    }
}

/// What makes a node visibly somebody's. `pool` is given once, when it has just appeared: from then on its pool is for those to change
/// who may, and what the machine said of it by itself does not count.
fn marks(node: &Node, id: &UserId, pool: Option<&str>, cordon: bool) -> Value {
    let spec = node.spec.clone().unwrap_or_default();
    let others = spec.taints.into_iter().flatten().filter(|taint| taint.key != TENANT);
    let own = Taint {
        key: TENANT.to_owned(),
        value: Some(id.to_string()),
        effect: EFFECT.to_owned(),
        time_added: None,
    };
    let taints: Vec<Taint> = others.chain([own]).collect();
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
