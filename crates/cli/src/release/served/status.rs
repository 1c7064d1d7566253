//! `longshore status` on a platform: the release and its objects.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::{Release, Served, absent, items, number, text};
use crate::helm::Outcome;
use crate::platform::output::{Show, cell, lines, tame};
use crate::release::flags::Format;
use crate::release::output::encoded;
use crate::release::place::needs_cluster;
use crate::release::status::StatusArgs;

/// Poll interval of `--watch`.
const LOOK: Duration = Duration::from_secs(1);

pub async fn run(args: &StatusArgs, served: &Served) -> Outcome {
    needs_cluster(&[(args.revision != 0, "--revision")])?;
    let release = served.release(&args.name).await?;
    let format = args.output.output;
    let mut shown = whole(&release, format, false).await?;
    if !args.watch.0 {
        return Ok(shown.into_bytes());
    }
    // Prints again after every change, until interrupted.
    crate::print(&shown).map_err(|error| error.to_string())?;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = whole(&release, format, true).await?;
        if steady(&now) != steady(&shown) {
            crate::print(&format!("\n{now}")).map_err(|error| error.to_string())?;
            shown = now;
        }
    }
}

/// The output without relative times.
fn steady(shown: &str) -> String {
    shown.lines().filter(|line| !line.starts_with("LAST DEPLOYED:")).collect()
}

async fn whole(
    release: &Release<'_>,
    format: Format,
    hide_notes: bool,
) -> Result<String, crate::helm::Refusal> {
    let view = release.get("").await?;
    // Absent before the first deployment.
    let resources = absent(release.get("/resources").await)?;
    if let Some(encoded) = {
        let mut all = view.clone();
        if let Some(resources) = &resources {
            all["resources"] = resources["objects"].clone();
        }
        encoded(format, &all)
    } {
        return Ok(String::from_utf8_lossy(&encoded?).into_owned());
    }
    let notes = if hide_notes { None } else { absent(release.get("/notes").await)? };
    let mut out = head(&view, release);
    if let Some(resources) = &resources {
        out.push_str(&objects(resources));
    }
    out.push_str(&said(notes.as_ref()));
    Ok(out)
}

/// Prints the release after an action.
pub async fn after(release: &Release<'_>, format: Format, hide_notes: bool) -> Outcome {
    let view = release.get("").await?;
    if let Some(encoded) = encoded(format, &view) {
        return encoded;
    }
    let notes = if hide_notes { None } else { absent(release.get("/notes").await)? };
    Ok(format!("{}{}", head(&view, release), said(notes.as_ref())).into_bytes())
}

/// Header lines of the release.
fn head(view: &Value, release: &Release<'_>) -> String {
    let now = release.served.now();
    let part = |place: &str, show: Show| cell(view, place, show, now);
    let mut out = format!(
        "NAME: {}\nNAMESPACE: {}\nCHART: {} {}\n",
        part("/name", Show::Text),
        part("/namespace", Show::Text),
        part("/chart/name", Show::Text),
        part("/chart/version", Show::Text),
    );
    let mut line = |what: &str, is: &str| {
        if !matches!(is, "" | "-") {
            let _ = writeln!(out, "{what}: {is}");
        }
    };
    line("APP VERSION", &part("/chart/appVersion", Show::Text));
    line("STATE", &part("/state", Show::Text));
    line("MESSAGE", &part("/message", Show::Text));
    line("REVISION", &number(view, "/revision").to_string());
    let deployed = part("/deployed", Show::Age);
    line("LAST DEPLOYED", &if deployed == "-" { deployed } else { format!("{deployed} ago") });
    line("BY", &part("/by", Show::Text));
    if view["suspended"] == true {
        line("SUSPENDED", "nobody looks after it");
    }
    if view["stalled"] == true {
        line("STALLED", "nothing more is tried until it is changed");
    }
    out
}

fn objects(resources: &Value) -> String {
    let objects = items(resources, "objects");
    let mut out =
        format!("OBJECTS: {} of {} ready\n", number(resources, "/ready"), number(resources, "/total"));
    if objects.is_empty() {
        return out;
    }
    let mut rows = vec![["KIND", "NAME", "STATE", "WHY"].map(str::to_owned).to_vec()];
    rows.extend(objects.iter().map(|object| {
        let part = |place: &str| tame(text(object, place));
        let why = match (part("/reason"), part("/event")) {
            (reason, event) if event.is_empty() => reason,
            (reason, event) if reason.is_empty() => event,
            (reason, event) => format!("{reason} ({event})"),
        };
        vec![part("/kind"), part("/name"), part("/state"), why]
    }));
    for line in lines(&rows).lines() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn said(notes: Option<&Value>) -> String {
    let notes = notes.map(|notes| text(notes, "/notes").trim().to_owned()).unwrap_or_default();
    // Escaped line by line: notes may have several lines, but their control characters are not printed.
    let lines: Vec<String> = notes.lines().map(tame).collect();
    if notes.is_empty() { String::new() } else { format!("NOTES:\n{}\n", lines.join("\n")) }
}
