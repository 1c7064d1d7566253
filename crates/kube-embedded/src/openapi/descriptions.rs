//! Descriptions of types and fields, from `data/descriptions.txt`.
//!
//! Parsed when the first OpenAPI document is requested. The header of the file describes the format.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Deserializer, Value};

/// The description of a type and of its fields.
pub struct Described {
    pub text: Value,
    pub fields: HashMap<&'static str, FieldText>,
}

#[derive(Clone)]
pub struct FieldText {
    pub text: Value,
    /// The enum values, or null.
    pub values: Value,
}

/// `None` for types that are not published.
pub fn of(type_name: &str) -> Option<&'static Described> {
    static ALL: LazyLock<HashMap<&str, Described>> =
        LazyLock::new(|| read(include_str!("../../data/descriptions.txt")));
    ALL.get(type_name)
}

fn read(text: &'static str) -> HashMap<&'static str, Described> {
    let mut all = HashMap::new();
    let mut before: HashMap<&str, FieldText> = HashMap::new();
    let mut current = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(line) = line.strip_prefix(' ') {
            let (name, rest) = line.split_once(' ').expect("a field has a text");
            if rest != "=" {
                let mut values = json_values(rest);
                let (text, values) = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
                before.insert(name, FieldText { text, values });
            }
            let described: &mut Described =
                current.and_then(|name| all.get_mut(name)).expect("a type stands before its fields");
            described.fields.insert(name, before[name].clone());
        } else {
            let (name, rest) = line.split_once(' ').expect("a type has a text");
            let text = json_values(rest).next().unwrap_or_default();
            all.insert(name, Described { text, fields: HashMap::new() });
            current = Some(name);
        }
    }
    all
}

/// The JSON values on a line.
fn json_values(text: &str) -> impl Iterator<Item = Value> {
    Deserializer::from_str(text).into_iter().map(|value| value.expect("a generated line is JSON"))
}
