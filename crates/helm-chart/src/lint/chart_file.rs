//! Lint rules for `Chart.yaml`.

use helm_template::data::Data;
use helm_template::go::{path, quote};
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use helm_template::value::Str;
use helm_template::yaml;

use super::Severity::{Error, Info, Warning};
use super::{DirContent, LintReport, LintSubject, web};
use crate::metadata::{METADATA, get_items, get_text, get_texts};
use crate::typed::{self, KeyMode};

const NAME: &str = "Chart.yaml";

pub fn check(subject: &LintSubject<'_>, profile: Profile, report: &mut LintReport) {
    let is_folder = subject.chart_yaml == DirContent::Directory;
    let kind = if is_folder { Err("should be a file, not a directory".into()) } else { Ok(()) };
    report.record(Error, NAME, kind);
    let read = subject.chart_yaml.content(subject.dir_name, NAME).and_then(|text| {
        let data = typed::read(text, &METADATA, profile, KeyMode::Any).map_err(|why| why.to_string())?;
        Ok((text, data))
    });
    let (text, chart) = match read {
        Ok(read) => read,
        Err(why) => {
            report.record(Error, NAME, Err(format!("unable to parse YAML\n\t{why}")));
            return;
        }
    };
    if profile == Profile::Helm4 {
        let strict = typed::read(text, &METADATA, profile, KeyMode::Strict).map(drop);
        let strict = strict.map_err(|why| format!("failed to strictly parse chart metadata file\n\t{why}"));
        report.record(Warning, NAME, strict);
    }
    // The untyped values as written.
    let written = yaml::parse(text).unwrap_or_default();
    for (severity, found) in [
        (Error, name(&chart)),
        (Error, api_version(&chart)),
        (Error, is_text(&written, "version")),
        (Error, version(&chart, profile)),
        (Error, is_text(&written, "appVersion")),
        (Error, maintainers(&chart, profile)),
        (Error, sources(&chart, profile)),
        (Info, icon(&chart)),
        (Error, icon_url(&chart, profile)),
        (Error, only_in_v2(&chart, "type", "chart type is not valid in", "It is")),
        (
            Error,
            only_in_v2(
                &chart,
                "dependencies",
                "dependencies are not valid in the Chart file with",
                "They are",
            ),
        ),
    ] {
        report.record(severity, NAME, found);
    }
    if profile == Profile::Helm4 {
        let version = get_text(&chart, "version");
        let strict = Version::parse_strict(&version, profile).map(drop);
        report.record(
            Warning,
            NAME,
            strict.map_err(|_| format!("version '{version}' is not a valid SemVerV2")),
        );
    }
}

fn name(chart: &Data) -> Result<(), String> {
    let name = get_text(chart, "name");
    if name.is_empty() {
        return Err("name is required".into());
    }
    if path::base(name.as_bytes()) == name.as_bytes() {
        return Ok(());
    }
    Err(format!("chart name {} is invalid", quote(&name)))
}

fn api_version(chart: &Data) -> Result<(), String> {
    match &*get_text(chart, "apiVersion") {
        "" => Err(r#"apiVersion is required. The value must be either "v1" or "v2""#.into()),
        "v1" | "v2" => Ok(()),
        other => Err(format!(r#"apiVersion '{other}' is not valid. The value must be either "v1" or "v2""#)),
    }
}

fn is_text(written: &Data, key: &str) -> Result<(), String> {
    let go_type = match written.get(key) {
        None | Some(Data::String(_)) => return Ok(()),
        Some(Data::Null) => "<nil>",
        Some(Data::Bool(_)) => "bool",
        Some(Data::Int(_) | Data::Float(_)) => "float64",
        Some(Data::List(_)) => "[]interface {}",
        Some(Data::Map(_)) => "map[string]interface {}",
    };
    Err(format!("{key} should be of type string but it's of type {go_type}"))
}

fn version(chart: &Data, profile: Profile) -> Result<(), String> {
    let text = get_text(chart, "version");
    if text.is_empty() {
        return Err("version is required".into());
    }
    let version =
        Version::parse(&text, profile).map_err(|_| format!("version '{text}' is not a valid SemVer"))?;
    let above_zero = Constraints::parse(">0.0.0-0", profile).map_err(|why| why.to_string())?;
    let first = |reasons: Vec<Str>| reasons.into_iter().next();
    match above_zero.validate(&version).map_err(first) {
        Err(Some(why)) => Err(format!("version {why}")),
        _ => Ok(()),
    }
}

fn maintainers(chart: &Data, profile: Profile) -> Result<(), String> {
    for maintainer in get_items(chart, "maintainers") {
        if *maintainer == Data::Null && profile == Profile::Helm4 {
            return Err("a maintainer entry is empty".into());
        }
        let [name, email, url] = ["name", "email", "url"].map(|key| get_text(maintainer, key));
        if name.is_empty() {
            return Err("each maintainer requires a name".into());
        }
        if !email.is_empty() && !web::is_email(&email) {
            return Err(format!("invalid email '{email}' for maintainer '{name}'"));
        }
        if !url.is_empty() && !web::is_url(&url, profile) {
            return Err(format!("invalid url '{url}' for maintainer '{name}'"));
        }
    }
    Ok(())
}

fn sources(chart: &Data, profile: Profile) -> Result<(), String> {
    let sources = get_texts(chart, "sources");
    match sources.iter().find(|source| !web::is_request_url(source, profile)) {
        Some(source) => Err(format!("invalid source URL '{source}'")),
        None => Ok(()),
    }
}

fn icon(chart: &Data) -> Result<(), String> {
    if get_text(chart, "icon").is_empty() { Err("icon is recommended".into()) } else { Ok(()) }
}

fn icon_url(chart: &Data, profile: Profile) -> Result<(), String> {
    let icon = get_text(chart, "icon");
    if icon.is_empty() || web::is_request_url(&icon, profile) {
        return Ok(());
    }
    Err(format!("invalid icon URL '{icon}'"))
}

/// Charts of `apiVersion` v1 have no types, and no dependencies in this file.
fn only_in_v2(chart: &Data, key: &str, problem: &str, they: &str) -> Result<(), String> {
    let is_said = !get_text(chart, key).is_empty() || !get_items(chart, key).is_empty();
    let api_version = get_text(chart, "apiVersion");
    if !is_said || &*api_version == "v2" {
        return Ok(());
    }
    Err(format!("{problem} apiVersion '{api_version}'. {they} valid in apiVersion 'v2'"))
}
