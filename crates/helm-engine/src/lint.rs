//! `helm lint`: all rules in Helm's order, with templates rendered in lint mode.

use std::collections::HashMap;

use helm_chart::lint::Severity::{Error, Warning};
use helm_chart::lint::{
    DirContent, LintMessage, LintReport, LintSubject, chart_file, crds, dependencies, manifests, values,
};
use helm_chart::values::ValuesWarning as Note;
use helm_chart::{Chart, dependencies as subcharts};
use helm_template::budget::{Budget, RenderLimits, VALUE_BYTES};
use helm_template::data::{Data, Members};
use helm_template::env::RenderEnv;
use helm_template::exec::IgnoredFailure;
use helm_template::profile::Profile;
use helm_template::value::Value;

use crate::capabilities::{Capabilities, KubeVersion};
use crate::objects;
use crate::parsed_chart::ParsedChart;
use crate::release::{Engine, release_object};
use crate::render::{RenderContext, render};
use crate::scope::CommonScope;

const TEMPLATES_DIR: &str = "templates/";

/// Input of a lint run.
pub struct LintRequest<'r> {
    pub namespace: &'r str,
    /// Values supplied by the user; others come from the chart.
    pub values: &'r Members,
    /// The target Kubernetes version, if it differs from Helm's default.
    pub kube_version: Option<KubeVersion>,
    /// Whether values are validated against the schemas of charts.
    pub check_schema: bool,
    pub limits: RenderLimits,
}

/// The result of a lint run.
#[derive(Debug)]
pub struct LintResult {
    pub messages: Vec<LintMessage>,
    /// Lines for the user, with Helm's messages.
    pub warnings: Vec<String>,
}

impl Engine {
    /// Lints a chart.
    pub fn lint(
        &self,
        subject: &LintSubject<'_>,
        request: &LintRequest<'_>,
        outside: RenderEnv<'_>,
    ) -> LintResult {
        let profile = self.profile();
        let mut report = LintReport::default();
        let mut warnings = Vec::new();
        chart_file::check(subject, profile, &mut report);
        values::check(subject, request.values, request.check_schema, profile, &mut report, &mut warnings);
        self.lint_templates(subject, request, outside, &mut report, &mut warnings);
        dependencies::check(subject, &mut report);
        if profile == Profile::Helm4 {
            crds::check(subject, profile, &mut report);
        }
        let warnings = warnings.iter().map(|warning| warning.line().to_owned()).collect();
        LintResult { messages: report.messages, warnings }
    }

    fn lint_templates(
        &self,
        subject: &LintSubject<'_>,
        request: &LintRequest<'_>,
        outside: RenderEnv<'_>,
        report: &mut LintReport,
        warnings: &mut Vec<Note>,
    ) {
        let profile = self.profile();
        match (&subject.templates, profile) {
            (DirContent::Directory, _) | (DirContent::Missing, Profile::Helm3) => {}
            (DirContent::Missing, Profile::Helm4) => {
                report.record(Warning, TEMPLATES_DIR, Err("directory does not exist".into()));
                return;
            }
            (_, profile) => {
                let severity = if profile == Profile::Helm3 { Warning } else { Error };
                report.record(severity, TEMPLATES_DIR, Err("not a directory".into()));
                return;
            }
        }
        let chart = match &subject.chart {
            Ok(chart) => chart,
            Err(why) => {
                report.record(Error, TEMPLATES_DIR, Err(why.clone()));
                return;
            }
        };
        let prepared = ParsedChart::new(chart.clone());
        let rendered = match self.render_for_lint(&prepared, request, outside, warnings) {
            Ok(Some(rendered)) => rendered,
            // Helm does not report dependencies and values that do not match.
            Ok(None) => return,
            Err(why) => {
                report.record(Error, TEMPLATES_DIR, Err(why));
                return;
            }
        };
        let kubernetes = self.target_kube_version(request);
        for template in &chart.templates {
            let name = format!("{}/{}", chart.metadata.name, template.name);
            let content = rendered.get(&*name).map_or(&b""[..], |content| content);
            if !manifests::check(template, content, kubernetes, profile, report) {
                return;
            }
        }
    }

    /// Renders the templates. Returns their output by name, or `None` if values or dependencies are invalid.
    fn render_for_lint(
        &self,
        prepared: &ParsedChart,
        request: &LintRequest<'_>,
        outside: RenderEnv<'_>,
        warnings: &mut Vec<Note>,
    ) -> Result<Option<HashMap<String, bytes::Bytes>>, String> {
        let profile = self.profile();
        let budget = Budget::new(request.limits, outside.admission);
        let Ok(chart) = subcharts::prepare(&prepared.chart, request.values, profile, &budget, warnings)
        else {
            return Ok(None);
        };
        let Some(user) = merge_values(&chart, request.values, profile, &budget, warnings) else {
            return Ok(None);
        };
        let check_schema = request.check_schema;
        let values =
            helm_chart::values::render_values(&chart, &user, check_schema, profile, &budget, warnings)
                .map_err(|why| why.to_string())?;
        let mut capabilities = Capabilities::default_for(profile);
        if let Some(version) = &request.kube_version {
            capabilities.kube_version = version.clone();
        }
        let common = CommonScope {
            release: release_object("test-release", request.namespace, 0, None),
            capabilities: objects::capabilities(&capabilities, profile),
            profile,
        };
        let setting = RenderContext {
            functions: self.functions(),
            env: outside,
            budget: &budget,
            profile,
            is_lint: true,
        };
        let mut overlooked = Vec::new();
        let files = render(prepared, &chart, &values, &common, &setting, &mut overlooked);
        warnings.extend(overlooked.iter().map(|what| log_message(what, profile)));
        let files = files?;
        Ok(Some(files.into_iter().map(|file| (file.name.to_string(), file.content)).collect()))
    }

    /// The Kubernetes version that API deprecations are checked against.
    fn target_kube_version(&self, request: &LintRequest<'_>) -> manifests::KubeMinorVersion {
        let assumed = || Capabilities::default_for(self.profile()).kube_version;
        let version = request.kube_version.clone().unwrap_or_else(assumed);
        // Both are known to be numbers.
        (version.major.parse().unwrap_or_default(), version.minor.parse().unwrap_or_default())
    }
}

/// Helm's log message for a failure that lint mode ignores.
fn log_message(what: &IgnoredFailure, profile: Profile) -> Note {
    match what {
        IgnoredFailure::Failed(message) => {
            let text = format!("[INFO] Fail: {message}");
            Note::info_record(profile, ("engine.go:227", &text), "funcMap fail", &[("message", message)])
        }
        IgnoredFailure::MissingValue(message) => {
            let text = format!("[INFO] Missing required value: {message}");
            let attributes = [("message", &**message)];
            Note::warn_record(profile, ("engine.go:206", &text), "missing required value", &attributes)
        }
        IgnoredFailure::EmptyValue(message) => {
            let text = format!("[INFO] Missing required value: {message}");
            let attributes = [("message", &**message)];
            Note::warn_record(profile, ("engine.go:214", &text), "missing required values", &attributes)
        }
    }
}

/// Merges the user's values over the chart's. Lint merges the result once more, so defaults that the user deleted reappear.
fn merge_values(
    chart: &Chart,
    user: &Members,
    profile: Profile,
    budget: &Budget<'_>,
    warnings: &mut Vec<Note>,
) -> Option<Members> {
    let values = Value::from(helm_chart::values::coalesce(chart, user, profile, budget, warnings).ok()?);
    budget.allocate(values.count().saturating_mul(VALUE_BYTES)).ok()?;
    match Data::try_from(&values) {
        Ok(Data::Map(members)) => Some(members),
        _ => None,
    }
}
