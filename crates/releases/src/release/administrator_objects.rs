//! Objects of a release that were written with the rights of a platform administrator (`asAdministrator`).
//!
//! These are the objects that the release's own identity may not write. They are listed in `HelmRelease.status.administered`, which
//! tenants cannot write. An operation with the option writes them as the administrator. Every other operation skips them: it neither
//! writes, corrects, removes nor waits for them, and the revision that it creates does not contain them.
//!
//! Invariant: a trusted Helm record contains such an object only if an administrator provided its content.

use std::collections::BTreeSet;

use domain::actor::Impersonation;
use helm_release::{Error, Record};
use kube::Resource;
use kube::runtime::events::{Event, EventType};
use kube_access::Clients;
use kube_apply::remove::RemoveOptions;
use kube_apply::{NoProgress, Object, ObjectId, ReservedObjects, Target, read_live};
use kube_types::HelmRelease;
use kube_types::release::InventoryEntry;

use super::ReleaseContext;
use super::identity::ReleaseIdentity;
use super::uninstall::{MAX_NOTE_LEN, release_ownership};
use crate::controller::ReleaseController;
use crate::service::orphans::{OrphanedObject, administrator_orphan};

/// The objects that the status lists.
pub(crate) fn administered_entries(release: &HelmRelease) -> &[InventoryEntry] {
    release.status.as_ref().map(|status| status.administered.as_slice()).unwrap_or_default()
}

/// The reserved objects of an operation: written as the administrator of the identity, or skipped if it has none.
pub(crate) fn reserved_objects(
    clients: &Clients,
    identity: &ReleaseIdentity,
    release: Option<&HelmRelease>,
) -> ReservedObjects {
    let ids = release.map(administered_entries).unwrap_or_default().iter().map(object_id);
    match &identity.administrator {
        Some(administrator) => ReservedObjects::with_client(clients.impersonating(administrator), ids),
        None => ReservedObjects::skipped(ids),
    }
}

pub(crate) fn inventory_entries(ids: &BTreeSet<ObjectId>) -> Vec<InventoryEntry> {
    ids.iter().map(inventory_entry).collect()
}

pub(super) fn inventory_entry(id: &ObjectId) -> InventoryEntry {
    let ObjectId { group, kind, namespace, name } = id.clone();
    InventoryEntry { group, kind, namespace: namespace.unwrap_or_default(), name }
}

pub(crate) fn object_id(entry: &InventoryEntry) -> ObjectId {
    let InventoryEntry { group, kind, namespace, name } = entry.clone();
    ObjectId { group, kind, namespace: Some(namespace).filter(|namespace| !namespace.is_empty()), name }
}

impl ReleaseController {
    /// Removes listed objects that are not in the deployed revision, and returns the new list: the objects of the revision, including
    /// hooks that did not run, and the objects that could not be removed. Returns `None` without the option; the list then stays as it
    /// is.
    pub(super) async fn reconcile_administered(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        record: &Record,
    ) -> Option<Vec<InventoryEntry>> {
        let administrator = identity.administrator.as_ref()?;
        let listed = administered_entries(&pass.release);
        let target = self.administrator_target(pass, administrator);
        let current = self.record_object_ids(&target, record).await?;
        let stale: Vec<InventoryEntry> =
            listed.iter().filter(|entry| !current.contains(&object_id(entry))).cloned().collect();
        if let Err(error) = self.remove_administered(pass, administrator, &stale).await {
            // They stay listed until the next operation with the option.
            tracing::warn!(release = %pass.key, %error, "cannot delete former objects of an administrator");
        }
        let mut gone = Vec::new();
        for entry in &stale {
            // An object that cannot be read may still exist.
            let is_gone = match self.object_from_entry(entry) {
                Some(object) => read_live(&target, &[object])
                    .await
                    .is_ok_and(|found| found.iter().all(|live| live.value.is_none())),
                None => true,
            };
            gone.extend(is_gone.then_some(entry));
        }
        Some(listed.iter().filter(|entry| !gone.contains(entry)).cloned().collect())
    }

    /// Removes listed objects as an administrator, except objects that another release owns.
    pub(super) async fn remove_administered(
        &self,
        pass: &ReleaseContext<'_>,
        administrator: &Impersonation,
        entries: &[InventoryEntry],
    ) -> Result<(), Error> {
        let objects: Vec<Object> = entries.iter().filter_map(|entry| self.object_from_entry(entry)).collect();
        let target = self.administrator_target(pass, administrator);
        let how = RemoveOptions { ownership: Some(release_ownership(pass)), ..RemoveOptions::default() };
        let removed = kube_apply::remove::remove(&target, &objects, &how, &NoProgress).await;
        removed.map(drop).map_err(|error| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind: error.kind(),
            why: error.to_string(),
        })
    }

    /// Every object of a record, including hooks. `None` if the pool cannot parse it.
    async fn record_object_ids(&self, target: &Target, record: &Record) -> Option<BTreeSet<ObjectId>> {
        let hooks = record.hooks.iter().map(|hook| hook.manifest.clone());
        let texts: Vec<String> = hooks.chain([record.manifest.clone()]).collect();
        let (bytes, share, target) =
            (record.bytes(), self.helm_factory.pool_share(&target.namespace), target.clone());
        let read = move || {
            let objects = texts.iter().filter_map(|text| Object::parse_all(text).ok());
            objects.flatten().map(|object| target.id(&object)).collect()
        };
        share.run_guaranteed(bytes, read).await.ok()
    }

    fn administrator_target(&self, pass: &ReleaseContext<'_>, administrator: &Impersonation) -> Target {
        let client = self.clients.impersonating(administrator);
        Target::new(client, self.helm_factory.discovery.clone(), &*pass.key.namespace)
    }

    /// Writes an event that names the objects left behind by an uninstallation without the option.
    pub(super) async fn publish_orphans_event(&self, pass: &ReleaseContext<'_>) {
        let left: Vec<OrphanedObject> =
            administered_entries(&pass.release).iter().map(administrator_orphan).collect();
        if left.is_empty() {
            return;
        }
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let note = format!("not deleted: {}", left.join(", "));
        // Also logged: the event is lost if the namespace is being deleted.
        tracing::warn!(release = %pass.key, note, "uninstallation left objects of an administrator");
        let event = Event {
            type_: EventType::Warning,
            reason: "LeftBehind".to_owned(),
            note: Some(note.chars().take(MAX_NOTE_LEN).collect()),
            action: "Uninstall".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &pass.release.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }
}
