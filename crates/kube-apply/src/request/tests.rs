//! Calls to an API server that is temporarily busy or broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::discovery::ServedKind;
use crate::object::Object;

/// A client that rejects this many calls with a code and message, and the number of calls made.
fn rejecting_client(refusals: usize, code: u16, message: &'static str) -> (Client, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let call = move |_: Request<Body>| {
        let refused = counted.fetch_add(1, Ordering::SeqCst) < refusals;
        async move {
            let (code, body) = if refused {
                (
                    code,
                    json!({"kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": message}),
                )
            } else {
                (200, json!({"metadata": {"name": "a"}}))
            };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    };
    (Client::new(service_fn(call), "shop"), calls)
}

fn resolved_config_map() -> ResolvedObject {
    let value =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}});
    let resource = kube::core::ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
    };
    ResolvedObject {
        object: Object::from_value(value).unwrap(),
        kind: ServedKind { resource, is_namespaced: true },
    }
}

const MODE: WriteMode = WriteMode { dry_run: false, validate: true };
const STALE: &str =
    "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified; please try again";

/// Per error: the number of attempts of an apply and of a create if it never ends.
#[tokio::test(start_paused = true)]
async fn transient_errors_are_retried() {
    for (code, message, applies, creates) in [
        (429, "too many", 5, 5),
        (409, STALE, 5, 5),
        (503, "not now", 5, 1),
        (500, "a webhook is down", 5, 1),
        (409, "Apply failed with 1 conflict", 1, 1),
        (403, "no", 1, 1),
        (422, "wrong", 1, 1),
    ] {
        let (client, calls) = rejecting_client(usize::MAX, code, message);
        apply(&client, &resolved_config_map(), false, MODE).await.unwrap_err();
        assert_eq!(calls.load(Ordering::SeqCst), applies, "{code} {message}");
        let (client, calls) = rejecting_client(usize::MAX, code, message);
        create(&client, &resolved_config_map(), MODE).await.unwrap_err();
        assert_eq!(calls.load(Ordering::SeqCst), creates, "{code} {message}");
    }
    let (client, calls) = rejecting_client(2, 429, "too many");
    apply(&client, &resolved_config_map(), false, MODE).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}
