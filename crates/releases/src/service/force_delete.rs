//! Forced deletion of a release: no hook runs, and objects that cannot be removed are left and reported.
//!
//! Requires the permission to remove the whole namespace ([`Capability::ManageNamespaces`]): the caller has to clean up the remaining
//! objects. The controller performs the deletion (`crate::release::uninstall`); this module requests it, waits, and lists the remaining
//! objects.

use std::time::Duration;

use domain::Actor;
use domain::roles::Capability;
use kube::ResourceExt;
use kube_apply::{Object, Ownership, Target};
use tokio::time::timeout;

use super::get::record_objects;
use super::orphans::{OrphanedObject, find_orphans};
use super::update::{DeleteOptions, annotation};
use super::view::ReleaseView;
use super::{Error, check_if_match};
use crate::Releases;
use crate::requests::FORCE_DELETE_ANNOTATION;

/// Time limit of the wait. The deletion continues after it.
const DELETION_TIMEOUT: Duration = Duration::from_secs(30);

/// The progress of a deletion.
#[derive(Clone, Debug)]
pub struct ForceDeleteResult {
    pub release: ReleaseView,
    /// Objects left behind by a completed forced deletion, or left to administrators by an uninstallation. `None` if the deletion has not
    /// completed, or nothing is left.
    pub orphans: Option<Vec<OrphanedObject>>,
}

impl Releases {
    /// Forces the deletion of a release, which may be in progress already.
    pub async fn force_delete(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Result<ForceDeleteResult, Error> {
        let request = self.writable_request(actor, "delete", namespace, name).await?;
        self.authorized_workspace(actor, Capability::ManageNamespaces, namespace)?;
        check_if_match(&request, options.if_match)?;
        // Read while the record exists. An unreadable record may be the reason for the forced deletion.
        let known: Vec<Object> = match self.load_record(actor, namespace, name, None).await {
            Ok((record, _)) => {
                let bytes = record.bytes();
                let read = move || Ok(record_objects(&record)?.iter().map(Object::without_content).collect());
                self.run_on_pool(namespace, bytes, read).await.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        let mut marks = options.annotations(actor, &request)?;
        marks.extend([annotation(FORCE_DELETE_ANNOTATION, &actor.audit_name())]);
        let administered = self.administrator_orphans(namespace, name, options);
        self.delete_request(&request, marks).await?;
        let uid = request.uid();
        let gone = timeout(DELETION_TIMEOUT, self.wait_until_deleted(&request.name_any(), uid.as_deref()))
            .await
            .is_ok();
        let left = if gone {
            let mut left = self.list_orphans(actor, namespace, name, &known).await;
            left.extend(administered);
            Some(left)
        } else {
            None
        };
        Ok(ForceDeleteResult { release: ReleaseView::from_deleted_request(&request), orphans: left })
    }

    async fn wait_until_deleted(&self, id: &str, uid: Option<&str>) {
        let mut changes = self.watch_changes();
        loop {
            // In this order, so that a change after the read wakes the loop.
            changes.mark_unchanged();
            let found = self.inner().requests.get(id);
            if found.is_none_or(|found| found.uid().as_deref() != uid) || changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn list_orphans(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        known: &[Object],
    ) -> Vec<OrphanedObject> {
        let Ok(reader) = self.impersonation_in(actor, Capability::ReadReleases, namespace) else {
            return Vec::new();
        };
        let client = self.inner().clients.impersonating(&reader);
        let target = Target::new(client, self.inner().helm_factory.discovery.clone(), namespace);
        find_orphans(&target, known, &Ownership::new(name, namespace)).await
    }
}
