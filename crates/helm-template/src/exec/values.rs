//! What can be called on Helm's values: the maps whose type has a name.

use crate::go::quote;
use crate::value::{Map, Str, Type, Value};
use crate::yaml;

pub(super) struct Method {
    pub params: &'static [Type],
    pub run: fn(&Map, &[Value]) -> Result<Value, Str>,
}

/// A method comes before an entry of that name.
pub(super) fn method(map: &Map, name: &str) -> Option<Method> {
    if !map.is_named() {
        return None;
    }
    let (params, run): (&'static [Type], fn(&Map, &[Value]) -> Result<Value, Str>) = match name {
        "AsMap" => (&[], |map, _| Ok(if map.is_empty() { Map::new() } else { map.plain() }.into())),
        "Encode" => (&[Type::Object("io.Writer")], |_, _| {
            // Templates have nothing to write to but nil.
            Err("runtime error: invalid memory address or nil pointer dereference".into())
        }),
        "PathValue" => (&[Type::String], path_value),
        "Table" => (&[Type::String], |map, args| table(map, &path(args)).map(Value::from)),
        "YAML" => (&[], |map, _| {
            yaml::write_value(&map.clone().into()).map(Value::from).map_err(|why| why.to_string().into())
        }),
        _ => return None,
    };
    Some(Method { params, run })
}

fn path(args: &[Value]) -> Vec<String> {
    let path = args.first().and_then(Value::text).unwrap_or_default();
    path.split('.').map(str::to_owned).collect()
}

/// The map below these keys, as values.
fn table(map: &Map, path: &[String]) -> Result<Map, Str> {
    let mut found = map.clone();
    for key in path {
        found = match found.get(key) {
            Some(Value::Map(inner)) if inner.is_any() => inner,
            _ => return Err(format!("{} is not a table", quote(key)).into()),
        };
    }
    Ok(found.as_type_of(map))
}

fn path_value(map: &Map, args: &[Value]) -> Result<Value, Str> {
    let path = path(args);
    if path.iter().all(String::is_empty) && path.len() == 1 {
        return Err("YAML path cannot be empty".into());
    }
    let Some((key, above)) = path.split_last() else { return Ok(Value::Null) };
    let found = table(map, above).ok().and_then(|table| table.get(key));
    match found {
        // Plain maps are tables, and no values.
        Some(Value::Map(inner)) if inner.is_any() && !inner.is_named() => {
            Err(format!("{} is not a value", quote(key)).into())
        }
        Some(value) => Ok(value),
        None => Err(format!("{} is not a value", quote(key)).into()),
    }
}
