//! Headroom of resource quotas.

use std::collections::BTreeSet;

use domain::quantity::Quantity;
use domain::resources::QuotaUsage;
use domain::resources::resource_list::{self, ResourceList};
use serde_json::Value;

use super::{CapacityError, ObjectChange, ObjectChanges, Shortage, core_resource, deduplicate, list};
use crate::object::Object;
use crate::target::Target;

/// A `ResourceQuota` and its remaining capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaHeadroom {
    pub namespace: String,
    pub name: String,
    remaining: ResourceList,
}

impl QuotaHeadroom {
    /// `None` for a scoped quota, which applies to some pods only.
    pub fn from_object(quota: &Value) -> Option<Self> {
        let (spec, text) = (&quota["spec"], |name: &str| quota["metadata"][name].as_str().map(str::to_owned));
        let scoped = spec["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty());
        if scoped || spec["scopeSelector"].is_object() {
            return None;
        }
        let used = resource_list::parse(&quota["status"]["used"]);
        let left = |(resource, hard): (String, Quantity)| {
            let left = hard.sub(used.get(&resource).unwrap_or(&Quantity::ZERO));
            (resource, left)
        };
        let left = resource_list::parse(&spec["hard"]).into_iter().map(left).collect();
        Some(Self { namespace: text("namespace")?, name: text("name")?, remaining: left })
    }

    fn shortages_for(&self, needed: &ResourceList) -> Vec<Shortage> {
        let short = self.remaining.iter().filter_map(|(resource, left)| {
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
pub async fn quotas(target: &Target, objects: &[Object]) -> Result<Vec<QuotaHeadroom>, CapacityError> {
    let spaces = objects.iter().map(|object| object.namespace().unwrap_or(&target.namespace));
    let mut quotas = Vec::new();
    for namespace in spaces.collect::<BTreeSet<&str>>() {
        let found =
            list(&target.client, &core_resource("ResourceQuota", "resourcequotas"), Some(namespace), "")
                .await;
        let found = found.map_err(|source| CapacityError::Read { what: "quotas", source })?;
        quotas.extend(found.iter().filter_map(QuotaHeadroom::from_object));
    }
    Ok(quotas)
}

/// Shortages of these quotas. Live objects are read only if it matters: if everything fits as if newly created, it
/// fits.
pub async fn quota_shortages(
    quotas: &[QuotaHeadroom],
    target: &Target,
    before: &[Object],
    after: &[Object],
) -> Result<Vec<Shortage>, CapacityError> {
    let anew = deduplicate(target, after).into_iter().map(|object| (target.id(object), object.value()));
    let anew: Vec<_> = anew.collect();
    let tight = |quota: &&QuotaHeadroom| {
        let there = anew.iter().filter(|(id, _)| id.namespace.as_ref() == Some(&quota.namespace));
        let most = there.fold(QuotaUsage::default(), |mut most, (_, object)| {
            most.add(&QuotaUsage::for_object(object, 0));
            most
        });
        !quota.shortages_for(&most.peak()).is_empty()
    };
    let tight: Vec<QuotaHeadroom> = quotas.iter().filter(tight).cloned().collect();
    if tight.is_empty() {
        return Ok(Vec::new());
    }
    let matters = |resource: &String| tight.iter().any(|quota| quota.remaining.contains_key(resource));
    Ok(ObjectChanges::read_filtered(target, before, after, matters).await?.shortages_of_quotas(&tight, 0))
}

impl ObjectChanges {
    /// Shortages of these quotas. `nodes` is the number of pods of a `DaemonSet`.
    pub fn shortages_of_quotas(&self, quotas: &[QuotaHeadroom], nodes: u64) -> Vec<Shortage> {
        let short = quotas.iter().flat_map(|quota| {
            let turns = self.0.iter().filter(|turn| turn.id.namespace.as_ref() == Some(&quota.namespace));
            quota.shortages_for(&additional_usage(turns, nodes))
        });
        short.collect()
    }
}

/// Resources needed in addition to the usage of the live objects.
fn additional_usage<'a>(turns: impl Iterator<Item = &'a ObjectChange>, nodes: u64) -> ResourceList {
    let (mut taken, mut wanted) = (ResourceList::new(), ResourceList::new());
    for turn in turns {
        if let Some(live) = &turn.live {
            resource_list::add(&mut taken, &QuotaUsage::for_object(live, nodes).steady);
        }
        if let Some(object) = &turn.desired {
            let usage = QuotaUsage::for_object(object, nodes);
            resource_list::add(&mut wanted, &usage.steady);
            if turn.needs_surge() {
                resource_list::add(&mut wanted, &usage.surge);
            }
        }
    }
    let more = wanted.into_iter().map(|(name, amount)| {
        let there = taken.get(&name).cloned().unwrap_or(Quantity::ZERO);
        (name, amount.sub(&there))
    });
    more.filter(|(_, amount)| amount.sign() > 0).collect()
}
