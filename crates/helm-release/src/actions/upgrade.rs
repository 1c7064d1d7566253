//! Upgrades a release from any status.

use std::collections::BTreeMap;

use helm_engine::{Event, names};
use kube_apply::{Applied, Object, Removal, remove};

use super::ask::{DryRun, Install, Rollback, Run, Upgrade};
use super::install::{Draft, check_labels};
use super::operation::{Course, History, Operation};
use super::plan::{self, Step, plan};
use super::values;
use crate::error::{Cause, Error};
use crate::helm::Helm;
use crate::record::{Info, Record, Status};
use crate::render::What;
use crate::trust::Origin;

impl Helm {
    /// Upgrades a release. Returns its record; for a dry run, the record that would be written.
    pub async fn upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        names::check(&ask.name).map_err(|_| Error::Name(format!("release name is invalid: {}", ask.name)))?;
        check_labels(&ask.labels)?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.run);
        if ask.run.dry_run != DryRun::No {
            return Box::pin(operation.rehearse_upgrade(ask)).await;
        }
        if ask.install {
            Box::pin(operation.make_namespace(&ask.as_install())).await?;
        }
        self.held(&ask.namespace, &ask.name, Box::pin(operation.upgrade(ask))).await
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
            run: self.run.clone(),
        }
    }
}

impl Operation<'_> {
    /// Finishes interrupted operations, then upgrades, or installs if requested. The caller holds the lock.
    pub async fn upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        loop {
            let history = self.history().await?;
            match plan(&history.view()) {
                Step::Install { revision } if ask.install => {
                    return Box::pin(self.install(&ask.as_install(), &history, revision)).await;
                }
                Step::Install { .. } => return Err(Error::NoneDeployed { name: self.name.to_owned() }),
                Step::Interrupted { revision } => {
                    let pending = history.open(self, revision).await?;
                    self.interrupt(pending).await?;
                }
                Step::FinishUninstall { .. } => Box::pin(self.finish_uninstall()).await?,
                Step::Upgrade { revision, base } => {
                    return Box::pin(self.upgrade_from(ask, &history, base, revision)).await;
                }
            }
        }
    }

    async fn rehearse_upgrade(&self, ask: &Upgrade<'_>) -> Result<Record, Error> {
        let history = self.history().await?;
        let (base, revision) = match plan(&history.view()) {
            Step::Upgrade { revision, base } => (base, revision),
            Step::Install { .. } if ask.install => {
                return Box::pin(self.helm.install(&ask.as_install())).await;
            }
            Step::Install { .. } => return Err(Error::NoneDeployed { name: self.name.to_owned() }),
            Step::Interrupted { .. } | Step::FinishUninstall { .. } => return Err(Error::Pending),
        };
        let base = history.open(self, base).await?.record;
        let mut draft = self.draft_upgrade(ask, &history, &base, revision).await?;
        if ask.run.dry_run == DryRun::Server {
            let before = self.standing(&history, base.version).await?;
            let (way, objects) = (self.way(Some(&base)).0, (&before, &*draft.objects));
            self.look("update", &self.target, objects, way, &draft.mask).await?;
        }
        draft.record.info.description =
            ask.run.description.clone().unwrap_or_else(|| "Dry run complete".to_owned());
        Ok(draft.record)
    }

    async fn upgrade_from(
        &self,
        ask: &Upgrade<'_>,
        history: &History,
        base: i64,
        revision: i64,
    ) -> Result<Record, Error> {
        let base = history.open(self, base).await?.record;
        let Draft { record, objects, mask } = self.draft_upgrade(ask, history, &base, revision).await?;
        let (way, _) = self.way(Some(&base));
        let before = self.standing(history, base.version).await?;
        let looked = self.look("update", &self.target, (&before, &objects), way, &mask).await?;
        self.fits("update", &before, &objects, &mask).await?;

        let stored = self.begin(history, &record, Origin::Own, None).await?;
        let mut course =
            Course { operation: self, target: &self.target, stored, objects: &objects, way, mask };
        let mut applied = Applied::default();
        let events = [Event::PreUpgrade, Event::PostUpgrade];
        let outcome = match Box::pin(course.run(events, &before, looked, &mut applied)).await {
            Ok(()) => course.deployed(history, "Upgrade complete").await.map_err(Cause::Storage),
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
        mut course: Course<'_>,
        cause: Cause,
        created: &[Object],
        history: &History,
        ask: &Upgrade<'_>,
    ) -> Error {
        if cause.is_overtaken() {
            return course.overtaken().await;
        }
        let (why, kind) = (course.mask.over(&cause.to_string()), cause.kind());
        if let Err(error) = course.failed(&format!("Upgrade {:?} failed: {why}", self.name)).await {
            return if error.is_overtaken() { course.overtaken().await } else { error.into() };
        }
        let mask = course.mask.clone();
        let record = Box::new(course.stored.record);
        let said = |said| Error::Failed { said, kind, record };
        if ask.cleanup_on_fail
            && let Err(error) = remove(&self.target, created, &self.cleanup(), self.run.tell).await
        {
            return said(format!(
                "an error occurred while cleaning up resources. original upgrade error: {why}: unable to cleanup \
                 resources: {}",
                mask.over(&error.to_string())
            ));
        }
        if !ask.atomic {
            return said(why);
        }
        let Some(revision) = plan::succeeded(&history.view()) else {
            return said(format!(
                "unable to find a previously successful release when attempting to rollback. original upgrade error: \
                 {why}"
            ));
        };
        let run = Run { description: None, max_history: 0, ..ask.run.clone() };
        let rollback = Rollback {
            name: ask.name.clone(),
            namespace: ask.namespace.clone(),
            revision,
            cleanup_on_fail: false,
            run,
        };
        let operation = Operation::new(self.helm, self.namespace, self.name, &rollback.run);
        said(match Box::pin(operation.rollback(&rollback)).await {
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
    pub fn cleanup(&self) -> Removal {
        Removal { wait_until: None, ..self.removal() }
    }

    async fn draft_upgrade(
        &self,
        ask: &Upgrade<'_>,
        history: &History,
        base: &Record,
        revision: i64,
    ) -> Result<Draft, Error> {
        let profile = self.helm.profile;
        let settled = values::settle(&ask.chart, &ask.values, base, ask.old_values, profile);
        let (chart, values) = settled.map_err(|why| Error::Values(why.to_string()))?;
        let what = What {
            check_schema: !ask.skip_schema,
            subchart_notes: ask.subchart_notes,
            may_look_up: ask.run.dry_run != DryRun::Client,
            ..What::upgrade(self.name, self.namespace, revision, profile)
        };
        let rendering = self.helm.renderer.render(&self.helm.cluster(), &chart, &values, &what).await?;
        let last = history.entries().last().map(|last| last.head.labels.clone()).unwrap_or_default();
        let record = Record {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            version: revision,
            info: Info {
                first_deployed: base.info.first_deployed,
                last_deployed: self.helm.clock.now().into(),
                status: Status::PendingUpgrade,
                description: "Preparing upgrade".to_owned(),
                ..Info::default()
            },
            config: values.as_ref().clone(),
            labels: merged(last, &ask.labels),
            apply_method: self.way(Some(base)).1,
            ..Record::default()
        };
        self.draft(record, rendering).await
    }
}

/// Merges labels; the value `null` removes a label.
fn merged(mut labels: BTreeMap<String, String>, over: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    labels.retain(|_, value| value != "null");
    labels
}
