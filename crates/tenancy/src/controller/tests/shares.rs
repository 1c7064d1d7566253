//! Shares of namespaces that still use them.

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};

use super::*;

/// A workspace with 50 ConfigMaps, 20 of them for `acme-more`.
fn shared_workspace() -> Workspace {
    let mut acme = workspace("acme", &[(ID, "admin")]);
    acme.spec.quota = [("configmaps".to_owned(), "50".to_owned())].into();
    let share = [("configmaps".to_owned(), "20".to_owned())].into();
    acme.spec.namespaces.push(WorkspaceNamespace { name: "acme-more".to_owned(), share });
    acme
}

/// The limit of ConfigMaps in a namespace, and their number as Kubernetes last counted them.
async fn limit_and_use(world: &TestCluster, namespace: &str) -> Option<(u32, u32)> {
    let quotas: Api<ResourceQuota> = Api::namespaced(world.admin_client(), namespace);
    let quota = quotas.get_opt("longshore").await.unwrap()?;
    let (hard, used) = (quota.spec?.hard?, quota.status?.used?);
    Some((hard.get("configmaps")?.0.parse().unwrap(), used.get("configmaps")?.0.parse().unwrap()))
}

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": name, "namespace": "acme-more", "finalizers": finalizers}})
}

async fn provision_shares(world: &TestCluster, clock: &ManualClock) {
    create(world, &shared_workspace()).await;
    run_controllers_until(world, &FaultInjector::healthy(), clock, "the shares are set", async || {
        let (first, more) = (limit_and_use(world, "acme").await?, limit_and_use(world, "acme-more").await?);
        (is_ready(world, "acme").await.is_some() && (first.0, more.0) == (30, 20)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn share_of_a_namespace_that_was_removed_before_it_was_recorded_stays_taken_until_it_is_gone() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    provision_shares(&world, &clock).await;
    // As after a crash between the creation of the namespace and the status update.
    let recorded = get::<Workspace>(&world, "acme").await.unwrap().status.unwrap().namespaces;
    let recorded: Vec<_> = recorded.into_iter().filter(|record| record.name == "acme").collect();
    let workspaces: Api<Workspace> = Api::all(world.admin_client());
    let forgotten = Patch::Merge(json!({"status": {"namespaces": recorded}}));
    workspaces.patch_status("acme", &PatchParams::default(), &forgotten).await.unwrap();
    world.apply([config_map("kept", &["example.com/kept"])]).await;
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let record = async || {
        let status = get::<Workspace>(&world, "acme").await.unwrap().status.unwrap();
        status.namespaces.into_iter().find(|record| record.name == "acme-more")
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "it is being deleted", async || {
        record().await?;
        let namespace = get::<Namespace>(&world, "acme-more").await.unwrap();
        namespace.metadata.deletion_timestamp.map(drop)
    })
    .await;
    assert_eq!(record().await.unwrap().share, [("configmaps".to_owned(), "20".to_owned())].into());
    assert_eq!(limit_and_use(&world, "acme").await.unwrap().0, 30);
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), "acme-more");
    maps.patch("kept", &PatchParams::default(), &freed).await.unwrap();
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the share is back", async || {
        (limit_and_use(&world, "acme").await?.0 == 50).then_some(())
    })
    .await;
}

#[tokio::test]
async fn share_that_was_lowered_below_its_use_is_given_to_others_as_the_use_falls() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    provision_shares(&world, &clock).await;
    let names: Vec<String> = (0..12).map(|number| format!("map-{number}")).collect();
    world.apply(names.iter().map(|name| config_map(name, &[]))).await;
    let lowered = json!([{"name": "acme"}, {"name": "acme-more", "share": {"configmaps": "5"}}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": lowered}})).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the rest is given", async || {
        let (first, more) = (limit_and_use(&world, "acme").await?, limit_and_use(&world, "acme-more").await?);
        assert!(first.0 <= 30 || first.0 + more.1 <= 50, "{first:?} {more:?}");
        (more.0 == 5 && more.1 >= 12 && first.0 == 50 - more.1).then_some(())
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), "acme-more");
    for name in &names {
        maps.delete(name, &DeleteParams::default()).await.unwrap();
    }
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "all of it is given", async || {
        (limit_and_use(&world, "acme").await?.0 == 45).then_some(())
    })
    .await;
}
