//! The kubeconfig of a workspace member works in the member's namespaces only.

use crate::platform::{PlatformUser, kubectl, unused_phone};
use crate::target::{Cluster, report_skipped};

/// Arguments, expected success, and part of the output.
type KubectlCase<'a> = (&'a [&'a str], bool, &'a str);

#[tokio::test(flavor = "multi_thread")]
async fn member_kubeconfig_is_limited_to_own_namespaces() {
    if std::env::var_os("LONGSHORE_KUBECTL").is_none() {
        report_skipped("LONGSHORE_KUBECTL names no kubectl");
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let owner = PlatformUser::register(&server, &cluster).await;
    let viewer = PlatformUser::register(&server, &cluster).await;
    let stranger = PlatformUser::register(&server, &cluster).await;
    let workspace = format!("team-{}", unused_phone());
    owner.workspace(&cluster, &workspace).await;
    owner.add_member(&workspace, &viewer, "viewer").await;

    let own = owner.kubeconfig(&cluster).await;
    let looks = viewer.kubeconfig(&cluster).await;
    let theirs = stranger.kubeconfig(&cluster).await;
    let forbidden = "orbidden";
    let rows: &[(&std::path::Path, &[KubectlCase])] = &[
        (
            &own,
            &[
                (
                    &["create", "configmap", "settings", "--from-literal=a=b"],
                    true,
                    "configmap/settings created",
                ),
                (&["get", "configmaps", "-o", "name"], true, "configmap/settings"),
                (
                    &["-n", &workspace, "create", "deployment", "web", "--image=nginx"],
                    true,
                    "deployment.apps/web created",
                ),
                (
                    &["-n", &workspace, "create", "secret", "generic", "key", "--from-literal=a=b"],
                    true,
                    "secret/key created",
                ),
                (
                    &["-n", &workspace, "create", "role", "reader", "--verb=get", "--resource=pods"],
                    true,
                    "role.rbac.authorization.k8s.io/reader created",
                ),
                (&["-n", &stranger.id, "get", "pods"], false, forbidden),
                (&["get", "pods", "-A"], false, forbidden),
                (&["get", "nodes"], false, forbidden),
                (&["-n", "longshore-system", "get", "secrets"], false, forbidden),
                (&["-n", "kube-system", "get", "secrets"], false, forbidden),
                (&["get", "users.user.openyurt.io"], false, forbidden),
                (&["get", "workspaces.longshore.dev"], false, forbidden),
                (&["-n", &workspace, "delete", "resourcequota", "--all"], false, forbidden),
                (&["delete", "namespace", &workspace], false, forbidden),
                (&["auth", "can-i", "create", "deployments", "-n", &workspace], true, "yes"),
            ],
        ),
        (
            &looks,
            &[
                (&["-n", &workspace, "get", "deployments", "-o", "name"], true, "deployment.apps/web"),
                (&["-n", &workspace, "get", "secrets"], false, forbidden),
                (&["-n", &workspace, "delete", "deployment", "web"], false, forbidden),
                (&["-n", &workspace, "create", "configmap", "mine"], false, forbidden),
            ],
        ),
        (&theirs, &[(&["-n", &workspace, "get", "deployments"], false, forbidden)]),
    ];
    for (kubeconfig, lines) in rows {
        for (args, well, part) in *lines {
            let (ok, said) = kubectl(kubeconfig, args, "").unwrap();
            assert_eq!(ok, *well, "kubectl {}: {said}", args.join(" "));
            assert!(said.contains(part), "kubectl {}: {said}", args.join(" "));
        }
    }
}
