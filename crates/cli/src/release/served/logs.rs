//! `longshore logs` on a platform: what containers print, a name before each line where there are several.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Served, items, query, text};
use crate::helm::Outcome;
use crate::platform::output::tame;
use crate::release::logs::LogsArgs;

pub async fn run(args: &LogsArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let yes = |said: bool| said.then(|| "true".to_owned());
    let asked = query(&[
        ("pod", args.pod.clone()),
        ("container", args.container.clone()),
        ("tail", Some(args.tail.to_string())),
        ("since", args.since.map(|since| since.as_secs().max(1).to_string())),
        ("previous", yes(args.previous.0)),
        ("timestamps", yes(args.timestamps.0)),
    ]);
    let logs = release.get(&format!("/logs{asked}")).await?;
    let logs = items(&logs, "items");
    for log in logs.iter().filter(|log| !text(log, "/why").is_empty()) {
        eprintln!("{}: {}", named(log), tame(text(log, "/why")));
    }
    if logs.is_empty() {
        eprintln!("release {:?} has no such containers", args.name);
    }
    Ok(printed(logs).into_bytes())
}

fn named(log: &Value) -> String {
    format!("{}/{}", tame(text(log, "/pod")), tame(text(log, "/container")))
}

fn printed(logs: &[Value]) -> String {
    let mut out = String::new();
    for log in logs {
        for line in text(log, "/text").lines() {
            // Whoever asks for logs wants what was printed, but not what it would do to their terminal.
            let line = tame(&line.replace('\t', "    "));
            let _ = match logs {
                [_] => writeln!(out, "{line}"),
                _ => writeln!(out, "{}: {line}", named(log)),
            };
        }
    }
    out
}
