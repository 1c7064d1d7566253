//! Validation of a value against its schema, with the error texts of Kubernetes.
//!
//! Runs for every write of a custom resource and for the defaults in a CRD. On an update, errors of parts that equal the old ones are
//! dropped (ratcheting): an accepted value stays acceptable.
//!
//! See also: CEL rules (`super::cel`), duplicates in lists (`super::lists`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::formats;
use super::numbers::{self, SchemaNumber};
use super::schema::{AdditionalProperties, ListType, StructuralSchema};
use crate::field::{FieldError, FieldErrorType, FieldErrors, Path};

/// Validates `value`; `base_path` is prepended to every path, `old` is the value before an update.
pub fn check(
    value: &Value,
    old: Option<&Value>,
    schema: &StructuralSchema,
    base_path: Option<&Path>,
) -> FieldErrors {
    let mut walk = SchemaValidator { at: base_path };
    walk.ratcheted(value, old, schema, "").errors
}

/// Result of validating one node. `matched` counts the applied checks: if all alternatives fail, the errors of the one with the most
/// applied checks are returned.
#[derive(Default)]
struct NodeResult {
    errors: FieldErrors,
    /// Texts of the errors, for deduplication.
    reported: HashSet<String>,
    matched: usize,
}

impl NodeResult {
    /// Adds an error, deduplicated.
    fn add(&mut self, error: FieldError) {
        if self.errors.is_full() || self.reported.insert(error.to_string()) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        let omitted = other.errors.omitted();
        other.errors.into_iter().for_each(|error| self.add(error));
        self.errors.omit(omitted);
        self.matched += other.matched;
    }
}

struct SchemaValidator<'a> {
    at: Option<&'a Path>,
}

impl SchemaValidator<'_> {
    fn path(&self, name: &str) -> Path {
        let name = name.strip_prefix('.').unwrap_or(name);
        match (self.at, name.is_empty()) {
            (Some(at), true) => at.clone(),
            (Some(at), false) => at.field(name),
            (None, true) => Path::new("<nil>"),
            (None, false) => Path::new(name),
        }
    }

    /// An error without a field.
    fn error_without_field(&self, text: String) -> FieldError {
        FieldError::invalid(&self.at.cloned().unwrap_or_else(|| Path::new("<nil>")), "", text)
    }

    /// Like [`SchemaValidator::node`], but drops all errors if the value is unchanged.
    fn ratcheted(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &StructuralSchema,
        name: &str,
    ) -> NodeResult {
        let mut outcome = self.node(value, old, schema, name);
        if !outcome.errors.is_empty() && old.is_some_and(|old| old == value) {
            outcome.errors = FieldErrors::new();
        }
        outcome
    }

    fn node(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &StructuralSchema,
        name: &str,
    ) -> NodeResult {
        let mut outcome = NodeResult::default();
        let typed = !schema.types().is_empty() || !schema.format.is_empty();
        if typed {
            match self.type_of(value, schema, name) {
                Some(error) => outcome.add(error),
                None => outcome.matched += 1,
            }
            outcome.matched += usize::from(!value.is_null());
        }
        if value.is_null() {
            self.enum_value(value, schema, name, &mut outcome);
            return outcome;
        }
        outcome.merge(self.combined_schemas(value, old, schema, name));
        outcome.matched += 1;
        match value {
            Value::String(text) => self.text(text, schema, name, &mut outcome),
            Value::Number(_) => {
                if let Some(number) = SchemaNumber::from_value(value) {
                    let path = self.path(name);
                    let mut complain = |complaint: numbers::NumberError| {
                        outcome.add(match complaint {
                            numbers::NumberError::Field(text) => {
                                FieldError::invalid(&path, value.clone(), text)
                            }
                            numbers::NumberError::General(text) => self.error_without_field(text),
                            numbers::NumberError::Value(value, text) => {
                                FieldError::invalid(&path, value, text)
                            }
                        });
                    };
                    numbers::check(number, schema, name, &mut complain);
                    outcome.matched += 2;
                }
            }
            Value::Array(items) => self.items(items, old, schema, name, &mut outcome),
            _ => {}
        }
        self.enum_value(value, schema, name, &mut outcome);
        outcome.matched += 1;
        if let Value::Object(_) = value {
            self.fields(value, old, schema, name, &mut outcome);
            outcome.matched += 1;
        }
        outcome.matched += 1;
        outcome
    }

    fn type_of(&self, value: &Value, schema: &StructuralSchema, name: &str) -> Option<FieldError> {
        let wanted = schema.types();
        let wrong = |wanted: &str, found: &str| {
            let text = format!("{name} in body must be of type {wanted}: {found:?}");
            Some(FieldError::type_invalid(&self.path(name), found, text))
        };
        if value.is_null() {
            return if wanted.is_empty() || schema.nullable {
                None
            } else {
                wrong(&wanted.join(","), "null")
            };
        }
        let (found, format) = match value {
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Number(number) if number.is_f64() => ("number", "float64"),
            Value::Number(_) => ("integer", "int64"),
            _ => ("object", ""),
        };
        let whole =
            value.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0);
        let fits = wanted.contains(&found)
            || (found == "number" && whole && wanted.contains(&"integer"))
            || (found == "integer" && wanted.contains(&"number"));
        let textual = matches!(found, "string" | "array");
        if !textual && !schema.format.is_empty() && !fits && format != schema.format.as_ref() {
            return wrong(&schema.format, format);
        }
        let numeric = wanted.contains(&"number") || wanted.contains(&"integer");
        if textual && !numeric && !schema.format.is_empty() {
            return None; // checked by the format
        }
        if fits { None } else { wrong(&wanted.join(","), found) }
    }

    fn text(&self, text: &str, schema: &StructuralSchema, name: &str, outcome: &mut NodeResult) {
        let checks = &schema.validations;
        let path = self.path(name);
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = checks.max_length.filter(|&most| length > most) {
            let bytes = if most == 1 { "byte" } else { "bytes" };
            let detail = format!("may not be more than {most} {bytes}");
            outcome.add(FieldError { detail, ..FieldError::too_long(&path, 0) });
        } else if let Some(least) = checks.min_length.filter(|&least| length < least) {
            let detail = format!("{name} in body should be at least {least} chars long");
            outcome.add(FieldError::invalid(&path, text, detail));
        } else if let Some(pattern) = &checks.pattern
            && !pattern.regex.as_ref().is_ok_and(|regex| regex.is_match(text))
        {
            let detail = format!("{name} in body should match '{}'", pattern.text);
            outcome.add(FieldError::invalid(&path, text, detail));
        }
        outcome.matched += 1;
        if !schema.format.is_empty() && matches!(schema.ty.as_ref(), "" | "string") {
            if !formats::is_valid(&schema.format, text) {
                let detail = format!("{name} in body must be of type {}: {text:?}", schema.format);
                outcome.add(FieldError::type_invalid(&path, text, detail));
            }
            outcome.matched += 1;
        }
    }

    fn enum_value(&self, value: &Value, schema: &StructuralSchema, name: &str, outcome: &mut NodeResult) {
        let allowed = &schema.validations.enum_values;
        let same = |one: &Value| one == value || (one.is_number() && one.as_f64() == value.as_f64());
        if allowed.is_empty() || allowed.iter().any(same) {
            return;
        }
        let words: Vec<String> = allowed
            .iter()
            .map(|one| one.as_str().map_or_else(|| one.to_string(), ToOwned::to_owned))
            .collect();
        outcome.add(FieldError::unsupported(&self.path(name), value.clone(), &words));
    }

    fn items(
        &mut self,
        items: &[Value],
        old: Option<&Value>,
        schema: &StructuralSchema,
        name: &str,
        outcome: &mut NodeResult,
    ) {
        if let Some(child) = &schema.items {
            let old_items = old.map(|old| OldItemIndex::new(old, schema));
            for (at, item) in items.iter().enumerate() {
                let old = old_items.as_ref().and_then(|items| items.find(item));
                outcome.merge(self.ratcheted(item, old, child, &format!("{name}[{at}]")));
            }
        }
        let checks = &schema.validations;
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let path = self.path(name);
        if let Some(least) = checks.min_items.filter(|&least| size < least) {
            let detail = format!("{name} in body should have at least {least} items");
            outcome.add(FieldError::invalid(&path, size, detail));
        }
        if let Some(most) = checks.max_items.filter(|&most| size > most) {
            outcome.add(FieldError::too_many(&path, items.len(), usize::try_from(most).unwrap_or_default()));
        }
        let mut seen = HashSet::new();
        if checks.unique_items && !items.iter().all(|item| seen.insert(item)) {
            outcome.add(FieldError::invalid(
                &path,
                "",
                format!("{name} in body shouldn't contain duplicates"),
            ));
        }
        outcome.matched += 2;
    }

    fn fields(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &StructuralSchema,
        name: &str,
        outcome: &mut NodeResult,
    ) {
        let Some(fields) = value.as_object() else { return };
        let checks = &schema.validations;
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        let path = self.path(name);
        if let Some(least) = checks.min_properties.filter(|&least| size < least) {
            let detail = format!("{name} in body should have at least {least} properties");
            outcome.add(FieldError::invalid(&path, size, detail));
        }
        if let Some(most) = checks.max_properties.filter(|&most| size > most) {
            outcome.add(FieldError::too_many(&path, fields.len(), usize::try_from(most).unwrap_or_default()));
        }
        for (key, value) in fields {
            let old = old.and_then(|old| old.get(key));
            if let Some(property) = schema.properties.get(key.as_str()) {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                outcome.merge(self.ratcheted(value, old, property, &name));
                continue;
            }
            match &schema.additional {
                AdditionalProperties::Schema(values) => {
                    outcome.merge(self.ratcheted(value, old, values, &format!("{name}.{key}")));
                }
                AdditionalProperties::Any(false) => {
                    let detail = format!("{name}.{key} in body is a forbidden property");
                    outcome.add(FieldError::invalid(&path, key.as_str(), detail));
                }
                _ => {}
            }
        }
        for key in &checks.required {
            if !fields.contains_key(key.as_ref()) {
                outcome.add(FieldError::required(&self.path(&format!("{name}.{key}")), ""));
            }
        }
    }

    /// Validates `anyOf`, `oneOf`, `allOf`, `not`. Their errors have no field.
    fn combined_schemas(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &StructuralSchema,
        name: &str,
    ) -> NodeResult {
        let checks = &schema.validations;
        let mut outcome = NodeResult { matched: 1, ..NodeResult::default() };
        if !checks.any_of.is_empty() {
            let mut results = Vec::new();
            for schema in &checks.any_of {
                results.push(self.node(value, old, schema, name));
                if results.last().is_some_and(|result| result.errors.is_empty()) {
                    break;
                }
            }
            if results.last().is_some_and(|result| result.errors.is_empty()) {
                outcome.merge(results.pop().expect("there was a last one"));
            } else {
                outcome.add(
                    self.error_without_field(format!("{name:?} must validate at least one schema (anyOf)")),
                );
                outcome.merge(best_match(results));
            }
        }
        if !checks.one_of.is_empty() {
            let results: Vec<NodeResult> =
                checks.one_of.iter().map(|schema| self.node(value, old, schema, name)).collect();
            let valid = results.iter().filter(|result| result.errors.is_empty()).count();
            match valid {
                1 => {
                    let good = results.into_iter().find(|result| result.errors.is_empty());
                    outcome.merge(good.expect("exactly one is good"));
                }
                0 => {
                    outcome.add(self.error_without_field(format!(
                        "{name:?} must validate one and only one schema (oneOf). Found none valid"
                    )));
                    outcome.merge(best_match(results));
                }
                _ => outcome.add(self.error_without_field(format!(
                    "{name:?} must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                ))),
            }
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for schema in &checks.all_of {
                let result = self.node(value, old, schema, name);
                valid += usize::from(result.errors.is_empty());
                outcome.merge(result);
            }
            if valid < checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(
                    self.error_without_field(format!("{name:?} must validate all the schemas (allOf){none}")),
                );
            }
        }
        if let Some(not) = &checks.not
            && self.node(value, old, not, name).errors.is_empty()
        {
            outcome.add(self.error_without_field(format!("{name:?} must not validate the schema (not)")));
        }
        outcome
    }
}

/// Returns the first of the results with the most applied checks.
fn best_match(results: Vec<NodeResult>) -> NodeResult {
    let mut best: Option<NodeResult> = None;
    for result in results {
        if best.as_ref().is_none_or(|best| result.matched > best.matched) {
            best = Some(result);
        }
    }
    best.unwrap_or_default()
}

/// Elements of the old list by their map keys. Empty for other lists.
pub struct OldItemIndex<'a> {
    keys: &'a [Box<str>],
    by_key: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl<'a> OldItemIndex<'a> {
    pub fn new(old: &'a Value, schema: &'a StructuralSchema) -> Self {
        let ListType::Map(keys) = &schema.list else { return Self { keys: &[], by_key: HashMap::new() } };
        let mut by_key = HashMap::new();
        for item in old.as_array().into_iter().flatten().filter(|item| item.is_object()) {
            by_key.entry(map_key(item, keys)).or_insert(item);
        }
        Self { keys, by_key }
    }

    /// Returns the old element with the same keys as `item`.
    pub fn find(&self, item: &'a Value) -> Option<&'a Value> {
        self.by_key.get(&map_key(item, self.keys)).copied()
    }
}

fn map_key<'a>(item: &'a Value, keys: &[Box<str>]) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(key.as_ref())).collect()
}

/// Whether an error prevents the evaluation of CEL rules, which may rely on types and sizes.
pub fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.error_type,
        FieldErrorType::Unsupported
            | FieldErrorType::Required
            | FieldErrorType::TooLong
            | FieldErrorType::TooMany
            | FieldErrorType::TypeInvalid
    )
}
