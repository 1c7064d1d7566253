//! Forced deletion of a release: no hook runs, and objects that cannot be removed are left and reported.
//!
//! Requires the permission to remove the whole namespace ([`Capability::ManageNamespaces`]): the caller has to clean up what is left. The
//! controller performs the deletion (`crate::release::remove`); this module requests it, waits, and lists what is left.

use std::time::Duration;

use domain::Actor;
use domain::roles::Capability;
use kube::ResourceExt;
use kube_apply::{Object, Ownership, Target};
use tokio::time::timeout;

use super::change::{DeleteOptions, mark};
use super::left::{LeftBehind, left_behind};
use super::look::objects;
use super::view::ReleaseView;
use super::{Error, unmoved};
use crate::Releases;
use crate::requests::FORCE_DELETE;

/// Time limit of the wait. The deletion continues after it.
const WAIT: Duration = Duration::from_secs(30);

/// The progress of a deletion.
#[derive(Clone, Debug)]
pub struct Forced {
    pub release: ReleaseView,
    /// Objects left behind by a completed forced deletion, or left to administrators by an uninstallation. `None` if the deletion has not
    /// completed, or nothing is left.
    pub left: Option<Vec<LeftBehind>>,
}

impl Releases {
    /// Forces the deletion of a release, which may be in progress already.
    pub async fn force_delete(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        options: DeleteOptions<'_>,
    ) -> Result<Forced, Error> {
        let request = self.request_for(actor, "delete", namespace, name).await?;
        self.workspace(actor, Capability::ManageNamespaces, namespace)?;
        unmoved(&request, options.seen)?;
        // Read while the record exists. An unreadable record may be the reason for the forced deletion.
        let known: Vec<Object> = match self.record(actor, namespace, name, None).await {
            Ok((record, _)) => {
                let bytes = record.bytes();
                let read = move || Ok(objects(&record)?.iter().map(Object::without_content).collect());
                self.examine(namespace, bytes, read).await.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        let mut marks = options.marks(actor, &request)?;
        marks.extend([mark(FORCE_DELETE, &actor.label())]);
        let administered = self.left_to_administrators(namespace, name, options);
        self.delete_request(&request, marks).await?;
        let uid = request.uid();
        let gone = timeout(WAIT, self.until_gone(&request.name_any(), uid.as_deref())).await.is_ok();
        let left = if gone {
            let mut left = self.left(actor, namespace, name, &known).await;
            left.extend(administered);
            Some(left)
        } else {
            None
        };
        Ok(Forced { release: ReleaseView::leaving(&request), left })
    }

    async fn until_gone(&self, id: &str, uid: Option<&str>) {
        let mut changes = self.changes();
        loop {
            // In this order, so that a change after the read wakes the loop.
            changes.mark_unchanged();
            let found = self.parts().requests.get(id);
            if found.is_none_or(|found| found.uid().as_deref() != uid) || changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn left(&self, actor: &Actor, namespace: &str, name: &str, known: &[Object]) -> Vec<LeftBehind> {
        let Ok(reader) = self.acts_in(actor, Capability::ReadReleases, namespace) else { return Vec::new() };
        let client = self.parts().clients.acting_as(&reader);
        let target = Target::new(client, self.parts().helms.discovery.clone(), namespace);
        left_behind(&target, known, &Ownership::new(name, namespace)).await
    }
}
