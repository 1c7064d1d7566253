//! Tests of events and their visibility.

use domain::ErrorKind;
use serde_json::{Value, json};
use testkit::TestCluster;

use super::*;
use crate::testing::{self, ALL, FleetHarness, administrator, id, namespace, node_object, user};

fn event_object(value: Value) -> EventObject {
    serde_json::from_value(value).unwrap()
}

#[test]
fn row_has_time_count_and_source_of_the_event() {
    let made = json!({"name": "e", "namespace": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
    #[rustfmt::skip]
    let table = [
        (json!({}), "2026-01-01T00:00:00Z", 1, ""),
        (json!({"eventTime": "2026-01-02T00:00:00.123456Z", "reportingComponent": "sched"}), "2026-01-02T00:00:00Z", 1, "sched"),
        (json!({"eventTime": null, "lastTimestamp": "2026-01-03T00:00:00Z", "count": 4, "source": {"component": "kubelet"}}), "2026-01-03T00:00:00Z", 4, "kubelet"),
        (json!({"lastTimestamp": "2026-01-03T00:00:00Z", "count": 4,
                "series": {"count": 9, "lastObservedTime": "2026-01-04T00:00:00.000000Z"}}), "2026-01-04T00:00:00Z", 9, ""),
        (json!({"count": 0, "source": {"component": ""}, "reportingComponent": "x"}), "2026-01-01T00:00:00Z", 1, "x"),
    ];
    for (mut event, timestamp, count, source) in table {
        event["metadata"] = made.clone();
        let row = event_object(event).row();
        assert_eq!((row.timestamp.as_str(), row.count, row.source.as_str()), (timestamp, count, source));
    }
    let row = event_object(json!({
        "metadata": made, "type": "Warning", "reason": "BackOff", "message": "Back-off restarting failed container",
        "involvedObject": {"kind": "Pod", "name": "web-0", "namespace": "x"},
    }))
    .row();
    assert_eq!(
        (row.object.as_str(), row.info.as_str(), row.namespace.as_str()),
        ("Pod/web-0", "BackOff", "x")
    );
    let bare = event_object(json!({"metadata": {}})).row();
    assert_eq!((bare.object.as_str(), bare.timestamp.as_str()), ("/", ""));
}

#[test]
fn cursor_round_trips() {
    let place = EventCursor(Reverse(1_767_323_045_000_123), "x".to_owned(), "web-0.17a".to_owned());
    assert_eq!(EventCursor::parse(&place.to_token()).unwrap(), place);
    for wrong in ["", "x", "1", "1/x", "one/x/y", &format!("1/{}/y", "x".repeat(300))] {
        assert_eq!(EventCursor::parse(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
    }
}

fn event(namespace: &str, name: &str, about: (&str, &str), kind: &str, minute: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": about.0, "name": about.1, "namespace": if about.0 == "Node" { "" } else { namespace }},
        "type": kind, "reason": "R", "message": name, "count": 1, "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-02T03:00:00Z", "lastTimestamp": format!("2026-01-02T03:{minute:02}:00Z"),
    })
}

async fn world_with_events() -> TestCluster {
    let world = TestCluster::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    world.apply([namespace(&one), namespace(&other)]).await;
    testing::put(&world, node_object("mine", json!({"openyurt/tenant": one}), "True")).await;
    testing::put(&world, node_object("theirs", json!({"openyurt/tenant": other}), "True")).await;
    // The bindings that tenancy creates for users.
    world
        .apply([
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "own", "namespace": one},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("longshore:user:{one}")}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "admin"},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("longshore:user:{}", id(31))}]}),
            event(&one, "started", ("Pod", "web-0"), "Normal", 1),
            event(&one, "crashed", ("Pod", "web-1"), "Warning", 5),
            event(&other, "secret", ("Pod", "x"), "Warning", 6),
            event("default", "node-gone", ("Node", "mine"), "Warning", 3),
            event("default", "node-other", ("Node", "theirs"), "Warning", 4),
            event("default", "pod-of-default", ("Pod", "mine"), "Warning", 7),
        ])
        .await;
    world
}

fn messages(list: &EventList) -> Vec<&str> {
    list.items.iter().map(|event| event.content.as_str()).collect()
}

#[tokio::test]
async fn events_are_restricted_by_visibility_newest_first() {
    let stage = FleetHarness::with(world_with_events().await, testing::settings()).await;
    let (one, names) = (id(1), [id(1).to_string()]);
    let whose = Visibility { tenant: Some(one.as_str()), namespaces: Namespaces::Only(&names) };
    let read = async |wish: EventQuery| stage.fleet.events(&user(1), whose, &wish).await.unwrap();
    let all = read(EventQuery::default()).await;
    assert_eq!((messages(&all), all.more.as_str()), (vec!["crashed", "node-gone", "started"], ""));

    let text = |text: &str| Some(text.to_owned());
    let some = |wish: EventQuery| async { read(wish).await.items.len() };
    assert_eq!(some(EventQuery { event_type: text("Warning"), ..EventQuery::default() }).await, 2);
    assert_eq!(some(EventQuery { kind: text("Node"), ..EventQuery::default() }).await, 1);
    assert_eq!(some(EventQuery { name: text("web-0"), ..EventQuery::default() }).await, 1);
    assert_eq!(
        some(EventQuery { since: Some("2026-01-02T03:03:00Z".parse().unwrap()), ..EventQuery::default() })
            .await,
        2
    );

    // Each event is on exactly one page.
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = read(EventQuery { limit: Some(1), after, ..EventQuery::default() }).await;
        seen.extend(page.items.iter().map(|event| event.content.clone()));
        if page.more.is_empty() {
            break;
        }
        after = Some(EventCursor::parse(&page.more).unwrap());
    }
    assert_eq!(seen, ["crashed", "node-gone", "started"]);

    // Kubernetes authorises the request, whatever the given visibility.
    let theirs = [id(2).to_string()];
    let foreign = Visibility { tenant: Some(one.as_str()), namespaces: Namespaces::Only(&theirs) };
    let refused = stage.fleet.events(&user(1), foreign, &EventQuery::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);

    let all = stage.fleet.events(&administrator(), ALL, &EventQuery::default()).await.unwrap();
    assert_eq!(messages(&all), ["pod-of-default", "secret", "crashed", "node-other", "node-gone", "started"]);
    let default = ["default".to_owned()];
    let whose = Visibility { tenant: None, namespaces: Namespaces::Only(&default) };
    let all = stage.fleet.events(&administrator(), whose, &EventQuery::default()).await.unwrap();
    assert_eq!(messages(&all), ["pod-of-default", "node-other", "node-gone"]);
}
