//! The end of a release against all that is in the way: no hook is run, and what cannot be removed is left and told of.
//!
//! For whoever may remove the whole namespace ([`Capability::ManageNamespaces`]): what is left behind is for them to clean up.
//! The controller does it (`crate::release::remove`); here it is asked for, waited for, and looked at what is left.

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

/// So long it is waited for; what is not over by then goes on.
const WAIT: Duration = Duration::from_secs(30);

/// How far the end of a release has come.
#[derive(Clone, Debug)]
pub struct Forced {
    pub release: ReleaseView,
    /// What is still there of it, once it is gone by force, or what an uninstallation leaves to administrators; nothing where it is
    /// not gone yet, or nothing stays.
    pub left: Option<Vec<LeftBehind>>,
}

impl Releases {
    /// Ends a release, one that is being deleted already, too.
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
        // While there is a record of them. One that cannot be read may be what is in the way.
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
            // In this order: what changes after the look wakes us.
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
