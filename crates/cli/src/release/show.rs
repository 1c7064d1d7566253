//! Prints a release as Helm does after an action and for `status`.

use std::fmt::Write as _;

use helm_engine::HookEvent;
use helm_release::Record;
use helm_release::record::HookPhase;
use helm_template::data::Data;
use serde_json::Value;

use super::chart::PROFILE;
use super::flags::Format;
use super::output::{data_to_yaml, encode, format_ansic};
use crate::helm::CommandResult;

/// Parts of a release to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShowOptions<'a> {
    pub chart: bool,
    /// Also values, hooks and manifests.
    pub everything: bool,
    pub hide_notes: bool,
    /// Tables of live objects.
    pub resources: Option<&'a str>,
}

pub fn release(record: &Record, format: Format, shown: ShowOptions<'_>) -> CommandResult {
    match encode(format, &to_json(record)?) {
        Some(encoded) => encoded,
        None => Ok(render_table(record, shown)?.into_bytes()),
    }
}

/// The record in Helm's JSON format.
pub fn to_json(record: &Record) -> Result<Value, String> {
    let text = record.to_json().map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

fn render_table(record: &Record, shown: ShowOptions<'_>) -> Result<String, String> {
    let info = &record.info;
    let mut out = format!("NAME: {}\n", record.name);
    if info.last_deployed.timestamp().is_some() {
        let _ = writeln!(out, "LAST DEPLOYED: {}", format_ansic(info.last_deployed));
    }
    let _ = writeln!(
        out,
        "NAMESPACE: {}\nSTATUS: {}\nREVISION: {}",
        record.namespace, info.status, record.version
    );
    if shown.chart {
        let head = record.chart.metadata();
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
    render_tests(record, &mut out);
    if shown.everything {
        render_values(record, &mut out)?;
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

fn render_tests(record: &Record, out: &mut String) {
    let tests: Vec<_> = record.hooks.iter().filter(|hook| hook.runs_at(HookEvent::Test)).collect();
    if tests.is_empty() {
        out.push_str("TEST SUITE: None\n");
    }
    for hook in tests {
        let run = &hook.last_run;
        if run.started_at.timestamp().is_none() {
            continue;
        }
        let phase = match run.phase {
            HookPhase::Never => "",
            HookPhase::Running => "Running",
            HookPhase::Succeeded => "Succeeded",
            HookPhase::Failed => "Failed",
            HookPhase::Unknown => "Unknown",
        };
        let _ = writeln!(
            out,
            "TEST SUITE:     {}\nLast Started:   {}\nLast Completed: {}\nPhase:          {phase}",
            hook.name,
            format_ansic(run.started_at),
            format_ansic(run.completed_at),
        );
    }
}

fn render_values(record: &Record, out: &mut String) -> Result<(), String> {
    let said = data_to_yaml(&Data::Map(record.config.clone()))?;
    let all = helm_release::queries::all_values(record, PROFILE).map_err(|error| error.to_string())?;
    let all = data_to_yaml(&Data::Map(all))?;
    let _ = writeln!(out, "USER-SUPPLIED VALUES:\n{said}\nCOMPUTED VALUES:\n{all}");
    Ok(())
}

/// Removes the content of Secrets from the manifest of a dry run.
pub fn hide_secrets(record: &mut Record) {
    const SOURCE_COMMENT: &str = "---\n# Source: ";
    let mut shown = String::new();
    for document in record.manifest.split(SOURCE_COMMENT).skip(1) {
        let is_secret =
            |object: &kube_apply::Object| object.kind() == "Secret" && object.api_version() == "v1";
        let (source, rest) = document.split_once('\n').unwrap_or((document, ""));
        let hidden = kube_apply::Object::parse_all(rest).is_ok_and(|objects| objects.iter().any(is_secret));
        if hidden {
            let _ =
                writeln!(shown, "{SOURCE_COMMENT}{source}\n# HIDDEN: The Secret output has been suppressed");
        } else {
            let _ = write!(shown, "{SOURCE_COMMENT}{document}");
        }
    }
    record.manifest = shown;
}
