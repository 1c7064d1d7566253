//! Decides pool membership and attributes of a node. Pure: no I/O, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_types::marks::{DESIRED_POOL, POOL};

use super::worn::Worn;
use crate::attributes;
use crate::pool::Pool;

/// Source of a node's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The label `desired-nodepool`. Without it the node leaves.
    Wish,
    /// The label `nodepool` set by a user, as in OpenYurt since 1.4.
    Hand,
    /// The pool's selector.
    Selector,
}

/// The desired attributes of a node, or `None` if they are already set.
pub(super) fn plan(worn: &Worn, pools: &[Arc<Pool>]) -> Option<Worn> {
    let bare = worn.bare();
    let wanted = match member_of(&bare, pools) {
        None => bare,
        Some((pool, by)) => {
            let mut attributes = attributes::of(&pool.spec, pool.tenant.is_some());
            if by != By::Hand {
                attributes.labels.insert(POOL.to_owned(), pool.name.as_ref().to_owned());
            }
            bare.with(attributes)
        }
    };
    (!wanted.is_like(worn)).then_some(wanted)
}

/// The pool of a node, by its attributes without a pool. The desired label takes precedence over the membership label,
/// that over selectors, and among those the first pool by name.
pub(super) fn member_of<'p>(bare: &Worn, pools: &'p [Arc<Pool>]) -> Option<(&'p Pool, By)> {
    // A tenant's pool takes only that tenant's nodes, whatever its selector.
    let open = |pool: &&Arc<Pool>| {
        !pool.deleting && pool.tenant.as_deref().is_none_or(|tenant| bare.tenant() == Some(tenant))
    };
    let named = |name: &String| pools.iter().find(|pool| *pool.name == **name).filter(open);
    let label = |key: &str| bare.labels.get(key).filter(|value| !value.is_empty());
    if let Some(name) = label(DESIRED_POOL) {
        return named(name).map(|pool| (&**pool, By::Wish));
    }
    if let Some(name) = label(POOL) {
        return named(name).map(|pool| (&**pool, By::Hand));
    }
    let selects = |pool: &&Arc<Pool>| pool.spec.selector.as_ref().is_some_and(|it| selects(it, &bare.labels));
    let first = pools.iter().filter(open).filter(selects).min_by_key(|pool| pool.name.clone());
    first.map(|pool| (&**pool, By::Selector))
}

/// As in Kubernetes, except that an empty selector matches nothing.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let pairs = || selector.match_labels.iter().flatten();
    let expressions = || selector.match_expressions.iter().flatten();
    (pairs().next().is_some() || expressions().next().is_some())
        && pairs().all(|(key, value)| labels.get(key) == Some(value))
        && expressions().all(|expression| {
            let value = labels.get(&expression.key);
            let among =
                || value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
            match expression.operator.as_str() {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests;
