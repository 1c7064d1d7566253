//! Reading one release: its state from caches, everything else from Helm's records. Sensitive values are masked.
//!
//! See also: lists (`crate::index`).

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::Actor;
use domain::roles::Capability;
use helm_release::Record;
use helm_release::render::share::{ManifestError, ParsedObjects};
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use kube_apply::Object;
use kube_types::HelmRelease;
use serde_json::Value;

use super::Error;
use super::versions::VERSION_LABEL;
use super::view::{ChartView, ReleaseView, RevisionView, ValuesView};
use crate::Releases;
use crate::release::ledger;
use crate::values::SensitiveValues;

impl Releases {
    pub async fn get(&self, actor: &Actor, namespace: &str, name: &str) -> Result<ReleaseView, Error> {
        let not_found = || Error::NotFound(format!("{namespace}/{name}"));
        self.authorized_workspace(actor, Capability::ReadReleases, namespace).map_err(|_| not_found())?;
        if let Some(release) = self.inner().releases.get_namespaced(namespace, name) {
            return Ok(self.release_view(&release));
        }
        // A new request may have no release yet, and the watch may not have delivered it.
        if let Some(request) = self.current_request(namespace, name).await? {
            return Ok(ReleaseView::from_request(&request));
        }
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let stored = storage.newest(name).await?.ok_or_else(not_found)?;
        Ok(ReleaseView::from_record(&stored.record))
    }

    fn release_view(&self, release: &HelmRelease) -> ReleaseView {
        let request = release.spec.request_ref.as_ref();
        let request = request.and_then(|reference| self.inner().requests.get(&reference.name));
        ReleaseView::from_release(release, request.as_deref())
    }

    /// The revisions in Helm's history, newest first.
    pub async fn history(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<RevisionView>, Error> {
        let release = self.visible_release(actor, namespace, name)?;
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let records = storage.history(name).await?;
        if records.is_empty() && release.is_none() {
            return Err(Error::NotFound(format!("{namespace}/{name}")));
        }
        Ok(records.iter().rev().map(|stored| RevisionView::from_record(&stored.record)).collect())
    }

    /// The user-supplied values of a revision or of the latest; with the chart's defaults if `all`.
    pub async fn values(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
        all: bool,
    ) -> Result<ValuesView, Error> {
        let (record, release) = self.load_record(actor, namespace, name, revision).await?;
        self.run_on_pool(namespace, record.bytes(), move || {
            let members = if all {
                helm_release::queries::all_values(&record, Profile::Helm4)
                    .map_err(|error| Error::Invalid(error.to_string()))?
            } else {
                Members::clone(&record.config)
            };
            let values = record_mask(&record, release.as_deref())?.mask_values(&to_json(&members));
            Ok(ValuesView { revision: record.version, values })
        })
        .await
    }

    /// The objects of a revision or of the latest, as rendered.
    pub async fn manifest(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<Vec<Value>, Error> {
        let (record, release) = self.load_record(actor, namespace, name, revision).await?;
        self.run_on_pool(namespace, record.bytes(), move || {
            let sensitive = record_mask(&record, release.as_deref())?;
            Ok(record_objects(&record)?.iter().map(|object| sensitive.mask(object.value())).collect())
        })
        .await
    }

    /// The hooks of a revision or of the latest, as rendered.
    pub async fn hooks(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<Vec<Value>, Error> {
        let (record, release) = self.load_record(actor, namespace, name, revision).await?;
        self.run_on_pool(namespace, record.bytes(), move || {
            let mut hooks = Vec::new();
            for hook in &record.hooks {
                hooks.extend(parsed(&record, &hook.manifest)?);
            }
            // Secrets among hooks are masked like any other.
            let masks = [record_mask(&record, release.as_deref())?, SensitiveValues::from_objects(&hooks)];
            Ok(hooks.iter().map(|hook| masks[1].mask(&masks[0].mask(hook.value()))).collect())
        })
        .await
    }

    /// The notes of a revision or of the latest.
    pub async fn notes(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<String, Error> {
        let (record, release) = self.load_record(actor, namespace, name, revision).await?;
        self.run_on_pool(namespace, record.bytes(), move || {
            Ok(record_mask(&record, release.as_deref())?.mask_text(&record.info.notes))
        })
        .await
    }

    /// Runs work on a record of `bytes`: inline if it is small, else on the renderer's pool with the workspace's share. Every manifest is
    /// parsed here or in [`Self::parse_manifest`].
    pub(super) async fn run_on_pool<T: Send + 'static>(
        &self,
        namespace: &str,
        bytes: usize,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.inner().helm_factory.pool_share(namespace).run_on_objects(bytes, work).await?
    }

    /// Parses a manifest. Its memory stays reserved until the objects are dropped.
    pub(super) async fn parse_manifest(
        &self,
        namespace: &str,
        name: &str,
        revision: i64,
        manifest: String,
    ) -> Result<ParsedObjects, Error> {
        let parsed = self.inner().helm_factory.pool_share(namespace).parse(manifest).await;
        parsed.map_err(|error| match error {
            ManifestError::Work(error) => error.into(),
            ManifestError::Parse(_) => Error::UnreadableManifest { name: name.to_owned(), revision },
        })
    }

    pub(super) async fn load_record(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<(Record, Option<Arc<HelmRelease>>), Error> {
        let release = self.visible_release(actor, namespace, name)?;
        let storage = self.inner().helm_factory.storage(&self.inner().clients, namespace);
        let stored = match revision {
            Some(revision) => storage.get(name, revision).await?,
            None => storage.newest(name).await?,
        };
        let missing = || match (revision, &release) {
            (None, None) => Error::NotFound(format!("{namespace}/{name}")),
            (None, Some(_)) => Error::NotDeployed(name.to_owned()),
            (Some(revision), _) => Error::RevisionNotFound(name.to_owned(), revision),
        };
        let record = stored.ok_or_else(missing)?.record;
        Ok((record, release))
    }
}

impl RevisionView {
    fn from_record(record: &Record) -> Self {
        Self {
            revision: record.version,
            status: record.info.status.as_str().to_owned(),
            description: record.info.description.clone(),
            chart: ChartView::from_record(record),
            updated: record.info.last_deployed.timestamp(),
            version: record.labels.get(VERSION_LABEL).and_then(|text| text.parse().ok()),
        }
    }
}

/// The mask of a record: the content of its Secrets, and the values that the ledger lists as sensitive. If the ledger has no entry with
/// its digest, all values are masked.
pub(super) fn record_mask(record: &Record, release: Option<&HelmRelease>) -> Result<SensitiveValues, Error> {
    Ok(record_mask_from_objects(&record_objects(record)?, record, release))
}

/// Like [`record_mask`], with the objects already parsed.
pub(super) fn record_mask_from_objects(
    objects: &[Object],
    record: &Record,
    release: Option<&HelmRelease>,
) -> SensitiveValues {
    let entry = release.and_then(|release| ledger::find_entry(release, record));
    let pointers = match entry {
        Some(entry) => entry.sensitive.iter().cloned().collect(),
        None => BTreeSet::from([String::new()]),
    };
    SensitiveValues::from_pointers(pointers, &record.config, objects)
}

pub(super) fn record_objects(record: &Record) -> Result<Vec<Object>, Error> {
    parsed(record, &record.manifest)
}

fn parsed(record: &Record, manifest: &str) -> Result<Vec<Object>, Error> {
    Object::parse_all(manifest)
        .map_err(|_| Error::UnreadableManifest { name: record.name.clone(), revision: record.version })
}

pub(super) fn to_json(members: &Members) -> Value {
    let text = json::write(&Data::Map(members.clone()), json::JsonStyle::Raw);
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
