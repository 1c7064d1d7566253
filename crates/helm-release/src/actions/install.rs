//! Installs a release.

use std::collections::BTreeMap;

use helm_engine::{HookEvent, names};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kube_apply::{ApplyResult, Mask, Object};

use super::crds;
use super::history::{HistoryDecision, decide, next_revision};
use super::operation::{ExistingObjects, History, Operation, RevisionRun};
use super::options::{ActionOptions, ContentSource, DryRun, Install, Propagation, Uninstall};
use super::post_render::{RecordTexts, post_render};
use crate::error::{Error, FailureCause};
use crate::helm::Helm;
use crate::record::{Record, RevisionInfo, Status};
use crate::render::{RenderError, RenderOutput, RenderRequest};
use crate::storage::{StorageError, labels};
use crate::trust::Origin;

/// A rendered record and its parsed objects.
pub(super) struct RenderedRelease {
    pub record: Record,
    pub objects: Vec<Object>,
    pub mask: Mask,
}

impl Helm {
    /// Installs a release. Returns its record; for a dry run, the record that would be written.
    pub async fn install(&self, ask: &Install<'_>) -> Result<Record, Error> {
        names::check(&ask.name)
            .map_err(|why| Error::InvalidName(format!("release name check failed: {why}")))?;
        reject_system_labels(&ask.labels)?;
        let operation = Operation::new(self, &ask.namespace, &ask.name, &ask.options);
        if ask.options.dry_run != DryRun::No {
            return Box::pin(operation.dry_run(ask)).await;
        }
        Box::pin(operation.create_namespace(ask)).await?;
        self.with_lock(&ask.namespace, &ask.name, Box::pin(operation.install_new(ask))).await
    }
}

/// Rejects user labels with Helm's reserved keys.
pub(super) fn reject_system_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    if !labels::has_no_system_labels(labels) {
        return Err(StorageError::SystemLabel { system: labels::SYSTEM_LABELS }.into());
    }
    Ok(())
}

impl Operation<'_> {
    async fn install_new(&self, ask: &Install<'_>) -> Result<Record, Error> {
        let history = self.history().await?;
        let revision = self.free_revision(&history, ask.replace).await?;
        // `free_revision` may have marked an interrupted revision as failed.
        let history = self.refresh_history(history).await?;
        self.install(ask, &history, revision).await
    }

    /// Returns the revision number of a new release. Fails if the name is in use.
    async fn free_revision(&self, history: &History, replace: bool) -> Result<i64, Error> {
        let view = history.revisions();
        let Some(&(last, mut status)) = view.last() else { return Ok(1) };
        if let HistoryDecision::Interrupted { revision } = decide(&view) {
            let pending = history.load(self, revision).await?;
            status = match self.fail_interrupted(pending).await {
                Ok(failed) => failed.info.status,
                Err(Error::Pending) => return Err(Error::NameInUse),
                Err(error) => return Err(error),
            };
        }
        match status {
            Status::Uninstalled | Status::Failed if replace => Ok(next_revision(last)),
            _ => Err(Error::NameInUse),
        }
    }

    /// Reads the history again if it may have changed.
    async fn refresh_history(&self, history: History) -> Result<History, Error> {
        let pending = history.revisions().last().is_some_and(|(_, status)| status.is_pending());
        if pending { self.history().await } else { Ok(history) }
    }

    /// Dry run of an installation.
    async fn dry_run(&self, ask: &Install<'_>) -> Result<Record, Error> {
        let mut draft = self.render_install(ask, 1).await?;
        if ask.options.dry_run == DryRun::Server {
            let (way, _) = self.apply_strategy(None);
            let nothing = ExistingObjects::default();
            self.plan_writes("install", &self.target, (&nothing, &draft.objects), way, &draft.mask).await?;
        }
        draft.record.info.description = "Dry run complete".into();
        Ok(draft.record)
    }

    /// Creates the namespace if requested and missing, once the chart is known to be installable.
    pub async fn create_namespace(&self, ask: &Install<'_>) -> Result<(), Error> {
        if !ask.create_namespace {
            return Ok(());
        }
        let failed = |error: kube::Error| Error::Namespace {
            namespace: self.namespace.to_owned(),
            kind: kube_apply::error::api_error_kind(&error),
            why: error.to_string(),
        };
        let namespaces: Api<Namespace> = Api::all(self.helm.objects.clone());
        if namespaces.get_opt(self.namespace).await.map_err(failed)?.is_some() {
            return Ok(());
        }
        let missing = crds::find_missing(self, &ask.chart, &ask.values, self.helm.profile).await?;
        if ask.skip_crds || missing.objects.is_empty() {
            let draft = self.render_install(ask, 1).await?;
            let after = (&ExistingObjects::default(), &*draft.objects);
            self.plan_writes("install", &self.target, after, self.apply_strategy(None).0, &draft.mask)
                .await?;
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(self.namespace.to_owned());
        let labels = namespace.metadata.labels.get_or_insert_default();
        labels.insert("name".to_owned(), self.namespace.to_owned());
        match namespaces
            .create(&PostParams { field_manager: Some("helm".to_owned()), dry_run: false }, &namespace)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Installs a release. The caller holds its lock.
    pub async fn install(
        &self,
        ask: &Install<'_>,
        history: &History,
        revision: i64,
    ) -> Result<Record, Error> {
        let before = self.installed_objects(history, revision).await?;
        if !ask.skip_crds {
            self.create_crds(ask, &before).await?;
        }
        let RenderedRelease { mut record, objects, mask } = self.render_install(ask, revision).await?;
        let (way, method) = self.apply_strategy(None);
        record.apply_method = method;
        let looked = self.plan_writes("install", &self.target, (&before, &objects), way, &mask).await?;
        self.check_capacity("install", &before, &objects, &mask).await?;

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
        let events = [HookEvent::PreInstall, HookEvent::PostInstall];
        let outcome = match Box::pin(course.execute(events, &before, looked, &mut applied)).await {
            Ok(()) => course.set_deployed(history, "Install complete").await.map_err(FailureCause::Storage),
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok(()) => Ok(course.stored.record),
            Err(cause) => Err(Box::pin(self.install_failed(course, cause, ask)).await),
        }
    }

    async fn install_failed(
        &self,
        mut course: RevisionRun<'_>,
        cause: FailureCause,
        ask: &Install<'_>,
    ) -> Error {
        if cause.is_concurrent_change() {
            return course.clean_up_superseded().await;
        }
        let (why, kind) = (course.mask.mask_text(&cause.to_string()), cause.kind());
        if let Err(error) = course.set_failed(&format!("Release {:?} failed: {why}", self.name)).await {
            return if error.is_concurrent_change() {
                course.clean_up_superseded().await
            } else {
                error.into()
            };
        }
        let record = Box::new(course.stored.record);
        if !ask.atomic {
            return Error::Failed { said: why, kind, record };
        }
        let run = ActionOptions { description: None, ..ask.options.clone() };
        let uninstall = Uninstall {
            name: ask.name.clone(),
            namespace: ask.namespace.clone(),
            keep_history: false,
            ignore_not_found: true,
            propagation: Propagation::Background,
            ignore_pending: true,
            options: run,
        };
        let operation = Operation::new(self.helm, self.namespace, self.name, &uninstall.options);
        let said = match Box::pin(operation.uninstall(&uninstall)).await {
            Ok(_) => format!(
                "release {} failed, and has been uninstalled due to rollback-on-failure being set: {why}",
                self.name
            ),
            Err(error) => format!(
                "an error occurred while uninstalling the release. original install error: {why}: {error}"
            ),
        };
        Error::Failed { said, kind, record }
    }

    /// Creates the missing CRDs, once values and capacity have been checked.
    async fn create_crds(&self, ask: &Install<'_>, before: &ExistingObjects) -> Result<(), Error> {
        let missing = crds::find_missing(self, &ask.chart, &ask.values, self.helm.profile).await?;
        if missing.objects.is_empty() {
            return Ok(());
        }
        // Templates may look up kinds that these CRDs define, so rendering errors are ignored here.
        match self.render_install(ask, 1).await {
            Ok(RenderedRelease { objects, mask, .. }) => {
                self.check_capacity("install", before, &objects, &mask).await?;
            }
            Err(
                Error::Render(RenderError::Templates { .. }) | Error::PostRender(_) | Error::Manifest { .. },
            ) => {}
            Err(error) => return Err(error),
        }
        crds::create_and_wait(self, &missing.objects).await
    }

    fn render_request(&self, ask: &Install<'_>) -> RenderRequest {
        RenderRequest {
            check_schema: !ask.skip_schema,
            subchart_notes: ask.subchart_notes,
            is_lookup_enabled: ask.options.dry_run != DryRun::Client,
            ..RenderRequest::install(self.name, self.namespace, self.helm.profile)
        }
    }

    async fn render(&self, ask: &Install<'_>, what: &RenderRequest) -> Result<RenderOutput, Error> {
        Ok(self.helm.renderer.render(&self.helm.lookup_target(), &ask.chart, &ask.values, what).await?)
    }

    async fn render_install(&self, ask: &Install<'_>, revision: i64) -> Result<RenderedRelease, Error> {
        // Helm renders an installation as revision 1, whatever the history holds.
        let rendering = self.render(ask, &self.render_request(ask)).await?;
        let now = self.helm.clock.now();
        let record = Record {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            version: revision,
            info: RevisionInfo {
                first_deployed: now.into(),
                last_deployed: now.into(),
                status: Status::PendingInstall,
                description: "Initial install underway".to_owned(),
                ..RevisionInfo::default()
            },
            config: ask.values.as_ref().clone(),
            labels: ask.labels.clone(),
            apply_method: self.apply_strategy(None).1,
            ..Record::default()
        };
        self.build_release(record, rendering).await
    }

    /// Builds a record from a rendering and runs the post-renderer on it.
    pub async fn build_release(
        &self,
        mut record: Record,
        rendering: RenderOutput,
    ) -> Result<RenderedRelease, Error> {
        record.manifest = rendering.manifest();
        record.info.notes = rendering.notes;
        record.hooks = rendering.hooks;
        record.chart = rendering.chart;
        self.run_post_renderer(record, ContentSource::Rendered).await
    }

    /// Runs the post-renderer on the manifest and hooks of a record.
    pub async fn run_post_renderer(
        &self,
        mut record: Record,
        content: ContentSource,
    ) -> Result<RenderedRelease, Error> {
        if let Some(change) = self.options.post_renderer {
            let texts = RecordTexts {
                manifest: std::mem::take(&mut record.manifest),
                hooks: std::mem::take(&mut record.hooks),
            };
            let changed = post_render(texts, change, content, self.helm.profile, &self.share()).await?;
            (record.manifest, record.hooks) = (changed.manifest, changed.hooks);
        }
        let (bytes, sensitive) = (record.bytes(), self.options.sensitive.clone());
        let draft = move || {
            let objects = Object::parse_all(&record.manifest).map_err(Error::manifest("new"))?;
            let hooks = record.hooks.iter().filter_map(|hook| Object::parse_all(&hook.manifest).ok());
            let hooks: Vec<Object> = hooks.flatten().collect();
            let mask = Mask::new(objects.iter().chain(&hooks), &sensitive);
            Ok(RenderedRelease { record, objects, mask })
        };
        self.share().run_on_objects(bytes, draft).await.map_err(RenderError::from)?
    }
}
