//! Splits a workspace's quota among its namespaces. Pure: no I/O, no clock.
//!
//! Invariant: for every resource in the quota, the limits of all namespaces sum up to exactly the total. So a workspace never uses more
//! than its quota, whatever happens in its namespaces.

use std::collections::BTreeMap;

use domain::ids::truncate_for_error;
use domain::quantity::Quantity;
use kube_types::Workspace;
use kube_types::workspace::WorkspaceNamespace;

/// Amounts by resource, with the resource names of ResourceQuota.
pub type ResourceQuantities = BTreeMap<String, String>;

/// The limit of resources in one quota.
const MOST_RESOURCES: usize = 64;
/// The limit of an amount: sums of larger ones would not be exact.
const MAX_QUANTITY: i64 = 1_000_000_000_000_000_000;

/// Why a quota cannot be split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    #[error("`{0}` is not a resource that a quota can limit")]
    Resource(String),
    #[error("`{amount}` is not a valid amount of `{resource}`")]
    Amount { resource: String, amount: String },
    #[error("a quota can have at most {MOST_RESOURCES} resources")]
    TooMany,
    #[error("namespace `{namespace}` has a share of `{resource}`, which is not in the workspace's quota")]
    NotInQuota { namespace: String, resource: String },
    #[error("namespace `{0}` is the first namespace, which gets the remaining quota and cannot have a share")]
    FirstNamespace(String),
    #[error(
        "the namespaces' shares of `{resource}` sum up to {sum}, more than the workspace's quota of {whole}"
    )]
    ExceedsTotal { resource: String, sum: String, whole: String },
}

/// The limits of each namespace. A further namespace gets its share, and zero of resources that its share omits. The first namespace
/// gets the rest. Resources that the quota omits are unlimited.
pub fn split_quota(
    quota: &ResourceQuantities,
    namespaces: &[WorkspaceNamespace],
) -> Result<BTreeMap<String, ResourceQuantities>, QuotaError> {
    let whole = parse_quantities(quota)?;
    let Some((first, further)) = namespaces.split_first() else { return Ok(BTreeMap::new()) };
    if !first.share.is_empty() {
        return Err(QuotaError::FirstNamespace(first.name.clone()));
    }
    let mut shared: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut hard = BTreeMap::new();
    for namespace in further {
        let mut share = parse_quantities(&namespace.share)?;
        if let Some(resource) = share.keys().find(|resource| !whole.contains_key(*resource)) {
            let (namespace, resource) = (namespace.name.clone(), (*resource).to_owned());
            return Err(QuotaError::NotInQuota { namespace, resource });
        }
        for resource in whole.keys() {
            let part = share.entry(resource).or_default();
            let sum = shared.entry(resource).or_default();
            *sum = sum.add(part);
        }
        hard.insert(namespace.name.clone(), to_texts(&share));
    }
    let mut left = BTreeMap::new();
    for (resource, whole) in whole {
        let sum = shared.remove(resource).unwrap_or_default();
        if sum > whole {
            let (sum, whole) = (sum.to_string(), whole.to_string());
            return Err(QuotaError::ExceedsTotal { resource: resource.to_owned(), sum, whole });
        }
        // An amount without shares keeps its original text.
        left.insert(resource, if sum.is_zero() { whole } else { whole.sub(&sum) });
    }
    hard.insert(first.name.clone(), to_texts(&left));
    Ok(hard)
}

/// The limits of each namespace of a workspace. A namespace that is being deleted keeps its share until it is gone.
pub fn split_workspace_quota(
    workspace: &Workspace,
) -> Result<BTreeMap<String, ResourceQuantities>, QuotaError> {
    let mut namespaces = workspace.spec.namespaces.clone();
    let records = workspace.status.iter().flat_map(|status| &status.namespaces);
    let is_named = |name: &str| workspace.spec.namespaces.iter().any(|own| own.name == name);
    let leaving = records.filter(|record| !is_named(&record.name));
    namespaces.extend(leaving.map(|record| {
        // The quota may have changed since: resources that it omits are unlimited.
        let share = record.share.iter().filter(|(resource, _)| workspace.spec.quota.contains_key(*resource));
        WorkspaceNamespace {
            name: record.name.clone(),
            share: share.map(|(resource, amount)| (resource.clone(), amount.clone())).collect(),
        }
    }));
    split_quota(&workspace.spec.quota, &namespaces)
}

fn to_texts(amounts: &BTreeMap<&str, Quantity>) -> ResourceQuantities {
    amounts.iter().map(|(resource, amount)| ((*resource).to_owned(), amount.to_string())).collect()
}

/// Parses the amounts, rounded up to thousandths as Kubernetes rounds them.
fn parse_quantities(texts: &ResourceQuantities) -> Result<BTreeMap<&str, Quantity>, QuotaError> {
    if texts.len() > MOST_RESOURCES {
        return Err(QuotaError::TooMany);
    }
    let mut amounts = BTreeMap::new();
    for (resource, text) in texts {
        let whole_only = is_integer_resource(resource)
            .ok_or_else(|| QuotaError::Resource(truncate_for_error(resource)))?;
        let amount = Quantity::parse(text)
            .ok()
            .filter(|amount| {
                amount.sign() >= 0 && amount.value() <= MAX_QUANTITY && (!whole_only || amount.is_whole())
            })
            .ok_or_else(|| QuotaError::Amount {
                resource: resource.clone(),
                amount: truncate_for_error(text),
            })?;
        amounts.insert(resource.as_str(), amount.round_up_to_milli());
    }
    Ok(amounts)
}

/// The unqualified resource names that a quota can limit, and whether they are counted in whole units.
#[rustfmt::skip]
const UNQUALIFIED_RESOURCES: &[(&str, bool)] = &[
    ("cpu", false),          ("memory", false),          ("ephemeral-storage", false),
    ("requests.cpu", false), ("requests.memory", false), ("requests.ephemeral-storage", false), ("requests.storage", false),
    ("limits.cpu", false),   ("limits.memory", false),   ("limits.ephemeral-storage", false),
    ("pods", true), ("services", true), ("services.nodeports", true), ("services.loadbalancers", true),
    ("configmaps", true), ("secrets", true), ("persistentvolumeclaims", true), ("replicationcontrollers", true),
    ("resourcequotas", true),
];

/// Whether a resource is counted in whole units; `None` if no quota can limit it. Besides the unqualified names there are qualified
/// ones: `count/jobs.batch`, `gold.storageclass.storage.k8s.io/requests.storage`, `requests.example.com/gpu`.
fn is_integer_resource(resource: &str) -> Option<bool> {
    let Some((prefix, name)) = resource.split_once('/') else {
        return UNQUALIFIED_RESOURCES.iter().find(|(plain, _)| *plain == resource).map(|(_, whole)| *whole);
    };
    let ends_well = |text: &str| {
        let alphanumeric = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        alphanumeric(text.bytes().next()) && alphanumeric(text.bytes().last())
    };
    let prefix_well = prefix.len() <= 253
        && prefix.split('.').all(ends_well)
        && prefix
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
    let name_well = name.len() <= 63
        && ends_well(name)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (prefix_well && name_well).then_some(name != "requests.storage")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantities(pairs: &[(&str, &str)]) -> ResourceQuantities {
        pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
    }

    fn namespace(name: &str, share: &[(&str, &str)]) -> WorkspaceNamespace {
        WorkspaceNamespace { name: name.to_owned(), share: quantities(share) }
    }

    #[test]
    fn first_namespace_gets_the_unassigned_quota() {
        let quota = quantities(&[("requests.cpu", "4"), ("requests.memory", "8Gi"), ("pods", "50")]);
        let namespaces = [
            namespace("acme", &[]),
            namespace("acme-test", &[("requests.cpu", "500m"), ("pods", "10")]),
            namespace("acme-idle", &[]),
        ];
        let hard = split_quota(&quota, &namespaces).unwrap();
        assert_eq!(
            hard["acme"],
            quantities(&[("requests.cpu", "3500m"), ("requests.memory", "8Gi"), ("pods", "40")])
        );
        assert_eq!(
            hard["acme-test"],
            quantities(&[("requests.cpu", "500m"), ("requests.memory", "0"), ("pods", "10")])
        );
        assert_eq!(
            hard["acme-idle"],
            quantities(&[("requests.cpu", "0"), ("requests.memory", "0"), ("pods", "0")])
        );
        let unlimited = split_quota(&ResourceQuantities::new(), &namespaces[..1]).unwrap();
        assert_eq!(unlimited["acme"], ResourceQuantities::new());
    }

    #[test]
    fn invalid_quotas_are_rejected_with_the_resource_name() {
        let quota = quantities(&[("pods", "10"), ("requests.cpu", "1")]);
        let first = || namespace("a", &[]);
        #[rustfmt::skip]
        let table = [
            (split_quota(&quota, &[first(), namespace("a-x", &[("pods", "6")]), namespace("a-y", &[("pods", "5")])]),
             "the namespaces' shares of `pods` sum up to 11, more than the workspace's quota of 10"),
            (split_quota(&quota, &[first(), namespace("a-x", &[("services", "1")])]),
             "namespace `a-x` has a share of `services`, which is not in the workspace's quota"),
            (split_quota(&quota, &[namespace("a", &[("pods", "1")])]),
             "namespace `a` is the first namespace, which gets the remaining quota and cannot have a share"),
            (split_quota(&quantities(&[("pods", "-1")]), &[first()]),      "`-1` is not a valid amount of `pods`"),
            (split_quota(&quantities(&[("pods", "1.5")]), &[first()]),     "`1.5` is not a valid amount of `pods`"),
            (split_quota(&quantities(&[("pods", "1e99")]), &[first()]),    "`1e99` is not a valid amount of `pods`"),
            (split_quota(&quantities(&[("requests.cpu", "many")]), &[first()]), "`many` is not a valid amount of `requests.cpu`"),
            (split_quota(&quantities(&[("podz", "1")]), &[first()]),       "`podz` is not a resource that a quota can limit"),
            (split_quota(&quantities(&[("count/", "1")]), &[first()]),     "`count/` is not a resource that a quota can limit"),
            (split_quota(&quantities(&[("A.b/c", "1")]), &[first()]),      "`A.b/c` is not a resource that a quota can limit"),
        ];
        for (refused, message) in table {
            assert_eq!(refused.unwrap_err().to_string(), message);
        }
        let right = quantities(&[
            ("count/jobs.batch", "50"),
            ("gold.storageclass.storage.k8s.io/requests.storage", "1.5Gi"),
        ]);
        assert!(split_quota(&right, &[first()]).is_ok());
    }

    proptest! {
        #[test]
        fn the_namespaces_together_have_exactly_the_whole(
            whole in 0_i64..10_000,
            parts in prop::collection::vec(0_i64..4_000, 0..6),
        ) {
            let quota = quantities(&[("requests.cpu", &format!("{whole}m"))]);
            let mut namespaces = vec![namespace("a", &[])];
            for (place, part) in parts.iter().enumerate() {
                namespaces.push(namespace(&format!("a-{place}"), &[("requests.cpu", &format!("{part}m"))]));
            }
            match split_quota(&quota, &namespaces) {
                Ok(hard) => {
                    let sum = hard.values().fold(Quantity::ZERO, |sum, amounts| {
                        sum.add(&Quantity::parse(&amounts["requests.cpu"]).unwrap())
                    });
                    prop_assert_eq!(sum.milli_value(), whole);
                    prop_assert_eq!(hard.len(), namespaces.len());
                }
                Err(_) => prop_assert!(parts.iter().sum::<i64>() > whole),
            }
        }

        #[test]
        fn no_text_panics(resource in "\\PC{0,80}", amount in "\\PC{0,40}") {
            let _ = split_quota(&quantities(&[(&resource, &amount)]), &[namespace("a", &[])]);
        }
    }
}
