//! Methods of Helm's `Values`, the Go type of `.Values` and of the root context.

use crate::go::quote;
use crate::value::{Map, Str, Type, Value};
use crate::yaml;

/// Parameter types and implementation.
pub(super) type Method = (&'static [Type], fn(&Map, &[Value]) -> Result<Value, Str>);

/// A method of a map with a named type. Methods take precedence over entries of the same name.
pub(super) fn method(map: &Map, name: &str) -> Option<Method> {
    if !map.is_named() {
        return None;
    }
    Some(match name {
        "AsMap" => (&[], |values, _| Ok(if values.is_empty() { Map::new() } else { values.plain() }.into())),
        "YAML" => (&[], |values, _| {
            let text = yaml::write_value(&Value::Map(values.clone()))?;
            Ok(text.into())
        }),
        "Table" => (&[Type::String], |values, args| {
            let path = args.first().and_then(Value::text).unwrap_or_default();
            table(values, path.split('.')).map(Value::from)
        }),
        "PathValue" => (&[Type::String], |values, args| {
            path_value(values, &args.first().and_then(Value::text).unwrap_or_default())
        }),
        // No template value implements `io.Writer`, so every argument is refused.
        "Encode" => (&[Type::Object("io.Writer")], |_, _| Ok(Value::Nil)),
        _ => return None,
    })
}

fn table<'p>(values: &Map, path: impl Iterator<Item = &'p str>) -> Result<Map, Str> {
    let mut table = values.clone();
    for key in path {
        table = match table.get(key) {
            Some(Value::Map(inner)) if inner.is_any() => match values.type_name_if_named() {
                Some(name) => inner.named(name),
                None => inner,
            },
            _ => return Err(format!("{} is not a table", quote(key)).into()),
        };
    }
    Ok(table)
}

/// The value at the path. A table is not a value.
fn path_value(values: &Map, path: &str) -> Result<Value, Str> {
    if path.is_empty() {
        return Err("YAML path cannot be empty".into());
    }
    let (way, key) = path.rsplit_once('.').map_or((None, path), |(way, key)| (Some(way), key));
    let no_value = || Str::from(format!("{} is not a value", quote(key)));
    let table = match way {
        Some(way) => table(values, way.split('.')).map_err(|_| no_value())?,
        None => values.clone(),
    };
    match table.get(key) {
        // Only a table without a named type counts as a table here.
        Some(Value::Map(inner)) if inner.is_any() && !inner.is_named() => Err(no_value()),
        Some(value) => Ok(value),
        None => Err(no_value()),
    }
}
