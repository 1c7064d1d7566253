//! Rolls a release back to an earlier revision.

use helm_engine::{HookEvent, names};
use kube_apply::{ApplyResult, remove};

use super::history::{HistoryDecision, decide, next_revision};
use super::install::RenderedRelease;
use super::operation::{History, Operation, RevisionRun};
use super::options::{ContentSource, DryRun, Rollback};
use crate::error::{Error, FailureCause};
use crate::helm::Helm;
use crate::record::{Record, RevisionInfo, Status};
use crate::trust::Origin;

/// Maximum length of a description in characters.
const MAX_DESCRIPTION_LEN: usize = 256;

impl Helm {
    /// Rolls back to a revision. Returns the new record; for a dry run, the record that would be written.
    pub async fn rollback(&self, ask: &Rollback<'_>) -> Result<Record, Error> {
        names::check(&ask.name).map_err(|_| {
            Error::InvalidName(format!("prepareRollback: Release name is invalid: {}", ask.name))
        })?;
        if ask.revision < 0 {
            return Err(Error::InvalidRevision);
        }
        let length = ask.options.description.as_ref().map_or(0, |said| said.chars().count());
        if length > MAX_DESCRIPTION_LEN {
            return Err(Error::DescriptionTooLong(length));
        }
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.options);
        if ask.options.dry_run == DryRun::No {
            return self.with_lock(&ask.namespace, &ask.name, Box::pin(operation.rollback(ask))).await;
        }
        let history = operation.history().await?;
        Ok(Box::pin(operation.build_rollback(ask, &history)).await?.0.record)
    }
}

impl Operation<'_> {
    /// Rolls back a release. The caller holds its lock.
    pub async fn rollback(&self, ask: &Rollback<'_>) -> Result<Record, Error> {
        let history = loop {
            let history = self.history().await?;
            match decide(&history.revisions()) {
                HistoryDecision::Interrupted { revision } => {
                    let pending = history.load(self, revision).await?;
                    self.fail_interrupted(pending).await?;
                }
                HistoryDecision::FinishUninstall { .. } => Box::pin(self.finish_uninstall()).await?,
                HistoryDecision::Install { .. } | HistoryDecision::Upgrade { .. } => break history,
            }
        };
        let (RenderedRelease { record, objects, mask }, origin) = self.build_rollback(ask, &history).await?;
        let restored = Self::revision_to_restore(ask, &history)?;
        // The content was not rendered in this operation, so reserved objects are not written.
        let own = self.target_without_reserved();
        let target = if origin == Origin::Own { &own } else { &self.untrusted_target };
        let (way, _) = self.apply_strategy(Some(&record));
        let before = self.installed_objects(&history, record.version.saturating_sub(1)).await?;
        let looked = self.plan_writes("rollback", target, (&before, &objects), way, &mask).await?;

        let description = record.info.description.clone();
        let stored = self.create_first_record(&history, &record, origin, Some(restored)).await?;
        let mut course =
            RevisionRun { operation: self, target, stored, objects: &objects, strategy: way, mask };
        let mut applied = ApplyResult::default();
        let events = [HookEvent::PreRollback, HookEvent::PostRollback];
        let outcome = match Box::pin(course.execute(events, &before, looked, &mut applied)).await {
            Ok(()) => course.set_deployed(&history, &description).await.map_err(FailureCause::Storage),
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok(()) => Ok(course.stored.record),
            Err(cause) => Err(self.rollback_failed(course, cause, &applied, ask).await),
        }
    }

    async fn rollback_failed(
        &self,
        mut course: RevisionRun<'_>,
        cause: FailureCause,
        applied: &ApplyResult,
        ask: &Rollback<'_>,
    ) -> Error {
        if cause.is_concurrent_change() {
            return course.clean_up_superseded().await;
        }
        let (why, kind) = (course.mask.mask_text(&cause.to_string()), cause.kind());
        let (words, mut said) = match cause {
            FailureCause::NotReady(_) => ("Release", format!("release {} failed: {why}", self.name)),
            _ => ("Rollback", why.clone()),
        };
        if let Err(error) = course.set_failed(&format!("{words} {:?} failed: {why}", self.name)).await {
            return if error.is_concurrent_change() {
                course.clean_up_superseded().await
            } else {
                error.into()
            };
        }
        if ask.cleanup_on_fail
            && let Err(error) =
                remove(course.target, &applied.created, &self.cleanup_options(), self.options.progress).await
        {
            said = format!(
                "an error occurred while cleaning up resources. original rollback error: {why}: unable to cleanup \
                 resources: {}",
                course.mask.mask_text(&error.to_string())
            );
        }
        Error::Failed { said, kind, record: Box::new(course.stored.record) }
    }

    /// The revision to restore.
    fn revision_to_restore(ask: &Rollback<'_>, history: &History) -> Result<i64, Error> {
        let last = history.entries().last().ok_or(Error::NotFound)?;
        Ok(if ask.revision == 0 { last.meta.revision.saturating_sub(1) } else { ask.revision })
    }

    /// Builds the new revision from the content of an old one. Also returns the origin of that content.
    async fn build_rollback(
        &self,
        ask: &Rollback<'_>,
        history: &History,
    ) -> Result<(RenderedRelease, Origin), Error> {
        let last = history.entries().last().ok_or(Error::NotFound)?;
        let to = Self::revision_to_restore(ask, history)?;
        let old = history.load(self, to).await?.record;
        let origin = self.helm.origin(&old);
        let last = self.storage.load(last).await?.record;
        let said = ask.options.description.clone().unwrap_or_else(|| format!("Rollback to {to}"));
        let (_, apply_method) = self.apply_strategy(Some(&old));
        let record = Record {
            version: next_revision(last.version),
            namespace: last.namespace,
            info: RevisionInfo {
                first_deployed: last.info.first_deployed,
                last_deployed: self.helm.clock.now().into(),
                status: Status::PendingRollback,
                description: said,
                rollback_revision: if apply_method.is_some() { to } else { 0 },
                notes: old.info.notes.clone(),
                ..RevisionInfo::default()
            },
            apply_method,
            ..old
        };
        Ok((self.run_post_renderer(record, ContentSource::Stored).await?, origin))
    }
}
