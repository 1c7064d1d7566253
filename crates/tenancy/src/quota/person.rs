//! The quota of an account: a limit for all workspaces that it created together. Pure: no I/O, no clock.
//!
//! A new workspace gets the platform's quota, or the rest of the account's quota. An administrator of the platform can grant more.

use std::collections::BTreeMap;

use domain::quantity::Quantity;

use super::Amounts;

/// Parses an amount. Invalid text counts as zero, as the API accepts no such amount.
fn parsed(amount: &str) -> Quantity {
    Quantity::parse(amount).ok().filter(|amount| amount.sign() > 0).unwrap_or_default()
}

fn sums<'a>(quotas: impl IntoIterator<Item = &'a Amounts>) -> BTreeMap<&'a str, Quantity> {
    let mut sums: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (resource, amount) in quotas.into_iter().flatten() {
        let sum = sums.entry(resource).or_default();
        *sum = sum.add(&parsed(amount));
    }
    sums
}

/// The quota of a new workspace: for each resource the `wanted` amount, or the rest of `person` after `existing`.
pub(crate) fn remaining<'a>(
    person: &Amounts,
    existing: impl IntoIterator<Item = &'a Amounts>,
    wanted: &Amounts,
) -> Amounts {
    let sums = sums(existing);
    let limited = |(resource, amount): (&String, &String)| {
        let Some(whole) = person.get(resource).map(|whole| parsed(whole)) else {
            return (resource.clone(), amount.clone());
        };
        let used = sums.get(resource.as_str()).cloned().unwrap_or_default();
        let left = if used < whole { whole.sub(&used) } else { Quantity::ZERO };
        // An amount that fits keeps its original text.
        let fits = parsed(amount) <= left;
        (resource.clone(), if fits { amount.clone() } else { left.to_string() })
    };
    wanted.iter().map(limited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Amounts {
        pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
    }

    #[test]
    fn further_workspaces_share_the_quota_of_their_account() {
        let person = of(&[("requests.cpu", "10"), ("requests.storage", "50Gi")]);
        let quota = of(&[("requests.cpu", "4"), ("requests.storage", "20Gi"), ("pods", "50")]);
        assert_eq!(remaining(&person, [&quota], &quota), quota);
        let third = remaining(&person, [&quota, &quota], &quota);
        assert_eq!(third, of(&[("requests.cpu", "2"), ("requests.storage", "10Gi"), ("pods", "50")]));
        let fourth = remaining(&person, [&quota, &quota, &third], &quota);
        assert_eq!(fourth, of(&[("requests.cpu", "0"), ("requests.storage", "0"), ("pods", "50")]));
        let raised = of(&[("requests.cpu", "100")]);
        assert_eq!(remaining(&person, [&raised], &quota)["requests.cpu"], "0");
    }
}
