//! Decides pool membership and attributes of a node. Pure: no I/O, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_types::well_known::{DESIRED_POOL, POOL};

use super::node_attributes::NodeAttributes;
use crate::pool::Pool;
use crate::pool_attributes;

/// Source of a node's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MembershipSource {
    /// The label `desired-nodepool`. Without it the node leaves.
    DesiredLabel,
    /// The label `nodepool` set by a user, as in OpenYurt since 1.4.
    Label,
    /// The pool's selector.
    Selector,
}

/// The desired attributes of a node, or `None` if they are already set.
pub(super) fn plan(worn: &NodeAttributes, pools: &[Arc<Pool>]) -> Option<NodeAttributes> {
    let bare = worn.without_pool();
    let wanted = match find_pool(&bare, pools) {
        None => bare,
        Some((pool, by)) => {
            let mut attributes = pool_attributes::permitted(&pool.spec, pool.tenant.is_some());
            if by != MembershipSource::Label {
                attributes.labels.insert(POOL.to_owned(), pool.name.as_ref().to_owned());
            }
            bare.with_pool(attributes)
        }
    };
    (!wanted.is_equivalent(worn)).then_some(wanted)
}

/// The pool of a node, by its attributes without a pool. The desired label takes precedence over the membership label,
/// that over selectors, and among those the first pool by name.
pub(super) fn find_pool<'p>(
    bare: &NodeAttributes,
    pools: &'p [Arc<Pool>],
) -> Option<(&'p Pool, MembershipSource)> {
    // A tenant's pool takes only that tenant's nodes, whatever its selector.
    let open = |pool: &&Arc<Pool>| {
        !pool.is_deleting && pool.tenant.as_deref().is_none_or(|tenant| bare.tenant() == Some(tenant))
    };
    let named = |name: &String| pools.iter().find(|pool| *pool.name == **name).filter(open);
    let label = |key: &str| bare.labels.get(key).filter(|value| !value.is_empty());
    if let Some(name) = label(DESIRED_POOL) {
        return named(name).map(|pool| (&**pool, MembershipSource::DesiredLabel));
    }
    if let Some(name) = label(POOL) {
        return named(name).map(|pool| (&**pool, MembershipSource::Label));
    }
    let selects =
        |pool: &&Arc<Pool>| pool.spec.selector.as_ref().is_some_and(|it| selector_matches(it, &bare.labels));
    let first = pools.iter().filter(open).filter(selects).min_by_key(|pool| pool.name.clone());
    first.map(|pool| (&**pool, MembershipSource::Selector))
}

/// As in Kubernetes, except that an empty selector matches nothing.
fn selector_matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
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
