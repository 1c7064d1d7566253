//! Quota and usage of a workspace.

use std::collections::BTreeMap;

use domain::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::quota::{QuotaInfo, QuotaPatch};

use super::workspaces::{Amounts, SentAmounts, plain};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::{Sent, Text};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewQuota {
    /// The whole; by administrators of the platform only.
    quota: Option<SentAmounts>,
    /// By namespace. Those that are not named keep their share.
    #[serde(default)]
    shares: BTreeMap<Text<63>, SentAmounts>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
pub struct QuotaView {
    quota: Amounts,
    /// What all namespaces use together, as the cluster last counted.
    used: Amounts,
    namespaces: Vec<NamespaceQuotaView>,
    v: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamespaceQuota")]
pub struct NamespaceQuotaView {
    name: String,
    hard: Amounts,
    used: Amounts,
}

impl QuotaView {
    fn answer(info: QuotaInfo) -> Answer<Self> {
        let version = info.version.clone();
        let used = sums(info.namespaces.iter().map(|namespace| &namespace.used));
        let namespaces = info.namespaces.into_iter();
        Answer::new(Self {
            quota: info.quota,
            used,
            namespaces: namespaces
                .map(|part| NamespaceQuotaView { name: part.name, hard: part.hard, used: part.used })
                .collect(),
            v: info.version,
        })
        .version(&version)
    }
}

/// Sums amounts by resource. An amount that is not a quantity counts as zero; the cluster never reports one.
fn sums<'a>(parts: impl Iterator<Item = &'a Amounts>) -> Amounts {
    let mut sums = BTreeMap::<&str, Quantity>::new();
    for (name, amount) in parts.flatten() {
        let amount = Quantity::parse(amount).unwrap_or_default();
        let sum = sums.get(name.as_str()).map_or(amount.clone(), |sum| sum.add(&amount));
        sums.insert(name, sum);
    }
    sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.to_string())).collect()
}

/// `GET workspaces/{workspace}/quota`
pub async fn quota(call: Call) -> Result<Answer<QuotaView>, Problem> {
    Ok(QuotaView::answer(call.api.tenancy.quota(call.actor()?, &call.params.workspace()?).await?))
}

/// `PUT workspaces/{workspace}/quota`
pub async fn set_quota(call: Call<Sent<NewQuota>>) -> Result<Answer<QuotaView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let Sent(NewQuota { quota, shares }) = &call.body;
    let shares = shares.iter().map(|(namespace, share)| (namespace.to_string(), plain(share))).collect();
    let patch = QuotaPatch { quota: quota.as_ref().map(plain), shares };
    call.api.tenancy.set_quota(actor, &name, patch, call.expected.as_deref()).await?;
    Ok(QuotaView::answer(call.api.tenancy.quota(actor, &name).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_namespaces_use_is_added_up() {
        let amounts = |cpu: &str| Amounts::from([("requests.cpu".to_owned(), cpu.to_owned())]);
        let sum = sums([amounts("500m"), amounts("1"), Amounts::new()].iter());
        assert_eq!(sum, amounts("1500m"));
    }
}
