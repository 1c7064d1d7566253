//! The node authorizer: a node may access its own objects and the objects that its pods refer to.
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

pub(crate) use references::{PodReferences, forbidden_reference};

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
/// Label of the namespace of a tenant whose account is disabled or has expired.
const ACCOUNT_CLOSED: &str = "longshore.dev/account-closed";
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
struct LegacyNodes {
    data: BTreeMap<String, String>,
}

/// Returns the id of the tenant that owns the node: the recorded id of an older node, whose name was free to choose, else the prefix of the
/// name.
pub fn tenant_of(store: &Store, node: &str) -> Option<String> {
    let is_id = |id: &&str| id.parse::<UserId>().is_ok();
    if let Some(map) = store.get("configmaps", "longshore-system", "node-names")
        && let Some(value) = map.view::<LegacyNodes>().data.get(node)
        && let Some(id) = value.split(' ').next().filter(is_id)
    {
        return Some(id.to_owned());
    }
    let (id, rest) = node.split_once('-')?;
    Some(id).filter(|id| !rest.is_empty() && is_id(id)).map(str::to_owned)
}

/// Whether `user` is a tenant's node.
pub fn is_tenant_node(store: &Store, user: &User) -> bool {
    node_of(user).is_some_and(|node| tenant_of(store, node).is_some())
}

/// Returns why the credentials of a tenant's node are revoked for this request: the tenant's namespace, named by the tenant's id, is
/// missing, terminating or that of a closed account, or the Node is missing. A certificate cannot be revoked, so every request is checked.
///
/// A tenant's node does not register itself: its Node exists before its certificate, and the platform creates it again if it was deleted by
/// mistake. Without a Node the machine may still get its own Node, to find that it was deleted, and delete its Lease.
pub fn revocation(store: &Store, node: &str, attributes: &Attributes) -> Option<&'static str> {
    let tenant = tenant_of(store, node)?;
    let Some(namespace) = store.get("namespaces", "", &tenant).filter(|namespace| !namespace.is_deleting)
    else {
        return Some("the account of this node was deleted");
    };
    if namespace.label(ACCOUNT_CLOSED).is_some() {
        return Some("the account of this node is disabled or has expired");
    }
    let of_itself = attributes.name == node && attributes.subresource.is_empty();
    let is_farewell =
        match (attributes.group.as_str(), attributes.resource.as_str(), attributes.verb.as_str()) {
            ("", "nodes", "get") => of_itself,
            ("coordination.k8s.io", "leases", "delete") => of_itself && attributes.namespace == LEASES,
            _ => false,
        };
    (!is_farewell && store.get("nodes", "", node).is_none()).then_some("the Node was deleted")
}

/// Whether a certificate issued at `issued` (Unix seconds) belongs to an earlier node of the same name: the Node's annotation
/// [`NOT_BEFORE`] is later. A Node without a valid annotation accepts all certificates, so that a Node deleted by mistake does not lock its
/// machine out.
pub fn is_certificate_of_predecessor(store: &Store, user: &User, issued: i64) -> bool {
    let Some(name) = node_of(user).filter(|name| tenant_of(store, name).is_some()) else { return false };
    let Some(node) = store.get("nodes", "", name) else { return false };
    // Called for every request of a tenant's node, and a Node can be large: only the view is decoded. An invalid Node has an empty view.
    let node = node.view::<Node>();
    let since = node.metadata.annotations.get(NOT_BEFORE).and_then(|since| since.parse::<Timestamp>().ok());
    node.metadata.name != name || since.is_some_and(|since| issued < since.as_second())
}

/// Kinds of objects that are related to a node through its pods.
#[derive(Clone, Copy)]
enum RelatedKind {
    ServiceAccount,
    PersistentVolumeClaim,
    ConfigMap,
    Pod,
    Secret,
    PersistentVolume,
}

/// `Err` with the reason for the refusal, which may be empty.
type NodeDecision = Result<(), String>;

fn deny(why: &str) -> NodeDecision {
    Err(why.to_owned())
}

/// Decides whether `node` may make the request `asked`. A refusal falls through to RBAC.
pub fn decide(store: &Store, node: &str, attributes: &Attributes) -> NodeDecision {
    if node.is_empty() {
        return Err(format!("unknown node for user {}", crate::go::quote(PREFIX)));
    }
    if !attributes.is_resource() {
        return decide_by_role(attributes);
    }
    let question = NodeRequest { store, node, attributes };
    match (attributes.group.as_str(), attributes.resource.as_str()) {
        ("", "secrets") => question.check_read(RelatedKind::Secret),
        ("", "configmaps") => question.check_read(RelatedKind::ConfigMap),
        ("", "persistentvolumeclaims") if attributes.subresource == "status" => {
            match attributes.verb.as_str() {
                "update" | "patch" => question.check_related(RelatedKind::PersistentVolumeClaim),
                _ => deny("can only get/update/patch this type"),
            }
        }
        ("", "persistentvolumeclaims") => question.check_get(RelatedKind::PersistentVolumeClaim),
        ("", "persistentvolumes") => question.check_get(RelatedKind::PersistentVolume),
        ("", "serviceaccounts") if attributes.verb == "get" && attributes.subresource.is_empty() => {
            question.check_read(RelatedKind::ServiceAccount)
        }
        ("", "serviceaccounts") => question.check_token(),
        ("coordination.k8s.io", "leases") => question.check_lease(),
        ("storage.k8s.io", "csinodes") => question.check_csi_node(),
        ("", "nodes") => question.check_node(),
        ("", "pods") => question.check_pod(),
        // A tenant's node could otherwise learn tokens that clients send to it, and other users' permissions.
        ("authentication.k8s.io", "tokenreviews") if tenant_of(store, node).is_some() => {
            deny("a tenant's node cannot review tokens")
        }
        ("authorization.k8s.io", "localsubjectaccessreviews") if tenant_of(store, node).is_some() => {
            deny("a tenant's node can only review access to itself")
        }
        // No such object is related to a node: neither attachments nor devices are simulated.
        ("storage.k8s.io", "volumeattachments")
        | ("resource.k8s.io", "resourceclaims" | "resourceslices")
        | ("certificates.k8s.io", "podcertificaterequests") => question.check_unrelated(),
        _ => decide_by_role(attributes),
    }
}

/// Checks the default role `system:node`, whatever the stored one says.
fn decide_by_role(attributes: &Attributes) -> NodeDecision {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let is_node =
            |role: &&Value| role["kind"] == "ClusterRole" && role["metadata"]["name"] == "system:node";
        bootstrap::defaults().iter().find(is_node).map(Rule::from_role).unwrap_or_default()
    });
    if rules.iter().any(|rule| rule.allows(attributes)) { Ok(()) } else { deny("") }
}

struct NodeRequest<'a> {
    store: &'a Store,
    node: &'a str,
    attributes: &'a Attributes,
}

impl NodeRequest<'_> {
    /// Allows reads of a single related object.
    fn check_read(&self, what: RelatedKind) -> NodeDecision {
        if !matches!(self.attributes.verb.as_str(), "get" | "list" | "watch") {
            return deny("can only read resources of this type");
        }
        if !self.attributes.subresource.is_empty() {
            return deny("cannot read subresource");
        }
        if self.attributes.namespace.is_empty() {
            return deny("can only read namespaced object of this type");
        }
        self.check_related(what)
    }

    fn check_get(&self, what: RelatedKind) -> NodeDecision {
        if self.attributes.verb != "get" {
            return deny("can only get individual resources of this type");
        }
        if !self.attributes.subresource.is_empty() {
            return deny("cannot get subresource");
        }
        self.check_related(what)
    }

    fn check_related(&self, what: RelatedKind) -> NodeDecision {
        if self.attributes.name.is_empty() {
            return deny("No Object name found");
        }
        if references::is_related(
            self.store,
            self.node,
            what,
            &self.attributes.namespace,
            &self.attributes.name,
        ) {
            return Ok(());
        }
        self.check_unrelated()
    }

    fn check_unrelated(&self) -> NodeDecision {
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn check_token(&self) -> NodeDecision {
        if self.attributes.verb != "create" || self.attributes.name.is_empty() {
            return deny("can only create tokens for individual service accounts");
        }
        if self.attributes.subresource != "token" {
            return deny("can only create token subresource of serviceaccount");
        }
        self.check_related(RelatedKind::ServiceAccount)
    }

    /// Allows the object with the node's own name. A create has no name yet, and admission checks it.
    fn check_own_object(&self, refusal: &str) -> NodeDecision {
        if self.attributes.verb == "create" || self.attributes.name == self.node {
            Ok(())
        } else {
            deny(refusal)
        }
    }

    fn is_single_write(&self) -> bool {
        matches!(self.attributes.verb.as_str(), "get" | "create" | "update" | "patch" | "delete")
    }

    fn check_lease(&self) -> NodeDecision {
        if !self.is_single_write() {
            return deny("can only get, create, update, patch, or delete a node lease");
        }
        if self.attributes.namespace != LEASES {
            return Err(format!("can only access leases in the {LEASES:?} system namespace"));
        }
        self.check_own_object("can only access node lease with the same name as the requesting node")
    }

    fn check_csi_node(&self) -> NodeDecision {
        if !self.is_single_write() {
            return deny("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.attributes.subresource.is_empty() {
            return deny("cannot authorize CSINode subresources");
        }
        self.check_own_object("can only access CSINode with the same name as the requesting node")
    }

    fn check_node(&self) -> NodeDecision {
        let (node, name) = (self.node, self.attributes.name.as_str());
        match (self.attributes.subresource.as_str(), self.attributes.verb.as_str()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => deny(""),
        }
    }

    fn check_pod(&self) -> NodeDecision {
        match (self.attributes.subresource.as_str(), self.attributes.verb.as_str()) {
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            ("", "get") => self.check_get(RelatedKind::Pod),
            ("", "list" | "watch") if self.attributes.node_name == self.node => Ok(()),
            ("", "list" | "watch") if !self.attributes.name.is_empty() => {
                self.check_related(RelatedKind::Pod)
            }
            ("", "list" | "watch") => deny("can only list/watch pods with spec.nodeName field selector"),
            _ => deny(""),
        }
    }
}

/// Returns the node name in a field selector of pods.
pub fn node_in_field_selector(selector: &str) -> Option<&str> {
    let terms = selector.split(',').filter(|term| !term.contains("!="));
    terms.filter_map(|term| term.split_once('=')).find_map(|(key, value)| {
        (key.trim() == "spec.nodeName").then(|| value.strip_prefix('=').unwrap_or(value).trim())
    })
}

/// Returns the node name in the field selector of a review, raw or parsed.
pub fn node_in_reviewed_selector(selector: &Value) -> Option<&str> {
    let of_requirement = |one: &'_ Value| {
        let values = super::items(one, "values");
        let fits = text(one, "key") == "spec.nodeName" && text(one, "operator") == "In" && values.len() == 1;
        fits.then(|| values.first()).flatten().is_some()
    };
    let found = super::items(selector, "requirements").iter().find(|one| of_requirement(one));
    match found {
        Some(one) => one["values"][0].as_str(),
        None => node_in_field_selector(text(selector, "rawSelector")),
    }
}
