//! Parses a manifest stream of a release into objects.
//!
//! Follows Helm's Kubernetes client: split by lines, each document parsed as go-yaml does, `List` objects flattened,
//! empty documents skipped.

use helm_template::data::Data;
use helm_template::yaml;
use serde_json::{Map, Number, Value};

use crate::object::{Object, ParseError};

/// Comment before each document of a record that names its template.
const SOURCE_COMMENT: &str = "# Source: ";

impl Object {
    /// Parses all objects of a manifest, in order.
    pub fn parse_all(manifest: &str) -> Result<Vec<Object>, ParseError> {
        let mut objects = Vec::new();
        for document in yaml::documents(manifest.as_bytes()) {
            let document = document.map_err(|why| parse_error(None, &why))?;
            let source = source_file(&document);
            let data = yaml::parse(&document).map_err(|why| parse_error(source.clone(), &why))?;
            add_objects(yaml_to_json(data), source.as_ref(), &mut objects)?;
        }
        Ok(objects)
    }
}

fn parse_error(source: Option<String>, why: &str) -> ParseError {
    ParseError { source_file: source, why: why.to_owned() }
}

/// File named in the comment at the head of a document.
fn source_file(document: &[u8]) -> Option<String> {
    let mut lines = document.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let head = lines.find(|line| !line.trim().is_empty() && !line.starts_with("---"))?;
    Some(head.strip_prefix(SOURCE_COMMENT)?.trim().to_owned())
}

/// Adds an object, or the items of a list.
fn add_objects(value: Value, source: Option<&String>, objects: &mut Vec<Object>) -> Result<(), ParseError> {
    match value {
        Value::Null => Ok(()),
        Value::Object(mut map) if map.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(items)) = map.remove("items") else { return Ok(()) };
            items.into_iter().try_for_each(|item| add_objects(item, source, objects))
        }
        value => {
            let object = Object::from_value(value)
                .map_err(|error| ParseError { source_file: source.cloned(), ..error })?;
            objects.push(object.with_source(source.cloned()));
            Ok(())
        }
    }
}

/// Converts YAML data to JSON. YAML numbers are floats; whole ones become integers, as in Kubernetes.
pub fn yaml_to_json(data: Data) -> Value {
    match data {
        Data::Null => Value::Null,
        Data::Bool(truth) => Value::Bool(truth),
        Data::Int(n) => Value::from(n),
        Data::Float(n) => json_number(n),
        Data::String(text) => Value::String(text.to_string()),
        Data::List(items) => items.into_iter().map(yaml_to_json).collect(),
        Data::Map(members) => members
            .into_iter()
            .map(|(key, data)| (key.to_string(), yaml_to_json(data)))
            .collect::<Map<_, _>>()
            .into(),
    }
}

fn json_number(n: f64) -> Value {
    // 2^63: every whole number below it fits.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if n.fract() == 0.0 && (-LIMIT..LIMIT).contains(&n) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within the limits, as was just seen"
        )]
        return Value::from(n as i64);
    }
    Number::from_f64(n).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn manifest_is_parsed_by_document() {
        let text = "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n\
            data: {mode: 0644, on: 'x'}\n---\n# nothing\n---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: List\n\
            items:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n- {apiVersion: v1, kind: Pod, metadata: {name: q}}\n";
        let objects = Object::parse_all(text).unwrap();
        let names: Vec<_> =
            objects.iter().map(|object| (object.name(), object.source.as_deref().unwrap())).collect();
        let [a, b] = ["c/templates/a.yaml", "c/templates/b.yaml"];
        assert_eq!(names, [("a", a), ("p", b), ("q", b)]);
        // As go-yaml reads it: an octal number, and a boolean key.
        assert_eq!(objects[0].value()["data"], json!({"mode": 420, "true": "x"}));
    }

    #[test]
    fn parse_error_names_the_file() {
        let text = "# Source: c/templates/a.yaml\nkind: [\n";
        let error = Object::parse_all(text).unwrap_err();
        assert!(
            error.to_string().starts_with("c/templates/a.yaml: error converting YAML to JSON"),
            "{error}"
        );
        let error = Object::parse_all("# Source: c/b.yaml\nkind: Pod\n").unwrap_err();
        assert_eq!(error.to_string(), "c/b.yaml: apiVersion not set");
    }

    #[test]
    fn whole_numbers_become_integers() {
        let text = "apiVersion: v1\nkind: X\nmetadata: {name: a}\nlist: [1, 1.0, 1.5, -3, 1e3, 1000660000]\n";
        let object = &Object::parse_all(text).unwrap()[0];
        assert_eq!(object.value()["list"], json!([1, 1, 1.5, -3, 1000, 1_000_660_000]));
    }
}
