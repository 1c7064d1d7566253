//! `longshore get`: parts of a release's record.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use helm_release::Record;
use helm_release::queries::{all_values, get, hooks_text};
use helm_release::record::ApplyMethod;
use helm_template::data::Data;
use helm_template::json;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::chart::PROFILE;
use super::connect::{ClusterTarget, connect};
use super::flags::{Format, OutputArg};
use super::output::{data_to_yaml, encode};
use super::show::{ShowOptions, release};
use super::target::CommandTargetArgs;
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    #[command(subcommand)]
    pub what: GetCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum GetCommand {
    /// Get values, hooks, manifests and notes
    All(RevisionArgs),
    /// Get the hooks
    Hooks(RevisionArgs),
    /// Get the manifests
    Manifest(RevisionArgs),
    /// Get metadata: chart, versions and apply method
    Metadata {
        #[command(flatten)]
        output: OutputArg,
        #[command(flatten)]
        revision: RevisionArgs,
    },
    /// Get the notes
    Notes(RevisionArgs),
    /// Get the values
    Values {
        /// Include the default values of the chart
        #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
        all: Switch,
        #[command(flatten)]
        output: OutputArg,
        #[command(flatten)]
        revision: RevisionArgs,
    },
}

/// A release and its revision.
#[derive(Clone, Debug, Args)]
pub struct RevisionArgs {
    /// Name of the release
    pub name: String,
    /// Revision [default: the last]
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub revision: i64,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

impl GetCommand {
    /// The requested revision.
    pub fn revision(&self) -> &RevisionArgs {
        match self {
            Self::All(revision)
            | Self::Hooks(revision)
            | Self::Manifest(revision)
            | Self::Notes(revision)
            | Self::Metadata { revision, .. }
            | Self::Values { revision, .. } => revision,
        }
    }
}

impl RevisionArgs {
    async fn load_record(&self, at: &ClusterTarget) -> Result<Record, String> {
        let reached = connect(at).await?;
        let revision = (self.revision != 0).then_some(self.revision);
        let stored =
            get(&reached.storage(), &self.name, revision).await.map_err(|error| error.to_string())?;
        Ok(stored.record)
    }
}

pub async fn run(args: &GetArgs, at: &ClusterTarget) -> CommandResult {
    match &args.what {
        GetCommand::All(revision) => {
            let shown = ShowOptions { chart: true, everything: true, ..ShowOptions::default() };
            release(&revision.load_record(at).await?, Format::Table, shown)
        }
        GetCommand::Hooks(revision) => Ok(hooks_text(&revision.load_record(at).await?).into_bytes()),
        GetCommand::Manifest(revision) => {
            Ok(format!("{}\n", revision.load_record(at).await?.manifest).into_bytes())
        }
        GetCommand::Metadata { revision, output } => {
            render_metadata(&revision.load_record(at).await?, output.output)
        }
        GetCommand::Notes(revision) => {
            let notes = revision.load_record(at).await?.info.notes;
            Ok(if notes.is_empty() { Vec::new() } else { format!("NOTES:\n{notes}\n").into_bytes() })
        }
        GetCommand::Values { revision, all, output } => {
            render_values(&revision.load_record(at).await?, all.0, output.output)
        }
    }
}

fn render_values(record: &Record, all: bool, format: Format) -> CommandResult {
    let values = if all {
        all_values(record, PROFILE).map_err(|error| error.to_string())?
    } else {
        record.config.clone()
    };
    // Helm prints `null` without user-supplied values.
    let values = if !all && values.is_empty() { Data::Null } else { Data::Map(values) };
    match format {
        Format::Json => {
            let text = json::write(&values, json::JsonStyle::Plain).map_err(|error| error.to_string())?;
            Ok(format!("{text}\n").into_bytes())
        }
        Format::Yaml => Ok(data_to_yaml(&values)?.into_bytes()),
        Format::Table => {
            let title = if all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" };
            Ok(format!("{title}\n{}", data_to_yaml(&values)?).into_bytes())
        }
    }
}

fn render_metadata(record: &Record, format: Format) -> CommandResult {
    let head = record.chart.metadata();
    // In UTC, to the second.
    let deployed = record.info.last_deployed.timestamp().map_or_else(
        || "0001-01-01T00:00:00Z".to_owned(),
        |at| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    );
    let mut dependencies: Vec<&str> = head.dependencies.iter().map(|part| part.name.as_str()).collect();
    dependencies.sort_unstable();
    let method = record.apply_method.map(ApplyMethod::as_str).unwrap_or_default();
    let mut shown = json!({
        "name": record.name, "chart": head.name, "version": head.version, "appVersion": head.app_version,
        "namespace": record.namespace, "revision": record.version, "status": record.info.status.as_str(),
        "deployedAt": deployed,
    });
    let mut also = |key: &str, value: Value, there: bool| {
        if there {
            shown[key] = value;
        }
    };
    also("annotations", json!(head.annotations), !head.annotations.is_empty());
    also("labels", json!(record.labels), !record.labels.is_empty());
    also("applyMethod", json!(method), !method.is_empty());
    let parts = head.dependencies.iter();
    let parts: Vec<Value> = parts
        .map(|part| json!({"name": part.name, "version": part.version, "repository": part.repository}))
        .collect();
    also("dependencies", json!(parts), !parts.is_empty());
    if let Some(encoded) = encode(format, &shown) {
        return encoded;
    }
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    };
    let applied = match record.apply_method {
        None => "client-side apply (defaulted)",
        Some(ApplyMethod::ClientSide) => "client-side apply",
        Some(ApplyMethod::ServerSide) => "server-side apply",
    };
    let mut out = String::new();
    let rows = [
        ("NAME", record.name.clone()),
        ("CHART", head.name.clone()),
        ("VERSION", head.version.clone()),
        ("APP_VERSION", head.app_version.clone()),
        ("ANNOTATIONS", pairs(&head.annotations)),
        ("LABELS", pairs(&record.labels)),
        ("DEPENDENCIES", dependencies.join(",")),
        ("NAMESPACE", record.namespace.clone()),
        ("REVISION", record.version.to_string()),
        ("STATUS", record.info.status.to_string()),
        ("DEPLOYED_AT", deployed),
        ("APPLY_METHOD", applied.to_owned()),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name}: {value}");
    }
    Ok(out.into_bytes())
}
