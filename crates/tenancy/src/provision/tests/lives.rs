//! Life cycles of accounts and workspaces without faults.

use jiff::SignedDuration;
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::*;

#[tokio::test]
async fn an_account_that_somebody_wrote_by_hand_comes_to_everything_but_credentials() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &user("ana", None)).await;
    until_reached(&world, &Fault::none(), &clock, "ready", async || user_is_ready(&world, "ana").await).await;
    let ana: User = get(&world, "ana").await.unwrap();
    let status = ana.status.clone().unwrap();
    let id = status.tenant_id.clone();
    assert!(id.parse::<domain::ids::UserId>().is_ok(), "{id}");
    assert_eq!(
        (ana.spec.namespace.as_str(), ana.finalizers()),
        (id.as_str(), &[marks::USER_FINALIZER.to_owned()][..])
    );
    assert!(status.effective_time.is_some());
    let credentials = progress::condition(&status.conditions, "CredentialsIssued").unwrap();
    assert_eq!((credentials.status.as_str(), credentials.reason.as_str()), ("False", "NoCredentials"));
    is_whole(&world, &id).await;
    let namespace: Namespace = get(&world, &id).await.unwrap();
    assert_eq!(namespace.labels()["openyurt/tenant"], id);
    assert_eq!(namespace.labels()["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(bound(&world, &id, "admin").await, [format!("longshore:ws:{id}:admin"), id.clone()]);
    assert_eq!(administrators(&world).await, Vec::<String>::new());
    let workspace: Workspace = get(&world, &id).await.unwrap();
    let record = &workspace.status.unwrap().namespaces[0];
    assert_eq!(Some(record.uid.clone()), namespace.uid());
}

#[tokio::test]
async fn an_id_is_given_once_and_to_one() {
    let (world, clock) = (world().await, HeldClock::new());
    let ready = async || {
        user_is_ready(&world, "ana").await?;
        user_is_ready(&world, "ben").await
    };
    // Both announce the same id. Later one of them announces another id.
    create(&world, &user("ana", Some(ID))).await;
    create(&world, &user("ben", Some(ID))).await;
    until_reached(&world, &Fault::none(), &clock, "both ready", ready).await;
    let id = async |name: &str| get::<User>(&world, name).await.unwrap().status.unwrap().tenant_id;
    let (ana, ben) = (id("ana").await, id("ben").await);
    assert_ne!(ana, ben);
    assert!([&ana, &ben].contains(&&ID.to_owned()));
    let wish =
        json!({"metadata": {"annotations": {marks::TENANT_ID: OTHER}}, "spec": {"namespace": "kube-system"}});
    patch::<User>(&world, "ana", wish).await;
    let corrected = async || (get::<User>(&world, "ana").await?.spec.namespace == ana).then_some(());
    until_reached(&world, &Fault::none(), &clock, "the id is as before", corrected).await;
    assert_eq!(id("ana").await, ana);
}

/// A privileged client writes another account's id into a status.
#[tokio::test]
async fn who_claims_anothers_id_gets_nothing_and_takes_nothing() {
    let (world, clock) = (world().await, HeldClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned()];
    create(&world, &ana).await;
    until_reached(&world, &Fault::none(), &clock, "ready", async || user_is_ready(&world, "ana").await).await;
    give_credentials(&world, ID).await;
    create(&world, &user("eve", Some(OTHER))).await;
    let status =
        Patch::Merge(json!({"status": {"tenantID": ID, "expired": false, "nodeNum": 0, "sequence": 0}}));
    Api::<User>::all(world.admin()).patch_status("eve", &PatchParams::default(), &status).await.unwrap();
    let told = async || {
        let status = get::<User>(&world, "eve").await?.status?;
        (progress::condition(&status.conditions, "AccessReady")?.reason == "IdTaken").then_some(())
    };
    until_reached(&world, &Fault::none(), &clock, "told", told).await;
    delete::<User>(&world, "eve").await;
    let gone = async || get::<User>(&world, "eve").await.is_none().then_some(());
    until_reached(&world, &Fault::none(), &clock, "gone", gone).await;
    is_whole(&world, ID).await;
    assert_eq!((administrators(&world).await.len(), secrets_of(&world, ID).await.len()), (1, 1));
    assert!(service_account(&world, ID).await.is_some());
}

#[tokio::test]
async fn who_administrates_the_platform_has_the_cluster_and_loses_it_with_the_role() {
    let (world, clock) = (world().await, HeldClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned(), "nonsense".to_owned()];
    create(&world, &ana).await;
    let ready = async || user_is_ready(&world, "ana").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    assert_eq!(administrators(&world).await, [format!("longshore-admin-{ID}")]);
    // A binding of an older server names the user, in whose name releases act too: it is rewritten.
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin());
    let name = format!("longshore-admin-{ID}");
    let subjects = async || {
        let subjects = bindings.get(&name).await.unwrap().subjects.unwrap();
        subjects.into_iter().map(|subject| format!("{} {}", subject.kind, subject.name)).collect::<Vec<_>>()
    };
    let wanted = [format!("Group longshore:platform:admin:{ID}"), format!("ServiceAccount {ID}")];
    assert_eq!(subjects().await, wanted);
    let rbac = "rbac.authorization.k8s.io";
    let old = json!([{"kind": "User", "apiGroup": rbac, "name": format!("longshore:user:{ID}")},
        {"kind": "ServiceAccount", "name": ID, "namespace": SYSTEM_NAMESPACE}]);
    patch::<ClusterRoleBinding>(&world, &name, json!({"subjects": old})).await;
    let rewritten = async || (subjects().await == wanted).then_some(());
    until_reached(&world, &Fault::none(), &clock, "the binding is rewritten", rewritten).await;
    patch::<User>(&world, "ana", json!({"spec": {"platformRoles": ["reviewer-business"]}})).await;
    let gone = async || administrators(&world).await.is_empty().then_some(());
    until_reached(&world, &Fault::none(), &clock, "no administrator", gone).await;
}

#[tokio::test]
async fn a_closed_account_has_no_service_account_and_loses_nothing_else() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &user("ana", Some(ID))).await;
    let ready = async || user_is_ready(&world, "ana").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    let first = service_account(&world, ID).await.unwrap();
    patch::<User>(&world, "ana", json!({"spec": {"disabled": true}})).await;
    let closed = async || service_account(&world, ID).await.is_none().then_some(());
    until_reached(&world, &Fault::none(), &clock, "no ServiceAccount", closed).await;
    is_whole(&world, ID).await;
    patch::<User>(&world, "ana", json!({"spec": {"disabled": false}})).await;
    until_reached(&world, &Fault::none(), &clock, "ready again", ready).await;
    assert_ne!(service_account(&world, ID).await.unwrap().uid(), first.uid(), "old tokens are void");
    // Expiry closes the account, too.
    patch::<User>(&world, "ana", json!({"spec": {"validPeriod": 7}})).await;
    clock.advance(SignedDuration::from_hours(7 * 24));
    let expired = async || get::<User>(&world, "ana").await?.status?.expired.then_some(());
    until_reached(&world, &Fault::none(), &clock, "expired", expired).await;
    assert!(service_account(&world, ID).await.is_none());
    let status = get::<User>(&world, "ana").await.unwrap().status.unwrap();
    let begun = status.effective_time.unwrap();
    assert_eq!(status.expire_time.unwrap().0, begun.0 + SignedDuration::from_hours(7 * 24));
}

#[tokio::test]
async fn members_have_the_roles_that_they_are_given() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin"), ("longshore", "admin"), (OTHER, "king")])).await;
    let ready = async || is_ready(&world, "acme").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    // Only ids become subjects, and only known roles are bound.
    assert_eq!(bound(&world, "acme", "admin").await, ["longshore:ws:acme:admin", ID]);
    let members = json!([{"user": ID, "role": "viewer"}, {"user": OTHER, "role": "admin"}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"members": members}})).await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    assert_eq!(bound(&world, "acme", "admin").await, ["longshore:ws:acme:admin", OTHER]);
    assert_eq!(bound(&world, "acme", "viewer").await, ["longshore:ws:acme:viewer", ID]);
}

#[tokio::test]
async fn namespaces_come_and_go_with_the_spec() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let both = json!([{"name": "acme"}, {"name": "acme-test", "share": {"pods": "10"}}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": both}})).await;
    let ready = async || is_ready(&world, "acme").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    is_whole(&world, "acme").await;
    is_whole(&world, "acme-test").await;
    let quota = inside::<k8s_openapi::api::core::v1::ResourceQuota>(&world, "acme").await;
    assert_eq!(quota[0].spec.as_ref().unwrap().hard.as_ref().unwrap()["pods"].0, "40");
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let gone = async || {
        let recorded = get::<Workspace>(&world, "acme").await?.status?.namespaces.len();
        (recorded == 1 && get::<Namespace>(&world, "acme-test").await.is_none()).then_some(())
    };
    until_reached(&world, &Fault::none(), &clock, "the second namespace is gone", gone).await;
    is_whole(&world, "acme").await;
}

#[tokio::test]
async fn what_somebody_took_away_or_changed_is_put_back() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    let first: Namespace = get(&world, "acme").await.unwrap();
    let spoiled = async || {
        let bindings: Api<RoleBinding> = Api::namespaced(world.admin(), "acme");
        bindings.delete("longshore-ws-viewer", &DeleteParams::default()).await.unwrap();
        let policies: Api<NetworkPolicy> = Api::namespaced(world.admin(), "acme");
        let open = Patch::Merge(json!({"spec": {"egress": [{}]}}));
        policies.patch("longshore-default-deny", &PatchParams::default(), &open).await.unwrap();
        let privileged =
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
        patch::<Namespace>(&world, "acme", privileged).await;
    };
    let repaired = async || {
        let policies = inside::<NetworkPolicy>(&world, "acme").await;
        let closed = policies[0].spec.as_ref()?.egress.as_ref()?.len() == 2;
        let namespace: Namespace = get(&world, "acme").await?;
        let baseline = namespace.labels()["pod-security.kubernetes.io/enforce"] == "baseline";
        (closed && baseline && names::<RoleBinding>(&world, "acme").await.len() == 6).then_some(())
    };
    // Drift while the controllers run, and while they do not.
    let mut once = Some(());
    let both = async || {
        if once.take().is_some() {
            spoiled().await;
        }
        repaired().await
    };
    until_reached(&world, &Fault::none(), &clock, "repaired", both).await;
    spoiled().await;
    until_reached(&world, &Fault::none(), &clock, "repaired after a start", repaired).await;
    // Drift of the namespace itself.
    delete::<Namespace>(&world, "acme").await;
    let anew = async || {
        let namespace: Namespace = get(&world, "acme").await?;
        (namespace.uid() != first.uid() && names::<RoleBinding>(&world, "acme").await.len() == 6)
            .then_some(())?;
        is_ready(&world, "acme").await
    };
    until_reached(&world, &Fault::none(), &clock, "made anew", anew).await;
    let records = get::<Workspace>(&world, "acme").await.unwrap().status.unwrap().namespaces;
    assert_eq!(Some(records[0].uid.clone()), get::<Namespace>(&world, "acme").await.unwrap().uid());
}

#[tokio::test]
async fn a_workspace_that_is_to_go_is_closed_at_once_and_can_be_brought_back() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    let after = domain::clock::Clock::now(&clock) + SignedDuration::from_hours(24);
    patch::<Workspace>(
        &world,
        "acme",
        json!({"metadata": {"annotations": {marks::REMOVE_AFTER: after.to_string()}}}),
    )
    .await;
    let closed = async || {
        let told = condition(&world, "acme", "Ready").await? == ("False".to_owned(), "Removing".to_owned());
        (told && names::<RoleBinding>(&world, "acme").await.is_empty()).then_some(())
    };
    until_reached(&world, &Fault::none(), &clock, "closed", closed).await;
    assert!(get::<Namespace>(&world, "acme").await.is_some());
    patch::<Workspace>(&world, "acme", json!({"metadata": {"annotations": {marks::REMOVE_AFTER: null}}}))
        .await;
    until_reached(&world, &Fault::none(), &clock, "restored", ready).await;
    is_whole(&world, "acme").await;
    patch::<Workspace>(
        &world,
        "acme",
        json!({"metadata": {"annotations": {marks::REMOVE_AFTER: after.to_string()}}}),
    )
    .await;
    until_reached(&world, &Fault::none(), &clock, "closed", closed).await;
    clock.advance(SignedDuration::from_hours(24));
    let gone = async || get::<Workspace>(&world, "acme").await.is_none().then_some(());
    until_reached(&world, &Fault::none(), &clock, "gone", gone).await;
    assert!(get::<Namespace>(&world, "acme").await.is_none());
}

#[tokio::test]
async fn an_account_goes_with_all_that_was_its_own() {
    let (world, clock) = (world().await, HeldClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned()];
    give_credentials(&world, ID).await;
    give_credentials(&world, OTHER).await;
    create(&world, &ana).await;
    create(&world, &workspace("acme", &[(ID, "admin"), (OTHER, "admin")])).await;
    let ready = async || user_is_ready(&world, "ana").await.and(is_ready(&world, "acme").await);
    until_reached(&world, &Fault::none(), &clock, "ready", ready).await;
    delete::<User>(&world, "ana").await;
    let gone = async || get::<User>(&world, "ana").await.is_none().then_some(());
    until_reached(&world, &Fault::none(), &clock, "gone", gone).await;
    assert!(get::<Workspace>(&world, ID).await.is_none() && get::<Namespace>(&world, ID).await.is_none());
    assert!(service_account(&world, ID).await.is_none() && secrets_of(&world, ID).await.is_empty());
    assert_eq!(administrators(&world).await, Vec::<String>::new());
    assert_eq!(secrets_of(&world, OTHER).await.len(), 1);
    let members = get::<Workspace>(&world, "acme").await.unwrap().spec.members;
    assert_eq!(members.iter().map(|member| member.user.as_str()).collect::<Vec<_>>(), [OTHER]);
}

#[tokio::test]
async fn what_is_as_it_should_be_is_not_written() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &user("ana", Some(ID))).await;
    until_reached(&world, &Fault::none(), &clock, "told", async || is_told(&world, "ana").await).await;
    // Reconciles everything again. Complete once the object created last has its event.
    let counted = Fault::none();
    create(&world, &workspace("last", &[])).await;
    let writes_of = async |workspace: &str| {
        let made = counted.writes();
        until_reached(&world, &counted, &clock, "told", async || is_told(&world, workspace).await).await;
        counted.writes() - made
    };
    let for_last = writes_of("last").await;
    create(&world, &workspace("more", &[])).await;
    assert_eq!(writes_of("more").await, for_last, "only what is new is written");
}

#[tokio::test]
async fn namespaces_carry_the_account_whose_budgets_they_use() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &user("ana", Some(ID))).await;
    let made_by = |name: &str, id: &str| {
        let mut made = workspace(name, &[(id, "admin")]);
        made.labels_mut().insert(marks::USER.to_owned(), id.to_owned());
        made
    };
    // Workspaces of administrators and those created by hand have budgets of their own.
    let mut admin = user("ben", Some(OTHER));
    admin.spec.platform_roles = vec!["admin".to_owned()];
    create(&world, &admin).await;
    let users_ready = async || {
        user_is_ready(&world, "ana").await?;
        user_is_ready(&world, "ben").await
    };
    until_reached(&world, &Fault::none(), &clock, "users", users_ready).await;
    create(&world, &made_by("acme", ID)).await;
    create(&world, &made_by("shared", OTHER)).await;
    create(&world, &workspace("written", &[(ID, "admin")])).await;
    let account = async |name: &str| {
        let namespace = get::<Namespace>(&world, name).await?;
        Some(namespace.labels().get(marks::ACCOUNT).cloned())
    };
    let expected = async || {
        for name in ["acme", "shared", "written"] {
            is_ready(&world, name).await?;
        }
        let own = Some(ID.to_owned());
        (account("acme").await? == own && account(ID).await? == own).then_some(())?;
        for name in ["shared", "written", OTHER] {
            account(name).await?.is_none().then_some(())?;
        }
        Some(())
    };
    until_reached(&world, &Fault::none(), &clock, "the labels", expected).await;

    // Namespaces without the label or with a wrong one are corrected.
    for (name, label) in [("acme", Value::Null), (ID, json!(OTHER)), ("shared", json!(ID))] {
        patch::<Namespace>(&world, name, json!({"metadata": {"labels": {marks::ACCOUNT: label}}})).await;
    }
    until_reached(&world, &Fault::none(), &clock, "the labels again", expected).await;
}
