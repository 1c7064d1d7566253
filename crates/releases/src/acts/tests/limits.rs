//! Limits of a workspace, and the errors that callers see when the platform's own calls are rejected.

use domain::Kind;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::DeleteParams;

use super::*;
use crate::acts::Error;
use crate::acts::versions::MAX_KEPT_BYTES;
use crate::repos::NewRepo;
use crate::repos::credentials::{Credentials, MAX_CREDENTIALS};

#[tokio::test]
async fn values_of_a_workspace_are_bounded_and_the_refusal_names_the_budget() {
    let stage = Stage::new().await;
    let kept = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "kept", "namespace": SYSTEM_NAMESPACE,
        "labels": {"longshore.dev/workspace": SHOP, "longshore.dev/bytes": MAX_KEPT_BYTES.to_string()}}});
    stage.world.apply([kept]).await;
    let source = Source::Archive(web());
    let refused = stage.releases.install(&developer(), &source, wanted("web", "")).await.unwrap_err();
    assert!(matches!(&refused, Error::OverValuesQuota { used: MAX_KEPT_BYTES, .. }), "{refused}");
    assert_eq!(refused.kind(), Kind::Exhausted);
    assert!(refused.to_string().contains("values quota of workspace `shop` is 67108864 bytes"), "{refused}");
}

#[tokio::test]
async fn credentials_of_a_repository_are_bounded() {
    let stage = Stage::new().await;
    let owner = || {
        let mut owner = developer();
        owner.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Admin);
        owner
    };
    let new = |token: usize| NewRepo {
        name: "charts".to_owned(),
        workspace: SHOP.to_owned(),
        url: "https://charts.example.com".to_owned(),
        credentials: Some(Credentials { token: "x".repeat(token), ..Credentials::default() }),
        ..NewRepo::default()
    };
    let refused = stage.releases.create_repo(&owner(), new(MAX_CREDENTIALS + 1)).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::TooLarge, "{refused}");
    stage.releases.create_repo(&owner(), new(MAX_CREDENTIALS)).await.unwrap();
}

/// An object created while the workspace is being removed would never be deleted.
#[tokio::test]
async fn workspace_that_is_being_removed_takes_no_repository_package_or_release() {
    let stage = Stage::new().await;
    let mut owner = developer();
    owner.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Admin);
    let new = || NewRepo {
        name: "charts".to_owned(),
        workspace: SHOP.to_owned(),
        url: "https://charts.example.com".to_owned(),
        ..NewRepo::default()
    };
    let workspace = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": SHOP, "finalizers": ["example.com/kept"]}, "spec": {"namespaces": [{"name": SHOP}], "clusters": ["host"]}});
    stage.world.apply([workspace]).await;
    let workspaces: Api<kube_types::Workspace> = Api::all(stage.world.admin());
    workspaces.delete(SHOP, &DeleteParams::default()).await.unwrap();
    let releases = &stage.releases;
    let source = Source::Archive(web());
    let refused = [
        releases.create_repo(&owner, new()).await.err(),
        releases.keep_package(&owner, Some(SHOP), web()).await.err(),
        releases.install(&developer(), &source, wanted("web", "")).await.err(),
    ];
    for refused in refused {
        assert!(matches!(&refused, Some(Error::Leaving(name)) if name == SHOP), "{refused:?}");
    }
}

#[tokio::test]
async fn refusal_of_the_platforms_own_call_does_not_name_its_identity() {
    let stage = Stage::new().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.world.admin());
    for binding in bindings.list(&ListParams::default()).await.unwrap().items {
        if binding.role_ref.name == "longshore" {
            let name = binding.metadata.name.unwrap();
            bindings.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    let source = Source::Archive(web());
    let refused = until("the platform is refused", async || {
        stage.releases.install(&developer(), &source, wanted("web", "")).await.err()
    })
    .await;
    let said = refused.to_string();
    assert!(said.contains("the platform is not permitted to"), "{said}");
    assert!(!said.contains("system:serviceaccount") && !said.contains("cannot "), "{said}");
}
