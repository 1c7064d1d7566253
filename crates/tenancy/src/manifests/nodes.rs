//! Admission policies that restrict nodes where Kubernetes' `NodeRestriction` does not. They match by user name only, as a policy gets no
//! other data of a node: a tenant's node is `system:node:<id>-...`, and an older one is in the ConfigMap `node-names`.
//!
//! `longshore-node-owners`: a node changes neither its owner (label and taints) nor its pool, nor the time from which its certificates are
//! valid, and does not stop its removal. A tenant's node registers only with its owner's label and taints.
//!
//! `longshore-tenant-node-pods`: a tenant's node mirrors static pods only in its tenant's namespaces. The one exception is OpenYurt's
//! proxy, `kube-system/yurt-hub-<node>`, with no other label than `k8s-app: yurt-hub`, which no Service selects.
//!
//! `longshore-tenant-node-events`: a tenant's node writes Events in its tenant's namespaces, and in `default` Events of bounded size about
//! its own Node.
//!
//! `longshore-tenant-node-requests`: a tenant's node requests only certificates of nodes, in requests of bounded size, because no quota
//! counts cluster-scoped objects. [`super::node_bootstrap_role`] has the same for join tokens.
//!
//! `longshore-tenant-node-writes`: a tenant's node writes no other objects and no other subresources, except its Lease, its `CSINode`,
//! requests for its certificates, and objects that Kubernetes ties to pods bound to it.
//!
//! Elsewhere: placement of pods on tenants' nodes ([`super::placement`]), approval of their certificates ([`super::approvals`]).
//!
//! For each `longshore-tenant-node-*` there is a `longshore-older-node-*` for nodes whose names have no prefix; those do not register
//! themselves at all (`longshore-older-node-registration`).

use kube_types::SYSTEM_NAMESPACE;
use kube_types::well_known::{CERTIFICATES_NOT_BEFORE, DESIRED_POOL, NODE_LEAVING, POOL, SIMULATED, TENANT};
use serde_json::{Value, json};

use super::labels;
use crate::node_join::node_csr::{CLIENT_SIGNER, KUBELET_SIGNER};
use crate::node_join::node_names::NODE_NAMES_CONFIG_MAP;

/// Matches the user names of tenants' nodes.
pub(super) const TENANT_NODE_USER_PATTERN: &str = "^system:node:u[a-z2-7]{10}-";
/// The signer of kubelets' serving certificates.
pub(super) const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Characters of a certificate request in base64. One with an RSA key of 4096 bits has 2,300.
const MAX_REQUEST_LEN: usize = 8192;
/// The Kubernetes API's own limit for the note of an Event of `events.k8s.io`.
const MAX_NOTE_LEN: usize = 1024;
/// The longest name of a Kubernetes object, and the limit for every other text of an Event.
const MAX_TEXT_LEN: usize = 253;

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let by_a_node = condition("by-a-node", "request.userInfo.username.startsWith('system:node:')");
    let owners =
        policy("longshore-node-owners", &node_rules(), &by_a_node, &tenant_by_name(), &owner_validations());
    let mut all = owners.to_vec();
    all.extend(legacy_node_policy("registration", &node_rules(), &by_a_node, registered_by_platform()));
    for (part, rules, validations) in [
        ("pods", pod_rules(), mirror_pod_validations()),
        ("events", event_rules(), event_validations()),
        (
            "requests",
            certificate_requests(),
            bounded_requests(&[KUBELET_SIGNER, CLIENT_SIGNER, KUBELET_SERVING_SIGNER]),
        ),
        ("writes", all_resources(), write_validations()),
    ] {
        let by_a_tenants_node = condition(
            "by-a-tenants-node",
            &format!("request.userInfo.username.matches('{TENANT_NODE_USER_PATTERN}')"),
        );
        let name = format!("longshore-tenant-node-{part}");
        all.extend(policy(&name, &rules, &by_a_tenants_node, &tenant_by_name(), &validations));
        all.extend(legacy_node_policy(part, &rules, &by_a_node, validations));
    }
    all
}

/// A policy for nodes in the ConfigMap of older nodes' names, and its binding.
fn legacy_node_policy(part: &str, rules: &Value, by_a_node: &Value, validations: Value) -> [Value; 2] {
    let variables = tenant_by_params("request.userInfo.username");
    parameterized_policy(
        &format!("longshore-older-node-{part}"),
        rules,
        by_a_node,
        &variables,
        &only_for_tenants_nodes(validations),
    )
}

/// A policy whose parameter is the ConfigMap of older nodes' names, and its binding.
pub(super) fn parameterized_policy(
    name: &str,
    rules: &Value,
    conditions: &Value,
    variables: &Value,
    validations: &Value,
) -> [Value; 2] {
    let [mut policy, mut binding] = policy(name, rules, conditions, variables, validations);
    policy["spec"]["paramKind"] = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    binding["spec"]["paramRef"] = json!({ "name": NODE_NAMES_CONFIG_MAP, "namespace": SYSTEM_NAMESPACE, "parameterNotFoundAction": "Allow" });
    [policy, binding]
}

fn registered_by_platform() -> Value {
    json!([{
        "expression": "request.operation != 'CREATE'",
        "message": "this is the node of a tenant: Longshore creates its Node, with the taint of its owner",
        "reason": "Forbidden",
    }])
}

pub(super) fn condition(name: &str, expression: &str) -> Value {
    json!([{ "name": name, "expression": expression }])
}

/// Variables: `node` is the name of the requesting node, `tenant` the id of its owner, empty for others' nodes.
fn tenant_by_name() -> Value {
    json!([
        { "name": "node", "expression": "request.userInfo.username.substring(12)" },
        {
            "name": "tenant",
            "expression": format!(
                "request.userInfo.username.matches('{TENANT_NODE_USER_PATTERN}') ? request.userInfo.username.substring(12, 23) : ''"
            ),
        },
    ])
}

/// The owner of an older node's name by the ConfigMap, whose values are `<id> <time>`. Needs the variable `node`.
pub(super) const TENANT_BY_PARAMS: &str =
    "has(params.data) && variables.node in params.data ? params.data[variables.node].split(' ')[0] : ''";

/// The variables `node` and `tenant` of an older node. The expression `username` gives its user name.
pub(super) fn tenant_by_params(username: &str) -> Value {
    json!([
        { "name": "node", "expression": format!("{username}.substring(12)") },
        { "name": "tenant", "expression": TENANT_BY_PARAMS },
    ])
}

/// Restricts the validations to nodes that have a tenant.
pub(super) fn only_for_tenants_nodes(mut validations: Value) -> Value {
    for validation in validations.as_array_mut().into_iter().flatten() {
        let expression = validation["expression"].as_str().unwrap_or_default();
        validation["expression"] = format!("variables.tenant == '' || ({expression})").into();
    }
    validations
}

pub(super) fn policy(
    name: &str,
    rules: &Value,
    conditions: &Value,
    variables: &Value,
    validations: &Value,
) -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": rules,
            },
            "matchConditions": conditions,
            "variables": variables,
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name, "labels": labels() },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    [policy, binding]
}

fn node_rules() -> Value {
    json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["nodes", "nodes/status"], "scope": "Cluster",
    }])
}

/// Validations: a node keeps its owner's label and taints, its pool labels, the time from which its certificates are valid, and the
/// annotation that removes it.
fn owner_validations() -> Value {
    let entry = |object: &str, map: &str, key: &str| {
        let map = format!("{object}.metadata.{map}");
        format!("({object} != null && has({map}) && '{key}' in {map} ? {map}['{key}'] : '')")
    };
    let label = |object: &str, label: &str| entry(object, "labels", label);
    let annotation = |object: &str, annotation: &str| entry(object, "annotations", annotation);
    let same_annotation =
        |key: &str| format!("{} == {}", annotation("object", key), annotation("oldObject", key));
    let same = |key: &str| format!("{} == {}", label("object", key), label("oldObject", key));
    // Every owner taint of `one` is in `other`.
    let within = |one: &str, other: &str| {
        format!(
            "({one} == null || !has({one}.spec) || !has({one}.spec.taints) || {one}.spec.taints.all(taint, \
             taint.key != '{TENANT}' || ({other} != null && has({other}.spec) && has({other}.spec.taints) && \
             {other}.spec.taints.exists(same, same.key == taint.key && same.effect == taint.effect && \
             has(same.value) == has(taint.value) && (!has(taint.value) || same.value == taint.value)))))"
        )
    };
    let has_taint = |effect: &str| {
        format!(
            "object.spec.taints.exists(taint, taint.key == '{TENANT}' && taint.effect == '{effect}' && \
             has(taint.value) && taint.value == variables.tenant)"
        )
    };
    let no_taint = format!(
        "(!has(object.spec) || !has(object.spec.taints) || !object.spec.taints.exists(taint, taint.key == '{TENANT}'))"
    );
    let own_taints = format!(
        "(has(object.spec) && has(object.spec.taints) && {} && {} && object.spec.taints.all(taint, taint.key != '{TENANT}' || \
         (has(taint.value) && taint.value == variables.tenant)))",
        has_taint("NoSchedule"),
        has_taint("NoExecute"),
    );
    json!([
        {
            "expression": format!(
                "request.operation == 'CREATE' ? {} == variables.tenant : {}", label("object", TENANT), same(TENANT)
            ),
            "message": format!("a node cannot change its owner: the label {TENANT} is set by Longshore"),
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "request.operation == 'CREATE' ? (variables.tenant == '' ? {no_taint} : {own_taints}) : {} && {}",
                within("object", "oldObject"),
                within("oldObject", "object"),
            ),
            "message": format!(
                "a node cannot change its owner: the taint {TENANT} is set by Longshore, which creates the Nodes of tenants; a tenant's node does not \
                 register without it"
            ),
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "request.operation == 'CREATE' ? variables.tenant == '' || ({pool} == '' && {desired} == '') : ({} && {})",
                same(POOL),
                same(DESIRED_POOL),
                pool = label("object", POOL),
                desired = label("object", DESIRED_POOL),
            ),
            "message": "a node cannot change its pool itself",
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "request.operation == 'CREATE' ? variables.tenant == '' || ({} == '' && {} in ['', 'false']) : ({} && {})",
                annotation("object", CERTIFICATES_NOT_BEFORE),
                label("object", SIMULATED),
                same_annotation(CERTIFICATES_NOT_BEFORE),
                same(SIMULATED),
            ),
            "message": format!("a node changes neither the annotation {CERTIFICATES_NOT_BEFORE} nor the label {SIMULATED}: Longshore sets them"),
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "{} != 'true' || {} == 'true'", annotation("oldObject", NODE_LEAVING), annotation("object", NODE_LEAVING)
            ),
            "message": format!("a node that is being removed stays so: it does not remove the annotation {NODE_LEAVING}"),
            "reason": "Forbidden",
        },
    ])
}

/// CEL: the namespace belongs to the node's tenant.
fn own_namespace() -> String {
    format!(
        "(namespaceObject != null && has(namespaceObject.metadata.labels) && '{TENANT}' in namespaceObject.metadata.labels && \
         namespaceObject.metadata.labels['{TENANT}'] == variables.tenant)"
    )
}

fn pod_rules() -> Value {
    json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced",
    }])
}

/// Validation: mirror pods are in the tenant's namespaces, or the pod of yurthub.
fn mirror_pod_validations() -> Value {
    let hub = "(namespaceObject.metadata.name == 'kube-system' && object.metadata.name == 'yurt-hub-' + variables.node && \
               has(object.metadata.labels) && object.metadata.labels.all(key, key == 'k8s-app' && object.metadata.labels[key] == 'yurt-hub'))";
    json!([{
        "expression": format!("{} || {hub}", own_namespace()),
        "message": "a tenant's node mirrors static pods in the namespaces of its tenant only, and kube-system/yurt-hub-<node> with the label k8s-app=yurt-hub",
        "reason": "Forbidden",
    }])
}

fn event_rules() -> Value {
    let rule = |group: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["events"],
            "scope": "Namespaced",
        })
    };
    json!([rule(""), rule("events.k8s.io")])
}

/// CEL: the object's metadata is bounded. Clients can send `managedFields`, so these are bounded too.
fn bounded_metadata() -> String {
    let empty = ["labels", "annotations", "finalizers", "ownerReferences"]
        .map(|key| format!("(!has(object.metadata.{key}) || size(object.metadata.{key}) == 0)"));
    let fields = "entry.fieldsV1";
    let managed = format!(
        "(!has(object.metadata.managedFields) || (size(object.metadata.managedFields) <= 3 && \
         object.metadata.managedFields.all(entry, (!has(entry.apiVersion) || size(entry.apiVersion) <= 64) && \
         (!has({fields}) || (size({fields}) <= 24 && {fields}.all(one, size(one) <= 32 && size({fields}[one]) <= 10 && \
         {fields}[one].all(two, size(two) <= 32 && size({fields}[one][two]) == 0)))))))"
    );
    format!("{} && {managed}", empty.join(" && "))
}

/// Validations: Events are in the tenant's namespaces, or bounded ones about the node itself in `default`.
fn event_validations() -> Value {
    // `regarding` in events.k8s.io is `involvedObject` in the core group.
    let about = |event: &str, field: &str| {
        format!(
            "({event} == null || !has({event}.{field}) || ({event}.{field}.kind == 'Node' && {event}.{field}.name == variables.node))"
        )
    };
    let named =
        |event: &str| format!("({event} == null || has({event}.involvedObject) || has({event}.regarding))");
    let all: Vec<String> = ["object", "oldObject"]
        .into_iter()
        .flat_map(|event| [named(event), about(event, "involvedObject"), about(event, "regarding")])
        .collect();
    let elsewhere = format!("namespaceObject.metadata.name == 'default' && {}", all.join(" && "));
    json!([
        {
            "expression": format!("{} || ({elsewhere})", own_namespace()),
            "message": "a tenant's node writes events in the namespaces of its tenant, and in default about its own Node",
            "reason": "Forbidden",
        },
        {
            "expression": format!("{} || object == null || ({})", own_namespace(), bounded_event()),
            "message": format!(
                "outside the namespaces of its tenant, an event of a tenant's node is called <node>.<suffix>, has no labels, annotations, finalizers, \
                 owners or related object, a message of at most {MAX_NOTE_LEN} characters, and other texts of at most {MAX_TEXT_LEN}"
            ),
            "reason": "Forbidden",
        },
    ])
}

/// CEL: limits every text of an Event, because Kubernetes does not limit the texts of Events of the core group. Kubelets name Events
/// after their object, so the name identifies the node of an Event.
fn bounded_event() -> String {
    let within = |parent: &str, key: &str, most: usize| {
        let field = format!("object{parent}.{key}");
        format!("(!has({field}) || size({field}) <= {most})")
    };
    let mut all =
        vec!["object.metadata.name.startsWith(variables.node + '.')".to_owned(), bounded_metadata()];
    all.push("!has(object.related)".to_owned());
    all.extend(["message", "note"].map(|key| within("", key, MAX_NOTE_LEN)));
    let texts =
        ["reason", "type", "action", "reportingComponent", "reportingController", "reportingInstance"];
    all.extend(texts.map(|key| within("", key, MAX_TEXT_LEN)));
    for (parent, keys) in [
        ("involvedObject", &["apiVersion", "fieldPath", "namespace", "resourceVersion", "uid"][..]),
        ("regarding", &["apiVersion", "fieldPath", "namespace", "resourceVersion", "uid"]),
        ("source", &["component", "host"]),
        ("deprecatedSource", &["component", "host"]),
    ] {
        let at = format!(".{parent}");
        let bounded: Vec<String> = keys.iter().map(|key| within(&at, key, MAX_TEXT_LEN)).collect();
        all.push(format!("(!has(object.{parent}) || ({}))", bounded.join(" && ")));
    }
    all.join(" && ")
}

pub(super) fn certificate_requests() -> Value {
    json!([{
        "apiGroups": ["certificates.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
        "resources": ["certificatesigningrequests"], "scope": "Cluster",
    }])
}

/// Validations of a certificate request for one of these signers.
pub(super) fn bounded_requests(signers: &[&str]) -> Value {
    json!([
        {
            "expression": format!("object.spec.signerName in ['{}']", signers.join("', '")),
            "message": format!("only certificates of nodes can be requested, from these signers: {}", signers.join(", ")),
            "reason": "Forbidden",
        },
        {
            "expression": format!("size(object.spec.request) <= {MAX_REQUEST_LEN} && {}", bounded_metadata()),
            "message": format!(
                "a request for a node's certificate has at most {MAX_REQUEST_LEN} characters, and no labels, annotations, finalizers or owners"
            ),
            "reason": "Forbidden",
        },
    ])
}

/// All resources and subresources, in all scopes.
fn all_resources() -> Value {
    // `*` alone matches no subresources.
    json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["*/*"], "scope": "*",
    }])
}

/// Validation: only resources that `NodeRestriction` limits, or objects in the tenant's namespaces.
fn write_validations() -> Value {
    // NodeRestriction limits these to the node itself, or to pods that are bound to it.
    let objects: [(&str, &[&str]); 6] = [
        ("", &["nodes", "pods", "events"]),
        ("events.k8s.io", &["events"]),
        ("coordination.k8s.io", &["leases"]),
        ("storage.k8s.io", &["csinodes"]),
        ("resource.k8s.io", &["resourceslices"]),
        ("certificates.k8s.io", &["certificatesigningrequests", "podcertificaterequests"]),
    ];
    let objects = objects.map(|(group, resources)| {
        format!(
            "(request.resource.group == '{group}' && request.resource.resource in ['{}'])",
            resources.join("', '")
        )
    });
    let subresources = "request.resource.resource + '/' + request.subResource in ['nodes/status', 'pods/status', 'pods/eviction', \
         'persistentvolumeclaims/status', 'serviceaccounts/token']";
    let own = format!(
        "(!has(request.subResource) || request.subResource == '' ? ({}) : (request.resource.group == '' && {subresources}))",
        objects.join(" || ")
    );
    json!([{
        "expression": format!("{own} || {}", own_namespace()),
        "message": "a tenant's node writes its Node, its Lease, the status of pods that are bound to it, and in the namespaces of its tenant",
        "reason": "Forbidden",
    }])
}
