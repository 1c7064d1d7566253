//! Admission policies for pods, Services and NetworkPolicies in workspaces.
//!
//! `longshore-pods`: no `PriorityClasses` of the system, no ports and no network of nodes. The namespace decides, whichever client creates
//! the pod. Further restrictions of pods with ports of nodes: [`super::host_ports`].
//!
//! `longshore-services`: no `externalIPs`, `loadBalancerIP` or `loadBalancerSourceRanges`, which could claim addresses of others.
//!
//! `longshore-network-policies`: NetworkPolicies are additive, so a tenant's own could undo the provisioned isolation. A rule must name its
//! peers: pods of the namespace, namespaces of the workspace, namespaces that an administrator labelled as shared
//! ([`SHARED_NAMESPACE`]), or public addresses.
//!
//! An administrator can lift each restriction per workspace (`Workspace.spec.allow`). The platform then labels the namespaces; tenants
//! cannot. An update that leaves the restricted fields of an existing object unchanged is permitted.

use kube_types::well_known::{SHARED_NAMESPACE, WORKSPACE};
use kube_types::workspace::Allowance;
use serde_json::{Value, json};

use super::admission_policies::{is_tenant_request, policy};

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let rules = |group: &str, resource: &str, operations: &[&str]| {
        json!({
            "resourceRules": [{
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "operations": operations,
                "resources": [resource],
                "scope": "Namespaced",
            }],
        })
    };
    let by_tenant = Some(json!([{ "name": "by-a-tenant", "expression": is_tenant_request() }]));
    let policies = rules("networking.k8s.io", "networkpolicies", &["CREATE", "UPDATE"]);
    [
        policy("longshore-pods", rules("", "pods", &["CREATE"]), None, &pods()),
        policy("longshore-services", rules("", "services", &["CREATE", "UPDATE"]), None, &services()),
        policy("longshore-network-policies", policies, by_tenant, &network_policies()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A rule that does not apply to workspaces with this allowance.
fn rule(allowance: Allowance, expression: &str, message: &str) -> Value {
    json!({
        "expression": format!("'{}' in namespaceObject.metadata.labels || {expression}", allowance.label()),
        "message": format!(
            "{message}; an administrator of the platform can allow it (`{}` in spec.allow of the Workspace)",
            allowance.as_str()
        ),
        "reason": "Forbidden",
    })
}

fn pods() -> Value {
    let closed = |containers: &str| {
        format!(
            "(!has(object.spec.{containers}) || object.spec.{containers}.all(container, !has(container.ports) || \
             container.ports.all(port, !has(port.hostPort) || port.hostPort == 0)))"
        )
    };
    let no_network = "(!has(object.spec.hostNetwork) || !object.spec.hostNetwork)";
    json!([
        rule(
            Allowance::SystemPriorityClasses,
            "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')",
            "a pod in a workspace cannot have a PriorityClass of the system (system-*)",
        ),
        rule(
            Allowance::HostPorts,
            &format!("({} && {})", closed("containers"), closed("initContainers")),
            "a pod in a workspace cannot use a hostPort",
        ),
        {
            "expression": no_network,
            "message": "a pod in a workspace cannot use the network of its node",
            "reason": "Forbidden",
        },
    ])
}

fn services() -> Value {
    let unchanged = |field: &str| {
        format!(
            "(oldObject != null && has(oldObject.spec.{field}) && oldObject.spec.{field} == object.spec.{field})"
        )
    };
    let empty = |field: &str| {
        format!("(!has(object.spec.{field}) || size(object.spec.{field}) == 0 || {})", unchanged(field))
    };
    json!([
        rule(
            Allowance::ExternalIps,
            &empty("externalIPs"),
            "a Service in a workspace cannot have externalIPs"
        ),
        rule(
            Allowance::LoadBalancerAddresses,
            &format!("({} && {})", empty("loadBalancerIP"), empty("loadBalancerSourceRanges")),
            "a Service in a workspace cannot have a loadBalancerIP or loadBalancerSourceRanges",
        ),
    ])
}

fn network_policies() -> Value {
    let labelled = |key: &str, value: &str| {
        let labels = "peer.namespaceSelector.matchLabels";
        format!("('{key}' in {labels} && {labels}['{key}'] == {value})")
    };
    let namespaces = format!(
        "(has(peer.namespaceSelector.matchLabels) && ({} || {} || {}))",
        labelled(WORKSPACE, &format!("namespaceObject.metadata.labels['{WORKSPACE}']")),
        labelled("kubernetes.io/metadata.name", "namespaceObject.metadata.name"),
        labelled(SHARED_NAMESPACE, "'true'"),
    );
    let except = |ranges: &str| {
        format!("has(peer.ipBlock.except) && [{ranges}].all(range, range in peer.ipBlock.except)")
    };
    // With a prefix of 8 bits or more, the first number decides which range the network is in.
    let addresses = format!(
        "((peer.ipBlock.cidr == '0.0.0.0/0' && {}) || (peer.ipBlock.cidr == '::/0' && {}) || \
         (peer.ipBlock.cidr.matches('^[1-9][0-9.]*/([89]|[12][0-9]|3[0-2])$') && \
         !peer.ipBlock.cidr.matches('^(10|100|127|169|172|192|22[4-9]|2[3-5][0-9])[.]')) || \
         peer.ipBlock.cidr.matches('^[23][0-9a-fA-F]{{3}}:[0-9a-fA-F:]*/([89]|[1-9][0-9]|1[0-2][0-9])$'))",
        except("'10.0.0.0/8', '100.64.0.0/10', '169.254.0.0/16', '172.16.0.0/12', '192.168.0.0/16'"),
        except("'fc00::/7', 'fe80::/10'"),
    );
    let peer = format!("(has(peer.ipBlock) ? {addresses} : (!has(peer.namespaceSelector) || {namespaces}))");
    let limited = |direction: &str, peers: &str| {
        format!(
            "(!has(object.spec.{direction}) || object.spec.{direction}.all(rule, has(rule.{peers}) && \
             size(rule.{peers}) > 0 && rule.{peers}.all(peer, {peer})))"
        )
    };
    let unchanged =
        "(oldObject != null && has(oldObject.spec) && has(object.spec) && oldObject.spec == object.spec)";
    json!([rule(
        Allowance::OpenNetworkPolicies,
        &format!(
            "{unchanged} || !has(object.spec) || ({} && {})",
            limited("ingress", "from"),
            limited("egress", "to")
        ),
        &format!(
            "a NetworkPolicy in a workspace names its peers: pods, namespaces of the workspace, namespaces labelled {SHARED_NAMESPACE}=true, \
             or public addresses (0.0.0.0/0 except the private ranges)"
        ),
    )])
}
