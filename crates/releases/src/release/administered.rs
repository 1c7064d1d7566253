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
use kube_apply::remove::Removal;
use kube_apply::{Id, Object, Reserved, Silent, Target, live};
use kube_types::HelmRelease;
use kube_types::release::InventoryEntry;

use super::Pass;
use super::identity::Identity;
use super::remove::{NOTE, ownership};
use crate::acts::left::{LeftBehind, of_administrator};
use crate::lead::Controller;

/// The objects that the status lists.
pub(crate) fn entries_of(release: &HelmRelease) -> &[InventoryEntry] {
    release.status.as_ref().map(|status| status.administered.as_slice()).unwrap_or_default()
}

/// The reserved objects of an operation: written as the administrator of the identity, or skipped if it has none.
pub(crate) fn reserved(clients: &Clients, identity: &Identity, release: Option<&HelmRelease>) -> Reserved {
    let ids = release.map(entries_of).unwrap_or_default().iter().map(id);
    match &identity.administrator {
        Some(administrator) => Reserved::written_with(clients.acting_as(administrator), ids),
        None => Reserved::left_alone(ids),
    }
}

pub(crate) fn entries(ids: &BTreeSet<Id>) -> Vec<InventoryEntry> {
    ids.iter().map(entry).collect()
}

pub(super) fn entry(id: &Id) -> InventoryEntry {
    let Id { group, kind, namespace, name } = id.clone();
    InventoryEntry { group, kind, namespace: namespace.unwrap_or_default(), name }
}

pub(crate) fn id(entry: &InventoryEntry) -> Id {
    let InventoryEntry { group, kind, namespace, name } = entry.clone();
    Id { group, kind, namespace: Some(namespace).filter(|namespace| !namespace.is_empty()), name }
}

impl Controller {
    /// Removes listed objects that are not in the deployed revision, and returns the new list: the objects of the revision, including
    /// hooks that did not run, and the objects that could not be removed. Returns `None` without the option; the list then stays as it
    /// is.
    pub(super) async fn settle_administered(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        record: &Record,
    ) -> Option<Vec<InventoryEntry>> {
        let administrator = identity.administrator.as_ref()?;
        let listed = entries_of(&pass.release);
        let target = self.administrators_target(pass, administrator);
        let current = self.contents(&target, record).await?;
        let stale: Vec<InventoryEntry> =
            listed.iter().filter(|entry| !current.contains(&id(entry))).cloned().collect();
        if let Err(error) = self.remove_administered(pass, administrator, &stale).await {
            // They stay listed until the next operation with the option.
            tracing::warn!(release = %pass.key, %error, "cannot remove former objects of an administrator");
        }
        let mut gone = Vec::new();
        for entry in &stale {
            // An object that cannot be read may still exist.
            let is_gone = match self.object(entry) {
                Some(object) => live(&target, &[object])
                    .await
                    .is_ok_and(|found| found.iter().all(|live| live.value.is_none())),
                None => true,
            };
            gone.extend(is_gone.then_some(entry));
        }
        Some(listed.iter().filter(|entry| !gone.contains(entry)).cloned().collect())
    }

    /// Removes listed objects as an administrator, except those that another release owns.
    pub(super) async fn remove_administered(
        &self,
        pass: &Pass<'_>,
        administrator: &Impersonation,
        entries: &[InventoryEntry],
    ) -> Result<(), Error> {
        let objects: Vec<Object> = entries.iter().filter_map(|entry| self.object(entry)).collect();
        let target = self.administrators_target(pass, administrator);
        let how = Removal { ownership: Some(ownership(pass)), ..Removal::default() };
        let removed = kube_apply::remove::remove(&target, &objects, &how, &Silent).await;
        removed.map(drop).map_err(|error| Error::NotDeleted {
            name: pass.key.name.to_string(),
            kind: error.kind(),
            why: error.to_string(),
        })
    }

    /// Every object of a record, including hooks. `None` if the pool cannot parse it.
    async fn contents(&self, target: &Target, record: &Record) -> Option<BTreeSet<Id>> {
        let hooks = record.hooks.iter().map(|hook| hook.manifest.clone());
        let texts: Vec<String> = hooks.chain([record.manifest.clone()]).collect();
        let (bytes, share, target) = (record.bytes(), self.helm.share(&target.namespace), target.clone());
        let read = move || {
            let objects = texts.iter().filter_map(|text| Object::parse_all(text).ok());
            objects.flatten().map(|object| target.id(&object)).collect()
        };
        share.finish(bytes, read).await.ok()
    }

    fn administrators_target(&self, pass: &Pass<'_>, administrator: &Impersonation) -> Target {
        let client = self.clients.acting_as(administrator);
        Target::new(client, self.helm.discovery.clone(), &*pass.key.namespace)
    }

    /// Writes an event that names the objects left behind by an uninstallation without the option.
    pub(super) async fn report_left_behind(&self, pass: &Pass<'_>) {
        let left: Vec<LeftBehind> = entries_of(&pass.release).iter().map(of_administrator).collect();
        if left.is_empty() {
            return;
        }
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let note = format!("left behind: {}", left.join(", "));
        // Also logged: the event is lost if the namespace is being deleted.
        tracing::warn!(release = %pass.key, note, "objects of an administrator stay after an uninstallation");
        let event = Event {
            type_: EventType::Warning,
            reason: "LeftBehind".to_owned(),
            note: Some(note.chars().take(NOTE).collect()),
            action: "Uninstall".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &pass.release.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }
}
