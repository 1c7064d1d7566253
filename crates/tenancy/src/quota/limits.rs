//! Limits of the namespaces of a workspace while their shares change. Pure: no I/O, no clock.
//!
//! Kubernetes does not reclaim resources in use: a limit below the usage only refuses further usage. So a limit is raised only by amounts
//! that other namespaces have returned.
//!
//! Invariant: for every resource, if each namespace holds the larger of its limit and its use, all of them together hold no more than
//! the workspace's quota, or than they held before.

use std::collections::BTreeMap;

use domain::quantity::Quantity;
use k8s_openapi::api::core::v1::ResourceQuota;

use super::ResourceQuantities;
use super::account_quota::parse_or_zero;

/// Limits by namespace.
pub(crate) type NamespaceLimits = BTreeMap<String, ResourceQuantities>;

/// The current limits of a namespace, before they are changed, and its usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedQuota {
    hard: BTreeMap<String, Quantity>,
    used: BTreeMap<String, Quantity>,
}

impl ObservedQuota {
    /// Kubernetes enforces the limits in the status and copies those of the spec into it later, so the larger value counts.
    pub fn from_quota(quota: &ResourceQuota) -> Self {
        let (spec, status) = (quota.spec.as_ref(), quota.status.as_ref());
        let mut observed = Self::default();
        let hard = [spec.and_then(|spec| spec.hard.as_ref()), status.and_then(|status| status.hard.as_ref())];
        for (resource, amount) in hard.into_iter().flatten().flatten() {
            observed.allow(resource, &amount.0);
        }
        for (resource, amount) in status.and_then(|status| status.used.as_ref()).into_iter().flatten() {
            observed.used.insert(resource.clone(), parse_or_zero(&amount.0));
        }
        observed
    }

    /// Counts at least this share, for a namespace that is being deleted: its ResourceQuota may be gone before other objects are.
    pub fn allow_share(&mut self, share: &ResourceQuantities) {
        for (resource, amount) in share {
            self.allow(resource, amount);
        }
    }

    fn allow(&mut self, resource: &str, amount: &str) {
        let hard = self.hard.entry(resource.to_owned()).or_default();
        *hard = parse_or_zero(amount).max(hard.clone());
    }

    /// The amount that the namespace holds: the larger of its limit, which it may use at any time, and its usage.
    fn held(&self, resource: &str) -> Quantity {
        let amount = |of: &BTreeMap<String, Quantity>| of.get(resource).cloned().unwrap_or_default();
        amount(&self.hard).max(amount(&self.used))
    }

    /// Whether Kubernetes still enforces a limit above the desired one.
    pub fn exceeds(&self, desired: &ResourceQuantities) -> bool {
        let limit = |resource: &String| desired.get(resource).map(|amount| parse_or_zero(amount));
        self.hard.iter().any(|(resource, hard)| limit(resource).is_some_and(|limit| *hard > limit))
    }
}

fn sum(amounts: impl Iterator<Item = Quantity>) -> Quantity {
    amounts.fold(Quantity::ZERO, |sum, amount| sum.add(&amount))
}

/// The limits to set now: lower ones immediately, higher ones as far as others have given back the difference.
pub(crate) fn limits_within_use(
    desired: &NamespaceLimits,
    observed: &BTreeMap<String, ObservedQuota>,
) -> NamespaceLimits {
    let mut limits = desired.clone();
    let resources = desired.values().next().into_iter().flat_map(BTreeMap::keys);
    for resource in resources {
        let held = |name: &str| observed.get(name).map(|quota| quota.held(resource)).unwrap_or_default();
        let quota = sum(desired.values().filter_map(|hard| Some(parse_or_zero(hard.get(resource)?))));
        let total_held = sum(observed.keys().map(|name| held(name)));
        let mut free = if total_held < quota { quota.sub(&total_held) } else { Quantity::ZERO };
        for (name, hard) in &mut limits {
            let (Some(limit), held) = (hard.get_mut(resource), held(name)) else { continue };
            let desired = parse_or_zero(limit);
            if desired <= held {
                continue;
            }
            let missing = desired.sub(&held);
            if missing <= free {
                free = free.sub(&missing);
            } else {
                *limit = held.add(&free).to_string();
                free = Quantity::ZERO;
            }
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn quantities(pairs: &[(&str, &str)]) -> ResourceQuantities {
        pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
    }

    /// The limit in the spec, the enforced limit, and the use, of `pods`.
    fn observed(spec: &str, enforced: &str, used: &str) -> ObservedQuota {
        let quota = json!({"spec": {"hard": {"pods": spec}}, "status": {"hard": {"pods": enforced}, "used": {"pods": used}}});
        ObservedQuota::from_quota(&serde_json::from_value(quota).unwrap())
    }

    #[test]
    fn limit_is_raised_only_by_what_others_have_given_back() {
        let desired = |first, other| {
            NamespaceLimits::from([
                ("a".to_owned(), quantities(&[("pods", first)])),
                ("a-x".to_owned(), quantities(&[("pods", other)])),
            ])
        };
        #[rustfmt::skip]
        let rows = [
            // desired, observed of `a` and `a-x`, limits
            (("50", "0"),  observed("20", "20", "20"), observed("30", "30", "9"), ("20", "0"),  "not enforced yet"),
            (("50", "0"),  observed("20", "20", "20"), observed("0",  "30", "9"), ("20", "0"),  "enforced later than written"),
            (("50", "0"),  observed("20", "20", "20"), observed("0",  "0",  "9"), ("41", "0"),  "in use"),
            (("50", "0"),  observed("41", "41", "41"), observed("0",  "0",  "9"), ("41", "0"),  "still in use"),
            (("50", "0"),  observed("41", "41", "41"), observed("0",  "0",  "0"), ("50", "0"),  "given back"),
            (("10", "40"), observed("10", "10", "30"), observed("5",  "5",  "0"), ("10", "20"), "the first uses more than is left to it"),
            (("5",  "5"),  observed("5",  "5",  "30"), observed("5",  "5",  "9"), ("5",  "5"),  "the quota is below the use"),
        ];
        for (wanted, first, other, limits, why) in rows {
            let observed = [("a".to_owned(), first), ("a-x".to_owned(), other)].into();
            let found = limits_within_use(&desired(wanted.0, wanted.1), &observed);
            assert_eq!(found, desired(limits.0, limits.1), "{why}");
        }
        // A new namespace has no quota yet, and amounts that fit keep their text.
        let found = limits_within_use(
            &desired("0.04k", "10"),
            &[("a".to_owned(), observed("40", "40", "40"))].into(),
        );
        assert_eq!(found, desired("0.04k", "10"));
    }

    #[test]
    fn share_of_a_namespace_without_resource_quota_counts_until_it_is_gone() {
        let mut leaving = ObservedQuota::default();
        leaving.allow_share(&quantities(&[("pods", "30")]));
        assert!(
            leaving.exceeds(&quantities(&[("pods", "29")]))
                && !leaving.exceeds(&quantities(&[("pods", "30")]))
        );
        let desired = NamespaceLimits::from([("a".to_owned(), quantities(&[("pods", "50")]))]);
        let found = limits_within_use(&desired, &[("a-x".to_owned(), leaving)].into());
        assert_eq!(found["a"]["pods"], "20");
    }

    proptest! {
        #[test]
        fn namespaces_never_hold_more_than_the_quota_or_than_before(
            rows in prop::collection::vec((0_u32..50, 0_u32..50, 0_u32..50, 0_u32..50), 1..6),
        ) {
            let name = |place: usize| format!("a-{place}");
            let desired: NamespaceLimits =
                rows.iter().enumerate().map(|(place, row)| (name(place), quantities(&[("pods", &row.0.to_string())]))).collect();
            let before: BTreeMap<_, _> = rows.iter().enumerate()
                .map(|(place, row)| (name(place), observed(&row.1.to_string(), &row.2.to_string(), &row.3.to_string())))
                .collect();
            let limits = limits_within_use(&desired, &before);
            let quota: u32 = rows.iter().map(|row| row.0).sum();
            let held: u32 = rows.iter().map(|row| row.1.max(row.2).max(row.3)).sum();
            let limit = |place: usize| limits[&name(place)]["pods"].parse::<u32>().unwrap();
            let after: u32 = rows.iter().enumerate().map(|(place, row)| limit(place).max(row.1).max(row.2).max(row.3)).sum();
            prop_assert!(after <= held.max(quota), "{after} > {held}, {quota}");
            for (place, row) in rows.iter().enumerate() {
                prop_assert!(limit(place) <= row.0);
                prop_assert!(limit(place) >= row.0.min(row.1.max(row.2)), "an enforced limit is lowered to the desired one only");
            }
            if held <= quota && rows.iter().all(|row| row.1.max(row.2).max(row.3) <= row.0) {
                prop_assert_eq!(limits, desired);
            }
        }
    }
}
