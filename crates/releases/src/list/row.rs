//! One release in a list.

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

/// The maximum length of a message in a list, in characters.
const MESSAGE: usize = 160;

/// One release in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub key: Key,
    pub made_by: MadeBy,
    /// The entity tag of the spec, for `If-Match`.
    pub v: String,
    pub status: Family,
    /// A `domain::release::State`, or Helm's status for releases that the platform does not manage.
    pub state: &'static str,
    pub message: String,
    pub chart: ChartView,
    /// The desired version.
    pub version: i64,
    /// The Helm revision.
    pub revision: i64,
    pub objects: i64,
    pub ready: i64,
    pub updated: Option<Timestamp>,
    /// The user of the last change.
    pub by: String,
    /// Flags besides the state: `drift`, `changed-outside`, `stalled`, `helm`.
    pub facts: Vec<&'static str>,
    pub paused: bool,
    pub labels: BTreeMap<String, String>,
    /// The workspace and metadata of a request without a release.
    pub(crate) request: Option<Box<(String, ObjectMeta)>>,
}

impl Row {
    /// The row of a release and its request.
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

    /// The row of a request without a release.
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

    /// The row of a release that exists only in Helm's records. Their labels do not contain the chart.
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

/// The chart that the spec names, until it is resolved.
fn wished(spec: &HelmReleaseSpec) -> ChartView {
    let HelmReleaseSpec { chart_name, chart_version, .. } = spec;
    ChartView { name: chart_name.clone(), version: chart_version.clone(), ..ChartView::default() }
}

/// The category of a Helm status.
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
