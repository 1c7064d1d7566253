//! Execution of a chart's templates.

use std::collections::HashMap;

use bytes::Bytes;
use helm_chart::Chart;
use helm_template::budget::Budget;
use helm_template::exec::{Functions, Machine, Overlooked, Templates, without_no_value};
use helm_template::functions::USUAL_KEY;
use helm_template::outside::Outside;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use crate::prepared::{Prepared, RenderedTexts};
use crate::scope::{Common, Renderable, collect, in_order, is_partial};
use crate::trace;

/// A rendered template file.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The template name in Helm: `chart/charts/sub/templates/file.yaml`.
    pub name: Str,
    pub content: Bytes,
}

/// Options and environment of an execution.
pub(crate) struct Setting<'s> {
    pub functions: &'s Functions,
    pub outside: Outside<'s>,
    pub budget: &'s Budget<'s>,
    pub profile: Profile,
    /// Lint mode: `fail` and missing required values are not errors.
    pub lint: bool,
}

/// Renders all files of a chart with resolved dependencies, in execution order. `prepared` is the chart before resolution. Failures
/// that lint mode ignores are appended to `overlooked`.
pub(crate) fn render(
    prepared: &Prepared,
    chart: &Chart,
    values: &Map,
    common: &Common,
    setting: &Setting<'_>,
    overlooked: &mut Vec<Overlooked>,
) -> Result<Vec<Rendered>, String> {
    let root = &chart.metadata.name;
    let found =
        collect(chart, values, common, setting.budget).map_err(|why| format!("chart {root}: {why}"))?;
    let names = in_order(found.keys());
    let mut parsed = Vec::with_capacity(names.len());
    let mut texts = RenderedTexts::default();
    for name in &names {
        let draw = (setting.budget, &mut texts);
        let file = prepared.parse(name, found[name].file, setting.functions, draw);
        parsed.push(file.map_err(|why| trace::parse_error(name, &why))?);
    }
    prepared.enough();
    let keys = parsed.iter().map(|file| file.keys).sum();
    if keys > 0 {
        setting.outside.crypto.prepare(USUAL_KEY, keys);
    }
    let templates =
        Templates::default().with(parsed.iter().flat_map(|file| file.file.templates.iter().cloned()));
    let mut machine = Machine::new(templates, setting.functions, setting.outside, setting.budget);
    machine.lint = setting.lint;
    machine.ranges_over_integers = setting.profile == Profile::Helm4;
    let rendered = run(&mut machine, names, &found, common);
    overlooked.append(&mut machine.overlooked);
    rendered
}

fn run(
    machine: &mut Machine<'_>,
    names: Vec<Str>,
    found: &HashMap<Str, Renderable<'_>>,
    common: &Common,
) -> Result<Vec<Rendered>, String> {
    let mut rendered = Vec::with_capacity(names.len());
    for name in names.into_iter().filter(|name| !is_partial(name)) {
        let renderable = &found[&name];
        let about = Map::from_entries([
            ("Name".into(), Value::String(name.clone())),
            ("BasePath".into(), Value::String(renderable.folder.clone())),
        ]);
        renderable.dot.insert("Template", about.named(common.values_type()).into());
        let dot = renderable.dot.named(common.values_type());
        let out = machine
            .run(&name, dot.into())
            .map_err(|error| trace::exec_error(&name, &error, common.profile))?;
        let content = match without_no_value(&out) {
            std::borrow::Cow::Borrowed(_) => out,
            std::borrow::Cow::Owned(shorter) => shorter,
        };
        rendered.push(Rendered { name, content: content.into() });
    }
    Ok(rendered)
}
