//! `longshore list`: lists releases.

use std::collections::BTreeSet;

use clap::Args;
use helm_release::Status;
use helm_release::queries::{ListOptions, RevisionSummary, list};
use helm_release::storage::ListScope;
use regex::Regex;
use serde_json::{Value, json};

use super::connect::{ClusterTarget, connect};
use super::flags::{Format, OutputArg};
use super::output::{encode, format_go};
use super::target::{CommandTargetArgs, platform_required};
use crate::helm::flags::{Switch, switch};
use crate::helm::{CommandResult, table};

#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// List releases of all namespaces
    #[arg(short = 'A', long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub all_namespaces: Switch,
    /// Regular expression that the name must match
    #[arg(short, long, value_name = "PATTERN", default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Label selector for Helm records
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    pub selector: String,
    #[command(flatten)]
    pub states: StateArgs,
    /// Sort by date, newest first
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub date: Switch,
    /// Reverse the order
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub reverse: Switch,
    /// Maximum number of releases; 0 for no limit
    #[arg(short, long, value_name = "NUMBER", default_value_t = 256)]
    pub max: usize,
    /// Number of releases to skip
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub offset: usize,
    /// Print names only
    #[arg(short = 'q', long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub short: Switch,
    /// Format of times, as a Go layout such as `2006-01-02 15:04:05`
    #[arg(long, value_name = "LAYOUT", default_value = "", hide_default_value = true)]
    pub time_format: String,
    /// Omit headers of the table
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_headers: Switch,
    /// After listing, print a line for each changed release (platform only)
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub watch: Switch,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

/// Filter by state. By default, deployed and failed releases, and on a platform all.
#[derive(Clone, Debug, Default, Args)]
pub struct StateArgs {
    /// Include releases in any state
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub all: Switch,
    /// Show deployed releases
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub deployed: Switch,
    /// Show failed releases
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub failed: Switch,
    /// Show releases with a pending operation
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub pending: Switch,
    /// Show superseded revisions
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub superseded: Switch,
    /// Show releases uninstalled with --keep-history
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub uninstalled: Switch,
    /// Show releases that are being uninstalled
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub uninstalling: Switch,
}

impl StateArgs {
    fn states(&self) -> Option<BTreeSet<Status>> {
        if self.all.0 {
            return Some(Status::ALL.into());
        }
        let pending = [Status::PendingInstall, Status::PendingUpgrade, Status::PendingRollback];
        let rows: [(Switch, &[Status]); 6] = [
            (self.deployed, &[Status::Deployed]),
            (self.failed, &[Status::Failed]),
            (self.pending, &pending),
            (self.superseded, &[Status::Superseded]),
            (self.uninstalled, &[Status::Uninstalled]),
            (self.uninstalling, &[Status::Uninstalling]),
        ];
        let states: BTreeSet<Status> =
            rows.into_iter().filter(|(asked, _)| asked.0).flat_map(|(_, states)| states).copied().collect();
        (!states.is_empty()).then_some(states)
    }
}

pub async fn run(args: &ListArgs, at: &ClusterTarget) -> CommandResult {
    if args.watch.0 {
        return Err(platform_required("list --watch"));
    }
    let name = match args.filter.as_str() {
        "" => None,
        text => Some(Regex::new(text).map_err(|error| format!("error parsing regexp: {error}"))?),
    };
    let reached = connect(at).await?;
    let scope =
        if args.all_namespaces.0 { ListScope::All } else { ListScope::Namespace(reached.namespace.clone()) };
    let mut wanted = ListOptions::new(scope);
    wanted.name = name;
    wanted.selector.clone_from(&args.selector);
    (wanted.by_date, wanted.reverse) = (args.date.0, args.reverse.0);
    (wanted.offset, wanted.limit) = (args.offset, args.max);
    if let Some(states) = args.states.states() {
        wanted.states = states;
    }
    let found = list(&reached.client, &reached.clock, &wanted).await.map_err(|error| error.to_string())?;
    for damaged in &found.damaged {
        eprintln!("{damaged}");
    }
    if args.short.0 {
        return render_names(&found.releases, args.output.output);
    }
    let rows: Vec<Value> =
        found.releases.iter().map(|release| release_json(release, &args.time_format)).collect();
    encode(args.output.output, &rows.into()).unwrap_or_else(|| Ok(render_table(&found.releases, args)))
}

fn render_names(releases: &[RevisionSummary], format: Format) -> CommandResult {
    let names: Vec<&str> = releases.iter().map(|release| release.name.as_str()).collect();
    let lines = || names.iter().flat_map(|name| [*name, "\n"]).collect::<String>();
    encode(format, &json!(names)).unwrap_or_else(|| Ok(lines().into_bytes()))
}

fn release_json(release: &RevisionSummary, layout: &str) -> Value {
    json!({
        "name": release.name,
        "namespace": release.namespace,
        "revision": release.revision.to_string(),
        "updated": format_go(release.updated, layout),
        "status": release.status.as_str(),
        "chart": chart_label(release),
        "app_version": release.app_version,
    })
}

/// `nginx-1.2.3`
pub fn chart_label(release: &RevisionSummary) -> String {
    if release.chart.is_empty() {
        return "MISSING".to_owned();
    }
    format!("{}-{}", release.chart, release.chart_version)
}

fn render_table(releases: &[RevisionSummary], args: &ListArgs) -> Vec<u8> {
    const HEADERS: [&str; 7] = ["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"];
    let headers = (!args.no_headers.0).then(|| HEADERS.map(str::to_owned));
    let rows: Vec<_> = headers
        .into_iter()
        .chain(releases.iter().map(|release| {
            [
                release.name.clone(),
                release.namespace.clone(),
                release.revision.to_string(),
                format_go(release.updated, &args.time_format),
                release.status.to_string(),
                chart_label(release),
                release.app_version.clone(),
            ]
        }))
        .collect();
    if rows.is_empty() { b"\n".to_vec() } else { table::render_table(&rows, 80).into_bytes() }
}
