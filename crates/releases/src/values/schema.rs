//! Which values a chart's schema says are secrets: `writeOnly: true`, or `format: password`.

use std::collections::BTreeSet;

use helm_chart::chart::Chart;
use helm_template::data::{Data, Members};
use helm_template::json;

use super::leaves::below;

/// How many parts of schemas are looked at, and how deep: a schema may refer to itself.
const MOST_STEPS: usize = 100_000;
const DEEPEST: usize = 64;

/// The values that the schemas of a chart and of its subcharts call secret, as JSON pointers.
pub fn secrets(chart: &Chart, values: &Members) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut steps = MOST_STEPS;
    look(chart, values, "", &mut found, &mut steps);
    found
}

fn look(chart: &Chart, values: &Members, pointer: &str, found: &mut BTreeSet<String>, steps: &mut usize) {
    // A schema that cannot be read has been refused where values are checked.
    if let Some(root) = chart.schema.as_ref().and_then(|schema| json::parse(schema).ok()) {
        let values = Data::Map(values.clone());
        Search { root: &root, found, steps }.part(&root, &values, pointer, DEEPEST);
    }
    for subchart in &chart.dependencies {
        let name = &subchart.metadata.name;
        if let Some(Data::Map(values)) = values.get(name) {
            look(subchart, values, &below(pointer, name), found, steps);
        }
    }
}

struct Search<'s> {
    root: &'s Data,
    found: &'s mut BTreeSet<String>,
    steps: &'s mut usize,
}

impl Search<'_> {
    /// Whatever applies under some condition is taken to apply: better one mask too many.
    fn part(&mut self, schema: &Data, value: &Data, pointer: &str, deeper: usize) {
        if *self.steps == 0 || deeper == 0 {
            return;
        }
        *self.steps = self.steps.saturating_sub(1);
        let deeper = deeper.saturating_sub(1);
        let is = |key: &str, wanted: &Data| schema.get(key) == Some(wanted);
        if is("writeOnly", &Data::Bool(true)) || is("format", &Data::string("password")) {
            self.found.insert(pointer.to_owned());
        }
        if let Some(target) = schema.get("$ref").and_then(Data::as_str).and_then(|text| self.refers_to(text))
        {
            self.part(&target.clone(), value, pointer, deeper);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(key).and_then(Data::as_list).unwrap_or_default() {
                self.part(part, value, pointer, deeper);
            }
        }
        for key in ["if", "then", "else"] {
            if let Some(part) = schema.get(key) {
                self.part(part, value, pointer, deeper);
            }
        }
        match value {
            Data::Map(members) => {
                for (key, value) in members {
                    self.member(schema, key, value, &below(pointer, key), deeper);
                }
            }
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.element(schema, index, item, &below(pointer, &index.to_string()), deeper);
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, schema: &Data, key: &str, value: &Data, pointer: &str, deeper: usize) {
        if let Some(part) = schema.get("properties").and_then(|properties| properties.get(key)) {
            self.part(part, value, pointer, deeper);
            return;
        }
        // Whether a pattern fits is not asked: better one mask too many.
        let patterns = schema.get("patternProperties").and_then(Data::as_map);
        for part in patterns.into_iter().flat_map(|patterns| patterns.values()) {
            self.part(part, value, pointer, deeper);
        }
        if let Some(part) = schema.get("additionalProperties") {
            self.part(part, value, pointer, deeper);
        }
    }

    fn element(&mut self, schema: &Data, index: usize, item: &Data, pointer: &str, deeper: usize) {
        for key in ["items", "prefixItems", "additionalItems"] {
            match schema.get(key) {
                Some(Data::List(parts)) => {
                    if let Some(part) = parts.get(index) {
                        self.part(part, item, pointer, deeper);
                    }
                }
                Some(part) => self.part(part, item, pointer, deeper),
                None => {}
            }
        }
    }

    /// A part of the same document: `#/definitions/x`.
    fn refers_to(&self, reference: &str) -> Option<&Data> {
        let mut place = self.root;
        for key in reference.strip_prefix('#')?.split('/').skip(1) {
            let key = key.replace("~1", "/").replace("~0", "~");
            place = match place {
                Data::List(items) => items.get(key.parse::<usize>().ok()?)?,
                other => other.get(&key)?,
            };
        }
        Some(place)
    }
}
