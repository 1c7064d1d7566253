//! Validates values as gojsonschema does: a flat list of errors, and a score that selects the closest of several
//! alternatives to report.

use std::collections::HashMap;
use std::fmt::Write;

use helm_template::data::{Data, Members};

use super::super::format;
use super::super::model::{AdditionalRule, DependencyRule, JsonType, Schema, SchemaId, Schemas};
use super::super::number;

/// Maximum depth of values and references. Helm 3 would overflow its stack.
const MAX_DEPTH: usize = 300;

pub fn validate(schemas: &Schemas<'_>, values: &Data) -> Result<(), String> {
    let mut result = Outcome::new(schemas);
    let checker = Checker { schemas };
    checker.check(0, values, &mut result, &FieldPath { parent: None, key: "(root)" }, 0)?;
    if let Some(why) = schemas.stop_reason() {
        return Err(unfinished_error(&why));
    }
    if result.errors.is_empty() {
        return Ok(());
    }
    Err(result.errors.iter().fold(String::new(), |mut text, error| {
        let _ = writeln!(text, "- {error}");
        text
    }))
}

/// Error of a validation that could not be finished.
fn unfinished_error(why: &str) -> String {
    format!("unable to validate schema: {why}")
}

struct Outcome<'s> {
    schemas: &'s Schemas<'s>,
    errors: Vec<String>,
    score: i64,
}

impl<'s> Outcome<'s> {
    fn new(schemas: &'s Schemas<'s>) -> Self {
        Self { schemas, errors: Vec::new(), score: 0 }
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn fail(&mut self, place: &FieldPath, text: &str) {
        // Errors over budget are not stored; the validation then fails with the budget error.
        let error =
            if self.schemas.is_stopped() { String::new() } else { format!("{}: {text}", place.field()) };
        let kept = self.schemas.write(size_of::<String>() + 2 * error.len());
        self.errors.push(if kept { error } else { String::new() });
        self.score -= 2;
    }

    fn add(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.score += other.score;
    }
}

#[derive(Clone, Copy)]
struct FieldPath<'p> {
    parent: Option<&'p FieldPath<'p>>,
    key: &'p str,
}

impl FieldPath<'_> {
    /// Field path from the root; the root is named only for itself.
    fn field(&self) -> String {
        match self.parent {
            None => self.key.to_owned(),
            Some(above) if above.parent.is_none() => self.key.to_owned(),
            Some(above) => format!("{}.{}", above.field(), self.key),
        }
    }
}

struct Checker<'s> {
    schemas: &'s Schemas<'s>,
}

type VisitResult = Result<(), String>;

impl<'s> Checker<'s> {
    fn check(
        &self,
        id: SchemaId,
        data: &Data,
        result: &mut Outcome<'s>,
        place: &FieldPath,
        depth: usize,
    ) -> VisitResult {
        if depth > MAX_DEPTH {
            return Err("unable to validate schema: its references lead deeper than any values".to_owned());
        }
        if !self.schemas.visit(data, depth) {
            return Err(unfinished_error(&self.schemas.stop_reason().unwrap_or_default()));
        }
        let Some(schema) = self.schemas.nodes.get(id) else { return Ok(()) };
        let depth = depth + 1;
        if let Some(verdict) = schema.boolean_result {
            if !verdict {
                result.fail(place, "False always fails validation");
            }
            return Ok(());
        }
        if let Some(reference) = schema.reference {
            return self.check(reference, data, result, place, depth);
        }
        if !has_type(schema, data) {
            let expected = match &schema.types[..] {
                [one] => one.name().to_owned(),
                several => {
                    format!("[{}]", several.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(","))
                }
            };
            let text = format!("Invalid type. Expected: {expected}, given: {}", type_of(data).name());
            result.fail(place, &text);
            return Ok(());
        }
        self.check_combinations(schema, data, result, place, depth)?;
        match data {
            Data::List(items) => self.check_array(schema, items, result, place, depth)?,
            Data::Map(members) => self.check_object(schema, members, result, place, depth)?,
            Data::Int(_) | Data::Float(_) => check_number(schema, data, result, place),
            _ => {}
        }
        check_common(schema, data, result, place);
        match data {
            Data::String(text) => check_string(schema, text, result, place),
            Data::Map(members) => {
                for (name, id) in &schema.properties {
                    if let Some(member) = members.get(name) {
                        self.check(
                            *id,
                            member,
                            result,
                            &FieldPath { parent: Some(place), key: name },
                            depth,
                        )?;
                    }
                }
            }
            _ => {}
        }
        result.score += 1;
        Ok(())
    }

    fn check_isolated(
        &self,
        id: SchemaId,
        data: &Data,
        place: &FieldPath,
        depth: usize,
    ) -> Result<Outcome<'s>, String> {
        let mut result = Outcome::new(self.schemas);
        self.check(id, data, &mut result, place, depth)?;
        Ok(result)
    }

    fn check_combinations(
        &self,
        schema: &Schema,
        data: &Data,
        result: &mut Outcome<'s>,
        place: &FieldPath,
        depth: usize,
    ) -> VisitResult {
        if !schema.any_of.is_empty() {
            let mut best: Option<Outcome<'s>> = None;
            let mut any = false;
            for id in &schema.any_of {
                let outcome = self.check_isolated(*id, data, place, depth)?;
                if outcome.is_valid() {
                    any = true;
                    break;
                }
                keep_best(&mut best, outcome);
            }
            if !any {
                result.fail(place, "Must validate at least one schema (anyOf)");
                result.add(best.unwrap_or_else(|| Outcome::new(self.schemas)));
            }
        }
        if !schema.one_of.is_empty() {
            let mut best: Option<Outcome<'s>> = None;
            let mut valid = 0;
            for id in &schema.one_of {
                let outcome = self.check_isolated(*id, data, place, depth)?;
                if outcome.is_valid() {
                    valid += 1;
                } else if valid == 0 {
                    keep_best(&mut best, outcome);
                }
            }
            if valid != 1 {
                result.fail(place, "Must validate one and only one schema (oneOf)");
                if valid == 0 {
                    result.add(best.unwrap_or_else(|| Outcome::new(self.schemas)));
                }
            }
        }
        if !schema.all_of.is_empty() {
            let mut all = true;
            for id in &schema.all_of {
                let outcome = self.check_isolated(*id, data, place, depth)?;
                all &= outcome.is_valid();
                result.add(outcome);
            }
            if !all {
                result.fail(place, "Must validate all the schemas (allOf)");
            }
        }
        if let Some(not) = schema.not
            && self.check_isolated(not, data, place, depth)?.is_valid()
        {
            result.fail(place, "Must not validate the schema (not)");
        }
        if let Data::Map(members) = data {
            for (_, needs) in schema.dependencies.iter().filter(|(name, _)| members.contains_key(name)) {
                match needs {
                    DependencyRule::Members(needed) => {
                        for missing in needed.iter().filter(|needed| !members.contains_key(*needed)) {
                            result.fail(place, &format!("Has a dependency on {missing}"));
                        }
                    }
                    DependencyRule::Schema(id) => self.check(*id, data, result, place, depth)?,
                }
            }
        }
        if let Some(condition) = schema.if_schema {
            let holds = self.check_isolated(condition, data, place, depth)?.is_valid();
            let (branch, text) = if holds {
                (schema.then_schema, "Must validate \"then\" as \"if\" was valid")
            } else {
                (schema.else_schema, "Must validate \"else\" as \"if\" was not valid")
            };
            if let Some(branch) = branch {
                let outcome = self.check_isolated(branch, data, place, depth)?;
                if !outcome.is_valid() {
                    result.fail(place, text);
                    result.add(outcome);
                }
            }
        }
        result.score += 1;
        Ok(())
    }

    fn check_array(
        &self,
        schema: &Schema,
        items: &[Data],
        result: &mut Outcome<'s>,
        place: &FieldPath,
        depth: usize,
    ) -> VisitResult {
        let each = |id: SchemaId, index: usize, item: &Data, result: &mut Outcome<'s>| {
            let key = index.to_string();
            let outcome =
                self.check_isolated(id, item, &FieldPath { parent: Some(place), key: &key }, depth)?;
            result.add(outcome);
            VisitResult::Ok(())
        };
        for (index, (id, item)) in schema.prefix_items.iter().zip(items).enumerate() {
            each(*id, index, item, result)?;
        }
        if items.len() > schema.prefix_items.len() {
            match schema.items {
                AdditionalRule::Forbidden => result.fail(place, "No additional items allowed on array"),
                AdditionalRule::Schema(id) => {
                    for (index, item) in items.iter().enumerate().skip(schema.prefix_items.len()) {
                        each(id, index, item, result)?;
                    }
                }
                AdditionalRule::Unspecified | AdditionalRule::Allowed => {}
            }
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_items.filter(|min| count < *min) {
            result.fail(place, &format!("Array must have at least {min} items"));
        }
        if let Some(max) = schema.max_items.filter(|max| count > *max) {
            result.fail(place, &format!("Array must have at most {max} items"));
        }
        if schema.unique_items {
            let mut seen = HashMap::new();
            for (index, item) in items.iter().enumerate() {
                let Some(text) = self.schemas.to_json(item) else { break };
                if let Some(before) = seen.insert(text, index) {
                    result.fail(place, &format!("array items[{before},{index}] must be unique"));
                }
            }
        }
        if let Some(contains) = schema.contains {
            let mut best: Option<Outcome<'s>> = None;
            let mut any = false;
            for (index, item) in items.iter().enumerate() {
                let key = index.to_string();
                let outcome = self.check_isolated(
                    contains,
                    item,
                    &FieldPath { parent: Some(place), key: &key },
                    depth,
                )?;
                if outcome.is_valid() {
                    any = true;
                    break;
                }
                keep_best(&mut best, outcome);
            }
            if !any {
                result.fail(place, "At least one of the items must match");
                result.add(best.unwrap_or_else(|| Outcome::new(self.schemas)));
            }
        }
        result.score += 1;
        Ok(())
    }

    fn check_object(
        &self,
        schema: &Schema,
        members: &Members,
        result: &mut Outcome<'s>,
        place: &FieldPath,
        depth: usize,
    ) -> VisitResult {
        // Lookups in the members, independent of their number.
        let named = schema.required.len() + schema.properties.len() + schema.dependencies.len();
        if !self.schemas.compare(named) {
            return Err(unfinished_error(&self.schemas.stop_reason().unwrap_or_default()));
        }
        let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_properties.filter(|min| count < *min) {
            result.fail(place, &format!("Must have at least {min} properties"));
        }
        if let Some(max) = schema.max_properties.filter(|max| count > *max) {
            result.fail(place, &format!("Must have at most {max} properties"));
        }
        for name in &schema.required {
            if members.contains_key(name) {
                result.score += 1;
            } else {
                result.fail(place, &format!("{name} is required"));
            }
        }
        for (name, member) in members {
            let inside = FieldPath { parent: Some(place), key: name };
            let mut described = schema.properties.contains_key(name);
            let mut matched = false;
            for (_, id) in schema.patterns.iter().filter(|(pattern, _)| self.schemas.matches(pattern, name)) {
                matched = true;
                result.add(self.check_isolated(*id, member, &inside, depth)?);
            }
            if matched {
                result.score += 1;
                described = true;
            }
            match schema.additional_properties {
                AdditionalRule::Forbidden if !described => {
                    result.fail(place, &format!("Additional property {name} is not allowed"));
                }
                AdditionalRule::Schema(id) if !described => {
                    result.add(self.check_isolated(id, member, &inside, depth)?);
                }
                _ => {}
            }
        }
        if let Some(names) = schema.property_names {
            for name in members.keys() {
                let outcome = self.check_isolated(names, &Data::String(name.clone()), place, depth)?;
                if !outcome.is_valid() {
                    result.fail(place, &format!("Property name of \"{name}\" does not match"));
                    result.add(outcome);
                }
            }
        }
        result.score += 1;
        Ok(())
    }
}

/// Keeps the first outcome with the best score.
fn keep_best<'s>(best: &mut Option<Outcome<'s>>, outcome: Outcome<'s>) {
    if best.as_ref().is_none_or(|best| outcome.score > best.score) {
        *best = Some(outcome);
    }
}

fn type_of(data: &Data) -> JsonType {
    match number::to_f64(data) {
        Some(n) if number::is_integer(n) => JsonType::Integer,
        _ => JsonType::from_data(data),
    }
}

fn has_type(schema: &Schema, data: &Data) -> bool {
    schema.types.is_empty()
        || schema.types.contains(&JsonType::from_data(data))
        || schema.types.contains(&type_of(data))
}

fn check_common(schema: &Schema, data: &Data, result: &mut Outcome<'_>, place: &FieldPath) {
    if (schema.constant_json.is_some() || schema.enum_json.is_some())
        && let Some(given) = result.schemas.to_json(data)
    {
        if let Some(constant) = schema.constant_json.as_ref().filter(|constant| **constant != given) {
            result.fail(place, &format!("{} does not match: {constant}", place.field()));
        }
        if let Some(choices) = schema.enum_json.as_ref().filter(|choices| !choices.texts.contains(&given)) {
            let text = format!("{} must be one of the following: {}", place.field(), choices.display);
            result.fail(place, &text);
        }
    }
    result.score += 1;
}

fn check_number(schema: &Schema, data: &Data, result: &mut Outcome<'_>, place: &FieldPath) {
    let Some(n) = number::to_f64(data) else { return };
    if let Some(multiple) = schema.multiple_of.filter(|multiple| !number::is_multiple(n, *multiple)) {
        result.fail(place, &format!("Must be a multiple of {}", number::format_general(multiple)));
    }
    if let Some(max) = schema.maximum.filter(|max| n > *max) {
        result.fail(place, &format!("Must be less than or equal to {}", number::format_general(max)));
    }
    if let Some(below) = schema.exclusive_maximum.filter(|below| n >= *below) {
        result.fail(place, &format!("Must be less than {}", number::format_general(below)));
    }
    if let Some(min) = schema.minimum.filter(|min| n < *min) {
        result.fail(place, &format!("Must be greater than or equal to {}", number::format_general(min)));
    }
    if let Some(above) = schema.exclusive_minimum.filter(|above| n <= *above) {
        result.fail(place, &format!("Must be greater than {}", number::format_general(above)));
    }
    // All known formats apply to strings.
    if let Some(format) = schema.format.as_ref().filter(|format| format::is_known(format)) {
        result.fail(place, &format!("Does not match format '{format}'"));
    }
    result.score += 1;
}

fn check_string(schema: &Schema, text: &str, result: &mut Outcome<'_>, place: &FieldPath) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_length.filter(|min| length < *min) {
        result.fail(place, &format!("String length must be greater than or equal to {min}"));
    }
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        result.fail(place, &format!("String length must be less than or equal to {max}"));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !result.schemas.matches(pattern, text)) {
        result.fail(place, &format!("Does not match pattern '{}'", pattern.text));
    }
    if let Some(format) = schema.format.as_ref().filter(|format| !format::is_valid(format, text)) {
        result.fail(place, &format!("Does not match format '{format}'"));
    }
    result.score += 1;
}
