//! Uninstalls a release with all objects of its records.

use helm_engine::{HookEvent, names};
use kube::api::PropagationPolicy;
use kube_apply::remove::is_kept;
use kube_apply::{Mask, RemoveOptions};

use super::operation::{History, Operation, RevisionRun};
use super::options::{ActionOptions, DryRun, Propagation, Uninstall, UninstallResult};
use crate::error::{Error, FailureCause};
use crate::helm::Helm;
use crate::record::Status;
use crate::storage::{StorageError, StoredRecord};

const UNINSTALLING_DESCRIPTION: &str = "Deletion in progress (or silently failed)";
/// Hint for the user when objects of an untrusted record cannot be removed.
const UNTRUSTED_RECORD_HINT: &str = " (Longshore did not make all Helm records of this release, so that some of its objects are removed \
     with the rights of the namespace's deployer: upgrade the release, or force its deletion)";
const UNINSTALLED_DESCRIPTION: &str = "Uninstallation complete";

impl Helm {
    /// Uninstalls a release.
    pub async fn uninstall(&self, ask: &Uninstall<'_>) -> Result<UninstallResult, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::InvalidName(format!("uninstall: Release name is invalid: {}", ask.name)))?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.options);
        if ask.options.dry_run != DryRun::No {
            return Box::pin(operation.dry_run_uninstall(ask)).await;
        }
        // A missing or terminating namespace accepts no Lease. Without records there is nothing to uninstall and no
        // lock is needed.
        let history = operation.history().await?;
        if history.entries().is_empty() {
            return operation.missing_release_result(ask);
        }
        self.with_lock(&ask.namespace, &ask.name, Box::pin(operation.uninstall(ask))).await
    }
}

impl Operation<'_> {
    fn missing_release_result(&self, ask: &Uninstall<'_>) -> Result<UninstallResult, Error> {
        if !ask.ignore_not_found {
            return Err(Error::NotLoaded { name: self.name.to_owned() });
        }
        Ok(UninstallResult { record: None, kept: Vec::new(), unowned: Vec::new() })
    }

    async fn dry_run_uninstall(&self, ask: &Uninstall<'_>) -> Result<UninstallResult, Error> {
        let history = self.history().await?;
        let Some(last) = history.entries().last() else { return self.missing_release_result(ask) };
        let last = self.storage.load(last).await?;
        let objects = self.installed_objects(&history, last.record.version).await?;
        let how = RemoveOptions { dry_run: true, ..self.uninstall_remove_options(ask) };
        let removed = self.remove(&objects, &how).await;
        let removed = removed.map_err(|error| self.remove_error(&error, &Mask::default()))?;
        Ok(uninstall_result(last, removed.kept))
    }

    /// Uninstalls a release. The caller holds its lock.
    pub async fn uninstall(&self, ask: &Uninstall<'_>) -> Result<UninstallResult, Error> {
        let history = self.history().await?;
        let Some(last) = history.entries().last() else { return self.missing_release_result(ask) };
        let mut last = self.storage.load(last).await?;
        let status = last.record.info.status;
        if status == Status::Uninstalled {
            if ask.keep_history {
                return Err(Error::AlreadyDeleted { name: self.name.to_owned() });
            }
            self.delete_records(&history, &last).await?;
            return Ok(uninstall_result(last, Vec::new()));
        }
        let underway = status.is_pending() || status == Status::Uninstalling;
        if underway && !ask.ignore_pending && !self.is_orphaned(&last) {
            return Err(Error::Pending);
        }
        // The status is written first, so that an interrupted uninstallation can be finished later.
        if status != Status::Uninstalling {
            last.record.set_status(Status::Uninstalling, UNINSTALLING_DESCRIPTION);
            last.record.info.deleted = self.helm.clock.now().into();
            last = self.storage.update(&last).await?;
        }
        let standing = self.installed_objects(&history, last.record.version).await?;
        let objects = standing.all();
        let mask = Mask::new(&objects, &self.options.sensitive);
        let (way, _) = self.apply_strategy(Some(&last.record));
        // From here on the record in memory is executed, not one read again.
        let target = self.target_for_record(&last.record);
        let mut course =
            RevisionRun { operation: self, target, stored: last, objects: &objects, strategy: way, mask };
        if let Err(cause) = course.run_hooks(HookEvent::PreDelete).await {
            return Err(course.into_hook_failure(&cause));
        }
        let removed = self.remove(&standing, &self.uninstall_remove_options(ask)).await;
        let removed = removed.map_err(|error| {
            let mut error = self.remove_error(&error, &course.mask);
            if let (Error::NotDeleted { why, .. }, false) = (&mut error, standing.untrusted.is_empty()) {
                why.push_str(UNTRUSTED_RECORD_HINT);
            }
            error
        })?;
        // All objects are removed by now, so a failing post-delete hook does not keep the records.
        let late = course.run_hooks(HookEvent::PostDelete).await.err();

        let said = self.options.description.as_deref().unwrap_or(UNINSTALLED_DESCRIPTION);
        course.stored.record.set_status(Status::Uninstalled, said);
        let last = if ask.keep_history {
            self.supersede(&history, course.stored.record.version).await?;
            self.storage.update(&course.stored).await?
        } else {
            self.delete_records(&history, &course.stored).await?;
            course.stored
        };
        match late {
            Some(cause) => {
                Err(Error::Uninstalled { kind: cause.kind(), why: course.mask.mask_text(&cause.to_string()) })
            }
            None => Ok(uninstall_result(last, removed.kept)),
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
            ignore_pending: false,
            options: ActionOptions { description: None, ..self.options.clone() },
        };
        self.uninstall(&ask).await.map(|_| ())
    }

    fn uninstall_remove_options(&self, ask: &Uninstall<'_>) -> RemoveOptions {
        let propagation = match ask.propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        };
        RemoveOptions { propagation, ..self.remove_options() }
    }

    fn remove_error(&self, error: &kube_apply::RemoveError, mask: &Mask) -> Error {
        Error::NotDeleted {
            name: self.name.to_owned(),
            kind: error.kind(),
            why: mask.mask_text(&error.to_string()),
        }
    }

    /// Deletes the records, the newest one last: its status marks the others for deletion.
    async fn delete_records(&self, history: &History, last: &StoredRecord) -> Result<(), StorageError> {
        for entry in history.entries() {
            if entry.meta.revision != last.record.version {
                self.storage.delete(&entry.meta).await?;
            }
        }
        self.storage.delete(&last.meta()).await
    }
}

impl RevisionRun<'_> {
    /// A pre-delete hook failed: nothing was deleted. The error carries the record with the hook results.
    fn into_hook_failure(self, cause: &FailureCause) -> Error {
        Error::Failed {
            said: self.mask.mask_text(&cause.to_string()),
            kind: cause.kind(),
            record: Box::new(self.stored.record),
        }
    }
}

fn uninstall_result(last: StoredRecord, kept: Vec<kube_apply::Object>) -> UninstallResult {
    let (kept, unowned): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_kept);
    let ids = |objects: Vec<kube_apply::Object>| objects.iter().map(kube_apply::Object::id).collect();
    UninstallResult { record: Some(last.record), kept: ids(kept), unowned: ids(unowned) }
}
