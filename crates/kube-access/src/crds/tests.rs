//! Installation of CRDs on an embedded cluster that has some already.

use kube::api::{DeleteParams, ListParams};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use kube_types::definitions;
use serde_json::{Value, json};

use super::*;

const USERS: &str = "users.user.openyurt.io";
const WORKSPACES: &str = "workspaces.longshore.dev";

async fn cluster() -> (Client, Api<CustomResourceDefinition>) {
    let client = Cluster::in_memory().await.client(User::admin());
    (client.clone(), Api::all(client))
}

async fn patch_crd(crds: &Api<CustomResourceDefinition>, name: &str, patch: Value) {
    crds.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn columns(crd: &CustomResourceDefinition) -> usize {
    crd.spec.versions[0].additional_printer_columns.as_ref().map_or(0, Vec::len)
}

/// One of the platform's CRDs without its printer columns.
fn crd_without_columns(name: &str) -> CustomResourceDefinition {
    let found = definitions::all().into_iter().find(|definition| definition.crd.name_any() == name);
    let mut crd = found.unwrap().crd;
    crd.metadata.annotations = None;
    crd.spec.versions[0].additional_printer_columns = None;
    crd
}

async fn create(crds: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) {
    crds.create(&PostParams::default(), crd).await.unwrap();
}

#[tokio::test]
async fn install_creates_all_crds_once() {
    let (client, crds) = cluster().await;
    install_crds(&client, definitions::all()).await.unwrap();
    let versions = async || {
        let all = crds.list(&ListParams::default()).await.unwrap();
        all.items.iter().map(|crd| (crd.name_any(), crd.resource_version())).collect::<Vec<_>>()
    };
    let first = versions().await;
    assert_eq!(first.len(), definitions::all().len());
    let workspaces = Api::<kube_types::Workspace>::all(client.clone());
    assert!(workspaces.list(&ListParams::default()).await.unwrap().items.is_empty(), "its kinds are served");
    install_crds(&client, definitions::all()).await.unwrap();
    assert_eq!(versions().await, first);
}

#[tokio::test]
async fn own_crd_is_updated_and_restored() {
    let (client, crds) = cluster().await;
    create(&crds, &crd_without_columns(WORKSPACES)).await;
    install_crds(&client, definitions::all()).await.unwrap();
    assert!(columns(&crds.get(WORKSPACES).await.unwrap()) > 0);
    patch_crd(&crds, WORKSPACES, json!({"spec": {"names": {"shortNames": ["other"]}}})).await;
    install_crds(&client, definitions::all()).await.unwrap();
    assert_eq!(crds.get(WORKSPACES).await.unwrap().spec.names.short_names.unwrap(), ["ws"]);
}

#[tokio::test]
async fn newer_crd_is_not_downgraded() {
    let (client, crds) = cluster().await;
    install_crds(&client, definitions::all()).await.unwrap();
    let newer = json!({
        "metadata": {"annotations": {CRD_REVISION: (definitions::CURRENT_CRD_REVISION + 1).to_string()}},
        "spec": {"names": {"shortNames": ["newer"]}},
    });
    patch_crd(&crds, WORKSPACES, newer).await;
    install_crds(&client, definitions::all()).await.unwrap();
    assert_eq!(crds.get(WORKSPACES).await.unwrap().spec.names.short_names.unwrap(), ["newer"]);
}

#[tokio::test]
async fn foreign_crd_is_never_changed() {
    let (client, crds) = cluster().await;
    create(&crds, &crd_without_columns(USERS)).await;
    let theirs = crds.get(USERS).await.unwrap();
    install_crds(&client, definitions::all()).await.unwrap();
    let after = crds.get(USERS).await.unwrap();
    assert_eq!((after.resource_version(), columns(&after)), (theirs.resource_version(), 0));
    // An absent CRD is created.
    crds.delete(USERS, &DeleteParams::default()).await.unwrap();
    install_crds(&client, definitions::all()).await.unwrap();
    assert!(columns(&crds.get(USERS).await.unwrap()) > 0);
}

#[tokio::test]
async fn foreign_crd_created_by_older_server_is_updated() {
    let (client, crds) = cluster().await;
    let mut older = crd_without_columns(USERS);
    older.metadata.annotations = Some([(CRD_REVISION.to_owned(), "1".to_owned())].into());
    create(&crds, &older).await;
    install_crds(&client, definitions::all()).await.unwrap();
    let after = crds.get(USERS).await.unwrap();
    assert!(columns(&after) > 0);
    assert_eq!(after.annotations()[CRD_REVISION], definitions::CURRENT_CRD_REVISION.to_string());
}

#[tokio::test]
async fn crd_being_deleted_is_recreated() {
    let (client, crds) = cluster().await;
    for name in [USERS, WORKSPACES] {
        let mut held = crd_without_columns(name);
        held.metadata.finalizers = Some(vec!["test.example/hold".to_owned()]);
        create(&crds, &held).await;
        crds.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let let_go = async {
        for name in [USERS, WORKSPACES] {
            assert!(crds.get(name).await.unwrap().metadata.deletion_timestamp.is_some());
            tokio::time::sleep(2 * POLL_INTERVAL).await;
            patch_crd(&crds, name, json!({"metadata": {"finalizers": null}})).await;
        }
    };
    let (done, ()) = tokio::join!(install_crds(&client, definitions::all()), let_go);
    done.unwrap();
    for name in [USERS, WORKSPACES] {
        assert!(columns(&crds.get(name).await.unwrap()) > 0, "{name}");
    }
}

#[tokio::test]
async fn incompatible_crd_is_rejected_and_unchanged() {
    for (name, wanted) in [
        (
            USERS,
            "CRD `users.user.openyurt.io` on the cluster has scope Namespaced, but scope Cluster is required",
        ),
        (
            WORKSPACES,
            "CRD `workspaces.longshore.dev` on the cluster has scope Namespaced, but scope Cluster is required",
        ),
    ] {
        let (client, crds) = cluster().await;
        let mut other = crd_without_columns(name);
        other.spec.scope = "Namespaced".to_owned();
        create(&crds, &other).await;
        let theirs = crds.get(name).await.unwrap();
        let refused = install_crds(&client, definitions::all()).await.unwrap_err();
        assert_eq!(refused.to_string(), wanted);
        assert_eq!(crds.get(name).await.unwrap().spec, theirs.spec);
    }
    let (client, crds) = cluster().await;
    let mut other = crd_without_columns(USERS);
    other.spec.versions[0].name = "v1beta7".to_owned();
    create(&crds, &other).await;
    let refused = install_crds(&client, definitions::all()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "CRD `users.user.openyurt.io` on the cluster serves none of the versions v1alpha1"
    );
}

#[tokio::test]
async fn concurrent_installs_succeed() {
    let (client, _) = cluster().await;
    let all = futures::future::join_all((0..5).map(|_| install_crds(&client, definitions::all()))).await;
    for done in all {
        done.unwrap();
    }
}
