//! Rendering of a release from a chart, values and cluster capabilities.

use std::fmt::{Display, Formatter};

use bytes::Bytes;
use helm_chart::{Chart, dependencies, values};
use helm_template::budget::Budget;
use helm_template::data::Members;
use helm_template::env::RenderEnv;
use helm_template::exec::{Functions, RenderLimits};
use helm_template::functions;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use crate::capabilities::Capabilities;
use crate::hooks::Hook;
use crate::manifests::{self, Manifest};
use crate::names;
use crate::objects;
use crate::parsed_chart::ParsedChart;
use crate::render::{RenderContext, RenderedFile, render};
use crate::scope::{CommonScope, full_path};

/// Renders charts like one major version of Helm. Can be shared between threads.
pub struct Engine {
    profile: Profile,
    functions: Functions,
}

/// Input of a rendering.
pub struct EngineRequest<'r> {
    pub name: &'r str,
    pub namespace: &'r str,
    pub revision: i64,
    /// Whether this is an upgrade and not an installation.
    pub is_upgrade: bool,
    /// Values supplied by the user; others come from the chart.
    pub values: &'r Members,
    pub capabilities: &'r Capabilities,
    /// Whether values are validated against the schemas of charts.
    pub check_schema: bool,
    /// Whether notes of subcharts are included.
    pub subchart_notes: bool,
    pub limits: RenderLimits,
}

impl<'r> EngineRequest<'r> {
    /// The request of `helm template NAME` without options.
    pub fn new(name: &'r str, values: &'r Members, capabilities: &'r Capabilities) -> Self {
        Self {
            name,
            namespace: "default",
            revision: 1,
            is_upgrade: false,
            values,
            capabilities,
            check_schema: true,
            subchart_notes: false,
            limits: RenderLimits::default(),
        }
    }
}

/// A rendered release.
#[derive(Debug)]
pub struct Release {
    /// The rendered chart: without disabled dependencies, and with the values that dependencies export.
    pub chart: Chart,
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<Hook>,
    pub notes: String,
    /// The content of `crds/` of the chart and its subcharts.
    pub crds: Vec<Crd>,
    /// Lines for the user, with Helm's messages.
    pub warnings: Vec<String>,
}

/// A file of `crds/`.
#[derive(Clone, Debug)]
pub struct Crd {
    pub source: Str,
    pub content: Bytes,
}

/// A failed rendering, with Helm's message.
#[derive(Debug)]
pub struct EngineError {
    pub message: String,
    pub stage: RenderStage,
    pub warnings: Vec<String>,
}

/// The stage at which a rendering failed.
#[derive(Debug)]
pub enum RenderStage {
    /// The name, dependencies or values were rejected.
    Values,
    /// Templates failed, or the chart does not support the cluster's version.
    Templates,
    /// The rendered files are not valid manifests.
    Manifests(Vec<RenderedFile>),
}

impl Display for EngineError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EngineError {}

impl Engine {
    pub fn new(profile: Profile) -> Self {
        Self { profile, functions: functions::table(profile) }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Parses the templates of a chart while [`Engine::render`] runs on another thread. Returns early when the rendering needs nothing
    /// more.
    pub fn parse_ahead(&self, prepared: &ParsedChart) {
        prepared.parse_ahead(&self.functions);
    }

    /// Renders a release.
    pub fn render(
        &self,
        prepared: &ParsedChart,
        request: &EngineRequest<'_>,
        outside: RenderEnv<'_>,
    ) -> Result<Release, EngineError> {
        let mut warnings = Vec::new();
        let released = self.render_release(prepared, request, outside, &mut warnings);
        prepared.stop_parse_ahead();
        match released {
            Ok(release) => Ok(Release { warnings, ..release }),
            Err((why, stage)) => Err(EngineError { message: why, stage, warnings }),
        }
    }

    /// Renders the template files only. Returns them in execution order.
    pub fn render_files(
        &self,
        prepared: &ParsedChart,
        request: &EngineRequest<'_>,
        outside: RenderEnv<'_>,
    ) -> Result<Vec<RenderedFile>, EngineError> {
        let mut warnings = Vec::new();
        match self.render_templates(prepared, request, outside, &mut warnings) {
            Ok((_, files)) => Ok(files),
            Err((why, stage)) => Err(EngineError { message: why, stage, warnings }),
        }
    }

    fn render_release(
        &self,
        prepared: &ParsedChart,
        request: &EngineRequest<'_>,
        outside: RenderEnv<'_>,
        log: &mut Vec<String>,
    ) -> Result<Release, (String, RenderStage)> {
        let (chart, files) = self.render_templates(prepared, request, outside, log)?;
        let (notes, files) = split_notes(files, &chart.metadata.name, request.subchart_notes);
        let sorted = match manifests::sort_manifests(&files, self.profile) {
            Ok(sorted) => sorted,
            Err(why) => return Err((why, RenderStage::Manifests(files))),
        };
        log.extend(sorted.warnings);
        let mut crds = Vec::new();
        collect_crds(&chart, &chart.metadata.name, &mut crds);
        let (manifests, hooks) = (sorted.manifests, sorted.hooks);
        Ok(Release { chart, manifests, hooks, notes, crds, warnings: Vec::new() })
    }

    fn render_templates(
        &self,
        prepared: &ParsedChart,
        request: &EngineRequest<'_>,
        outside: RenderEnv<'_>,
        log: &mut Vec<String>,
    ) -> Result<(Chart, Vec<RenderedFile>), (String, RenderStage)> {
        if let Err(why) = names::check(request.name) {
            let why = match self.profile {
                Profile::Helm3 => why,
                Profile::Helm4 => {
                    log.push(log_line("release name check failed", &why));
                    format!("release name check failed: {why}")
                }
            };
            return Err((why, RenderStage::Values));
        }
        let mut warnings = Vec::new();
        let budget = Budget::new(request.limits, outside.admission);
        let settled = self.prepare_values(prepared, request, &budget, &mut warnings);
        log.extend(warnings.iter().map(|warning: &values::ValuesWarning| warning.line().to_owned()));
        if let Err(why) = &settled
            && let Some(cause) = why.strip_prefix(DEPENDENCIES_FAILED).and_then(|why| why.strip_prefix(": "))
        {
            log.push(log_line(DEPENDENCIES_FAILED, cause));
        }
        let (chart, values) = settled.map_err(|why| (why.to_string(), RenderStage::Values))?;

        let wanted = &chart.metadata.kube_version;
        let version = &request.capabilities.kube_version;
        if !wanted.is_empty() && !version.satisfies(wanted, self.profile) {
            let why = format!(
                "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {}",
                version.version
            );
            return Err((why, RenderStage::Templates));
        }
        let common = CommonScope {
            release: release_object(
                request.name,
                request.namespace,
                request.revision,
                Some(request.is_upgrade),
            ),
            capabilities: objects::capabilities(request.capabilities, self.profile),
            profile: self.profile,
        };
        let setting = RenderContext {
            functions: &self.functions,
            env: outside,
            budget: &budget,
            profile: self.profile,
            is_lint: false,
        };
        let files = render(prepared, &chart, &values, &common, &setting, &mut Vec::new())
            .map_err(|why| (why, RenderStage::Templates))?;
        Ok((chart, files))
    }

    /// The chart with its enabled dependencies, and the values for its templates.
    fn prepare_values(
        &self,
        prepared: &ParsedChart,
        request: &EngineRequest<'_>,
        budget: &Budget<'_>,
        warnings: &mut Vec<values::ValuesWarning>,
    ) -> Result<(Chart, Map), Str> {
        let &EngineRequest { values: user, check_schema, .. } = request;
        let chart = dependencies::prepare(&prepared.chart, user, self.profile, budget, warnings)?;
        let values = values::render_values(&chart, user, check_schema, self.profile, budget, warnings)?;
        Ok((chart, values))
    }
}

/// Helm 4's message prefix for invalid dependencies.
const DEPENDENCIES_FAILED: &str = "chart dependencies processing failed";

/// Formats a log line: Helm 4 logs some errors besides returning them.
fn log_line(what: &str, why: &str) -> String {
    format!("level=ERROR msg={} error={}", values::slog_quote(what), values::slog_quote(why))
}

/// The `.Release` object. Lint is neither an installation nor an upgrade.
pub(crate) fn release_object(name: &str, namespace: &str, revision: i64, is_upgrade: Option<bool>) -> Value {
    Map::from_entries([
        ("Name".into(), name.into()),
        ("Namespace".into(), namespace.into()),
        ("IsUpgrade".into(), (is_upgrade == Some(true)).into()),
        ("IsInstall".into(), (is_upgrade == Some(false)).into()),
        ("Revision".into(), Value::Int(revision)),
        ("Service".into(), "Helm".into()),
    ])
    .into()
}

/// Separates the notes from the rendered files.
fn split_notes(files: Vec<RenderedFile>, chart: &str, of_subcharts: bool) -> (String, Vec<RenderedFile>) {
    const NOTES: &str = "NOTES.txt";
    let own = format!("{chart}/templates/{NOTES}");
    let (mut notes, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.name.ends_with(NOTES));
    notes.retain(|file| of_subcharts || *file.name == *own);
    notes.sort_by(|a, b| a.name.cmp(&b.name));
    let mut text = String::new();
    for file in notes {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&String::from_utf8_lossy(&file.content));
    }
    (text, files)
}

fn collect_crds(chart: &Chart, path: &str, found: &mut Vec<Crd>) {
    for file in chart.crds() {
        found.push(Crd { source: format!("{path}/{}", file.name).into(), content: file.data.clone() });
    }
    for child in &chart.dependencies {
        collect_crds(child, &full_path(path, child), found);
    }
}
