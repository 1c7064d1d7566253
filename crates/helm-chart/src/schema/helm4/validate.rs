//! Validates values as the jsonschema library does.

use helm_template::budget::VALUE_BYTES;
use helm_template::data::{Data, Members};
use helm_template::value::Str;

use super::super::document::escape_token;
use super::super::model::{AdditionalRule, DependencyRule, JsonType, Schema, SchemaId, Schemas};
use super::super::{format, number};
use super::compile::SCHEMA_URL;
use super::failure::{Failure, FailureForm, format_value, quote_all, single_quoted};
use super::unevaluated::Unevaluated;

/// Maximum depth of values and references.
const MAX_DEPTH: usize = 300;

pub fn validate(schemas: &Schemas<'_>, values: &Data) -> Result<(), String> {
    let Some(failure) = failure(schemas, values) else { return Ok(()) };
    let mut text = String::new();
    match failure.form {
        FailureForm::Group => failure.causes.iter().for_each(|cause| cause.write(&mut text, 0)),
        FailureForm::Plain | FailureForm::Reference => failure.write(&mut text, 0),
    }
    text.push('\n');
    Err(text.trim_start_matches('\n').to_owned())
}

/// Returns the failure, if any.
pub fn failure(schemas: &Schemas<'_>, values: &Data) -> Option<Failure> {
    let scope = EvaluationScope { schema: 0, keyword: "", value_depth: 0, parent: None, depth: 0 };
    let schema = schemas.nodes.first()?;
    let mut checker = Checker {
        schemas,
        schema,
        data: values,
        place: &ValuePointer { parent: None, token: "" },
        scope: &scope,
        unevaluated: Unevaluated::new(values, schema, false),
        failures: vec![],
        is_quiet: false,
    };
    let verdict = checker.check();
    match schemas.stop_reason() {
        None => verdict.err(),
        Some(why) => Some(Failure {
            form: FailureForm::Plain,
            pointer: String::new(),
            text: why.to_string(),
            causes: vec![],
        }),
    }
}

/// Path in the values.
struct ValuePointer<'p> {
    parent: Option<&'p ValuePointer<'p>>,
    token: &'p str,
}

impl ValuePointer<'_> {
    fn pointer(&self) -> String {
        self.parent
            .map_or_else(String::new, |above| format!("{}/{}", above.pointer(), escape_token(self.token)))
    }
}

/// Evaluation path to a schema.
struct EvaluationScope<'s> {
    schema: SchemaId,
    /// Keyword of the reference that led here.
    keyword: &'s str,
    /// Depth of the value: equal to the parent's, or one deeper.
    value_depth: usize,
    parent: Option<&'s EvaluationScope<'s>>,
    depth: usize,
}

impl EvaluationScope<'_> {
    fn keywords(&self, schemas: &Schemas) -> String {
        let Some(above) = self.parent else { return String::new() };
        let at =
            |id: SchemaId| schemas.nodes.get(id).map(|schema| schema.pointer.as_str()).unwrap_or_default();
        let step = if self.keyword.is_empty() {
            at(self.schema).get(at(above.schema).len()..).unwrap_or_default().to_owned()
        } else {
            format!("/{}", self.keyword)
        };
        format!("{}{step}", above.keywords(schemas))
    }

    /// An enclosing scope with the same schema and value, which would be an infinite loop.
    fn find_cycle(&self) -> Option<&EvaluationScope<'_>> {
        let mut scope = self.parent;
        while let Some(above) = scope.filter(|above| above.value_depth == self.value_depth) {
            if above.schema == self.schema {
                return Some(above);
            }
            scope = above.parent;
        }
        None
    }
}

/// Validation of one value against one schema.
struct Checker<'c> {
    schemas: &'c Schemas<'c>,
    schema: &'c Schema,
    data: &'c Data,
    place: &'c ValuePointer<'c>,
    scope: &'c EvaluationScope<'c>,
    unevaluated: Unevaluated,
    failures: Vec<Failure>,
    /// Only the result matters, not its messages.
    is_quiet: bool,
}

type KeywordResult = Result<(), Failure>;

/// A keyword, its limit, and when a number violates it.
type NumberLimit = (&'static str, Option<f64>, fn(f64, f64) -> bool);

impl<'c> Checker<'c> {
    fn check(&mut self) -> KeywordResult {
        let schema = self.schema;
        match schema.boolean_result {
            Some(true) => return Ok(()),
            Some(false) => return Err(self.failure(|| "false schema".to_owned())),
            None => {}
        }
        if let Some(again) = self.scope.find_cycle() {
            let (first, second) = (self.scope.keywords(self.schemas), again.keywords(self.schemas));
            return Err(self.failure(|| {
                let address = helm_template::go::quote(&format!("{SCHEMA_URL}#{}", schema.pointer));
                format!("both {first} and {second} resolve to {address} causing reference cycle")
            }));
        }
        if self.scope.depth > MAX_DEPTH {
            return Err(
                self.failure(|| "the references of the schema lead deeper than any values".to_owned())
            );
        }
        if !self.schemas.visit(self.data, self.scope.depth) {
            return Err(Failure::without_details());
        }
        self.check_terminal()?;
        if let Some(reference) = schema.reference {
            let checked = self.reference(reference, "$ref");
            if schema.draft < 2019 {
                return checked;
            }
            self.record(checked);
        }
        match self.data {
            Data::Map(members) => self.object(members),
            Data::List(items) => self.array(items),
            Data::String(text) => self.text(text),
            Data::Int(_) | Data::Float(_) => self.number(),
            Data::Null | Data::Bool(_) => {}
        }
        if self.failures.is_empty() || !self.is_quiet {
            self.dynamic_references();
            self.combinations();
            if schema.draft >= 2019 {
                self.unevaluated();
            }
        }
        match self.failures.len() {
            0 => Ok(()),
            1 => self.failures.pop().map_or(Ok(()), Err),
            _ => {
                let mut group = self.failure(|| "validation failed".to_owned());
                group.form = FailureForm::Group;
                group.causes = std::mem::take(&mut self.failures);
                Err(group)
            }
        }
    }

    /// Checks that end the validation of a value on failure.
    fn check_terminal(&self) -> KeywordResult {
        let (schema, data) = (self.schema, self.data);
        let is_integer = || {
            number::to_f64(data).is_some_and(number::is_integer) && schema.types.contains(&JsonType::Integer)
        };
        if !schema.types.is_empty() && !schema.types.contains(&JsonType::from_data(data)) && !is_integer() {
            return Err(self.failure(|| {
                let wanted: Vec<_> = schema.types.iter().map(|kind| kind.name()).collect();
                format!("got {}, want {}", JsonType::from_data(data).name(), wanted.join(" or "))
            }));
        }
        if let Some(constant) = schema.constant.as_ref().filter(|constant| !self.equal(data, constant)) {
            return Err(self.failure(|| match constant {
                Data::List(_) | Data::Map(_) => "'const' failed".to_owned(),
                constant => format!("value must be {}", format_value(constant)),
            }));
        }
        if let Some(choices) = &schema.enum_values
            && self.schemas.compare(choices.len())
            && !choices.iter().any(|choice| self.equal(data, choice))
        {
            return Err(self.failure(|| match &choices[..] {
                choices if choices.iter().any(|choice| matches!(choice, Data::List(_) | Data::Map(_))) => {
                    "'enum' failed".to_owned()
                }
                [only] => format!("value must be {}", format_value(only)),
                several => {
                    format!(
                        "value must be one of {}",
                        several.iter().map(format_value).collect::<Vec<_>>().join(", ")
                    )
                }
            }));
        }
        if let (Some(format), Data::String(text)) = (&schema.format, data)
            && let Some(why) = format::violation(format, text)
        {
            return Err(self.failure(|| format!("{} is not valid {format}: {why}", single_quoted(text))));
        }
        Ok(())
    }

    /// Evaluates `$recursiveRef` and `$dynamicRef`, which refer to the outermost schema of the evaluation path with a
    /// matching anchor.
    fn dynamic_references(&mut self) {
        let schema = self.schema;
        if let Some(id) = schema.recursive {
            let offers = self.schemas.nodes.get(id).is_some_and(|schema| schema.recursive_anchor);
            let outermost =
                offers.then(|| self.outermost(|id, resource| resource.recursive_anchor.then_some(id)));
            let checked = self.reference(outermost.flatten().unwrap_or(id), "$recursiveRef");
            self.record(checked);
        }
        if let Some((id, name)) = &schema.dynamic {
            let offered = self.schemas.nodes.get(*id).and_then(|schema| schema.dynamic_anchor.as_ref());
            let outermost = name
                .as_ref()
                .filter(|name| offered == Some(*name))
                .and_then(|name| self.outermost(|_, resource| resource.dynamic_anchors.get(name).copied()));
            let checked = self.reference(outermost.unwrap_or(*id), "$dynamicRef");
            self.record(checked);
        }
    }

    /// The outermost match on the evaluation path, over schemas and their resources.
    fn outermost(&self, find: impl Fn(SchemaId, &Schema) -> Option<SchemaId>) -> Option<SchemaId> {
        let way = std::iter::successors(Some(self.scope), |scope| scope.parent);
        way.filter_map(|scope| {
            let resource = self.schemas.nodes.get(scope.schema)?.resource?;
            find(scope.schema, self.schemas.nodes.get(resource)?)
        })
        .last()
    }

    fn reference(&mut self, id: SchemaId, keyword: &'static str) -> KeywordResult {
        self.validate_same_value(id, keyword, false).map_err(|found| {
            let mut failure = self.failure(|| "validation failed".to_owned());
            failure.form = FailureForm::Reference;
            failure.causes = if found.form == FailureForm::Group { found.causes } else { vec![found] };
            failure
        })
    }

    fn object(&mut self, members: &'c Members) {
        let schema = self.schema;
        let count = members.len();
        self.limit("minProperties", schema.min_properties, count, |count, min| count < min);
        self.limit("maxProperties", schema.max_properties, count, |count, max| count > max);
        let named = schema.required.len() + schema.dependencies.len() + schema.dependents.len();
        if !self.schemas.compare(members.len() + named) {
            return;
        }
        let missing = missing_names(members, &schema.required);
        if !missing.is_empty() {
            self.fail(|| match &missing[..] {
                [one] => format!("missing property {}", single_quoted(one)),
                several => format!("missing properties {}", quote_all(several)),
            });
        }
        if self.is_quiet && !self.failures.is_empty() {
            return;
        }
        self.check_dependencies(&schema.dependencies, members);
        let mut refused: Vec<Str> = vec![];
        for (name, member) in members {
            if self.is_quiet && !self.failures.is_empty() {
                return;
            }
            let mut evaluated = false;
            if let Some(id) = schema.properties.get(name) {
                evaluated = true;
                let checked = self.validate_child(*id, member, name);
                self.record(checked);
            }
            let schemas = self.schemas;
            for (_, id) in schema.patterns.iter().filter(|(pattern, _)| schemas.matches(pattern, name)) {
                evaluated = true;
                let checked = self.validate_child(*id, member, name);
                self.record(checked);
            }
            if !evaluated {
                match schema.additional_properties {
                    AdditionalRule::Unspecified => continue,
                    AdditionalRule::Allowed => {}
                    AdditionalRule::Forbidden => refused.push(name.clone()),
                    AdditionalRule::Schema(id) => {
                        let checked = self.validate_child(id, member, name);
                        self.record(checked);
                    }
                }
            }
            self.unevaluated.members.remove(name);
        }
        if !refused.is_empty() {
            self.fail(|| format!("additional properties {} not allowed", quote_all(&refused)));
        }
        if let Some(names) = schema.property_names {
            for name in members.keys() {
                self.property_name(names, name);
            }
        }
        self.check_dependencies(&schema.dependents, members);
    }

    fn property_name(&mut self, id: SchemaId, name: &Str) {
        let data = Data::String(name.clone());
        let place = ValuePointer { parent: None, token: "" };
        let scope = EvaluationScope {
            schema: id,
            keyword: "",
            value_depth: 0,
            parent: None,
            depth: self.scope.depth + 1,
        };
        let Err(found) = self.validate_nested(id, &data, &place, &scope, false, self.is_quiet).0 else {
            return;
        };
        let causes = if found.form == FailureForm::Group { found.causes } else { vec![found] };
        let mut failure = self.failure(|| format!("invalid propertyName {}", single_quoted(name)));
        failure.causes = causes;
        self.failures.push(failure);
    }

    fn check_dependencies(&mut self, all: &'c [(Str, DependencyRule)], members: &Members) {
        for (name, needs) in all.iter().filter(|(name, _)| members.contains_key(name)) {
            match needs {
                DependencyRule::Members(needed) => {
                    let missing = missing_names(members, needed);
                    if !missing.is_empty() {
                        self.fail(|| {
                            let missing = quote_all(&missing);
                            format!("properties {missing} required, if {} exists", single_quoted(name))
                        });
                    }
                }
                DependencyRule::Schema(id) => {
                    let checked = self.validate_same_value(*id, "", false);
                    self.record(checked);
                }
            }
        }
    }

    fn array(&mut self, items: &'c [Data]) {
        let schema = self.schema;
        self.limit("minItems", schema.min_items, items.len(), |count, min| count < min);
        self.limit("maxItems", schema.max_items, items.len(), |count, max| count > max);
        if schema.unique_items
            && let Some((first, second)) = self.find_duplicate(items)
        {
            self.fail(|| format!("items at {first} and {second} are equal"));
        }
        for (index, (id, item)) in schema.prefix_items.iter().zip(items).enumerate() {
            let checked = self.validate_child(*id, item, &index.to_string());
            self.record(checked);
        }
        let after = items.len().saturating_sub(schema.prefix_items.len());
        match schema.items {
            AdditionalRule::Forbidden if after > 0 => self.fail(|| {
                format!("last {} additionalItem(s) not allowed", number::group_thousands(&after.to_string()))
            }),
            AdditionalRule::Schema(id) => {
                for (index, item) in items.iter().enumerate().skip(schema.prefix_items.len()) {
                    let checked = self.validate_child(id, item, &index.to_string());
                    self.record(checked);
                }
            }
            _ => {}
        }
        self.contains(items);
    }

    /// Whether two values are equal; false if the work limit is exceeded.
    fn equal(&self, a: &Data, b: &Data) -> bool {
        let mut compared = 0;
        let same = equal(a, b, &mut compared);
        self.schemas.compare(compared) && same
    }

    /// Indices of the first duplicate item and its original.
    fn find_duplicate(&self, items: &[Data]) -> Option<(usize, usize)> {
        for (second, item) in items.iter().enumerate() {
            if !self.schemas.work(second) {
                return None;
            }
            if let Some(first) = items.iter().take(second).position(|other| self.equal(other, item)) {
                return Some((first, second));
            }
        }
        None
    }

    fn contains(&mut self, items: &'c [Data]) {
        let schema = self.schema;
        let Some(contains) = schema.contains else { return };
        let (mut causes, mut matched) = (vec![], vec![]);
        for (index, item) in items.iter().enumerate() {
            if let Err(failure) = self.validate_child(contains, item, &index.to_string()) {
                causes.push(failure);
                continue;
            }
            matched.push(index);
            if schema.draft >= 2020 {
                self.unevaluated.elements.remove(&index);
            }
        }
        let count = i64::try_from(matched.len()).unwrap_or(i64::MAX);
        let places = || matched.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let text = match schema.min_contains {
            None if count == 0 => Some("no items match contains schema".to_owned()),
            Some(min) if count < min && count == 0 => {
                Some(format!("min {min} items required to match contains schema, but none matched"))
            }
            Some(min) if count < min => {
                let places = places();
                Some(format!(
                    "min {min} items required to match contains schema, but matched {count} items at {places}"
                ))
            }
            _ => None,
        };
        if let Some(text) = text {
            let mut failure = self.failure(|| text);
            failure.causes = causes;
            self.failures.push(failure);
        }
        if let Some(max) = schema.max_contains.filter(|max| count > *max) {
            let places = places();
            self.fail(|| {
                format!(
                    "max {max} items required to match contains schema, but matched {count} items at {places}"
                )
            });
        }
    }

    fn text(&mut self, text: &str) {
        let schema = self.schema;
        if schema.min_length.is_some() || schema.max_length.is_some() {
            let length = text.chars().count();
            self.limit("minLength", schema.min_length, length, |length, min| length < min);
            self.limit("maxLength", schema.max_length, length, |length, max| length > max);
        }
        if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !self.schemas.matches(pattern, text))
        {
            self.fail(|| {
                format!("{} does not match pattern {}", single_quoted(text), single_quoted(&pattern.text))
            });
        }
    }

    fn number(&mut self) {
        let schema = self.schema;
        let Some(n) = number::to_f64(self.data) else { return };
        let limits: [NumberLimit; 5] = [
            ("minimum", schema.minimum, |n, limit| n < limit),
            ("maximum", schema.maximum, |n, limit| n > limit),
            ("exclusiveMinimum", schema.exclusive_minimum, |n, limit| n <= limit),
            ("exclusiveMaximum", schema.exclusive_maximum, |n, limit| n >= limit),
            ("multipleOf", schema.multiple_of, |n, limit| !number::is_multiple(n, limit)),
        ];
        for (keyword, limit, is_wrong) in limits {
            if let Some(limit) = limit.filter(|limit| is_wrong(n, *limit)) {
                self.fail(|| {
                    format!(
                        "{keyword}: got {}, want {}",
                        number::format_english(n),
                        number::format_english(limit)
                    )
                });
            }
        }
    }

    fn combinations(&mut self) {
        let schema = self.schema;
        if let Some(not) = schema.not
            && self.validate_same_value(not, "", true).is_ok()
        {
            self.fail(|| "'not' failed".to_owned());
        }
        let mut causes = vec![];
        for id in &schema.all_of {
            if let Err(failure) = self.validate_same_value(*id, "", false) {
                causes.push(failure);
                if self.is_quiet {
                    break;
                }
            }
        }
        if !causes.is_empty() {
            self.fail_with_causes("'allOf' failed", causes);
        }
        if !schema.any_of.is_empty() {
            let mut causes = vec![];
            let mut matched = false;
            for id in &schema.any_of {
                if let Err(failure) = self.validate_same_value(*id, "", false) {
                    causes.push(failure);
                    continue;
                }
                matched = true;
                // Unevaluated members and items need the results of all alternatives.
                if self.unevaluated.is_empty() {
                    break;
                }
            }
            if !matched {
                self.fail_with_causes("'anyOf' failed", causes);
            }
        }
        if !schema.one_of.is_empty() {
            self.one_of();
        }
        if let Some(condition) = schema.if_schema {
            let branch = if self.validate_same_value(condition, "", true).is_ok() {
                schema.then_schema
            } else {
                schema.else_schema
            };
            if let Some(branch) = branch {
                let checked = self.validate_same_value(branch, "", false);
                self.record(checked);
            }
        }
    }

    fn one_of(&mut self) {
        let mut causes = vec![];
        let mut matched = None;
        for (index, id) in self.schema.one_of.iter().enumerate() {
            match (self.validate_same_value(*id, "", matched.is_some()), matched) {
                (Err(failure), None) => causes.push(failure),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(index),
                (Ok(()), Some(first)) => {
                    self.fail(|| format!("'oneOf' failed, subschemas {first}, {index} matched"));
                    break;
                }
            }
        }
        if matched.is_none() {
            self.fail_with_causes("'oneOf' failed, none matched", causes);
        }
    }

    fn unevaluated(&mut self) {
        match (self.data, self.schema.unevaluated_properties, self.schema.unevaluated_items) {
            (Data::Map(members), Some(id), _) => {
                for name in std::mem::take(&mut self.unevaluated.members) {
                    if let Some(member) = members.get(&name) {
                        let checked = self.validate_child(id, member, &name);
                        self.record(checked);
                    }
                }
            }
            (Data::List(items), _, Some(id)) => {
                for index in std::mem::take(&mut self.unevaluated.elements) {
                    if let Some(item) = items.get(index) {
                        let checked = self.validate_child(id, item, &index.to_string());
                        self.record(checked);
                    }
                }
            }
            _ => {}
        }
    }

    /// Validates the same value against another schema.
    fn validate_same_value(&mut self, id: SchemaId, keyword: &str, quiet: bool) -> KeywordResult {
        let scope = EvaluationScope {
            schema: id,
            keyword,
            value_depth: self.scope.value_depth,
            parent: Some(self.scope),
            depth: self.scope.depth + 1,
        };
        let asked = !self.unevaluated.is_empty();
        let (checked, rest) =
            self.validate_nested(id, self.data, self.place, &scope, asked, self.is_quiet || quiet);
        if checked.is_ok() {
            self.unevaluated.intersect(&rest);
        }
        checked
    }

    /// Validates a member or item against a schema.
    fn validate_child(&self, id: SchemaId, data: &Data, token: &str) -> KeywordResult {
        let place = ValuePointer { parent: Some(self.place), token };
        let scope = EvaluationScope {
            schema: id,
            keyword: "",
            value_depth: self.scope.value_depth + 1,
            parent: Some(self.scope),
            depth: self.scope.depth + 1,
        };
        self.validate_nested(id, data, &place, &scope, false, self.is_quiet).0
    }

    fn validate_nested(
        &self,
        id: SchemaId,
        data: &Data,
        place: &ValuePointer,
        scope: &EvaluationScope,
        asked: bool,
        quiet: bool,
    ) -> (KeywordResult, Unevaluated) {
        let Some(schema) = self.schemas.nodes.get(id) else { return (Ok(()), Unevaluated::default()) };
        let rest = Unevaluated::new(data, schema, asked);
        if !self.schemas.compare(8 * (rest.members.len() + rest.elements.len())) {
            return (Err(Failure::without_details()), rest);
        }
        let mut checker = Checker {
            schemas: self.schemas,
            schema,
            data,
            place,
            scope,
            unevaluated: rest,
            failures: vec![],
            is_quiet: quiet,
        };
        (checker.check(), checker.unevaluated)
    }

    fn limit(&mut self, keyword: &str, limit: Option<i64>, count: usize, is_wrong: fn(i64, i64) -> bool) {
        let got = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(limit) = limit.filter(|limit| is_wrong(got, *limit)) {
            let (got, want) =
                (number::group_thousands(&got.to_string()), number::group_thousands(&limit.to_string()));
            self.fail(|| format!("{keyword}: got {got}, want {want}"));
        }
    }

    fn failure(&self, text: impl FnOnce() -> String) -> Failure {
        if self.is_quiet || self.schemas.is_stopped() {
            return Failure::without_details();
        }
        let (at, text) = (self.place.pointer(), text());
        if !self.schemas.write(size_of::<Failure>() + at.len() + 2 * text.len()) {
            return Failure::without_details();
        }
        Failure { form: FailureForm::Plain, pointer: at, text, causes: vec![] }
    }

    fn fail(&mut self, text: impl FnOnce() -> String) {
        self.failures.push(self.failure(text));
    }

    fn fail_with_causes(&mut self, text: &str, causes: Vec<Failure>) {
        let mut failure = self.failure(|| text.to_owned());
        failure.causes = causes;
        self.failures.push(failure);
    }

    fn record(&mut self, checked: KeywordResult) {
        self.failures.extend(checked.err());
    }
}

fn missing_names(members: &Members, names: &[Str]) -> Vec<Str> {
    names.iter().filter(|name| !members.contains_key(*name)).cloned().collect()
}

/// Whether two values are equal; numbers compare by value. Adds the compared values and string pieces to `compared`.
fn equal(a: &Data, b: &Data, compared: &mut usize) -> bool {
    *compared += 1;
    match (a, b) {
        (Data::List(a), Data::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, compared))
        }
        (Data::Map(a), Data::Map(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((ak, a), (bk, b))| {
                    *compared += ak.len() / VALUE_BYTES;
                    ak == bk && equal(a, b, compared)
                })
        }
        (Data::Int(_) | Data::Float(_), Data::Int(_) | Data::Float(_)) => {
            number::to_f64(a) == number::to_f64(b)
        }
        (Data::String(a), Data::String(b)) => {
            *compared += a.len().min(b.len()) / VALUE_BYTES;
            a == b
        }
        (a, b) => a == b,
    }
}
