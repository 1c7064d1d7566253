//! Joining and leaving workspaces, and information that must not leak.

use domain::Kind;
use futures::future::join_all;
use jiff::SignedDuration;

use super::invitations::CODE_LENGTH;
use super::*;
use crate::stage::{HERE, Stage};

/// A workspace `acme` and its admin.
async fn acme(stage: &Stage) -> (UserId, Actor, WorkspaceName) {
    let (id, actor) = stage.person("18300000000").await;
    let name = stage.tenancy.create_workspace(&actor, "acme", "Acme").await.unwrap().name;
    (id.clone(), stage.actor(&id), name)
}

#[tokio::test]
async fn invitation_to_an_id_is_accepted_by_that_account() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (id, actor) = stage.person("18300000001").await;
    let made = tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Viewer).await.unwrap();
    assert_eq!(made.code, None);
    tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Developer).await.unwrap();
    assert_eq!(tenancy.invitations(&admin, &acme).unwrap().len(), 1, "the latest counts");
    let invited = tenancy.invited(&actor).unwrap();
    assert_eq!((invited[0].display_name.as_str(), invited[0].role), ("Acme", WorkspaceRole::Developer));
    let joined = tenancy.accept(&actor, &acme, None, HERE).await.unwrap();
    assert_eq!((joined.role, joined.invitations), (Some(WorkspaceRole::Developer), 0));
    assert!(tenancy.invited(&actor).unwrap().is_empty());
    assert_eq!(stage.actor(&id).memberships[&acme], WorkspaceRole::Developer);
    let members = tenancy.members(&stage.actor(&id), &acme).unwrap();
    assert_eq!(members[1].email, "18300000001@example.com");
    assert_eq!(tenancy.accept(&actor, &acme, None, HERE).await.unwrap_err().kind(), Kind::NotFound, "once");
}

#[tokio::test]
async fn invitation_to_an_address_is_accepted_by_its_code_alone() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (id, actor) = stage.person("18300000001").await;
    for whom in [" 18300000001@EXAMPLE.com", "+1 830 000 0001"] {
        let made = tenancy.invite(&admin, &acme, whom, WorkspaceRole::Viewer).await.unwrap();
        let code = made.code.unwrap();
        assert_eq!((code.expose().len(), format!("{code:?}")), (CODE_LENGTH, "InvitationCode(…)".to_owned()));
        let stored = serde_json::to_string(&tenancy.workspace_api().get("acme").await.unwrap()).unwrap();
        assert!(!stored.contains(code.expose()));
        assert!(tenancy.invited(&actor).unwrap().is_empty(), "the address shows nothing");
        for wrong in [None, Some("abcdefghijkmnpqrstuvwxyz23")] {
            let refused = tenancy.accept(&actor, &acme, wrong, HERE).await.unwrap_err();
            assert_eq!(refused.kind(), Kind::NotFound, "{wrong:?}");
        }
        assert_eq!(tenancy.decline(&actor, &acme).await.unwrap_err().kind(), Kind::NotFound);
        let code = format!(" {} ", code.expose().to_uppercase());
        tenancy.accept(&actor, &acme, Some(&code), HERE).await.unwrap();
        assert_eq!(stage.actor(&id).memberships[&acme], WorkspaceRole::Viewer);
        let again = tenancy.accept(&actor, &acme, Some(&code), HERE).await.unwrap_err();
        assert_eq!(again.kind(), Kind::NotFound, "once");
    }
}

#[tokio::test]
async fn guessing_invitation_codes_is_throttled() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (_, actor) = stage.person("18300000001").await;
    let made = tenancy.invite(&admin, &acme, "x@example.com", WorkspaceRole::Viewer).await.unwrap();
    let mut refused = Vec::new();
    for _ in 0..20 {
        refused.push(tenancy.accept(&actor, &acme, Some("wrong"), HERE).await.unwrap_err().kind());
    }
    assert_eq!(refused.last(), Some(&Kind::Exhausted), "{refused:?}");
    // The invitation itself stays valid.
    let (_, invitee) = stage.person("18300000011").await;
    let elsewhere = "192.0.2.1".parse().unwrap();
    tenancy.accept(&invitee, &acme, Some(made.code.unwrap().expose()), elsewhere).await.unwrap();
}

#[tokio::test]
async fn invitation_does_not_disclose_accounts_or_workspaces() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (_, stranger) = stage.person("18300000002").await;
    let answer = async |whom: &str| {
        let mut made = tenancy.invite(&admin, &acme, whom, WorkspaceRole::Viewer).await.unwrap();
        assert_eq!(made.info.to.len(), 64);
        made.info.to.clear();
        made.info
    };
    assert_eq!(answer("18300000002@example.com").await, answer("nobody@example.com").await);
    for wrong in ["", "kube-system", "a b", &"9".repeat(10_000)] {
        let refused = tenancy.invite(&admin, &acme, wrong, WorkspaceRole::Viewer).await.unwrap_err();
        assert!(refused.kind() == Kind::Invalid && refused.to_string().len() < 200, "{refused}");
    }
    let accept = async |name: &WorkspaceName| {
        tenancy.accept(&stranger, name, None, HERE).await.unwrap_err().to_string()
    };
    let (there, not_there) = (accept(&acme).await, accept(&"acmf".parse().unwrap()).await);
    let personal = accept(&WorkspaceName::personal(admin.id().unwrap())).await;
    assert_eq!(there, not_there.replace("acmf", "acme"));
    assert_eq!(there, personal.replace(admin.id().unwrap().as_str(), "acme"));
}

#[tokio::test]
async fn an_invitation_ends_and_can_be_taken_back() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let (id, actor) = stage.person("18300000003").await;
    let tenancy = &stage.tenancy;
    let invite = || tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Viewer);
    let made = invite().await.unwrap();
    tenancy.withdraw(&admin, &acme, &made.info.to).await.unwrap();
    assert_eq!(tenancy.accept(&actor, &acme, None, HERE).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(tenancy.withdraw(&admin, &acme, &made.info.to).await.unwrap_err().kind(), Kind::NotFound);
    invite().await.unwrap();
    stage.clock.advance(SignedDuration::from_hours(14 * 24));
    assert!(tenancy.invited(&actor).unwrap().is_empty());
    assert_eq!(tenancy.accept(&actor, &acme, None, HERE).await.unwrap_err().kind(), Kind::NotFound);
    assert!(tenancy.invitations(&admin, &acme).unwrap().is_empty());
}

#[tokio::test]
async fn an_admin_remains() {
    let stage = Stage::new().await;
    let (id, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let left = [
        tenancy.set_role(&admin, &acme, &id, WorkspaceRole::Viewer).await.unwrap_err(),
        tenancy.remove_member(&admin, &acme, &id).await.unwrap_err(),
    ];
    for refused in left {
        assert_eq!(refused.to_string(), "workspace `acme` would have no admin left");
    }
    let (second, other) = stage.person("18300000004").await;
    tenancy.invite(&admin, &acme, second.as_str(), WorkspaceRole::Admin).await.unwrap();
    tenancy.accept(&other, &acme, None, HERE).await.unwrap();
    // Two admins who demote or remove each other concurrently: one of them remains admin.
    let other = stage.actor(&second);
    let (one, two) = futures::join!(
        tenancy.set_role(&admin, &acme, &second, WorkspaceRole::Viewer),
        tenancy.remove_member(&other, &acme, &id),
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let workspace = tenancy.workspace_api().get("acme").await.unwrap();
    assert_eq!(WorkspaceRecord::of(&workspace).admins().count(), 1);
}

#[tokio::test]
async fn only_an_administrator_of_the_platform_adds_somebody_who_was_not_asked() {
    let stage = Stage::new().await;
    let (_, platform) = stage.administrator("18300000005").await;
    let (_, admin, acme) = acme(&stage).await;
    let (id, actor) = stage.person("18300000006").await;
    let tenancy = &stage.tenancy;
    let nobody = UserId::from_random([8; 10]);
    for user in [&id, &nobody] {
        let refused = tenancy.set_role(&admin, &acme, user, WorkspaceRole::Viewer).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("there is no member `{user}`"));
    }
    assert_eq!(
        tenancy.set_role(&platform, &acme, &nobody, WorkspaceRole::Viewer).await.unwrap_err().kind(),
        Kind::NotFound
    );
    tenancy.set_role(&platform, &acme, &id, WorkspaceRole::Viewer).await.unwrap();
    // Members can leave at any time.
    let member = stage.actor(&id);
    let left = tenancy.remove_member(&member, &acme, &id).await.unwrap();
    assert_eq!(left.workspace.role, None);
    assert_eq!(tenancy.remove_member(&member, &acme, &id).await.unwrap_err().kind(), Kind::NotFound);
    assert!(!stage.actor(&id).memberships.contains_key(&acme));
    drop(actor);
}

#[tokio::test]
async fn a_personal_workspace_is_not_shared() {
    let stage = Stage::new().await;
    let (_, platform) = stage.administrator("18300000007").await;
    let (id, actor) = stage.person("18300000008").await;
    let (other, _) = stage.person("18300000009").await;
    let (tenancy, own) = (&stage.tenancy, WorkspaceName::personal(&id));
    let refused = [
        tenancy.invite(&actor, &own, other.as_str(), WorkspaceRole::Viewer).await.map(drop),
        tenancy.set_role(&platform, &own, &other, WorkspaceRole::Viewer).await.map(drop),
        tenancy.set_role(&actor, &own, &id, WorkspaceRole::Viewer).await.map(drop),
        tenancy.remove_member(&actor, &own, &id).await.map(drop),
    ];
    for refused in refused {
        let message = format!("workspace `{id}` is somebody's own, and is not shared");
        assert_eq!(refused.unwrap_err().to_string(), message);
    }
}

#[tokio::test]
async fn many_who_join_at_once_all_do() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let people = join_all((0..20).map(async |n| stage.person(&format!("1840000{n:04}")).await)).await;
    for (id, _) in &people {
        stage.tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Developer).await.unwrap();
    }
    for joined in
        join_all(people.iter().map(|(_, actor)| stage.tenancy.accept(actor, &acme, None, HERE))).await
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
    use testkit::until;

    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    until("the workspace is ready", async || tenancy.directory().workspace(&acme)?.ready.then_some(())).await;
    let bindings: Api<RoleBinding> = Api::namespaced(stage.world.admin(), "acme");
    let bind = async || {
        let binding = serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "backdoor", "namespace": "acme"},
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
        let (id, actor) = stage.person(phone).await;
        tenancy.invite(&admin, &acme, id.as_str(), role).await.unwrap();
        tenancy.accept(&actor, &acme, None, HERE).await.unwrap();
        until("the member is provisioned", async || {
            let stored = tenancy.workspace_api().get("acme").await.unwrap();
            (stored.status?.observed_generation == stored.metadata.generation).then_some(())
        })
        .await;
        id
    };
    bind().await;
    let viewer = join("18300000031", WorkspaceRole::Viewer).await;
    assert_eq!(tenancy.remove_member(&admin, &acme, &viewer).await.unwrap().bindings, []);
    until("reconciled", reconciled).await;
    bind().await;
    let kept = join("18300000032", WorkspaceRole::Developer).await;
    let own = stage.actor(&kept);
    let refused = tenancy.remove_member_with(&own, &acme, &kept, Bindings::Keep).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);
    let removed = tenancy.remove_member_with(&admin, &acme, &kept, Bindings::Keep).await.unwrap();
    let names: Vec<&str> = removed.bindings.iter().map(|binding| binding.name.as_str()).collect();
    assert_eq!(names, ["backdoor"]);
    stage.clock.advance(SignedDuration::from_secs(1));
    until("reconciled", reconciled).await;
    assert!(bindings.get_opt("backdoor").await.unwrap().is_some());
    let gone = join("18300000033", WorkspaceRole::Developer).await;
    let removed = tenancy.remove_member(&admin, &acme, &gone).await.unwrap();
    assert_eq!(removed.bindings[0].service_accounts, ["default"]);
    until("the binding is deleted", async || {
        bindings.get_opt("backdoor").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(bindings.get_opt("monitoring").await.unwrap().is_some(), "it is no tenant's");
    assert!(bindings.get_opt("longshore-deployer").await.unwrap().is_some());
}
