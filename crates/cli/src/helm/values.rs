//! `longshore values`: the merged values of a chart, with the source of each.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use helm_chart::dependencies;
use helm_chart::values::{ExplainedValue, ValueOrigin, coalesce, explain, layers};
use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::json::{self, JsonStyle};
use helm_template::value::Str;
use helm_template::yaml;

use super::flags::{HelmArg, ValuesArgs, read_text_file};
use super::remote::RemoteArgs;
use super::{CommandResult, locate, table};

/// Show the merged values of a chart with the source of each:
///
///   chart           values.yaml of the chart
///   subchart NAME   values.yaml of a chart in charts/
///   FILE            file given with --values
///   --set ...       argument of --set, --set-string, --set-file, --set-json or --set-literal
///   global, from X  global value passed to a subchart by X
///   merged          imported from a subchart, or an empty table created by merging
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment, disable_version_flag = true)]
pub struct ShowValuesArgs {
    /// Chart: directory, archive, REPO/CHART, URL or OCI reference
    pub chart: String,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub remote: RemoteArgs,
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Output format; `yaml` shows sources as comments
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Yaml,
    Table,
    Json,
}

pub fn run(args: &ShowValuesArgs) -> CommandResult {
    let profile = args.helm.profile;
    let path = locate::find_blocking(&args.chart, &args.remote, profile)?;
    let sources = args.values.sources()?;
    let layers = layers(&sources, profile, &mut read_text_file).map_err(|why| why.to_string())?;
    let user = ValuesArgs::merge(&sources, profile)?;
    let loaded = helm_host::load(&path, profile).map_err(|error| error.to_string())?;
    let mut warnings = Vec::new();
    let budget = Budget::default();
    let chart = dependencies::prepare(&loaded.chart, &user, profile, &budget, &mut warnings)
        .map_err(|why| why.to_string())?;
    let merged =
        coalesce(&chart, &user, profile, &budget, &mut warnings).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    for warning in &warnings {
        eprintln!("{}", warning.line());
    }
    let mut values = explain(&loaded.chart, &layers, &merged).map_err(|why| why.to_string())?;
    values.sort_by(|a, b| a.path.cmp(&b.path));
    match args.output {
        Format::Yaml => as_yaml(&values),
        Format::Table => as_table(&values),
        Format::Json => as_json(&values),
    }
}

/// Short description of a value's source.
fn describe_origin(origin: &ValueOrigin) -> String {
    match origin {
        ValueOrigin::Chart(names) => match names.as_slice() {
            [] | [_] => "chart".into(),
            [_, inner @ ..] => format!("subchart {}", inner.join("/")),
        },
        ValueOrigin::File(name) => name.to_string(),
        ValueOrigin::Set(kind, line) => {
            let key = line.split('=').next().unwrap_or_default();
            format!("{} {key}", kind.flag())
        }
        ValueOrigin::Global(inner) => format!("global, from {}", describe_origin(inner)),
        ValueOrigin::Merged => "merged".into(),
    }
}

/// Machine-readable source.
fn origin_layer(origin: &ValueOrigin) -> &'static str {
    match origin {
        ValueOrigin::Chart(names) if names.len() > 1 => "subchart",
        ValueOrigin::Chart(_) => "chart",
        ValueOrigin::File(_) => "file",
        ValueOrigin::Set(..) => "set",
        ValueOrigin::Global(_) => "global",
        ValueOrigin::Merged => "merged",
    }
}

/// Column of the comments, unless the value is longer.
const COMMENT_COLUMN: usize = 40;

fn as_yaml(values: &[ExplainedValue]) -> CommandResult {
    let mut text = String::new();
    let mut above: &[Str] = &[];
    for ExplainedValue { path, value, origin } in values {
        let Some((key, tables)) = path.split_last() else { continue };
        let shared = above.iter().zip(tables).take_while(|(a, b)| a == b).count();
        for (depth, table) in tables.iter().enumerate().skip(shared) {
            let _ = writeln!(text, "{:width$}{}:", "", encode_key(table)?, width = 2 * depth);
        }
        above = tables;
        let indent = 2 * tables.len();
        let written = format_entry(key, value)?;
        let mut lines = written.lines();
        let first = format!("{:indent$}{}", "", lines.next().unwrap_or_default());
        let _ = writeln!(text, "{first:COMMENT_COLUMN$}  # {}", one_line(&describe_origin(origin)));
        for line in lines {
            let indent = if line.is_empty() { 0 } else { indent };
            let _ = writeln!(text, "{:indent$}{line}", "");
        }
    }
    Ok(text.into_bytes())
}

/// `key: value`, formatted so that a comment can follow on the first line: plain multi-line strings are written on one
/// line.
fn format_entry(key: &Str, value: &Data) -> Result<String, String> {
    let map = |value: Data| Data::Map(Members::from([(key.clone(), value)]));
    let written = yaml::write(&map(value.clone())).map_err(|error| error.to_string())?;
    let first = written.lines().next().unwrap_or_default();
    let is_block = first.rsplit(": ").next().is_some_and(|end| end.starts_with(['|', '>']));
    if !matches!(value, Data::String(_)) || is_block || written.lines().count() < 2 {
        return Ok(written);
    }
    let text = json::write(value, JsonStyle::Raw).map_err(|error| error.to_string())?;
    Ok(format!("{}: {text}\n", encode_key(key)?))
}

fn encode_key(key: &Str) -> Result<String, String> {
    let map = Data::Map(Members::from([(key.clone(), Data::Bool(true))]));
    let written = yaml::write(&map).map_err(|error| error.to_string())?;
    Ok(written.trim_end().strip_suffix(": true").unwrap_or(key).to_owned())
}

/// File names may contain line breaks.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn as_table(values: &[ExplainedValue]) -> CommandResult {
    let mut rows = vec![["VALUE", "IS", "FROM"].map(String::from)];
    for ExplainedValue { path, value, origin } in values {
        let value = json::write(value, JsonStyle::Raw).map_err(|error| error.to_string())?;
        rows.push([path.join("."), value, one_line(&describe_origin(origin))]);
    }
    Ok(table::render_table(&rows, 80).into_bytes())
}

fn as_json(values: &[ExplainedValue]) -> CommandResult {
    let rows = values.iter().map(|ExplainedValue { path, value, origin }| {
        let path = path.iter().cloned().map(Data::String).collect();
        Data::Map(Members::from([
            ("path".into(), Data::List(path)),
            ("value".into(), value.clone()),
            ("layer".into(), Data::string(origin_layer(origin))),
            ("from".into(), Data::string(describe_origin(origin))),
        ]))
    });
    let text =
        json::write(&Data::List(rows.collect()), JsonStyle::Pretty).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n").into_bytes())
}
