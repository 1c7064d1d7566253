//! The quota of an account: what all workspaces that it created may use together. Pure.
//!
//! A new workspace gets the platform's quota, or what the account's quota leaves of it. An administrator of the platform gives more.

use std::collections::BTreeMap;

use domain::quantity::Quantity;

use super::Amounts;

/// What `amount` says; what cannot be read counts as nothing, because the API lets no such amount be stored.
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

/// The quota of a further workspace: of each resource `wanted`, or what `person` leaves of it beside `existing`.
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
        // The text of an amount that fits stays as it was written.
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
