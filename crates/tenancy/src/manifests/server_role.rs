//! RBAC rules of the server. Every row is needed by a call that the server makes.

use domain::roles::WorkspaceRole;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::core::ObjectMeta;
use kube_types::well_known::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use serde_json::Value;

use super::{PLATFORM_SERVICE_ACCOUNT, host_ports, to_value};
use crate::node_join::node_csr::{CLIENT_SIGNER, KUBELET_SIGNER};
use crate::roles::to_strings;

/// API group, resources, verbs.
type RuleRow = (&'static str, &'static [&'static str], &'static [&'static str]);

const READ_VERBS: &[&str] = &["get", "list", "watch"];
const MANAGE_VERBS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const ALL_VERBS: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// Rules of the ClusterRole.
#[rustfmt::skip]
const CLUSTER_RULES: &[RuleRow] = &[
    // Accounts and workspaces: owned by the platform.
    ("user.openyurt.io",          &["users"],                                                      ALL_VERBS),
    ("user.openyurt.io",          &["users/status"],                                               &["get", "update", "patch"]),
    ("longshore.dev",             &["workspaces"],                                                 ALL_VERBS),
    ("longshore.dev",             &["workspaces/status"],                                          &["get", "update", "patch"]),
    // Requests, releases and charts. Tenants write releases too; the others are owned by the platform.
    ("longshore.dev",             &["helmpackages", "helmreleases", "helmrepos", "helmrequests"],  ALL_VERBS),
    ("longshore.dev",             &["helmpackages/status", "helmreleases/status", "helmrepos/status", "helmrequests/status"], &["get", "update", "patch"]),
    // Helm's records are Secrets in the namespace of the release, and a Lease serialises the work on it. The right to bind the roles
    // below implies access to the Secrets of workspaces anyway.
    ("",                          &["secrets"],                                                    ALL_VERBS),
    ("coordination.k8s.io",       &["leases"],                                                     ALL_VERBS),
    // Readiness of a release's objects.
    ("",                          &["persistentvolumeclaims", "pods"],                             READ_VERBS),
    ("apps",                      &["daemonsets", "deployments", "statefulsets"],                  READ_VERBS),
    ("batch",                     &["cronjobs", "jobs"],                                           READ_VERBS),
    // Nodes, their owners, pools and usage.
    ("",                          &["nodes"],                                                      MANAGE_VERBS),
    ("apps.openyurt.io",          &["nodepools"],                                                  &["get", "list", "watch", "create", "update", "delete"]),
    ("apps.openyurt.io",          &["nodepools/status"],                                           &["get", "patch"]),
    ("metrics.k8s.io",            &["nodes"],                                                      &["list"]),
    // Objects of a workspace.
    ("",                          &["limitranges", "namespaces", "resourcequotas", "serviceaccounts"], MANAGE_VERBS),
    ("networking.k8s.io",         &["networkpolicies"],                                            MANAGE_VERBS),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "rolebindings"],                        MANAGE_VERBS),
    // Nodes that join.
    ("certificates.k8s.io",       &["certificatesigningrequests"],                                 &["get", "list", "watch", "delete"]),
    // Each join token reads its own requests.
    ("rbac.authorization.k8s.io", &["clusterroles"],                                               &["get", "list", "create", "patch", "delete"]),
    ("certificates.k8s.io",       &["certificatesigningrequests/approval"],                        &["update", "patch"]),
    // Actions of users are impersonated, so that Kubernetes authorises them.
    ("",                          &["groups", "serviceaccounts", "users"],                         &["impersonate"]),
    ("authentication.k8s.io",     &["tokenreviews"],                                               &["create"]),
    ("authorization.k8s.io",      &["subjectaccessreviews"],                                       &["create"]),
    // Events of accounts and workspaces.
    ("events.k8s.io",             &["events"],                                                     &["create", "patch"]),
    ("apiextensions.k8s.io",      &["customresourcedefinitions"],                                  &["get", "list", "watch", "create", "patch"]),
];

/// Rules of the Role in `longshore-system`.
#[rustfmt::skip]
const SYSTEM_NAMESPACE_RULES: &[RuleRow] = &[
    ("",                    &["configmaps", "secrets"],  ALL_VERBS),
    ("",                    &["serviceaccounts/token"],  &["create"]),
    ("coordination.k8s.io", &["leases"],                 &["get", "create", "update"]),
];

fn rule((group, resources, verbs): &RuleRow) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(to_strings(resources)),
        verbs: to_strings(verbs),
        ..PolicyRule::default()
    }
}

/// The right to bind these roles without holding their rights, and no others.
fn bind_rule() -> PolicyRule {
    let mut names: Vec<String> = WorkspaceRole::ALL.iter().map(|role| role.cluster_role()).collect();
    names.push("cluster-admin".to_owned());
    PolicyRule {
        resource_names: Some(names),
        ..rule(&("rbac.authorization.k8s.io", &["clusterroles"], &["bind"]))
    }
}

/// The right to approve client certificates of nodes, and no others.
fn approve_rule() -> PolicyRule {
    PolicyRule {
        resource_names: Some(to_strings(&[KUBELET_SIGNER, CLIENT_SIGNER])),
        ..rule(&("certificates.k8s.io", &["signers"], &["approve"]))
    }
}

/// The right to check whether the policy for host ports is installed.
fn read_host_ports_policy_rule() -> PolicyRule {
    PolicyRule {
        resource_names: Some(to_strings(&[host_ports::NAME])),
        ..rule(&("admissionregistration.k8s.io", &["validatingadmissionpolicybindings"], &["get"]))
    }
}

/// The right to read the address and certificate for kubeconfigs.
fn read_cluster_info_rule() -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec!["cluster-info".to_owned()]),
        ..rule(&("", &["configmaps"], &["get"]))
    }
}

fn metadata(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(PLATFORM_SERVICE_ACCOUNT.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: PLATFORM_SERVICE_ACCOUNT.to_owned(),
    }
}

fn subject() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: PLATFORM_SERVICE_ACCOUNT.to_owned(),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        api_group: None,
    }
}

/// A Role and its binding in `namespace`.
fn namespaced_role(namespace: &str, rules: Vec<PolicyRule>) -> [Value; 2] {
    let role = Role { metadata: metadata(Some(namespace)), rules: Some(rules) };
    let binding = RoleBinding {
        metadata: metadata(Some(namespace)),
        role_ref: role_ref("Role"),
        subjects: Some(vec![subject()]),
    };
    [to_value(&role), to_value(&binding)]
}

/// The roles that the server runs under, and their bindings.
pub(super) fn objects() -> Vec<Value> {
    let mut everywhere: Vec<PolicyRule> = CLUSTER_RULES.iter().map(rule).collect();
    everywhere.extend([bind_rule(), approve_rule(), read_host_ports_policy_rule()]);
    let role = ClusterRole { metadata: metadata(None), rules: Some(everywhere), aggregation_rule: None };
    let binding = ClusterRoleBinding {
        metadata: metadata(None),
        role_ref: role_ref("ClusterRole"),
        subjects: Some(vec![subject()]),
    };
    let mut all = vec![to_value(&role), to_value(&binding)];
    all.extend(namespaced_role(SYSTEM_NAMESPACE, SYSTEM_NAMESPACE_RULES.iter().map(rule).collect()));
    all.extend(namespaced_role("kube-public", vec![read_cluster_info_rule()]));
    // The Events of nodes are in `default`.
    all.extend(namespaced_role("default", vec![rule(&("", &["events"], &["list"]))]));
    all
}
