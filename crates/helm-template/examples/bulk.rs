//! Renders many small sets of templates in one go, to be held against Helm's own answers.
//!
//! Reads a JSON array of `{"templates": {"a.yaml": "TEXT"}, "values": "JSON TEXT"}` and prints a JSON array of
//! `{"out": {"c/templates/a.yaml": "TEXT"}}` or `{"error": "TEXT"}`. Templates see `.Values` and nothing else. With the
//! argument `3` they are Helm 3's, else Helm 4's.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use anyhow::Context;
use helm_template::data::Data;
use helm_template::exec::{Functions, Limits, Machine, Templates};
use helm_template::functions;
use helm_template::outside::{Nowhere, Outside};
use helm_template::parse::parse;
use helm_template::profile::Profile;
use helm_template::value::{Map, Value};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Case {
    templates: BTreeMap<String, String>,
    #[serde(default)]
    values: String,
}

fn main() -> anyhow::Result<()> {
    let profile = match std::env::args().nth(1).as_deref() {
        Some("3") => Profile::Helm3,
        _ => Profile::Helm4,
    };
    let functions = functions::table(profile);
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the cases")?;
    let cases: Vec<Case> = serde_json::from_str(&text).context("cannot make sense of the cases")?;
    let answers: Vec<_> = cases
        .iter()
        .map(|case| match render(case, &functions, profile) {
            Ok(out) => json!({ "out": out }),
            Err(why) => json!({ "error": why }),
        })
        .collect();
    serde_json::to_writer_pretty(std::io::stdout().lock(), &answers).context("cannot write the answers")
}

fn render(case: &Case, functions: &Functions, profile: Profile) -> Result<BTreeMap<String, String>, String> {
    let values: serde_json::Value = if case.values.is_empty() {
        json!({})
    } else {
        serde_json::from_str(&case.values).map_err(|e| e.to_string())?
    };
    let Value::Map(values) = Value::from(&data(&values)) else {
        return Err("the values are no object".into());
    };
    let named = if profile == Profile::Helm3 { "chartutil.Values" } else { "common.Values" };
    let mut templates = Templates::default();
    for (name, text) in &case.templates {
        let parsed = parse(&full(name), text, functions).map_err(|why| why.to_string())?;
        templates = templates.with(parsed.into_iter().map(Arc::new));
    }
    let outside =
        Outside { clock: &Nowhere, random: &Nowhere, crypto: &Nowhere, cluster: &Nowhere, names: &Nowhere };
    let mut machine = Machine::new(templates, functions, outside, Limits::default());
    machine.ranges_over_integers = profile == Profile::Helm4;
    let top = Map::from_entries([("Values".into(), values.named(named).into())]);
    let mut out = BTreeMap::new();
    for name in case.templates.keys().filter(|name| !name.starts_with('_')) {
        let text =
            machine.run(&full(name), top.named(named).into()).map_err(|why| shown(&why.to_string()))?;
        out.insert(full(name), characters(&text).replace("<no value>", ""));
    }
    Ok(out)
}

/// As Go's JSON has it: each byte that is no character becomes U+FFFD.
fn characters(text: &[u8]) -> String {
    let chunks = text.utf8_chunks();
    chunks.map(|chunk| chunk.valid().to_owned() + &"\u{FFFD}".repeat(chunk.invalid().len())).collect()
}

/// Of an error in the chart's own words Helm shows only these, and where.
fn shown(why: &str) -> String {
    let (start, end) = functions::SAID_BY_CHART;
    let said = why.split_once(start).and_then(|(_, rest)| rest.rsplit_once(end));
    match (why.split(": ").nth(1), said) {
        (Some(place), Some((message, _))) => format!("execution error at ({place}): {message}"),
        _ => why.to_owned(),
    }
}

fn full(name: &str) -> String {
    format!("c/templates/{name}")
}

fn data(json: &serde_json::Value) -> Data {
    match json {
        serde_json::Value::Null => Data::Null,
        serde_json::Value::Bool(truth) => Data::Bool(*truth),
        serde_json::Value::Number(n) => Data::Float(n.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Data::string(text.as_str()),
        serde_json::Value::Array(items) => Data::List(items.iter().map(data).collect()),
        serde_json::Value::Object(members) => {
            Data::Map(members.iter().map(|(key, value)| (key.as_str().into(), data(value))).collect())
        }
    }
}
