//! Renders a chart with values against a cluster into the parts of a record.
//!
//! Rendering runs on a [`WorkPool`], with a share for each workspace. Its memory is reserved there as its budget
//! grows, it has a deadline, and it stops when its caller is gone. While `lookup` waits for the cluster, the
//! rendering gives its slot to others.
//!
//! See also: the engine (`helm_engine`), uses of a rendering (`crate::actions`).

mod admission;
pub mod chart_cache;
mod lookup;
pub mod operations;
pub mod share;

use std::sync::Arc;
use std::time::Duration;

use domain::error::ErrorKind;
use governor::AdmissionError;
use governor::work::{WorkContext, WorkError, WorkLimits, WorkPool};
use helm_engine::{Capabilities, Crd, Engine, EngineRequest, KubeVersion, Manifest, RenderStage, output};
use helm_host::Host;
use helm_template::budget::Admission as _;
use helm_template::data::Members;
use helm_template::env::RenderEnv;
use helm_template::profile::Profile;
use kube::Client;
use kube_apply::Discovery;
use tokio::runtime::Handle;

use crate::record::{ChartRecord, HookRecord};

pub use admission::PoolAdmission;
pub use chart_cache::{PreparedChart, PreparedChartCache};
pub use governor::bytes::ByteReservation as ReservedBytes;
use lookup::ClusterLookup;
use operations::OperationBudget;
use share::PoolShare;

/// Renders charts for any number of concurrent callers. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Renderer(Arc<RendererInner>);

struct RendererInner {
    helm3: Engine,
    helm4: Engine,
    host: Host,
    pool: WorkPool,
    operations: OperationBudget,
}

/// The cluster of a rendering, with the identity used for `lookup`.
#[derive(Clone)]
pub struct LookupTarget {
    /// Client with the caller's identity.
    pub client: Client,
    pub discovery: Discovery,
    /// Flow whose share of the renderer is used; defaults to the namespace.
    pub flow: Option<Arc<str>>,
}

/// Options of a rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of Helm's command line")]
pub struct RenderRequest {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_upgrade: bool,
    pub profile: Profile,
    /// Validate values against the charts' schemas.
    pub check_schema: bool,
    /// Include notes of subcharts.
    pub subchart_notes: bool,
    /// Allow `lookup` to read from the cluster. If false it finds nothing, as in Helm's client-side dry run.
    pub is_lookup_enabled: bool,
}

/// Result of a rendering.
#[derive(Debug)]
pub struct RenderOutput {
    /// The chart for the record.
    pub chart: ChartRecord,
    /// Manifests in install order.
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<HookRecord>,
    pub notes: String,
    /// CRDs of the `crds/` directories of the chart and its subcharts.
    pub crds: Vec<Crd>,
    /// Warnings for the user, with Helm's texts.
    pub warnings: Vec<String>,
}

/// Error of a rendering, with Helm's messages.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// Name, dependencies or values are invalid.
    #[error("{why}")]
    Values { why: String, warnings: Vec<String> },
    #[error("{why}")]
    Templates { why: String, warnings: Vec<String> },
    #[error("cannot encode the chart: {0}")]
    RecordEncoding(String),
    /// The pool has no slot or memory available; retry later.
    #[error("rendering was postponed: {0}")]
    Rejected(AdmissionError),
    #[error("rendering took longer than {} s", .0.as_secs())]
    DeadlineExceeded(Duration),
    #[error("rendering was aborted")]
    Aborted,
}

impl From<WorkError> for RenderError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Rejected(rejected) => Self::Rejected(rejected),
            WorkError::DeadlineExceeded(deadline) => Self::DeadlineExceeded(deadline),
            // A cancelled rendering has no caller left.
            WorkError::Interrupted(_) => Self::DeadlineExceeded(RENDER_TIMEOUT),
            WorkError::Panicked => Self::Aborted,
        }
    }
}

impl RenderError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Values { .. } | Self::Templates { .. } | Self::RecordEncoding(_) => ErrorKind::Invalid,
            Self::Rejected(_) => ErrorKind::Exhausted,
            Self::DeadlineExceeded(_) => ErrorKind::Timeout,
            Self::Aborted => ErrorKind::Internal,
        }
    }
}

impl RenderRequest {
    /// Options of an installation.
    pub fn install(name: &str, namespace: &str, profile: Profile) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: 1,
            is_upgrade: false,
            profile,
            check_schema: true,
            subchart_notes: false,
            is_lookup_enabled: true,
        }
    }

    /// Options of an upgrade to `revision`.
    pub fn upgrade(name: &str, namespace: &str, revision: i64, profile: Profile) -> Self {
        Self { revision, is_upgrade: true, ..Self::install(name, namespace, profile) }
    }
}

impl RenderOutput {
    /// Manifests in the text format of a record.
    pub fn manifest(&self) -> String {
        let mut text = Vec::new();
        for manifest in &self.manifests {
            output::write_document(&mut text, (&manifest.source, &manifest.content));
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new()
    }
}

/// Maximum time of one rendering, including waits for the cluster.
const RENDER_TIMEOUT: Duration = Duration::from_mins(2);

/// Bytes reserved before a rendering starts. Its budget reserves more as it grows.
const INITIAL_BYTES: u64 = 4 << 20;

/// Maximum bytes of an error, and of all warnings together. Longer ones are cut before they are stored.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
const MAX_WARNINGS_BYTES: usize = 256 << 10;

/// Limits for the manifests and hooks of a release: bytes, and values estimated by counting punctuation.
const MAX_MANIFEST_BYTES: usize = 16 << 20;
const MAX_MANIFEST_VALUES: usize = 2_000_000;

/// Limits of a pool for renderings: one slot per processor; per flow half of the slots and the memory budget of one
/// rendering.
pub fn work_limits() -> WorkLimits {
    let slots = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2);
    WorkLimits {
        slots,
        slots_per_flow: slots / 2,
        queue: 1_000,
        queue_per_flow: 100,
        wait: Duration::from_secs(30),
        bytes: 512 << 20,
        bytes_per_flow: 192 << 20,
    }
}

impl Renderer {
    /// A renderer with its own pool.
    pub fn new() -> Self {
        Self::with_pool(WorkPool::new(&work_limits()))
    }

    /// A renderer that shares a pool with other heavy work.
    pub fn with_pool(pool: WorkPool) -> Self {
        let (helm3, helm4) = (Engine::new(Profile::Helm3), Engine::new(Profile::Helm4));
        let operations = OperationBudget::default();
        Self(Arc::new(RendererInner { helm3, helm4, host: Host::new(), pool, operations }))
    }

    pub fn pool(&self) -> &WorkPool {
        &self.0.pool
    }

    /// Memory budget of running operations.
    pub fn operations(&self) -> &OperationBudget {
        &self.0.operations
    }

    /// Renders a chart. Cancel-safe: dropping the future stops the rendering.
    pub async fn render(
        &self,
        cluster: &LookupTarget,
        chart: &Arc<PreparedChart>,
        values: &Arc<Members>,
        what: &RenderRequest,
    ) -> Result<RenderOutput, RenderError> {
        let (inner, cluster) = (self.0.clone(), cluster.clone());
        let (chart, values, what) = (chart.clone(), values.clone(), what.clone());
        let runtime = Handle::current();
        let flow = cluster.flow.clone().unwrap_or_else(|| what.namespace.as_str().into());
        self.run(&flow, move |ticket| {
            let admission = PoolAdmission::new(ticket);
            let lookup = ClusterLookup::new(runtime, &cluster, &admission);
            let rendered = inner.render(&lookup, &admission, &chart, &values, &what);
            match admission.failure() {
                Some(error) if rendered.is_err() => Err(error.into()),
                _ => rendered,
            }
        })
        .await?
    }

    /// Share of a flow, for work on manifests and records.
    pub fn share(&self, flow: &str) -> PoolShare {
        PoolShare::new(&self.0.pool, flow)
    }

    /// Runs other heavy work on rendered objects in the share of a flow.
    pub async fn run<T: Send + 'static>(
        &self,
        flow: &str,
        work: impl FnOnce(&WorkContext) -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        let pool = &self.0.pool;
        Ok(pool.run(pool.flow(flow), INITIAL_BYTES, RENDER_TIMEOUT, work).await?)
    }
}

impl RendererInner {
    fn render(
        &self,
        lookup: &ClusterLookup<'_>,
        admission: &PoolAdmission<'_>,
        chart: &PreparedChart,
        values: &Members,
        what: &RenderRequest,
    ) -> Result<RenderOutput, RenderError> {
        let engine = match what.profile {
            Profile::Helm3 => &self.helm3,
            Profile::Helm4 => &self.helm4,
        };
        let capabilities = capabilities(lookup.discovery());
        let request = EngineRequest {
            namespace: &what.namespace,
            revision: what.revision,
            is_upgrade: what.is_upgrade,
            check_schema: what.check_schema,
            subchart_notes: what.subchart_notes,
            ..EngineRequest::new(&what.name, values, &capabilities)
        };
        let nowhere = RenderEnv { admission, ..self.host.render_env() };
        let outside = if what.is_lookup_enabled { RenderEnv { cluster: lookup, ..nowhere } } else { nowhere };
        match engine.render(chart.prepared(), &request, outside) {
            Ok(release) => {
                check_size(&release).map_err(|why| RenderError::Templates { why, warnings: Vec::new() })?;
                // `admission` stores the failure.
                let reserved = admission.reserve(chart_cache::record_bytes(&release.chart));
                reserved.map_err(|_| RenderError::Aborted)?;
                let record = chart.record(&release.chart, what.profile);
                Ok(RenderOutput {
                    chart: record.map_err(|why| RenderError::RecordEncoding(why.to_string()))?,
                    manifests: release.manifests,
                    hooks: release.hooks.iter().map(HookRecord::from).collect(),
                    notes: release.notes,
                    crds: release.crds,
                    warnings: truncate_warnings(release.warnings),
                })
            }
            Err(failure) => {
                let (why, warnings) =
                    (truncate_message(failure.message), truncate_warnings(failure.warnings));
                Err(match failure.stage {
                    RenderStage::Values => RenderError::Values { why, warnings },
                    RenderStage::Templates | RenderStage::Manifests(_) => {
                        RenderError::Templates { why, warnings }
                    }
                })
            }
        }
    }
}

/// Rejects manifests that are too large to process: they are parsed repeatedly, and a value takes as little as two
/// bytes.
fn check_size(release: &helm_engine::Release) -> Result<(), String> {
    let manifests = release.manifests.iter().map(|manifest| &manifest.content[..]);
    let hooks = release.hooks.iter().map(|hook| &hook.content[..]);
    let (mut bytes, mut values) = (0_usize, 0_usize);
    for text in manifests.chain(hooks) {
        bytes = bytes.saturating_add(text.len());
        values = values.saturating_add(text.iter().filter(|byte| b",:-[{\n".contains(byte)).count());
    }
    let chart = &release.chart.metadata.name;
    if bytes > MAX_MANIFEST_BYTES {
        return Err(format!("chart {chart}: its manifests have {bytes} bytes (limit {MAX_MANIFEST_BYTES})"));
    }
    if values > MAX_MANIFEST_VALUES {
        return Err(format!(
            "chart {chart}: its manifests have too many values (limit {MAX_MANIFEST_VALUES})"
        ));
    }
    Ok(())
}

/// Truncates an error to the size that a status can hold.
fn truncate_message(mut text: String) -> String {
    let whole = text.len();
    if whole > MAX_MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
        return format!("{text}… ({whole} bytes in all)");
    }
    text
}

/// Truncates warnings to the limit and appends the number of omitted ones.
fn truncate_warnings(mut warnings: Vec<String>) -> Vec<String> {
    let mut bytes = 0_usize;
    let fit = warnings.iter().take_while(|line| {
        bytes = bytes.saturating_add(line.len());
        bytes <= MAX_WARNINGS_BYTES
    });
    let (fit, all) = (fit.count(), warnings.len());
    if fit < all {
        warnings.truncate(fit);
        warnings.push(format!("{} more warnings omitted", all - fit));
    }
    warnings
}

/// Cluster capabilities for templates.
fn capabilities(discovery: &Discovery) -> Capabilities {
    let version = discovery.version();
    let whole = version.git_version.as_str();
    Capabilities {
        kube_version: KubeVersion {
            version: whole.into(),
            without_suffix: whole.into(),
            major: version.major.as_str().into(),
            minor: version.minor.as_str().into(),
        },
        api_versions: discovery.api_versions().into_iter().map(Into::into).collect(),
    }
}
