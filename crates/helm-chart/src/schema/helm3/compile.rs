//! Compiles a schema as gojsonschema does, which validates the schema as it reads.

use std::collections::HashSet;

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::super::compile::{Compiler, Draught};
use super::super::document::{Document, Found, Missing, Target};
use super::super::model::{Choices, Id, Needs, Rest, Schema, Schemas, Type};
use super::super::number;

/// Without `$schema`, or with an unknown one, the keywords of all drafts apply.
const HYBRID: u16 = u16::MAX;

pub fn compile<'b>(root: &'b Data, budget: &'b Budget<'b>) -> Result<Schemas<'b>, String> {
    let draft = draft(root)?;
    let document = Document::new(root, "", id, budget)?;
    Compiler::new(document, Profile::Helm3, budget).run(|compiler, target| one(compiler, target, draft))
}

fn draft(root: &Data) -> Result<u16, String> {
    let named = match root {
        Data::Bool(_) => return Ok(HYBRID),
        Data::Map(members) => members.get("$schema"),
        _ => return Err("schema is invalid".to_owned()),
    };
    match named {
        None => Ok(HYBRID),
        Some(Data::String(name)) => Ok(match name.trim_end_matches('#') {
            "http://json-schema.org/draft-04/schema" => 4,
            "http://json-schema.org/draft-06/schema" => 6,
            "http://json-schema.org/draft-07/schema" => 7,
            _ => HYBRID,
        }),
        Some(_) => Err("$schema must be of type string".to_owned()),
    }
}

fn id(schema: &Data) -> Option<&str> {
    schema.get("id").or_else(|| schema.get("$id")).and_then(Data::as_str)
}

fn one<'d>(compiler: &mut Compiler<'d>, target: &Target<'d>, draft: u16) -> Result<Schema, String> {
    let members = match target.data {
        Data::Bool(verdict) if draft >= 6 => {
            return Ok(Schema { verdict: Some(*verdict), ..Schema::default() });
        }
        Data::Map(members) => members,
        _ => return Err("Expected: valid schema, given: Invalid JSON".to_owned()),
    };
    let mut from = Draught { compiler, members, target: target.clone() };
    let mut schema = Schema { draft, ..Schema::default() };
    let id = if draft == 4 || (draft == HYBRID && members.contains_key("id")) { "id" } else { "$id" };
    text(&from, id)?;
    definitions(&mut from)?;
    text(&from, "title")?;
    text(&from, "description")?;
    if let Some(reference) = text(&from, "$ref")? {
        schema.reference = Some(follow(&mut from, reference)?);
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

fn wrong(expected: &str, given: &str) -> String {
    format!("Invalid type. Expected: {expected}, given: {given}")
}

fn text<'d>(from: &Draught<'_, 'd>, key: &str) -> Result<Option<&'d Str>, String> {
    match from.get(key) {
        None => Ok(None),
        Some(Data::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong("string", key)),
    }
}

fn follow(from: &mut Draught, reference: &str) -> Result<Id, String> {
    match from.compiler.document.follow(&from.target.base, reference) {
        Found::Here(target) if matches!(target.data, Data::Map(_) | Data::Bool(_)) => {
            Ok(from.compiler.enqueue(target))
        }
        Found::Here(_) => Err("valid schema must be of type object".to_owned()),
        // A fragment that is not a pointer refers to the whole document.
        Found::NoAnchor { .. } => {
            let root = from.compiler.document.root();
            Ok(from.compiler.enqueue(root))
        }
        Found::NoPointer { missing, .. } => Err(match missing {
            Missing::Key(key) => format!("Object has no key '{key}'"),
            Missing::Index(token) => format!("Invalid array index '{token}'"),
            Missing::Bounds { length, index } => format!("Out of bound array[0,{length}] index '{index}'"),
            Missing::Scalar(token) => format!("Invalid token reference '{token}'"),
        }),
        Found::Elsewhere(address) if address.contains("://") => {
            Err(format!("Get \"{address}\": references to other documents are not followed"))
        }
        Found::Elsewhere(address) => Err(format!("Reference {address} must be canonical")),
    }
}

fn definitions(from: &mut Draught) -> Result<(), String> {
    let bad = || wrong("array of schemas", "definitions");
    match from.get("definitions") {
        None => Ok(()),
        Some(Data::Map(definitions)) => {
            for (name, definition) in definitions {
                if !matches!(definition, Data::Map(_) | Data::Bool(_)) {
                    return Err(bad());
                }
                from.inner(definition, &["definitions", name]);
            }
            Ok(())
        }
        Some(_) => Err(bad()),
    }
}

fn types(from: &Draught, schema: &mut Schema) -> Result<(), String> {
    let bad = || wrong("string/array of strings", "type");
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
        let Some(kind) = Type::named(name) else {
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

fn objects(from: &mut Draught, schema: &mut Schema) -> Result<(), String> {
    if from.get("properties").is_some_and(|data| data.as_map().is_none()) {
        return Err("properties must be of type object".to_owned());
    }
    schema.properties = from.table("properties").into_iter().collect();
    schema.additional_properties = rest(from, "additionalProperties")?;
    match from.get("patternProperties") {
        None => {}
        Some(Data::Map(_)) => {
            for (text, id) in from.table("patternProperties") {
                let pattern =
                    from.compiler.pattern(&text).map_err(|_| format!("Invalid regex pattern '{text}'"))?;
                schema.patterns.push((pattern, id));
            }
        }
        Some(_) => return Err(wrong("valid schema", "patternProperties")),
    }
    if schema.draft >= 6 {
        match from.get("propertyNames") {
            None | Some(Data::Map(_) | Data::Bool(_)) => schema.property_names = from.one("propertyNames"),
            Some(_) => return Err(wrong("valid schema", "patternProperties")),
        }
    }
    let bad = || "dependency must be of type schema or array of strings".to_owned();
    match from.get("dependencies") {
        None => Ok(()),
        Some(Data::Map(dependencies)) => {
            for (name, needs) in dependencies {
                let needs = match needs {
                    Data::List(names) if names.iter().all(|name| name.as_str().is_some()) => {
                        Needs::Members(super::super::compile::texts(names))
                    }
                    Data::Map(_) | Data::Bool(_) => Needs::Schema(from.inner(needs, &["dependencies", name])),
                    _ => return Err(bad()),
                };
                schema.dependencies.push((name.clone(), needs));
            }
            Ok(())
        }
        Some(_) => Err("dependencies must be of type object".to_owned()),
    }
}

fn rest(from: &mut Draught, key: &str) -> Result<Rest, String> {
    Ok(match from.get(key) {
        None => Rest::Unsaid,
        Some(Data::Bool(true)) => Rest::Allowed,
        Some(Data::Bool(false)) => Rest::Refused,
        Some(data @ Data::Map(_)) => Rest::Schema(from.inner(data, &[key])),
        Some(_) => return Err(wrong("boolean/valid schema", key)),
    })
}

fn arrays(from: &mut Draught, schema: &mut Schema) -> Result<(), String> {
    let bad = || wrong("valid schema/array of schemas", "items");
    let additional = rest(from, "additionalItems")?;
    match from.get("items") {
        None => {}
        Some(Data::List(items)) => {
            if items.iter().any(|item| !matches!(item, Data::Map(_) | Data::Bool(_))) {
                return Err(bad());
            }
            schema.tuple = from.list("items");
            if !schema.tuple.is_empty() {
                schema.items = additional;
            }
        }
        Some(data @ (Data::Map(_) | Data::Bool(_))) => {
            schema.items = Rest::Schema(from.inner(data, &["items"]));
        }
        Some(_) => return Err(bad()),
    }
    Ok(())
}

fn numbers(from: &Draught, schema: &mut Schema) -> Result<(), String> {
    if let Some(data) = from.get("multipleOf") {
        let multiple = number::of(data).ok_or_else(|| wrong("number", "multipleOf"))?;
        if multiple <= 0.0 {
            return Err("multipleOf must be strictly greater than 0".to_owned());
        }
        schema.multiple_of = Some(multiple);
    }
    (schema.minimum, schema.above) = bound(from, schema.draft, "minimum", "exclusiveMinimum")?;
    (schema.maximum, schema.below) = bound(from, schema.draft, "maximum", "exclusiveMaximum")?;
    Ok(())
}

/// A limit and its exclusive variant. In draft 4 the latter is a boolean that modifies the former.
fn bound(
    from: &Draught,
    draft: u16,
    key: &str,
    exclusive: &str,
) -> Result<(Option<f64>, Option<f64>), String> {
    let limit = match from.get(key) {
        None => None,
        Some(data) => Some(number::of(data).ok_or_else(|| format!("{key} must be of a number"))?),
    };
    match (from.get(exclusive), draft) {
        (None, _) => Ok((limit, None)),
        (Some(Data::Bool(switch)), 4 | HYBRID) => match limit {
            None => Err(format!("{exclusive} cannot be used without {key}")),
            Some(_) if *switch => Ok((None, limit)),
            Some(_) => Ok((limit, None)),
        },
        (Some(_), 4) => Err(wrong("boolean", exclusive)),
        (Some(data), draft) => match number::of(data) {
            Some(excluded) => Ok((limit, Some(excluded))),
            None if draft == HYBRID => Err(wrong("boolean/number", exclusive)),
            None => Err(wrong("number", exclusive)),
        },
    }
}

fn count(from: &Draught, key: &str) -> Result<Option<i64>, String> {
    match from.get(key).map(number::whole) {
        None => Ok(None),
        Some(None) => Err(format!("{key} must be of an integer")),
        Some(Some(count)) if count < 0 => Err(format!("{key} must be greater than or equal to 0")),
        Some(count) => Ok(count),
    }
}

fn limits(from: &mut Draught, schema: &mut Schema) -> Result<(), String> {
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
        Some(Data::Bool(unique)) => schema.unique = *unique,
        Some(_) => return Err("uniqueItems must be of a boolean".to_owned()),
    }
    Ok(())
}

fn choices(from: &mut Draught, schema: &mut Schema) -> Result<(), String> {
    if schema.draft >= 6 {
        schema.contains = from.one("contains");
        schema.written_constant = from.get("const").map(|data| from.compiler.written(data)).transpose()?;
    }
    match from.get("enum") {
        None => {}
        Some(Data::List(items)) => {
            let mut choices = Choices { texts: HashSet::with_capacity(items.len()), shown: String::new() };
            for item in items {
                let text = from.compiler.written(item)?;
                if !choices.texts.is_empty() {
                    choices.shown += ", ";
                }
                choices.shown += &text;
                if !choices.texts.insert(text) {
                    return Err("enum items must be unique".to_owned());
                }
            }
            // An empty `enum` restricts nothing.
            schema.written_choices = (!items.is_empty()).then_some(choices);
        }
        Some(_) => return Err("enum must be of an array".to_owned()),
    }
    for (key, blamed) in [("oneOf", "oneOf"), ("anyOf", "anyOf"), ("allOf", "anyOf")] {
        if from.get(key).is_some_and(|data| data.as_list().is_none()) {
            return Err(format!("{blamed} must be of an array"));
        }
    }
    schema.one_of = from.list("oneOf");
    schema.any_of = from.list("anyOf");
    schema.all_of = from.list("allOf");
    schema.not = schema_or_nothing(from, "not")?;
    if schema.draft >= 7 {
        schema.condition = schema_or_nothing(from, "if")?;
        schema.then = schema_or_nothing(from, "then")?;
        schema.otherwise = schema_or_nothing(from, "else")?;
    }
    Ok(())
}

fn schema_or_nothing(from: &mut Draught, key: &str) -> Result<Option<Id>, String> {
    match from.get(key) {
        None | Some(Data::Map(_) | Data::Bool(_)) => Ok(from.one(key)),
        Some(_) => Err(format!("{key} must be of an object")),
    }
}
