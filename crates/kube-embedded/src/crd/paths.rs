//! Field paths in CRDs: of rules, selectable fields and `scale`.

use serde_json::Value;

use super::schema::{AdditionalProperties, StructuralSchema};

/// Resolves a path such as `.spec.a['b.c']` in a schema. Returns its normalized text and the schema of the field.
pub fn resolve<'s>(
    path: &str,
    schema: &'s StructuralSchema,
    brackets: bool,
) -> Result<(String, &'s StructuralSchema), String> {
    let mut found = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if after.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            let end = if end == 0 { 1 } else { end };
            rest = &after[end..];
            after[..end].to_owned()
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let (name, after) = parse_quoted(after)?;
            rest = after.strip_prefix(']').ok_or_else(|| match after.chars().next() {
                None => "unexpected end of JSON path".to_owned(),
                Some(_) => format!("expected ] but got {}", first_token(after)),
            })?;
            name
        } else {
            return Err(format!("expected [ or . but got: {}", first_token(rest)));
        };
        if schema.properties.is_empty() {
            let AdditionalProperties::Schema(values) = &schema.additional else {
                return Err("does not refer to a valid field".to_owned());
            };
            found = format!("{found}[{name}]");
            schema = values;
        } else {
            let separator = if found.is_empty() { "" } else { "." };
            found = format!("{found}{separator}{name}");
            let property = schema.properties.get(name.as_str());
            schema = property.ok_or_else(|| "does not refer to a valid field".to_owned())?;
        }
    }
    Ok((found, schema))
}

fn first_token(text: &str) -> &str {
    let end = text.find(['.', '[', ']']).unwrap_or(text.len());
    if end == 0 { text.get(..1).unwrap_or(text) } else { &text[..end] }
}

/// Parses `'name'` with escapes; returns it with the rest of the text.
fn parse_quoted(text: &str) -> Result<(String, &str), String> {
    let Some(inner) = text.strip_prefix('\'') else {
        return Err(if text.is_empty() {
            "unexpected end of JSON path".to_owned()
        } else {
            format!("expected single quoted string but got {}", first_token(text))
        });
    };
    let mut name = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Ok((name, &inner[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => name.push('\n'),
                Some((_, 't')) => name.push('\t'),
                Some((_, 'r')) => name.push('\r'),
                Some((_, escaped @ ('\'' | '\\'))) => name.push(escaped),
                Some((_, other)) => {
                    return Err(format!("invalid string literal: invalid escape char \\{other}"));
                }
                None => break,
            },
            _ => name.push(c),
        }
    }
    Err(format!("expected single quoted string but got {text}"))
}

/// Returns the value at a plain dotted path: `.spec.replicas`.
pub fn value_at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, name| value.get(name))
}

/// Like [`value_at`]; the error is a value on the path that is not an object.
pub fn try_value_at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, &'v Value> {
    let mut here = object;
    for name in path.trim_start_matches('.').split('.') {
        let fields = here.as_object().ok_or(here)?;
        match fields.get(name) {
            Some(value) => here = value,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}
