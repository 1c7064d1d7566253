//! Capacity forecast before anything is written: do objects fit into the resource quotas of their namespaces and onto
//! the nodes?
//!
//! Live usage of the same objects is subtracted, so that a repeated check after a partial write gives the same
//! answer. The surge of a rolling update is counted where an update happens.
//!
//! The result is a forecast: other clients write too, and the API server decides. Constraints that are not modelled
//! (scoped quotas, `LimitRange` defaults, hooks, affinity) count as satisfied. See also: resources of an object
//! (`domain::resources`), quotas ([`quota`]), nodes ([`nodes`]).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod nodes;
mod quota;

use std::collections::{HashMap, HashSet};
use std::fmt;

use domain::quantity::Quantity;
use domain::resources::{QuotaUsage, Workload};
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::Request;
use kube_access::verb::declare;
use serde_json::Value;

use crate::error::{ObjectError, api_error_kind};
use crate::live::read_live;
use crate::object::{Object, ObjectId};
use crate::target::{Target, request};

pub use nodes::NodeHeadroom;
pub use quota::{QuotaHeadroom, quota_shortages, quotas};

/// Missing capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A namespace quota would be exceeded.
    Quota { namespace: String, quota: String, resource: String, needed: Quantity, left: Quantity },
    /// Of the `total` new pods of a workload, `pods` fit on no node.
    Nodes { id: ObjectId, pods: u64, total: u64 },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { namespace, quota, resource, needed, left } => {
                write!(
                    f,
                    "exceeded quota: {quota} in {namespace}: {needed} more of {resource} needed, {left} left"
                )
            }
            Self::Nodes { id, pods, total: of } => {
                write!(f, "{pods} of {of} pods of {id} do not fit onto any node")
            }
        }
    }
}

/// The forecast cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum CapacityError {
    #[error("{0}")]
    Object(ObjectError),
    #[error("cannot read {what}")]
    Read {
        what: &'static str,
        #[source]
        source: kube::Error,
    },
}

impl CapacityError {
    pub fn kind(&self) -> domain::ErrorKind {
        match self {
            Self::Object(failure) => failure.kind(),
            Self::Read { source, .. } => api_error_kind(source),
        }
    }
}

/// Change of one object: live, previous and desired state.
struct ObjectChange {
    id: ObjectId,
    live: Option<Value>,
    /// Previous manifest.
    previous: Option<Value>,
    desired: Option<Value>,
}

/// Changes of a set of objects.
pub struct ObjectChanges(Vec<ObjectChange>);

impl ObjectChanges {
    /// Reads the live state of the objects in `before` and `after`.
    pub async fn read(target: &Target, before: &[Object], after: &[Object]) -> Result<Self, CapacityError> {
        Self::read_filtered(target, before, after, |_| true).await
    }

    /// Like [`ObjectChanges::read`], for objects that use a resource selected by `matters`.
    async fn read_filtered(
        target: &Target,
        before: &[Object],
        after: &[Object],
        matters: impl Fn(&String) -> bool,
    ) -> Result<Self, CapacityError> {
        let counts = |object: &&Object| QuotaUsage::for_object(object.value(), 1).peak().keys().any(&matters);
        let before = before.iter().filter(counts);
        let former: HashMap<ObjectId, &Object> = before.map(|object| (target.id(object), object)).collect();
        let after: Vec<&Object> = deduplicate(target, after).into_iter().filter(counts).collect();
        let wanted: HashSet<ObjectId> = after.iter().map(|object| target.id(object)).collect();
        let gone = former.iter().filter(|(id, _)| !wanted.contains(id)).map(|(_, object)| *object);
        let all: Vec<Object> = after.iter().copied().chain(gone).cloned().collect();
        let found = read_live(target, &all).await.map_err(CapacityError::Object)?;
        let turns = found.into_iter().enumerate().map(|(at, found)| ObjectChange {
            previous: former.get(&found.id).map(|object| object.value().clone()),
            desired: after.get(at).map(|object| object.value().clone()),
            id: found.id,
            live: found.value,
        });
        Ok(Self(turns.collect()))
    }

    /// Whether the desired objects include workloads with pods.
    pub fn adds_pods(&self) -> bool {
        self.0.iter().any(|turn| turn.desired.as_ref().and_then(Workload::from_object).is_some())
    }
}

/// Drops earlier duplicates: of objects that occur twice in a manifest, the last one is written.
fn deduplicate<'o>(target: &Target, objects: &'o [Object]) -> Vec<&'o Object> {
    let last: HashMap<ObjectId, usize> =
        objects.iter().enumerate().map(|(at, object)| (target.id(object), at)).collect();
    let all = objects.iter().enumerate();
    all.filter(|(at, object)| object.name().is_empty() || last.get(&target.id(object)) == Some(at))
        .map(|(_, object)| object)
        .collect()
}

impl ObjectChange {
    /// Whether a rolling update needs surge pods: the template changed, the live object does not have it yet, and no
    /// pod may be unavailable.
    fn needs_surge(&self) -> bool {
        let template =
            |object: &Option<Value>| Some(Workload::from_object(object.as_ref()?)?.template().clone());
        let (Some(live), Some(wanted)) = (template(&self.live), template(&self.desired)) else {
            return false;
        };
        let rolled = template(&self.previous).is_none_or(|before| before != wanted)
            && !is_contained_in(&wanted, &live);
        rolled
            && !self
                .desired
                .as_ref()
                .and_then(Workload::from_object)
                .is_some_and(|workload| workload.allows_unavailable_pods())
    }
}

/// Whether the live value contains the desired one. Ignores server defaults and different spellings of quantities.
fn is_contained_in(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(there)) => {
            wanted.iter().all(|(key, value)| is_contained_in(value, there.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(there)) => {
            wanted.len() == there.len()
                && wanted.iter().zip(there).all(|(one, other)| is_contained_in(one, other))
        }
        (wanted, Value::Null) => matches!(wanted, Value::Object(map) if map.is_empty()),
        (wanted, there) => {
            wanted == there
                || Quantity::from_value(wanted)
                    .is_some_and(|amount| Quantity::from_value(there) == Some(amount))
        }
    }
}

fn core_resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Lists all objects of a kind, page by page.
async fn list(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    fields: &str,
) -> Result<Vec<Value>, kube::Error> {
    const PAGE: u32 = 500;
    let at: Request = request(resource, namespace);
    let mut params = ListParams::default().limit(PAGE);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    let mut all = Vec::new();
    loop {
        let call = at.list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = client.request(declare(call, "list")).await?;
        if let Value::Array(items) = page["items"].take() {
            all.extend(items);
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => params = params.continue_token(token),
            _ => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests;
