//! RBAC rules of the server. Every row is needed by a call that the server makes.

use domain::roles::WorkspaceRole;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::core::ObjectMeta;
use kube_types::marks::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use serde_json::Value;

use super::{PLATFORM, host_ports, written};
use crate::edge::request::{CLIENT, KUBELET};
use crate::roles::owned;

/// API group, resources, verbs.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const LOOK: &[&str] = &["get", "list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const KEEP_ALL: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];

/// Rules of the ClusterRole.
#[rustfmt::skip]
const EVERYWHERE: &[Row] = &[
    // Accounts and workspaces: owned by the platform.
    ("user.openyurt.io",          &["users"],                                                      KEEP_ALL),
    ("user.openyurt.io",          &["users/status"],                                               &["get", "update", "patch"]),
    ("longshore.dev",             &["workspaces"],                                                 KEEP_ALL),
    ("longshore.dev",             &["workspaces/status"],                                          &["get", "update", "patch"]),
    // Requests, releases and charts. Tenants write releases too; the others are owned by the platform.
    ("longshore.dev",             &["helmpackages", "helmreleases", "helmrepos", "helmrequests"],  KEEP_ALL),
    ("longshore.dev",             &["helmpackages/status", "helmreleases/status", "helmrepos/status", "helmrequests/status"], &["get", "update", "patch"]),
    // Helm's records are Secrets beside the release, and a Lease serialises the work on it. The right to bind the roles below implies
    // access to the Secrets of workspaces anyway.
    ("",                          &["secrets"],                                                    KEEP_ALL),
    ("coordination.k8s.io",       &["leases"],                                                     KEEP_ALL),
    // Readiness of a release's objects.
    ("",                          &["persistentvolumeclaims", "pods"],                             LOOK),
    ("apps",                      &["daemonsets", "deployments", "statefulsets"],                  LOOK),
    ("batch",                     &["cronjobs", "jobs"],                                           LOOK),
    // Nodes, their owners, pools and usage.
    ("",                          &["nodes"],                                                      KEEP),
    ("apps.openyurt.io",          &["nodepools"],                                                  &["get", "list", "watch", "create", "update", "delete"]),
    ("apps.openyurt.io",          &["nodepools/status"],                                           &["get", "patch"]),
    ("metrics.k8s.io",            &["nodes"],                                                      &["list"]),
    // Objects of a workspace.
    ("",                          &["limitranges", "namespaces", "resourcequotas", "serviceaccounts"], KEEP),
    ("networking.k8s.io",         &["networkpolicies"],                                            KEEP),
    ("rbac.authorization.k8s.io", &["clusterrolebindings", "rolebindings"],                        KEEP),
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
const AT_HOME: &[Row] = &[
    ("",                    &["configmaps", "secrets"],  KEEP_ALL),
    ("",                    &["serviceaccounts/token"],  &["create"]),
    ("coordination.k8s.io", &["leases"],                 &["get", "create", "update"]),
];

fn rule((group, resources, verbs): &Row) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// The right to bind these roles without holding their rights, and no others.
fn may_bind() -> PolicyRule {
    let mut names: Vec<String> = WorkspaceRole::ALL.iter().map(|role| role.cluster_role()).collect();
    names.push("cluster-admin".to_owned());
    PolicyRule {
        resource_names: Some(names),
        ..rule(&("rbac.authorization.k8s.io", &["clusterroles"], &["bind"]))
    }
}

/// The right to approve client certificates of nodes, and no others.
fn may_approve() -> PolicyRule {
    PolicyRule {
        resource_names: Some(owned(&[KUBELET, CLIENT])),
        ..rule(&("certificates.k8s.io", &["signers"], &["approve"]))
    }
}

/// The right to check whether the policy for host ports is installed.
fn may_look_for_host_ports() -> PolicyRule {
    PolicyRule {
        resource_names: Some(owned(&[host_ports::NAME])),
        ..rule(&("admissionregistration.k8s.io", &["validatingadmissionpolicybindings"], &["get"]))
    }
}

/// The right to read the address and certificate for kubeconfigs.
fn may_read_cluster_info() -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec!["cluster-info".to_owned()]),
        ..rule(&("", &["configmaps"], &["get"]))
    }
}

fn metadata(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(PLATFORM.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str) -> RoleRef {
    RoleRef {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: PLATFORM.to_owned(),
    }
}

fn subject() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: PLATFORM.to_owned(),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        api_group: None,
    }
}

/// A Role and its binding in `namespace`.
fn inside(namespace: &str, rules: Vec<PolicyRule>) -> [Value; 2] {
    let role = Role { metadata: metadata(Some(namespace)), rules: Some(rules) };
    let binding = RoleBinding {
        metadata: metadata(Some(namespace)),
        role_ref: role_ref("Role"),
        subjects: Some(vec![subject()]),
    };
    [written(&role), written(&binding)]
}

/// The roles that the server runs under, and their bindings.
pub(super) fn objects() -> Vec<Value> {
    let mut everywhere: Vec<PolicyRule> = EVERYWHERE.iter().map(rule).collect();
    everywhere.extend([may_bind(), may_approve(), may_look_for_host_ports()]);
    let role = ClusterRole { metadata: metadata(None), rules: Some(everywhere), aggregation_rule: None };
    let binding = ClusterRoleBinding {
        metadata: metadata(None),
        role_ref: role_ref("ClusterRole"),
        subjects: Some(vec![subject()]),
    };
    let mut all = vec![written(&role), written(&binding)];
    all.extend(inside(SYSTEM_NAMESPACE, AT_HOME.iter().map(rule).collect()));
    all.extend(inside("kube-public", vec![may_read_cluster_info()]));
    // The Events of nodes are in `default`.
    all.extend(inside("default", vec![rule(&("", &["events"], &["list"]))]));
    all
}
