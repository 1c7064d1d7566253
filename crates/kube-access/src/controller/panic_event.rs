//! The event `ReconcilePanicked` of an object whose reconcile panicked.
//!
//! The event omits the panic message, which may quote the object: tenants read events. The log has it.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource};

const NOTE: &str = "reconcile failed with an internal error and will be retried; see the server log";

/// Publishes the event. A failure is only logged.
pub async fn publish(events: &Recorder, object: &ObjectReference) {
    let event = Event {
        type_: EventType::Warning,
        reason: "ReconcilePanicked".to_owned(),
        note: Some(NOTE.to_owned()),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = events.publish(&event, object).await {
        tracing::warn!(?object.name, %error, "cannot publish event ReconcilePanicked");
    }
}

/// Publishes the event of a cluster-scoped object, if it exists.
pub async fn publish_by_name(client: Client, events: &Recorder, resource: &ApiResource, name: &str) {
    // Caches do not have the UID of every kind, and a panic is rare enough to ask for it.
    match Api::<DynamicObject>::all_with(client, resource).get_metadata_opt(name).await {
        Ok(Some(object)) => publish(events, &object.object_ref(resource)).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(name, %error, "cannot publish event ReconcilePanicked"),
    }
}
