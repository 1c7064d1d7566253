//! Apply against the embedded cluster, with both strategies.

mod crds;

use kube_embedded::access::User;
use serde_json::json;
use testkit::{FaultInjector, every_kill_point};

use super::*;
use crate::progress::NoProgress;
use crate::reserved::ReservedObjects;
use crate::testing::*;

const CHART: &str = "
# Source: c/templates/ingress.yaml
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
# Source: c/templates/service.yaml
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}], selector: {app: web}}
---
# Source: c/templates/account.yaml
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
# Source: c/templates/role.yaml
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: web, namespace: ignored}
rules: []
";

fn desired_objects() -> Vec<Object> {
    let mut wanted = objects(CHART);
    wanted.push(deployment("web", 1, json!({})));
    wanted
}

#[tokio::test]
async fn apply_writes_objects_once_in_order_with_ownership() {
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let town = TestCluster::without_controllers().await;
        let (fault, ear) = (FaultInjector::healthy(), RecordingSink::default());
        let target = town.target_with_client(fault.wrap(town.target.client.clone()));
        let options = release_options("web", way);
        let applied = apply(&target, &[], &desired_objects(), &options, &ear).await.unwrap();
        assert_eq!(
            names(&applied.created),
            [
                "ServiceAccount shop/web",
                "ClusterRole web",
                "Service shop/web",
                "Deployment shop/web",
                "Ingress shop/web"
            ]
        );
        // One read and one write per object, no discovery.
        assert_eq!((fault.calls(), fault.writes()), (10, 5));
        assert_eq!(ear.events().len(), 10);
        let live = town.get(DEPLOYMENT, "web").await.unwrap();
        assert_eq!(live["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(live["metadata"]["annotations"]["meta.helm.sh/release-name"], "web");
        let note = &live["metadata"]["managedFields"][0];
        let operation = if way == SERVER_SIDE { "Apply" } else { "Update" };
        assert_eq!((&note["manager"], &note["operation"]), (&json!("helm"), &json!(operation)));

        let again =
            apply(&target, &desired_objects(), &desired_objects(), &options, &NoProgress).await.unwrap();
        assert_eq!((again.unchanged.len(), again.created.len(), again.changed.len()), (5, 0, 0), "{way:?}");
        assert_eq!(town.get(DEPLOYMENT, "web").await.unwrap(), live);
    }
}

#[tokio::test]
async fn reserved_objects_are_written_with_their_own_client_or_left_alone() {
    let role = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let town = TestCluster::without_controllers().await;
        let (fault, options) = (FaultInjector::healthy(), release_options("web", way));
        let reserved: Vec<ObjectId> = desired_objects().iter().map(|object| town.target.id(object)).collect();
        let reserved: Vec<ObjectId> = reserved.into_iter().filter(|id| id.kind == "ClusterRole").collect();
        let left = Target { reserved: ReservedObjects::skipped(reserved.clone()), ..town.target.clone() };
        let applied = apply(&left, &[], &desired_objects(), &options, &NoProgress).await.unwrap();
        assert_eq!(applied.created.len(), 4);
        assert_eq!(town.get(role, "web").await, None);

        let client = fault.wrap(town.target.client.clone());
        let other =
            Target { reserved: ReservedObjects::with_client(client, reserved), ..town.target.clone() };
        let applied =
            apply(&other, &desired_objects(), &desired_objects(), &options, &NoProgress).await.unwrap();
        assert_eq!(names(&applied.created), ["ClusterRole web"]);
        assert_eq!(
            (fault.calls(), fault.writes()),
            (2, 1),
            "one look and one write, of the reserved object alone"
        );

        // Objects left alone are neither removed nor read.
        let before = fault.calls();
        let applied = apply(&left, &desired_objects(), &[], &options, &NoProgress).await.unwrap();
        assert_eq!(applied.removed.len(), 4);
        assert!(town.get(role, "web").await.is_some());
        remove::remove(&left, &desired_objects(), &RemoveOptions::default(), &NoProgress).await.unwrap();
        assert!(town.get(role, "web").await.is_some());
        assert_eq!(fault.calls(), before);
        remove::remove(&other, &desired_objects(), &RemoveOptions::default(), &NoProgress).await.unwrap();
        assert_eq!(town.get(role, "web").await, None);
        assert_eq!(fault.writes(), 2);
    }
}

#[tokio::test]
async fn unknown_kind_fails_before_any_write() {
    let town = TestCluster::without_controllers().await;
    let mut wanted = desired_objects();
    wanted.extend(objects(
        "# Source: c/templates/x.yaml\napiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\n",
    ));
    let fault = FaultInjector::healthy();
    let target = town.target_with_client(fault.wrap(town.target.client.clone()));
    let error =
        apply(&target, &[], &wanted, &release_options("web", SERVER_SIDE), &NoProgress).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Gadget g (c/templates/x.yaml): the cluster serves no kind `Gadget` in `x.dev/v1`"
    );
    assert_eq!((error.kind(), fault.writes()), (domain::ErrorKind::Invalid, 0));
}

#[tokio::test]
async fn foreign_objects_fail_before_any_write_unless_taken_over() {
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let town = TestCluster::without_controllers().await;
        let theirs = release_options("theirs", way);
        apply(&town.target, &[], &[config_map("a", json!({"k": "1"}))], &theirs, &NoProgress).await.unwrap();
        town.put(config_map("b", json!({"k": "1"})).into_value()).await;
        let wanted = [
            config_map("new", json!({})),
            config_map("a", json!({"k": "2"})),
            config_map("b", json!({"k": "2"})),
        ];
        let mut ours = release_options("ours", way);
        let error = apply(&town.target, &[], &wanted, &ours, &NoProgress).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.failures.len(), 2);
        assert!(
            text.contains("ConfigMap shop/a: it exists and cannot be imported into the current release"),
            "{text}"
        );
        assert!(text.contains("must equal \"ours\": current value is \"theirs\""), "{text}");
        assert!(text.contains("ConfigMap shop/b"), "{text}");
        assert_eq!(error.kind(), domain::ErrorKind::Conflict);
        assert_eq!(town.get(CONFIG_MAP, "new").await, None);

        ours.ownership.as_mut().unwrap().take_ownership = true;
        ours.strategy = match way {
            ApplyStrategy::ServerSide { .. } => ApplyStrategy::ServerSide { force_conflicts: true },
            ApplyStrategy::ThreeWay => ApplyStrategy::ThreeWay,
        };
        let applied = apply(&town.target, &[], &wanted, &ours, &NoProgress).await.unwrap();
        assert_eq!((applied.created.len(), applied.changed.len()), (1, 2));
        let taken = town.get(CONFIG_MAP, "a").await.unwrap();
        assert_eq!(taken["data"]["k"], "2");
        assert_eq!(taken["metadata"]["annotations"]["meta.helm.sh/release-name"], "ours");
    }
}

#[tokio::test]
async fn obsolete_objects_are_removed_unless_kept_or_foreign() {
    let town = TestCluster::without_controllers().await;
    let options = release_options("web", SERVER_SIDE);
    let mut stays = config_map("stays", json!({})).into_value();
    stays["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    let stays = Object::from_value(stays).unwrap();
    let before = [
        config_map("goes", json!({})),
        stays,
        config_map("taken", json!({})),
        config_map("held", json!({})),
        config_map("kept", json!({})),
        config_map("gone", json!({})),
    ];
    apply(&town.target, &[], &before[..5], &options, &NoProgress).await.unwrap();
    let other = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "shop"});
    town.patch(CONFIG_MAP, "taken", json!({"metadata": {"annotations": other}})).await;
    let keep = json!({"helm.sh/resource-policy": "keep"});
    town.patch(CONFIG_MAP, "held", json!({"metadata": {"annotations": keep}})).await;

    let ear = RecordingSink::default();
    let applied = apply(&town.target, &before, &before[4..5], &options, &ear).await.unwrap();
    let mut removed = names(&applied.removed);
    removed.sort();
    assert_eq!(removed, ["ConfigMap shop/goes", "ConfigMap shop/gone"]);
    let mut kept = names(&applied.kept);
    kept.sort();
    assert_eq!(kept, ["ConfigMap shop/held", "ConfigMap shop/stays", "ConfigMap shop/taken"]);
    assert_eq!(town.get(CONFIG_MAP, "goes").await, None);
    assert!(town.get(CONFIG_MAP, "taken").await.is_some() && town.get(CONFIG_MAP, "stays").await.is_some());
    let reasons: Vec<String> = ear
        .events()
        .into_iter()
        .filter_map(|step| match step {
            ProgressEvent::Kept { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert!(reasons.contains(&"it belongs to the release shop/other".to_owned()), "{reasons:?}");
}

#[tokio::test]
async fn three_way_merge_preserves_fields_of_others() {
    let town = TestCluster::without_controllers().await;
    let options = release_options("web", ApplyStrategy::ThreeWay);
    let first = [deployment("web", 1, json!({"gone": "1", "stays": "1"}))];
    apply(&town.target, &[], &first, &options, &NoProgress).await.unwrap();
    let sidecar = json!({"name": "side", "image": "s:1"});
    let live = town.get(DEPLOYMENT, "web").await.unwrap();
    let own = live["spec"]["template"]["spec"]["containers"][0].clone();
    town.patch(
        DEPLOYMENT,
        "web",
        json!({"spec": {"replicas": 5, "template": {"spec": {"containers": [own, sidecar]}}}}),
    )
    .await;

    let second = [deployment("web", 1, json!({"stays": "2"}))];
    let applied = apply(&town.target, &first, &second, &options, &NoProgress).await.unwrap();
    assert_eq!(applied.changed.len(), 1);
    let live = town.get(DEPLOYMENT, "web").await.unwrap();
    assert_eq!(live["spec"]["replicas"], 1);
    assert_eq!(live["spec"]["template"]["metadata"]["annotations"], json!({"stays": "2"}));
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>(), ["c", "side"]);
}

#[tokio::test]
async fn untrusted_base_is_used_only_if_its_client_may_write_the_object() {
    let town = TestCluster::without_controllers().await;
    let options = release_options("web", ApplyStrategy::ThreeWay);
    let first = [config_map("a", json!({"old": "1", "kept": "1"}))];
    apply(&town.target, &[], &first, &options, &NoProgress).await.unwrap();
    let nobody = town.cluster.client(User::named("nobody", &[]));
    let second = [config_map("a", json!({"kept": "2"}))];
    for (client, data) in
        [(nobody, json!({"old": "1", "kept": "2"})), (town.target.client.clone(), json!({"kept": "2"}))]
    {
        let untrusted = Some(UntrustedBases { objects: first.to_vec(), client });
        let options = ApplyOptions { untrusted, ..options.clone() };
        apply(&town.target, &[], &second, &options, &NoProgress).await.unwrap();
        assert_eq!(town.get(CONFIG_MAP, "a").await.unwrap()["data"], data);
    }
}

#[tokio::test]
async fn fields_are_removed_after_upgrade_from_helm_3_to_helm_4() {
    let town = TestCluster::without_controllers().await;
    let first = [config_map("a", json!({"old": "1", "kept": "1"}))];
    apply(&town.target, &[], &first, &release_options("web", ApplyStrategy::ThreeWay), &NoProgress)
        .await
        .unwrap();
    let second = [config_map("a", json!({"kept": "2"}))];
    apply(&town.target, &first, &second, &release_options("web", SERVER_SIDE), &NoProgress).await.unwrap();
    let live = town.get(CONFIG_MAP, "a").await.unwrap();
    assert_eq!(live["data"], json!({"kept": "2"}));
    let notes = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        notes.iter().map(|note| (&note["manager"], &note["operation"])).collect::<Vec<_>>(),
        [(&json!("helm"), &json!("Apply"))]
    );
}

#[tokio::test]
async fn field_of_another_manager_is_a_conflict_unless_forced() {
    let town = TestCluster::without_controllers().await;
    let options = release_options("web", SERVER_SIDE);
    let first = [config_map("a", json!({"k": "1"}))];
    apply(&town.target, &[], &first, &options, &NoProgress).await.unwrap();
    town.put(config_map("a", json!({"k": "theirs"})).into_value()).await;
    let second = [config_map("a", json!({"k": "2"})), config_map("b", json!({}))];
    let error = apply(&town.target, &first, &second, &options, &NoProgress).await.unwrap_err();
    assert!(error.to_string().contains("conflict with \"somebody\""), "{error}");
    // The other object of the wave was tried and is reported.
    assert_eq!(
        (error.kind(), names(&error.applied.created)),
        (domain::ErrorKind::Conflict, vec!["ConfigMap shop/b".to_owned()])
    );
    let forced = release_options("web", ApplyStrategy::ServerSide { force_conflicts: true });
    apply(&town.target, &first, &second, &forced, &NoProgress).await.unwrap();
    assert_eq!(town.get(CONFIG_MAP, "a").await.unwrap()["data"]["k"], "2");
}

#[tokio::test]
async fn apply_stops_after_a_failed_wave() {
    let town = TestCluster::without_controllers().await;
    let mut broken = deployment("web", 1, json!({})).into_value();
    broken["spec"]["selector"]["matchLabels"]["app"] = json!("another");
    let mut wanted = objects(CHART);
    wanted.push(Object::from_value(broken).unwrap());
    let error = apply(&town.target, &[], &wanted, &release_options("web", SERVER_SIDE), &NoProgress)
        .await
        .unwrap_err();
    assert_eq!(error.failures.len(), 1);
    assert_eq!(
        (error.failures[0].id.to_string(), error.kind()),
        ("Deployment shop/web".to_owned(), domain::ErrorKind::Invalid)
    );
    assert_eq!(error.applied.created.len(), 3);
    assert_eq!(town.get(("networking.k8s.io/v1", "Ingress"), "web").await, None);
}

#[tokio::test]
async fn errors_do_not_disclose_secret_data() {
    let town = TestCluster::without_controllers().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": 424_242}});
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let wanted = [Object::from_value(secret.clone()).unwrap()];
        let error =
            apply(&town.target, &[], &wanted, &release_options("web", way), &NoProgress).await.unwrap_err();
        assert!(error.to_string().starts_with("Secret shop/s: "), "{error}");
        assert!(!format!("{error} {error:?}").contains("424242"), "{error:?}");
    }
}

#[tokio::test]
async fn dry_run_validates_and_writes_nothing() {
    let town = TestCluster::without_controllers().await;
    let first = [config_map("a", json!({"k": "1"})), config_map("b", json!({}))];
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let options = release_options("web", way);
        apply(&town.target, &[], &first, &options, &NoProgress).await.unwrap();
        let (a, b) = (town.get(CONFIG_MAP, "a").await, town.get(CONFIG_MAP, "b").await);
        let dry = ApplyOptions { dry_run: true, ..options };
        let second = [config_map("a", json!({"k": "2"})), config_map("c", json!({}))];
        let applied = apply(&town.target, &first, &second, &dry, &NoProgress).await.unwrap();
        assert_eq!((applied.created.len(), applied.removed.len()), (1, 1));
        assert_eq!(
            (
                town.get(CONFIG_MAP, "a").await,
                town.get(CONFIG_MAP, "b").await,
                town.get(CONFIG_MAP, "c").await
            ),
            (a, b, None)
        );
        let wrong = [config_map("a", json!({"k": {"not": "text"}}))];
        assert!(apply(&town.target, &first, &wrong, &dry, &NoProgress).await.is_err());
    }
}

#[tokio::test]
async fn last_duplicate_is_written_and_generated_names_each_time() {
    let town = TestCluster::without_controllers().await;
    let mut nameless = config_map("x", json!({})).into_value();
    nameless["metadata"] = json!({"generateName": "made-"});
    let nameless = Object::from_value(nameless).unwrap();
    let wanted =
        [config_map("a", json!({"k": "1"})), config_map("a", json!({"k": "2"})), nameless.clone(), nameless];
    let applied =
        apply(&town.target, &[], &wanted, &release_options("web", SERVER_SIDE), &NoProgress).await.unwrap();
    assert_eq!(applied.created.len(), 3);
    assert_eq!(town.get(CONFIG_MAP, "a").await.unwrap()["data"]["k"], "2");
}

#[tokio::test]
async fn force_replace_drops_fields_of_others() {
    let town = TestCluster::without_controllers().await;
    let first = [config_map("a", json!({"k": "1"}))];
    let options = ApplyOptions { force_replace: true, ..release_options("web", ApplyStrategy::ThreeWay) };
    apply(&town.target, &[], &first, &options, &NoProgress).await.unwrap();
    town.patch(CONFIG_MAP, "a", json!({"data": {"theirs": "1"}})).await;
    let applied = apply(&town.target, &first, &first, &options, &NoProgress).await.unwrap();
    assert_eq!(applied.changed.len(), 1);
    assert_eq!(town.get(CONFIG_MAP, "a").await.unwrap()["data"], json!({"k": "1"}));
}

#[tokio::test]
async fn apply_converges_when_killed_after_any_write() {
    for way in [SERVER_SIDE, ApplyStrategy::ThreeWay] {
        let before =
            [config_map("goes", json!({"k": "1"})), config_map("changes", json!({"k": "1", "old": "1"}))];
        let after = [
            config_map("changes", json!({"k": "2"})),
            config_map("comes", json!({"k": "3"})),
            deployment("web", 1, json!({})),
        ];
        let options = release_options("web", way);
        let points = every_kill_point(
            async || {
                let town = TestCluster::without_controllers().await;
                apply(&town.target, &[], &before, &options, &NoProgress).await.unwrap();
                town
            },
            async |town: &TestCluster, fault: &FaultInjector| {
                let target = town.target_with_client(fault.wrap(town.target.client.clone()));
                apply(&target, &before, &after, &options, &NoProgress).await.map(|_| ())
            },
            async |town: &TestCluster| {
                assert_eq!(town.get(CONFIG_MAP, "goes").await, None);
                assert_eq!(town.get(CONFIG_MAP, "changes").await.unwrap()["data"], json!({"k": "2"}));
                assert_eq!(town.get(CONFIG_MAP, "comes").await.unwrap()["data"], json!({"k": "3"}));
                assert!(town.get(DEPLOYMENT, "web").await.is_some());
            },
        );
        assert_eq!(points.await, 4, "{way:?}");
    }
}

/// A request of a stopped client may still create its object after the next attempt has read it.
#[tokio::test]
async fn create_merges_own_object_that_appeared_meanwhile_and_refuses_foreign_one() {
    let town = TestCluster::without_controllers().await;
    let object = config_map("late", json!({"k": "1"}));
    let placed = town.target.resolve(std::slice::from_ref(&object)).await.unwrap().remove(0);
    let work = PlannedWrite { placed, previous: None, untrusted_base: None, live: None };
    let target = &town.target;
    apply(
        target,
        &[],
        &[config_map("late", json!({"k": "0"}))],
        &release_options("web", ApplyStrategy::ThreeWay),
        &NoProgress,
    )
    .await
    .unwrap();
    let own = write::write(target, &work, &release_options("web", ApplyStrategy::ThreeWay)).await.unwrap();
    assert_eq!(own, crate::progress::WriteOutcome::Changed);
    assert_eq!(town.get(CONFIG_MAP, "late").await.unwrap()["data"], json!({"k": "1"}));
    let foreign = write::write(target, &work, &release_options("other", ApplyStrategy::ThreeWay)).await;
    assert!(matches!(foreign, Err(kube::Error::Api(status)) if status.is_already_exists()));
}

/// Controllers run on several threads, so the futures must be `Send`.
#[test]
fn futures_are_send() {
    fn goes<T: Send>(_: impl FnOnce(&'static Target) -> T) {}
    let ignored: &crate::drift::IgnorePathsFn<'static> = &|_| Vec::new();
    goes(|target| async {
        apply(target, &[], &[], &ApplyOptions::new(SERVER_SIDE), &NoProgress).await.is_ok()
    });
    goes(|target| async {
        remove::remove(target, &[], &RemoveOptions::default(), &NoProgress).await.is_ok()
    });
    goes(|target| async {
        readiness::wait_until_ready(target, &[], WaitStrategy::Watcher, Instant::now(), &NoProgress)
            .await
            .is_ok()
    });
    goes(move |target| async move {
        crate::drift::find(target, &[], &Ownership::new("a", "b"), ignored, &[]).await.is_ok()
    });
    goes(|target| async { crate::drift::correct(target, &[], &NoProgress).await.is_ok() });
    goes(|target| async { crate::capacity::quota_shortages(&[], target, &[], &[]).await.is_ok() });
    goes(|target| async { crate::capacity::ObjectChanges::read(target, &[], &[]).await.is_ok() });
    goes(|target| async { crate::capacity::NodeHeadroom::read(&target.client).await.is_ok() });
}
