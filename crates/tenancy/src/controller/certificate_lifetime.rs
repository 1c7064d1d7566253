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
use kube_types::well_known::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use serde_json::json;

use super::{ErrorContext, ReconcileError, TenancyController};
use crate::node_join::csr_decision::{CsrDecision, Denial};
use crate::node_join::node_csr::{self, NodeCsr, OverlongCertificate};

/// The ConfigMap that records that the cluster's default lifetime is too long.
const CONFIG_MAP_NAME: &str = "node-certificates";

/// Certificates that were signed longer ago are not recorded, so that a record deleted by an administrator does not come back:
/// Kubernetes keeps decided requests for an hour.
const MAX_RECORDED_AGE: SignedDuration = SignedDuration::from_mins(15);

impl TenancyController {
    /// The decision, or a denial if the request sets no lifetime and the cluster's default is too long.
    pub(super) async fn apply_lifetime_limit(
        &self,
        asked: &NodeCsr,
        ruling: CsrDecision,
    ) -> Result<CsrDecision, ReconcileError> {
        let is_granted = matches!(ruling, CsrDecision::Approve { .. });
        if is_granted && asked.expiration_seconds.is_none() && self.is_default_lifetime_too_long().await? {
            return Ok(CsrDecision::Deny(Denial::SignedTooLong));
        }
        Ok(ruling)
    }

    /// Whether it is recorded that the cluster's default lifetime is too long.
    async fn is_default_lifetime_too_long(&self) -> Result<bool, ReconcileError> {
        let found = self.config_maps().get_opt(CONFIG_MAP_NAME).await;
        Ok(found.context(|| format!("read the ConfigMap `{CONFIG_MAP_NAME}`"))?.is_some())
    }

    /// Records that the cluster signs certificates of tenants' nodes for too long.
    pub(super) async fn record_lifetime(
        &self,
        csr: &CertificateSigningRequest,
        signed: OverlongCertificate,
    ) -> Result<(), ReconcileError> {
        if let Some(node) = node_csr::renewing_node(csr)
            && self.get_node_names().await?.1.owner(node).is_none()
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
        if self.clock.now().duration_since(signed.not_before) > MAX_RECORDED_AGE
            || self.is_default_lifetime_too_long().await?
        {
            return Ok(());
        }
        let record = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": CONFIG_MAP_NAME, "namespace": SYSTEM_NAMESPACE, "labels": { MANAGED_BY: FIELD_MANAGER } },
            "data": {
                "hours": hours.to_string(),
                "request": csr.name_any(),
                "fix": "run kube-controller-manager with --cluster-signing-duration=24h, then delete this ConfigMap",
            },
        });
        let how = PatchParams::apply(FIELD_MANAGER).force();
        let written = self.config_maps().patch(CONFIG_MAP_NAME, &how, &Patch::Apply(record)).await;
        written.map(drop).context(|| format!("write the ConfigMap `{CONFIG_MAP_NAME}`"))
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE)
    }
}
