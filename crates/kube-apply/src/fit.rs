//! Whether objects would fit, before anything is written: into the quotas of their namespaces, and onto the nodes.
//!
//! What is there already of these objects is counted as theirs, so that asking again after half of them were written gives the same
//! answer. What an update needs for a while (surge) is counted where there is something to update.
//!
//! An answer is a forecast: others write too, and the cluster has the last word. What is not looked at (scopes of quotas,
//! defaults of `LimitRanges`, affinity) is taken to fit.
//! Elsewhere: what an object takes (`domain::resources`).

mod nodes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use domain::quantity::Quantity;
use domain::resources::amounts::{self, Amounts};
use domain::resources::{Usage, Workload};
use kube::Client;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::Request;
use serde_json::Value;

use crate::error::{Failure, kind_of};
use crate::live::live;
use crate::object::{Id, Object};
use crate::target::{Target, request};

pub use nodes::nodes;

/// Something that would not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The namespace may not hold that much.
    Quota { namespace: String, quota: String, resource: String, needed: Quantity, left: Quantity },
    /// So many pods of the workload would find no node.
    Nodes { id: Id, pods: u64, of: u64 },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { namespace, quota, resource, needed, left } => {
                write!(
                    f,
                    "quota {namespace}/{quota} has {left} of {resource} left, and {needed} more are needed"
                )
            }
            Self::Nodes { id, pods, of } => {
                write!(f, "{pods} of {of} pods of {id} would find no node with room")
            }
        }
    }
}

/// It cannot be said whether it fits.
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

/// What there is of an object, and what it is to become.
struct Turn {
    id: Id,
    live: Option<Value>,
    wanted: Option<Value>,
}

/// What would not fit into the quotas of the namespaces. `nodes`: how many a daemon would find.
pub async fn quota(
    target: &Target,
    before: &[Object],
    after: &[Object],
    nodes: u64,
) -> Result<Vec<Shortage>, FitError> {
    let spaces = after.iter().map(|object| object.namespace().unwrap_or(&target.namespace).to_owned());
    let spaces: BTreeSet<String> = spaces.collect();
    let mut quotas = BTreeMap::new();
    for namespace in spaces {
        let found =
            list(&target.client, &core("ResourceQuota", "resourcequotas"), Some(&namespace), "").await;
        let found = found.map_err(|source| FitError::Read { what: "quotas", source })?;
        let found: Vec<Value> = found.into_iter().filter(|quota| !is_scoped(quota)).collect();
        if !found.is_empty() {
            quotas.insert(namespace, found);
        }
    }
    // Most namespaces have none.
    if quotas.is_empty() {
        return Ok(Vec::new());
    }
    let turns = turns(target, before, after).await?;
    let short = quotas.iter().flat_map(|(namespace, quotas)| {
        let turns = turns.iter().filter(|turn| turn.id.namespace.as_ref() == Some(namespace));
        let needed = needed(turns, nodes);
        quotas.iter().flat_map(move |quota| short_of(quota, namespace, &needed)).collect::<Vec<_>>()
    });
    Ok(short.collect())
}

fn is_scoped(quota: &Value) -> bool {
    let spec = &quota["spec"];
    spec["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty()) || spec["scopeSelector"].is_object()
}

/// What is there and what is wanted, object by object.
async fn turns(target: &Target, before: &[Object], after: &[Object]) -> Result<Vec<Turn>, FitError> {
    let wanted: HashMap<Id, &Object> = after.iter().map(|object| (object.id(), object)).collect();
    let gone = before.iter().filter(|object| !wanted.contains_key(&object.id()));
    let all: Vec<Object> = after.iter().chain(gone).cloned().collect();
    let found = live(target, &all).await.map_err(FitError::Object)?;
    let turns = found.into_iter().enumerate().map(|(at, found)| Turn {
        id: found.id,
        live: found.value,
        wanted: (at < after.len()).then(|| after[at].value().clone()),
    });
    Ok(turns.collect())
}

/// What is needed on top of what is there.
fn needed<'a>(turns: impl Iterator<Item = &'a Turn>, nodes: u64) -> Amounts {
    let (mut taken, mut wanted) = (Amounts::new(), Amounts::new());
    for turn in turns {
        if let Some(live) = &turn.live {
            amounts::add(&mut taken, &Usage::of(live, nodes).steady);
        }
        if let Some(object) = &turn.wanted {
            let usage = Usage::of(object, nodes);
            amounts::add(&mut wanted, &usage.steady);
            if is_rolled(turn) {
                amounts::add(&mut wanted, &usage.surge);
            }
        }
    }
    let more = wanted.into_iter().map(|(name, amount)| {
        let there = taken.get(&name).cloned().unwrap_or(Quantity::ZERO);
        (name, amount.sub(&there))
    });
    more.filter(|(_, amount)| amount.sign() > 0).collect()
}

/// Whether there are pods that will be replaced by others. (Images and requests are looked at: the cluster's defaults are in
/// one of the two only.)
fn is_rolled(turn: &Turn) -> bool {
    let containers = |object: &Value| -> Vec<(Value, Value)> {
        let Some(workload) = Workload::of(object) else { return Vec::new() };
        let list = workload.template()["spec"]["containers"].as_array().cloned().unwrap_or_default();
        list.into_iter()
            .map(|container| (container["image"].clone(), container["resources"].clone()))
            .collect()
    };
    let (Some(live), Some(wanted)) = (&turn.live, &turn.wanted) else { return false };
    containers(live) != containers(wanted)
}

fn short_of(quota: &Value, namespace: &str, needed: &Amounts) -> Vec<Shortage> {
    let (hard, used) = (amounts::read(&quota["spec"]["hard"]), amounts::read(&quota["status"]["used"]));
    let short = hard.into_iter().filter_map(|(resource, hard)| {
        let needed = needed.get(&resource)?.clone();
        let left = hard.sub(used.get(&resource).unwrap_or(&Quantity::ZERO));
        (needed > left).then(|| Shortage::Quota {
            namespace: namespace.to_owned(),
            quota: quota["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            resource,
            needed,
            left,
        })
    });
    short.collect()
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

/// All objects of a kind, page by page.
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
        let mut page: Value = client.request(call).await?;
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
