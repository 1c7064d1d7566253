//! Capacity forecast before anything is written: do objects fit into the resource quotas of their namespaces and onto
//! the nodes?
//!
//! Live usage of the same objects is subtracted, so that a repeated check after a partial write gives the same
//! answer. The surge of a rolling update is counted where an update happens.
//!
//! The result is a forecast: other clients write too, and the API server decides. What is not modelled (scoped
//! quotas, `LimitRange` defaults, hooks, affinity) counts as fitting. See also: resources of an object
//! (`domain::resources`), quotas ([`quota`]), nodes ([`nodes`]).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod nodes;
mod quota;

use std::collections::{HashMap, HashSet};
use std::fmt;

use domain::quantity::Quantity;
use domain::resources::{Usage, Workload};
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::Request;
use kube_access::verb::declare;
use serde_json::Value;

use crate::error::{Failure, kind_of};
use crate::live::live;
use crate::object::{Id, Object};
use crate::target::{Target, request};

pub use nodes::Nodes;
pub use quota::{Quota, quotas, room};

/// Missing capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A namespace quota would be exceeded.
    Quota { namespace: String, quota: String, resource: String, needed: Quantity, left: Quantity },
    /// Of the `of` new pods of a workload, `pods` fit on no node.
    Nodes { id: Id, pods: u64, of: u64 },
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
            Self::Nodes { id, pods, of } => {
                write!(f, "{pods} of {of} pods of {id} would find no node with room")
            }
        }
    }
}

/// The forecast cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    #[error("{0}")]
    Object(Failure),
    #[error("cannot read {what}")]
    Read {
        what: &'static str,
        #[source]
        source: kube::Error,
    },
}

impl FitError {
    pub fn kind(&self) -> domain::Kind {
        match self {
            Self::Object(failure) => failure.kind(),
            Self::Read { source, .. } => kind_of(source),
        }
    }
}

/// Change of one object: live, previous and desired state.
struct Turn {
    id: Id,
    live: Option<Value>,
    /// Previous manifest.
    before: Option<Value>,
    wanted: Option<Value>,
}

/// Changes of a set of objects.
pub struct Turns(Vec<Turn>);

impl Turns {
    /// Reads the live state of the objects in `before` and `after`.
    pub async fn read(target: &Target, before: &[Object], after: &[Object]) -> Result<Self, FitError> {
        Self::read_of(target, before, after, |_| true).await
    }

    /// Like [`Turns::read`], for objects that use a resource selected by `matters`.
    async fn read_of(
        target: &Target,
        before: &[Object],
        after: &[Object],
        matters: impl Fn(&String) -> bool,
    ) -> Result<Self, FitError> {
        let counts = |object: &&Object| Usage::of(object.value(), 1).peak().keys().any(&matters);
        let before = before.iter().filter(counts);
        let former: HashMap<Id, &Object> = before.map(|object| (target.id(object), object)).collect();
        let after: Vec<&Object> = last_of_each(target, after).into_iter().filter(counts).collect();
        let wanted: HashSet<Id> = after.iter().map(|object| target.id(object)).collect();
        let gone = former.iter().filter(|(id, _)| !wanted.contains(id)).map(|(_, object)| *object);
        let all: Vec<Object> = after.iter().copied().chain(gone).cloned().collect();
        let found = live(target, &all).await.map_err(FitError::Object)?;
        let turns = found.into_iter().enumerate().map(|(at, found)| Turn {
            before: former.get(&found.id).map(|object| object.value().clone()),
            wanted: after.get(at).map(|object| object.value().clone()),
            id: found.id,
            live: found.value,
        });
        Ok(Self(turns.collect()))
    }

    /// Whether the desired objects include workloads with pods.
    pub fn bring_pods(&self) -> bool {
        self.0.iter().any(|turn| turn.wanted.as_ref().and_then(Workload::of).is_some())
    }
}

/// Drops earlier duplicates: of objects that occur twice in a manifest, the last one is written.
fn last_of_each<'o>(target: &Target, objects: &'o [Object]) -> Vec<&'o Object> {
    let last: HashMap<Id, usize> =
        objects.iter().enumerate().map(|(at, object)| (target.id(object), at)).collect();
    let all = objects.iter().enumerate();
    all.filter(|(at, object)| object.name().is_empty() || last.get(&target.id(object)) == Some(at))
        .map(|(_, object)| object)
        .collect()
}

impl Turn {
    /// Whether a rolling update needs surge pods: the template changed, the live object does not have it yet, and no
    /// pod may be unavailable.
    fn needs_surge(&self) -> bool {
        let template = |object: &Option<Value>| Some(Workload::of(object.as_ref()?)?.template().clone());
        let (Some(live), Some(wanted)) = (template(&self.live), template(&self.wanted)) else { return false };
        let rolled =
            template(&self.before).is_none_or(|before| before != wanted) && !is_within(&wanted, &live);
        rolled
            && !self.wanted.as_ref().and_then(Workload::of).is_some_and(|workload| workload.may_lack_some())
    }
}

/// Whether the live value contains the desired one. Ignores server defaults and different spellings of quantities.
fn is_within(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(there)) => {
            wanted.iter().all(|(key, value)| is_within(value, there.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(there)) => {
            wanted.len() == there.len() && wanted.iter().zip(there).all(|(one, other)| is_within(one, other))
        }
        (wanted, Value::Null) => matches!(wanted, Value::Object(map) if map.is_empty()),
        (wanted, there) => {
            wanted == there || Quantity::of(wanted).is_some_and(|amount| Quantity::of(there) == Some(amount))
        }
    }
}

fn core(kind: &str, plural: &str) -> ApiResource {
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
