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
        ctx: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        newest: Option<LatestRevision>,
        is_full: bool,
    ) -> Result<Action, ReconcileError> {
        let status = ctx.status();
        let revision = status.helm.as_ref().map_or(0, |helm| helm.revision);
        let (objects, reader) = self.deployed_objects(ctx, identity, revision).await?;
        let restart_policy = if is_full { RestartPolicy::IfNotServed } else { RestartPolicy::Never };
        self.custom_resources.ensure_watches(ctx.key, &objects, reader, restart_policy).await;
        let foreign_revision =
            newest.filter(|newest| !is_own_revision(newest, &status)).map(|newest| newest.revision);
        let mut report = self.readiness_report(ctx, &objects, ctx.now, foreign_revision);
        if is_full {
            report.drift = self.check_drift(ctx, identity, revision).await?;
        }
        let is_progressing =
            !report.is_late && report.resources.ready < report.resources.total && !report.is_paused;
        // A status that still shows an operation is left over from an interrupted one.
        let new_status = ctx.status_update().interrupted().readiness(report).build();
        if !is_full
            && new_status != status
            && let Some(wait) = self.release_debounce.remaining_delay(ctx.key, &new_status.state)
        {
            return Ok(Action::RequeueAfter(wait));
        }
        self.update_status(ctx, new_status).await?;
        Ok(match readiness_deadline(status.last_deployed.as_ref(), ctx).filter(|_| is_progressing) {
            Some(due) => Action::RequeueAfter(time_until(ctx.now, due)),
            None => self.requeue_after_interval(ctx),
        })
    }

    /// The desired revision exists, but its success is missing in the status, e.g. after a crash.
    pub(super) async fn record_deployed(
        &self,
        ctx: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        desired: DesiredRelease,
    ) -> Result<Action, ReconcileError> {
        let Some(newest) = self.helm_records.latest(ctx.key) else { return Ok(Action::AwaitChange) };
        let storage = self.helm_factory.storage(&self.clients, &ctx.key.namespace);
        // If another client has upgraded the release since, its watch event triggers the next reconcile.
        let stored = storage.get(&ctx.key.name, newest.revision).await?.filter(|stored| stored.has_lease);
        let Some(StoredRecord { record, .. }) = stored else { return Ok(Action::AwaitChange) };
        // Tenants can forge the labels of a record. Only records in the ledger were deployed by this controller.
        if find_entry(&ctx.release, &record).is_none() {
            return self.execute(ctx, identity, ReleaseAction::Upgrade, desired).boxed().await;
        }
        let objects = self.record_objects(&ctx.key.namespace, &record).await?;
        self.reconcile_state.record_objects(ctx.key, record.version, objects.clone());
        self.custom_resources
            .ensure_watches(ctx.key, &objects, &identity.impersonation, RestartPolicy::Never)
            .await;
        let report = self.readiness_report(ctx, &objects, ctx.now, None);
        let is_first_deployment = ctx.status().version == 0;
        let administered = self.reconcile_administered(ctx, identity, &record).await;
        let inventory = external_inventory(ctx, &objects);
        let deployment = DeployedRevision {
            administered,
            ..execute::deployed_revision(ctx, identity, desired, &record, inventory, is_first_deployment)
        };
        self.update_status(ctx, ctx.status_update().deployed(deployment).readiness(report).build()).await?;
        Ok(Action::RequeueAfter(ctx.timeout()))
    }

    pub(super) fn readiness_report(
        &self,
        ctx: &ReleaseContext<'_>,
        objects: &[ObjectId],
        now: Timestamp,
        foreign_revision: Option<i64>,
    ) -> ReadinessReport {
        let unready_reasons = self.readiness.unready_reasons(ctx.key);
        let (mut not_ready, mut unknown) = (Vec::new(), Vec::new());
        for id in objects {
            let readiness = if is_watched(id) {
                match unready_reasons.get(id) {
                    Some(None) => Readiness::Ready,
                    Some(Some(reason)) => Readiness::NotReady(reason.clone()),
                    None => Readiness::NotReady("not found".into()),
                }
            } else if is_custom(id) {
                self.custom_resources.readiness(ctx.key, id)
            } else {
                Readiness::Ready
            };
            let reason = match readiness {
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
                    .filter(|other| **other != *ctx.key.namespace)
                    .unwrap_or_default(),
                name: id.name.clone(),
                reason,
            });
        }
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let is_late =
            readiness_deadline(ctx.status().last_deployed.as_ref(), ctx).is_some_and(|due| now >= due);
        let resources = ResourceSummary {
            total: count(objects.len()),
            ready: count(objects.len().saturating_sub(not_ready.len())),
            not_ready,
        };
        ReadinessReport {
            resources,
            unknown_readiness: unknown,
            is_late,
            is_paused: ctx.release.spec.paused,
            foreign_revision,
            drift: None,
        }
    }

    /// Returns the objects in the record of a revision and the identity to read them with: the deployer if the record is foreign. Only
    /// objects of trusted records are cached.
    async fn deployed_objects<'i>(
        &self,
        ctx: &ReleaseContext<'_>,
        identity: &'i ReleaseIdentity,
        revision: i64,
    ) -> Result<(Arc<[ObjectId]>, &'i Impersonation), ReconcileError> {
        if let Some(objects) = self.reconcile_state.objects(ctx.key, revision) {
            return Ok((objects, &identity.impersonation));
        }
        let storage = self.helm_factory.storage(&self.clients, &ctx.key.namespace);
        let Some(StoredRecord { record, .. }) = storage.get(&ctx.key.name, revision).await? else {
            return Ok((Arc::default(), &identity.untrusted));
        };
        let objects = self.record_objects(&ctx.key.namespace, &record).await?;
        if record_origin(Some(&ctx.release), &record, &identity.by) == Origin::Foreign {
            return Ok((objects, &identity.untrusted));
        }
        self.reconcile_state.record_objects(ctx.key, revision, objects.clone());
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
        let release_namespace = namespace.to_owned();
        let object_id = move |object: &Object| {
            let mut id = object.id();
            let kind = discovery.find_any_version(object.api_version(), object.kind());
            if kind.is_none_or(|kind| kind.is_namespaced) {
                id.namespace.get_or_insert_with(|| release_namespace.clone());
            } else {
                id.namespace = None;
            }
            id
        };
        let parse = move || Object::parse_all(&manifest).unwrap_or_default().iter().map(object_id).collect();
        let pool_share = self.helm_factory.pool_share(namespace);
        pool_share
            .run_guaranteed(record.manifest.len(), parse)
            .await
            .map_err(|error| ReconcileError::Helm(error.to_string()))
    }
}

/// The deadline for readiness after a deployment.
fn readiness_deadline(deployed: Option<&Time>, ctx: &ReleaseContext<'_>) -> Option<Timestamp> {
    Some(saturating_add(deployed?.0, ctx.timeout()))
}
