//! `longshore history` and `longshore get` on a platform. Sensitive values are masked.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{ReleaseRef, RemoteReleases, i64_at, items, query, str_at};
use crate::helm::{CommandResult, table};
use crate::platform::output::{CellFormat, escape_control, format_cell};
use crate::release::flags::Format;
use crate::release::get::{GetArgs, GetCommand, RevisionArgs};
use crate::release::history::HistoryArgs;
use crate::release::output::{encode, format_ansic, to_yaml};

pub async fn history(args: &HistoryArgs, platform: &RemoteReleases) -> CommandResult {
    let release = platform.release(&args.name).await?;
    let history = release.get("/history").await?;
    // The platform lists the newest revision first, Helm last.
    let mut revisions: Vec<Value> = items(&history, "items").iter().take(args.max).cloned().collect();
    revisions.reverse();
    if let Some(encoded) = encode(args.output.output, &revisions.clone().into()) {
        return encoded;
    }
    let cells = revisions.iter().map(|revision| {
        let part = |place: &str| format_cell(revision, place, CellFormat::Text, platform.now());
        [
            i64_at(revision, "/revision").to_string(),
            updated_at(revision),
            part("/status"),
            format!("{}-{}", part("/chart/name"), part("/chart/version")),
            escape_control(str_at(revision, "/chart/appVersion")),
            part("/description"),
        ]
    });
    let headers = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(headers).chain(cells).collect();
    Ok(table::render_table(&rows, 80).into_bytes())
}

fn updated_at(revision: &Value) -> String {
    serde_json::from_value(revision["updated"].clone()).map(format_ansic).unwrap_or_default()
}

pub async fn get(args: &GetArgs, served: &RemoteReleases) -> CommandResult {
    let revision = args.what.revision();
    let release = served.release(&revision.name).await?;
    match &args.what {
        GetCommand::All(_) => render_all(&release, revision).await,
        GetCommand::Hooks(_) => Ok(documents(&release, revision, "hooks").await?.into_bytes()),
        GetCommand::Manifest(_) => Ok(documents(&release, revision, "objects").await?.into_bytes()),
        GetCommand::Metadata { output, .. } => metadata(&release, revision, output.output).await,
        GetCommand::Notes(_) => {
            let notes = notes(&release, revision).await?;
            Ok(if notes.is_empty() { Vec::new() } else { format!("NOTES:\n{notes}\n").into_bytes() })
        }
        GetCommand::Values { all, output, .. } => values(&release, revision, all.0, output.output).await,
    }
}

fn revision_query(revision: &RevisionArgs, more: &[(&str, Option<String>)]) -> String {
    let number = (revision.revision != 0).then(|| revision.revision.to_string());
    query(&[&[("revision", number)], more].concat())
}

type ReadResult<T> = Result<T, crate::helm::CommandError>;

async fn documents(release: &ReleaseRef<'_>, revision: &RevisionArgs, which: &str) -> ReadResult<String> {
    let manifest = release.get(&format!("/manifest{}", revision_query(revision, &[]))).await?;
    let mut out = String::new();
    for object in items(&manifest, which) {
        let _ = write!(out, "---\n{}", to_yaml(object)?);
    }
    Ok(out)
}

async fn notes(release: &ReleaseRef<'_>, revision: &RevisionArgs) -> ReadResult<String> {
    let notes = release.get(&format!("/notes{}", revision_query(revision, &[]))).await?;
    let lines: Vec<String> = str_at(&notes, "/notes").trim().lines().map(escape_control).collect();
    Ok(lines.join("\n"))
}

async fn user_values(release: &ReleaseRef<'_>, revision: &RevisionArgs, all: bool) -> ReadResult<Value> {
    let all = all.then(|| "true".to_owned());
    let values = release.get(&format!("/values{}", revision_query(revision, &[("all", all)]))).await?;
    Ok(values["values"].clone())
}

async fn values(
    release: &ReleaseRef<'_>,
    revision: &RevisionArgs,
    all: bool,
    format: Format,
) -> CommandResult {
    let values = user_values(release, revision, all).await?;
    // Helm prints `null` without user-supplied values.
    let is_empty = values.as_object().is_none_or(serde_json::Map::is_empty);
    let values = if !all && is_empty { Value::Null } else { values };
    encode(format, &values).unwrap_or_else(|| {
        let title = if all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" };
        Ok(format!("{title}\n{}", to_yaml(&values)?).into_bytes())
    })
}

/// The requested revision from the history.
async fn find_revision(release: &ReleaseRef<'_>, revision: &RevisionArgs) -> ReadResult<Value> {
    let history = release.get("/history").await?;
    let wanted = revision.revision;
    let found = items(&history, "items").iter().find(|one| wanted == 0 || i64_at(one, "/revision") == wanted);
    let missing = || format!("release {:?} has no revision {wanted}", release.name).into();
    found.cloned().ok_or_else(missing)
}

async fn metadata(release: &ReleaseRef<'_>, revision: &RevisionArgs, format: Format) -> CommandResult {
    let one = find_revision(release, revision).await?;
    let shown = json!({
        "name": release.name,
        "chart": one["chart"]["name"],
        "version": one["chart"]["version"],
        "appVersion": one["chart"]["appVersion"],
        "namespace": release.namespace,
        "revision": one["revision"],
        "status": one["status"],
        "deployedAt": one["updated"],
    });
    encode(format, &shown).unwrap_or_else(|| Ok(render_metadata(&shown).into_bytes()))
}

fn render_metadata(metadata: &Value) -> String {
    let rows = [
        ("NAME", "/name"),
        ("CHART", "/chart"),
        ("VERSION", "/version"),
        ("APP_VERSION", "/appVersion"),
        ("NAMESPACE", "/namespace"),
        ("REVISION", "/revision"),
        ("STATUS", "/status"),
        ("DEPLOYED_AT", "/deployedAt"),
    ];
    let line = |(title, place): (&str, &str)| {
        format!("{title}: {}\n", format_cell(metadata, place, CellFormat::Text, jiff::Timestamp::UNIX_EPOCH))
    };
    rows.into_iter().map(line).collect()
}

async fn render_all(release: &ReleaseRef<'_>, revision: &RevisionArgs) -> CommandResult {
    let one = find_revision(release, revision).await?;
    let part = |place: &str| format_cell(&one, place, CellFormat::Text, release.platform.now());
    let mut out = format!(
        "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\nCHART: {}\nVERSION: {}\nAPP_VERSION: {}\nDESCRIPTION: {}\n",
        release.name,
        updated_at(&one),
        release.namespace,
        part("/status"),
        part("/revision"),
        part("/chart/name"),
        part("/chart/version"),
        escape_control(str_at(&one, "/chart/appVersion")),
        part("/description"),
    );
    let said = to_yaml(&user_values(release, revision, false).await?)?;
    let computed = to_yaml(&user_values(release, revision, true).await?)?;
    let _ = write!(
        out,
        "USER-SUPPLIED VALUES:\n{said}\nCOMPUTED VALUES:\n{computed}\nHOOKS:\n{}MANIFEST:\n{}",
        documents(release, revision, "hooks").await?,
        documents(release, revision, "objects").await?,
    );
    let notes = notes(release, revision).await?;
    if !notes.is_empty() {
        let _ = writeln!(out, "NOTES:\n{notes}");
    }
    Ok(out.into_bytes())
}
