//! Quota and usage of a workspace.

use std::collections::BTreeMap;

use domain::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::quota::{QuotaInfo, QuotaPatch};

use super::workspaces::{ResourceQuantities, ResourceQuantitiesBody, to_quantities};
use crate::body::{BoundedString, JsonBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateQuotaRequest {
    /// Quota of the workspace; platform administrators only.
    quota: Option<ResourceQuantitiesBody>,
    /// Shares by namespace. Absent namespaces keep their share.
    #[serde(default)]
    shares: BTreeMap<BoundedString<63>, ResourceQuantitiesBody>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
pub struct QuotaView {
    quota: ResourceQuantities,
    /// Total usage of all namespaces, as last reported by the cluster.
    used: ResourceQuantities,
    namespaces: Vec<NamespaceQuotaView>,
    v: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NamespaceQuota")]
pub struct NamespaceQuotaView {
    name: String,
    hard: ResourceQuantities,
    used: ResourceQuantities,
}

impl QuotaView {
    fn json_response(info: QuotaInfo) -> JsonResponse<Self> {
        let version = info.version.clone();
        let used = sum_quantities(info.namespaces.iter().map(|namespace| &namespace.used));
        let namespaces = info.namespaces.into_iter();
        JsonResponse::new(Self {
            quota: info.quota,
            used,
            namespaces: namespaces
                .map(|part| NamespaceQuotaView { name: part.name, hard: part.hard, used: part.used })
                .collect(),
            v: info.version,
        })
        .etag(&version)
    }
}

/// Sums amounts by resource. An amount that is not a quantity counts as zero; the cluster never reports one.
fn sum_quantities<'a>(quantities: impl Iterator<Item = &'a ResourceQuantities>) -> ResourceQuantities {
    let mut sums = BTreeMap::<&str, Quantity>::new();
    for (name, amount) in quantities.flatten() {
        let amount = Quantity::parse(amount).unwrap_or_default();
        let sum = sums.get(name.as_str()).map_or(amount.clone(), |sum| sum.add(&amount));
        sums.insert(name, sum);
    }
    sums.into_iter().map(|(name, sum)| (name.to_owned(), sum.to_string())).collect()
}

/// `GET workspaces/{workspace}/quota`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<QuotaView>, Problem> {
    Ok(QuotaView::json_response(call.api.tenancy.quota(call.actor()?, &call.params.workspace()?).await?))
}

/// `PUT workspaces/{workspace}/quota`
pub async fn update(
    call: ApiRequest<JsonBody<UpdateQuotaRequest>>,
) -> Result<JsonResponse<QuotaView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let JsonBody(UpdateQuotaRequest { quota, shares }) = &call.body;
    let shares =
        shares.iter().map(|(namespace, share)| (namespace.to_string(), to_quantities(share))).collect();
    let patch = QuotaPatch { quota: quota.as_ref().map(to_quantities), shares };
    call.api.tenancy.set_quota(actor, &name, patch, call.if_match.as_deref()).await?;
    Ok(QuotaView::json_response(call.api.tenancy.quota(actor, &name).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_quantities_adds_usage_of_all_namespaces() {
        let amounts = |cpu: &str| ResourceQuantities::from([("requests.cpu".to_owned(), cpu.to_owned())]);
        let sum = sum_quantities([amounts("500m"), amounts("1"), ResourceQuantities::new()].iter());
        assert_eq!(sum, amounts("1500m"));
    }
}
