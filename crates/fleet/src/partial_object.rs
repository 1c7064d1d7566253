//! Partial objects from the API server. Fields that are not used are skipped by the decoder.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::Deserialize;

/// An object with partial spec and status.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PartialObject<S, T> {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: S,
    #[serde(default)]
    pub status: T,
}

impl<S, T> Resource for PartialObject<S, T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A condition of any kind of object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// The condition of this type if its status is `True`.
pub(crate) fn find_true<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
}

/// Unix time in seconds, the precision of Kubernetes' timestamps.
pub(crate) fn unix_seconds(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

/// Timestamp in Kubernetes' format; empty if unknown.
pub(crate) fn format_time(seconds: Option<i64>) -> String {
    seconds
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .map_or_else(String::new, |at| at.to_string())
}
