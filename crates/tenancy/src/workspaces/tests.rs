//! Workspaces from their making to their end.

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
        assert_eq!(refused.to_string(), "nobody can make more than 10 workspaces");
    }
    let left = until("those who are too many are gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        let left = stage.tenancy.workspace_api().list(&ListParams::default()).await.unwrap().items;
        let staying = left.iter().all(|workspace| workspace.metadata.deletion_timestamp.is_none());
        staying.then_some(left.len())
    });
    assert!(left.await <= MOST_PER_PERSON + 1, "the personal one does not count");
    // One after the other there is room for exactly ten.
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
    let stale = tenancy.delete_workspace(&actor, &acme, true, Some(&announced.version)).await.unwrap_err();
    assert_eq!(stale.kind(), Kind::Precondition);

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
    let stale = tenancy.remove_namespace(&actor, &acme, "acme-test", Some("1")).await.unwrap_err();
    assert_eq!(stale.kind(), Kind::Precondition);
    let removed = tenancy.remove_namespace(&actor, &acme, "acme-test", None).await.unwrap();
    assert_eq!(removed.namespaces.len(), 1);
}
