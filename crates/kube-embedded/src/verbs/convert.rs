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
pub enum ServedObject {
    Bytes(Bytes),
    Value(Value),
}

/// Whether the stored bytes need conversion before they are sent.
pub fn needs_conversion(resource: &Resource, object: &Object) -> bool {
    match &resource.custom {
        Some(custom) => !custom.is_served_as_stored(object.version),
        None => resource.needs_conversion(),
    }
}

pub fn served_object(resource: &Resource, object: &Object) -> ServedObject {
    if needs_conversion(resource, object) {
        ServedObject::Value(served_value(resource, object))
    } else {
        ServedObject::Bytes(object.bytes.clone())
    }
}

/// Returns the parsed object in the request's version.
pub fn served_value(resource: &Resource, object: &Object) -> Value {
    let mut value = object.value();
    from_storage(resource, &mut value);
    value
}

/// Converts from the storage version to the version that `resource` serves.
pub fn from_storage(resource: &Resource, value: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.convert_from_storage(value);
    } else if resource.needs_conversion() {
        match resource.name.as_ref() {
            "events" => events::from_core(value),
            "horizontalpodautoscalers" => autoscaling::to_v1(value),
            _ => value["apiVersion"] = resource.api_version().into(),
        }
        decode::normalise::normalise(resource.root_type(), value);
    }
}

/// Converts from the version that `resource` serves to the storage version.
pub fn to_storage(resource: &Resource, value: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.convert_to_storage(value);
    } else if resource.needs_conversion() {
        match resource.name.as_ref() {
            "events" => events::to_core(value),
            "horizontalpodautoscalers" => autoscaling::from_v1(value),
            _ => {}
        }
    }
}
