//! Validates a schema against the metaschema of its draft.
//!
//! Most schemas are valid, and a walk with a table of keywords suffices ([`is_certainly_valid`]). Everything else is validated
//! against the metaschema, which decides and provides the messages.

use std::collections::HashSet;

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::go::quote;
use helm_template::json::{self, JsonStyle};

use super::super::model::JsonType;
use super::super::number;
use super::compile::{SCHEMA_URL, compile_meta};
use super::failure::FailureForm;
use super::validate::failure;

/// The published metaschemas without descriptions, each in one document.
const METASCHEMAS: &[(u16, &str, &str)] = &[
    (4, "http://json-schema.org/draft-04/schema", include_str!("meta/draft-04.json")),
    (6, "http://json-schema.org/draft-06/schema", include_str!("meta/draft-06.json")),
    (7, "http://json-schema.org/draft-07/schema", include_str!("meta/draft-07.json")),
    (2019, "https://json-schema.org/draft/2019-09/schema", include_str!("meta/draft-2019-09.json")),
    (2020, "https://json-schema.org/draft/2020-12/schema", include_str!("meta/draft-2020-12.json")),
];

/// Validates a schema, with Helm's messages. Patterns are not checked.
pub fn check(root: &Data, draft: u16, budget: &Budget<'_>) -> Result<(), String> {
    if is_certainly_valid(root, draft) { Ok(()) } else { validate_against_metaschema(root, draft, budget) }
}

/// Validates a schema against the metaschema.
pub fn validate_against_metaschema(root: &Data, draft: u16, budget: &Budget<'_>) -> Result<(), String> {
    let Some((_, address, text)) = METASCHEMAS.iter().find(|(known, ..)| *known == draft) else {
        return Ok(());
    };
    let metaschema = json::parse(text).map_err(|error| error.to_string())?;
    let schemas = compile_meta(&metaschema, draft, budget)?;
    let Some(failure) = failure(&schemas, root) else { return Ok(()) };
    let mut lines = String::new();
    match failure.form {
        FailureForm::Group => failure.causes.iter().for_each(|cause| cause.write(&mut lines, 0)),
        FailureForm::Plain | FailureForm::Reference => failure.write(&mut lines, 0),
    }
    let whole = quote(&format!("{SCHEMA_URL}#"));
    Err(format!(
        "{whole} is not valid against metaschema: jsonschema validation failed with '{address}#'{lines}"
    ))
}

/// Value shape that is accepted without the metaschema.
#[derive(Clone, Copy)]
enum KeywordShape {
    Schema,
    Schemas,
    Table,
    Text,
    Texts,
    Number,
    Positive,
    Count,
    Boolean,
    List,
    Enum,
    /// A schema or, in every draft, a boolean.
    SchemaOrBoolean,
    Any,
}

use KeywordShape::*;

#[rustfmt::skip]
const KEYWORDS: &[(&str, KeywordShape)] = &[
    ("$schema", Text), ("$comment", Text), ("title", Text), ("description", Text), ("format", Text), ("pattern", Text),
    ("default", Any), ("const", Any), ("examples", List), ("enum", Enum),
    ("required", Texts), ("uniqueItems", Boolean), ("readOnly", Boolean), ("writeOnly", Boolean), ("deprecated", Boolean),
    ("minimum", Number), ("maximum", Number), ("multipleOf", Positive),
    ("minLength", Count), ("maxLength", Count), ("minItems", Count), ("maxItems", Count),
    ("minProperties", Count), ("maxProperties", Count), ("minContains", Count), ("maxContains", Count),
    ("properties", Table), ("patternProperties", Table), ("definitions", Table), ("$defs", Table), ("dependentSchemas", Table),
    ("additionalProperties", SchemaOrBoolean), ("additionalItems", SchemaOrBoolean), ("not", Schema), ("if", Schema), ("then", Schema), ("else", Schema),
    ("contains", Schema), ("propertyNames", Schema), ("unevaluatedProperties", Schema), ("unevaluatedItems", Schema),
    ("allOf", Schemas), ("anyOf", Schemas), ("oneOf", Schemas), ("prefixItems", Schemas), ("items", Schema),
];

/// Whether the schema is certainly valid. A schema for which this is false may still be valid.
fn is_certainly_valid(root: &Data, draft: u16) -> bool {
    let mut left = vec![root];
    while let Some(schema) = left.pop() {
        let members = match schema {
            Data::Bool(_) if draft >= 6 => continue,
            Data::Map(members) => members,
            _ => return false,
        };
        for (key, data) in members {
            let shape = KEYWORDS.iter().find(|(known, _)| *known == &**key).map(|(_, shape)| *shape);
            let fits = match (shape, data) {
                (Some(Any), _)
                | (Some(Text), Data::String(_))
                | (Some(Boolean | SchemaOrBoolean), Data::Bool(_))
                | (Some(Number), Data::Float(_))
                | (Some(List), Data::List(_)) => true,
                (Some(Enum), Data::List(items)) => draft >= 2019 || (!items.is_empty() && are_unique(items)),
                (Some(Positive), data) => number::to_f64(data).is_some_and(|n| n > 0.0),
                (Some(Count), data) => number::to_integer(data).is_some_and(|n| n >= 0),
                (Some(Texts), Data::List(items)) => {
                    let are_texts = items.iter().all(|item| item.as_str().is_some());
                    are_texts && (draft >= 6 || !items.is_empty()) && are_unique(items)
                }
                (Some(Schema | SchemaOrBoolean), data) => {
                    left.push(data);
                    true
                }
                (Some(Schemas), Data::List(items)) => {
                    left.extend(items);
                    !items.is_empty()
                }
                (Some(Table), Data::Map(table)) => {
                    left.extend(table.values());
                    true
                }
                (Some(_), _) => false,
                (None, data) => is_other(key, data, draft),
            };
            if !fits {
                return false;
            }
        }
    }
    true
}

fn are_unique(items: &[Data]) -> bool {
    let mut seen = HashSet::new();
    items.iter().all(|item| json::write(item, JsonStyle::Plain).is_ok_and(|text| seen.insert(text)))
}

/// Keywords outside the table, and unknown keywords.
fn is_other(key: &str, data: &Data, draft: u16) -> bool {
    let is_type = |data: &Data| data.as_str().is_some_and(|name| JsonType::from_name(name).is_some());
    match (key, data) {
        ("type", Data::List(names)) => !names.is_empty() && names.iter().all(is_type) && are_unique(names),
        ("type", data) => is_type(data),
        ("$ref" | "$id" | "id", Data::String(text)) => {
            !text.contains([' ', '%', '\\', ':', '#']) || text.starts_with("#/")
        }
        ("exclusiveMinimum" | "exclusiveMaximum", Data::Float(_)) => draft >= 6,
        (
            "dependencies" | "dependentRequired" | "exclusiveMinimum" | "exclusiveMaximum" | "contentSchema"
            | "contentMediaType" | "contentEncoding" | "id",
            _,
        ) => false,
        (key, _) => !key.starts_with('$'),
    }
}
