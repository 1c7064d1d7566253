//! Deletion of a release: uninstalls it with its identity, then removes the finalizer.
//!
//! Invariant: the finalizer is removed only when no object of the release remains, or when the remaining objects are meant to stay. The
//! deletion of a namespace deletes everything in it, including Helm's records; objects outside it are listed in the status.
//!
//! If an administrator forces the deletion ([`FORCE_DELETE_ANNOTATION`]), no hook runs, and objects that cannot be removed are left and
//! reported. The identity stays that of the release, never the administrator's: content that a tenant wrote into a record must not gain
//! rights.
//!
//! Objects that an administrator wrote are removed only with the option `asAdministrator`, as listed in the status. Without it they stay,
//! and an event names them.

use std::time::Duration;

use domain::ErrorKind;
use domain::actor::Impersonation;
use domain::clock::saturating_add;
use domain::release::ReleaseState;
use domain::release::retry::{MAX_ATTEMPTS, MAX_BACKOFF, RetryDecision, decide_retry};
use futures::{FutureExt, StreamExt};
use helm_release::actions::{ActionOptions, Uninstall};
use helm_release::lock::lease_name;
use helm_release::render::RenderError;
use helm_release::{Error, Origin};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt};
use kube_access::queue::Action;
use kube_apply::remove::RemoveOptions;
use kube_apply::{NoProgress, Object, Ownership, ParseError, Target};
use kube_types::conditions;
use kube_types::release::conditions::READY;
use kube_types::release::{DeletionPolicy, InventoryEntry};
use kube_types::well_known::RELEASE_FINALIZER;
use serde_json::json;

use super::administrator_objects;
use super::execute::{new_operation_id, uninstall_options};
use super::identity::{self, ReleaseIdentity};
use super::ledger::record_origin;
use super::{ReleaseContext, status_failure};
use crate::controller::ReleaseController;
use crate::error::{ErrorContext, ReconcileError};
use crate::requests::{
    DELETE_CLAIMS_ANNOTATION, FORCE_DELETE_ANNOTATION, UNINSTALL_AS_ADMINISTRATOR_ANNOTATION,
    has_release_finalizer, ignore_not_found, release_spec, time_until,
};
use crate::service::orphans::find_orphans;

/// The prefix of the message while a forced deletion has not succeeded.
const FORCED_MESSAGE: &str = "an administrator forced the deletion";
/// The reason of the condition `Ready` after a forced deletion failed.
const FORCE_FAILED_REASON: &str = "ForceDeleteFailed";
/// The maximum length of an event note, in characters.
pub(super) const MAX_NOTE_LEN: usize = 1024;

/// Whether the error is transient. A forced deletion waits for an unreachable cluster.
fn is_transient(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Timeout
            | ErrorKind::Unavailable
            | ErrorKind::Exhausted
            | ErrorKind::Conflict
            | ErrorKind::Precondition
    )
}

pub(super) fn release_ownership(pass: &ReleaseContext<'_>) -> Ownership {
    Ownership::new(pass.key.name.to_string(), pass.key.namespace.to_string())
}

impl ReleaseController {
    pub(super) async fn reconcile_deletion(
        &self,
        pass: &ReleaseContext<'_>,
    ) -> Result<Action, ReconcileError> {
        if !has_release_finalizer(&pass.release) {
            return Ok(Action::AwaitChange);
        }
        if pass.release.spec.deletion_policy == DeletionPolicy::Orphan {
            return self.remove_release_finalizer(pass).await;
        }
        let status = pass.status();
        let leaving = status.state == ReleaseState::Deleting.as_str();
        let forced = self.has_deletion_option(pass, FORCE_DELETE_ANNOTATION);
        let due = status.next_retry_time.as_ref().filter(|due| leaving && due.0 > pass.now);
        // A forced deletion ignores the backoff, except after its own failure.
        let ready = conditions::find_condition(&status.conditions, READY);
        let tried = ready.is_some_and(|ready| ready.reason == FORCE_FAILED_REASON);
        if let Some(due) = due.filter(|_| !forced || tried) {
            return Ok(Action::RequeueAfter(time_until(pass.now, due.0)));
        }
        // If the account no longer exists, the deployer of the namespace uninstalls the release.
        let identity = identity::resolve_identity(&pass.release, &self.requests, &*self.tenants)
            .unwrap_or_else(|_| identity::deployer_identity(&pass.key.namespace));
        let identity = ReleaseIdentity { administrator: self.uninstalling_administrator(pass), ..identity };
        let id = new_operation_id();
        let mut telling = pass.status_update();
        if !leaving {
            // Failed attempts of other operations do not count.
            telling = telling.reset_retries();
        }
        let started = telling
            .started(ReleaseState::Deleting, "uninstall", &id, saturating_add(pass.now, pass.timeout()))
            .build();
        let begun = ReleaseContext {
            key: pass.key,
            release: self.update_status(pass, started).await?,
            now: pass.now,
        };
        // Read while the record still exists.
        let known = if forced { self.recorded_objects(pass).await } else { Vec::new() };
        let done = tokio::select! {
            done = self.uninstall(&begun, &identity, forced).boxed() => done,
            // A forced deletion does not wait for a running hook.
            () = self.wait_until_forced(pass), if !forced => return Ok(Action::RequeueAfter(Duration::ZERO)),
        };
        match done {
            Ok(()) => {
                if identity.administrator.is_none() {
                    self.publish_orphans_event(&begun).await;
                }
                if forced {
                    self.publish_force_event(&begun, &identity, &known, "").await;
                }
                self.helm_records.remove(pass.key);
                self.delete_stale_lease(pass).await?;
                self.remove_release_finalizer(&begun).await
            }
            Err(Error::Lock(_) | Error::Pending)
                if !self.is_namespace_terminating(&pass.key.namespace).await? =>
            {
                Ok(Action::RequeueAfter(Duration::from_secs(2)))
            }
            Err(_) if self.is_namespace_terminating(&pass.key.namespace).await? => {
                self.remove_external_objects(&begun, &identity).boxed().await?;
                if identity.administrator.is_none() {
                    self.publish_orphans_event(&begun).await;
                }
                self.remove_release_finalizer(&begun).await
            }
            Err(error) if forced && !is_transient(error.kind()) => {
                self.force_remove(&begun, &identity, &known, &error).boxed().await?;
                if let Some(administrator) = &identity.administrator {
                    let listed = administrator_objects::administered_entries(&begun.release);
                    let removed = self.remove_administered(&begun, administrator, listed).boxed().await;
                    removed.map_err(|error| ReconcileError::Helm(error.to_string()))?;
                } else {
                    self.publish_orphans_event(&begun).await;
                }
                self.remove_release_finalizer(&begun).await
            }
            Err(error) => {
                let attempts = begun.status().attempts.saturating_add(1);
                // Retried without limit: the obstacle may disappear.
                let pause = match decide_retry(error.kind(), attempts, Some(-1)) {
                    RetryDecision::RetryAfter(pause) => pause,
                    RetryDecision::GiveUp => MAX_BACKOFF,
                };
                let now = self.clock.now();
                let next = saturating_add(now, pause);
                let failure = if forced {
                    status_failure(error.kind(), FORCE_FAILED_REASON, format!("{FORCED_MESSAGE}: {error}"))
                } else {
                    status_failure(error.kind(), "UninstallFailed", error.to_string())
                };
                let new_status =
                    begun.status_update().uninstall_failed(&failure, attempts >= MAX_ATTEMPTS, next).build();
                self.update_status(&begun, new_status).await?;
                Ok(Action::RequeueAfter(pause))
            }
        }
    }

    async fn uninstall(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        forced: bool,
    ) -> Result<(), Error> {
        let helm = self.read_only_helm(pass, identity);
        if self.has_deletion_option(pass, DELETE_CLAIMS_ANNOTATION) {
            let removed = self.delete_claims(pass, identity).await;
            // A forced deletion continues without it.
            if !forced {
                removed?;
            }
        }
        let mut run = ActionOptions::new(&NoProgress);
        run.timeout = pass.timeout();
        run.hooks = !forced && !pass.release.spec.options.disable_hooks;
        let ask = uninstall_options(pass, run);
        helm.uninstall(&Uninstall { ignore_pending: forced, ..ask }).await?;
        match &identity.administrator {
            // By the status and not by records: the latest revision may lack them, and tenants can write records.
            Some(administrator) => {
                let listed = administrator_objects::administered_entries(&pass.release);
                self.remove_administered(pass, administrator, listed).boxed().await
            }
            None => Ok(()),
        }
    }

    /// The administrator who deleted the request with `asAdministrator`. If the rights of that account have ended since, objects that
    /// need them are left behind.
    fn uninstalling_administrator(&self, pass: &ReleaseContext<'_>) -> Option<Impersonation> {
        let reference = pass.release.spec.request_ref.as_ref()?;
        let request = self.requests.get(&reference.name)?;
        // The annotation of an earlier deletion that was not carried out does not count.
        let deleted = request.metadata.deletion_timestamp.is_some()
            && release_spec::is_owned_by(&pass.release, &request);
        let mark = request.annotations().get(UNINSTALL_AS_ADMINISTRATOR_ANNOTATION).filter(|_| deleted)?;
        let (user, uid) = mark.split_once('/')?;
        match identity::administrator_impersonation(user, uid, &*self.tenants) {
            Ok(administrator) => Some(administrator),
            Err(why) => {
                tracing::warn!(release = %pass.key, user, why, "an uninstallation cannot use administrator permissions");
                None
            }
        }
    }

    /// Whether the request has this annotation of a deletion option.
    fn has_deletion_option(&self, pass: &ReleaseContext<'_>, mark: &str) -> bool {
        let request = pass.release.spec.request_ref.as_ref();
        let request = request.and_then(|reference| self.requests.get(&reference.name));
        request.is_some_and(|request| request.annotations().contains_key(mark))
    }

    /// Completes when an administrator forces the deletion.
    async fn wait_until_forced(&self, pass: &ReleaseContext<'_>) {
        if let Some(reference) = &pass.release.spec.request_ref {
            // Watches this request only: many releases may be uninstalled concurrently.
            let mut changes = self.requests.subscribe_to("", &reference.name);
            while changes.next().await.is_some() {
                if self.has_deletion_option(pass, FORCE_DELETE_ANNOTATION) {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Removes as many objects as possible and all Helm records, and reports the remaining objects.
    async fn force_remove(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        known: &[Object],
        error: &Error,
    ) -> Result<(), ReconcileError> {
        // The identity of the release may have lost its rights, so the deployer of the namespace tries.
        let deployer = identity::deployer_identity(&pass.key.namespace);
        let how = RemoveOptions { ownership: Some(release_ownership(pass)), ..RemoveOptions::default() };
        let target = self.release_target(pass, &deployer);
        // Objects that could not be removed are in the event.
        drop(kube_apply::remove::remove(&target, known, &how, &NoProgress).await);
        self.publish_force_event(pass, identity, known, &error.to_string()).await;
        let storage = self.helm_factory.storage(&self.clients, &pass.key.namespace);
        for entry in storage.entries(&pass.key.name).await? {
            storage.delete(&entry.meta).await?;
        }
        self.helm_records.remove(pass.key);
        self.delete_stale_lease(pass).await
    }

    /// Publishes an event with the error and the remaining objects.
    async fn publish_force_event(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        known: &[Object],
        why: &str,
    ) {
        let target = self.release_target(pass, identity);
        let left = find_orphans(&target, known, &release_ownership(pass)).await;
        let mut note = format!("{FORCED_MESSAGE}, without hooks");
        if !why.is_empty() {
            note = format!("{note}: {why}");
        }
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            note = format!("{note}; not deleted: {}", left.join(", "));
        }
        let event = Event {
            type_: EventType::Warning,
            reason: "ForceDeleted".to_owned(),
            note: Some(note.chars().take(MAX_NOTE_LEN).collect()),
            action: "Uninstall".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &pass.release.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }

    /// The objects of the latest record, if readable, and those listed in the status.
    async fn recorded_objects(&self, pass: &ReleaseContext<'_>) -> Vec<Object> {
        let last = self.helm_factory.storage(&self.clients, &pass.key.namespace).newest(&pass.key.name).await;
        let manifest = last.ok().flatten().map(|stored| stored.record.manifest).unwrap_or_default();
        let share = self.helm_factory.pool_share(&pass.key.namespace);
        let bytes = manifest.len();
        let read = move || {
            Object::parse_all(&manifest).unwrap_or_default().iter().map(Object::without_content).collect()
        };
        let mut known: Vec<Object> = share.run_guaranteed(bytes, read).await.unwrap_or_default();
        known.extend(self.inventory_objects(pass));
        known
    }

    /// The objects listed in the status.
    fn inventory_objects(&self, pass: &ReleaseContext<'_>) -> Vec<Object> {
        pass.status().inventory.iter().filter_map(|entry| self.object_from_entry(entry)).collect()
    }

    fn release_target(&self, pass: &ReleaseContext<'_>, identity: &ReleaseIdentity) -> Target {
        let client = self.clients.impersonating(&identity.impersonation);
        let target = Target::new(client, self.helm_factory.discovery.clone(), &*pass.key.namespace);
        Target {
            reserved: administrator_objects::reserved_objects(&self.clients, identity, Some(&pass.release)),
            ..target
        }
    }

    /// Deletes the claims of StatefulSets. This is the first step, while the record still names them: Kubernetes removes a claim when its
    /// last pod is gone.
    async fn delete_claims(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
    ) -> Result<(), Error> {
        let storage = self.helm_factory.storage(&self.clients, &pass.key.namespace);
        let Some(stored) = storage.newest(&pass.key.name).await? else { return Ok(()) };
        let executor = match record_origin(Some(&pass.release), &stored.record, &identity.by) {
            Origin::Own | Origin::Other => &identity.impersonation,
            Origin::Foreign => &identity.untrusted,
        };
        let unknown = |kind, error: &dyn std::fmt::Display| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind,
            why: format!("cannot list its PersistentVolumeClaims: {error}"),
        };
        let manifest = stored.record.manifest;
        let bytes = manifest.len();
        let read = move || -> Result<Vec<String>, ParseError> {
            Ok(Object::parse_all(&manifest)?.iter().flat_map(claim_prefixes).collect())
        };
        let share = self.helm_factory.pool_share(&pass.key.namespace);
        let prefixes = share.run_on_objects(bytes, read).await;
        let prefixes = prefixes.map_err(|error| unknown(RenderError::from(error).kind(), &error))?;
        let prefixes = prefixes.map_err(|error| unknown(error.kind(), &error))?;
        if prefixes.is_empty() {
            return Ok(());
        }
        let client = self.clients.impersonating(executor);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, &pass.key.namespace);
        let refused = |error: kube::Error| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind: kube_apply::error::api_error_kind(&error),
            why: format!("cannot delete its PersistentVolumeClaims: {}", crate::error::error_message(&error)),
        };
        for claim in claims.list_metadata(&ListParams::default()).await.map_err(refused)?.items {
            let name = claim.name_any();
            if prefixes.iter().any(|prefix| is_numbered(&name, prefix)) {
                ignore_not_found(claims.delete(&name, &DeleteParams::default()).await.map(drop))
                    .map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Deletes a Lease that a crashed process left behind.
    async fn delete_stale_lease(&self, pass: &ReleaseContext<'_>) -> Result<(), ReconcileError> {
        let leases: Api<Lease> = Api::namespaced(self.clients.platform(), &pass.key.namespace);
        let left = leases.get_opt(&lease_name(&pass.key.name)).await;
        if left.context(|| format!("read the Lease of release `{}`", pass.key))?.is_some() {
            let hold = self.helm_factory.release_lock(&self.clients, &pass.key.namespace);
            let ended = hold.with_lock(&pass.key.name, Duration::ZERO, || async {}).await;
            ended.map_err(|error| ReconcileError::Helm(error.to_string()))?;
        }
        Ok(())
    }

    /// Whether the namespace is being deleted or does not exist.
    async fn is_namespace_terminating(&self, namespace: &str) -> Result<bool, ReconcileError> {
        let found = Api::<Namespace>::all(self.clients.platform()).get_opt(namespace).await;
        let found = found.context(|| format!("read namespace `{namespace}`"))?;
        Ok(found.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    /// Removes the objects outside the release's namespace, as listed in the status. Objects that the identity may no longer delete are left
    /// behind: the namespace would otherwise never be deleted, nor its workspace.
    async fn remove_external_objects(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
    ) -> Result<(), ReconcileError> {
        let (objects, target) = (self.inventory_objects(pass), self.release_target(pass, identity));
        let removed =
            kube_apply::remove::remove(&target, &objects, &RemoveOptions::default(), &NoProgress).await;
        match removed {
            Err(error) if error.failures.iter().all(|failure| failure.kind() == ErrorKind::Forbidden) => {
                // Events of a terminating namespace are lost.
                tracing::warn!(release = %pass.key, %error, "objects outside the terminating namespace are left behind");
            }
            removed => {
                removed.map_err(|error| ReconcileError::Helm(error.to_string()))?;
            }
        }
        if let Some(administrator) = &identity.administrator {
            let removed = self
                .remove_administered(
                    pass,
                    administrator,
                    administrator_objects::administered_entries(&pass.release),
                )
                .await;
            removed.map_err(|error| ReconcileError::Helm(error.to_string()))?;
        }
        Ok(())
    }

    /// Builds an object from its entry in the status.
    pub(super) fn object_from_entry(&self, entry: &InventoryEntry) -> Option<Object> {
        // In the preferred version of the cluster; the status does not record one.
        let any = if entry.group.is_empty() { "any".to_owned() } else { format!("{}/any", entry.group) };
        let api_version =
            self.helm_factory.discovery.find_any_version(&any, &entry.kind)?.resource.api_version;
        let mut value =
            json!({ "apiVersion": api_version, "kind": entry.kind, "metadata": { "name": entry.name } });
        if !entry.namespace.is_empty() {
            value["metadata"]["namespace"] = entry.namespace.clone().into();
        }
        Object::from_value(value).ok()
    }

    async fn remove_release_finalizer(&self, pass: &ReleaseContext<'_>) -> Result<Action, ReconcileError> {
        let left: Vec<&String> =
            pass.release.finalizers().iter().filter(|finalizer| *finalizer != RELEASE_FINALIZER).collect();
        let patch = json!({
            "metadata": { "resourceVersion": pass.release.resource_version(), "finalizers": left },
        });
        let api = self.release_api(&pass.key.namespace);
        let freed = api.patch(&pass.key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        ignore_not_found(freed.map(drop))
            .context(|| format!("remove the finalizer of release `{}`", pass.key))?;
        self.reconcile_state.remove(pass.key);
        Ok(Action::AwaitChange)
    }
}

/// The name prefixes of a `StatefulSet`'s claims, up to the ordinal.
fn claim_prefixes(object: &Object) -> Vec<String> {
    if object.kind() != "StatefulSet" {
        return Vec::new();
    }
    let templates = object.value()["spec"]["volumeClaimTemplates"].as_array();
    let names = templates.into_iter().flatten().filter_map(|template| template["metadata"]["name"].as_str());
    names.map(|name| format!("{name}-{}-", object.name())).collect()
}

/// Whether the name is the prefix followed by a number.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_prefixes_match_only_own_claims() {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "zk"},
            "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
        });
        let prefixes = claim_prefixes(&Object::from_value(set).unwrap());
        assert_eq!(prefixes, ["data-zk-"]);
        assert!(is_numbered("data-zk-0", &prefixes[0]) && is_numbered("data-zk-12", &prefixes[0]));
        for other in ["data-zk-", "data-zk-a", "data-zk-0-0", "data-zk2-0", "x-data-zk-0"] {
            assert!(!is_numbered(other, &prefixes[0]), "{other}");
        }
    }
}
