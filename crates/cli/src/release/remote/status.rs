//! `longshore status` on a platform: the release and its objects.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::{ReleaseRef, RemoteReleases, i64_at, ignore_not_found, items, str_at};
use crate::helm::CommandResult;
use crate::platform::output::{CellFormat, align_columns, escape_control, format_cell};
use crate::release::flags::Format;
use crate::release::output::encode;
use crate::release::status::StatusArgs;
use crate::release::target::reject_cluster_only_flags;

/// Poll interval of `--watch`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(args: &StatusArgs, platform: &RemoteReleases) -> CommandResult {
    reject_cluster_only_flags(&[(args.revision != 0, "--revision")])?;
    let release = platform.release(&args.name).await?;
    let format = args.output.output;
    let mut shown = render_status(&release, format, false).await?;
    if !args.watch.0 {
        return Ok(shown.into_bytes());
    }
    // Prints again after every change, until interrupted.
    crate::print(&shown).map_err(|error| error.to_string())?;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = render_status(&release, format, true).await?;
        if without_times(&now) != without_times(&shown) {
            crate::print(&format!("\n{now}")).map_err(|error| error.to_string())?;
            shown = now;
        }
    }
}

/// The output without relative times.
fn without_times(shown: &str) -> String {
    shown.lines().filter(|line| !line.starts_with("LAST DEPLOYED:")).collect()
}

async fn render_status(
    release: &ReleaseRef<'_>,
    format: Format,
    hide_notes: bool,
) -> Result<String, crate::helm::CommandError> {
    let view = release.get("").await?;
    // Absent before the first deployment.
    let resources = ignore_not_found(release.get("/resources").await)?;
    if let Some(encoded) = {
        let mut all = view.clone();
        if let Some(resources) = &resources {
            all["resources"] = resources["objects"].clone();
        }
        encode(format, &all)
    } {
        return Ok(String::from_utf8_lossy(&encoded?).into_owned());
    }
    let notes = if hide_notes { None } else { ignore_not_found(release.get("/notes").await)? };
    let mut out = render_header(&view, release);
    if let Some(resources) = &resources {
        out.push_str(&render_objects(resources));
    }
    out.push_str(&render_notes(notes.as_ref()));
    Ok(out)
}

/// Prints the release after an action.
pub async fn print_release(release: &ReleaseRef<'_>, format: Format, hide_notes: bool) -> CommandResult {
    let view = release.get("").await?;
    if let Some(encoded) = encode(format, &view) {
        return encoded;
    }
    let notes = if hide_notes { None } else { ignore_not_found(release.get("/notes").await)? };
    Ok(format!("{}{}", render_header(&view, release), render_notes(notes.as_ref())).into_bytes())
}

/// Header lines of the release.
fn render_header(view: &Value, release: &ReleaseRef<'_>) -> String {
    let now = release.platform.now();
    let part = |place: &str, show: CellFormat| format_cell(view, place, show, now);
    let mut out = format!(
        "NAME: {}\nNAMESPACE: {}\nCHART: {} {}\n",
        part("/name", CellFormat::Text),
        part("/namespace", CellFormat::Text),
        part("/chart/name", CellFormat::Text),
        part("/chart/version", CellFormat::Text),
    );
    let mut line = |what: &str, is: &str| {
        if !matches!(is, "" | "-") {
            let _ = writeln!(out, "{what}: {is}");
        }
    };
    line("APP VERSION", &part("/chart/appVersion", CellFormat::Text));
    line("STATE", &part("/state", CellFormat::Text));
    line("MESSAGE", &part("/message", CellFormat::Text));
    line("REVISION", &i64_at(view, "/revision").to_string());
    let deployed = part("/deployed", CellFormat::Age);
    line("LAST DEPLOYED", &if deployed == "-" { deployed } else { format!("{deployed} ago") });
    line("BY", &part("/by", CellFormat::Text));
    if view["suspended"] == true {
        line("SUSPENDED", "reconciliation is suspended");
    }
    if view["stalled"] == true {
        line("STALLED", "no retries until the release is changed");
    }
    out
}

fn render_objects(resources: &Value) -> String {
    let objects = items(resources, "objects");
    let mut out =
        format!("OBJECTS: {} of {} ready\n", i64_at(resources, "/ready"), i64_at(resources, "/total"));
    if objects.is_empty() {
        return out;
    }
    let mut rows = vec![["KIND", "NAME", "STATE", "REASON"].map(str::to_owned).to_vec()];
    rows.extend(objects.iter().map(|object| {
        let part = |place: &str| escape_control(str_at(object, place));
        let why = match (part("/reason"), part("/event")) {
            (reason, event) if event.is_empty() => reason,
            (reason, event) if reason.is_empty() => event,
            (reason, event) => format!("{reason} ({event})"),
        };
        vec![part("/kind"), part("/name"), part("/state"), why]
    }));
    for line in align_columns(&rows).lines() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn render_notes(notes: Option<&Value>) -> String {
    let notes = notes.map(|notes| str_at(notes, "/notes").trim().to_owned()).unwrap_or_default();
    // Escaped line by line: notes may have several lines, but their control characters are not printed.
    let lines: Vec<String> = notes.lines().map(escape_control).collect();
    if notes.is_empty() { String::new() } else { format!("NOTES:\n{}\n", lines.join("\n")) }
}
