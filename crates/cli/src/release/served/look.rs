//! `longshore history` and `longshore get` on a platform. Sensitive values are masked.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Release, Served, items, number, query, text};
use crate::helm::{Outcome, table};
use crate::platform::output::{Show, cell, tame};
use crate::release::flags::Format;
use crate::release::get::{GetArgs, Revision, What};
use crate::release::history::HistoryArgs;
use crate::release::output::{ansic, as_yaml, encoded};

pub async fn history(args: &HistoryArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let history = release.get("/history").await?;
    // The platform lists the newest revision first, Helm last.
    let mut revisions: Vec<Value> = items(&history, "items").iter().take(args.max).cloned().collect();
    revisions.reverse();
    if let Some(encoded) = encoded(args.output.output, &revisions.clone().into()) {
        return encoded;
    }
    let cells = revisions.iter().map(|revision| {
        let part = |place: &str| cell(revision, place, Show::Text, served.now());
        [
            number(revision, "/revision").to_string(),
            moment(revision),
            part("/status"),
            format!("{}-{}", part("/chart/name"), part("/chart/version")),
            tame(text(revision, "/chart/appVersion")),
            part("/description"),
        ]
    });
    let headers = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(headers).chain(cells).collect();
    Ok(table::text(&rows, 80).into_bytes())
}

fn moment(revision: &Value) -> String {
    serde_json::from_value(revision["updated"].clone()).map(ansic).unwrap_or_default()
}

pub async fn get(args: &GetArgs, served: &Served) -> Outcome {
    let revision = args.what.revision();
    let release = served.release(&revision.name).await?;
    match &args.what {
        What::All(_) => all(&release, revision).await,
        What::Hooks(_) => Ok(documents(&release, revision, "hooks").await?.into_bytes()),
        What::Manifest(_) => Ok(documents(&release, revision, "objects").await?.into_bytes()),
        What::Metadata { output, .. } => metadata(&release, revision, output.output).await,
        What::Notes(_) => {
            let notes = notes(&release, revision).await?;
            Ok(if notes.is_empty() { Vec::new() } else { format!("NOTES:\n{notes}\n").into_bytes() })
        }
        What::Values { all, output, .. } => values(&release, revision, all.0, output.output).await,
    }
}

fn asked(revision: &Revision, more: &[(&str, Option<String>)]) -> String {
    let number = (revision.revision != 0).then(|| revision.revision.to_string());
    query(&[&[("revision", number)], more].concat())
}

type Read<T> = Result<T, crate::helm::Refusal>;

async fn documents(release: &Release<'_>, revision: &Revision, which: &str) -> Read<String> {
    let manifest = release.get(&format!("/manifest{}", asked(revision, &[]))).await?;
    let mut out = String::new();
    for object in items(&manifest, which) {
        let _ = write!(out, "---\n{}", as_yaml(object)?);
    }
    Ok(out)
}

async fn notes(release: &Release<'_>, revision: &Revision) -> Read<String> {
    let notes = release.get(&format!("/notes{}", asked(revision, &[]))).await?;
    let lines: Vec<String> = text(&notes, "/notes").trim().lines().map(tame).collect();
    Ok(lines.join("\n"))
}

async fn user_values(release: &Release<'_>, revision: &Revision, all: bool) -> Read<Value> {
    let all = all.then(|| "true".to_owned());
    let values = release.get(&format!("/values{}", asked(revision, &[("all", all)]))).await?;
    Ok(values["values"].clone())
}

async fn values(release: &Release<'_>, revision: &Revision, all: bool, format: Format) -> Outcome {
    let values = user_values(release, revision, all).await?;
    // Helm prints `null` without user-supplied values.
    let is_empty = values.as_object().is_none_or(serde_json::Map::is_empty);
    let values = if !all && is_empty { Value::Null } else { values };
    encoded(format, &values).unwrap_or_else(|| {
        let title = if all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" };
        Ok(format!("{title}\n{}", as_yaml(&values)?).into_bytes())
    })
}

/// The requested revision from the history.
async fn one(release: &Release<'_>, revision: &Revision) -> Read<Value> {
    let history = release.get("/history").await?;
    let wanted = revision.revision;
    let found = items(&history, "items").iter().find(|one| wanted == 0 || number(one, "/revision") == wanted);
    let missing = || format!("release {:?} has no revision {wanted}", release.name).into();
    found.cloned().ok_or_else(missing)
}

async fn metadata(release: &Release<'_>, revision: &Revision, format: Format) -> Outcome {
    let one = one(release, revision).await?;
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
    encoded(format, &shown).unwrap_or_else(|| Ok(described(&shown).into_bytes()))
}

fn described(metadata: &Value) -> String {
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
        format!("{title}: {}\n", cell(metadata, place, Show::Text, jiff::Timestamp::UNIX_EPOCH))
    };
    rows.into_iter().map(line).collect()
}

async fn all(release: &Release<'_>, revision: &Revision) -> Outcome {
    let one = one(release, revision).await?;
    let part = |place: &str| cell(&one, place, Show::Text, release.served.now());
    let mut out = format!(
        "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\nCHART: {}\nVERSION: {}\nAPP_VERSION: {}\nDESCRIPTION: {}\n",
        release.name,
        moment(&one),
        release.namespace,
        part("/status"),
        part("/revision"),
        part("/chart/name"),
        part("/chart/version"),
        tame(text(&one, "/chart/appVersion")),
        part("/description"),
    );
    let said = as_yaml(&user_values(release, revision, false).await?)?;
    let computed = as_yaml(&user_values(release, revision, true).await?)?;
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
