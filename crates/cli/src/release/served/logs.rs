//! `longshore logs` on a platform.

use serde_json::Value;

use super::{Served, items, query, text};
use crate::helm::{Outcome, Refusal};
use crate::platform::events::Events;
use crate::platform::output::tame;
use crate::release::logs::{LogsArgs, Printer, dressed, named};

pub async fn run(args: &LogsArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
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
        let events = served.client.events(&release.path(&format!("/logs{asked}"))).await?;
        return follow(args, events).await;
    }
    let logs = release.get(&format!("/logs{asked}")).await?;
    let logs = items(&logs, "items");
    for log in logs.iter().filter(|log| !text(log, "/why").is_empty()) {
        why(log);
    }
    if logs.is_empty() {
        eprintln!("release {:?} has no such containers", args.name);
    }
    let prefix = args.prefix.map_or(logs.len() > 1, |prefix| prefix.0);
    let mut out = String::new();
    for log in logs {
        for line in text(log, "/text").lines() {
            out.push_str(&dressed(prefix, text(log, "/pod"), text(log, "/container"), line));
            out.push('\n');
        }
    }
    Ok(out.into_bytes())
}

fn why(log: &Value) {
    let (pod, container) = (text(log, "/pod"), text(log, "/container"));
    let of = if pod.is_empty() { String::new() } else { format!("{} ", named(pod, container)) };
    eprintln!("{of}{}", tame(text(log, "/why")));
}

/// Prints lines until the release is deleted, standard output is closed, or access is revoked.
async fn follow(args: &LogsArgs, mut events: Events) -> Outcome {
    let printer = Printer::following(args);
    while let Some(told) = events.next().await? {
        if let Some(line) = told["line"].as_str() {
            if !printer.print(text(&told, "/pod"), text(&told, "/container"), line)? {
                return Ok(Vec::new());
            }
        } else if !text(&told, "/why").is_empty() {
            why(&told);
        } else if !text(&told, "/reason").is_empty() {
            return Err(Refusal::from("the platform ended it: your access has ended or changed"));
        }
    }
    eprintln!("the platform has no more of release {:?}", args.name);
    Ok(Vec::new())
}
