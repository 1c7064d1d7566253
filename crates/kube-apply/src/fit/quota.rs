//! Headroom of resource quotas.

use std::collections::BTreeSet;

use domain::quantity::Quantity;
use domain::resources::Usage;
use domain::resources::amounts::{self, Amounts};
use serde_json::Value;

use super::{FitError, Shortage, Turn, Turns, core, last_of_each, list};
use crate::object::Object;
use crate::target::Target;

/// A `ResourceQuota` and its remaining capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub namespace: String,
    pub name: String,
    left: Amounts,
}

impl Quota {
    /// `None` for a scoped quota, which applies to some pods only.
    pub fn of(quota: &Value) -> Option<Self> {
        let (spec, text) = (&quota["spec"], |name: &str| quota["metadata"][name].as_str().map(str::to_owned));
        let scoped = spec["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty());
        if scoped || spec["scopeSelector"].is_object() {
            return None;
        }
        let used = amounts::read(&quota["status"]["used"]);
        let left = |(resource, hard): (String, Quantity)| {
            let left = hard.sub(used.get(&resource).unwrap_or(&Quantity::ZERO));
            (resource, left)
        };
        let left = amounts::read(&spec["hard"]).into_iter().map(left).collect();
        Some(Self { namespace: text("namespace")?, name: text("name")?, left })
    }

    fn short_of(&self, needed: &Amounts) -> Vec<Shortage> {
        let short = self.left.iter().filter_map(|(resource, left)| {
            let needed = needed.get(resource).filter(|needed| *needed > left)?;
            Some(Shortage::Quota {
                namespace: self.namespace.clone(),
                quota: self.name.clone(),
                resource: resource.clone(),
                needed: needed.clone(),
                left: left.clone(),
            })
        });
        short.collect()
    }
}

/// Reads the quotas of the objects' namespaces.
pub async fn quotas(target: &Target, objects: &[Object]) -> Result<Vec<Quota>, FitError> {
    let spaces = objects.iter().map(|object| object.namespace().unwrap_or(&target.namespace));
    let mut quotas = Vec::new();
    for namespace in spaces.collect::<BTreeSet<&str>>() {
        let found = list(&target.client, &core("ResourceQuota", "resourcequotas"), Some(namespace), "").await;
        let found = found.map_err(|source| FitError::Read { what: "quotas", source })?;
        quotas.extend(found.iter().filter_map(Quota::of));
    }
    Ok(quotas)
}

/// Shortages of these quotas. Live objects are read only if it matters: if everything fits as if newly created, it
/// fits.
pub async fn room(
    quotas: &[Quota],
    target: &Target,
    before: &[Object],
    after: &[Object],
) -> Result<Vec<Shortage>, FitError> {
    let anew = last_of_each(target, after).into_iter().map(|object| (target.id(object), object.value()));
    let anew: Vec<_> = anew.collect();
    let tight = |quota: &&Quota| {
        let there = anew.iter().filter(|(id, _)| id.namespace.as_ref() == Some(&quota.namespace));
        let most = there.fold(Usage::default(), |mut most, (_, object)| {
            most.add(&Usage::of(object, 0));
            most
        });
        !quota.short_of(&most.peak()).is_empty()
    };
    let tight: Vec<Quota> = quotas.iter().filter(tight).cloned().collect();
    if tight.is_empty() {
        return Ok(Vec::new());
    }
    let matters = |resource: &String| tight.iter().any(|quota| quota.left.contains_key(resource));
    Ok(Turns::read_of(target, before, after, matters).await?.short_of_quota(&tight, 0))
}

impl Turns {
    /// Shortages of these quotas. `nodes` is the number of pods of a `DaemonSet`.
    pub fn short_of_quota(&self, quotas: &[Quota], nodes: u64) -> Vec<Shortage> {
        let short = quotas.iter().flat_map(|quota| {
            let turns = self.0.iter().filter(|turn| turn.id.namespace.as_ref() == Some(&quota.namespace));
            quota.short_of(&needed(turns, nodes))
        });
        short.collect()
    }
}

/// Resources needed in addition to those of the live objects.
fn needed<'a>(turns: impl Iterator<Item = &'a Turn>, nodes: u64) -> Amounts {
    let (mut taken, mut wanted) = (Amounts::new(), Amounts::new());
    for turn in turns {
        if let Some(live) = &turn.live {
            amounts::add(&mut taken, &Usage::of(live, nodes).steady);
        }
        if let Some(object) = &turn.wanted {
            let usage = Usage::of(object, nodes);
            amounts::add(&mut wanted, &usage.steady);
            if turn.needs_surge() {
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
