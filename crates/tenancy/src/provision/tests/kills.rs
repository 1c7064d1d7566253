//! Kills the server after every single write: the next server reaches the desired state and touches no foreign object.

use testkit::every_kill_point;

use super::contents::{equip_workspace, give_token, kept, retired, scopes};
use super::edge::{appear, clock_of_tokens, equip, equipment, nodes_of};
use super::*;

/// A cluster that has already reached a state.
async fn world_after(
    what: &str,
    prepare: impl AsyncFn(&World),
    reached: impl AsyncFn(&World) -> Option<()>,
) -> World {
    let world = world().await;
    prepare(&world).await;
    until_reached(&world, &Fault::none(), &HeldClock::new(), what, async || reached(&world).await).await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_provisioned_whenever_the_server_dies() {
    let clock = HeldClock::new();
    let points = every_kill_point(
        async || {
            let world = world().await;
            give_credentials(&world, ID).await;
            let mut ana = user("ana", Some(ID));
            ana.spec.platform_roles = vec!["admin".to_owned()];
            create(&world, &ana).await;
            world
        },
        async |world, fault| {
            until_reached(world, fault, &clock, "ready", async || user_is_ready(world, "ana").await).await;
            Ok::<(), ()>(())
        },
        async |world| {
            let status = get::<User>(world, "ana").await.unwrap().status.unwrap();
            assert_eq!(status.tenant_id, ID);
            assert!(progress::is_true(&status.conditions, "CredentialsIssued"));
            is_whole(world, ID).await;
            assert_eq!(administrators(world).await, [format!("longshore-admin-{ID}")]);
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
async fn members_change_whenever_the_server_dies() {
    let clock = HeldClock::new();
    every_kill_point(
        async || {
            let acme = async |world: &World| {
                drop(create(world, &workspace("acme", &[(ID, "admin"), (OTHER, "viewer")])).await);
            };
            let world = world_after("ready", acme, async |world| is_ready(world, "acme").await).await;
            let members = json!([{"user": OTHER, "role": "admin"}]);
            patch::<Workspace>(&world, "acme", json!({"spec": {"members": members}})).await;
            world
        },
        async |world, fault| {
            until_reached(world, fault, &clock, "ready", async || is_ready(world, "acme").await).await;
            Ok::<(), ()>(())
        },
        async |world| {
            assert_eq!(bound(world, "acme", "admin").await, ["longshore:ws:acme:admin", OTHER]);
            assert_eq!(bound(world, "acme", "viewer").await, ["longshore:ws:acme:viewer"]);
            is_whole(world, "acme").await;
        },
    )
    .await;
}

/// Foreign namespaces: one with the same name prefix, one with our label, and one that replaced ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_goes_whenever_the_server_dies_and_takes_nothing_else() {
    let clock = HeldClock::new();
    every_kill_point(
        async || {
            let acme = async |world: &World| {
                let mut acme = workspace("acme", &[(ID, "admin")]);
                let further = |name: &str| WorkspaceNamespace {
                    name: name.to_owned(),
                    ..WorkspaceNamespace::default()
                };
                acme.spec.namespaces.extend([further("acme-test"), further("acme-lost")]);
                create(world, &acme).await;
                create(world, &workspace("acme-other", &[(OTHER, "admin")])).await;
            };
            let ready =
                async |world: &World| is_ready(world, "acme").await.and(is_ready(world, "acme-other").await);
            let world = world_after("ready", acme, ready).await;
            delete::<Namespace>(&world, "acme-lost").await;
            until("the namespace is gone", async || {
                get::<Namespace>(&world, "acme-lost").await.is_none().then_some(())
            })
            .await;
            let foreign = foreign_namespace(&world, "acme-lost", json!({marks::WORKSPACE: "acme"})).await;
            let alike = foreign_namespace(&world, "acme-alike", json!({marks::WORKSPACE: "acme"})).await;
            equip_workspace(&world, "acme").await;
            equip_workspace(&world, "acme-other").await;
            give_token(&world, "aaaaaaaaaa", "read,workspace:acme").await;
            give_token(&world, "bbbbbbbbbb", "workspace:acme,workspace:acme-other").await;
            delete::<Workspace>(&world, "acme").await;
            (world, foreign, alike)
        },
        async |(world, ..), fault| {
            let gone = async || get::<Workspace>(world, "acme").await.is_none().then_some(());
            until_reached(world, fault, &clock, "gone", gone).await;
            Ok::<(), ()>(())
        },
        async |(world, foreign, alike)| {
            for name in ["acme", "acme-test"] {
                assert!(get::<Namespace>(world, name).await.is_none(), "{name}");
            }
            is_untouched(world, foreign).await;
            is_untouched(world, alike).await;
            is_whole(world, "acme-other").await;
            let kept = kept(world).await;
            assert!(kept.iter().all(|name| name.contains("acme-other")), "{kept:?}");
            assert_eq!(kept.len(), 5, "{kept:?}");
            assert_eq!(retired(world).await, ["acme", "acme-lost", "acme-test"]);
            assert_eq!(scopes(world, "aaaaaaaaaa").await, None);
            assert_eq!(scopes(world, "bbbbbbbbbb").await.as_deref(), Some("workspace:acme-other"));
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_goes_whenever_the_server_dies() {
    let clock = clock_of_tokens();
    every_kill_point(
        async || {
            let ana = async |world: &World| {
                give_credentials(world, ID).await;
                give_credentials(world, OTHER).await;
                let mut ana = user("ana", Some(ID));
                ana.spec.max_node_num = 1;
                ana.spec.platform_roles = vec!["admin".to_owned()];
                create(world, &ana).await;
                create(world, &workspace("acme", &[(ID, "admin"), (OTHER, "admin")])).await;
            };
            let ready =
                async |world: &World| user_is_ready(world, "ana").await.and(is_ready(world, "acme").await);
            let world = world_after("ready", ana, ready).await;
            equip(&world, &clock, ID, "uaaaaaaaaaa-edge-1").await;
            let joined = async || {
                appear(&world, "uaaaaaaaaaa-edge-1").await?;
                (nodes_of(&world, "ana").await.0 == 1).then_some(())
            };
            until_reached(&world, &Fault::none(), &clock, "joined", joined).await;
            delete::<User>(&world, "ana").await;
            world
        },
        async |world, fault| {
            let gone = async || get::<User>(world, "ana").await.is_none().then_some(());
            until_reached(world, fault, &clock, "gone", gone).await;
            Ok::<(), ()>(())
        },
        async |world| {
            assert!(
                get::<Workspace>(world, ID).await.is_none() && get::<Namespace>(world, ID).await.is_none()
            );
            assert!(service_account(world, ID).await.is_none() && secrets_of(world, ID).await.is_empty());
            assert_eq!(administrators(world).await, Vec::<String>::new());
            assert_eq!(equipment(world, ID, "uaaaaaaaaaa-edge-1").await, [false; 4]);
            assert_eq!(secrets_of(world, OTHER).await.len(), 1);
            let members = get::<Workspace>(world, "acme").await.unwrap().spec.members;
            assert_eq!(members.iter().map(|member| member.user.as_str()).collect::<Vec<_>>(), [OTHER]);
        },
    )
    .await;
}
