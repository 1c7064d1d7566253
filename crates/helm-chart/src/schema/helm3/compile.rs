//! Compiles a schema as gojsonschema does, which validates the schema as it reads.

use std::collections::HashSet;

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::super::compile::{SchemaCompiler, SchemaContext};
use super::super::document::{PointerError, Resolution, SchemaDocument, SchemaLocation};
use super::super::model::{AdditionalRule, DependencyRule, EnumValues, JsonType, Schema, SchemaId, Schemas};
use super::super::number;

/// Without `$schema`, or with an unknown one, the keywords of all drafts apply.
const HYBRID_DRAFT: u16 = u16::MAX;

pub fn compile<'b>(root: &'b Data, budget: &'b Budget<'b>) -> Result<Schemas<'b>, String> {
    let draft = draft(root)?;
    let document = SchemaDocument::new(root, "", id, budget)?;
    SchemaCompiler::new(document, Profile::Helm3, budget)
        .run(|compiler, target| compile_schema(compiler, target, draft))
}

fn draft(root: &Data) -> Result<u16, String> {
    let named = match root {
        Data::Bool(_) => return Ok(HYBRID_DRAFT),
        Data::Map(members) => members.get("$schema"),
        _ => return Err("schema is invalid".to_owned()),
    };
    match named {
        None => Ok(HYBRID_DRAFT),
        Some(Data::String(name)) => Ok(match name.trim_end_matches('#') {
            "http://json-schema.org/draft-04/schema" => 4,
            "http://json-schema.org/draft-06/schema" => 6,
            "http://json-schema.org/draft-07/schema" => 7,
            _ => HYBRID_DRAFT,
        }),
        Some(_) => Err("$schema must be of type string".to_owned()),
    }
}

fn id(schema: &Data) -> Option<&str> {
    schema.get("id").or_else(|| schema.get("$id")).and_then(Data::as_str)
}

fn compile_schema<'d>(
    compiler: &mut SchemaCompiler<'d>,
    target: &SchemaLocation<'d>,
    draft: u16,
) -> Result<Schema, String> {
    let members = match target.data {
        Data::Bool(verdict) if draft >= 6 => {
            return Ok(Schema { boolean_result: Some(*verdict), ..Schema::default() });
        }
        Data::Map(members) => members,
        _ => return Err("Expected: valid schema, given: Invalid JSON".to_owned()),
    };
    let mut from = SchemaContext { compiler, members, target: target.clone() };
    let mut schema = Schema { draft, ..Schema::default() };
    let id = if draft == 4 || (draft == HYBRID_DRAFT && members.contains_key("id")) { "id" } else { "$id" };
    text(&from, id)?;
    definitions(&mut from)?;
    text(&from, "title")?;
    text(&from, "description")?;
    if let Some(reference) = text(&from, "$ref")? {
        schema.reference = Some(resolve_reference(&mut from, reference)?);
        return Ok(schema);
    }
    types(&from, &mut schema)?;
    objects(&mut from, &mut schema)?;
    arrays(&mut from, &mut schema)?;
    numbers(&from, &mut schema)?;
    limits(&mut from, &mut schema)?;
    choices(&mut from, &mut schema)?;
    Ok(schema)
}

fn type_error(expected: &str, given: &str) -> String {
    format!("Invalid type. Expected: {expected}, given: {given}")
}

fn text<'d>(from: &SchemaContext<'_, 'd>, key: &str) -> Result<Option<&'d Str>, String> {
    match from.get(key) {
        None => Ok(None),
        Some(Data::String(text)) => Ok(Some(text)),
        Some(_) => Err(type_error("string", key)),
    }
}

fn resolve_reference(from: &mut SchemaContext, reference: &str) -> Result<SchemaId, String> {
    match from.compiler.document.resolve(&from.target.base, reference) {
        Resolution::Local(target) if matches!(target.data, Data::Map(_) | Data::Bool(_)) => {
            Ok(from.compiler.enqueue(target))
        }
        Resolution::Local(_) => Err("valid schema must be of type object".to_owned()),
        // A fragment that is not a pointer refers to the whole document.
        Resolution::AnchorNotFound { .. } => {
            let root = from.compiler.document.root();
            Ok(from.compiler.enqueue(root))
        }
        Resolution::PointerNotFound { missing, .. } => Err(match missing {
            PointerError::Key(key) => format!("Object has no key '{key}'"),
            PointerError::Index(token) => format!("Invalid array index '{token}'"),
            PointerError::Bounds { length, index } => {
                format!("Out of bound array[0,{length}] index '{index}'")
            }
            PointerError::Scalar(token) => format!("Invalid token reference '{token}'"),
        }),
        Resolution::External(address) if address.contains("://") => {
            Err(format!("Get \"{address}\": references to other documents are not followed"))
        }
        Resolution::External(address) => Err(format!("Reference {address} must be canonical")),
    }
}

fn definitions(from: &mut SchemaContext) -> Result<(), String> {
    let bad = || type_error("array of schemas", "definitions");
    match from.get("definitions") {
        None => Ok(()),
        Some(Data::Map(definitions)) => {
            for (name, definition) in definitions {
                if !matches!(definition, Data::Map(_) | Data::Bool(_)) {
                    return Err(bad());
                }
                from.enqueue_subschema(definition, &["definitions", name]);
            }
            Ok(())
        }
        Some(_) => Err(bad()),
    }
}

fn types(from: &SchemaContext, schema: &mut Schema) -> Result<(), String> {
    let bad = || type_error("string/array of strings", "type");
    let names: Vec<&Str> = match from.get("type") {
        None => return Ok(()),
        Some(Data::String(name)) => vec![name],
        Some(Data::List(names)) => {
            let mut all = Vec::new();
            for name in names {
                let Data::String(name) = name else { return Err(bad()) };
                all.push(name);
            }
            all
        }
        Some(_) => return Err(bad()),
    };
    for name in names {
        let Some(kind) = JsonType::from_name(name) else {
            return Err(format!(
                "has a primitive type that is NOT VALID -- given: /{name}/ Expected valid values are:[array boolean \
                 integer number null object string]"
            ));
        };
        if schema.types.contains(&kind) {
            return Err(format!("{name} type is duplicated"));
        }
        schema.types.push(kind);
    }
    Ok(())
}

fn objects(from: &mut SchemaContext, schema: &mut Schema) -> Result<(), String> {
    if from.get("properties").is_some_and(|data| data.as_map().is_none()) {
        return Err("properties must be of type object".to_owned());
    }
    schema.properties = from.schema_map("properties").into_iter().collect();
    schema.additional_properties = additional_rule(from, "additionalProperties")?;
    match from.get("patternProperties") {
        None => {}
        Some(Data::Map(_)) => {
            for (text, id) in from.schema_map("patternProperties") {
                let pattern =
                    from.compiler.pattern(&text).map_err(|_| format!("Invalid regex pattern '{text}'"))?;
                schema.patterns.push((pattern, id));
            }
        }
        Some(_) => return Err(type_error("valid schema", "patternProperties")),
    }
    if schema.draft >= 6 {
        match from.get("propertyNames") {
            None | Some(Data::Map(_) | Data::Bool(_)) => schema.property_names = from.schema("propertyNames"),
            Some(_) => return Err(type_error("valid schema", "patternProperties")),
        }
    }
    let bad = || "dependency must be of type schema or array of strings".to_owned();
    match from.get("dependencies") {
        None => Ok(()),
        Some(Data::Map(dependencies)) => {
            for (name, needs) in dependencies {
                let needs = match needs {
                    Data::List(names) if names.iter().all(|name| name.as_str().is_some()) => {
                        DependencyRule::Members(super::super::compile::strings(names))
                    }
                    Data::Map(_) | Data::Bool(_) => {
                        DependencyRule::Schema(from.enqueue_subschema(needs, &["dependencies", name]))
                    }
                    _ => return Err(bad()),
                };
                schema.dependencies.push((name.clone(), needs));
            }
            Ok(())
        }
        Some(_) => Err("dependencies must be of type object".to_owned()),
    }
}

fn additional_rule(from: &mut SchemaContext, key: &str) -> Result<AdditionalRule, String> {
    Ok(match from.get(key) {
        None => AdditionalRule::Unspecified,
        Some(Data::Bool(true)) => AdditionalRule::Allowed,
        Some(Data::Bool(false)) => AdditionalRule::Forbidden,
        Some(data @ Data::Map(_)) => AdditionalRule::Schema(from.enqueue_subschema(data, &[key])),
        Some(_) => return Err(type_error("boolean/valid schema", key)),
    })
}

fn arrays(from: &mut SchemaContext, schema: &mut Schema) -> Result<(), String> {
    let bad = || type_error("valid schema/array of schemas", "items");
    let additional = additional_rule(from, "additionalItems")?;
    match from.get("items") {
        None => {}
        Some(Data::List(items)) => {
            if items.iter().any(|item| !matches!(item, Data::Map(_) | Data::Bool(_))) {
                return Err(bad());
            }
            schema.prefix_items = from.schema_list("items");
            if !schema.prefix_items.is_empty() {
                schema.items = additional;
            }
        }
        Some(data @ (Data::Map(_) | Data::Bool(_))) => {
            schema.items = AdditionalRule::Schema(from.enqueue_subschema(data, &["items"]));
        }
        Some(_) => return Err(bad()),
    }
    Ok(())
}

fn numbers(from: &SchemaContext, schema: &mut Schema) -> Result<(), String> {
    if let Some(data) = from.get("multipleOf") {
        let multiple = number::to_f64(data).ok_or_else(|| type_error("number", "multipleOf"))?;
        if multiple <= 0.0 {
            return Err("multipleOf must be strictly greater than 0".to_owned());
        }
        schema.multiple_of = Some(multiple);
    }
    (schema.minimum, schema.exclusive_minimum) = bound(from, schema.draft, "minimum", "exclusiveMinimum")?;
    (schema.maximum, schema.exclusive_maximum) = bound(from, schema.draft, "maximum", "exclusiveMaximum")?;
    Ok(())
}

/// A limit and its exclusive variant. In draft 4 the latter is a boolean that modifies the former.
fn bound(
    from: &SchemaContext,
    draft: u16,
    key: &str,
    exclusive: &str,
) -> Result<(Option<f64>, Option<f64>), String> {
    let limit = match from.get(key) {
        None => None,
        Some(data) => Some(number::to_f64(data).ok_or_else(|| format!("{key} must be of a number"))?),
    };
    match (from.get(exclusive), draft) {
        (None, _) => Ok((limit, None)),
        (Some(Data::Bool(switch)), 4 | HYBRID_DRAFT) => match limit {
            None => Err(format!("{exclusive} cannot be used without {key}")),
            Some(_) if *switch => Ok((None, limit)),
            Some(_) => Ok((limit, None)),
        },
        (Some(_), 4) => Err(type_error("boolean", exclusive)),
        (Some(data), draft) => match number::to_f64(data) {
            Some(excluded) => Ok((limit, Some(excluded))),
            None if draft == HYBRID_DRAFT => Err(type_error("boolean/number", exclusive)),
            None => Err(type_error("number", exclusive)),
        },
    }
}

fn count(from: &SchemaContext, key: &str) -> Result<Option<i64>, String> {
    match from.get(key).map(number::to_integer) {
        None => Ok(None),
        Some(None) => Err(format!("{key} must be of an integer")),
        Some(Some(count)) if count < 0 => Err(format!("{key} must be greater than or equal to 0")),
        Some(count) => Ok(count),
    }
}

fn limits(from: &mut SchemaContext, schema: &mut Schema) -> Result<(), String> {
    schema.min_length = count(from, "minLength")?;
    schema.max_length = count(from, "maxLength")?;
    if matches!((schema.min_length, schema.max_length), (Some(min), Some(max)) if min > max) {
        return Err("minLength cannot be greater than maxLength".to_owned());
    }
    match from.get("pattern") {
        None => {}
        Some(Data::String(text)) => {
            let pattern =
                from.compiler.pattern(text).map_err(|_| "pattern must be a valid regex".to_owned())?;
            schema.pattern = Some(pattern);
        }
        Some(_) => return Err("pattern must be of a string".to_owned()),
    }
    match from.get("format") {
        None => {}
        Some(Data::String(format)) => schema.format = Some(format.clone()),
        Some(_) => return Err("format must be of type string".to_owned()),
    }
    schema.min_properties = count(from, "minProperties")?;
    schema.max_properties = count(from, "maxProperties")?;
    if matches!((schema.min_properties, schema.max_properties), (Some(min), Some(max)) if min > max) {
        return Err("minProperties cannot be greater than maxProperties".to_owned());
    }
    match from.get("required") {
        None => {}
        Some(Data::List(names)) => {
            let mut seen = HashSet::new();
            for name in names {
                let Data::String(name) = name else { return Err("required items must be string".to_owned()) };
                if !seen.insert(name) {
                    return Err("required items must be unique".to_owned());
                }
                schema.required.push(name.clone());
            }
        }
        Some(_) => return Err("required must be of an array".to_owned()),
    }
    schema.min_items = count(from, "minItems")?;
    schema.max_items = count(from, "maxItems")?;
    match from.get("uniqueItems") {
        None => {}
        Some(Data::Bool(unique)) => schema.unique_items = *unique,
        Some(_) => return Err("uniqueItems must be of a boolean".to_owned()),
    }
    Ok(())
}

fn choices(from: &mut SchemaContext, schema: &mut Schema) -> Result<(), String> {
    if schema.draft >= 6 {
        schema.contains = from.schema("contains");
        schema.constant_json = from.get("const").map(|data| from.compiler.to_json(data)).transpose()?;
    }
    match from.get("enum") {
        None => {}
        Some(Data::List(items)) => {
            let mut choices =
                EnumValues { texts: HashSet::with_capacity(items.len()), display: String::new() };
            for item in items {
                let text = from.compiler.to_json(item)?;
                if !choices.texts.is_empty() {
                    choices.display += ", ";
                }
                choices.display += &text;
                if !choices.texts.insert(text) {
                    return Err("enum items must be unique".to_owned());
                }
            }
            // An empty `enum` restricts nothing.
            schema.enum_json = (!items.is_empty()).then_some(choices);
        }
        Some(_) => return Err("enum must be of an array".to_owned()),
    }
    for (key, blamed) in [("oneOf", "oneOf"), ("anyOf", "anyOf"), ("allOf", "anyOf")] {
        if from.get(key).is_some_and(|data| data.as_list().is_none()) {
            return Err(format!("{blamed} must be of an array"));
        }
    }
    schema.one_of = from.schema_list("oneOf");
    schema.any_of = from.schema_list("anyOf");
    schema.all_of = from.schema_list("allOf");
    schema.not = schema_or_nothing(from, "not")?;
    if schema.draft >= 7 {
        schema.if_schema = schema_or_nothing(from, "if")?;
        schema.then_schema = schema_or_nothing(from, "then")?;
        schema.else_schema = schema_or_nothing(from, "else")?;
    }
    Ok(())
}

fn schema_or_nothing(from: &mut SchemaContext, key: &str) -> Result<Option<SchemaId>, String> {
    match from.get(key) {
        None | Some(Data::Map(_) | Data::Bool(_)) => Ok(from.schema(key)),
        Some(_) => Err(format!("{key} must be of an object")),
    }
}
