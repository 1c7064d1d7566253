//! The quota of an account: a limit for all workspaces that it created together. Pure: no I/O, no clock.
//!
//! A new workspace gets the platform's quota, or the rest of the account's quota. An administrator of the platform can grant more.

use std::collections::BTreeMap;

use domain::quantity::Quantity;

use super::ResourceQuantities;

/// Parses an amount. Invalid text counts as zero, as the API accepts no such amount.
pub(super) fn parse_or_zero(amount: &str) -> Quantity {
    Quantity::parse(amount).ok().filter(|amount| amount.sign() > 0).unwrap_or_default()
}

fn sums<'a>(quotas: impl IntoIterator<Item = &'a ResourceQuantities>) -> BTreeMap<&'a str, Quantity> {
    let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (resource, amount) in quotas.into_iter().flatten() {
        let sum = sums.entry(resource).or_default();
        *sum = sum.add(&parse_or_zero(amount));
    }
    sums
}

/// The quota of a new workspace: for each resource the `wanted` amount, or the rest of `person` after `existing`.
pub(crate) fn remaining<'a>(
    person: &ResourceQuantities,
    existing: impl IntoIterator<Item = &'a ResourceQuantities>,
    wanted: &ResourceQuantities,
) -> ResourceQuantities {
    let sums = sums(existing);
    let limited = |(resource, amount): (&String, &String)| {
        let Some(whole) = person.get(resource).map(|whole| parse_or_zero(whole)) else {
            return (resource.clone(), amount.clone());
        };
        let used = sums.get(resource.as_str()).cloned().unwrap_or_default();
        let left = if used < whole { whole.sub(&used) } else { Quantity::ZERO };
        // An amount that fits keeps its original text.
        let fits = parse_or_zero(amount) <= left;
        (resource.clone(), if fits { amount.clone() } else { left.to_string() })
    };
    wanted.iter().map(limited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantities(pairs: &[(&str, &str)]) -> ResourceQuantities {
        pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
    }

    #[test]
    fn remaining_quota_is_shared_by_workspaces_of_the_account() {
        let person = quantities(&[("requests.cpu", "10"), ("requests.storage", "50Gi")]);
        let quota = quantities(&[("requests.cpu", "4"), ("requests.storage", "20Gi"), ("pods", "50")]);
        assert_eq!(remaining(&person, [&quota], &quota), quota);
        let third = remaining(&person, [&quota, &quota], &quota);
        assert_eq!(third, quantities(&[("requests.cpu", "2"), ("requests.storage", "10Gi"), ("pods", "50")]));
        let fourth = remaining(&person, [&quota, &quota, &third], &quota);
        assert_eq!(fourth, quantities(&[("requests.cpu", "0"), ("requests.storage", "0"), ("pods", "50")]));
        let raised = quantities(&[("requests.cpu", "100")]);
        assert_eq!(remaining(&person, [&raised], &quota)["requests.cpu"], "0");
    }
}
