//! Prints a release as Helm does after an action and for `status`.

use std::fmt::Write as _;

use helm_engine::Event;
use helm_release::Record;
use helm_release::record::Phase;
use helm_template::data::Data;
use serde_json::Value;

use super::chart::PROFILE;
use super::flags::Format;
use super::output::{ansic, encoded, write_yaml};
use crate::helm::Outcome;

/// Parts of a release to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    pub chart: bool,
    /// Also values, hooks and manifests.
    pub everything: bool,
    pub hide_notes: bool,
    /// Tables of live objects.
    pub resources: Option<&'a str>,
}

pub fn release(record: &Record, format: Format, shown: Shown<'_>) -> Outcome {
    match encoded(format, &as_json(record)?) {
        Some(encoded) => encoded,
        None => Ok(table(record, shown)?.into_bytes()),
    }
}

/// The record in Helm's JSON format.
pub fn as_json(record: &Record) -> Result<Value, String> {
    let text = record.to_json().map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn table(record: &Record, shown: Shown<'_>) -> Result<String, String> {
    let info = &record.info;
    let mut out = format!("NAME: {}\n", record.name);
    if info.last_deployed.at().is_some() {
        let _ = writeln!(out, "LAST DEPLOYED: {}", ansic(info.last_deployed));
    }
    let _ = writeln!(
        out,
        "NAMESPACE: {}\nSTATUS: {}\nREVISION: {}",
        record.namespace, info.status, record.version
    );
    if shown.chart {
        let head = record.chart.head();
        let _ = writeln!(
            out,
            "CHART: {}\nVERSION: {}\nAPP_VERSION: {}",
            head.name, head.version, head.app_version
        );
    }
    let _ = writeln!(out, "DESCRIPTION: {}", info.description);
    if let Some(resources) = shown.resources.filter(|text| !text.is_empty()) {
        let _ = writeln!(out, "RESOURCES:\n{resources}");
    }
    tests(record, &mut out);
    if shown.everything {
        values(record, &mut out)?;
    }
    if shown.everything || info.description.eq_ignore_ascii_case("Dry run complete") {
        out.push_str("HOOKS:\n");
        for hook in &record.hooks {
            let _ = writeln!(out, "---\n# Source: {}\n{}", hook.path, hook.manifest);
        }
        let _ = writeln!(out, "MANIFEST:\n{}", record.manifest);
    }
    if !shown.hide_notes && !info.notes.is_empty() {
        let _ = writeln!(out, "NOTES:\n{}", info.notes.trim());
    }
    Ok(out)
}

fn tests(record: &Record, out: &mut String) {
    let tests: Vec<_> = record.hooks.iter().filter(|hook| hook.runs_at(Event::Test)).collect();
    if tests.is_empty() {
        out.push_str("TEST SUITE: None\n");
    }
    for hook in tests {
        let run = &hook.last_run;
        if run.started_at.at().is_none() {
            continue;
        }
        let phase = match run.phase {
            Phase::Never => "",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        };
        let _ = writeln!(
            out,
            "TEST SUITE:     {}\nLast Started:   {}\nLast Completed: {}\nPhase:          {phase}",
            hook.name,
            ansic(run.started_at),
            ansic(run.completed_at),
        );
    }
}

fn values(record: &Record, out: &mut String) -> Result<(), String> {
    let said = write_yaml(&Data::Map(record.config.clone()))?;
    let all = helm_release::queries::all_values(record, PROFILE).map_err(|error| error.to_string())?;
    let all = write_yaml(&Data::Map(all))?;
    let _ = writeln!(out, "USER-SUPPLIED VALUES:\n{said}\nCOMPUTED VALUES:\n{all}");
    Ok(())
}

/// Removes the content of Secrets from the manifest of a dry run.
pub fn hide_secrets(record: &mut Record) {
    const SOURCE: &str = "---\n# Source: ";
    let mut shown = String::new();
    for document in record.manifest.split(SOURCE).skip(1) {
        let is_secret =
            |object: &kube_apply::Object| object.kind() == "Secret" && object.api_version() == "v1";
        let (source, rest) = document.split_once('\n').unwrap_or((document, ""));
        let hidden = kube_apply::Object::parse_all(rest).is_ok_and(|objects| objects.iter().any(is_secret));
        if hidden {
            let _ = writeln!(shown, "{SOURCE}{source}\n# HIDDEN: The Secret output has been suppressed");
        } else {
            let _ = write!(shown, "{SOURCE}{document}");
        }
    }
    record.manifest = shown;
}
