//! Workspaces from creation to removal.

use domain::Kind;
use futures::future::join_all;
use jiff::SignedDuration;
use testkit::until;

use super::*;
use crate::stage::Stage;

fn name(text: &str) -> WorkspaceName {
    text.parse().unwrap()
}

fn refusals<T: std::fmt::Debug>(answers: Vec<Result<T, Error>>) -> Vec<Kind> {
    answers.into_iter().map(|answer| answer.unwrap_err().kind()).collect()
}

#[tokio::test]
async fn whoever_makes_one_is_its_admin() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000000").await;
    let made = stage.tenancy.create_workspace(&actor, "acme", " Acme & Sons ").await.unwrap();
    assert_eq!(
        (made.display_name.as_str(), made.role, made.personal),
        ("Acme & Sons", Some(WorkspaceRole::Admin), false)
    );
    assert_eq!(made.quota, stage.tenancy.settings().quota);
    let actor = stage.actor(&id);
    let own: Vec<String> = stage.tenancy.workspaces(&actor).iter().map(|own| own.name.to_string()).collect();
    assert_eq!(own, ["acme", id.as_str()]);
    let ready = async || stage.tenancy.workspace(&actor, &name("acme")).unwrap().ready.then_some(());
    until("the workspace is ready", ready).await;
    let seen = stage.tenancy.workspace(&actor, &name("acme")).unwrap();
    assert!(seen.namespaces[0].made && seen.namespaces[0].name == "acme");
}

#[tokio::test]
async fn names_of_the_system_of_people_and_of_others_are_not_given() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000001").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let actor = stage.actor(&id);
    stage.tenancy.add_namespace(&actor, &name("acme"), "test", Amounts::new(), None).await.unwrap();
    stage
        .world
        .apply([
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}),
        ])
        .await;
    #[rustfmt::skip]
    let table = [
        ("kube-system", Kind::Invalid), ("default", Kind::Invalid), ("longshore-system", Kind::Invalid),
        (id.as_str(), Kind::Invalid), ("UPPER", Kind::Invalid), ("", Kind::Invalid), (&"a".repeat(10_000), Kind::Invalid),
        ("acme", Kind::Conflict), ("acme-test", Kind::Conflict), ("monitoring", Kind::Conflict),
    ];
    for (wanted, kind) in table {
        let refused = stage.tenancy.create_workspace(&actor, wanted, "").await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().len() < 200, "{refused}");
    }
    let long = stage.tenancy.create_workspace(&actor, "other", &"x".repeat(129)).await.unwrap_err();
    assert_eq!(long.kind(), Kind::Invalid);
}

#[tokio::test]
async fn nobody_makes_more_than_ten_not_even_at_once() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000002").await;
    let names: Vec<String> = (0..25).map(|n| format!("team-{n}")).collect();
    let made = join_all(names.iter().map(|name| stage.tenancy.create_workspace(&actor, name, ""))).await;
    assert!(made.iter().flatten().count() <= MOST_PER_PERSON);
    for refused in made.iter().filter_map(|made| made.as_ref().err()) {
        let words = ["nobody can make more than 10 workspaces", "create one after the other"];
        assert!(words.iter().any(|words| refused.to_string().ends_with(words)), "{refused}");
    }
    let left = until("those who are too many are gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        let left = stage.tenancy.workspace_api().list(&ListParams::default()).await.unwrap().items;
        let staying = left.iter().all(|workspace| workspace.metadata.deletion_timestamp.is_none());
        staying.then_some(left.len())
    });
    assert!(left.await <= MOST_PER_PERSON + 1, "the personal one does not count");
    // Sequential requests create exactly ten.
    let actor = stage.actor(&id);
    for n in 0..=MOST_PER_PERSON {
        drop(stage.tenancy.create_workspace(&actor, &format!("late-{n}"), "").await);
    }
    let shared = stage.tenancy.workspaces(&stage.actor(&id)).iter().filter(|own| !own.personal).count();
    assert_eq!(shared, MOST_PER_PERSON);
}

#[tokio::test]
async fn others_learn_nothing_and_viewers_change_nothing() {
    let stage = Stage::new().await;
    let (_, admin) = stage.administrator("18300000003").await;
    let (owner, actor) = stage.person("18300000004").await;
    let (viewer, stranger) = stage.person("18300000005").await;
    let acme = name("acme");
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let attempts = async |who: &Actor, name: &WorkspaceName| {
        let tenancy = &stage.tenancy;
        refusals(vec![
            tenancy.rename_workspace(who, name, "x", None).await.map(drop),
            tenancy.delete_workspace(who, name, true, None).await.map(drop),
            tenancy.restore_workspace(who, name, None).await.map(drop),
            tenancy.add_namespace(who, name, "x", Amounts::new(), None).await.map(drop),
            tenancy.remove_namespace(who, name, "acme", None).await.map(drop),
            tenancy.set_role(who, name, &owner, WorkspaceRole::Viewer).await.map(drop),
            tenancy.remove_member(who, name, &owner).await.map(drop),
            tenancy.invite(who, name, "a@example.com", WorkspaceRole::Viewer).await.map(drop),
            tenancy.invitations(who, name).map(drop),
            tenancy.withdraw(who, name, "x").await.map(drop),
            tenancy.set_quota(who, name, crate::quota::QuotaPatch::default(), None).await.map(drop),
        ])
    };
    assert!(stage.tenancy.workspaces(&stranger).iter().all(|own| own.personal));
    for unseen in [&acme, &name("nothing-there")] {
        assert_eq!(attempts(&stranger, unseen).await, [Kind::NotFound; 11]);
        let looked = [
            stage.tenancy.workspace(&stranger, unseen).map(drop),
            stage.tenancy.members(&stranger, unseen).map(drop),
            stage.tenancy.quota(&stranger, unseen).await.map(drop),
        ];
        assert_eq!(refusals(looked.into()), [Kind::NotFound; 3]);
    }
    stage.tenancy.set_role(&admin, &acme, &viewer, WorkspaceRole::Viewer).await.unwrap();
    let member = stage.actor(&viewer);
    assert_eq!(attempts(&member, &acme).await, [Kind::Forbidden; 11]);
    assert_eq!(stage.tenancy.workspace(&member, &acme).unwrap().role, Some(WorkspaceRole::Viewer));
    assert_eq!(stage.tenancy.members(&member, &acme).unwrap().len(), 2);
}

#[tokio::test]
async fn its_end_is_announced_and_can_be_called_off() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000006").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let (actor, acme, tenancy) = (stage.actor(&id), name("acme"), &stage.tenancy);
    let announced = tenancy.delete_workspace(&actor, &acme, false, None).await.unwrap();
    let day = SignedDuration::from_hours(24);
    let now = tenancy.0.clock.now();
    assert_eq!(announced.removal, Some(now + day));
    stage.clock.advance(SignedDuration::from_mins(5));
    let again = tenancy.delete_workspace(&actor, &acme, false, None).await.unwrap();
    assert_eq!(again.removal, Some(now + day), "asking twice does not put it off");
    assert_eq!(tenancy.restore_workspace(&actor, &acme, None).await.unwrap().removal, None);
    let outdated = tenancy.delete_workspace(&actor, &acme, true, Some(&announced.version)).await.unwrap_err();
    assert_eq!(outdated.kind(), Kind::Precondition);

    tenancy.delete_workspace(&actor, &acme, true, None).await.unwrap();
    until("the workspace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        tenancy.directory().workspace(&acme).is_none().then_some(())
    })
    .await;
    let personal = WorkspaceName::personal(&id);
    let kept = tenancy.delete_workspace(&actor, &personal, true, None).await.unwrap_err();
    assert_eq!(kept.to_string(), format!("workspace `{id}` is somebody's own, and goes with their account"));
}

#[tokio::test]
async fn further_namespaces_come_and_go_and_the_first_stays() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000007").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let (actor, acme, tenancy) = (stage.actor(&id), name("acme"), &stage.tenancy);
    let share: Amounts = [("pods".to_owned(), "20".to_owned())].into();
    let add =
        |word: &'static str, share: &Amounts| tenancy.add_namespace(&actor, &acme, word, share.clone(), None);
    let added = add("test", &share).await.unwrap();
    assert_eq!(added.namespaces[1].name, "acme-test");
    assert_eq!(add("test", &share).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(add("-x", &share).await.unwrap_err().kind(), Kind::Invalid);
    let much = [("pods".to_owned(), "31".to_owned())].into();
    assert_eq!(
        add("more", &much).await.unwrap_err().to_string(),
        "the namespaces' shares of `pods` are 51 together, more than the workspace's 50"
    );
    let first = tenancy.remove_namespace(&actor, &acme, "acme", None).await.unwrap_err();
    assert_eq!(first.to_string(), "`acme` is the first namespace of workspace `acme`, and goes with it");
    let foreign = tenancy.remove_namespace(&actor, &acme, "kube-system", None).await.unwrap_err();
    assert_eq!(foreign.kind(), Kind::NotFound);
    let outdated = tenancy.remove_namespace(&actor, &acme, "acme-test", Some("1")).await.unwrap_err();
    assert_eq!(outdated.kind(), Kind::Precondition);
    let removed = tenancy.remove_namespace(&actor, &acme, "acme-test", None).await.unwrap();
    assert_eq!(removed.namespaces.len(), 1);
}

#[tokio::test]
async fn without_the_cluster_one_still_sees_and_is_told_that_nothing_can_be_changed() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000008").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let fault = testkit::Fault::none();
    let tenancy = crate::stage::tenancy(&stage.world, &stage.clock, &fault, crate::stage::open()).await;
    fault.turn(testkit::fault::Line::Cut);
    let (actor, acme) = (stage.actor(&id), name("acme"));
    until("it is known that nothing is heard", async || tenancy.directory().stale_for()).await;
    assert_eq!(tenancy.workspaces(&actor).len(), 2);
    assert_eq!(tenancy.members(&actor, &acme).unwrap().len(), 1);
    let other = crate::stage::registration("18300000009", None);
    let refused = [
        tenancy.create_workspace(&actor, "other", "").await.map(drop),
        tenancy.delete_workspace(&actor, &acme, true, None).await.map(drop),
        tenancy.invite(&actor, &acme, "a@example.com", WorkspaceRole::Viewer).await.map(drop),
        tenancy.register(other, crate::stage::HERE).await.map(drop),
        tenancy.kubeconfig(&actor).await.map(drop),
        tenancy.delete_user(&actor, &id, None).await.map(drop),
    ];
    // The last request is refused from the cache: the user is the only admin of a workspace.
    let kinds = refusals(refused.into());
    assert_eq!(kinds[..5], [Kind::Unavailable; 5]);
    assert_eq!(kinds[5], Kind::Conflict);
}

/// Removes a workspace immediately, and waits until it is deleted.
async fn remove(stage: &Stage, actor: &Actor, workspace: &str) {
    stage.tenancy.delete_workspace(actor, &name(workspace), true, None).await.unwrap();
    until("the workspace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        stage.tenancy.directory().workspace(&name(workspace)).is_none().then_some(())
    })
    .await;
}

async fn until_ready(stage: &Stage, workspace: &str) {
    until("the workspace is ready", async || {
        stage.tenancy.directory().workspace(&name(workspace))?.ready.then_some(())
    })
    .await;
}

#[tokio::test]
async fn retired_name_goes_to_its_owner_and_by_confirmation_of_an_administrator() {
    let stage = Stage::new().await;
    let (_, admin) = stage.administrator("18300000020").await;
    let (id, owner) = stage.person("18300000021").await;
    let (_, other) = stage.person("18300000022").await;
    let tenancy = &stage.tenancy;
    tenancy.create_workspace(&owner, "corp", "").await.unwrap();
    let owner = stage.actor(&id);
    tenancy.add_namespace(&owner, &name("corp"), "prod", Amounts::new(), None).await.unwrap();
    until_ready(&stage, "corp").await;
    tenancy.remove_namespace(&owner, &name("corp"), "corp-prod", None).await.unwrap();
    until("the namespace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        let corp = tenancy.directory().workspace(&name("corp"))?;
        (corp.made.len() == 1).then_some(())
    })
    .await;
    // A workspace cannot take the retired name of another workspace's namespace.
    let refused = tenancy.create_workspace(&other, "corp-prod", "").await.unwrap_err();
    assert_eq!(refused.to_string(), "the name `corp-prod` is taken");
    remove(&stage, &owner, "corp").await;
    let refused = tenancy.create_workspace(&other, "corp", "").await.unwrap_err();
    assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Conflict, "the name `corp` is taken"));
    let refused = tenancy.create_workspace_as(&other, "corp", "", Reissue::Confirmed).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Forbidden);
    stage
        .world
        .apply([serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "corp-views"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "longshore:ws:corp:admin"}],
        })])
        .await;
    let shown = tenancy.create_workspace(&admin, "corp", "").await.unwrap_err();
    assert_eq!(shown.kind(), Kind::Conflict);
    assert!(shown.to_string().contains("ClusterRoleBinding corp-views"), "{shown}");
    // The owner can use the name again, and after that the administrator.
    tenancy.create_workspace(&owner, "corp", "").await.unwrap();
    until_ready(&stage, "corp").await;
    remove(&stage, &stage.actor(&id), "corp").await;
    tenancy.create_workspace_as(&admin, "corp", "", Reissue::Confirmed).await.unwrap();
    until_ready(&stage, "corp").await;
    remove(&stage, &admin, "corp").await;
    let refused = tenancy.create_workspace(&owner, "corp", "").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict, "the name is the administrator's now");
}

#[tokio::test]
async fn account_cannot_retire_names_without_limit() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000023").await;
    let workspace = Workspace::new("used", WorkspaceSpec::default());
    for n in 0..names::MOST_RETIRED {
        let record = RetiredName::new(&workspace, &format!("used-{n}"), jiff::Timestamp::UNIX_EPOCH).unwrap();
        let record = RetiredName { owner: Some(id.clone()), ..record };
        names::retire(stage.world.admin(), &record, names::Existing::Keep).await.unwrap();
    }
    let refused = stage.tenancy.create_workspace(&actor, "further", "").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);
    assert!(refused.to_string().contains("100 names"), "{refused}");
    stage.tenancy.create_workspace(&actor, "used-7", "").await.unwrap();
}

#[tokio::test]
async fn workspaces_of_one_account_share_its_quota() {
    let stage = Stage::new().await;
    let (id, actor) = stage.person("18300000024").await;
    let mut cpu = 0;
    for n in 0..MOST_PER_PERSON {
        let made = stage.tenancy.create_workspace(&actor, &format!("many-{n}"), "").await.unwrap();
        cpu += made.quota["requests.cpu"].parse::<u32>().unwrap();
    }
    let personal = stage.tenancy.workspace(&stage.actor(&id), &name(id.as_str())).unwrap();
    cpu += personal.quota["requests.cpu"].parse::<u32>().unwrap();
    assert_eq!(cpu.to_string(), stage.tenancy.settings().person_quota["requests.cpu"]);
}
