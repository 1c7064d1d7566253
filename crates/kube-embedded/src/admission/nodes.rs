//! The `NodeRestriction` plugin: a node may write only itself, its Lease, and the pods bound to it.
//!
//! `crate::access::node` has already decided, without the object, whether a node may use the resource at all. A node that could
//! write more would choose what runs on it: labels that selectors match, taints that repel pods, the pods themselves. The
//! messages match Kubernetes.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{AdmissionRequest, Operation, errors};
use crate::access::node::{LEASES, MIRROR, PREFIX, forbidden_reference, node_of};
use crate::access::rbac::Authorizer;
use crate::access::{Attributes, User, csr, items, text, texts};
use crate::error::{ApiError, Result};
use crate::go::quote;
use crate::sim::SIMULATED_LABEL;
use crate::store::Store;

/// Labels with a Kubernetes prefix that a node may set on itself.
const ALLOWED_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const ALLOWED_LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const RESTRICTED_LABEL_DOMAIN: &str = "node-restriction.kubernetes.io";

/// Rejects forbidden writes of a node. `object` is absent for a deletion. Other users are not checked.
pub fn check(store: &Store, request: &AdmissionRequest<'_>, object: Option<&Value>) -> Result<()> {
    let Some(node) = node_of(request.user) else { return Ok(()) };
    let nothing = Value::Null;
    let object = object.unwrap_or(&nothing);
    let refused = |why: String| Err(errors::forbidden(request, object, why));
    if node.is_empty() {
        return refused(format!("could not determine node from user {}", quote(&request.user.name)));
    }
    if request.resource.is_custom() {
        return Ok(());
    }
    let own = "with the same name as the requesting node";
    let why = match (request.resource.group.as_ref(), request.resource.name.as_ref()) {
        ("", "pods") => check_pod(store, request, node, object),
        ("", "nodes") => check_node(request, node, object),
        ("", "persistentvolumeclaims") => check_claim(request, node, object),
        ("coordination.k8s.io", "leases") if request.namespace != LEASES => {
            Err(format!("can only access leases in the {} system namespace", quote(LEASES)))
        }
        ("coordination.k8s.io", "leases") if request.name != node => {
            Err(format!("can only access node lease {own}"))
        }
        ("storage.k8s.io", "csinodes") if request.name != node => {
            Err(format!("can only access CSINode {own}"))
        }
        ("certificates.k8s.io", "certificatesigningrequests") if request.operation == Operation::Create => {
            let wanted = format!("{PREFIX}{node}");
            match csr::requested_node(object) {
                Some(Err(why)) => Err(format!("unable to parse csr: {why}")),
                Some(Ok(name)) if name != wanted => {
                    Err(format!("can only create a node CSR with CN={wanted}"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    };
    why.or_else(refused)
}

/// Labels a self-registered node as not simulated, unless it has the label.
pub fn label_not_simulated(user: &User, node: &mut Value) {
    if node_of(user).is_none() {
        return;
    }
    if !node["metadata"]["labels"].is_object() {
        node["metadata"]["labels"] = json!({});
    }
    let labels = node["metadata"]["labels"].as_object_mut();
    labels.expect("it was made an object").entry(SIMULATED_LABEL).or_insert_with(|| "false".into());
}

/// `Err` is the message.
type CheckResult = std::result::Result<(), String>;

fn check_node(request: &AdmissionRequest<'_>, node: &str, object: &Value) -> CheckResult {
    let (name, asked) = (quote(node), request.name);
    if asked != node {
        return Err(format!("node {name} is not allowed to modify node {}", quote(asked)));
    }
    let new_source = &object["spec"]["configSource"];
    match (request.operation, request.old) {
        (Operation::Create, _) => {
            if !new_source.is_null() {
                return Err(format!("node {name} is not allowed to create pods with a non-nil configSource"));
            }
            let labels = forbidden_label_changes(&object["metadata"]["labels"], &Value::Null);
            if !labels.is_empty() {
                return Err(format!("node {name} is not allowed to set the following labels: {labels}"));
            }
        }
        (Operation::Update, Some(old)) => {
            if !new_source.is_null() && *new_source != old["spec"]["configSource"] {
                return Err(format!(
                    "node {name} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if items(&object["spec"], "taints") != items(&old["spec"], "taints") {
                return Err(format!("node {name} is not allowed to modify taints"));
            }
            let owners = |node: &Value| items(&node["metadata"], "ownerReferences").to_vec();
            if owners(object) != owners(old) {
                return Err(format!("node {name} is not allowed to modify ownerReferences"));
            }
            let labels = forbidden_label_changes(&object["metadata"]["labels"], &old["metadata"]["labels"]);
            if !labels.is_empty() {
                return Err(format!("is not allowed to modify labels: {labels}"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The changed labels that a node must not set, sorted.
fn forbidden_label_changes(new: &Value, old: &Value) -> String {
    let nothing = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&nothing), old.as_object().unwrap_or(&nothing));
    let changed = new.keys().chain(old.keys()).filter(|key| new.get(*key) != old.get(*key));
    let labels: BTreeSet<&str> = changed.map(String::as_str).filter(|key| is_restricted_label(key)).collect();
    labels.into_iter().collect::<Vec<_>>().join(", ")
}

fn is_restricted_label(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    let within = |parent: &str| {
        domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
    };
    let of_kubernetes = within("kubernetes.io") || within("k8s.io");
    let own = ALLOWED_LABELS.contains(&label) || ALLOWED_LABEL_DOMAINS.into_iter().any(within);
    within(RESTRICTED_LABEL_DOMAIN) || of_kubernetes && !own
}

fn check_pod(store: &Store, request: &AdmissionRequest<'_>, node: &str, object: &Value) -> CheckResult {
    let name = quote(node);
    let is_here = |pod: Option<&Value>| pod.is_some_and(|pod| text(&pod["spec"], "nodeName") == node);
    match (request.subresource, request.operation) {
        ("", Operation::Create) => check_mirror_pod(store, node, object),
        // An eviction first updates the pod, then deletes it.
        ("", Operation::Delete) | ("eviction", _) if is_here(request.old) => Ok(()),
        ("", Operation::Delete) => {
            Err(format!("node {name} can only delete pods with spec.nodeName set to itself"))
        }
        ("", Operation::Update) => Err(format!(
            "unexpected operation \"UPDATE\", node {name} can only create and delete mirror pods"
        )),
        ("status", Operation::Update) => {
            if !is_here(request.old) {
                return Err(format!(
                    "node {name} can only update pod status for pods with spec.nodeName set to itself"
                ));
            }
            let labels = |pod: &Value| pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            if request.old.is_some_and(|old| labels(old) != labels(object)) {
                return Err(format!("node {name} cannot update labels through pod status"));
            }
            Ok(())
        }
        (other, _) => Err(format!(
            "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
            quote(other)
        )),
    }
}

/// Checks a mirror pod: bound to the node, owned by it, and without references to other objects.
fn check_mirror_pod(store: &Store, node: &str, pod: &Value) -> CheckResult {
    let name = quote(node);
    if pod["metadata"]["annotations"][MIRROR].is_null() {
        return Err(format!(
            "pod does not have {} annotation, node {name} can only create mirror pods",
            quote(MIRROR)
        ));
    }
    if text(&pod["spec"], "nodeName") != node {
        return Err(format!("node {name} can only create pods with spec.nodeName set to itself"));
    }
    let owner = match items(&pod["metadata"], "ownerReferences") {
        [only] => only,
        [] => return Err(format!("node {name} can only create pods with an owner reference set to itself")),
        _ => {
            return Err(format!(
                "node {name} can only create pods with a single owner reference set to itself"
            ));
        }
    };
    if text(owner, "apiVersion") != "v1" || text(owner, "kind") != "Node" || text(owner, "name") != node {
        return Err(format!("node {name} can only create pods with an owner reference set to itself"));
    }
    if owner["controller"] != true {
        return Err(format!(
            "node {name} can only create pods with a controller owner reference set to itself"
        ));
    }
    if owner["blockOwnerDeletion"] == true {
        return Err(format!("node {name} must not set blockOwnerDeletion on an owner reference"));
    }
    let uid = store.get("nodes", "", node).map(|found| found.uid.to_string()).unwrap_or_default();
    let given = text(owner, "uid");
    if uid.is_empty() || given != uid {
        return Err(format!("node {node} UID mismatch: expected {given} got {uid}"));
    }
    match forbidden_reference(pod) {
        Some(what) => Err(format!("node {name} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

fn check_claim(request: &AdmissionRequest<'_>, node: &str, object: &Value) -> CheckResult {
    if request.subresource != "status" {
        return Err("may only update PVC status".to_owned());
    }
    let Some(old) = request.old else { return Ok(()) };
    let others = |claim: &Value| {
        let mut claim = claim.clone();
        for key in ["resourceVersion", "managedFields"] {
            drop(claim["metadata"].as_object_mut().map(|metadata| metadata.remove(key)));
        }
        for key in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            drop(claim["status"].as_object_mut().map(|status| status.remove(key)));
        }
        claim
    };
    if others(old) == others(object) {
        return Ok(());
    }
    let name = quote(node);
    Err(format!(
        "node {name} is not allowed to update fields other than status.quantity and status.conditions"
    ))
}

/// Rejects an eviction by a node to which the pod is not bound.
pub fn check_eviction(user: &User, pod: &Value) -> Result<()> {
    let Some(node) = node_of(user) else { return Ok(()) };
    if text(&pod["spec"], "nodeName") == node {
        return Ok(());
    }
    let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
    Err(ApiError::forbidden("", "pods", text(&pod["metadata"], "name"), why))
}

/// Rejects a token request of a node that is not for a pod bound to it.
pub fn check_token(
    store: &Store,
    authorizer: &Authorizer,
    user: &User,
    (namespace, account): (&str, &str),
    request: &Value,
) -> Result<()> {
    let Some(node) = node_of(user) else { return Ok(()) };
    let refused = |why: String| Err(ApiError::forbidden("", "serviceaccounts", account, why));
    let bound = &request["spec"]["boundObjectRef"];
    let name = text(bound, "name");
    if text(bound, "apiVersion") != "v1" || text(bound, "kind") != "Pod" || name.is_empty() {
        return refused("node requested token not bound to a pod".to_owned());
    }
    let uid = text(bound, "uid");
    if uid.is_empty() {
        return refused("node requested token with a pod binding without a uid".to_owned());
    }
    let found = store.get("pods", namespace, name).ok_or_else(|| ApiError::not_found("", "pods", name))?;
    if uid != &*found.uid {
        return refused(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        ));
    }
    let pod = found.value();
    if text(&pod["spec"], "nodeName") != node {
        return refused("node requested token bound to a pod scheduled on a different node".to_owned());
    }
    let audiences = texts(&request["spec"], "audiences");
    let audience = match audiences.as_slice() {
        // No audience means the server's own: that of the token volume which every pod gets unless it opts out. That volume is
        // not written into pods here.
        [] => return Ok(()),
        [only] => only,
        _ => return refused("node may only request 0 or 1 audiences".to_owned()),
    };
    let asked = Attributes {
        verb: "request-serviceaccounts-token-audience".to_owned(),
        version: "v1".to_owned(),
        resource: audience.clone(),
        namespace: namespace.to_owned(),
        name: account.to_owned(),
        ..Attributes::default()
    };
    if projects_token_with_audience(&pod, audience) || authorizer.decide(user, &asked).allowed {
        return Ok(());
    }
    refused(format!(
        "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        quote(audience),
        user.name
    ))
}

fn projects_token_with_audience(pod: &Value, audience: &str) -> bool {
    let sources =
        items(&pod["spec"], "volumes").iter().flat_map(|volume| items(&volume["projected"], "sources"));
    sources
        .map(|source| &source["serviceAccountToken"])
        .any(|token| !token.is_null() && text(token, "audience") == audience)
}
