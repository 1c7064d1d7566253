//! Workspaces from creation to removal.

use domain::ErrorKind;
use futures::future::join_all;
use jiff::SignedDuration;
use testkit::wait_for;

use super::*;
use crate::test_harness::TestHarness;

fn name(text: &str) -> WorkspaceName {
    text.parse().unwrap()
}

fn error_kinds<T: std::fmt::Debug>(answers: Vec<Result<T, Error>>) -> Vec<ErrorKind> {
    answers.into_iter().map(|answer| answer.unwrap_err().kind()).collect()
}

#[tokio::test]
async fn creator_of_a_workspace_is_its_admin() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000000").await;
    let made = stage.tenancy.create_workspace(&actor, "acme", " Acme & Sons ").await.unwrap();
    assert_eq!(
        (made.display_name.as_str(), made.role, made.is_personal),
        ("Acme & Sons", Some(WorkspaceRole::Admin), false)
    );
    assert_eq!(made.quota, stage.tenancy.settings().quota);
    let actor = stage.actor(&id);
    let own: Vec<String> = stage.tenancy.workspaces(&actor).iter().map(|own| own.name.to_string()).collect();
    assert_eq!(own, ["acme", id.as_str()]);
    let ready = async || stage.tenancy.workspace(&actor, &name("acme")).unwrap().is_ready.then_some(());
    wait_for("the workspace is ready", ready).await;
    let seen = stage.tenancy.workspace(&actor, &name("acme")).unwrap();
    assert!(seen.namespaces[0].is_created && seen.namespaces[0].name == "acme");
}

#[tokio::test]
async fn create_workspace_rejects_reserved_and_used_names() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000001").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let actor = stage.actor(&id);
    stage
        .tenancy
        .add_namespace(&actor, &name("acme"), "test", ResourceQuantities::new(), None)
        .await
        .unwrap();
    stage
        .world
        .apply([
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}),
        ])
        .await;
    #[rustfmt::skip]
    let table = [
        ("kube-system", ErrorKind::Invalid), ("default", ErrorKind::Invalid), ("longshore-system", ErrorKind::Invalid),
        (id.as_str(), ErrorKind::Invalid), ("UPPER", ErrorKind::Invalid), ("", ErrorKind::Invalid), (&"a".repeat(10_000), ErrorKind::Invalid),
        ("acme", ErrorKind::Conflict), ("acme-test", ErrorKind::Conflict), ("monitoring", ErrorKind::Conflict),
    ];
    for (wanted, kind) in table {
        let refused = stage.tenancy.create_workspace(&actor, wanted, "").await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().len() < 200, "{refused}");
    }
    let long = stage.tenancy.create_workspace(&actor, "other", &"x".repeat(129)).await.unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn create_workspace_is_limited_to_ten_per_account_also_concurrently() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000002").await;
    let names: Vec<String> = (0..25).map(|n| format!("team-{n}")).collect();
    let made = join_all(names.iter().map(|name| stage.tenancy.create_workspace(&actor, name, ""))).await;
    assert!(made.iter().flatten().count() <= MAX_WORKSPACES_PER_ACCOUNT);
    for refused in made.iter().filter_map(|made| made.as_ref().err()) {
        let words = ["a user can create at most 10 workspaces", "create one after the other"];
        assert!(words.iter().any(|words| refused.to_string().ends_with(words)), "{refused}");
    }
    let left = wait_for("those who are too many are gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        let left = stage.tenancy.workspace_api().list(&ListParams::default()).await.unwrap().items;
        let staying = left.iter().all(|workspace| workspace.metadata.deletion_timestamp.is_none());
        staying.then(|| left.iter().filter(|workspace| workspace.name_any().starts_with("team-")).count())
    });
    let left = left.await;
    assert!(left <= MAX_WORKSPACES_PER_ACCOUNT, "{left}");
    let shared = || {
        let own = stage.tenancy.workspaces(&stage.actor(&id));
        own.iter().filter(|own| !own.is_personal).count()
    };
    wait_for("the directory has no others", async || (shared() == left).then_some(())).await;
    // Sequential requests create exactly ten.
    let actor = stage.actor(&id);
    for n in 0..=MAX_WORKSPACES_PER_ACCOUNT {
        drop(stage.tenancy.create_workspace(&actor, &format!("late-{n}"), "").await);
    }
    assert_eq!(shared(), MAX_WORKSPACES_PER_ACCOUNT);
}

#[tokio::test]
async fn foreign_workspace_is_not_found_and_viewers_cannot_change_it() {
    let stage = TestHarness::new().await;
    let (_, admin) = stage.register_administrator("18300000003").await;
    let (owner, actor) = stage.register_user("18300000004").await;
    let (viewer, stranger) = stage.register_user("18300000005").await;
    let acme = name("acme");
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let attempts = async |who: &Actor, name: &WorkspaceName| {
        let tenancy = &stage.tenancy;
        error_kinds(vec![
            tenancy.rename_workspace(who, name, "x", None).await.map(drop),
            tenancy.delete_workspace(who, name, true, None).await.map(drop),
            tenancy.restore_workspace(who, name, None).await.map(drop),
            tenancy.add_namespace(who, name, "x", ResourceQuantities::new(), None).await.map(drop),
            tenancy.remove_namespace(who, name, "acme", None).await.map(drop),
            tenancy.set_role(who, name, &owner, WorkspaceRole::Viewer).await.map(drop),
            tenancy.remove_member(who, name, &owner).await.map(drop),
            tenancy.invite(who, name, "a@example.com", WorkspaceRole::Viewer).await.map(drop),
            tenancy.invitations(who, name).map(drop),
            tenancy.withdraw_invitation(who, name, "x").await.map(drop),
            tenancy.set_quota(who, name, crate::quota::QuotaPatch::default(), None).await.map(drop),
        ])
    };
    assert!(stage.tenancy.workspaces(&stranger).iter().all(|own| own.is_personal));
    for unseen in [&acme, &name("nothing-there")] {
        assert_eq!(attempts(&stranger, unseen).await, [ErrorKind::NotFound; 11]);
        let looked = [
            stage.tenancy.workspace(&stranger, unseen).map(drop),
            stage.tenancy.members(&stranger, unseen).map(drop),
            stage.tenancy.quota(&stranger, unseen).await.map(drop),
        ];
        assert_eq!(error_kinds(looked.into()), [ErrorKind::NotFound; 3]);
    }
    stage.tenancy.set_role(&admin, &acme, &viewer, WorkspaceRole::Viewer).await.unwrap();
    let member = stage.actor(&viewer);
    assert_eq!(attempts(&member, &acme).await, [ErrorKind::Forbidden; 11]);
    assert_eq!(stage.tenancy.workspace(&member, &acme).unwrap().role, Some(WorkspaceRole::Viewer));
    assert_eq!(stage.tenancy.members(&member, &acme).unwrap().len(), 2);
}

#[tokio::test]
async fn scheduled_removal_is_listed_and_can_be_cancelled() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000006").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let (actor, acme, tenancy) = (stage.actor(&id), name("acme"), &stage.tenancy);
    let announced = tenancy.delete_workspace(&actor, &acme, false, None).await.unwrap();
    let day = SignedDuration::from_hours(24);
    let now = tenancy.0.clock.now();
    assert_eq!(announced.remove_at, Some(now + day));
    stage.clock.advance(SignedDuration::from_mins(5));
    let again = tenancy.delete_workspace(&actor, &acme, false, None).await.unwrap();
    assert_eq!(again.remove_at, Some(now + day), "asking twice does not put it off");
    assert_eq!(tenancy.restore_workspace(&actor, &acme, None).await.unwrap().remove_at, None);
    let outdated = tenancy.delete_workspace(&actor, &acme, true, Some(&announced.version)).await.unwrap_err();
    assert_eq!(outdated.kind(), ErrorKind::Precondition);

    tenancy.delete_workspace(&actor, &acme, true, None).await.unwrap();
    wait_for("the workspace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        tenancy.directory().workspace(&acme).is_none().then_some(())
    })
    .await;
    let personal = WorkspaceName::personal(&id);
    let kept = tenancy.delete_workspace(&actor, &personal, true, None).await.unwrap_err();
    assert_eq!(
        kept.to_string(),
        format!("workspace `{id}` is a personal workspace and is deleted with its account")
    );
}

#[tokio::test]
async fn namespaces_are_added_and_removed_except_the_first() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000007").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let (actor, acme, tenancy) = (stage.actor(&id), name("acme"), &stage.tenancy);
    let share: ResourceQuantities = [("pods".to_owned(), "20".to_owned())].into();
    let add = |word: &'static str, share: &ResourceQuantities| {
        tenancy.add_namespace(&actor, &acme, word, share.clone(), None)
    };
    let added = add("test", &share).await.unwrap();
    assert_eq!(added.namespaces[1].name, "acme-test");
    assert_eq!(add("test", &share).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(add("-x", &share).await.unwrap_err().kind(), ErrorKind::Invalid);
    let much = [("pods".to_owned(), "31".to_owned())].into();
    assert_eq!(
        add("more", &much).await.unwrap_err().to_string(),
        "the namespaces' shares of `pods` sum up to 51, more than the workspace's quota of 50"
    );
    let first = tenancy.remove_namespace(&actor, &acme, "acme", None).await.unwrap_err();
    assert_eq!(
        first.to_string(),
        "`acme` is the first namespace of workspace `acme` and can only be deleted with it"
    );
    let foreign = tenancy.remove_namespace(&actor, &acme, "kube-system", None).await.unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::NotFound);
    let outdated = tenancy.remove_namespace(&actor, &acme, "acme-test", Some("1")).await.unwrap_err();
    assert_eq!(outdated.kind(), ErrorKind::Precondition);
    let removed = tenancy.remove_namespace(&actor, &acme, "acme-test", None).await.unwrap();
    assert_eq!(removed.namespaces.len(), 1);
}

#[tokio::test]
async fn reads_work_and_writes_are_unavailable_while_the_cluster_is_unreachable() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000008").await;
    stage.tenancy.create_workspace(&actor, "acme", "").await.unwrap();
    let fault = testkit::FaultInjector::healthy();
    let tenancy = crate::test_harness::tenancy(
        &stage.world,
        &stage.clock,
        &fault,
        crate::test_harness::open_settings(),
    )
    .await;
    fault.set_link(testkit::fault::LinkState::Disconnected);
    let (actor, acme) = (stage.actor(&id), name("acme"));
    wait_for("it is known that nothing is heard", async || tenancy.directory().stale_for()).await;
    assert_eq!(tenancy.workspaces(&actor).len(), 2);
    assert_eq!(tenancy.members(&actor, &acme).unwrap().len(), 1);
    let other = crate::test_harness::registration("18300000009", None);
    let refused = [
        tenancy.create_workspace(&actor, "other", "").await.map(drop),
        tenancy.delete_workspace(&actor, &acme, true, None).await.map(drop),
        tenancy.invite(&actor, &acme, "a@example.com", WorkspaceRole::Viewer).await.map(drop),
        tenancy.register(other, crate::test_harness::LOCAL_CLIENT).await.map(drop),
        tenancy.kubeconfig(&actor).await.map(drop),
        tenancy.delete_user(&actor, &id, None).await.map(drop),
    ];
    // The last request is refused from the cache: the user is the only admin of a workspace.
    let kinds = error_kinds(refused.into());
    assert_eq!(kinds[..5], [ErrorKind::Unavailable; 5]);
    assert_eq!(kinds[5], ErrorKind::Conflict);
}

/// Removes a workspace immediately, and waits until it is deleted.
async fn delete_and_wait(stage: &TestHarness, actor: &Actor, workspace: &str) {
    stage.tenancy.delete_workspace(actor, &name(workspace), true, None).await.unwrap();
    wait_for("the workspace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        stage.tenancy.directory().workspace(&name(workspace)).is_none().then_some(())
    })
    .await;
}

async fn wait_until_ready(stage: &TestHarness, workspace: &str) {
    wait_for("the workspace is ready", async || {
        stage.tenancy.directory().workspace(&name(workspace))?.is_ready.then_some(())
    })
    .await;
}

#[tokio::test]
async fn retired_name_is_reissued_to_its_owner_or_by_an_administrator() {
    let stage = TestHarness::new().await;
    let (_, admin) = stage.register_administrator("18300000020").await;
    let (id, owner) = stage.register_user("18300000021").await;
    let (_, other) = stage.register_user("18300000022").await;
    let tenancy = &stage.tenancy;
    tenancy.create_workspace(&owner, "corp", "").await.unwrap();
    let owner = stage.actor(&id);
    tenancy.add_namespace(&owner, &name("corp"), "prod", ResourceQuantities::new(), None).await.unwrap();
    wait_until_ready(&stage, "corp").await;
    tenancy.remove_namespace(&owner, &name("corp"), "corp-prod", None).await.unwrap();
    wait_for("the namespace is gone", async || {
        stage.clock.advance(SignedDuration::from_secs(1));
        let corp = tenancy.directory().workspace(&name("corp"))?;
        (corp.created_namespaces.len() == 1).then_some(())
    })
    .await;
    // A workspace cannot take the retired name of another workspace's namespace.
    let refused = tenancy.create_workspace(&other, "corp-prod", "").await.unwrap_err();
    assert_eq!(refused.to_string(), "the name `corp-prod` is already used");
    delete_and_wait(&stage, &owner, "corp").await;
    let refused = tenancy.create_workspace(&other, "corp", "").await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.to_string().as_str()),
        (ErrorKind::Conflict, "the name `corp` is already used")
    );
    let refused =
        tenancy.create_workspace_as(&other, "corp", "", ReissuePolicy::Confirmed).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    stage
        .world
        .apply([serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "corp-views"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "longshore:ws:corp:admin"}],
        })])
        .await;
    let shown = tenancy.create_workspace(&admin, "corp", "").await.unwrap_err();
    assert_eq!(shown.kind(), ErrorKind::Conflict);
    assert!(shown.to_string().contains("ClusterRoleBinding corp-views"), "{shown}");
    // The owner can use the name again, and after that the administrator.
    tenancy.create_workspace(&owner, "corp", "").await.unwrap();
    wait_until_ready(&stage, "corp").await;
    delete_and_wait(&stage, &stage.actor(&id), "corp").await;
    tenancy.create_workspace_as(&admin, "corp", "", ReissuePolicy::Confirmed).await.unwrap();
    wait_until_ready(&stage, "corp").await;
    delete_and_wait(&stage, &admin, "corp").await;
    let refused = tenancy.create_workspace(&owner, "corp", "").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "the name is the administrator's now");
}

#[tokio::test]
async fn account_cannot_retire_names_without_limit() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000023").await;
    let workspace = Workspace::new("used", WorkspaceSpec::default());
    for n in 0..retired_names::MAX_RETIRED_NAMES {
        let record = RetiredName::new(&workspace, &format!("used-{n}"), jiff::Timestamp::UNIX_EPOCH).unwrap();
        let record = RetiredName { owner: Some(id.clone()), ..record };
        retired_names::retire(stage.world.admin_client(), &record, retired_names::ExistingRecord::Keep)
            .await
            .unwrap();
    }
    let refused = stage.tenancy.create_workspace(&actor, "further", "").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("100 names"), "{refused}");
    stage.tenancy.create_workspace(&actor, "used-7", "").await.unwrap();
}

#[tokio::test]
async fn workspaces_of_one_account_share_its_quota() {
    let stage = TestHarness::new().await;
    let (id, actor) = stage.register_user("18300000024").await;
    let mut cpu = 0;
    for n in 0..MAX_WORKSPACES_PER_ACCOUNT {
        let made = stage.tenancy.create_workspace(&actor, &format!("many-{n}"), "").await.unwrap();
        cpu += made.quota["requests.cpu"].parse::<u32>().unwrap();
    }
    let personal = stage.tenancy.workspace(&stage.actor(&id), &name(id.as_str())).unwrap();
    cpu += personal.quota["requests.cpu"].parse::<u32>().unwrap();
    assert_eq!(cpu.to_string(), stage.tenancy.settings().account_quota["requests.cpu"]);
}
