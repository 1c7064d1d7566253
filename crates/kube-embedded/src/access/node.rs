//! The node authorizer: a node may access its own objects and those that its pods refer to.
//!
//! `super::rbac` calls it before RBAC. The role `system:node` lists what nodes may do at all; this module narrows that to the calling node.
//! `crate::admission::nodes` checks writes again with the object at hand, because a create has no name yet.
//!
//! Invariant: decisions are not cached. Pods are read with each request, so that a decision is never older than they are.
//!
//! See also: objects that a pod refers to (`references`).

mod references;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use domain::ids::UserId;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::rule::Rule;
use super::{Attributes, User, bootstrap, text};
use crate::control::view::Node;
use crate::store::Store;

pub(crate) use references::{References, of_mirror_pod};

/// The group of all nodes.
pub const NODES: &str = "system:nodes";
/// The group of clients that join with a token of the platform.
pub const JOINERS: &str = "system:bootstrappers:openyurt:tenants";
/// Prefix of the user names of nodes.
pub const PREFIX: &str = "system:node:";
/// Namespace of the heartbeat Leases of nodes.
pub const LEASES: &str = "kube-node-lease";
/// Annotation of a tenant's Node: certificates issued before this time belong to an earlier machine of the same name.
const NOT_BEFORE: &str = "longshore.dev/certificates-not-before";
/// Annotation of a mirror pod, the API object of a static pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns the node name of `user`; `None` if the user is not a node.
pub fn node_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(PREFIX)?;
    user.in_group(NODES).then_some(name)
}

/// Tenants' nodes named before names began with the tenant's id. Values begin with the id. Only the platform writes this ConfigMap.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OlderNodes {
    data: BTreeMap<String, String>,
}

/// Returns the id of the tenant that owns the node: the recorded id of an older node, whose name was free to choose, else the prefix of the
/// name.
pub fn tenant_of(store: &Store, node: &str) -> Option<String> {
    let is_id = |id: &&str| id.parse::<UserId>().is_ok();
    if let Some(map) = store.get("configmaps", "longshore-system", "node-names")
        && let Some(value) = map.view::<OlderNodes>().data.get(node)
        && let Some(id) = value.split(' ').next().filter(is_id)
    {
        return Some(id.to_owned());
    }
    let (id, rest) = node.split_once('-')?;
    Some(id).filter(|id| !rest.is_empty() && is_id(id)).map(str::to_owned)
}

/// Whether `user` is a tenant's node.
pub fn is_tenants(store: &Store, user: &User) -> bool {
    node_of(user).is_some_and(|node| tenant_of(store, node).is_some())
}

/// Returns why the credentials of a tenant's node are revoked for this request: the tenant's namespace, named by the tenant's id, is
/// missing or terminating, or the Node is missing. A certificate cannot be revoked, so every request is checked.
///
/// A tenant's node does not register itself: its Node exists before its certificate, and the platform creates it again if it was deleted by
/// mistake. Without a Node the machine may still get its own Node, to find that it was deleted, and delete its Lease.
pub fn revocation(store: &Store, node: &str, asked: &Attributes) -> Option<&'static str> {
    let tenant = tenant_of(store, node)?;
    if store.get("namespaces", "", &tenant).is_none_or(|namespace| namespace.deleting) {
        return Some("the account of this node is gone");
    }
    let of_itself = asked.name == node && asked.subresource.is_empty();
    let is_farewell = match (asked.group.as_str(), asked.resource.as_str(), asked.verb.as_str()) {
        ("", "nodes", "get") => of_itself,
        ("coordination.k8s.io", "leases", "delete") => of_itself && asked.namespace == LEASES,
        _ => false,
    };
    (!is_farewell && store.get("nodes", "", node).is_none()).then_some("the Node of this name is gone")
}

/// Whether a certificate issued at `issued` (Unix seconds) belongs to an earlier node of the same name: the Node's annotation
/// [`NOT_BEFORE`] is later. A Node without a valid annotation accepts all certificates, so that a Node deleted by mistake does not lock its
/// machine out.
pub fn is_of_predecessor(store: &Store, user: &User, issued: i64) -> bool {
    let Some(name) = node_of(user).filter(|name| tenant_of(store, name).is_some()) else { return false };
    let Some(node) = store.get("nodes", "", name) else { return false };
    // Called for every request of a tenant's node, and a Node can be large: only the view is decoded. An invalid Node has an empty view.
    let node = node.view::<Node>();
    let since = node.metadata.annotations.get(NOT_BEFORE).and_then(|since| since.parse::<Timestamp>().ok());
    node.metadata.name != name || since.is_some_and(|since| issued < since.as_second())
}

/// Kinds of objects that are related to a node through its pods.
#[derive(Clone, Copy)]
enum Related {
    Account,
    Claim,
    ConfigMap,
    Pod,
    Secret,
    Volume,
}

/// `Err` with the reason for the refusal, which may be empty.
type Decision = Result<(), String>;

fn no(why: &str) -> Decision {
    Err(why.to_owned())
}

/// Whether `node` may do what is `asked`. A refusal falls through to RBAC.
pub fn decide(store: &Store, node: &str, asked: &Attributes) -> Decision {
    if node.is_empty() {
        return Err(format!("unknown node for user {}", crate::go::quote(PREFIX)));
    }
    if !asked.is_resource() {
        return by_role(asked);
    }
    let question = Question { store, node, asked };
    match (asked.group.as_str(), asked.resource.as_str()) {
        ("", "secrets") => question.read(Related::Secret),
        ("", "configmaps") => question.read(Related::ConfigMap),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => match asked.verb.as_str() {
            "update" | "patch" => question.related(Related::Claim),
            _ => no("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims") => question.get(Related::Claim),
        ("", "persistentvolumes") => question.get(Related::Volume),
        ("", "serviceaccounts") if asked.verb == "get" && asked.subresource.is_empty() => {
            question.read(Related::Account)
        }
        ("", "serviceaccounts") => question.token(),
        ("coordination.k8s.io", "leases") => question.lease(),
        ("storage.k8s.io", "csinodes") => question.csi_node(),
        ("", "nodes") => question.node(),
        ("", "pods") => question.pod(),
        // A tenant's node could otherwise learn tokens that clients send to it, and other users' permissions.
        ("authentication.k8s.io", "tokenreviews") if tenant_of(store, node).is_some() => {
            no("a tenant's node cannot review tokens")
        }
        ("authorization.k8s.io", "localsubjectaccessreviews") if tenant_of(store, node).is_some() => {
            no("a tenant's node can only review access to itself")
        }
        // No such object is related to a node: neither attachments nor devices are simulated.
        ("storage.k8s.io", "volumeattachments")
        | ("resource.k8s.io", "resourceclaims" | "resourceslices")
        | ("certificates.k8s.io", "podcertificaterequests") => question.unrelated(),
        _ => by_role(asked),
    }
}

/// Checks the default role `system:node`, whatever the stored one says.
fn by_role(asked: &Attributes) -> Decision {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let is_node =
            |role: &&Value| role["kind"] == "ClusterRole" && role["metadata"]["name"] == "system:node";
        bootstrap::defaults().iter().find(is_node).map(Rule::of_role).unwrap_or_default()
    });
    if rules.iter().any(|rule| rule.allows(asked)) { Ok(()) } else { no("") }
}

struct Question<'a> {
    store: &'a Store,
    node: &'a str,
    asked: &'a Attributes,
}

impl Question<'_> {
    /// Allows reads of a single related object.
    fn read(&self, what: Related) -> Decision {
        if !matches!(self.asked.verb.as_str(), "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if self.asked.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(what)
    }

    fn get(&self, what: Related) -> Decision {
        if self.asked.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(what)
    }

    fn related(&self, what: Related) -> Decision {
        if self.asked.name.is_empty() {
            return no("No Object name found");
        }
        if references::are_related(self.store, self.node, what, &self.asked.namespace, &self.asked.name) {
            return Ok(());
        }
        self.unrelated()
    }

    fn unrelated(&self) -> Decision {
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn token(&self) -> Decision {
        if self.asked.verb != "create" || self.asked.name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if self.asked.subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(Related::Account)
    }

    /// Allows the object with the node's own name. A create has no name yet, and admission checks it.
    fn own(&self, refusal: &str) -> Decision {
        if self.asked.verb == "create" || self.asked.name == self.node { Ok(()) } else { no(refusal) }
    }

    fn writes_single(&self) -> bool {
        matches!(self.asked.verb.as_str(), "get" | "create" | "update" | "patch" | "delete")
    }

    fn lease(&self) -> Decision {
        if !self.writes_single() {
            return no("can only get, create, update, patch, or delete a node lease");
        }
        if self.asked.namespace != LEASES {
            return Err(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        self.own("can only access node lease with the same name as the requesting node")
    }

    fn csi_node(&self) -> Decision {
        if !self.writes_single() {
            return no("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.asked.subresource.is_empty() {
            return no("cannot authorize CSINode subresources");
        }
        self.own("can only access CSINode with the same name as the requesting node")
    }

    fn node(&self) -> Decision {
        let (node, name) = (self.node, self.asked.name.as_str());
        match (self.asked.subresource.as_str(), self.asked.verb.as_str()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no(""),
        }
    }

    fn pod(&self) -> Decision {
        match (self.asked.subresource.as_str(), self.asked.verb.as_str()) {
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            ("", "get") => self.get(Related::Pod),
            ("", "list" | "watch") if self.asked.on_node == self.node => Ok(()),
            ("", "list" | "watch") if !self.asked.name.is_empty() => self.related(Related::Pod),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            _ => no(""),
        }
    }
}

/// Returns the node name in a field selector of pods.
pub fn in_field_selector(selector: &str) -> Option<&str> {
    let terms = selector.split(',').filter(|term| !term.contains("!="));
    terms.filter_map(|term| term.split_once('=')).find_map(|(key, value)| {
        (key.trim() == "spec.nodeName").then(|| value.strip_prefix('=').unwrap_or(value).trim())
    })
}

/// Returns the node name in the field selector of a review, raw or parsed.
pub fn in_reviewed_selector(selector: &Value) -> Option<&str> {
    let of_requirement = |one: &'_ Value| {
        let values = super::items(one, "values");
        let fits = text(one, "key") == "spec.nodeName" && text(one, "operator") == "In" && values.len() == 1;
        fits.then(|| values.first()).flatten().is_some()
    };
    let found = super::items(selector, "requirements").iter().find(|one| of_requirement(one));
    match found {
        Some(one) => one["values"][0].as_str(),
        None => in_field_selector(text(selector, "rawSelector")),
    }
}
