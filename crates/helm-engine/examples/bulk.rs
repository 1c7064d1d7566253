//! Renders many small charts in one go, to be held against Helm's own answers.
//!
//! Reads a JSON array of `{"templates": {"a.yaml": "TEXT"}, "values": "YAML TEXT", "files": {"name": "BASE64"}}` and
//! prints a JSON array of `{"out": {"c/templates/a.yaml": "TEXT"}}` or `{"error": "TEXT"}`. With the argument `3` it is
//! Helm 3 that is followed, else Helm 4.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine as _;
use helm_chart::{Chart, File, Metadata};
use helm_engine::{Capabilities, Engine, EngineRequest, ParsedChart};
use helm_template::profile::Profile;
use helm_template::yaml;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Case {
    templates: BTreeMap<String, String>,
    #[serde(default)]
    values: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profile = match std::env::args().nth(1).as_deref() {
        Some("3") => Profile::Helm3,
        _ => Profile::Helm4,
    };
    let engine = Engine::new(profile);
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let cases: Vec<Case> = serde_json::from_str(&text)?;
    let answers: Vec<_> = cases
        .iter()
        .map(|case| match render(case, &engine) {
            Ok(out) => json!({ "out": out }),
            Err(why) => json!({ "error": why }),
        })
        .collect();
    serde_json::to_writer_pretty(std::io::stdout().lock(), &answers)?;
    Ok(())
}

fn render(case: &Case, engine: &Engine) -> Result<BTreeMap<String, String>, String> {
    let file = |name: &str, data: Vec<u8>| File { name: name.into(), data: data.into() };
    let mut files = Vec::new();
    for (name, text) in &case.files {
        let data = base64::prelude::BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?;
        files.push(file(name, data));
    }
    let chart = Chart {
        metadata: Metadata {
            name: "c".into(),
            version: "1.2.3".into(),
            api_version: "v2".into(),
            app_version: "4.5.6".into(),
            ..Metadata::default()
        },
        templates: case
            .templates
            .iter()
            .map(|(name, text)| file(&format!("templates/{name}"), text.clone().into_bytes()))
            .collect(),
        files,
        ..Chart::default()
    };
    let values =
        yaml::parse_map(case.values.as_bytes(), "map[string]interface {}").map_err(|why| why.to_string())?;
    let capabilities = Capabilities::default_for(engine.profile());
    let request = EngineRequest::new("x", &values, &capabilities);
    let host = helm_host::Host::new();
    let files = engine
        .render_files(&ParsedChart::new(chart), &request, host.render_env())
        .map_err(|failure| failure.message)?;
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    Ok(files.iter().map(|file| (file.name.to_string(), text(&file.content))).collect())
}
