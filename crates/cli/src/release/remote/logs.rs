//! `longshore logs` on a platform.

use serde_json::Value;

use super::{RemoteReleases, items, query, str_at};
use crate::helm::{CommandError, CommandResult};
use crate::platform::events::EventStream;
use crate::platform::output::escape_control;
use crate::release::logs::{LogPrinter, LogsArgs, format_line, line_prefix};

pub async fn run(args: &LogsArgs, platform: &RemoteReleases) -> CommandResult {
    let release = platform.release(&args.name).await?;
    let yes = |said: bool| said.then(|| "true".to_owned());
    let asked = query(&[
        ("pod", args.pod.clone()),
        ("container", args.container.clone()),
        ("selector", args.selector.clone()),
        ("tail", Some(args.tail.to_string())),
        ("since", args.since_seconds().map(|since| since.to_string())),
        ("previous", yes(args.previous.0)),
        ("timestamps", yes(args.timestamps.0)),
        ("follow", yes(args.follow.0)),
        ("max", args.follow.0.then(|| args.max_log_requests.to_string())),
    ]);
    if args.follow.0 {
        let events = platform.client.open_event_stream(&release.path(&format!("/logs{asked}"))).await?;
        return follow(args, events).await;
    }
    let logs = release.get(&format!("/logs{asked}")).await?;
    let logs = items(&logs, "items");
    for log in logs.iter().filter(|log| !str_at(log, "/why").is_empty()) {
        print_reason(log);
    }
    if logs.is_empty() {
        eprintln!("release {:?} has no matching containers", args.name);
    }
    let prefix = args.prefix.map_or(logs.len() > 1, |prefix| prefix.0);
    let mut out = String::new();
    for log in logs {
        for line in str_at(log, "/text").lines() {
            out.push_str(&format_line(prefix, str_at(log, "/pod"), str_at(log, "/container"), line));
            out.push('\n');
        }
    }
    Ok(out.into_bytes())
}

fn print_reason(log: &Value) {
    let (pod, container) = (str_at(log, "/pod"), str_at(log, "/container"));
    let of = if pod.is_empty() { String::new() } else { format!("{} ", line_prefix(pod, container)) };
    eprintln!("{of}{}", escape_control(str_at(log, "/why")));
}

/// Prints lines until the release is deleted, standard output is closed, or access is revoked.
async fn follow(args: &LogsArgs, mut events: EventStream) -> CommandResult {
    let printer = LogPrinter::for_following(args);
    while let Some(told) = events.next().await? {
        if let Some(line) = told["line"].as_str() {
            if !printer.print(str_at(&told, "/pod"), str_at(&told, "/container"), line)? {
                return Ok(Vec::new());
            }
        } else if !str_at(&told, "/why").is_empty() {
            print_reason(&told);
        } else if !str_at(&told, "/reason").is_empty() {
            return Err(CommandError::from(
                "the platform ended the stream: your permissions have expired or changed",
            ));
        }
    }
    eprintln!("end of the logs of release {:?}", args.name);
    Ok(Vec::new())
}
