//! A chart, values and a cluster to what a record says of them.
//!
//! Rendering works the processor, and `lookup` waits for the cluster in the middle of it: both are done on threads of their
//! own, as many as there are processors, so that whoever else is served goes on being served.
//!
//! Elsewhere: the engine (`helm_engine`), what is done with a rendering (`crate::actions`).

pub mod charts;
mod lookup;

use std::sync::Arc;

use domain::failure::Kind;
use helm_engine::{Capabilities, Crd, Engine, KubeVersion, Manifest, Request, Stage, output};
use helm_host::Host;
use helm_template::data::Members;
use helm_template::outside::Outside;
use helm_template::profile::Profile;
use kube::Client;
use kube_apply::Discovery;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::record::{ChartRecord, HookRecord};

pub use charts::{Charts, ReadyChart};
use lookup::Lookup;

/// Renders, for any number of callers.
#[derive(Clone)]
pub struct Renderer(Arc<Inner>);

struct Inner {
    helm3: Engine,
    helm4: Engine,
    host: Host,
    turns: Arc<Semaphore>,
}

/// What is rendered for, and as whom it is looked up.
#[derive(Clone)]
pub struct Cluster {
    /// As the actor.
    pub client: Client,
    pub discovery: Discovery,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of Helm's command line")]
pub struct What {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_upgrade: bool,
    pub profile: Profile,
    /// Values are held against the schemas of charts.
    pub check_schema: bool,
    /// Notes of subcharts count, too.
    pub subchart_notes: bool,
    /// `lookup` asks the cluster; else it finds nothing, as in Helm's dry run on the client.
    pub may_look_up: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Rendering {
    /// For the record.
    pub chart: ChartRecord,
    /// In the order of installation.
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<HookRecord>,
    pub notes: String,
    /// What lies in `crds/` of the chart and of its subcharts.
    pub crds: Vec<Crd>,
    /// Lines for the user, in Helm's words.
    pub warnings: Vec<String>,
}

/// Why nothing came of it, in Helm's words.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// Name, dependencies or values were refused.
    #[error("{why}")]
    Values { why: String, warnings: Vec<String> },
    #[error("{why}")]
    Templates { why: String, warnings: Vec<String> },
    #[error("the chart cannot be written into a record: {0}")]
    Unwritable(String),
    #[error("the rendering broke off")]
    Broken,
}

impl RenderError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Values { .. } | Self::Templates { .. } | Self::Unwritable(_) => Kind::Invalid,
            Self::Broken => Kind::Internal,
        }
    }
}

impl What {
    /// An installation.
    pub fn install(name: &str, namespace: &str, profile: Profile) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: 1,
            is_upgrade: false,
            profile,
            check_schema: true,
            subchart_notes: false,
            may_look_up: true,
        }
    }

    /// An upgrade, which makes `revision`.
    pub fn upgrade(name: &str, namespace: &str, revision: i64, profile: Profile) -> Self {
        Self { revision, is_upgrade: true, ..Self::install(name, namespace, profile) }
    }
}

impl Rendering {
    /// The manifests as a record has them.
    pub fn manifest(&self) -> String {
        let mut text = Vec::new();
        for manifest in &self.manifests {
            output::write(&mut text, (&manifest.source, &manifest.content));
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Default for Renderer {
    fn default() -> Self {
        Self::new()
    }
}

impl Renderer {
    pub fn new() -> Self {
        let turns = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self(Arc::new(Inner {
            helm3: Engine::new(Profile::Helm3),
            helm4: Engine::new(Profile::Helm4),
            host: Host::new(),
            turns: Arc::new(Semaphore::new(turns)),
        }))
    }

    /// Renders a chart. Whoever drops this future lets it be rendered to its end, which is bounded.
    pub async fn render(
        &self,
        cluster: &Cluster,
        chart: &Arc<ReadyChart>,
        values: &Arc<Members>,
        what: &What,
    ) -> Result<Rendering, RenderError> {
        let turn = self.0.turns.clone().acquire_owned().await;
        let turn = turn.expect("nobody closes the semaphore");
        let (inner, cluster) = (self.0.clone(), cluster.clone());
        let (chart, values, what) = (chart.clone(), values.clone(), what.clone());
        let handle = Handle::current();
        let rendered = spawn_blocking(move || {
            let lookup = Lookup::new(handle, &cluster, inner.turns.clone(), turn);
            inner.render(&lookup, &chart, &values, &what)
        });
        rendered.await.map_err(|_| RenderError::Broken)?
    }
}

impl Inner {
    fn render(
        &self,
        lookup: &Lookup<'_>,
        chart: &ReadyChart,
        values: &Members,
        what: &What,
    ) -> Result<Rendering, RenderError> {
        let engine = match what.profile {
            Profile::Helm3 => &self.helm3,
            Profile::Helm4 => &self.helm4,
        };
        let capabilities = capabilities(lookup.discovery());
        let request = Request {
            namespace: &what.namespace,
            revision: what.revision,
            is_upgrade: what.is_upgrade,
            check_schema: what.check_schema,
            subchart_notes: what.subchart_notes,
            ..Request::new(&what.name, values, &capabilities)
        };
        let nowhere = self.host.outside();
        let outside = if what.may_look_up { Outside { cluster: lookup, ..nowhere } } else { nowhere };
        match engine.render(chart.prepared(), &request, outside) {
            Ok(release) => {
                let record = chart.record(&release.chart, what.profile);
                Ok(Rendering {
                    chart: record.map_err(|why| RenderError::Unwritable(why.to_string()))?,
                    manifests: release.manifests,
                    hooks: release.hooks.iter().map(HookRecord::from).collect(),
                    notes: release.notes,
                    crds: release.crds,
                    warnings: release.warnings,
                })
            }
            Err(failure) => {
                let (why, warnings) = (failure.why, failure.warnings);
                Err(match failure.stage {
                    Stage::Values => RenderError::Values { why, warnings },
                    Stage::Templates | Stage::Manifests(_) => RenderError::Templates { why, warnings },
                })
            }
        }
    }
}

/// What the cluster can do, as templates see it.
fn capabilities(discovery: &Discovery) -> Capabilities {
    let version = discovery.version();
    let whole = version.git_version.as_str();
    Capabilities {
        kube_version: KubeVersion {
            version: whole.into(),
            plain: whole.into(),
            major: version.major.as_str().into(),
            minor: version.minor.as_str().into(),
        },
        api_versions: discovery.api_versions().into_iter().map(Into::into).collect(),
    }
}
