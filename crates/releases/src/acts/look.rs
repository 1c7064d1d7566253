//! Reading one release: its state from caches, everything else from Helm's records. Sensitive values are masked.
//!
//! See also: lists (`crate::list`).

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::Actor;
use domain::roles::Capability;
use helm_release::Record;
use helm_release::render::share::{ManifestError, Parsed};
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use kube_apply::Object;
use kube_types::HelmRelease;
use serde_json::Value;

use super::Error;
use super::versions::VERSION;
use super::view::{ChartView, ReleaseView, RevisionView, ValuesView};
use crate::Releases;
use crate::release::ledger;
use crate::values::Sensitive;

impl Releases {
    pub async fn get(&self, actor: &Actor, namespace: &str, name: &str) -> Result<ReleaseView, Error> {
        let unseen = || Error::NotFound(format!("{namespace}/{name}"));
        self.workspace(actor, Capability::ReadReleases, namespace).map_err(|_| unseen())?;
        if let Some(release) = self.parts().releases.get_in(namespace, name) {
            return Ok(self.view(&release));
        }
        // A new request may have no release yet, and the watch may not have delivered it.
        if let Some(request) = self.living_request(namespace, name).await? {
            return Ok(ReleaseView::of_request(&request));
        }
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let stored = storage.last(name).await?.ok_or_else(unseen)?;
        Ok(ReleaseView::of_record(&stored.record))
    }

    fn view(&self, release: &HelmRelease) -> ReleaseView {
        let request = release.spec.request_ref.as_ref();
        let request = request.and_then(|reference| self.parts().requests.get(&reference.name));
        ReleaseView::of(release, request.as_deref())
    }

    /// The revisions in Helm's history, newest first.
    pub async fn history(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<RevisionView>, Error> {
        let release = self.release_for(actor, namespace, name)?;
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let records = storage.history(name).await?;
        if records.is_empty() && release.is_none() {
            return Err(Error::NotFound(format!("{namespace}/{name}")));
        }
        Ok(records.iter().rev().map(|stored| RevisionView::of(&stored.record)).collect())
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
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        self.examine(namespace, record.bytes(), move || {
            let members = if all {
                helm_release::queries::all_values(&record, Profile::Helm4)
                    .map_err(|error| Error::Invalid(error.to_string()))?
            } else {
                Members::clone(&record.config)
            };
            let values = sensitive(&record, release.as_deref())?.mask_values(&plain(&members));
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
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        self.examine(namespace, record.bytes(), move || {
            let sensitive = sensitive(&record, release.as_deref())?;
            Ok(objects(&record)?.iter().map(|object| sensitive.mask(object.value())).collect())
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
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        self.examine(namespace, record.bytes(), move || {
            let mut hooks = Vec::new();
            for hook in &record.hooks {
                hooks.extend(parsed(&record, &hook.manifest)?);
            }
            // Secrets among hooks are masked like any other.
            let masks = [sensitive(&record, release.as_deref())?, Sensitive::of_objects(&hooks)];
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
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        self.examine(namespace, record.bytes(), move || {
            Ok(sensitive(&record, release.as_deref())?.mask_text(&record.info.notes))
        })
        .await
    }

    /// Runs work on a record of `bytes`: inline if it is small, else on the renderer's pool with the workspace's share. Every manifest is
    /// parsed here or in [`Self::parsed`].
    pub(super) async fn examine<T: Send + 'static>(
        &self,
        namespace: &str,
        bytes: usize,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.parts().helms.share(namespace).run_on_objects(bytes, work).await?
    }

    /// Parses a manifest. Its memory stays reserved until the objects are dropped.
    pub(super) async fn parsed(
        &self,
        namespace: &str,
        name: &str,
        revision: i64,
        manifest: String,
    ) -> Result<Parsed, Error> {
        let parsed = self.parts().helms.share(namespace).parse(manifest).await;
        parsed.map_err(|error| match error {
            ManifestError::Work(error) => error.into(),
            ManifestError::Parse(_) => Error::Unreadable { name: name.to_owned(), revision },
        })
    }

    pub(super) async fn record(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<(Record, Option<Arc<HelmRelease>>), Error> {
        let release = self.release_for(actor, namespace, name)?;
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let stored = match revision {
            Some(revision) => storage.get(name, revision).await?,
            None => storage.last(name).await?,
        };
        let missing = || match (revision, &release) {
            (None, None) => Error::NotFound(format!("{namespace}/{name}")),
            (None, Some(_)) => Error::NotDeployed(name.to_owned()),
            (Some(revision), _) => Error::NoRevision(name.to_owned(), revision),
        };
        let record = stored.ok_or_else(missing)?.record;
        Ok((record, release))
    }
}

impl RevisionView {
    fn of(record: &Record) -> Self {
        Self {
            revision: record.version,
            status: record.info.status.as_str().to_owned(),
            description: record.info.description.clone(),
            chart: ChartView::of_record(record),
            updated: record.info.last_deployed.at(),
            version: record.labels.get(VERSION).and_then(|text| text.parse().ok()),
        }
    }
}

/// The mask of a record: the content of its Secrets, and the values that the ledger lists as sensitive. If the ledger has no entry with
/// its digest, all values are masked.
pub(super) fn sensitive(record: &Record, release: Option<&HelmRelease>) -> Result<Sensitive, Error> {
    Ok(sensitive_among(&objects(record)?, record, release))
}

/// Like [`sensitive`], with the objects already parsed.
pub(super) fn sensitive_among(
    objects: &[Object],
    record: &Record,
    release: Option<&HelmRelease>,
) -> Sensitive {
    let entry = release.and_then(|release| ledger::entry(release, record));
    let pointers = match entry {
        Some(entry) => entry.sensitive.iter().cloned().collect(),
        None => BTreeSet::from([String::new()]),
    };
    Sensitive::at(pointers, &record.config, objects)
}

pub(super) fn objects(record: &Record) -> Result<Vec<Object>, Error> {
    parsed(record, &record.manifest)
}

fn parsed(record: &Record, manifest: &str) -> Result<Vec<Object>, Error> {
    Object::parse_all(manifest)
        .map_err(|_| Error::Unreadable { name: record.name.clone(), revision: record.version })
}

pub(super) fn plain(members: &Members) -> Value {
    let text = json::write(&Data::Map(members.clone()), json::Style::Raw);
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}
