//! Kills the server after every single write: the next server reaches the desired state and touches no foreign object.

use testkit::every_kill_point;

use super::contents::{create_token, create_workspace_objects, object_names, retired_names, token_scopes};
use super::edge::{
    create_edge_objects, existing_edge_objects, manual_clock_at_system_time, nodes_of, report_when_signed,
};
use super::*;

/// A cluster that has already reached a state.
async fn cluster_after(
    what: &str,
    prepare: impl AsyncFn(&TestCluster),
    reached: impl AsyncFn(&TestCluster) -> Option<()>,
) -> TestCluster {
    let world = test_cluster().await;
    prepare(&world).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &ManualClock::new(), what, async || {
        reached(&world).await
    })
    .await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_is_provisioned_despite_a_crash_at_any_write() {
    let clock = ManualClock::new();
    let points = every_kill_point(
        async || {
            let world = test_cluster().await;
            give_credentials(&world, ID).await;
            let mut ana = user("ana", Some(ID));
            ana.spec.platform_roles = vec!["admin".to_owned()];
            create(&world, &ana).await;
            world
        },
        async |world, fault| {
            run_controllers_until(world, fault, &clock, "ready", async || user_is_ready(world, "ana").await)
                .await;
            Ok::<(), ()>(())
        },
        async |world| {
            let status = get::<User>(world, "ana").await.unwrap().status.unwrap();
            assert_eq!(status.tenant_id, ID);
            assert!(conditions::is_condition_true(&status.conditions, "CredentialsIssued"));
            assert_fully_provisioned(world, ID).await;
            assert_eq!(admin_bindings(world).await, [format!("longshore-admin-{ID}")]);
            let people: Vec<String> = names::<ServiceAccount>(world, SYSTEM_NAMESPACE)
                .await
                .into_iter()
                .filter(|name| name.starts_with('u'))
                .collect();
            assert_eq!(people, [ID], "one id, and no other was begun");
        },
    )
    .await;
    assert!(points > 15, "{points}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_updated_despite_a_crash_at_any_write() {
    let clock = ManualClock::new();
    every_kill_point(
        async || {
            let acme = async |world: &TestCluster| {
                drop(create(world, &workspace("acme", &[(ID, "admin"), (OTHER_ID, "viewer")])).await);
            };
            let world = cluster_after("ready", acme, async |world| is_ready(world, "acme").await).await;
            let members = json!([{"user": OTHER_ID, "role": "admin"}]);
            patch::<Workspace>(&world, "acme", json!({"spec": {"members": members}})).await;
            world
        },
        async |world, fault| {
            run_controllers_until(world, fault, &clock, "ready", async || is_ready(world, "acme").await)
                .await;
            Ok::<(), ()>(())
        },
        async |world| {
            assert_eq!(subjects_of_role(world, "acme", "admin").await, ["longshore:ws:acme:admin", OTHER_ID]);
            assert_eq!(subjects_of_role(world, "acme", "viewer").await, ["longshore:ws:acme:viewer"]);
            assert_fully_provisioned(world, "acme").await;
        },
    )
    .await;
}

/// Foreign namespaces: one with the same name prefix, one with our label, and one that replaced ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workspace_deletion_survives_a_crash_at_any_write_and_spares_foreign_objects() {
    let clock = ManualClock::new();
    every_kill_point(
        async || {
            let acme = async |world: &TestCluster| {
                let mut acme = workspace("acme", &[(ID, "admin")]);
                let further = |name: &str| WorkspaceNamespace {
                    name: name.to_owned(),
                    ..WorkspaceNamespace::default()
                };
                acme.spec.namespaces.extend([further("acme-test"), further("acme-lost")]);
                create(world, &acme).await;
                create(world, &workspace("acme-other", &[(OTHER_ID, "admin")])).await;
            };
            let ready = async |world: &TestCluster| {
                is_ready(world, "acme").await.and(is_ready(world, "acme-other").await)
            };
            let world = cluster_after("ready", acme, ready).await;
            delete::<Namespace>(&world, "acme-lost").await;
            wait_for("the namespace is gone", async || {
                get::<Namespace>(&world, "acme-lost").await.is_none().then_some(())
            })
            .await;
            let foreign =
                foreign_namespace(&world, "acme-lost", json!({well_known::WORKSPACE: "acme"})).await;
            let alike = foreign_namespace(&world, "acme-alike", json!({well_known::WORKSPACE: "acme"})).await;
            create_workspace_objects(&world, "acme").await;
            create_workspace_objects(&world, "acme-other").await;
            create_token(&world, "aaaaaaaaaa", "read,workspace:acme").await;
            create_token(&world, "bbbbbbbbbb", "workspace:acme,workspace:acme-other").await;
            delete::<Workspace>(&world, "acme").await;
            (world, foreign, alike)
        },
        async |(world, ..), fault| {
            let gone = async || get::<Workspace>(world, "acme").await.is_none().then_some(());
            run_controllers_until(world, fault, &clock, "gone", gone).await;
            Ok::<(), ()>(())
        },
        async |(world, foreign, alike)| {
            for name in ["acme", "acme-test"] {
                assert!(get::<Namespace>(world, name).await.is_none(), "{name}");
            }
            assert_unchanged(world, foreign).await;
            assert_unchanged(world, alike).await;
            assert_fully_provisioned(world, "acme-other").await;
            let kept = object_names(world).await;
            assert!(kept.iter().all(|name| name.contains("acme-other")), "{kept:?}");
            assert_eq!(kept.len(), 5, "{kept:?}");
            assert_eq!(retired_names(world).await, ["acme", "acme-lost", "acme-test"]);
            assert_eq!(token_scopes(world, "aaaaaaaaaa").await, None);
            assert_eq!(token_scopes(world, "bbbbbbbbbb").await.as_deref(), Some("workspace:acme-other"));
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_deletion_survives_a_crash_at_any_write() {
    let clock = manual_clock_at_system_time();
    every_kill_point(
        async || {
            let ana = async |world: &TestCluster| {
                give_credentials(world, ID).await;
                give_credentials(world, OTHER_ID).await;
                let mut ana = user("ana", Some(ID));
                ana.spec.max_node_num = 1;
                ana.spec.platform_roles = vec!["admin".to_owned()];
                create(world, &ana).await;
                create(world, &workspace("acme", &[(ID, "admin"), (OTHER_ID, "admin")])).await;
            };
            let ready = async |world: &TestCluster| {
                user_is_ready(world, "ana").await.and(is_ready(world, "acme").await)
            };
            let world = cluster_after("ready", ana, ready).await;
            create_edge_objects(&world, &clock, ID, "uaaaaaaaaaa-edge-1").await;
            let joined = async || {
                report_when_signed(&world, "uaaaaaaaaaa-edge-1").await?;
                (nodes_of(&world, "ana").await.0 == 1).then_some(())
            };
            run_controllers_until(&world, &FaultInjector::healthy(), &clock, "joined", joined).await;
            delete::<User>(&world, "ana").await;
            world
        },
        async |world, fault| {
            let gone = async || get::<User>(world, "ana").await.is_none().then_some(());
            run_controllers_until(world, fault, &clock, "gone", gone).await;
            Ok::<(), ()>(())
        },
        async |world| {
            assert!(
                get::<Workspace>(world, ID).await.is_none() && get::<Namespace>(world, ID).await.is_none()
            );
            assert!(service_account(world, ID).await.is_none() && secrets_of(world, ID).await.is_empty());
            assert_eq!(admin_bindings(world).await, Vec::<String>::new());
            assert_eq!(existing_edge_objects(world, ID, "uaaaaaaaaaa-edge-1").await, [false; 4]);
            assert_eq!(secrets_of(world, OTHER_ID).await.len(), 1);
            let members = get::<Workspace>(world, "acme").await.unwrap().spec.members;
            assert_eq!(members.iter().map(|member| member.user.as_str()).collect::<Vec<_>>(), [OTHER_ID]);
        },
    )
    .await;
}
