//! Compiles a schema as the jsonschema library does: keywords of a wrong type are ignored.

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::super::compile::{Compiler, Draught, texts};
use super::super::document::{Document, Found, Target};
use super::super::model::{Id, Needs, Rest, Schema, Schemas, Type};
use super::super::number;
use super::meta;
use crate::values::Warning;

/// The URL that Helm assigns to the schema.
pub const ADDRESS: &str = "file:///values.schema.json";

pub fn compile<'b>(
    root: &'b Data,
    budget: &'b Budget<'b>,
    warnings: &mut Vec<Warning>,
) -> Result<Schemas<'b>, String> {
    let draft = draft(root)?;
    meta::check(root, draft, budget)?;
    let document = Document::new(root, ADDRESS, if draft == 4 { old_id } else { id }, budget)?;
    // From 2019-09 on a format is only an annotation.
    let rules = Rules { draft, formats: draft < 2019 };
    let compiled = Compiler::new(document, Profile::Helm4, budget)
        .run(|compiler, target| one(compiler, target, rules, warnings));
    // For an invalid pattern the metaschema reports the error.
    compiled.map_err(|error| meta::judge(root, draft, budget).err().unwrap_or(error))
}

/// Compiles a metaschema, in which formats are always asserted.
pub fn compile_meta<'b>(root: &'b Data, draft: u16, budget: &'b Budget<'b>) -> Result<Schemas<'b>, String> {
    let document = Document::new(root, ADDRESS, |_| None, budget)?;
    let rules = Rules { draft, formats: true };
    Compiler::new(document, Profile::Helm4, budget)
        .run(|compiler, target| one(compiler, target, rules, &mut vec![]))
}

#[derive(Clone, Copy)]
struct Rules {
    draft: u16,
    formats: bool,
}

fn draft(root: &Data) -> Result<u16, String> {
    let Some(name) = root.get("$schema").and_then(Data::as_str) else { return Ok(2020) };
    let (address, fragment) = name.split_once('#').unwrap_or((name, ""));
    let host =
        address.strip_prefix("http://").or_else(|| address.strip_prefix("https://")).unwrap_or(address);
    match (host, fragment) {
        ("json-schema.org/schema" | "json-schema.org/draft/2020-12/schema", "") => Ok(2020),
        ("json-schema.org/draft/2019-09/schema", "") => Ok(2019),
        ("json-schema.org/draft-07/schema", "") => Ok(7),
        ("json-schema.org/draft-06/schema", "") => Ok(6),
        ("json-schema.org/draft-04/schema", "") => Ok(4),
        _ => Err(elsewhere(address)),
    }
}

fn elsewhere(address: &str) -> String {
    format!("failing loading {}: references to other documents are not followed", quote(address))
}

fn id(schema: &Data) -> Option<&str> {
    schema.get("$id").and_then(Data::as_str)
}

fn old_id(schema: &Data) -> Option<&str> {
    schema.get("id").and_then(Data::as_str)
}

fn one<'d>(
    compiler: &mut Compiler<'d>,
    target: &Target<'d>,
    rules: Rules,
    warnings: &mut Vec<Warning>,
) -> Result<Schema, String> {
    let draft = rules.draft;
    let members = match target.data {
        Data::Bool(verdict) => return Ok(Schema { verdict: Some(*verdict), draft, ..Schema::default() }),
        Data::Map(members) if !members.is_empty() => members,
        _ => return Ok(Schema { verdict: Some(true), draft, ..Schema::default() }),
    };
    let mut from = Draught { compiler, members, target: target.clone() };
    let mut schema = Schema { draft, ..Schema::default() };
    if let Some(Data::String(reference)) = from.get("$ref") {
        schema.reference = follow(&mut from, reference, warnings)?;
        if draft < 2019 {
            // Keywords beside a reference are ignored, except one that the library fails to skip.
            if draft >= 6 {
                schema.constant = from.get("const").cloned();
            }
            return Ok(schema);
        }
    }
    combinations(&mut from, &mut schema);
    objects(&mut from, &mut schema)?;
    arrays(&mut from, &mut schema);
    values(&mut from, &mut schema, rules)?;
    if draft >= 2019
        && let Some(Data::String(reference)) = from.get("$recursiveRef")
    {
        schema.recursive = follow(&mut from, reference, warnings)?;
    }
    if draft >= 2020
        && let Some(Data::String(reference)) = from.get("$dynamicRef")
        && let Some(id) = follow(&mut from, reference, warnings)?
    {
        let name = reference.split_once('#').map(|(_, name)| name);
        let name = name.filter(|name| !name.is_empty() && !name.starts_with('/'));
        schema.dynamic = Some((id, name.map(Str::from)));
    }
    if draft >= 2019 && from.compiler.document.is_dynamic() {
        dynamic(&mut from, &mut schema);
    }
    Ok(schema)
}

/// Compiles dynamic references and anchors.
fn dynamic(from: &mut Draught, schema: &mut Schema) {
    schema.recursive_anchor = from.get("$recursiveAnchor") == Some(&Data::Bool(true));
    if let Some(Data::String(name)) = from.get("$dynamicAnchor") {
        schema.dynamic_anchor = Some(name.clone());
    }
    let part = from.compiler.document.part(&from.target.base);
    let is_whole = std::ptr::eq(part.data, from.target.data);
    schema.resource = Some(from.compiler.enqueue(part));
    if is_whole && schema.draft >= 2020 {
        for (name, target) in from.compiler.document.dynamic_anchors(&from.target.base) {
            schema.dynamic_anchors.insert(name, from.compiler.enqueue(target));
        }
    }
}

/// Resolves a reference; `None` for an unresolvable URN, which Helm ignores with a warning.
fn follow(from: &mut Draught, reference: &str, warnings: &mut Vec<Warning>) -> Result<Option<Id>, String> {
    match from.compiler.document.follow(&from.target.base, reference) {
        Found::Here(target) => Ok(Some(from.compiler.enqueue(target))),
        Found::NoPointer { address, pointer, .. } => {
            Err(format!("json-pointer in {} not found", quote(&format!("{address}#{pointer}"))))
        }
        Found::NoAnchor { address, anchor } => Err(format!(
            "anchor in {} not found in schema {}",
            quote(&format!("{address}#{anchor}")),
            quote(&address)
        )),
        Found::Elsewhere(address) if address.starts_with("urn:") => {
            let message = "unresolved URN reference ignored; using permissive schema";
            warnings.push(Warning::structured(Profile::Helm4, ("", ""), message, &[("urn", &address)]));
            Ok(None)
        }
        Found::Elsewhere(address) => Err(elsewhere(&address)),
    }
}

fn combinations(from: &mut Draught, schema: &mut Schema) {
    schema.all_of = from.list("allOf");
    schema.any_of = from.list("anyOf");
    schema.one_of = from.list("oneOf");
    schema.not = from.one("not");
    if schema.draft >= 7 {
        schema.condition = from.one("if");
        let always = from.get("if").and_then(Data::as_bool);
        if schema.condition.is_some() && always != Some(false) {
            schema.then = from.one("then");
        }
        if schema.condition.is_some() && always != Some(true) {
            schema.otherwise = from.one("else");
        }
    }
}

fn objects(from: &mut Draught, schema: &mut Schema) -> Result<(), String> {
    schema.properties = from.table("properties").into_iter().collect();
    for (text, id) in from.table("patternProperties") {
        let pattern = from
            .compiler
            .pattern(&text)
            .map_err(|why| bad_pattern(from, "patternProperties", &text, &why))?;
        schema.patterns.push((pattern, id));
    }
    schema.additional_properties = rest(from, "additionalProperties");
    schema.dependencies = dependencies(from, "dependencies");
    if schema.draft >= 6 {
        schema.property_names = from.one("propertyNames");
    }
    if schema.draft >= 2019 {
        schema.dependents = dependencies(from, "dependentSchemas");
        schema.dependents.extend(dependencies(from, "dependentRequired"));
        schema.unevaluated_properties = from.one("unevaluatedProperties");
    }
    Ok(())
}

fn bad_pattern(from: &Draught, key: &str, text: &str, why: &str) -> String {
    format!(
        "invalid regex {} at {}: {why}",
        quote(text),
        quote(&format!("{ADDRESS}#{}/{key}", from.target.at))
    )
}

fn rest(from: &mut Draught, key: &str) -> Rest {
    match from.get(key) {
        None => Rest::Unsaid,
        Some(Data::Bool(true)) => Rest::Allowed,
        Some(Data::Bool(false)) => Rest::Refused,
        Some(data) => Rest::Schema(from.inner(data, &[key])),
    }
}

fn dependencies(from: &mut Draught, key: &str) -> Vec<(Str, Needs)> {
    let mut all = Vec::new();
    for (name, data) in from.get(key).and_then(Data::as_map).into_iter().flatten() {
        let needs = match data {
            Data::List(names) => Needs::Members(texts(names)),
            data => Needs::Schema(from.inner(data, &[key, name])),
        };
        all.push((name.clone(), needs));
    }
    all
}

fn arrays(from: &mut Draught, schema: &mut Schema) {
    if schema.draft >= 2020 {
        schema.tuple = from.list("prefixItems");
        schema.items = from.one("items").map_or(Rest::Unsaid, Rest::Schema);
    } else if let Some(Data::List(_)) = from.get("items") {
        schema.tuple = from.list("items");
        schema.items = rest(from, "additionalItems");
    } else {
        schema.items = from.one("items").map_or(Rest::Unsaid, Rest::Schema);
    }
    if schema.draft >= 6 {
        schema.contains = from.one("contains");
    }
    if schema.draft >= 2019 {
        schema.min_contains = count(from, "minContains");
        schema.max_contains = count(from, "maxContains");
        schema.unevaluated_items = from.one("unevaluatedItems");
    }
}

fn count(from: &Draught, key: &str) -> Option<i64> {
    from.get(key).and_then(number::whole)
}

fn values(from: &mut Draught, schema: &mut Schema, rules: Rules) -> Result<(), String> {
    let named = match from.get("type") {
        Some(Data::String(name)) => vec![name.clone()],
        Some(Data::List(names)) => texts(names),
        _ => vec![],
    };
    schema.types = named.iter().filter_map(|name| Type::named(name)).collect();
    schema.types.sort_unstable();
    schema.types.dedup();
    schema.choices = from.get("enum").and_then(Data::as_list).map(<[Data]>::to_vec);
    if schema.draft >= 6 {
        schema.constant = from.get("const").cloned();
    }
    if rules.formats
        && let Some(Data::String(format)) = from.get("format")
    {
        schema.format = Some(format.clone());
    }
    let number = |key: &str| from.get(key).and_then(number::of);
    let bound = |key: &str, exclusive: &str| match from.get(exclusive) {
        Some(Data::Bool(true)) => (None, number(key)),
        _ => (number(key), number(exclusive)),
    };
    (schema.minimum, schema.above) = bound("minimum", "exclusiveMinimum");
    (schema.maximum, schema.below) = bound("maximum", "exclusiveMaximum");
    schema.multiple_of = number("multipleOf").filter(|multiple| *multiple != 0.0);
    schema.min_length = count(from, "minLength");
    schema.max_length = count(from, "maxLength");
    if let Some(Data::String(text)) = from.get("pattern") {
        let pattern = from.compiler.pattern(text).map_err(|why| bad_pattern(from, "pattern", text, &why))?;
        schema.pattern = Some(pattern);
    }
    schema.min_items = count(from, "minItems");
    schema.max_items = count(from, "maxItems");
    schema.unique = from.get("uniqueItems") == Some(&Data::Bool(true));
    schema.min_properties = count(from, "minProperties");
    schema.max_properties = count(from, "maxProperties");
    schema.required = from.get("required").and_then(Data::as_list).map(texts).unwrap_or_default();
    Ok(())
}
