//! Uninstalls a release with all objects of its records.

use helm_engine::{Event, names};
use kube::api::PropagationPolicy;
use kube_apply::remove::is_kept;
use kube_apply::{Mask, Removal};

use super::ask::{DryRun, Propagation, Run, Uninstall, Uninstalled};
use super::operation::{Course, History, Operation};
use crate::error::{Cause, Error};
use crate::helm::Helm;
use crate::record::Status;
use crate::storage::{StorageError, Stored};

const UNDERWAY: &str = "Deletion in progress (or silently failed)";
/// Hint for the user when objects of an untrusted record cannot be removed.
const UNTRUSTED: &str = " (Longshore did not make all Helm records of this release, so that some of its objects are removed \
     with the rights of the namespace's deployer: upgrade the release, or force its deletion)";
const COMPLETE: &str = "Uninstallation complete";

impl Helm {
    /// Uninstalls a release.
    pub async fn uninstall(&self, ask: &Uninstall<'_>) -> Result<Uninstalled, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::Name(format!("uninstall: Release name is invalid: {}", ask.name)))?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.run);
        if ask.run.dry_run != DryRun::No {
            return Box::pin(operation.rehearse_uninstall(ask)).await;
        }
        // A missing or terminating namespace accepts no Lease. Without records there is nothing to uninstall and no
        // lock is needed.
        let history = operation.history().await?;
        if history.entries().is_empty() {
            return operation.nothing(ask);
        }
        self.held(&ask.namespace, &ask.name, Box::pin(operation.uninstall(ask))).await
    }
}

impl Operation<'_> {
    fn nothing(&self, ask: &Uninstall<'_>) -> Result<Uninstalled, Error> {
        if !ask.ignore_not_found {
            return Err(Error::NotLoaded { name: self.name.to_owned() });
        }
        Ok(Uninstalled { record: None, kept: Vec::new(), unowned: Vec::new() })
    }

    async fn rehearse_uninstall(&self, ask: &Uninstall<'_>) -> Result<Uninstalled, Error> {
        let history = self.history().await?;
        let Some(last) = history.entries().last() else { return self.nothing(ask) };
        let last = self.storage.open(last).await?;
        let objects = self.standing(&history, last.record.version).await?;
        let how = Removal { dry_run: true, ..self.how(ask) };
        let removed = self.remove(&objects, &how).await;
        let removed = removed.map_err(|error| self.not_deleted(&error, &Mask::default()))?;
        Ok(outcome(last, removed.kept))
    }

    /// Uninstalls a release. The caller holds its lock.
    pub async fn uninstall(&self, ask: &Uninstall<'_>) -> Result<Uninstalled, Error> {
        let history = self.history().await?;
        let Some(last) = history.entries().last() else { return self.nothing(ask) };
        let mut last = self.storage.open(last).await?;
        let status = last.record.info.status;
        if status == Status::Uninstalled {
            if ask.keep_history {
                return Err(Error::AlreadyDeleted { name: self.name.to_owned() });
            }
            self.purge(&history, &last).await?;
            return Ok(outcome(last, Vec::new()));
        }
        let underway = status.is_pending() || status == Status::Uninstalling;
        if underway && !ask.interrupts && !self.is_abandoned(&last) {
            return Err(Error::Pending);
        }
        // The status is written first, so that an interrupted uninstallation can be finished later.
        if status != Status::Uninstalling {
            last.record.set_status(Status::Uninstalling, UNDERWAY);
            last.record.info.deleted = self.helm.clock.now().into();
            last = self.storage.update(&last).await?;
        }
        let standing = self.standing(&history, last.record.version).await?;
        let objects = standing.all();
        let mask = Mask::new(&objects, &self.run.sensitive);
        let (way, _) = self.way(Some(&last.record));
        // From here on the record in memory is executed, not one read again.
        let target = self.target_of(&last.record);
        let mut course = Course { operation: self, target, stored: last, objects: &objects, way, mask };
        if let Err(cause) = course.hooks(Event::PreDelete).await {
            return Err(course.gave_up(&cause));
        }
        let removed = self.remove(&standing, &self.how(ask)).await;
        let removed = removed.map_err(|error| {
            let mut error = self.not_deleted(&error, &course.mask);
            if let (Error::NotDeleted { why, .. }, false) = (&mut error, standing.foreign.is_empty()) {
                why.push_str(UNTRUSTED);
            }
            error
        })?;
        // All objects are removed by now, so a failing post-delete hook does not keep the records.
        let late = course.hooks(Event::PostDelete).await.err();

        let said = self.run.description.as_deref().unwrap_or(COMPLETE);
        course.stored.record.set_status(Status::Uninstalled, said);
        let last = if ask.keep_history {
            self.supersede(&history, course.stored.record.version).await?;
            self.storage.update(&course.stored).await?
        } else {
            self.purge(&history, &course.stored).await?;
            course.stored
        };
        match late {
            Some(cause) => {
                Err(Error::Uninstalled { kind: cause.kind(), why: course.mask.over(&cause.to_string()) })
            }
            None => Ok(outcome(last, removed.kept)),
        }
    }

    /// Finishes an interrupted uninstallation. Keeps the history, because it is not recorded whether it was to be
    /// kept.
    pub async fn finish_uninstall(&self) -> Result<(), Error> {
        let ask = Uninstall {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            keep_history: true,
            ignore_not_found: true,
            propagation: Propagation::Background,
            interrupts: false,
            run: Run { description: None, ..self.run.clone() },
        };
        self.uninstall(&ask).await.map(|_| ())
    }

    fn how(&self, ask: &Uninstall<'_>) -> Removal {
        let propagation = match ask.propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        };
        Removal { propagation, ..self.removal() }
    }

    fn not_deleted(&self, error: &kube_apply::RemoveError, mask: &Mask) -> Error {
        Error::NotDeleted {
            name: self.name.to_owned(),
            kind: error.kind(),
            why: mask.over(&error.to_string()),
        }
    }

    /// Deletes the records, the newest one last: its status marks the others for deletion.
    async fn purge(&self, history: &History, last: &Stored) -> Result<(), StorageError> {
        for entry in history.entries() {
            if entry.head.revision != last.record.version {
                self.storage.delete(&entry.head).await?;
            }
        }
        self.storage.delete(&last.head()).await
    }
}

impl Course<'_> {
    /// A pre-delete hook failed: nothing was deleted. The error carries the record with the hook results.
    fn gave_up(self, cause: &Cause) -> Error {
        Error::Failed {
            said: self.mask.over(&cause.to_string()),
            kind: cause.kind(),
            record: Box::new(self.stored.record),
        }
    }
}

fn outcome(last: Stored, kept: Vec<kube_apply::Object>) -> Uninstalled {
    let (kept, unowned): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_kept);
    let ids = |objects: Vec<kube_apply::Object>| objects.iter().map(kube_apply::Object::id).collect();
    Uninstalled { record: Some(last.record), kept: ids(kept), unowned: ids(unowned) }
}
