//! Upgrades a release from any status.

use std::collections::BTreeMap;

use helm_engine::{HookEvent, names};
use kube_apply::{ApplyResult, Object, RemoveOptions, remove};

use super::history::{self, HistoryDecision, decide};
use super::install::{RenderedRelease, reject_system_labels};
use super::operation::{History, Operation, RevisionRun};
use super::options::{ActionOptions, DryRun, Install, Rollback, Upgrade};
use super::values;
use crate::error::{Error, FailureCause};
use crate::helm::Helm;
use crate::record::{Record, RevisionInfo, Status};
use crate::render::RenderRequest;
use crate::trust::Origin;

impl Helm {
    /// Upgrades a release. Returns its record; for a dry run, the record that would be written.
    pub async fn upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        names::check(&ask.name)
            .map_err(|_| Error::InvalidName(format!("release name is invalid: {}", ask.name)))?;
        reject_system_labels(&ask.labels)?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.options);
        if ask.options.dry_run != DryRun::No {
            return Box::pin(operation.dry_run_upgrade(ask)).await;
        }
        if ask.install {
            Box::pin(operation.create_namespace(&ask.as_install())).await?;
        }
        self.with_lock(&ask.namespace, &ask.name, Box::pin(operation.upgrade(ask))).await
    }
}

impl<'r> Upgrade<'r> {
    /// The installation used when the release does not exist.
    fn as_install(&self) -> Install<'r> {
        Install {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            chart: self.chart.clone(),
            values: self.values.clone(),
            labels: self.labels.clone(),
            create_namespace: self.create_namespace,
            skip_crds: self.skip_crds,
            skip_schema: self.skip_schema,
            subchart_notes: self.subchart_notes,
            replace: true,
            atomic: self.atomic,
            options: self.options.clone(),
        }
    }
}

impl Operation<'_> {
    /// Finishes interrupted operations, then upgrades, or installs if requested. The caller holds the lock.
    pub async fn upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        loop {
            let history = self.history().await?;
            match decide(&history.revisions()) {
                HistoryDecision::Install { revision } if ask.install => {
                    return Box::pin(self.install(&ask.as_install(), &history, revision)).await;
                }
                HistoryDecision::Install { .. } => {
                    return Err(Error::NoneDeployed { name: self.name.to_owned() });
                }
                HistoryDecision::Interrupted { revision } => {
                    let pending = history.load(self, revision).await?;
                    self.fail_interrupted(pending).await?;
                }
                HistoryDecision::FinishUninstall { .. } => Box::pin(self.finish_uninstall()).await?,
                HistoryDecision::Upgrade { revision, base } => {
                    return Box::pin(self.upgrade_from(ask, &history, base, revision)).await;
                }
            }
        }
    }

    async fn dry_run_upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        let history = self.history().await?;
        let (base, revision) = match decide(&history.revisions()) {
            HistoryDecision::Upgrade { revision, base } => (base, revision),
            HistoryDecision::Install { .. } if ask.install => {
                return Box::pin(self.helm.install(&ask.as_install())).await;
            }
            HistoryDecision::Install { .. } => {
                return Err(Error::NoneDeployed { name: self.name.to_owned() });
            }
            HistoryDecision::Interrupted { .. } | HistoryDecision::FinishUninstall { .. } => {
                return Err(Error::Pending);
            }
        };
        let base = history.load(self, base).await?.record;
        let mut draft = self.render_upgrade(ask, &history, &base, revision).await?;
        if ask.options.dry_run == DryRun::Server {
            let before = self.installed_objects(&history, base.version).await?;
            let (way, objects) = (self.apply_strategy(Some(&base)).0, (&before, &*draft.objects));
            self.plan_writes("update", &self.target, objects, way, &draft.mask).await?;
        }
        draft.record.info.description =
            ask.options.description.clone().unwrap_or_else(|| "Dry run complete".to_owned());
        Ok(draft.record)
    }

    async fn upgrade_from(
        &self,
        ask: &Upgrade<'_>,
        history: &History,
        base: i64,
        revision: i64,
    ) -> Result<Record, Error> {
        let base = history.load(self, base).await?.record;
        let RenderedRelease { record, objects, mask } =
            self.render_upgrade(ask, history, &base, revision).await?;
        let (way, _) = self.apply_strategy(Some(&base));
        let before = self.installed_objects(history, base.version).await?;
        let looked = self.plan_writes("update", &self.target, (&before, &objects), way, &mask).await?;
        self.check_capacity("update", &before, &objects, &mask).await?;

        let stored = self.create_first_record(history, &record, Origin::Own, None).await?;
        let mut course = RevisionRun {
            operation: self,
            target: &self.target,
            stored,
            objects: &objects,
            strategy: way,
            mask,
        };
        let mut applied = ApplyResult::default();
        let events = [HookEvent::PreUpgrade, HookEvent::PostUpgrade];
        let outcome = match Box::pin(course.execute(events, &before, looked, &mut applied)).await {
            Ok(()) => course.set_deployed(history, "Upgrade complete").await.map_err(FailureCause::Storage),
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok(()) => Ok(course.stored.record),
            Err(cause) => {
                Err(Box::pin(self.upgrade_failed(course, cause, &applied.created, history, ask)).await)
            }
        }
    }

    async fn upgrade_failed(
        &self,
        mut course: RevisionRun<'_>,
        cause: FailureCause,
        created: &[Object],
        history: &History,
        ask: &Upgrade<'_>,
    ) -> Error {
        if cause.is_concurrent_change() {
            return course.clean_up_superseded().await;
        }
        let (why, kind) = (course.mask.mask_text(&cause.to_string()), cause.kind());
        if let Err(error) = course.set_failed(&format!("Upgrade {:?} failed: {why}", self.name)).await {
            return if error.is_concurrent_change() {
                course.clean_up_superseded().await
            } else {
                error.into()
            };
        }
        let mask = course.mask.clone();
        let record = Box::new(course.stored.record);
        let failed = |said| Error::Failed { said, kind, record };
        if ask.cleanup_on_fail
            && let Err(error) =
                remove(&self.target, created, &self.cleanup_options(), self.options.progress).await
        {
            return failed(format!(
                "an error occurred while cleaning up resources. original upgrade error: {why}: unable to cleanup \
                 resources: {}",
                mask.mask_text(&error.to_string())
            ));
        }
        if !ask.atomic {
            return failed(why);
        }
        let Some(revision) = history::newest_successful(&history.revisions()) else {
            return failed(format!(
                "unable to find a previously successful release when attempting to rollback. original upgrade error: \
                 {why}"
            ));
        };
        let run = ActionOptions { description: None, max_history: 0, ..ask.options.clone() };
        let rollback = Rollback {
            name: ask.name.clone(),
            namespace: ask.namespace.clone(),
            revision,
            cleanup_on_fail: false,
            options: run,
        };
        let operation = Operation::new(self.helm, self.namespace, self.name, &rollback.options);
        failed(match Box::pin(operation.rollback(&rollback)).await {
            Ok(_) => format!(
                "release {} failed, and has been rolled back due to rollback-on-failure being set: {why}",
                self.name
            ),
            Err(error) => {
                format!(
                    "an error occurred while rolling back the release. original upgrade error: {why}: {error}"
                )
            }
        })
    }

    /// Remove options for objects created by a failed upgrade: only owned objects, without waiting.
    pub fn cleanup_options(&self) -> RemoveOptions {
        RemoveOptions { wait_until: None, ..self.remove_options() }
    }

    async fn render_upgrade(
        &self,
        ask: &Upgrade<'_>,
        history: &History,
        base: &Record,
        revision: i64,
    ) -> Result<RenderedRelease, Error> {
        let profile = self.helm.profile;
        let settled = values::resolve(&ask.chart, &ask.values, base, ask.values_policy, profile);
        let (chart, values) = settled.map_err(|why| Error::Values(why.to_string()))?;
        let what = RenderRequest {
            check_schema: !ask.skip_schema,
            subchart_notes: ask.subchart_notes,
            is_lookup_enabled: ask.options.dry_run != DryRun::Client,
            ..RenderRequest::upgrade(self.name, self.namespace, revision, profile)
        };
        let rendering = self.helm.renderer.render(&self.helm.lookup_target(), &chart, &values, &what).await?;
        let last = history.entries().last().map(|last| last.meta.labels.clone()).unwrap_or_default();
        let record = Record {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            version: revision,
            info: RevisionInfo {
                first_deployed: base.info.first_deployed,
                last_deployed: self.helm.clock.now().into(),
                status: Status::PendingUpgrade,
                description: "Preparing upgrade".to_owned(),
                ..RevisionInfo::default()
            },
            config: values.as_ref().clone(),
            labels: merge_labels(last, &ask.labels),
            apply_method: self.apply_strategy(Some(base)).1,
            ..Record::default()
        };
        self.build_release(record, rendering).await
    }
}

/// Merges labels; the value `null` removes a label.
fn merge_labels(
    mut labels: BTreeMap<String, String>,
    over: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    labels.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.retain(|_, value| value != "null");
    labels
}
