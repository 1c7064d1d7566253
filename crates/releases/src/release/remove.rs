//! Deletion of a release: uninstalls it with its identity, then removes the finalizer.
//!
//! Invariant: the finalizer is removed only when nothing is left of the release, or when what is left is meant to stay. A namespace that
//! is being deleted takes everything in it along, including Helm's records; objects outside it are listed in the status.
//!
//! If an administrator forces the deletion ([`FORCE_DELETE`]), no hook runs, and objects that cannot be removed are left and reported.
//! The identity stays that of the release, never the administrator's: content that a tenant wrote into a record must not gain rights.
//!
//! Objects that an administrator wrote are removed only with the option `asAdministrator`, as listed in the status. Without it they stay,
//! and an event names them.

use std::time::Duration;

use domain::Kind;
use domain::actor::Impersonation;
use domain::clock::after;
use domain::release::State;
use domain::release::retry::{ATTEMPTS, LONGEST_PAUSE, Then, then};
use futures::{FutureExt, StreamExt};
use helm_release::actions::{Run, Uninstall};
use helm_release::hold::lease_name;
use helm_release::render::RenderError;
use helm_release::{Error, Origin};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt};
use kube_access::queue::Next;
use kube_apply::remove::Removal;
use kube_apply::{Object, Ownership, ParseError, Silent, Target};
use kube_types::marks::RELEASE_FINALIZER;
use kube_types::progress;
use kube_types::release::conditions::READY;
use kube_types::release::{DeletionPolicy, InventoryEntry};
use serde_json::json;

use super::administered;
use super::identity::{self, Identity};
use super::ledger::origin;
use super::operate::{operation_id, uninstall};
use super::{Pass, failure};
use crate::acts::left::left_behind;
use crate::error::{Doing, PassError};
use crate::lead::Controller;
use crate::requests::{
    DELETE_CLAIMS, FORCE_DELETE, UNINSTALL_AS_ADMINISTRATOR, gone, is_held, until, wanted,
};

/// The prefix of the message while a forced deletion has not succeeded.
const FORCED: &str = "an administrator forced its end";
/// The reason of the condition `Ready` after a forced deletion failed.
const FORCE_FAILED: &str = "ForceDeleteFailed";
/// The maximum length of an event note, in characters.
pub(super) const NOTE: usize = 1024;

/// Whether the error is transient. A forced deletion waits for an unreachable cluster.
fn passes(kind: Kind) -> bool {
    matches!(kind, Kind::Timeout | Kind::Unavailable | Kind::Exhausted | Kind::Conflict | Kind::Precondition)
}

pub(super) fn ownership(pass: &Pass<'_>) -> Ownership {
    Ownership::new(pass.key.name.to_string(), pass.key.namespace.to_string())
}

impl Controller {
    pub(super) async fn remove_release(&self, pass: &Pass<'_>) -> Result<Next, PassError> {
        if !is_held(&pass.release) {
            return Ok(Next::Rest);
        }
        if pass.release.spec.deletion_policy == DeletionPolicy::Orphan {
            return self.let_go(pass).await;
        }
        let status = pass.status();
        let leaving = status.state == State::Deleting.as_str();
        let forced = self.asks(pass, FORCE_DELETE);
        let due = status.next_retry_time.as_ref().filter(|due| leaving && due.0 > pass.now);
        // A forced deletion ignores the backoff, except after its own failure.
        let ready = progress::condition(&status.conditions, READY);
        let tried = ready.is_some_and(|ready| ready.reason == FORCE_FAILED);
        if let Some(due) = due.filter(|_| !forced || tried) {
            return Ok(Next::After(until(pass.now, due.0)));
        }
        // If the account no longer exists, the deployer of the namespace uninstalls the release.
        let identity = identity::identity(&pass.release, &self.requests, &*self.people)
            .unwrap_or_else(|_| identity::of_deployer(&pass.key.namespace));
        let identity = Identity { administrator: self.uninstalled_by(pass), ..identity };
        let id = operation_id();
        let mut telling = pass.telling();
        if !leaving {
            // Failed attempts of other operations do not count.
            telling = telling.afresh();
        }
        let started =
            telling.started(State::Deleting, "uninstall", &id, after(pass.now, pass.timeout())).done();
        let begun = Pass { key: pass.key, release: self.tell(pass, started).await?, now: pass.now };
        // Read while the record still exists.
        let known = if forced { self.known_objects(pass).await } else { Vec::new() };
        let done = tokio::select! {
            done = self.uninstall(&begun, &identity, forced).boxed() => done,
            // A forced deletion does not wait for a running hook.
            () = self.until_forced(pass), if !forced => return Ok(Next::After(Duration::ZERO)),
        };
        match done {
            Ok(()) => {
                if identity.administrator.is_none() {
                    self.report_left_behind(&begun).await;
                }
                if forced {
                    self.tell_of_force(&begun, &identity, &known, "").await;
                }
                self.records.forget(pass.key);
                self.end_lease(pass).await?;
                self.let_go(&begun).await
            }
            Err(Error::Hold(_) | Error::Pending) if !self.is_ending(&pass.key.namespace).await? => {
                Ok(Next::After(Duration::from_secs(2)))
            }
            Err(_) if self.is_ending(&pass.key.namespace).await? => {
                self.remove_outside(&begun, &identity).boxed().await?;
                if identity.administrator.is_none() {
                    self.report_left_behind(&begun).await;
                }
                self.let_go(&begun).await
            }
            Err(error) if forced && !passes(error.kind()) => {
                self.remove_by_force(&begun, &identity, &known, &error).boxed().await?;
                if let Some(administrator) = &identity.administrator {
                    let listed = administered::entries_of(&begun.release);
                    let removed = self.remove_administered(&begun, administrator, listed).boxed().await;
                    removed.map_err(|error| PassError::Helm(error.to_string()))?;
                } else {
                    self.report_left_behind(&begun).await;
                }
                self.let_go(&begun).await
            }
            Err(error) => {
                let attempts = begun.status().attempts.saturating_add(1);
                // Retried without limit: the obstacle may disappear.
                let pause = match then(error.kind(), attempts, Some(-1)) {
                    Then::TryAgain(pause) => pause,
                    Then::GiveUp => LONGEST_PAUSE,
                };
                let now = self.clock.now();
                let next = after(now, pause);
                let failure = if forced {
                    failure(error.kind(), FORCE_FAILED, format!("{FORCED}: {error}"))
                } else {
                    failure(error.kind(), "UninstallFailed", error.to_string())
                };
                let told = begun.telling().not_removed(&failure, attempts >= ATTEMPTS, next).done();
                self.tell(&begun, told).await?;
                Ok(Next::After(pause))
            }
        }
    }

    async fn uninstall(&self, pass: &Pass<'_>, identity: &Identity, forced: bool) -> Result<(), Error> {
        let helm = self.judging_helm(pass, identity);
        if self.asks(pass, DELETE_CLAIMS) {
            let removed = self.remove_claims(pass, identity).await;
            // A forced deletion continues without it.
            if !forced {
                removed?;
            }
        }
        let mut run = Run::new(&Silent);
        run.timeout = pass.timeout();
        run.hooks = !forced && !pass.release.spec.options.disable_hooks;
        let ask = uninstall(pass, run);
        helm.uninstall(&Uninstall { interrupts: forced, ..ask }).await?;
        match &identity.administrator {
            // By the status and not by records: the latest revision may lack them, and tenants can write records.
            Some(administrator) => {
                let listed = administered::entries_of(&pass.release);
                self.remove_administered(pass, administrator, listed).boxed().await
            }
            None => Ok(()),
        }
    }

    /// The administrator who deleted the request with `asAdministrator`. If the rights of that account have ended since, objects that
    /// need them are left behind.
    fn uninstalled_by(&self, pass: &Pass<'_>) -> Option<Impersonation> {
        let reference = pass.release.spec.request_ref.as_ref()?;
        let request = self.requests.get(&reference.name)?;
        // The annotation of an earlier deletion that was not carried out does not count.
        let deleted =
            request.metadata.deletion_timestamp.is_some() && wanted::belongs(&pass.release, &request);
        let mark = request.annotations().get(UNINSTALL_AS_ADMINISTRATOR).filter(|_| deleted)?;
        let (user, uid) = mark.split_once('/')?;
        match identity::administrator_of(user, uid, &*self.people) {
            Ok(administrator) => Some(administrator),
            Err(why) => {
                tracing::warn!(release = %pass.key, user, why, "an uninstallation cannot use the rights of an administrator");
                None
            }
        }
    }

    /// Whether the request has this annotation of a deletion option.
    fn asks(&self, pass: &Pass<'_>, mark: &str) -> bool {
        let request = pass.release.spec.request_ref.as_ref();
        let request = request.and_then(|reference| self.requests.get(&reference.name));
        request.is_some_and(|request| request.annotations().contains_key(mark))
    }

    /// Completes when an administrator forces the deletion.
    async fn until_forced(&self, pass: &Pass<'_>) {
        if let Some(reference) = &pass.release.spec.request_ref {
            // Watches this request only: many releases may be uninstalled concurrently.
            let mut changes = self.requests.changes_of("", &reference.name);
            while changes.next().await.is_some() {
                if self.asks(pass, FORCE_DELETE) {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Removes as many objects as possible and all Helm records, and reports what is left.
    async fn remove_by_force(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        known: &[Object],
        error: &Error,
    ) -> Result<(), PassError> {
        // The identity of the release may have lost its rights, so the deployer of the namespace tries.
        let deployer = identity::of_deployer(&pass.key.namespace);
        let how = Removal { ownership: Some(ownership(pass)), ..Removal::default() };
        let target = self.target(pass, &deployer);
        // Failures show up in what is left.
        drop(kube_apply::remove::remove(&target, known, &how, &Silent).await);
        self.tell_of_force(pass, identity, known, &error.to_string()).await;
        let storage = self.helm.storage(&self.clients, &pass.key.namespace);
        for entry in storage.entries(&pass.key.name).await? {
            storage.delete(&entry.head).await?;
        }
        self.records.forget(pass.key);
        self.end_lease(pass).await
    }

    /// Writes an event: what was forced, and what is left.
    async fn tell_of_force(&self, pass: &Pass<'_>, identity: &Identity, known: &[Object], why: &str) {
        let target = self.target(pass, identity);
        let left = left_behind(&target, known, &ownership(pass)).await;
        let mut note = format!("{FORCED}, without hooks");
        if !why.is_empty() {
            note = format!("{note}: {why}");
        }
        if !left.is_empty() {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            note = format!("{note}; left behind: {}", left.join(", "));
        }
        let event = Event {
            type_: EventType::Warning,
            reason: "ForceDeleted".to_owned(),
            note: Some(note.chars().take(NOTE).collect()),
            action: "Uninstall".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &pass.release.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }

    /// The objects of the latest record, if readable, and those listed in the status.
    async fn known_objects(&self, pass: &Pass<'_>) -> Vec<Object> {
        let last = self.helm.storage(&self.clients, &pass.key.namespace).last(&pass.key.name).await;
        let manifest = last.ok().flatten().map(|stored| stored.record.manifest).unwrap_or_default();
        let share = self.helm.share(&pass.key.namespace);
        let bytes = manifest.len();
        let read = move || {
            Object::parse_all(&manifest).unwrap_or_default().iter().map(Object::without_content).collect()
        };
        let mut known: Vec<Object> = share.finish(bytes, read).await.unwrap_or_default();
        known.extend(self.listed(pass));
        known
    }

    /// The objects listed in the status.
    fn listed(&self, pass: &Pass<'_>) -> Vec<Object> {
        pass.status().inventory.iter().filter_map(|entry| self.object(entry)).collect()
    }

    fn target(&self, pass: &Pass<'_>, identity: &Identity) -> Target {
        let client = self.clients.acting_as(&identity.acts_as);
        let target = Target::new(client, self.helm.discovery.clone(), &*pass.key.namespace);
        Target { reserved: administered::reserved(&self.clients, identity, Some(&pass.release)), ..target }
    }

    /// Deletes the claims of StatefulSets. This is the first step, while the record still names them: Kubernetes removes a claim when its
    /// last pod is gone.
    async fn remove_claims(&self, pass: &Pass<'_>, identity: &Identity) -> Result<(), Error> {
        let storage = self.helm.storage(&self.clients, &pass.key.namespace);
        let Some(stored) = storage.last(&pass.key.name).await? else { return Ok(()) };
        let executor = match origin(Some(&pass.release), &stored.record, &identity.by) {
            Origin::Own | Origin::Other => &identity.acts_as,
            Origin::Foreign => &identity.foreign,
        };
        let unknown = |kind, error: &dyn std::fmt::Display| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind,
            why: format!("its claims are not known: {error}"),
        };
        let manifest = stored.record.manifest;
        let bytes = manifest.len();
        let read = move || -> Result<Vec<String>, ParseError> {
            Ok(Object::parse_all(&manifest)?.iter().flat_map(claim_prefixes).collect())
        };
        let share = self.helm.share(&pass.key.namespace);
        let prefixes = share.run_on_objects(bytes, read).await;
        let prefixes = prefixes.map_err(|error| unknown(RenderError::from(error).kind(), &error))?;
        let prefixes = prefixes.map_err(|error| unknown(error.kind(), &error))?;
        if prefixes.is_empty() {
            return Ok(());
        }
        let client = self.clients.acting_as(executor);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, &pass.key.namespace);
        let refused = |error: kube::Error| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind: kube_apply::error::kind_of(&error),
            why: format!("its claims cannot be deleted: {}", crate::error::words(&error)),
        };
        for claim in claims.list_metadata(&ListParams::default()).await.map_err(refused)?.items {
            let name = claim.name_any();
            if prefixes.iter().any(|prefix| is_numbered(&name, prefix)) {
                gone(claims.delete(&name, &DeleteParams::default()).await.map(drop)).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Deletes a Lease that a crashed process left behind.
    async fn end_lease(&self, pass: &Pass<'_>) -> Result<(), PassError> {
        let leases: Api<Lease> = Api::namespaced(self.clients.own(), &pass.key.namespace);
        let left = leases.get_opt(&lease_name(&pass.key.name)).await;
        if left.doing(|| format!("look at the lease of release `{}`", pass.key))?.is_some() {
            let hold = self.helm.hold(&self.clients, &pass.key.namespace);
            let ended = hold.during(&pass.key.name, Duration::ZERO, || async {}).await;
            ended.map_err(|error| PassError::Helm(error.to_string()))?;
        }
        Ok(())
    }

    /// Whether the namespace is being deleted or does not exist.
    async fn is_ending(&self, namespace: &str) -> Result<bool, PassError> {
        let found = Api::<Namespace>::all(self.clients.own()).get_opt(namespace).await;
        let found = found.doing(|| format!("look at namespace `{namespace}`"))?;
        Ok(found.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    /// Removes the objects outside the release's namespace, as listed in the status.
    async fn remove_outside(&self, pass: &Pass<'_>, identity: &Identity) -> Result<(), PassError> {
        let (objects, target) = (self.listed(pass), self.target(pass, identity));
        let removed = kube_apply::remove::remove(&target, &objects, &Removal::default(), &Silent).await;
        removed.map_err(|error| PassError::Helm(error.to_string()))?;
        if let Some(administrator) = &identity.administrator {
            let removed =
                self.remove_administered(pass, administrator, administered::entries_of(&pass.release)).await;
            removed.map_err(|error| PassError::Helm(error.to_string()))?;
        }
        Ok(())
    }

    /// Builds an object from its entry in the status.
    pub(super) fn object(&self, entry: &InventoryEntry) -> Option<Object> {
        // In the preferred version of the cluster; the status does not record one.
        let any = if entry.group.is_empty() { "any".to_owned() } else { format!("{}/any", entry.group) };
        let api_version = self.helm.discovery.in_any_version(&any, &entry.kind)?.resource.api_version;
        let mut value =
            json!({ "apiVersion": api_version, "kind": entry.kind, "metadata": { "name": entry.name } });
        if !entry.namespace.is_empty() {
            value["metadata"]["namespace"] = entry.namespace.clone().into();
        }
        Object::from_value(value).ok()
    }

    async fn let_go(&self, pass: &Pass<'_>) -> Result<Next, PassError> {
        let left: Vec<&String> =
            pass.release.finalizers().iter().filter(|finalizer| *finalizer != RELEASE_FINALIZER).collect();
        let patch = json!({
            "metadata": { "resourceVersion": pass.release.resource_version(), "finalizers": left },
        });
        let api = self.release_api(&pass.key.namespace);
        let freed = api.patch(&pass.key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        gone(freed.map(drop)).doing(|| format!("let go of release `{}`", pass.key))?;
        self.known.forget(pass.key);
        Ok(Next::Rest)
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
    fn the_claims_of_another_are_not_meant() {
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
