//! Drift detection: finds changes by other clients, and corrects them without a new revision if the spec says so.

use helm_release::Origin;
use kube_apply::{Object, Ownership, Reserved, Silent, Target, drift};
use kube_types::release::{DriftDetection, DriftMode};

use super::Pass;
use super::administered;
use super::identity::Identity;
use super::ledger::origin;
use crate::chain::select;
use crate::error::PassError;
use crate::lead::Controller;

impl Controller {
    /// Returns the differences from the deployed manifest, or an empty text after they were corrected. Returns `None` if drift detection
    /// is disabled.
    pub(super) async fn drift(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        revision: i64,
    ) -> Result<Option<String>, PassError> {
        let Some(wish) =
            pass.release.spec.drift_detection.as_ref().filter(|wish| wish.mode != DriftMode::Disabled)
        else {
            return Ok(None);
        };
        let storage = self.helm.storage(&self.clients, &pass.key.namespace);
        let Some(stored) = storage.get(&pass.key.name, revision).await? else { return Ok(None) };
        let executor = match origin(Some(&pass.release), &stored.record, &identity.by) {
            Origin::Own => &identity.acts_as,
            Origin::Other | Origin::Foreign => &identity.foreign,
        };
        let share = self.helm.share(&pass.key.namespace);
        let objects = share.parse(stored.record.manifest).await.map_err(|error| {
            PassError::Helm(format!("the manifest of revision {revision} cannot be read: {error}"))
        })?;
        // Objects of an administrator are skipped, even in a version that an administrator requested.
        let reserved = administered::entries_of(&pass.release).iter().map(administered::id);
        let client = self.clients.acting_as(executor);
        let target = Target {
            reserved: Reserved::left_alone(reserved),
            ..Target::new(client, self.helm.discovery.clone(), &*pass.key.namespace)
        };
        let owner = Ownership {
            release: pass.key.name.to_string(),
            namespace: pass.key.namespace.to_string(),
            take: false,
        };
        let ignored = ignored(wish)?;
        let look = |object: &Object| {
            let meant = ignored
                .iter()
                .filter(|(target, _)| target.as_ref().is_none_or(|target| target.matches(object)));
            meant.flat_map(|(_, paths)| paths.clone()).collect()
        };
        let found = drift::find(&target, &objects, &owner, &look, &[]).await;
        let found = found.map_err(|failures| {
            let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
            PassError::Helm(format!("cannot look for what others changed: {}", failures.join("; ")))
        })?;
        if wish.mode == DriftMode::Enabled && !found.is_empty() {
            let corrected = drift::correct(&target, &found, &Silent).await;
            corrected
                .map_err(|error| PassError::Helm(format!("cannot put right what others changed: {error}")))?;
            tracing::info!(release = %pass.key, objects = found.len(), "put right what others changed");
            return Ok(Some(String::new()));
        }
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        Ok(Some(said.join("; ")))
    }
}

type Ignore = (Option<select::Target>, Vec<String>);

fn ignored(wish: &DriftDetection) -> Result<Vec<Ignore>, PassError> {
    let read = |(at, rule): (usize, &kube_types::release::DriftIgnore)| {
        let target = rule.target.as_ref().map(select::Target::read).transpose();
        let target = target
            .map_err(|why| PassError::Helm(format!("spec.driftDetection.ignore[{at}].target: {why}")))?;
        Ok((target, rule.paths.clone()))
    };
    wish.ignore.iter().enumerate().map(read).collect()
}
