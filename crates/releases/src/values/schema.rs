//! Values that a chart's schema marks as secret: `writeOnly: true` or `format: password`.

use std::collections::BTreeSet;

use helm_chart::chart::Chart;
use helm_template::data::{Data, Members};
use helm_template::json;

use super::leaves::child_pointer;

/// Limits on visited schema and value nodes, and on depth: schemas may be recursive.
const MAX_STEPS: usize = 1_000_000;
const MAX_DEPTH: usize = 64;

/// JSON pointers of the values that the schemas of a chart and its subcharts mark as secret. If the limit is exceeded, the empty pointer,
/// which means all values.
pub fn secret_pointers(chart: &Chart, values: &Members) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut steps = MAX_STEPS;
    collect_secrets(chart, values, "", &mut found, &mut steps);
    if steps == 0 {
        return BTreeSet::from([String::new()]);
    }
    found
}

/// Total bytes of the schemas of a chart and its subcharts.
pub fn schema_bytes(chart: &Chart) -> usize {
    let own = chart.schema.as_ref().map_or(0, bytes::Bytes::len);
    chart.dependencies.iter().map(schema_bytes).fold(own, usize::saturating_add)
}

fn collect_secrets(
    chart: &Chart,
    values: &Members,
    pointer: &str,
    found: &mut BTreeSet<String>,
    steps: &mut usize,
) {
    // An unreadable schema was rejected during validation.
    if let Some(root) = chart.schema.as_ref().and_then(|schema| json::parse(schema).ok()) {
        SchemaSearch { root: &root, found, steps }.visit_schema(
            &root,
            ValueNode::Map(values),
            pointer,
            MAX_DEPTH,
        );
    }
    for subchart in &chart.dependencies {
        let name = &subchart.metadata.name;
        if let Some(Data::Map(values)) = values.get(name) {
            collect_secrets(subchart, values, &child_pointer(pointer, name), found, steps);
        }
    }
}

/// A borrowed value; the root is a map without a `Data` around it.
#[derive(Clone, Copy)]
enum ValueNode<'v> {
    Map(&'v Members),
    List(&'v [Data]),
    Leaf,
}

impl<'v> From<&'v Data> for ValueNode<'v> {
    fn from(data: &'v Data) -> Self {
        match data {
            Data::Map(members) => Self::Map(members),
            Data::List(items) => Self::List(items),
            _ => Self::Leaf,
        }
    }
}

struct SchemaSearch<'s> {
    root: &'s Data,
    found: &'s mut BTreeSet<String>,
    steps: &'s mut usize,
}

impl<'s> SchemaSearch<'s> {
    /// Counts a visited node; false when the limit is reached.
    fn count_step(&mut self) -> bool {
        *self.steps = self.steps.saturating_sub(1);
        *self.steps > 0
    }

    /// Conditional subschemas are treated as applying: masking too much is safer.
    fn visit_schema(&mut self, schema: &'s Data, value: ValueNode<'_>, pointer: &str, deeper: usize) {
        if deeper == 0 || !self.count_step() {
            return;
        }
        let deeper = deeper.saturating_sub(1);
        let is = |key: &str, wanted: &Data| schema.get(key) == Some(wanted);
        if is("writeOnly", &Data::Bool(true)) || is("format", &Data::string("password")) {
            self.found.insert(pointer.to_owned());
        }
        if let Some(target) =
            schema.get("$ref").and_then(Data::as_str).and_then(|text| self.resolve_ref(text))
        {
            self.visit_schema(target, value, pointer, deeper);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(key).and_then(Data::as_list).unwrap_or_default() {
                self.visit_schema(part, value, pointer, deeper);
            }
        }
        for key in ["if", "then", "else"] {
            if let Some(part) = schema.get(key) {
                self.visit_schema(part, value, pointer, deeper);
            }
        }
        match value {
            ValueNode::Map(members) => {
                for (key, value) in members {
                    if !self.count_step() {
                        return;
                    }
                    self.visit_member(schema, key, value, &child_pointer(pointer, key), deeper);
                }
            }
            ValueNode::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    if !self.count_step() {
                        return;
                    }
                    self.visit_element(
                        schema,
                        index,
                        item,
                        &child_pointer(pointer, &index.to_string()),
                        deeper,
                    );
                }
            }
            ValueNode::Leaf => {}
        }
    }

    fn visit_member(&mut self, schema: &'s Data, key: &str, value: &Data, pointer: &str, deeper: usize) {
        if let Some(part) = schema.get("properties").and_then(|properties| properties.get(key)) {
            self.visit_schema(part, value.into(), pointer, deeper);
            return;
        }
        // Patterns are treated as matching: masking too much is safer.
        let patterns = schema.get("patternProperties").and_then(Data::as_map);
        for part in patterns.into_iter().flat_map(|patterns| patterns.values()) {
            self.visit_schema(part, value.into(), pointer, deeper);
        }
        if let Some(part) = schema.get("additionalProperties") {
            self.visit_schema(part, value.into(), pointer, deeper);
        }
    }

    fn visit_element(&mut self, schema: &'s Data, index: usize, item: &Data, pointer: &str, deeper: usize) {
        for key in ["items", "prefixItems", "additionalItems"] {
            match schema.get(key) {
                Some(Data::List(parts)) => {
                    if let Some(part) = parts.get(index) {
                        self.visit_schema(part, item.into(), pointer, deeper);
                    }
                }
                Some(part) => self.visit_schema(part, item.into(), pointer, deeper),
                None => {}
            }
        }
    }

    /// Resolves a reference within the same document, e.g. `#/definitions/x`.
    fn resolve_ref(&self, reference: &str) -> Option<&'s Data> {
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
