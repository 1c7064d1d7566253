//! Joining and leaving workspaces, and information that must not leak.

use domain::ErrorKind;
use futures::future::join_all;
use jiff::SignedDuration;

use super::invitations::CODE_LEN;
use super::*;
use crate::test_harness::{LOCAL_CLIENT, TestHarness};

/// A workspace `acme` and its admin.
async fn acme(stage: &TestHarness) -> (UserId, Actor, WorkspaceName) {
    let (id, actor) = stage.register_user("18300000000").await;
    let name = stage.tenancy.create_workspace(&actor, "acme", "Acme").await.unwrap().name;
    (id.clone(), stage.actor(&id), name)
}

#[tokio::test]
async fn invitation_to_an_id_is_accepted_by_that_account() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (id, actor) = stage.register_user("18300000001").await;
    let made = tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Viewer).await.unwrap();
    assert_eq!(made.code, None);
    tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Developer).await.unwrap();
    assert_eq!(tenancy.invitations(&admin, &acme).unwrap().len(), 1, "the latest counts");
    let invited = tenancy.received_invitations(&actor).unwrap();
    assert_eq!((invited[0].display_name.as_str(), invited[0].role), ("Acme", WorkspaceRole::Developer));
    let joined = tenancy.accept_invitation(&actor, &acme, None, LOCAL_CLIENT).await.unwrap();
    assert_eq!((joined.role, joined.invitations), (Some(WorkspaceRole::Developer), 0));
    assert!(tenancy.received_invitations(&actor).unwrap().is_empty());
    assert_eq!(stage.actor(&id).memberships[&acme], WorkspaceRole::Developer);
    let members = tenancy.members(&stage.actor(&id), &acme).unwrap();
    assert_eq!(members[1].email, "18300000001@example.com");
    assert_eq!(
        tenancy.accept_invitation(&actor, &acme, None, LOCAL_CLIENT).await.unwrap_err().kind(),
        ErrorKind::NotFound,
        "once"
    );
}

#[tokio::test]
async fn invitation_to_an_address_is_accepted_by_its_code_alone() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (id, actor) = stage.register_user("18300000001").await;
    for whom in [" 18300000001@EXAMPLE.com", "+1 830 000 0001"] {
        let made = tenancy.invite(&admin, &acme, whom, WorkspaceRole::Viewer).await.unwrap();
        let code = made.code.unwrap();
        assert_eq!((code.expose().len(), format!("{code:?}")), (CODE_LEN, "InvitationCode(…)".to_owned()));
        let stored = serde_json::to_string(&tenancy.workspace_api().get("acme").await.unwrap()).unwrap();
        assert!(!stored.contains(code.expose()));
        assert!(tenancy.received_invitations(&actor).unwrap().is_empty(), "the address shows nothing");
        for wrong in [None, Some("abcdefghijkmnpqrstuvwxyz23")] {
            let refused = tenancy.accept_invitation(&actor, &acme, wrong, LOCAL_CLIENT).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound, "{wrong:?}");
        }
        assert_eq!(tenancy.decline_invitation(&actor, &acme).await.unwrap_err().kind(), ErrorKind::NotFound);
        let code = format!(" {} ", code.expose().to_uppercase());
        tenancy.accept_invitation(&actor, &acme, Some(&code), LOCAL_CLIENT).await.unwrap();
        assert_eq!(stage.actor(&id).memberships[&acme], WorkspaceRole::Viewer);
        let again = tenancy.accept_invitation(&actor, &acme, Some(&code), LOCAL_CLIENT).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::NotFound, "once");
    }
}

#[tokio::test]
async fn guessing_invitation_codes_is_throttled() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (_, actor) = stage.register_user("18300000001").await;
    let made = tenancy.invite(&admin, &acme, "x@example.com", WorkspaceRole::Viewer).await.unwrap();
    let mut refused = Vec::new();
    for _ in 0..20 {
        refused.push(
            tenancy.accept_invitation(&actor, &acme, Some("wrong"), LOCAL_CLIENT).await.unwrap_err().kind(),
        );
    }
    assert_eq!(refused.last(), Some(&ErrorKind::Exhausted), "{refused:?}");
    // The invitation itself stays valid.
    let (_, invitee) = stage.register_user("18300000011").await;
    let elsewhere = "192.0.2.1".parse().unwrap();
    tenancy.accept_invitation(&invitee, &acme, Some(made.code.unwrap().expose()), elsewhere).await.unwrap();
}

#[tokio::test]
async fn invitation_does_not_disclose_accounts_or_workspaces() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (_, stranger) = stage.register_user("18300000002").await;
    let answer = async |whom: &str| {
        let mut made = tenancy.invite(&admin, &acme, whom, WorkspaceRole::Viewer).await.unwrap();
        assert_eq!(made.info.invitee_digest.len(), 64);
        made.info.invitee_digest.clear();
        made.info
    };
    assert_eq!(answer("18300000002@example.com").await, answer("nobody@example.com").await);
    for wrong in ["", "kube-system", "a b", &"9".repeat(10_000)] {
        let refused = tenancy.invite(&admin, &acme, wrong, WorkspaceRole::Viewer).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().len() < 200, "{refused}");
    }
    let accept = async |name: &WorkspaceName| {
        tenancy.accept_invitation(&stranger, name, None, LOCAL_CLIENT).await.unwrap_err().to_string()
    };
    let (there, not_there) = (accept(&acme).await, accept(&"acmf".parse().unwrap()).await);
    let personal = accept(&WorkspaceName::personal(admin.user_id().unwrap())).await;
    assert_eq!(there, not_there.replace("acmf", "acme"));
    assert_eq!(there, personal.replace(admin.user_id().unwrap().as_str(), "acme"));
}

#[tokio::test]
async fn invitation_expires_and_can_be_withdrawn() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let (id, actor) = stage.register_user("18300000003").await;
    let tenancy = &stage.tenancy;
    let invite = || tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Viewer);
    let made = invite().await.unwrap();
    tenancy.withdraw_invitation(&admin, &acme, &made.info.invitee_digest).await.unwrap();
    assert_eq!(
        tenancy.accept_invitation(&actor, &acme, None, LOCAL_CLIENT).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        tenancy.withdraw_invitation(&admin, &acme, &made.info.invitee_digest).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    invite().await.unwrap();
    stage.clock.advance(SignedDuration::from_hours(14 * 24));
    assert!(tenancy.received_invitations(&actor).unwrap().is_empty());
    assert_eq!(
        tenancy.accept_invitation(&actor, &acme, None, LOCAL_CLIENT).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(tenancy.invitations(&admin, &acme).unwrap().is_empty());
}

#[tokio::test]
async fn last_admin_of_a_workspace_cannot_leave() {
    let stage = TestHarness::new().await;
    let (id, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let left = [
        tenancy.set_role(&admin, &acme, &id, WorkspaceRole::Viewer).await.unwrap_err(),
        tenancy.remove_member(&admin, &acme, &id).await.unwrap_err(),
    ];
    for refused in left {
        assert_eq!(refused.to_string(), "workspace `acme` would have no admin left");
    }
    let (second, other) = stage.register_user("18300000004").await;
    tenancy.invite(&admin, &acme, second.as_str(), WorkspaceRole::Admin).await.unwrap();
    tenancy.accept_invitation(&other, &acme, None, LOCAL_CLIENT).await.unwrap();
    // Two admins who demote or remove each other concurrently: one of them remains admin.
    let other = stage.actor(&second);
    let (one, two) = futures::join!(
        tenancy.set_role(&admin, &acme, &second, WorkspaceRole::Viewer),
        tenancy.remove_member(&other, &acme, &id),
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let workspace = tenancy.workspace_api().get("acme").await.unwrap();
    assert_eq!(WorkspaceRecord::from_workspace(&workspace).admins().count(), 1);
}

#[tokio::test]
async fn only_platform_administrators_add_members_directly() {
    let stage = TestHarness::new().await;
    let (_, platform) = stage.register_administrator("18300000005").await;
    let (_, admin, acme) = acme(&stage).await;
    let (id, actor) = stage.register_user("18300000006").await;
    let tenancy = &stage.tenancy;
    let nobody = UserId::from_random([8; 10]);
    for user in [&id, &nobody] {
        let refused = tenancy.set_role(&admin, &acme, user, WorkspaceRole::Viewer).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("member `{user}` not found"));
    }
    assert_eq!(
        tenancy.set_role(&platform, &acme, &nobody, WorkspaceRole::Viewer).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    tenancy.set_role(&platform, &acme, &id, WorkspaceRole::Viewer).await.unwrap();
    // Members can leave at any time.
    let member = stage.actor(&id);
    let left = tenancy.remove_member(&member, &acme, &id).await.unwrap();
    assert_eq!(left.workspace.role, None);
    assert_eq!(tenancy.remove_member(&member, &acme, &id).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!stage.actor(&id).memberships.contains_key(&acme));
    drop(actor);
}

#[tokio::test]
async fn personal_workspace_cannot_be_shared() {
    let stage = TestHarness::new().await;
    let (_, platform) = stage.register_administrator("18300000007").await;
    let (id, actor) = stage.register_user("18300000008").await;
    let (other, _) = stage.register_user("18300000009").await;
    let (tenancy, own) = (&stage.tenancy, WorkspaceName::personal(&id));
    let refused = [
        tenancy.invite(&actor, &own, other.as_str(), WorkspaceRole::Viewer).await.map(drop),
        tenancy.set_role(&platform, &own, &other, WorkspaceRole::Viewer).await.map(drop),
        tenancy.set_role(&actor, &own, &id, WorkspaceRole::Viewer).await.map(drop),
        tenancy.remove_member(&actor, &own, &id).await.map(drop),
    ];
    for refused in refused {
        let message = format!("workspace `{id}` is a personal workspace and cannot have members");
        assert_eq!(refused.unwrap_err().to_string(), message);
    }
}

#[tokio::test]
async fn concurrent_acceptances_all_succeed() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let people = join_all((0..20).map(async |n| stage.register_user(&format!("1840000{n:04}")).await)).await;
    for (id, _) in &people {
        stage.tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Developer).await.unwrap();
    }
    for joined in join_all(
        people.iter().map(|(_, actor)| stage.tenancy.accept_invitation(actor, &acme, None, LOCAL_CLIENT)),
    )
    .await
    {
        assert_eq!(joined.unwrap().role, Some(WorkspaceRole::Developer));
    }
    assert_eq!(stage.tenancy.members(&admin, &acme).unwrap().len(), 21);
}

/// A member bound a role to a ServiceAccount before being removed.
#[tokio::test]
async fn bindings_of_a_removed_member_are_listed_and_deleted_unless_kept() {
    use k8s_openapi::api::rbac::v1::RoleBinding;
    use kube::Api;
    use testkit::wait_for;

    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    wait_for("the workspace is ready", async || tenancy.directory().workspace(&acme)?.is_ready.then_some(()))
        .await;
    let bindings: Api<RoleBinding> = Api::namespaced(stage.world.admin_client(), "acme");
    let bind = async || {
        let binding = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "backdoor", "namespace": "acme", "finalizers": ["example.com/keep"]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "acme"}],
        });
        let monitoring = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "monitoring", "namespace": "acme"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "agent", "namespace": "monitoring"}],
        });
        stage.world.apply([binding, monitoring]).await;
    };
    let reconciled = async || {
        let stored = tenancy.workspace_api().get("acme").await.unwrap();
        let left = stored.annotations().get(MEMBER_LEFT).cloned();
        (stored.status.as_ref().map(|status| status.member_left.clone()) == left).then_some(())
    };
    let join = async |phone: &str, role| {
        let (id, actor) = stage.register_user(phone).await;
        tenancy.invite(&admin, &acme, id.as_str(), role).await.unwrap();
        tenancy.accept_invitation(&actor, &acme, None, LOCAL_CLIENT).await.unwrap();
        wait_for("the member is provisioned", async || {
            let stored = tenancy.workspace_api().get("acme").await.unwrap();
            (stored.status?.observed_generation == stored.metadata.generation).then_some(())
        })
        .await;
        id
    };
    bind().await;
    let viewer = join("18300000031", WorkspaceRole::Viewer).await;
    assert_eq!(tenancy.remove_member(&admin, &acme, &viewer).await.unwrap().bindings, []);
    wait_for("reconciled", reconciled).await;
    bind().await;
    let kept = join("18300000032", WorkspaceRole::Developer).await;
    let own = stage.actor(&kept);
    let refused = tenancy.remove_member_with(&own, &acme, &kept, BindingPolicy::Keep).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let removed = tenancy.remove_member_with(&admin, &acme, &kept, BindingPolicy::Keep).await.unwrap();
    let names: Vec<&str> = removed.bindings.iter().map(|binding| binding.name.as_str()).collect();
    assert_eq!(names, ["backdoor"]);
    stage.clock.advance(SignedDuration::from_secs(1));
    wait_for("reconciled", reconciled).await;
    assert!(bindings.get_opt("backdoor").await.unwrap().is_some());
    let gone = join("18300000033", WorkspaceRole::Developer).await;
    let removed = tenancy.remove_member(&admin, &acme, &gone).await.unwrap();
    assert_eq!(removed.bindings[0].service_accounts, ["default"]);
    wait_for("the binding is deleted", async || {
        bindings.get_opt("backdoor").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(bindings.get_opt("monitoring").await.unwrap().is_some(), "it is no tenant's");
    assert!(bindings.get_opt("longshore-deployer").await.unwrap().is_some());
}

#[tokio::test]
async fn removed_admin_returns_by_no_invitation_and_no_request_in_flight() {
    let stage = TestHarness::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (ben, _) = stage.register_user("18300000041").await;
    tenancy.invite(&admin, &acme, ben.as_str(), WorkspaceRole::Admin).await.unwrap();
    tenancy.accept_invitation(&stage.actor(&ben), &acme, None, LOCAL_CLIENT).await.unwrap();
    // The same actor also represents a request that was authorised before the removal.
    let as_admin = stage.actor(&ben);
    tenancy.invite(&as_admin, &acme, ben.as_str(), WorkspaceRole::Admin).await.unwrap();
    let sent = tenancy.invite(&as_admin, &acme, "ghost@example.com", WorkspaceRole::Admin).await.unwrap();
    let kept = tenancy.workspace_api().get("acme").await.unwrap().spec.invitations;
    tenancy.remove_member(&admin, &acme, &ben).await.unwrap();
    let code = sent.code.unwrap();
    let (ghost, _) = stage.register_user("18300000042").await;
    let is_refused = async |who: &UserId, code: Option<&str>| {
        let answer = tenancy.accept_invitation(&stage.actor(who), &acme, code, LOCAL_CLIENT).await;
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::NotFound, "{who}");
    };
    is_refused(&ben, None).await;
    is_refused(&ghost, Some(code.expose())).await;
    // Invitations that an earlier version left in the workspace do not count either.
    let patch = serde_json::json!({"spec": {"invitations": kept}});
    let patch = kube::api::Patch::Merge(patch);
    tenancy.workspace_api().patch("acme", &kube::api::PatchParams::default(), &patch).await.unwrap();
    is_refused(&ben, None).await;
    is_refused(&ghost, Some(code.expose())).await;
    assert_eq!(tenancy.received_invitations(&stage.actor(&ben)).unwrap(), []);
    let late = tenancy.invite(&as_admin, &acme, "late@example.com", WorkspaceRole::Admin).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::NotFound);
}
