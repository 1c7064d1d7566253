//! Looking at releases: lists from memory, the rest from Helm's records. Nothing sensitive is shown.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::roles::Capability;
use domain::{Actor, Place};
use helm_release::Record;
use helm_template::data::{Data, Members};
use helm_template::json;
use helm_template::profile::Profile;
use kube::ResourceExt;
use kube_apply::Object;
use kube_types::release::ValuesKind;
use kube_types::{HelmRelease, HelmRequest};
use serde_json::Value;

use super::versions::VERSION;
use super::view::{ChartView, DifferenceView, ReleaseView, RevisionView, ValuesView};
use super::{Error, versions};
use crate::Releases;
use crate::values::{Gathered, Sensitive};

/// Which releases are wanted, and in which order.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub workspace: Option<String>,
    pub namespace: Option<String>,
    pub state: Option<String>,
    pub chart: Option<String>,
    /// What the name contains.
    pub text: Option<String>,
    pub sort: Sort,
    pub descending: bool,
    /// Where the page before ended, as it said.
    pub after: Option<String>,
    /// How many; 0: the usual number.
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Name,
    State,
    Chart,
    Updated,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    pub items: Vec<ReleaseView>,
    /// All that fit, on this page or not.
    pub total: usize,
    /// Where the next page begins; none: this was the last.
    pub next: Option<String>,
}

const USUAL: usize = 50;
const MOST: usize = 500;

impl Releases {
    /// The releases that they may see.
    pub fn list(&self, actor: &Actor, query: &Query) -> Page {
        let mut seen = HashMap::new();
        let mut may_see = |namespace: &str| {
            *seen.entry(namespace.to_owned()).or_insert_with(|| {
                let workspace = self.parts().people.workspace_of(namespace);
                workspace.is_some_and(|workspace| {
                    query.workspace.as_deref().is_none_or(|wanted| wanted == workspace.as_str())
                        && actor.may(Capability::ReadReleases, Place::Workspace(&workspace)).is_ok()
                })
            })
        };
        let mut found: Vec<(Row, Arc<HelmRelease>)> = self
            .parts()
            .releases
            .all()
            .into_iter()
            .filter(|release| {
                fits(release, query) && may_see(release.metadata.namespace.as_deref().unwrap_or_default())
            })
            .map(|release| (Row::of(&release, query.sort), release))
            .collect();
        let order = |one: &Row, other: &Row| if query.descending { other.cmp(one) } else { one.cmp(other) };
        found.sort_unstable_by(|one, other| order(&one.0, &other.0));
        let total = found.len();
        let after = query.after.as_deref().and_then(Row::parse);
        let begin = after
            .map_or(0, |after| found.partition_point(|(row, _)| order(row, &after) != Ordering::Greater));
        let limit = if query.limit == 0 { USUAL } else { query.limit.min(MOST) };
        let page = &found[begin..found.len().min(begin + limit)];
        let more = begin + page.len() < total;
        Page {
            items: page.iter().map(|(_, release)| self.view(release)).collect(),
            total,
            next: page.last().filter(|_| more).map(|(row, _)| row.text()),
        }
    }

    pub fn get(&self, actor: &Actor, namespace: &str, name: &str) -> Result<ReleaseView, Error> {
        match self.release_for(actor, namespace, name) {
            Ok(release) => Ok(self.view(&release)),
            Err(error) => {
                // One that was asked for just now has no release yet.
                self.workspace(actor, Capability::ReadReleases, namespace).map_err(|_| error)?;
                let request = self.request(namespace, name);
                let request = request.ok_or_else(|| Error::NotFound(format!("{namespace}/{name}")))?;
                Ok(ReleaseView::of_request(&request))
            }
        }
    }

    fn view(&self, release: &HelmRelease) -> ReleaseView {
        let request = release.spec.request_ref.as_ref();
        let request = request.and_then(|reference| self.parts().requests.get(&reference.name));
        ReleaseView::of(release, request.as_deref())
    }

    fn request(&self, namespace: &str, name: &str) -> Option<Arc<HelmRequest>> {
        self.parts().requests.get(&versions::request_name(super::HOST, namespace, name))
    }

    /// The revisions that Helm keeps, the newest first.
    pub async fn history(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<RevisionView>, Error> {
        self.release_for(actor, namespace, name)?;
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let records = storage.history(name).await?;
        Ok(records.iter().rev().map(|stored| RevisionView::of(&stored.record)).collect())
    }

    /// The values that somebody gave, of a revision or of the newest; with the chart's own, if `all`.
    pub async fn values(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
        all: bool,
    ) -> Result<ValuesView, Error> {
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        let members = if all {
            helm_release::queries::all_values(&record, Profile::Helm4)
                .map_err(|error| Error::Invalid(error.to_string()))?
        } else {
            Members::clone(&record.config)
        };
        let values = plain(&members);
        Ok(ValuesView { revision: record.version, values: sensitive(&record, &release).mask_values(&values) })
    }

    /// The objects of a revision, or of the newest, as they were written.
    pub async fn manifest(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<Vec<Value>, Error> {
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        let sensitive = sensitive(&record, &release);
        Ok(objects(&record).iter().map(|object| sensitive.mask(object.value())).collect())
    }

    /// What is different between the objects of two revisions.
    pub async fn diff(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        from: i64,
        to: i64,
    ) -> Result<Vec<DifferenceView>, Error> {
        let (from, release) = self.record(actor, namespace, name, Some(from)).await?;
        let (to, _) = self.record(actor, namespace, name, Some(to)).await?;
        let masks = [sensitive(&from, &release), sensitive(&to, &release)];
        let hide = |text: &str| masks.iter().fold(text.to_owned(), |text, mask| mask.mask_text(&text));
        let differences = kube_apply::diff::diff(&objects(&from), &objects(&to), &[]);
        Ok(differences.iter().map(|difference| DifferenceView::of(difference, &hide)).collect())
    }

    /// The notes of a revision, or of the newest.
    pub async fn notes(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<String, Error> {
        let (record, release) = self.record(actor, namespace, name, revision).await?;
        Ok(sensitive(&record, &release).mask_text(&record.info.notes))
    }

    pub(super) async fn record(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        revision: Option<i64>,
    ) -> Result<(Record, Arc<HelmRelease>), Error> {
        let release = self.release_for(actor, namespace, name)?;
        let storage = self.parts().helms.storage(&self.parts().clients, namespace);
        let stored = match revision {
            Some(revision) => storage.get(name, revision).await?,
            None => storage.last(name).await?,
        };
        let record =
            stored.ok_or_else(|| Error::NoRevision(name.to_owned(), revision.unwrap_or_default()))?.record;
        Ok((record, release))
    }
}

impl RevisionView {
    fn of(record: &Record) -> Self {
        let head = record.chart.head();
        Self {
            revision: record.version,
            status: record.info.status.as_str().to_owned(),
            description: record.info.description.clone(),
            chart: ChartView {
                name: head.name,
                version: head.version,
                app_version: head.app_version,
                digest: String::new(),
            },
            updated: record.info.last_deployed.at(),
            version: record.labels.get(VERSION).and_then(|text| text.parse().ok()),
        }
    }
}

/// What of a record nobody may read: what its Secrets hold, what its chart calls secret, and, where values came from a Secret
/// of somebody's, all of them: the record does not say which.
pub(super) fn sensitive(record: &Record, release: &HelmRelease) -> Sensitive {
    let Ok(chart) = record.chart.chart(Profile::Helm4) else {
        return Sensitive::of_objects(&objects(record));
    };
    let spec = &release.spec;
    let from_secret = spec.values_from.iter().any(|reference| reference.kind == ValuesKind::Secret)
        || (spec.values_ref.is_some() && spec.request_ref.is_none());
    let from_secrets = if from_secret { BTreeSet::from([String::new()]) } else { BTreeSet::new() };
    let gathered = Gathered { values: Members::clone(&record.config), from_secrets, hash: String::new() };
    Sensitive::of(&chart, &gathered, &objects(record))
}

pub(super) fn objects(record: &Record) -> Vec<Object> {
    Object::parse_all(&record.manifest).unwrap_or_default()
}

fn plain(members: &Members) -> Value {
    let text = json::write(&Data::Map(members.clone()), json::Style::Raw);
    text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn fits(release: &HelmRelease, query: &Query) -> bool {
    let status = release.status.as_ref();
    let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    is(&query.namespace, release.metadata.namespace.as_deref().unwrap_or_default())
        && is(&query.state, status.map_or("pending", |status| status.state.as_str()))
        && is(
            &query.chart,
            status.and_then(|status| status.chart.as_ref()).map_or("", |chart| chart.name.as_str()),
        )
        && query.text.as_deref().is_none_or(|text| release.spec.name.contains(text))
}

/// What a release is sorted by: no two are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    by: String,
    name: String,
    namespace: String,
}

impl Row {
    fn of(release: &HelmRelease, sort: Sort) -> Self {
        let status = release.status.as_ref();
        let by = match sort {
            Sort::Name => String::new(),
            Sort::State => status.map(|status| status.state.clone()).unwrap_or_default(),
            Sort::Chart => {
                let chart = status.and_then(|status| status.chart.as_ref());
                chart.map(|chart| format!("{} {}", chart.name, chart.version)).unwrap_or_default()
            }
            Sort::Updated => {
                let updated = status.and_then(|status| status.last_update.as_ref());
                updated.map(|updated| updated.0.to_string()).unwrap_or_default()
            }
        };
        Self { by, name: release.name_any(), namespace: release.namespace().unwrap_or_default() }
    }

    /// For whoever asks for the next page.
    fn text(&self) -> String {
        format!("{}\n{}\n{}", self.namespace, self.name, self.by)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '\n').map(str::to_owned);
        let (namespace, name, by) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { by, name, namespace })
    }
}
