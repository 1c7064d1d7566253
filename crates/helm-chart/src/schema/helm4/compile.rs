//! Compiles a schema as the jsonschema library does: keywords of a wrong type are ignored.

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::super::compile::{SchemaCompiler, SchemaContext, strings};
use super::super::document::{Resolution, SchemaDocument, SchemaLocation};
use super::super::model::{AdditionalRule, DependencyRule, JsonType, Schema, SchemaId, Schemas};
use super::super::number;
use super::meta;
use crate::values::ValuesWarning;

/// The URL that Helm assigns to the schema.
pub const SCHEMA_URL: &str = "file:///values.schema.json";

pub fn compile<'b>(
    root: &'b Data,
    budget: &'b Budget<'b>,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Schemas<'b>, String> {
    let draft = draft(root)?;
    meta::check(root, draft, budget)?;
    let document = SchemaDocument::new(root, SCHEMA_URL, if draft == 4 { draft4_id } else { id }, budget)?;
    // From 2019-09 on a format is only an annotation.
    let rules = CompileOptions { draft, assert_formats: draft < 2019 };
    let compiled = SchemaCompiler::new(document, Profile::Helm4, budget)
        .run(|compiler, target| compile_schema(compiler, target, rules, warnings));
    // For an invalid pattern the metaschema reports the error.
    compiled.map_err(|error| meta::validate_against_metaschema(root, draft, budget).err().unwrap_or(error))
}

/// Compiles a metaschema, in which formats are always asserted.
pub fn compile_meta<'b>(root: &'b Data, draft: u16, budget: &'b Budget<'b>) -> Result<Schemas<'b>, String> {
    let document = SchemaDocument::new(root, SCHEMA_URL, |_| None, budget)?;
    let rules = CompileOptions { draft, assert_formats: true };
    SchemaCompiler::new(document, Profile::Helm4, budget)
        .run(|compiler, target| compile_schema(compiler, target, rules, &mut vec![]))
}

#[derive(Clone, Copy)]
struct CompileOptions {
    draft: u16,
    assert_formats: bool,
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
        _ => Err(external_reference_error(address)),
    }
}

fn external_reference_error(address: &str) -> String {
    format!("failing loading {}: references to other documents are not followed", quote(address))
}

fn id(schema: &Data) -> Option<&str> {
    schema.get("$id").and_then(Data::as_str)
}

fn draft4_id(schema: &Data) -> Option<&str> {
    schema.get("id").and_then(Data::as_str)
}

fn compile_schema<'d>(
    compiler: &mut SchemaCompiler<'d>,
    target: &SchemaLocation<'d>,
    rules: CompileOptions,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Schema, String> {
    let draft = rules.draft;
    let members = match target.data {
        Data::Bool(verdict) => {
            return Ok(Schema { boolean_result: Some(*verdict), draft, ..Schema::default() });
        }
        Data::Map(members) if !members.is_empty() => members,
        _ => return Ok(Schema { boolean_result: Some(true), draft, ..Schema::default() }),
    };
    let mut from = SchemaContext { compiler, members, target: target.clone() };
    let mut schema = Schema { draft, ..Schema::default() };
    if let Some(Data::String(reference)) = from.get("$ref") {
        schema.reference = resolve_reference(&mut from, reference, warnings)?;
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
        schema.recursive = resolve_reference(&mut from, reference, warnings)?;
    }
    if draft >= 2020
        && let Some(Data::String(reference)) = from.get("$dynamicRef")
        && let Some(id) = resolve_reference(&mut from, reference, warnings)?
    {
        let name = reference.split_once('#').map(|(_, name)| name);
        let name = name.filter(|name| !name.is_empty() && !name.starts_with('/'));
        schema.dynamic = Some((id, name.map(Str::from)));
    }
    if draft >= 2019 && from.compiler.document.is_dynamic() {
        compile_dynamic(&mut from, &mut schema);
    }
    Ok(schema)
}

/// Compiles dynamic references and anchors.
fn compile_dynamic(from: &mut SchemaContext, schema: &mut Schema) {
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
fn resolve_reference(
    from: &mut SchemaContext,
    reference: &str,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<Option<SchemaId>, String> {
    match from.compiler.document.resolve(&from.target.base, reference) {
        Resolution::Local(target) => Ok(Some(from.compiler.enqueue(target))),
        Resolution::PointerNotFound { address, pointer, .. } => {
            Err(format!("json-pointer in {} not found", quote(&format!("{address}#{pointer}"))))
        }
        Resolution::AnchorNotFound { address, anchor } => Err(format!(
            "anchor in {} not found in schema {}",
            quote(&format!("{address}#{anchor}")),
            quote(&address)
        )),
        Resolution::External(address) if address.starts_with("urn:") => {
            let message = "unresolved URN reference ignored; using permissive schema";
            warnings.push(ValuesWarning::warn_record(
                Profile::Helm4,
                ("", ""),
                message,
                &[("urn", &address)],
            ));
            Ok(None)
        }
        Resolution::External(address) => Err(external_reference_error(&address)),
    }
}

fn combinations(from: &mut SchemaContext, schema: &mut Schema) {
    schema.all_of = from.schema_list("allOf");
    schema.any_of = from.schema_list("anyOf");
    schema.one_of = from.schema_list("oneOf");
    schema.not = from.schema("not");
    if schema.draft >= 7 {
        schema.if_schema = from.schema("if");
        let always = from.get("if").and_then(Data::as_bool);
        if schema.if_schema.is_some() && always != Some(false) {
            schema.then_schema = from.schema("then");
        }
        if schema.if_schema.is_some() && always != Some(true) {
            schema.else_schema = from.schema("else");
        }
    }
}

fn objects(from: &mut SchemaContext, schema: &mut Schema) -> Result<(), String> {
    schema.properties = from.schema_map("properties").into_iter().collect();
    for (text, id) in from.schema_map("patternProperties") {
        let pattern = from
            .compiler
            .pattern(&text)
            .map_err(|why| pattern_error(from, "patternProperties", &text, &why))?;
        schema.patterns.push((pattern, id));
    }
    schema.additional_properties = additional_rule(from, "additionalProperties");
    schema.dependencies = dependencies(from, "dependencies");
    if schema.draft >= 6 {
        schema.property_names = from.schema("propertyNames");
    }
    if schema.draft >= 2019 {
        schema.dependents = dependencies(from, "dependentSchemas");
        schema.dependents.extend(dependencies(from, "dependentRequired"));
        schema.unevaluated_properties = from.schema("unevaluatedProperties");
    }
    Ok(())
}

fn pattern_error(from: &SchemaContext, key: &str, text: &str, why: &str) -> String {
    format!(
        "invalid regex {} at {}: {why}",
        quote(text),
        quote(&format!("{SCHEMA_URL}#{}/{key}", from.target.pointer))
    )
}

fn additional_rule(from: &mut SchemaContext, key: &str) -> AdditionalRule {
    match from.get(key) {
        None => AdditionalRule::Unspecified,
        Some(Data::Bool(true)) => AdditionalRule::Allowed,
        Some(Data::Bool(false)) => AdditionalRule::Forbidden,
        Some(data) => AdditionalRule::Schema(from.enqueue_subschema(data, &[key])),
    }
}

fn dependencies(from: &mut SchemaContext, key: &str) -> Vec<(Str, DependencyRule)> {
    let mut all = Vec::new();
    for (name, data) in from.get(key).and_then(Data::as_map).into_iter().flatten() {
        let needs = match data {
            Data::List(names) => DependencyRule::Members(strings(names)),
            data => DependencyRule::Schema(from.enqueue_subschema(data, &[key, name])),
        };
        all.push((name.clone(), needs));
    }
    all
}

fn arrays(from: &mut SchemaContext, schema: &mut Schema) {
    if schema.draft >= 2020 {
        schema.prefix_items = from.schema_list("prefixItems");
        schema.items = from.schema("items").map_or(AdditionalRule::Unspecified, AdditionalRule::Schema);
    } else if let Some(Data::List(_)) = from.get("items") {
        schema.prefix_items = from.schema_list("items");
        schema.items = additional_rule(from, "additionalItems");
    } else {
        schema.items = from.schema("items").map_or(AdditionalRule::Unspecified, AdditionalRule::Schema);
    }
    if schema.draft >= 6 {
        schema.contains = from.schema("contains");
    }
    if schema.draft >= 2019 {
        schema.min_contains = count(from, "minContains");
        schema.max_contains = count(from, "maxContains");
        schema.unevaluated_items = from.schema("unevaluatedItems");
    }
}

fn count(from: &SchemaContext, key: &str) -> Option<i64> {
    from.get(key).and_then(number::to_integer)
}

fn values(from: &mut SchemaContext, schema: &mut Schema, rules: CompileOptions) -> Result<(), String> {
    let named = match from.get("type") {
        Some(Data::String(name)) => vec![name.clone()],
        Some(Data::List(names)) => strings(names),
        _ => vec![],
    };
    schema.types = named.iter().filter_map(|name| JsonType::from_name(name)).collect();
    schema.types.sort_unstable();
    schema.types.dedup();
    schema.enum_values = from.get("enum").and_then(Data::as_list).map(<[Data]>::to_vec);
    if schema.draft >= 6 {
        schema.constant = from.get("const").cloned();
    }
    if rules.assert_formats
        && let Some(Data::String(format)) = from.get("format")
    {
        schema.format = Some(format.clone());
    }
    let number = |key: &str| from.get(key).and_then(number::to_f64);
    let bound = |key: &str, exclusive: &str| match from.get(exclusive) {
        Some(Data::Bool(true)) => (None, number(key)),
        _ => (number(key), number(exclusive)),
    };
    (schema.minimum, schema.exclusive_minimum) = bound("minimum", "exclusiveMinimum");
    (schema.maximum, schema.exclusive_maximum) = bound("maximum", "exclusiveMaximum");
    schema.multiple_of = number("multipleOf").filter(|multiple| *multiple != 0.0);
    schema.min_length = count(from, "minLength");
    schema.max_length = count(from, "maxLength");
    if let Some(Data::String(text)) = from.get("pattern") {
        let pattern =
            from.compiler.pattern(text).map_err(|why| pattern_error(from, "pattern", text, &why))?;
        schema.pattern = Some(pattern);
    }
    schema.min_items = count(from, "minItems");
    schema.max_items = count(from, "maxItems");
    schema.unique_items = from.get("uniqueItems") == Some(&Data::Bool(true));
    schema.min_properties = count(from, "minProperties");
    schema.max_properties = count(from, "maxProperties");
    schema.required = from.get("required").and_then(Data::as_list).map(strings).unwrap_or_default();
    Ok(())
}
