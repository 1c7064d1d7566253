//! Execution of a chart's templates.

use std::collections::HashMap;

use bytes::Bytes;
use helm_chart::Chart;
use helm_template::budget::Budget;
use helm_template::env::RenderEnv;
use helm_template::exec::{Functions, IgnoredFailure, Machine, Templates, without_no_value};
use helm_template::functions::DEFAULT_KEY;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use crate::error_format;
use crate::parsed_chart::{ParsedChart, RenderedTexts};
use crate::scope::{CommonScope, RenderableTemplate, collect_templates, execution_order, is_partial};

/// A rendered template file.
#[derive(Clone, Debug)]
pub struct RenderedFile {
    /// The template name in Helm: `chart/charts/sub/templates/file.yaml`.
    pub name: Str,
    pub content: Bytes,
}

/// Options and environment of an execution.
pub(crate) struct RenderContext<'s> {
    pub functions: &'s Functions,
    pub env: RenderEnv<'s>,
    pub budget: &'s Budget<'s>,
    pub profile: Profile,
    /// Lint mode: `fail` and missing required values are not errors.
    pub is_lint: bool,
}

/// Renders all files of a chart with resolved dependencies, in execution order. `prepared` is the chart before resolution. Failures
/// that lint mode ignores are appended to `overlooked`.
pub(crate) fn render(
    prepared: &ParsedChart,
    chart: &Chart,
    values: &Map,
    common: &CommonScope,
    setting: &RenderContext<'_>,
    overlooked: &mut Vec<IgnoredFailure>,
) -> Result<Vec<RenderedFile>, String> {
    let root = &chart.metadata.name;
    let found = collect_templates(chart, values, common, setting.budget)
        .map_err(|why| format!("chart {root}: {why}"))?;
    let names = execution_order(found.keys());
    let mut parsed = Vec::with_capacity(names.len());
    let mut texts = RenderedTexts::default();
    for name in &names {
        let draw = (setting.budget, &mut texts);
        let file = prepared.parse(name, found[name].file, setting.functions, draw);
        parsed.push(file.map_err(|why| error_format::parse_error(name, &why))?);
    }
    prepared.stop_parse_ahead();
    let keys = parsed.iter().map(|file| file.key_calls).sum();
    if keys > 0 {
        setting.env.crypto.prepare(DEFAULT_KEY, keys);
    }
    let templates =
        Templates::default().with(parsed.iter().flat_map(|file| file.file.templates.iter().cloned()));
    let mut machine = Machine::new(templates, setting.functions, setting.env, setting.budget);
    machine.is_lint = setting.is_lint;
    machine.ranges_over_integers = setting.profile == Profile::Helm4;
    let rendered = run(&mut machine, names, &found, common);
    overlooked.append(&mut machine.ignored_failures);
    rendered
}

fn run(
    machine: &mut Machine<'_>,
    names: Vec<Str>,
    found: &HashMap<Str, RenderableTemplate<'_>>,
    common: &CommonScope,
) -> Result<Vec<RenderedFile>, String> {
    let mut rendered = Vec::with_capacity(names.len());
    for name in names.into_iter().filter(|name| !is_partial(name)) {
        let renderable = &found[&name];
        let about = Map::from_entries([
            ("Name".into(), Value::String(name.clone())),
            ("BasePath".into(), Value::String(renderable.base_path.clone())),
        ]);
        renderable.dot.insert("Template", about.named(common.values_type()).into());
        let dot = renderable.dot.named(common.values_type());
        let out = machine
            .run(&name, dot.into())
            .map_err(|error| error_format::exec_error(&name, &error, common.profile))?;
        let content = match without_no_value(&out) {
            std::borrow::Cow::Borrowed(_) => out,
            std::borrow::Cow::Owned(shorter) => shorter,
        };
        rendered.push(RenderedFile { name, content: content.into() });
    }
    Ok(rendered)
}
