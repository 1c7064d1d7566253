//! One release in a list.

use std::collections::BTreeMap;

use domain::status::StatusCategory;
use helm_release::Status;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use kube_types::conditions::is_condition_true;
use kube_types::release::conditions::{DRIFTED, OUT_OF_BAND, STALLED};
use kube_types::{HelmRelease, HelmReleaseSpec, HelmRequest};

use crate::helm_records::LatestRevision;
use crate::key::ReleaseKey;
use crate::service::view::{ChartView, ManagedBy, etag, release_state, request_state};

/// The maximum length of a message in a list, in characters.
const MAX_MESSAGE_LEN: usize = 160;

/// One release in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseRow {
    pub key: ReleaseKey,
    pub managed_by: ManagedBy,
    /// The entity tag of the spec, for `If-Match`.
    pub etag: String,
    pub status: StatusCategory,
    /// A `domain::release::ReleaseState`, or Helm's status for releases that the platform does not manage.
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
    pub flags: Vec<&'static str>,
    pub paused: bool,
    pub labels: BTreeMap<String, String>,
    /// The workspace and metadata of a request without a release.
    pub(crate) request: Option<Box<(String, ObjectMeta)>>,
}

impl ReleaseRow {
    /// The row of a release and its request.
    pub fn from_release(key: &ReleaseKey, release: &HelmRelease, request: Option<&HelmRequest>) -> Self {
        let status = release.status.as_ref();
        let state = release_state(release, request);
        let resources = status.and_then(|status| status.resources.as_ref());
        let chart =
            status.and_then(|status| status.chart.as_ref()).or(request.map(|request| &request.spec.chart));
        let held = |kind: &str| status.is_some_and(|status| is_condition_true(&status.conditions, kind));
        let facts = [(DRIFTED, "drift"), (OUT_OF_BAND, "changed-outside"), (STALLED, "stalled")];
        let by = request.map_or(&release.spec.username, |request| &request.spec.run_as.user);
        Self {
            key: key.clone(),
            managed_by: if release.spec.request_ref.is_some() { ManagedBy::Request } else { ManagedBy::Hand },
            etag: request.map_or_else(|| etag(release), etag),
            status: state.category(),
            state: state.as_str(),
            message: truncate_message(status.map_or("", |status| &status.message)),
            chart: chart.map_or_else(|| requested_chart(&release.spec), ChartView::from),
            version: request.map_or(release.spec.version, |request| request.spec.version),
            revision: status.and_then(|status| status.helm.as_ref()).map_or(0, |helm| helm.revision),
            objects: resources.map_or(0, |resources| resources.total),
            ready: resources.map_or(0, |resources| resources.ready),
            updated: status.and_then(|status| status.last_update.as_ref()).map(|time| time.0),
            by: by.clone(),
            flags: facts.into_iter().filter(|(kind, _)| held(kind)).map(|(_, fact)| fact).collect(),
            paused: release.spec.paused,
            labels: release.labels().clone(),
            request: None,
        }
    }

    /// The row of a request without a release.
    pub fn from_request(key: &ReleaseKey, request: &HelmRequest) -> Self {
        let release = crate::requests::release_spec::build_release(request);
        let mut row = Self::from_release(key, &release, Some(request));
        let state = request_state(request);
        (row.state, row.status) = (state.as_str(), state.category());
        row.message = truncate_message(request.status.as_ref().map_or("", |status| &status.message));
        row.updated = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let metadata = ObjectMeta { managed_fields: None, ..request.metadata.clone() };
        row.request = Some(Box::new((request.spec.workspace.clone(), metadata)));
        row
    }

    /// The row of a release that exists only in Helm's records. Their labels do not contain the chart.
    pub(crate) fn from_record(key: &ReleaseKey, newest: &LatestRevision) -> Self {
        Self {
            key: key.clone(),
            managed_by: ManagedBy::Helm,
            etag: format!("r{}", newest.revision),
            status: status_category(newest.status),
            state: newest.status.as_str(),
            message: String::new(),
            chart: ChartView::default(),
            version: 0,
            revision: newest.revision,
            objects: 0,
            ready: 0,
            updated: newest.modified_at,
            by: String::new(),
            flags: vec!["helm"],
            paused: false,
            labels: BTreeMap::new(),
            request: None,
        }
    }
}

/// The chart that the spec names, until it is resolved.
fn requested_chart(spec: &HelmReleaseSpec) -> ChartView {
    let HelmReleaseSpec { chart_name, chart_version, .. } = spec;
    ChartView { name: chart_name.clone(), version: chart_version.clone(), ..ChartView::default() }
}

/// The category of a Helm status.
pub(crate) fn status_category(status: Status) -> StatusCategory {
    match status {
        Status::Deployed => StatusCategory::Good,
        Status::Failed => StatusCategory::Bad,
        Status::Uninstalled => StatusCategory::None,
        Status::Uninstalling | Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => {
            StatusCategory::Moving
        }
        Status::Superseded | Status::Unknown => StatusCategory::Unknown,
    }
}

fn truncate_message(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_LEN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
