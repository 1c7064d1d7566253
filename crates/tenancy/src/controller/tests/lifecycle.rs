//! Life cycles of accounts and workspaces without faults.

use jiff::SignedDuration;
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::*;

#[tokio::test]
async fn manually_created_user_is_provisioned_without_credentials() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &user("ana", None)).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        user_is_ready(&world, "ana").await
    })
    .await;
    let ana: User = get(&world, "ana").await.unwrap();
    let status = ana.status.clone().unwrap();
    let id = status.tenant_id.clone();
    assert!(id.parse::<domain::ids::UserId>().is_ok(), "{id}");
    assert_eq!(
        (ana.spec.namespace.as_str(), ana.finalizers()),
        (id.as_str(), &[well_known::USER_FINALIZER.to_owned()][..])
    );
    assert!(status.effective_time.is_some());
    let credentials = conditions::find_condition(&status.conditions, "CredentialsIssued").unwrap();
    assert_eq!((credentials.status.as_str(), credentials.reason.as_str()), ("False", "NoCredentials"));
    assert_fully_provisioned(&world, &id).await;
    let namespace: Namespace = get(&world, &id).await.unwrap();
    assert_eq!(namespace.labels()["openyurt/tenant"], id);
    assert_eq!(namespace.labels()["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(
        subjects_of_role(&world, &id, "admin").await,
        [format!("longshore:ws:{id}:admin"), id.clone()]
    );
    assert_eq!(admin_bindings(&world).await, Vec::<String>::new());
    let workspace: Workspace = get(&world, &id).await.unwrap();
    let record = &workspace.status.unwrap().namespaces[0];
    assert_eq!(Some(record.uid.clone()), namespace.uid());
}

#[tokio::test]
async fn user_id_is_assigned_once_to_one_account() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let ready = async || {
        user_is_ready(&world, "ana").await?;
        user_is_ready(&world, "ben").await
    };
    // Both announce the same id. Later one of them announces another id.
    create(&world, &user("ana", Some(ID))).await;
    create(&world, &user("ben", Some(ID))).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "both ready", ready).await;
    let id = async |name: &str| get::<User>(&world, name).await.unwrap().status.unwrap().tenant_id;
    let (ana, ben) = (id("ana").await, id("ben").await);
    assert_ne!(ana, ben);
    assert!([&ana, &ben].contains(&&ID.to_owned()));
    let wish = json!({"metadata": {"annotations": {well_known::TENANT_ID: OTHER_ID}}, "spec": {"namespace": "kube-system"}});
    patch::<User>(&world, "ana", wish).await;
    let corrected = async || (get::<User>(&world, "ana").await?.spec.namespace == ana).then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the id is as before", corrected).await;
    assert_eq!(id("ana").await, ana);
}

/// A privileged client writes another account's id into a status.
#[tokio::test]
async fn user_with_id_of_another_account_gets_nothing_and_deletes_nothing() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned()];
    create(&world, &ana).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        user_is_ready(&world, "ana").await
    })
    .await;
    give_credentials(&world, ID).await;
    create(&world, &user("eve", Some(OTHER_ID))).await;
    let status =
        Patch::Merge(json!({"status": {"tenantID": ID, "expired": false, "nodeNum": 0, "sequence": 0}}));
    Api::<User>::all(world.admin_client())
        .patch_status("eve", &PatchParams::default(), &status)
        .await
        .unwrap();
    let told = async || {
        let status = get::<User>(&world, "eve").await?.status?;
        (conditions::find_condition(&status.conditions, "AccessReady")?.reason == "IdTaken").then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "told", told).await;
    delete::<User>(&world, "eve").await;
    let gone = async || get::<User>(&world, "eve").await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "gone", gone).await;
    assert_fully_provisioned(&world, ID).await;
    assert_eq!((admin_bindings(&world).await.len(), secrets_of(&world, ID).await.len()), (1, 1));
    assert!(service_account(&world, ID).await.is_some());
}

#[tokio::test]
async fn platform_administrator_has_cluster_admin_until_the_role_is_removed() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned(), "nonsense".to_owned()];
    create(&world, &ana).await;
    let ready = async || user_is_ready(&world, "ana").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    assert_eq!(admin_bindings(&world).await, [format!("longshore-admin-{ID}")]);
    // A binding of an older server names the user, in whose name releases act too: it is rewritten.
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin_client());
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
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the binding is rewritten", rewritten)
        .await;
    patch::<User>(&world, "ana", json!({"spec": {"platformRoles": ["reviewer-business"]}})).await;
    let gone = async || admin_bindings(&world).await.is_empty().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "no administrator", gone).await;
}

#[tokio::test]
async fn disabled_account_loses_only_its_service_account() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &user("ana", Some(ID))).await;
    let ready = async || user_is_ready(&world, "ana").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    let first = service_account(&world, ID).await.unwrap();
    patch::<User>(&world, "ana", json!({"spec": {"disabled": true}})).await;
    let closed = async || service_account(&world, ID).await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "no ServiceAccount", closed).await;
    assert_fully_provisioned(&world, ID).await;
    patch::<User>(&world, "ana", json!({"spec": {"disabled": false}})).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready again", ready).await;
    assert_ne!(service_account(&world, ID).await.unwrap().uid(), first.uid(), "old tokens are void");
    // Expiry closes the account, too.
    patch::<User>(&world, "ana", json!({"spec": {"validPeriod": 7}})).await;
    clock.advance(SignedDuration::from_hours(7 * 24));
    let expired = async || get::<User>(&world, "ana").await?.status?.expired.then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "expired", expired).await;
    assert!(service_account(&world, ID).await.is_none());
    let status = get::<User>(&world, "ana").await.unwrap().status.unwrap();
    let begun = status.effective_time.unwrap();
    assert_eq!(status.expire_time.unwrap().0, begun.0 + SignedDuration::from_hours(7 * 24));
}

#[tokio::test]
async fn members_are_bound_to_their_roles() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin"), ("longshore", "admin"), (OTHER_ID, "king")])).await;
    let ready = async || is_ready(&world, "acme").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    // Only ids become subjects, and only known roles are bound.
    assert_eq!(subjects_of_role(&world, "acme", "admin").await, ["longshore:ws:acme:admin", ID]);
    let members = json!([{"user": ID, "role": "viewer"}, {"user": OTHER_ID, "role": "admin"}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"members": members}})).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    assert_eq!(subjects_of_role(&world, "acme", "admin").await, ["longshore:ws:acme:admin", OTHER_ID]);
    assert_eq!(subjects_of_role(&world, "acme", "viewer").await, ["longshore:ws:acme:viewer", ID]);
}

#[tokio::test]
async fn namespaces_are_created_and_deleted_with_the_spec() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let both = json!([{"name": "acme"}, {"name": "acme-test", "share": {"pods": "10"}}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": both}})).await;
    let ready = async || is_ready(&world, "acme").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    assert_fully_provisioned(&world, "acme").await;
    assert_fully_provisioned(&world, "acme-test").await;
    let quota = list_in::<k8s_openapi::api::core::v1::ResourceQuota>(&world, "acme").await;
    assert_eq!(quota[0].spec.as_ref().unwrap().hard.as_ref().unwrap()["pods"].0, "40");
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let gone = async || {
        let recorded = get::<Workspace>(&world, "acme").await?.status?.namespaces.len();
        (recorded == 1 && get::<Namespace>(&world, "acme-test").await.is_none()).then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the second namespace is gone", gone)
        .await;
    assert_fully_provisioned(&world, "acme").await;
}

#[tokio::test]
async fn drift_of_provisioned_objects_is_corrected() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    let first: Namespace = get(&world, "acme").await.unwrap();
    let spoiled = async || {
        let bindings: Api<RoleBinding> = Api::namespaced(world.admin_client(), "acme");
        bindings.delete("longshore-ws-viewer", &DeleteParams::default()).await.unwrap();
        let policies: Api<NetworkPolicy> = Api::namespaced(world.admin_client(), "acme");
        let open = Patch::Merge(json!({"spec": {"egress": [{}]}}));
        policies.patch("longshore-default-deny", &PatchParams::default(), &open).await.unwrap();
        let privileged =
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
        patch::<Namespace>(&world, "acme", privileged).await;
    };
    let repaired = async || {
        let policies = list_in::<NetworkPolicy>(&world, "acme").await;
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
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "repaired", both).await;
    spoiled().await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "repaired after a start", repaired)
        .await;
    // Drift of the namespace itself.
    delete::<Namespace>(&world, "acme").await;
    let anew = async || {
        let namespace: Namespace = get(&world, "acme").await?;
        (namespace.uid() != first.uid() && names::<RoleBinding>(&world, "acme").await.len() == 6)
            .then_some(())?;
        is_ready(&world, "acme").await
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "made anew", anew).await;
    let records = get::<Workspace>(&world, "acme").await.unwrap().status.unwrap().namespaces;
    assert_eq!(Some(records[0].uid.clone()), get::<Namespace>(&world, "acme").await.unwrap().uid());
}

#[tokio::test]
async fn workspace_marked_for_removal_is_closed_and_can_be_restored() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    let ready = async || is_ready(&world, "acme").await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    let after = domain::clock::Clock::now(&clock) + SignedDuration::from_hours(24);
    patch::<Workspace>(
        &world,
        "acme",
        json!({"metadata": {"annotations": {well_known::REMOVE_AFTER: after.to_string()}}}),
    )
    .await;
    let closed = async || {
        let told = condition(&world, "acme", "Ready").await? == ("False".to_owned(), "Removing".to_owned());
        (told && names::<RoleBinding>(&world, "acme").await.is_empty()).then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "closed", closed).await;
    assert!(get::<Namespace>(&world, "acme").await.is_some());
    patch::<Workspace>(
        &world,
        "acme",
        json!({"metadata": {"annotations": {well_known::REMOVE_AFTER: null}}}),
    )
    .await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "restored", ready).await;
    assert_fully_provisioned(&world, "acme").await;
    patch::<Workspace>(
        &world,
        "acme",
        json!({"metadata": {"annotations": {well_known::REMOVE_AFTER: after.to_string()}}}),
    )
    .await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "closed", closed).await;
    clock.advance(SignedDuration::from_hours(24));
    let gone = async || get::<Workspace>(&world, "acme").await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "gone", gone).await;
    assert!(get::<Namespace>(&world, "acme").await.is_none());
}

#[tokio::test]
async fn deleted_account_takes_all_its_objects() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let mut ana = user("ana", Some(ID));
    ana.spec.platform_roles = vec!["admin".to_owned()];
    give_credentials(&world, ID).await;
    give_credentials(&world, OTHER_ID).await;
    create(&world, &ana).await;
    create(&world, &workspace("acme", &[(ID, "admin"), (OTHER_ID, "admin")])).await;
    let ready = async || user_is_ready(&world, "ana").await.and(is_ready(&world, "acme").await);
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", ready).await;
    delete::<User>(&world, "ana").await;
    let gone = async || get::<User>(&world, "ana").await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "gone", gone).await;
    assert!(get::<Workspace>(&world, ID).await.is_none() && get::<Namespace>(&world, ID).await.is_none());
    assert!(service_account(&world, ID).await.is_none() && secrets_of(&world, ID).await.is_empty());
    assert_eq!(admin_bindings(&world).await, Vec::<String>::new());
    assert_eq!(secrets_of(&world, OTHER_ID).await.len(), 1);
    let members = get::<Workspace>(&world, "acme").await.unwrap().spec.members;
    assert_eq!(members.iter().map(|member| member.user.as_str()).collect::<Vec<_>>(), [OTHER_ID]);
}

#[tokio::test]
async fn reconcile_writes_nothing_without_drift() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &user("ana", Some(ID))).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "told", async || {
        has_ready_event(&world, "ana").await
    })
    .await;
    // Reconciles everything again. Complete once the object created last has its event.
    let counted = FaultInjector::healthy();
    create(&world, &workspace("last", &[])).await;
    let writes_of = async |workspace: &str| {
        let made = counted.writes();
        run_controllers_until(&world, &counted, &clock, "told", async || {
            has_ready_event(&world, workspace).await
        })
        .await;
        counted.writes() - made
    };
    let for_last = writes_of("last").await;
    create(&world, &workspace("more", &[])).await;
    assert_eq!(writes_of("more").await, for_last, "only what is new is written");
}

#[tokio::test]
async fn namespaces_are_labelled_with_the_account_of_their_budgets() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &user("ana", Some(ID))).await;
    let made_by = |name: &str, id: &str| {
        let mut made = workspace(name, &[(id, "admin")]);
        made.labels_mut().insert(well_known::USER.to_owned(), id.to_owned());
        made
    };
    // Workspaces of administrators and those created by hand have budgets of their own.
    let mut admin = user("ben", Some(OTHER_ID));
    admin.spec.platform_roles = vec!["admin".to_owned()];
    create(&world, &admin).await;
    let users_ready = async || {
        user_is_ready(&world, "ana").await?;
        user_is_ready(&world, "ben").await
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "users", users_ready).await;
    create(&world, &made_by("acme", ID)).await;
    create(&world, &made_by("shared", OTHER_ID)).await;
    create(&world, &workspace("written", &[(ID, "admin")])).await;
    let account = async |name: &str| {
        let namespace = get::<Namespace>(&world, name).await?;
        Some(namespace.labels().get(well_known::ACCOUNT).cloned())
    };
    let expected = async || {
        for name in ["acme", "shared", "written"] {
            is_ready(&world, name).await?;
        }
        let own = Some(ID.to_owned());
        (account("acme").await? == own && account(ID).await? == own).then_some(())?;
        for name in ["shared", "written", OTHER_ID] {
            account(name).await?.is_none().then_some(())?;
        }
        Some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the labels", expected).await;

    // Namespaces without the label or with a wrong one are corrected.
    for (name, label) in [("acme", Value::Null), (ID, json!(OTHER_ID)), ("shared", json!(ID))] {
        patch::<Namespace>(&world, name, json!({"metadata": {"labels": {well_known::ACCOUNT: label}}})).await;
    }
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "the labels again", expected).await;
}
