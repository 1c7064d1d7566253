//! Joining, leaving, and what nobody learns.

use domain::Kind;
use futures::future::join_all;
use jiff::SignedDuration;

use super::*;
use crate::stage::Stage;

/// A workspace `acme` and its admin.
async fn acme(stage: &Stage) -> (UserId, Actor, WorkspaceName) {
    let (id, actor) = stage.person("18300000000").await;
    let name = stage.tenancy.create_workspace(&actor, "acme", "Acme").await.unwrap().name;
    (id.clone(), stage.actor(&id), name)
}

#[tokio::test]
async fn somebody_is_invited_and_accepts() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (id, actor) = stage.person("18300000001").await;
    // By address, in another case; by number, in another writing; by id.
    for (whom, role) in [
        (" 18300000001@EXAMPLE.com", WorkspaceRole::Viewer),
        ("+1 830 000 0001", WorkspaceRole::Developer),
        (id.as_str(), WorkspaceRole::Operator),
    ] {
        tenancy.invite(&admin, &acme, whom, role).await.unwrap();
    }
    assert_eq!(tenancy.invitations(&admin, &acme).unwrap().len(), 3);
    let invited = tenancy.invited(&actor).unwrap();
    assert_eq!(invited.len(), 1, "three invitations to one workspace are one");
    assert_eq!((invited[0].display_name.as_str(), invited[0].role), ("Acme", WorkspaceRole::Developer));
    let joined = tenancy.accept(&actor, &acme).await.unwrap();
    assert_eq!((joined.role, joined.invitations), (Some(WorkspaceRole::Developer), 0));
    assert!(tenancy.invited(&actor).unwrap().is_empty());
    assert_eq!(stage.actor(&id).memberships[&acme], WorkspaceRole::Developer);
    let members = tenancy.members(&stage.actor(&id), &acme).unwrap();
    assert_eq!(members[1].email, "18300000001@example.com");
    assert_eq!(tenancy.accept(&actor, &acme).await.unwrap_err().kind(), Kind::NotFound, "once");
}

#[tokio::test]
async fn whoever_invites_learns_nothing_and_whoever_is_not_invited_neither() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let tenancy = &stage.tenancy;
    let (_, stranger) = stage.person("18300000002").await;
    let answer = async |whom: &str| {
        let mut made = tenancy.invite(&admin, &acme, whom, WorkspaceRole::Viewer).await.unwrap();
        assert_eq!(made.to.len(), 64);
        made.to.clear();
        made
    };
    assert_eq!(answer("18300000002@example.com").await, answer("nobody@example.com").await);
    for wrong in ["", "kube-system", "a b", &"9".repeat(10_000)] {
        let refused = tenancy.invite(&admin, &acme, wrong, WorkspaceRole::Viewer).await.unwrap_err();
        assert!(refused.kind() == Kind::Invalid && refused.to_string().len() < 200, "{refused}");
    }
    tenancy.decline(&stranger, &acme).await.unwrap();
    let there = tenancy.accept(&stranger, &acme).await.unwrap_err().to_string();
    let not_there = tenancy.accept(&stranger, &"acmf".parse().unwrap()).await.unwrap_err().to_string();
    let personal =
        tenancy.accept(&stranger, &WorkspaceName::personal(admin.id().unwrap())).await.unwrap_err();
    assert_eq!(there, not_there.replace("acmf", "acme"));
    assert_eq!(there, personal.to_string().replace(admin.id().unwrap().as_str(), "acme"));
}

#[tokio::test]
async fn an_invitation_ends_and_can_be_taken_back() {
    let stage = Stage::new().await;
    let (_, admin, acme) = acme(&stage).await;
    let (id, actor) = stage.person("18300000003").await;
    let tenancy = &stage.tenancy;
    let invite = || tenancy.invite(&admin, &acme, id.as_str(), WorkspaceRole::Viewer);
    let made = invite().await.unwrap();
    tenancy.withdraw(&admin, &acme, &made.to).await.unwrap();
    assert_eq!(tenancy.accept(&actor, &acme).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(tenancy.withdraw(&admin, &acme, &made.to).await.unwrap_err().kind(), Kind::NotFound);
    invite().await.unwrap();
    stage.clock.advance(SignedDuration::from_hours(14 * 24));
    assert!(tenancy.invited(&actor).unwrap().is_empty());
    assert_eq!(tenancy.accept(&actor, &acme).await.unwrap_err().kind(), Kind::NotFound);
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
    tenancy.accept(&other, &acme).await.unwrap();
    // Two admins who take the role from each other at once: one of them keeps it.
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
    // And everybody leaves as they like.
    let member = stage.actor(&id);
    let left = tenancy.remove_member(&member, &acme, &id).await.unwrap();
    assert_eq!(left.role, None);
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
    for joined in join_all(people.iter().map(|(_, actor)| stage.tenancy.accept(actor, &acme))).await {
        assert_eq!(joined.unwrap().role, Some(WorkspaceRole::Developer));
    }
    assert_eq!(stage.tenancy.members(&admin, &acme).unwrap().len(), 21);
}
