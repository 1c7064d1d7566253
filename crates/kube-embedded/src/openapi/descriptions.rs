//! Descriptions of types and fields, from `data/descriptions.txt`.
//!
//! Parsed when the first OpenAPI document is requested. The header of the file describes the format.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Deserializer, Value};

/// The description of a type and of its fields.
pub struct TypeDescription {
    pub text: Value,
    pub fields: HashMap<&'static str, FieldDescription>,
}

#[derive(Clone)]
pub struct FieldDescription {
    pub text: Value,
    /// The enum values, or null.
    pub enum_values: Value,
}

/// `None` for types that are not published.
pub fn for_type(type_name: &str) -> Option<&'static TypeDescription> {
    static ALL: LazyLock<HashMap<&str, TypeDescription>> =
        LazyLock::new(|| parse(include_str!("../../data/descriptions.txt")));
    ALL.get(type_name)
}

fn parse(text: &'static str) -> HashMap<&'static str, TypeDescription> {
    let mut all = HashMap::new();
    let mut before: HashMap<&str, FieldDescription> = HashMap::new();
    let mut current = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix(' ') {
            let (name, rest) = line.split_once(' ').expect("a field has a text");
            if rest != "=" {
                let mut values = json_values(rest);
                let (text, values) = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
                before.insert(name, FieldDescription { text, enum_values: values });
            }
            let described: &mut TypeDescription =
                current.and_then(|name| all.get_mut(name)).expect("a type stands before its fields");
            described.fields.insert(name, before[name].clone());
        } else {
            let (name, rest) = line.split_once(' ').expect("a type has a text");
            let text = json_values(rest).next().unwrap_or_default();
            all.insert(name, TypeDescription { text, fields: HashMap::new() });
            current = Some(name);
        }
    }
    all
}

/// The JSON values on a line.
fn json_values(text: &str) -> impl Iterator<Item = Value> {
    Deserializer::from_str(text).into_iter().map(|value| value.expect("a generated line is JSON"))
}
