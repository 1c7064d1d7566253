//! `longshore list` on a platform: the releases visible to the user.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use super::{RemoteReleases, i64_at, items, query, str_at};
use crate::helm::{CommandError, CommandResult};
use crate::platform::output::{CellFormat, align_columns, format_cell};
use crate::release::list::{ListArgs, StateArgs};
use crate::release::output::encode;
use crate::release::target::reject_cluster_only_flags;

/// Page size.
const PAGE_SIZE: usize = 500;
/// Poll interval of `--watch`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of a message in a table.
const MAX_MESSAGE_LEN: usize = 60;

pub async fn run(args: &ListArgs, platform: &RemoteReleases) -> CommandResult {
    reject_cluster_only_flags(&[
        (args.states.superseded.0, "--superseded"),
        (args.states.uninstalled.0, "--uninstalled"),
        (!args.time_format.is_empty(), "--time-format"),
    ])?;
    let name = match args.filter.as_str() {
        "" => None,
        text => Some(Regex::new(text).map_err(|error| format!("error parsing regexp: {error}"))?),
    };
    let releases = list_releases(args, name.as_ref(), platform).await?;
    if args.watch.0 {
        return watch(args, name.as_ref(), platform, &releases).await;
    }
    if args.short.0 {
        let names: Vec<&str> = releases.iter().map(release_name).collect();
        let lines = || names.iter().flat_map(|name| [*name, "\n"]).collect::<String>().into_bytes();
        return encode(args.output.output, &json!(names)).unwrap_or_else(|| Ok(lines()));
    }
    if let Some(encoded) = encode(args.output.output, &releases.clone().into()) {
        return encoded;
    }
    if releases.is_empty() {
        eprintln!("no releases found");
        return Ok(Vec::new());
    }
    Ok(table(&releases, !args.no_headers.0, platform).into_bytes())
}

/// All matching releases, sorted.
async fn list_releases(
    args: &ListArgs,
    name: Option<&Regex>,
    served: &RemoteReleases,
) -> Result<Vec<Value>, CommandError> {
    let namespace = if args.all_namespaces.0 { None } else { Some(served.namespace().await?) };
    let selector = Some(args.selector.clone()).filter(|selector| !selector.is_empty());
    let sort = match (args.date.0, args.reverse.0) {
        (false, false) => "name",
        (false, true) => "-name",
        // Helm's `--date` sorts the newest last.
        (true, false) => "updated",
        (true, true) => "-updated",
    };
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let asked = query(&[
            ("ns", namespace.clone()),
            ("label", selector.clone()),
            ("sort", Some(sort.to_owned())),
            ("limit", Some(PAGE_SIZE.to_string())),
            ("cursor", cursor),
        ]);
        let page = served.client.get(&format!("releases{asked}")).await?;
        if let Some(seconds) = page["stale"].as_u64() {
            eprintln!("this list is {seconds} s old: the platform cannot reach the cluster");
        }
        let meant = items(&page, "items").iter().filter(|release| {
            name.is_none_or(|name| name.is_match(release_name(release)))
                && matches_state(&args.states, str_at(release, "/state"))
        });
        found.extend(meant.cloned());
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let most = if args.max == 0 { usize::MAX } else { args.max };
    Ok(found.into_iter().skip(args.offset).take(most).collect())
}

/// Whether a state matches the given filters. Without filters all do.
fn matches_state(states: &StateArgs, state: &str) -> bool {
    let rows: [(bool, &[&str]); 4] = [
        (
            states.deployed.0,
            &["active", "created", "upgraded", "degraded", "paused", "suspended", "deployed"],
        ),
        (states.failed.0, &["failed"]),
        (
            states.pending.0,
            &[
                "pending",
                "dispatching",
                "creating",
                "upgrading",
                "rollbacking",
                "pending-install",
                "pending-upgrade",
                "pending-rollback",
            ],
        ),
        (states.uninstalling.0, &["deleting", "uninstalling"]),
    ];
    states.all.0 || rows.iter().all(|row| !row.0) || rows.iter().any(|row| row.0 && row.1.contains(&state))
}

/// Last segment of the release's key.
fn release_name(release: &Value) -> &str {
    str_at(release, "/key").rsplit('/').next().unwrap_or_default()
}

fn table(releases: &[Value], headers: bool, served: &RemoteReleases) -> String {
    const HEADERS: [&str; 9] =
        ["NAME", "NAMESPACE", "REVISION", "STATE", "READY", "CHART", "APP VERSION", "UPDATED", "MESSAGE"];
    let with_messages = releases.iter().any(|release| !str_at(release, "/message").is_empty());
    let mut rows: Vec<Vec<String>> = Vec::new();
    if headers {
        rows.push(HEADERS.map(str::to_owned).to_vec());
    }
    rows.extend(releases.iter().map(|release| row(release, served)));
    if !with_messages {
        for row in &mut rows {
            row.truncate(HEADERS.len() - 1);
        }
    }
    align_columns(&rows)
}

fn row(release: &Value, served: &RemoteReleases) -> Vec<String> {
    let part = |place: &str, show: CellFormat| format_cell(release, place, show, served.now());
    let mut key = str_at(release, "/key").split('/').skip(1);
    let namespace = key.next().unwrap_or_default().to_owned();
    let ready = match i64_at(release, "/objects") {
        0 => "-".to_owned(),
        objects => format!("{}/{objects}", i64_at(release, "/ready")),
    };
    let message = part("/message", CellFormat::Text);
    let message = match message.chars().count() {
        ..=MAX_MESSAGE_LEN if message == "-" => String::new(),
        ..=MAX_MESSAGE_LEN => message,
        _ => message.chars().take(MAX_MESSAGE_LEN - 1).chain(['…']).collect(),
    };
    vec![
        release_name(release).to_owned(),
        namespace,
        i64_at(release, "/revision").to_string(),
        part("/state", CellFormat::Text),
        ready,
        format!("{}-{}", part("/chart/name", CellFormat::Text), part("/chart/version", CellFormat::Text)),
        part("/chart/appVersion", CellFormat::Text),
        part("/updated", CellFormat::Age),
        message,
    ]
}

/// Prints the list and then a line for every changed release, as kubectl does.
async fn watch(
    args: &ListArgs,
    name: Option<&Regex>,
    served: &RemoteReleases,
    first: &[Value],
) -> CommandResult {
    let print = |text: &str| crate::print(text).map_err(|error| CommandError::from(error.to_string()));
    let known = |releases: &[Value]| -> BTreeMap<String, Value> {
        releases.iter().map(|release| (str_at(release, "/key").to_owned(), watched_fields(release))).collect()
    };
    print(&table(first, !args.no_headers.0, served))?;
    let mut before = known(first);
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let releases = list_releases(args, name, served).await?;
        let now = known(&releases);
        let other = |release: &&Value| before.get(str_at(release, "/key")) != Some(&watched_fields(release));
        let changed: Vec<Value> = releases.iter().filter(other).cloned().collect();
        if !changed.is_empty() {
            print(&table(&changed, false, served))?;
        }
        for gone in before.keys().filter(|key| !now.contains_key(*key)) {
            print(&format!("{} deleted\n", gone.trim_start_matches("host/")))?;
        }
        before = now;
    }
}

/// Fields whose change prints a new line.
fn watched_fields(release: &Value) -> Value {
    json!([release["state"], release["revision"], release["ready"], release["objects"], release["message"]])
}
