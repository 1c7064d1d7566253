//! Reconciles that panic.

use k8s_openapi::api::events::v1::Event;
use prometheus_client::registry::Registry;

use super::*;

/// The number of panics of a controller in the metrics.
fn counted_panics(controller: &str) -> u64 {
    let (mut registry, mut text) = (Registry::default(), String::new());
    kube_access::controller::runtime().register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let metric = format!("reconcile_panics_total{{controller=\"{controller}\"}} ");
    let count = text.lines().find_map(|line| line.strip_prefix(&metric));
    count.map_or(0, |count| count.parse().unwrap())
}

/// The events of panicked reconciles, by kind and name of their objects.
async fn panic_events(world: &TestCluster) -> Vec<(String, String, Event)> {
    let events = list_in::<Event>(world, "default").await.into_iter();
    events
        .filter(|event| event.reason.as_deref() == Some("ReconcilePanicked"))
        .map(|event| {
            let object = event.regarding.clone().unwrap();
            (object.kind.unwrap(), object.name.unwrap(), event)
        })
        .collect()
}

#[tokio::test]
async fn reconcile_that_panics_is_counted_reported_as_an_event_and_retried() {
    let (world, clock, fault) = (test_cluster().await, ManualClock::new(), FaultInjector::healthy());
    let (users, workspaces) = (counted_panics("user"), counted_panics("workspace"));
    fault.panic_once(&format!("{}/acme", Workspace::url_path(&(), None)));
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    run_controllers_until(&world, &fault, &clock, "retried", async || is_ready(&world, "acme").await).await;
    fault.panic_once(&format!("{}/ana", User::url_path(&(), None)));
    create(&world, &user("ana", Some(ID))).await;
    run_controllers_until(&world, &fault, &clock, "retried", async || user_is_ready(&world, "ana").await)
        .await;
    assert!(counted_panics("user") > users && counted_panics("workspace") > workspaces);
    let uids = [
        ("Workspace", "acme", get::<Workspace>(&world, "acme").await.unwrap().metadata.uid),
        ("User", "ana", get::<User>(&world, "ana").await.unwrap().metadata.uid),
    ];
    let events = panic_events(&world).await;
    assert_eq!(events.len(), uids.len(), "{events:?}");
    for (kind, name, uid) in uids {
        let found = events.iter().find(|(of, named, _)| (&**of, &**named) == (kind, name));
        let (.., event) = found.unwrap_or_else(|| panic!("{kind} {name}: {events:?}"));
        // kubectl describe selects events by the UID.
        assert_eq!(event.regarding.as_ref().unwrap().uid, uid);
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert!(!event.note.as_deref().unwrap().contains("injected"), "{event:?}");
    }
}
