//! Apply against the embedded cluster, with both strategies.

mod definitions;

use serde_json::json;
use testkit::{Fault, every_kill_point};

use super::*;
use crate::reserved::Reserved;
use crate::tell::Silent;
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

fn wanted() -> Vec<Object> {
    let mut wanted = objects(CHART);
    wanted.push(deployment("web", 1, json!({})));
    wanted
}

#[tokio::test]
async fn everything_is_written_once_in_order_and_marked_and_then_left_alone() {
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let town = Town::still().await;
        let (fault, ear) = (Fault::none(), Ear::default());
        let target = town.by(fault.over(town.target.client.clone()));
        let options = release("web", way);
        let applied = apply(&target, &[], &wanted(), &options, &ear).await.unwrap();
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
        assert_eq!(ear.steps().len(), 10);
        let live = town.get(DEPLOYMENT, "web").await.unwrap();
        assert_eq!(live["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
        assert_eq!(live["metadata"]["annotations"]["meta.helm.sh/release-name"], "web");
        let note = &live["metadata"]["managedFields"][0];
        let operation = if way == SERVER_SIDE { "Apply" } else { "Update" };
        assert_eq!((&note["manager"], &note["operation"]), (&json!("helm"), &json!(operation)));

        let again = apply(&target, &wanted(), &wanted(), &options, &Silent).await.unwrap();
        assert_eq!((again.unchanged.len(), again.created.len(), again.changed.len()), (5, 0, 0), "{way:?}");
        assert_eq!(town.get(DEPLOYMENT, "web").await.unwrap(), live);
    }
}

#[tokio::test]
async fn reserved_objects_are_written_with_their_own_client_or_left_alone() {
    let role = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let town = Town::still().await;
        let (fault, options) = (Fault::none(), release("web", way));
        let reserved: Vec<Id> = wanted().iter().map(|object| town.target.id(object)).collect();
        let reserved: Vec<Id> = reserved.into_iter().filter(|id| id.kind == "ClusterRole").collect();
        let left = Target { reserved: Reserved::left_alone(reserved.clone()), ..town.target.clone() };
        let applied = apply(&left, &[], &wanted(), &options, &Silent).await.unwrap();
        assert_eq!(applied.created.len(), 4);
        assert_eq!(town.get(role, "web").await, None);

        let client = fault.over(town.target.client.clone());
        let other = Target { reserved: Reserved::written_with(client, reserved), ..town.target.clone() };
        let applied = apply(&other, &wanted(), &wanted(), &options, &Silent).await.unwrap();
        assert_eq!(names(&applied.created), ["ClusterRole web"]);
        assert_eq!(
            (fault.calls(), fault.writes()),
            (2, 1),
            "one look and one write, of the reserved object alone"
        );

        // Objects left alone are neither removed nor read.
        let before = fault.calls();
        let applied = apply(&left, &wanted(), &[], &options, &Silent).await.unwrap();
        assert_eq!(applied.removed.len(), 4);
        assert!(town.get(role, "web").await.is_some());
        remove::remove(&left, &wanted(), &Removal::default(), &Silent).await.unwrap();
        assert!(town.get(role, "web").await.is_some());
        assert_eq!(fault.calls(), before);
        remove::remove(&other, &wanted(), &Removal::default(), &Silent).await.unwrap();
        assert_eq!(town.get(role, "web").await, None);
        assert_eq!(fault.writes(), 2);
    }
}

#[tokio::test]
async fn an_unknown_kind_is_named_with_its_file_before_anything_is_written() {
    let town = Town::still().await;
    let mut wanted = wanted();
    wanted.extend(objects(
        "# Source: c/templates/x.yaml\napiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: g}\n",
    ));
    let fault = Fault::none();
    let target = town.by(fault.over(town.target.client.clone()));
    let error = apply(&target, &[], &wanted, &release("web", SERVER_SIDE), &Silent).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Gadget g (c/templates/x.yaml): the cluster serves no kind `Gadget` in `x.dev/v1`"
    );
    assert_eq!((error.kind(), fault.writes()), (domain::Kind::Invalid, 0));
}

#[tokio::test]
async fn what_is_somebody_elses_is_refused_before_any_write_unless_it_is_taken() {
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let town = Town::still().await;
        let theirs = release("theirs", way);
        apply(&town.target, &[], &[map("a", json!({"k": "1"}))], &theirs, &Silent).await.unwrap();
        town.put(map("b", json!({"k": "1"})).into_value()).await;
        let wanted = [map("new", json!({})), map("a", json!({"k": "2"})), map("b", json!({"k": "2"}))];
        let mut ours = release("ours", way);
        let error = apply(&town.target, &[], &wanted, &ours, &Silent).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.failures.len(), 2);
        assert!(
            text.contains("ConfigMap shop/a: it exists and cannot be imported into the current release"),
            "{text}"
        );
        assert!(text.contains("must equal \"ours\": current value is \"theirs\""), "{text}");
        assert!(text.contains("ConfigMap shop/b"), "{text}");
        assert_eq!(error.kind(), domain::Kind::Conflict);
        assert_eq!(town.get(MAP, "new").await, None);

        ours.ownership.as_mut().unwrap().take = true;
        ours.way = match way {
            Way::ServerSide { .. } => Way::ServerSide { force_conflicts: true },
            Way::ThreeWay => Way::ThreeWay,
        };
        let applied = apply(&town.target, &[], &wanted, &ours, &Silent).await.unwrap();
        assert_eq!((applied.created.len(), applied.changed.len()), (1, 2));
        let taken = town.get(MAP, "a").await.unwrap();
        assert_eq!(taken["data"]["k"], "2");
        assert_eq!(taken["metadata"]["annotations"]["meta.helm.sh/release-name"], "ours");
    }
}

#[tokio::test]
async fn what_is_no_more_wanted_goes_unless_it_says_or_belongs_otherwise() {
    let town = Town::still().await;
    let options = release("web", SERVER_SIDE);
    let mut stays = map("stays", json!({})).into_value();
    stays["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    let stays = Object::from_value(stays).unwrap();
    let before = [
        map("goes", json!({})),
        stays,
        map("taken", json!({})),
        map("held", json!({})),
        map("kept", json!({})),
        map("gone", json!({})),
    ];
    apply(&town.target, &[], &before[..5], &options, &Silent).await.unwrap();
    let other = json!({"meta.helm.sh/release-name": "other", "meta.helm.sh/release-namespace": "shop"});
    town.change(MAP, "taken", json!({"metadata": {"annotations": other}})).await;
    let keep = json!({"helm.sh/resource-policy": "keep"});
    town.change(MAP, "held", json!({"metadata": {"annotations": keep}})).await;

    let ear = Ear::default();
    let applied = apply(&town.target, &before, &before[4..5], &options, &ear).await.unwrap();
    let mut removed = names(&applied.removed);
    removed.sort();
    assert_eq!(removed, ["ConfigMap shop/goes", "ConfigMap shop/gone"]);
    let mut kept = names(&applied.kept);
    kept.sort();
    assert_eq!(kept, ["ConfigMap shop/held", "ConfigMap shop/stays", "ConfigMap shop/taken"]);
    assert_eq!(town.get(MAP, "goes").await, None);
    assert!(town.get(MAP, "taken").await.is_some() && town.get(MAP, "stays").await.is_some());
    let reasons: Vec<String> = ear
        .steps()
        .into_iter()
        .filter_map(|step| match step {
            Step::Kept { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert!(reasons.contains(&"it belongs to the release shop/other".to_owned()), "{reasons:?}");
}

#[tokio::test]
async fn a_three_way_merge_leaves_what_others_set() {
    let town = Town::still().await;
    let options = release("web", Way::ThreeWay);
    let first = [deployment("web", 1, json!({"gone": "1", "stays": "1"}))];
    apply(&town.target, &[], &first, &options, &Silent).await.unwrap();
    let sidecar = json!({"name": "side", "image": "s:1"});
    let live = town.get(DEPLOYMENT, "web").await.unwrap();
    let own = live["spec"]["template"]["spec"]["containers"][0].clone();
    town.change(
        DEPLOYMENT,
        "web",
        json!({"spec": {"replicas": 5, "template": {"spec": {"containers": [own, sidecar]}}}}),
    )
    .await;

    let second = [deployment("web", 1, json!({"stays": "2"}))];
    let applied = apply(&town.target, &first, &second, &options, &Silent).await.unwrap();
    assert_eq!(applied.changed.len(), 1);
    let live = town.get(DEPLOYMENT, "web").await.unwrap();
    assert_eq!(live["spec"]["replicas"], 1);
    assert_eq!(live["spec"]["template"]["metadata"]["annotations"], json!({"stays": "2"}));
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>(), ["c", "side"]);
}

#[tokio::test]
async fn from_helm_3_to_helm_4_fields_can_still_be_taken_away() {
    let town = Town::still().await;
    let first = [map("a", json!({"old": "1", "kept": "1"}))];
    apply(&town.target, &[], &first, &release("web", Way::ThreeWay), &Silent).await.unwrap();
    let second = [map("a", json!({"kept": "2"}))];
    apply(&town.target, &first, &second, &release("web", SERVER_SIDE), &Silent).await.unwrap();
    let live = town.get(MAP, "a").await.unwrap();
    assert_eq!(live["data"], json!({"kept": "2"}));
    let notes = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        notes.iter().map(|note| (&note["manager"], &note["operation"])).collect::<Vec<_>>(),
        [(&json!("helm"), &json!("Apply"))]
    );
}

#[tokio::test]
async fn a_field_that_somebody_else_sets_is_a_conflict_unless_it_is_forced() {
    let town = Town::still().await;
    let options = release("web", SERVER_SIDE);
    let first = [map("a", json!({"k": "1"}))];
    apply(&town.target, &[], &first, &options, &Silent).await.unwrap();
    town.put(map("a", json!({"k": "theirs"})).into_value()).await;
    let second = [map("a", json!({"k": "2"})), map("b", json!({}))];
    let error = apply(&town.target, &first, &second, &options, &Silent).await.unwrap_err();
    assert!(error.to_string().contains("conflict with \"somebody\""), "{error}");
    // The other object of the wave was tried and is reported.
    assert_eq!(
        (error.kind(), names(&error.applied.created)),
        (domain::Kind::Conflict, vec!["ConfigMap shop/b".to_owned()])
    );
    let forced = release("web", Way::ServerSide { force_conflicts: true });
    apply(&town.target, &first, &second, &forced, &Silent).await.unwrap();
    assert_eq!(town.get(MAP, "a").await.unwrap()["data"]["k"], "2");
}

#[tokio::test]
async fn a_wave_that_fails_is_the_last() {
    let town = Town::still().await;
    let mut broken = deployment("web", 1, json!({})).into_value();
    broken["spec"]["selector"]["matchLabels"]["app"] = json!("another");
    let mut wanted = objects(CHART);
    wanted.push(Object::from_value(broken).unwrap());
    let error = apply(&town.target, &[], &wanted, &release("web", SERVER_SIDE), &Silent).await.unwrap_err();
    assert_eq!(error.failures.len(), 1);
    assert_eq!(
        (error.failures[0].id.to_string(), error.kind()),
        ("Deployment shop/web".to_owned(), domain::Kind::Invalid)
    );
    assert_eq!(error.applied.created.len(), 3);
    assert_eq!(town.get(("networking.k8s.io/v1", "Ingress"), "web").await, None);
}

#[tokio::test]
async fn no_message_repeats_what_a_secret_holds() {
    let town = Town::still().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": 424_242}});
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let wanted = [Object::from_value(secret.clone()).unwrap()];
        let error = apply(&town.target, &[], &wanted, &release("web", way), &Silent).await.unwrap_err();
        assert!(error.to_string().starts_with("Secret shop/s: "), "{error}");
        assert!(!format!("{error} {error:?}").contains("424242"), "{error:?}");
    }
}

#[tokio::test]
async fn a_dry_run_finds_what_is_wrong_and_keeps_nothing() {
    let town = Town::still().await;
    let first = [map("a", json!({"k": "1"})), map("b", json!({}))];
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let options = release("web", way);
        apply(&town.target, &[], &first, &options, &Silent).await.unwrap();
        let (a, b) = (town.get(MAP, "a").await, town.get(MAP, "b").await);
        let dry = Options { dry_run: true, ..options };
        let second = [map("a", json!({"k": "2"})), map("c", json!({}))];
        let applied = apply(&town.target, &first, &second, &dry, &Silent).await.unwrap();
        assert_eq!((applied.created.len(), applied.removed.len()), (1, 1));
        assert_eq!(
            (town.get(MAP, "a").await, town.get(MAP, "b").await, town.get(MAP, "c").await),
            (a, b, None)
        );
        let wrong = [map("a", json!({"k": {"not": "text"}}))];
        assert!(apply(&town.target, &first, &wrong, &dry, &Silent).await.is_err());
    }
}

#[tokio::test]
async fn an_object_that_stands_twice_is_written_as_it_is_wanted_last_and_one_without_a_name_each_time() {
    let town = Town::still().await;
    let mut nameless = map("x", json!({})).into_value();
    nameless["metadata"] = json!({"generateName": "made-"});
    let nameless = Object::from_value(nameless).unwrap();
    let wanted = [map("a", json!({"k": "1"})), map("a", json!({"k": "2"})), nameless.clone(), nameless];
    let applied = apply(&town.target, &[], &wanted, &release("web", SERVER_SIDE), &Silent).await.unwrap();
    assert_eq!(applied.created.len(), 3);
    assert_eq!(town.get(MAP, "a").await.unwrap()["data"]["k"], "2");
}

#[tokio::test]
async fn a_replacement_leaves_nothing_of_what_was() {
    let town = Town::still().await;
    let first = [map("a", json!({"k": "1"}))];
    let options = Options { force_replace: true, ..release("web", Way::ThreeWay) };
    apply(&town.target, &[], &first, &options, &Silent).await.unwrap();
    town.change(MAP, "a", json!({"data": {"theirs": "1"}})).await;
    let applied = apply(&town.target, &first, &first, &options, &Silent).await.unwrap();
    assert_eq!(applied.changed.len(), 1);
    assert_eq!(town.get(MAP, "a").await.unwrap()["data"], json!({"k": "1"}));
}

#[tokio::test]
async fn killed_after_any_write_and_begun_again_it_comes_to_the_same_end() {
    for way in [SERVER_SIDE, Way::ThreeWay] {
        let before = [map("goes", json!({"k": "1"})), map("changes", json!({"k": "1", "old": "1"}))];
        let after = [
            map("changes", json!({"k": "2"})),
            map("comes", json!({"k": "3"})),
            deployment("web", 1, json!({})),
        ];
        let options = release("web", way);
        let points = every_kill_point(
            async || {
                let town = Town::still().await;
                apply(&town.target, &[], &before, &options, &Silent).await.unwrap();
                town
            },
            async |town: &Town, fault: &Fault| {
                let target = town.by(fault.over(town.target.client.clone()));
                apply(&target, &before, &after, &options, &Silent).await.map(|_| ())
            },
            async |town: &Town| {
                assert_eq!(town.get(MAP, "goes").await, None);
                assert_eq!(town.get(MAP, "changes").await.unwrap()["data"], json!({"k": "2"}));
                assert_eq!(town.get(MAP, "comes").await.unwrap()["data"], json!({"k": "3"}));
                assert!(town.get(DEPLOYMENT, "web").await.is_some());
            },
        );
        assert_eq!(points.await, 4, "{way:?}");
    }
}

/// A request of a stopped client may still create its object after the next attempt has read it.
#[tokio::test]
async fn create_merges_own_object_that_appeared_meanwhile_and_refuses_foreign_one() {
    let town = Town::still().await;
    let object = map("late", json!({"k": "1"}));
    let placed = town.target.place(std::slice::from_ref(&object)).await.unwrap().remove(0);
    let work = Work { placed, last: None, found: None };
    let client = &town.target.client;
    apply(&town.target, &[], &[map("late", json!({"k": "0"}))], &release("web", Way::ThreeWay), &Silent)
        .await
        .unwrap();
    let own = write::write(client, &work, &release("web", Way::ThreeWay)).await.unwrap();
    assert_eq!(own, crate::tell::Outcome::Changed);
    assert_eq!(town.get(MAP, "late").await.unwrap()["data"], json!({"k": "1"}));
    let foreign = write::write(client, &work, &release("other", Way::ThreeWay)).await;
    assert!(matches!(foreign, Err(kube::Error::Api(status)) if status.is_already_exists()));
}

/// Controllers run on several threads, so the futures must be `Send`.
#[test]
fn all_of_it_may_go_from_thread_to_thread() {
    fn goes<T: Send>(_: impl FnOnce(&'static Target) -> T) {}
    let ignored: &crate::drift::Ignored<'static> = &|_| Vec::new();
    goes(|target| async { apply(target, &[], &[], &Options::new(SERVER_SIDE), &Silent).await.is_ok() });
    goes(|target| async { remove::remove(target, &[], &Removal::default(), &Silent).await.is_ok() });
    goes(|target| async {
        ready::wait(target, &[], Strategy::Watcher, Instant::now(), &Silent).await.is_ok()
    });
    goes(move |target| async move {
        crate::drift::find(target, &[], &Ownership::new("a", "b"), ignored, &[]).await.is_ok()
    });
    goes(|target| async { crate::drift::correct(target, &[], &Silent).await.is_ok() });
    goes(|target| async { crate::fit::room(&[], target, &[], &[]).await.is_ok() });
    goes(|target| async { crate::fit::Turns::read(target, &[], &[]).await.is_ok() });
    goes(|target| async { crate::fit::Nodes::read(&target.client).await.is_ok() });
}
