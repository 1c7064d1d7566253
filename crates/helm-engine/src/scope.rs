//! Template scopes: the root context of each chart, and the set of templates.

use std::collections::HashMap;
use std::rc::Rc;

use helm_chart::{Chart, File, values};
use helm_template::budget::Budget;
use helm_template::profile::Profile;
use helm_template::value::{Map, Str, Value};

use crate::objects::{FilesObject, metadata};

/// A template with its scope.
pub struct RenderableTemplate<'c> {
    pub file: &'c File,
    /// The root context (dot), shared by all templates of the chart.
    pub dot: Map,
    /// The template directory of the chart.
    pub base_path: Str,
}

/// Data shared by all charts of a rendering.
pub struct CommonScope {
    pub release: Value,
    pub capabilities: Value,
    pub profile: Profile,
}

impl CommonScope {
    /// The Go type of `.Values` and of the root context.
    pub fn values_type(&self) -> &'static str {
        match self.profile {
            Profile::Helm3 => "chartutil.Values",
            Profile::Helm4 => "common.Values",
        }
    }
}

/// Memory of a chart file that templates see, and of a template with its scope.
const FILE_BYTES: usize = 160;
const TEMPLATE_BYTES: usize = 256;

/// The templates of a chart and its subcharts by name. Of two templates with the same name, the last found wins.
pub fn collect_templates<'c>(
    chart: &'c Chart,
    values: &Map,
    common: &CommonScope,
    budget: &Budget<'_>,
) -> Result<HashMap<Str, RenderableTemplate<'c>>, Str> {
    let mut found = HashMap::new();
    let values = values.named(common.values_type());
    collect_chart(chart, &chart.metadata.name, &values, true, (common, budget), &mut found)?;
    Ok(found)
}

fn collect_chart<'c>(
    chart: &'c Chart,
    path: &str,
    values: &Map,
    is_root: bool,
    (common, budget): (&CommonScope, &Budget<'_>),
    found: &mut HashMap<Str, RenderableTemplate<'c>>,
) -> Result<Map, Str> {
    budget.charge((chart.files.len() + chart.templates.len()) as u64)?;
    budget.allocate(chart.files.len().saturating_mul(FILE_BYTES))?;
    let subcharts = Map::new();
    let dot = Map::from_entries([
        ("Chart".into(), metadata(&chart.metadata, is_root, common.profile)),
        ("Files".into(), Value::Object(Rc::new(FilesObject::new(&chart.files, common.profile)))),
        ("Release".into(), common.release.clone()),
        ("Capabilities".into(), common.capabilities.clone()),
        ("Values".into(), values.clone().into()),
        ("Subcharts".into(), subcharts.clone().into()),
    ]);
    for child in &chart.dependencies {
        let name = &child.metadata.name;
        // `Table` treats a name with dots as a path, so such a chart gets no values.
        let values = values::table(&values.plain(), name).unwrap_or_default().named(common.values_type());
        let below = collect_chart(child, &full_path(path, child), &values, false, (common, budget), found)?;
        subcharts.insert(name.clone(), below.into());
    }
    let folder: Str = format!("{path}/templates").into();
    for file in templates(chart) {
        let name = template_name(path, file);
        budget.allocate(name.len().saturating_mul(2).saturating_add(TEMPLATE_BYTES))?;
        found.insert(name, RenderableTemplate { file, dot: dot.clone(), base_path: folder.clone() });
    }
    Ok(dot)
}

/// The templates of a chart that are used; of a library chart, only partials.
pub fn templates(chart: &Chart) -> impl Iterator<Item = &File> {
    let is_library = chart.metadata.chart_type.eq_ignore_ascii_case("library");
    chart.templates.iter().filter(move |file| !is_library || is_partial(&file.name))
}

/// The name of a template in the chart at `path`.
pub fn template_name(path: &str, file: &File) -> Str {
    clean(&format!("{path}/{}", file.name))
}

/// The path prefix of a subchart's files.
pub fn full_path(parent: &str, child: &Chart) -> Str {
    child.path.clone().unwrap_or_else(|| format!("{parent}/charts/{}", child.metadata.name).into())
}

/// Whether the file is a partial: it defines templates for others and is not rendered itself.
pub fn is_partial(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|base| base.starts_with('_'))
}

/// The path without `.`, `..` and repeated slashes.
fn clean(path: &str) -> Str {
    if !path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return path.into();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|part| *part != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/").into()
}

/// Helm's parse and execution order: deepest path first, then in reverse alphabetical order.
pub fn execution_order<'n>(names: impl Iterator<Item = &'n Str>) -> Vec<Str> {
    let depth = |name: &Str| name.bytes().filter(|byte| *byte == b'/').count();
    let mut names: Vec<_> = names.map(|name| (depth(name), name.clone())).collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_order_is_deepest_first_then_reverse_alphabetical() {
        let names = [
            "c/templates/a.yaml",
            "c/templates/b.yaml",
            "c/charts/s/templates/a.yaml",
            "c/templates/d/a.yaml",
        ];
        let names: Vec<Str> = names.into_iter().map(Str::from).collect();
        let order = execution_order(names.iter());
        let want = [
            "c/charts/s/templates/a.yaml",
            "c/templates/d/a.yaml",
            "c/templates/b.yaml",
            "c/templates/a.yaml",
        ];
        assert_eq!(order.iter().map(|name| &**name).collect::<Vec<_>>(), want);
    }

    #[test]
    fn is_partial_checks_last_path_segment() {
        for (name, is) in
            [("c/templates/_a.tpl", true), ("c/_d/a.yaml", false), ("_", true), ("c/a_b", false)]
        {
            assert_eq!(is_partial(name), is, "{name}");
        }
    }

    #[test]
    fn clean_removes_dots_and_repeated_slashes() {
        for (path, want) in [("c/a", "c/a"), ("c/./a//b", "c/a/b"), ("c/a/../b", "c/b"), ("../a", "../a")] {
            assert_eq!(&*clean(path), want);
        }
    }
}
