//! Conversion of stored objects to the requested version.
//!
//! Usually the stored bytes are sent unchanged. Three kinds of objects are converted: Events in `events.k8s.io`, autoscalers in
//! `autoscaling/v1`, and custom resources in a version other than the stored one, or whose CRD has changed since.

use bytes::Bytes;
use serde_json::Value;

use crate::decode;
use crate::rules::{events, workloads::autoscaling};
use crate::schema::resources::Resource;
use crate::store::Object;

/// An object ready to be sent.
pub enum Shown {
    Bytes(Bytes),
    Value(Value),
}

/// Whether the stored bytes need conversion before they are sent.
pub fn differs(resource: &Resource, object: &Object) -> bool {
    match &resource.custom {
        Some(custom) => !custom.is_shown_as_stored(object.version),
        None => resource.is_view(),
    }
}

pub fn show(resource: &Resource, object: &Object) -> Shown {
    if differs(resource, object) {
        Shown::Value(shown(resource, object))
    } else {
        Shown::Bytes(object.bytes.clone())
    }
}

/// Returns the parsed object in the request's version.
pub fn shown(resource: &Resource, object: &Object) -> Value {
    let mut value = object.value();
    from_storage(resource, &mut value);
    value
}

/// Converts from the storage version to the version that `resource` serves.
pub fn from_storage(resource: &Resource, value: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.restore(value);
    } else if resource.is_view() {
        match resource.name.as_ref() {
            "events" => events::from_core(value),
            "horizontalpodautoscalers" => autoscaling::to_v1(value),
            _ => value["apiVersion"] = resource.api_version().into(),
        }
        decode::normalise::normalise(resource.root(), value);
    }
}

/// Converts from the version that `resource` serves to the storage version.
pub fn to_storage(resource: &Resource, value: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.store(value);
    } else if resource.is_view() {
        match resource.name.as_ref() {
            "events" => events::to_core(value),
            "horizontalpodautoscalers" => autoscaling::from_v1(value),
            _ => {}
        }
    }
}
