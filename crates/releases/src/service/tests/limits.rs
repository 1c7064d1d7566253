//! Limits of a workspace, and the errors that callers see when the platform's own calls are rejected.

use domain::ErrorKind;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::DeleteParams;

use super::*;
use crate::repos::CreateRepoRequest;
use crate::repos::credentials::{Credentials, MAX_CREDENTIALS_BYTES};
use crate::service::Error;
use crate::service::versions::MAX_SAVED_VERSIONS_BYTES;

#[tokio::test]
async fn values_quota_of_a_workspace_is_enforced() {
    let stage = TestHarness::new().await;
    let kept = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "kept", "namespace": SYSTEM_NAMESPACE,
        "labels": {"longshore.dev/workspace": SHOP, "longshore.dev/bytes": MAX_SAVED_VERSIONS_BYTES.to_string()}}});
    stage.world.apply([kept]).await;
    let source = ChartSource::Archive(web_chart());
    let refused =
        stage.releases.install(&developer(), &source, install_request("web", "")).await.unwrap_err();
    assert!(matches!(&refused, Error::OverValuesQuota { used: MAX_SAVED_VERSIONS_BYTES, .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.to_string().contains("values quota of workspace `shop` is 67108864 bytes"), "{refused}");
}

#[tokio::test]
async fn repo_credentials_are_size_limited() {
    let stage = TestHarness::new().await;
    let owner = || {
        let mut owner = developer();
        owner.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Admin);
        owner
    };
    let new = |token: usize| CreateRepoRequest {
        name: "charts".to_owned(),
        workspace: SHOP.to_owned(),
        url: "https://charts.example.com".to_owned(),
        credentials: Some(Credentials { token: "x".repeat(token), ..Credentials::default() }),
        ..CreateRepoRequest::default()
    };
    let refused = stage.releases.create_repo(&owner(), new(MAX_CREDENTIALS_BYTES + 1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    stage.releases.create_repo(&owner(), new(MAX_CREDENTIALS_BYTES)).await.unwrap();
}

/// An object created while the workspace is being removed would never be deleted.
#[tokio::test]
async fn terminating_workspace_rejects_repositories_packages_and_releases() {
    let stage = TestHarness::new().await;
    let mut owner = developer();
    owner.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Admin);
    let new = || CreateRepoRequest {
        name: "charts".to_owned(),
        workspace: SHOP.to_owned(),
        url: "https://charts.example.com".to_owned(),
        ..CreateRepoRequest::default()
    };
    let workspace = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": SHOP, "finalizers": ["example.com/kept"]}, "spec": {"namespaces": [{"name": SHOP}], "clusters": ["host"]}});
    stage.world.apply([workspace]).await;
    let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin_client());
    workspaces.delete(SHOP, &DeleteParams::default()).await.unwrap();
    let releases = &stage.releases;
    let source = ChartSource::Archive(web_chart());
    let refused = [
        releases.create_repo(&owner, new()).await.err(),
        releases.upload_package(&owner, Some(SHOP), web_chart()).await.err(),
        releases.install(&developer(), &source, install_request("web", "")).await.err(),
    ];
    for refused in refused {
        assert!(matches!(&refused, Some(Error::WorkspaceTerminating(name)) if name == SHOP), "{refused:?}");
    }
}

#[tokio::test]
async fn refusal_of_the_platforms_own_call_does_not_name_its_identity() {
    let stage = TestHarness::new().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.world.admin_client());
    for binding in bindings.list(&ListParams::default()).await.unwrap().items {
        if binding.role_ref.name == "longshore" {
            let name = binding.metadata.name.unwrap();
            bindings.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    let source = ChartSource::Archive(web_chart());
    let refused = wait_for("the platform is refused", async || {
        stage.releases.install(&developer(), &source, install_request("web", "")).await.err()
    })
    .await;
    let said = refused.to_string();
    assert!(said.contains("the platform is not permitted to"), "{said}");
    assert!(!said.contains("system:serviceaccount") && !said.contains("cannot "), "{said}");
}
