//! `longshore logs`: logs of a release's containers.
//!
//! Lines are prefixed with `[pod/container]` when following, or if several containers are printed.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use helm_release::queries::get;
use kube_apply::Object;
use kube_apply::logs::{LogEvent, LogFollower, LogOptions, pod_selectors};

use super::connect::{ClusterConnection, ClusterTarget, connect};
use super::flags::duration;
use super::target::CommandTargetArgs;
use crate::helm::flags::{Switch, switch};
use crate::helm::{CommandError, CommandResult};
use crate::platform::output::escape_control;

#[derive(Clone, Debug, Args)]
pub struct LogsArgs {
    /// Name of the release
    pub name: String,
    /// Follow the logs until interrupted, including logs of new pods
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true, conflicts_with = "previous")]
    pub follow: Switch,
    /// Only logs of this pod
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only logs of containers of this name
    #[arg(short, long, value_name = "CONTAINER")]
    pub container: Option<String>,
    /// Only logs of pods that match this label selector
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Number of recent lines per container, at most 5000
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub tail: u32,
    /// Only lines newer than a duration such as 5s, 2m or 3h
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub since: Option<Duration>,
    /// Logs of the containers' previous instances, before their last restart
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub previous: Switch,
    /// Show the time of each line
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub timestamps: Switch,
    /// Prefix each line with its pod and container [default: when following or with several containers]
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    pub prefix: Option<Switch>,
    /// Maximum number of containers to follow concurrently, at most 50; others wait until one ends
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub max_log_requests: u16,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

/// Maximum number of lines per container.
const MAX_LINES: u32 = 5000;

impl LogsArgs {
    /// In whole seconds, at least one.
    pub fn since_seconds(&self) -> Option<u64> {
        self.since.map(|since| since.as_secs().max(1))
    }

    fn log_query(&self) -> LogOptions {
        LogOptions {
            pod: self.pod.clone(),
            container: self.container.clone(),
            selector: self.selector.clone(),
            tail: Some(self.tail.min(MAX_LINES).into()),
            since: self.since_seconds().and_then(|since| since.try_into().ok()),
            timestamps: self.timestamps.0,
            previous: self.previous.0,
            max_concurrent: self.max_log_requests.into(),
        }
    }
}

/// Prints log lines.
pub struct LogPrinter {
    prefix: bool,
}

impl LogPrinter {
    pub fn for_following(args: &LogsArgs) -> Self {
        Self { prefix: args.prefix.is_none_or(|prefix| prefix.0) }
    }

    /// Prints a line. Returns false if standard output is closed.
    pub fn print(&self, pod: &str, container: &str, line: &str) -> Result<bool, CommandError> {
        let line = format!("{}\n", format_line(self.prefix, pod, container, line));
        let mut out = io::stdout().lock();
        match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(format!("cannot write to standard output: {error}").into()),
        }
    }
}

/// Formats a log line. Control characters are escaped.
pub fn format_line(prefix: bool, pod: &str, container: &str, line: &str) -> String {
    let line = escape_control(&line.replace('\t', "    "));
    if prefix { format!("{} {line}", line_prefix(pod, container)) } else { line }
}

/// Prefix of a container's lines.
pub fn line_prefix(pod: &str, container: &str) -> String {
    format!("[{}/{}]", escape_control(pod), escape_control(container))
}

/// Message if there are more containers than may be followed.
fn too_many_containers_message(args: &LogsArgs) -> String {
    format!(
        "more than {} containers match; the others are followed when one of these ends, see --max-log-requests",
        args.max_log_requests
    )
}

pub async fn run(args: &LogsArgs, at: &ClusterTarget) -> CommandResult {
    let reached = connect(at).await?;
    let objects = load_objects(&reached, &args.name).await?;
    let (client, pods) = (reached.client.clone(), pod_selectors(&objects, &reached.namespace));
    let refused = |error: kube::Error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => format!("Kubernetes cluster unreachable: {other}"),
    };
    if args.follow.0 {
        let following = LogFollower::follow(client, pods, args.log_query()).await.map_err(refused)?;
        return follow(args, &reached, following).await;
    }
    let mut once = LogFollower::read_existing(client, pods, args.log_query()).await.map_err(refused)?;
    let (mut lines, mut containers) = (Vec::new(), 0);
    while let Some(heard) = once.next().await {
        match heard {
            LogEvent::Started(_) => containers += 1,
            LogEvent::Line(source, line) => lines.push((source, line.masked(str::to_owned))),
            LogEvent::Unreadable(source, why) => {
                eprintln!("{} {}", line_prefix(&source.pod, &source.container), escape_control(&why));
            }
            LogEvent::LimitReached => {}
        }
    }
    if containers == 0 {
        eprintln!("release {:?} has no matching containers", args.name);
    }
    let prefix = args.prefix.map_or(containers > 1, |prefix| prefix.0);
    let mut out = String::new();
    for (source, line) in lines {
        out.push_str(&format_line(prefix, &source.pod, &source.container, &line));
        out.push('\n');
    }
    Ok(out.into_bytes())
}

async fn follow(args: &LogsArgs, reached: &ClusterConnection, mut following: LogFollower) -> CommandResult {
    let printer = LogPrinter::for_following(args);
    while let Some(heard) = following.next().await {
        match heard {
            // An upgrade may have added workloads. If the release cannot be read any more it was deleted; its pods'
            // logs are still followed to their end.
            LogEvent::Started(_) => {
                if let Ok(objects) = load_objects(reached, &args.name).await {
                    following.add(pod_selectors(&objects, &reached.namespace));
                }
            }
            LogEvent::Line(source, line) => {
                let line = line.masked(str::to_owned);
                if !printer.print(&source.pod, &source.container, &line)? {
                    break;
                }
            }
            LogEvent::Unreadable(source, why) => {
                eprintln!("{} {}", line_prefix(&source.pod, &source.container), escape_control(&why));
            }
            LogEvent::LimitReached => eprintln!("{}", too_many_containers_message(args)),
        }
    }
    Ok(Vec::new())
}

/// Objects of the latest revision.
async fn load_objects(reached: &ClusterConnection, name: &str) -> Result<Vec<Object>, String> {
    let stored = get(&reached.storage(), name, None).await.map_err(|error| error.to_string())?;
    let unreadable = |error| format!("cannot parse the manifest of release {name:?}: {error}");
    Object::parse_all(&stored.record.manifest).map_err(unreadable)
}
