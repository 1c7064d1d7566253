//! Rolls a release back to an earlier revision.

use helm_engine::{Event, names};
use kube_apply::{Applied, remove};

use super::ask::{Content, DryRun, Rollback};
use super::install::Draft;
use super::operation::{Course, History, Operation};
use super::plan::{Step, next, plan};
use crate::error::{Cause, Error};
use crate::helm::Helm;
use crate::record::{Info, Record, Status};
use crate::trust::Origin;

/// Maximum length of a description in characters.
const LONGEST: usize = 256;

impl Helm {
    /// Rolls back to a revision. Returns the new record; for a dry run, the record that would be written.
    pub async fn rollback(&self, ask: &Rollback<'_>) -> Result<Record, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::Name(format!("prepareRollback: Release name is invalid: {}", ask.name)))?;
        if ask.revision < 0 {
            return Err(Error::BadRevision);
        }
        let length = ask.run.description.as_ref().map_or(0, |said| said.chars().count());
        if length > LONGEST {
            return Err(Error::Description(length));
        }
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.run);
        if ask.run.dry_run == DryRun::No {
            return self.held(&ask.namespace, &ask.name, Box::pin(operation.rollback(ask))).await;
        }
        let history = operation.history().await?;
        Ok(Box::pin(operation.draft_rollback(ask, &history)).await?.0.record)
    }
}

impl Operation<'_> {
    /// Rolls back a release. The caller holds its lock.
    pub async fn rollback(&self, ask: &Rollback<'_>) -> Result<Record, Error> {
        let history = loop {
            let history = self.history().await?;
            match plan(&history.view()) {
                Step::Interrupted { revision } => {
                    let pending = history.open(self, revision).await?;
                    self.interrupt(pending).await?;
                }
                Step::FinishUninstall { .. } => Box::pin(self.finish_uninstall()).await?,
                Step::Install { .. } | Step::Upgrade { .. } => break history,
            }
        };
        let (Draft { record, objects, mask }, origin) = self.draft_rollback(ask, &history).await?;
        let restored = Self::restored(ask, &history)?;
        // The content was not rendered in this operation, so reserved objects are not written.
        let own = self.target_without_reserved();
        let target = if origin == Origin::Own { &own } else { &self.foreign };
        let (way, _) = self.way(Some(&record));
        let before = self.standing(&history, record.version.saturating_sub(1)).await?;
        let looked = self.look("rollback", target, (&before, &objects), way, &mask).await?;

        let description = record.info.description.clone();
        let stored = self.begin(&history, &record, origin, Some(restored)).await?;
        let mut course = Course { operation: self, target, stored, objects: &objects, way, mask };
        let mut applied = Applied::default();
        let events = [Event::PreRollback, Event::PostRollback];
        let outcome = match Box::pin(course.run(events, &before, looked, &mut applied)).await {
            Ok(()) => course.deployed(&history, &description).await.map_err(Cause::Storage),
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok(()) => Ok(course.stored.record),
            Err(cause) => Err(self.rollback_failed(course, cause, &applied, ask).await),
        }
    }

    async fn rollback_failed(
        &self,
        mut course: Course<'_>,
        cause: Cause,
        applied: &Applied,
        ask: &Rollback<'_>,
    ) -> Error {
        if cause.is_overtaken() {
            return course.overtaken().await;
        }
        let (why, kind) = (course.mask.over(&cause.to_string()), cause.kind());
        let (words, mut said) = match cause {
            Cause::NotReady(_) => ("Release", format!("release {} failed: {why}", self.name)),
            _ => ("Rollback", why.clone()),
        };
        if let Err(error) = course.failed(&format!("{words} {:?} failed: {why}", self.name)).await {
            return if error.is_overtaken() { course.overtaken().await } else { error.into() };
        }
        if ask.cleanup_on_fail
            && let Err(error) = remove(course.target, &applied.created, &self.cleanup(), self.run.tell).await
        {
            said = format!(
                "an error occurred while cleaning up resources. original rollback error: {why}: unable to cleanup \
                 resources: {}",
                course.mask.over(&error.to_string())
            );
        }
        Error::Failed { said, kind, record: Box::new(course.stored.record) }
    }

    /// The revision to restore.
    fn restored(ask: &Rollback<'_>, history: &History) -> Result<i64, Error> {
        let last = history.entries().last().ok_or(Error::NotFound)?;
        Ok(if ask.revision == 0 { last.head.revision.saturating_sub(1) } else { ask.revision })
    }

    /// Builds the new revision from the content of an old one. Also returns the origin of that content.
    async fn draft_rollback(&self, ask: &Rollback<'_>, history: &History) -> Result<(Draft, Origin), Error> {
        let last = history.entries().last().ok_or(Error::NotFound)?;
        let to = Self::restored(ask, history)?;
        let old = history.open(self, to).await?.record;
        let origin = self.helm.origin(&old);
        let last = self.storage.open(last).await?.record;
        let said = ask.run.description.clone().unwrap_or_else(|| format!("Rollback to {to}"));
        let (_, apply_method) = self.way(Some(&old));
        let record = Record {
            version: next(last.version),
            namespace: last.namespace,
            info: Info {
                first_deployed: last.info.first_deployed,
                last_deployed: self.helm.clock.now().into(),
                status: Status::PendingRollback,
                description: said,
                rollback_revision: if apply_method.is_some() { to } else { 0 },
                notes: old.info.notes.clone(),
                ..Info::default()
            },
            apply_method,
            ..old
        };
        Ok((self.settle(record, Content::Stored).await?, origin))
    }
}
