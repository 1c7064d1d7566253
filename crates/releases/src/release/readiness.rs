//! Readiness of the objects of a deployed release, from watches.

use std::sync::Arc;

use domain::actor::Impersonation;
use domain::clock::saturating_add;
use domain::release::operation::ReleaseAction;
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_access::queue::Action;
use kube_apply::{Object, ObjectId};
use kube_types::release::status::{ResourceSummary, UnreadyObject};

use helm_release::storage::StoredRecord;
use helm_release::{Origin, Record};

use super::desired::DesiredRelease;
use super::execute::{self, external_inventory};
use super::identity::ReleaseIdentity;
use super::ledger::{find_entry, record_origin};
use super::{ReleaseContext, is_own_revision};
use crate::controller::ReleaseController;
use crate::error::ReconcileError;
use crate::helm_records::LatestRevision;
use crate::readiness::custom_resources::{Readiness, RestartPolicy, is_custom};
use crate::readiness::is_watched;
use crate::requests::time_until;
use crate::status_update::{DeployedRevision, ReadinessReport};

impl ReleaseController {
    /// Updates the readiness in the status if it changed. `is_full` also checks drift.
    pub(super) async fn reconcile_readiness(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        newest: Option<LatestRevision>,
        is_full: bool,
    ) -> Result<Action, ReconcileError> {
        let status = pass.status();
        let revision = status.helm.as_ref().map_or(0, |helm| helm.revision);
        let (objects, reader) = self.deployed_objects(pass, identity, revision).await?;
        let again = if is_full { RestartPolicy::IfNotServed } else { RestartPolicy::Never };
        self.custom_resources.ensure_watches(pass.key, &objects, reader, again).await;
        let foreign = newest.filter(|newest| !is_own_revision(newest, &status)).map(|newest| newest.revision);
        let mut standing = self.readiness_report(pass, &objects, pass.now, foreign);
        if is_full {
            standing.drift = self.check_drift(pass, identity, revision).await?;
        }
        let waits =
            !standing.is_late && standing.resources.ready < standing.resources.total && !standing.is_paused;
        // A status that still shows an operation is left over from an interrupted one.
        let told = pass.status_update().interrupted().readiness(standing).build();
        if !is_full
            && told != status
            && let Some(wait) = self.release_debounce.remaining_delay(pass.key, &told.state)
        {
            return Ok(Action::RequeueAfter(wait));
        }
        self.update_status(pass, told).await?;
        Ok(match readiness_deadline(status.last_deployed.as_ref(), pass).filter(|_| waits) {
            Some(due) => Action::RequeueAfter(time_until(pass.now, due)),
            None => self.requeue_after_interval(pass),
        })
    }

    /// The desired revision exists, but its success is missing in the status, e.g. after a crash.
    pub(super) async fn record_deployed(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        wanted: DesiredRelease,
    ) -> Result<Action, ReconcileError> {
        let Some(newest) = self.helm_records.latest(pass.key) else { return Ok(Action::AwaitChange) };
        let storage = self.helm_factory.storage(&self.clients, &pass.key.namespace);
        // If another client has upgraded the release since, its watch event triggers the next reconcile.
        let stored = storage.get(&pass.key.name, newest.revision).await?.filter(|stored| stored.has_lease);
        let Some(StoredRecord { record, .. }) = stored else { return Ok(Action::AwaitChange) };
        // Tenants can forge the labels of a record. Only records in the ledger were deployed by this controller.
        if find_entry(&pass.release, &record).is_none() {
            return self.execute(pass, identity, ReleaseAction::Upgrade, wanted).boxed().await;
        }
        let objects = self.record_objects(&pass.key.namespace, &record).await?;
        self.reconcile_state.record_objects(pass.key, record.version, objects.clone());
        self.custom_resources
            .ensure_watches(pass.key, &objects, &identity.impersonation, RestartPolicy::Never)
            .await;
        let standing = self.readiness_report(pass, &objects, pass.now, None);
        let first = pass.status().version == 0;
        let administered = self.reconcile_administered(pass, identity, &record).await;
        let inventory = external_inventory(pass, &objects);
        let deployment = DeployedRevision {
            administered,
            ..execute::deployed_revision(pass, identity, wanted, &record, inventory, first)
        };
        self.update_status(pass, pass.status_update().deployed(deployment).readiness(standing).build())
            .await?;
        Ok(Action::RequeueAfter(pass.timeout()))
    }

    pub(super) fn readiness_report(
        &self,
        pass: &ReleaseContext<'_>,
        objects: &[ObjectId],
        now: Timestamp,
        foreign: Option<i64>,
    ) -> ReadinessReport {
        let stand = self.readiness.unready_reasons(pass.key);
        let (mut not_ready, mut unknown) = (Vec::new(), Vec::new());
        for id in objects {
            let stands = if is_watched(id) {
                match stand.get(id) {
                    Some(None) => Readiness::Ready,
                    Some(Some(reason)) => Readiness::NotReady(reason.clone()),
                    None => Readiness::NotReady("not there".into()),
                }
            } else if is_custom(id) {
                self.custom_resources.readiness(pass.key, id)
            } else {
                Readiness::Ready
            };
            let reason = match stands {
                Readiness::Ready => continue,
                Readiness::NotReady(reason) => reason.to_string(),
                Readiness::Unknown(why) => {
                    unknown.push(format!("{} {}: {why}", id.kind, id.name));
                    continue;
                }
            };
            not_ready.push(UnreadyObject {
                kind: id.kind.clone(),
                namespace: id
                    .namespace
                    .clone()
                    .filter(|other| **other != *pass.key.namespace)
                    .unwrap_or_default(),
                name: id.name.clone(),
                reason,
            });
        }
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let late =
            readiness_deadline(pass.status().last_deployed.as_ref(), pass).is_some_and(|due| now >= due);
        let resources = ResourceSummary {
            total: count(objects.len()),
            ready: count(objects.len().saturating_sub(not_ready.len())),
            not_ready,
        };
        ReadinessReport {
            resources,
            unknown_readiness: unknown,
            is_late: late,
            is_paused: pass.release.spec.paused,
            foreign_revision: foreign,
            drift: None,
        }
    }

    /// Returns the objects in the record of a revision and the identity to read them with: the deployer if the record is foreign. Only
    /// objects of trusted records are cached.
    async fn deployed_objects<'i>(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &'i ReleaseIdentity,
        revision: i64,
    ) -> Result<(Arc<[ObjectId]>, &'i Impersonation), ReconcileError> {
        if let Some(objects) = self.reconcile_state.objects(pass.key, revision) {
            return Ok((objects, &identity.impersonation));
        }
        let storage = self.helm_factory.storage(&self.clients, &pass.key.namespace);
        let Some(StoredRecord { record, .. }) = storage.get(&pass.key.name, revision).await? else {
            return Ok((Arc::default(), &identity.untrusted));
        };
        let objects = self.record_objects(&pass.key.namespace, &record).await?;
        if record_origin(Some(&pass.release), &record, &identity.by) == Origin::Foreign {
            return Ok((objects, &identity.untrusted));
        }
        self.reconcile_state.record_objects(pass.key, revision, objects.clone());
        Ok((objects, &identity.impersonation))
    }

    /// The objects of a record, each with its namespace if its kind is namespaced. A manifest that does not parse counts as empty;
    /// it was rejected before. Large manifests are parsed on the compute pool, which must not refuse them, because the objects are
    /// already deployed.
    pub(crate) async fn record_objects(
        &self,
        namespace: &str,
        record: &Record,
    ) -> Result<Arc<[ObjectId]>, ReconcileError> {
        let (manifest, discovery) = (record.manifest.clone(), self.helm_factory.discovery.clone());
        let home = namespace.to_owned();
        let place = move |object: &Object| {
            let mut id = object.id();
            let kind = discovery.find_any_version(object.api_version(), object.kind());
            if kind.is_none_or(|kind| kind.is_namespaced) {
                id.namespace.get_or_insert_with(|| home.clone());
            } else {
                id.namespace = None;
            }
            id
        };
        let read = move || Object::parse_all(&manifest).unwrap_or_default().iter().map(place).collect();
        let share = self.helm_factory.pool_share(namespace);
        share
            .run_guaranteed(record.manifest.len(), read)
            .await
            .map_err(|error| ReconcileError::Helm(error.to_string()))
    }
}

/// The deadline for readiness after a deployment.
fn readiness_deadline(deployed: Option<&Time>, pass: &ReleaseContext<'_>) -> Option<Timestamp> {
    Some(saturating_add(deployed?.0, pass.timeout()))
}
