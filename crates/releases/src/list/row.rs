//! What a list says of one release.

use std::collections::BTreeMap;

use domain::status::Family;
use helm_release::Status;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use kube_types::progress::is_true;
use kube_types::release::conditions::{DRIFTED, OUT_OF_BAND, STALLED};
use kube_types::{HelmRelease, HelmReleaseSpec, HelmRequest};

use crate::acts::view::{ChartView, MadeBy, state, state_of_request, wish};
use crate::key::Key;
use crate::records::Newest;

/// How long a message in a list may be, in characters.
const MESSAGE: usize = 160;

/// One release in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Key,
    pub made_by: MadeBy,
    /// The version of the wish, for `If-Match`.
    pub v: String,
    pub status: Family,
    /// A word of `domain::release::State`, or of Helm's where the platform does not look after it.
    pub state: &'static str,
    pub message: String,
    pub chart: ChartView,
    /// What was asked for last.
    pub version: i64,
    /// Helm's.
    pub revision: i64,
    pub objects: i64,
    pub ready: i64,
    pub updated: Option<Timestamp>,
    /// Whoever asked last.
    pub by: String,
    /// What stands beside the state.
    pub facts: Vec<&'static str>,
    pub paused: bool,
    pub labels: BTreeMap<String, String>,
    /// The workspace and the metadata of a request that has no release yet.
    pub(crate) request: Option<Box<(String, ObjectMeta)>>,
}

impl Row {
    /// A release as it stands, with the request that it belongs to.
    pub fn of(key: &Key, release: &HelmRelease, request: Option<&HelmRequest>) -> Self {
        let status = release.status.as_ref();
        let state = state(release, request);
        let resources = status.and_then(|status| status.resources.as_ref());
        let chart =
            status.and_then(|status| status.chart.as_ref()).or(request.map(|request| &request.spec.chart));
        let held = |kind: &str| status.is_some_and(|status| is_true(&status.conditions, kind));
        let facts = [(DRIFTED, "drift"), (OUT_OF_BAND, "changed-outside"), (STALLED, "stalled")];
        let by = request.map_or(&release.spec.username, |request| &request.spec.run_as.user);
        Self {
            key: key.clone(),
            made_by: if release.spec.request_ref.is_some() { MadeBy::Request } else { MadeBy::Hand },
            v: request.map_or_else(|| wish(release), wish),
            status: state.family(),
            state: state.as_str(),
            message: shortened(status.map_or("", |status| &status.message)),
            chart: chart.map_or_else(|| wished(&release.spec), ChartView::from),
            version: request.map_or(release.spec.version, |request| request.spec.version),
            revision: status.and_then(|status| status.helm.as_ref()).map_or(0, |helm| helm.revision),
            objects: resources.map_or(0, |resources| resources.total),
            ready: resources.map_or(0, |resources| resources.ready),
            updated: status.and_then(|status| status.last_update.as_ref()).map(|time| time.0),
            by: by.clone(),
            facts: facts.into_iter().filter(|(kind, _)| held(kind)).map(|(_, fact)| fact).collect(),
            paused: release.spec.paused,
            labels: release.labels().clone(),
            request: None,
        }
    }

    /// One that was asked for and has no release yet.
    pub fn of_request(key: &Key, request: &HelmRequest) -> Self {
        let release = crate::requests::wanted::release(request);
        let mut row = Self::of(key, &release, Some(request));
        let state = state_of_request(request);
        (row.state, row.status) = (state.as_str(), state.family());
        row.message = shortened(request.status.as_ref().map_or("", |status| &status.message));
        row.updated = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let metadata = ObjectMeta { managed_fields: None, ..request.metadata.clone() };
        row.request = Some(Box::new((request.spec.workspace.clone(), metadata)));
        row
    }

    /// One that only Helm's records tell of. Which chart it has is not in their labels.
    pub(crate) fn of_record(key: &Key, newest: &Newest) -> Self {
        Self {
            key: key.clone(),
            made_by: MadeBy::Helm,
            v: format!("r{}", newest.revision),
            status: family(newest.status),
            state: newest.status.as_str(),
            message: String::new(),
            chart: ChartView::default(),
            version: 0,
            revision: newest.revision,
            objects: 0,
            ready: 0,
            updated: newest.since,
            by: String::new(),
            facts: vec!["helm"],
            paused: false,
            labels: BTreeMap::new(),
            request: None,
        }
    }
}

/// The chart that is wished for, for as long as it is not known which one that is.
fn wished(spec: &HelmReleaseSpec) -> ChartView {
    let HelmReleaseSpec { chart_name, chart_version, .. } = spec;
    ChartView { name: chart_name.clone(), version: chart_version.clone(), ..ChartView::default() }
}

/// What Helm's word for a revision comes to.
pub(crate) fn family(status: Status) -> Family {
    match status {
        Status::Deployed => Family::Good,
        Status::Failed => Family::Bad,
        Status::Uninstalled => Family::None,
        Status::Uninstalling | Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => {
            Family::Moving
        }
        Status::Superseded | Status::Unknown => Family::Unknown,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
