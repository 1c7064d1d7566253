//! Lifetime of tenant node certificates. A certificate cannot be revoked, so its expiry bounds the access of a node whose account is
//! deleted.
//!
//! Kubelets request no lifetime (`expirationSeconds`), and a cluster does not publish its default: a year, unless
//! kube-controller-manager runs with `--cluster-signing-duration`. So the platform learns it from the first certificate that is too long,
//! and records that in the ConfigMap `longshore-system/node-certificates`. While the ConfigMap exists, requests without a lifetime are
//! denied. Requests for at most 24 hours are approved.
//!
//! The embedded cluster limits the certificates of tenants' nodes itself.

use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_types::marks::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use serde_json::json;

use super::{Doing, ProvisionError, Provisioner};
use crate::edge::request::{self, Asked, Signed};
use crate::edge::ruling::{Denial, Ruling};

/// The ConfigMap that records that the cluster's default lifetime is too long.
const RECORD: &str = "node-certificates";

/// Certificates that were signed longer ago are not recorded, so that a record deleted by an administrator does not come back:
/// Kubernetes keeps decided requests for an hour.
const FRESH: SignedDuration = SignedDuration::from_mins(15);

impl Provisioner {
    /// The ruling, or a denial if the request sets no lifetime and the cluster's default is too long.
    pub(super) async fn limited(&self, asked: &Asked, ruling: Ruling) -> Result<Ruling, ProvisionError> {
        let is_granted = matches!(ruling, Ruling::Grant { .. });
        if is_granted && asked.seconds.is_none() && self.signs_too_long().await? {
            return Ok(Ruling::Deny(Denial::SignedTooLong));
        }
        Ok(ruling)
    }

    /// Whether it is recorded that the cluster's default lifetime is too long.
    async fn signs_too_long(&self) -> Result<bool, ProvisionError> {
        let found = self.records().get_opt(RECORD).await;
        Ok(found.doing(|| format!("read the ConfigMap `{RECORD}`"))?.is_some())
    }

    /// Records that the cluster signs certificates of tenants' nodes for too long.
    pub(super) async fn record_lifetime(
        &self,
        csr: &CertificateSigningRequest,
        signed: Signed,
    ) -> Result<(), ProvisionError> {
        if let Some(node) = request::renewing(csr)
            && self.names().await?.1.owner(node).is_none()
        {
            // A node of the operator.
            return Ok(());
        }
        let hours = signed.lifetime.as_hours();
        tracing::warn!(
            request.name = csr.name_any(),
            lifetime.hours = hours,
            "the certificate of a tenant's node is valid for more than 24 hours: run kube-controller-manager with --cluster-signing-duration=24h"
        );
        if self.clock.now().duration_since(signed.since) > FRESH || self.signs_too_long().await? {
            return Ok(());
        }
        let record = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": RECORD, "namespace": SYSTEM_NAMESPACE, "labels": { MANAGED_BY: FIELD_MANAGER } },
            "data": {
                "hours": hours.to_string(),
                "request": csr.name_any(),
                "fix": "run kube-controller-manager with --cluster-signing-duration=24h, then delete this ConfigMap",
            },
        });
        let how = PatchParams::apply(FIELD_MANAGER).force();
        let written = self.records().patch(RECORD, &how, &Patch::Apply(record)).await;
        written.map(drop).doing(|| format!("write the ConfigMap `{RECORD}`"))
    }

    fn records(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE)
    }
}
