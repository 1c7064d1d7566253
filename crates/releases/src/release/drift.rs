//! Drift detection: finds changes by other clients, and corrects them without a new revision if the spec says so.

use helm_release::Origin;
use kube_apply::{NoProgress, Object, Ownership, ReservedObjects, Target, drift};
use kube_types::release::{DriftDetection, DriftMode};

use super::ReleaseContext;
use super::administrator_objects;
use super::identity::ReleaseIdentity;
use super::ledger::record_origin;
use crate::controller::ReleaseController;
use crate::error::ReconcileError;
use crate::post_render::selector;

impl ReleaseController {
    /// Returns the differences from the deployed manifest, or an empty text after they were corrected. Returns `None` if drift detection
    /// is disabled.
    pub(super) async fn check_drift(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        revision: i64,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(wish) =
            pass.release.spec.drift_detection.as_ref().filter(|wish| wish.mode != DriftMode::Disabled)
        else {
            return Ok(None);
        };
        let storage = self.helm_factory.storage(&self.clients, &pass.key.namespace);
        let Some(stored) = storage.get(&pass.key.name, revision).await? else { return Ok(None) };
        let executor = match record_origin(Some(&pass.release), &stored.record, &identity.by) {
            Origin::Own => &identity.impersonation,
            Origin::Other | Origin::Foreign => &identity.untrusted,
        };
        let share = self.helm_factory.pool_share(&pass.key.namespace);
        let objects = share.parse(stored.record.manifest).await.map_err(|error| {
            ReconcileError::Helm(format!("cannot parse the manifest of revision {revision}: {error}"))
        })?;
        // Objects of an administrator are skipped, even in a version that an administrator requested.
        let reserved = administrator_objects::administered_entries(&pass.release)
            .iter()
            .map(administrator_objects::object_id);
        let client = self.clients.impersonating(executor);
        let target = Target {
            reserved: ReservedObjects::skipped(reserved),
            compute: share.compute(),
            ..Target::new(client, self.helm_factory.discovery.clone(), &*pass.key.namespace)
        };
        let owner = Ownership {
            release: pass.key.name.to_string(),
            namespace: pass.key.namespace.to_string(),
            take_ownership: false,
        };
        let ignored = ignore_rules(wish)?;
        let look = |object: &Object| {
            let meant = ignored
                .iter()
                .filter(|(target, _)| target.as_ref().is_none_or(|target| target.matches(object)));
            meant.flat_map(|(_, paths)| paths.clone()).collect()
        };
        let found = drift::find(&target, &objects, &owner, &look, &[]).await;
        let found = found.map_err(|failures| {
            let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
            ReconcileError::Helm(format!("cannot detect drift: {}", failures.join("; ")))
        })?;
        if wish.mode == DriftMode::Enabled && !found.is_empty() {
            let corrected = drift::correct(&target, &found, &NoProgress).await;
            corrected.map_err(|error| ReconcileError::Helm(format!("cannot correct drift: {error}")))?;
            tracing::info!(release = %pass.key, objects = found.len(), "corrected drift");
            return Ok(Some(String::new()));
        }
        let differences: Vec<String> = found.iter().map(ToString::to_string).collect();
        Ok(Some(differences.join("; ")))
    }
}

type IgnoreRule = (Option<selector::TargetSelector>, Vec<String>);

fn ignore_rules(drift_detection: &DriftDetection) -> Result<Vec<IgnoreRule>, ReconcileError> {
    let read = |(at, rule): (usize, &kube_types::release::DriftIgnore)| {
        let target = rule.target.as_ref().map(selector::TargetSelector::parse).transpose();
        let target = target
            .map_err(|why| ReconcileError::Helm(format!("spec.driftDetection.ignore[{at}].target: {why}")))?;
        Ok((target, rule.paths.clone()))
    };
    drift_detection.ignore.iter().enumerate().map(read).collect()
}
