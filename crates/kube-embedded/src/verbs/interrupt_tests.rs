//! Tests of interrupts between two steps of a call.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

fn call(cluster: &Cluster, verb: &'static str, left: Duration) -> ResourceRequest {
    ResourceRequest {
        cluster: cluster.clone(),
        verb,
        resource: cluster.registry().get("", "v1", "configmaps").unwrap().clone(),
        subresource: String::new(),
        via_subresource: "",
        namespace: "default".to_owned(),
        name: if verb == "create" { String::new() } else { "a".to_owned() },
        user: User::admin(),
        level: PriorityLevel::Platform,
        query: Query::default(),
        representation: Representation::default(),
        user_agent: "test".to_owned(),
        content_type: None,
        body: Bytes::new(),
        warnings: Mutex::default(),
        flow: None,
        interrupt: Some(Interrupt::with_deadline(Instant::now() + left)),
        error_format: Format::Json,
    }
}

/// Blocks until the call's deadline has passed.
fn long_step() {
    std::thread::sleep(Duration::from_millis(300));
}

const SHORT_TIME_LEFT: Duration = Duration::from_millis(200);
const LONG_TIME_LEFT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn interrupted_create_and_update_stop_after_the_step_and_write_nothing() {
    let cluster = Cluster::in_memory().await;
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let code = |answer: Result<ResourceResponse>| answer.map_or_else(|error| error.code, |_| 200);
    let interrupted =
        create::insert(&call(&cluster, "create", SHORT_TIME_LEFT), object.clone(), |_, _| long_step()).await;
    assert_eq!(code(interrupted), 504);
    let stored = || cluster.store().get("configmaps", "default", "a").map(|object| object.version);
    assert_eq!(stored(), None);
    assert_eq!(code(create::insert(&call(&cluster, "create", LONG_TIME_LEFT), object, |_, _| ()).await), 200);

    let before = stored();
    let change = |old: &Value| {
        long_step();
        let mut object = old.clone();
        object["data"] = json!({"a": "b"});
        Ok(object)
    };
    assert_eq!(code(update::modify(&call(&cluster, "update", SHORT_TIME_LEFT), change).await), 504);
    assert_eq!(stored(), before);
    assert_eq!(code(update::modify(&call(&cluster, "update", LONG_TIME_LEFT), change).await), 200);
    cluster.stop();
}
