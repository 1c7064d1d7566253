//! Label selectors: `app=web,tier in (a,b),!old`, and the object form with `matchLabels`.
//!
//! Used by lists and watches, controllers, Services and policies. Grammar and errors match Kubernetes' `labels` package, including the
//! odd cases (`a in ()` matches the empty value).
//!
//! Invariant: requirements of a parsed selector have valid keys and values; all must match.

use serde_json::Value;

use super::labels::LabelOperator::{DoesNotExist, Exists, GreaterThan, In, LessThan, NotIn};
use crate::field::{FieldError, Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: Box<str>,
    pub operator: LabelOperator,
    /// Sorted and unique.
    pub values: Box<[Box<str>]>,
}

/// A conjunction of requirements; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    /// Whether the selector matches nothing, as an absent selector object does.
    matches_nothing: bool,
}

impl LabelSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), matches_nothing: true }
    }

    /// Parses a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, String> {
        super::check_length("labelSelector", text)?;
        let mut requirements = LabelSelectorParser { tokens: scan(text), at: 0 }.selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let selector = Self { requirements, matches_nothing: false };
        super::check_count("labelSelector", "requirements and values", selector.requirement_weight())?;
        Ok(selector)
    }

    /// Parses a `LabelSelector` object; `null` matches nothing, `{}` everything.
    pub fn from_label_selector_object(selector: &Value) -> Result<Self, String> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            requirements.push(requirement(key, In, &[value.as_str().unwrap_or_default()])?);
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => In,
                "NotIn" => NotIn,
                "Exists" => Exists,
                "DoesNotExist" => DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<&str> = values.map(|value| value.as_str().unwrap_or_default()).collect();
            requirements.push(requirement(
                expression["key"].as_str().unwrap_or_default(),
                operator,
                &values,
            )?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, matches_nothing: false })
    }

    pub fn is_everything(&self) -> bool {
        !self.matches_nothing && self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Number of requirements, plus the values of requirements with several.
    pub fn requirement_weight(&self) -> usize {
        let values =
            |required: &LabelRequirement| if required.values.len() > 1 { required.values.len() } else { 0 };
        self.requirements.iter().map(|required| 1 + values(required)).sum()
    }

    /// Whether the labels match.
    pub fn matches<'l>(&self, lookup: impl Fn(&str) -> Option<&'l str>) -> bool {
        !self.matches_nothing
            && self.requirements.iter().all(|required| required.matches_label(lookup(&required.key)))
    }

    /// Like [`Self::matches`], for a labels object or null.
    pub fn matches_value(&self, labels: &Value) -> bool {
        self.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

impl LabelRequirement {
    fn matches_label(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.binary_search_by(|other| other.as_ref().cmp(value)).is_ok();
        let compare = |right: fn(&i64, &i64) -> bool| {
            let limit = self.values.first().and_then(|limit| go_integer(limit));
            value.and_then(go_integer).zip(limit).is_some_and(|(value, limit)| right(&value, &limit))
        };
        match self.operator {
            In => value.is_some_and(listed),
            NotIn => !value.is_some_and(listed),
            Exists => value.is_some(),
            DoesNotExist => value.is_none(),
            GreaterThan => compare(i64::gt),
            LessThan => compare(i64::lt),
        }
    }
}

fn go_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Creates a requirement with valid key and values, or returns all errors.
fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> Result<LabelRequirement, String> {
    let mut errors = Vec::new();
    if let Err(why) = check_key(key) {
        errors.push(FieldError::invalid(&Path::new("key"), key, why));
    }
    let at = Path::new("values");
    match operator {
        In | NotIn if values.is_empty() => {
            let why = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid(&at, Value::from(values), why));
        }
        Exists | DoesNotExist if !values.is_empty() => {
            let why = "values set must be empty for exists and does not exist";
            errors.push(FieldError::invalid(&at, Value::from(values), why));
        }
        GreaterThan | LessThan => {
            for (index, value) in values.iter().enumerate().filter(|(_, value)| go_integer(value).is_none()) {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&at.index(index), *value, why));
            }
        }
        In | NotIn | Exists | DoesNotExist => {}
    }
    for (index, value) in values.iter().enumerate() {
        if let Err(why) = check_value(value) {
            errors.push(FieldError::invalid(&at.index(index).key(key), *value, why));
        }
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => {
            let mut values: Vec<Box<str>> = values.iter().map(|&value| value.into()).collect();
            values.sort_unstable();
            values.dedup();
            Ok(LabelRequirement { key: key.into(), operator, values: values.into() })
        }
        [only] => Err(only.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

const NAME_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
    regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Whether the text consists of letters, digits and `-_.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_subdomain(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.split('.').all(|part| {
        part.bytes().all(|b| lower(b) || b == b'-')
            && part.bytes().next().is_some_and(lower)
            && part.bytes().next_back().is_some_and(lower)
    })
}

/// Validates a label key.
pub fn check_key(key: &str) -> Result<(), String> {
    let mut errors = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".to_owned());
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_MESSAGE}"));
                }
            }
            *name
        }
        _ => {
            return Err(format!(
                "a valid label key {NAME_MESSAGE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_MESSAGE}"));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Validates a label value.
pub fn check_value(value: &str) -> Result<(), String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes");
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_MESSAGE);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// A token of the selector text; the end has empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorToken<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> SelectorToken<'a> {
    fn text(self) -> &'a str {
        match self {
            SelectorToken::Word(text) | SelectorToken::Symbol(text) => text,
            SelectorToken::End => "",
        }
    }
}

const SYMBOLS: &[&str] = &["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn scan(text: &str) -> Vec<SelectorToken<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_sign = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    // Go treats NUL as the end.
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        if rest.is_empty() {
            return tokens;
        }
        let (token, length) = if let Some(sign) = SYMBOLS.iter().find(|sign| rest.starts_with(**sign)) {
            (SelectorToken::Symbol(sign), sign.len())
        } else {
            let end = rest.find(|c| is_space(c) || is_sign(c)).unwrap_or(rest.len());
            (SelectorToken::Word(&rest[..end]), end)
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

struct LabelSelectorParser<'a> {
    tokens: Vec<SelectorToken<'a>>,
    at: usize,
}

impl<'a> LabelSelectorParser<'a> {
    fn peek(&self) -> SelectorToken<'a> {
        self.tokens.get(self.at).copied().unwrap_or(SelectorToken::End)
    }

    fn next(&mut self) -> SelectorToken<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                SelectorToken::Word(_) | SelectorToken::Symbol("!") => {}
                SelectorToken::End => return Ok(requirements),
                SelectorToken::Symbol(sign) => {
                    return Err(format!("found '{sign}', expected: !, identifier, or 'end of string'"));
                }
            }
            let required = self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
            requirements.push(required);
            match self.next() {
                SelectorToken::End => return Ok(requirements),
                SelectorToken::Symbol(",") => match self.peek() {
                    SelectorToken::Word(_) | SelectorToken::Symbol("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = self.peek() == SelectorToken::Symbol("!");
        if absent {
            self.at += 1;
        }
        let key = match self.next() {
            SelectorToken::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(key).map_err(|why| FieldError::invalid(&Path::new("<nil>"), key, why).to_string())?;
        if absent {
            return requirement(key, DoesNotExist, &[]);
        }
        if matches!(self.peek(), SelectorToken::End | SelectorToken::Symbol(",")) {
            return requirement(key, Exists, &[]);
        }
        let operator = match self.next() {
            SelectorToken::Word("in") => return requirement(key, In, &self.values()?),
            SelectorToken::Word("notin") => return requirement(key, NotIn, &self.values()?),
            SelectorToken::Symbol("=" | "==") => In,
            SelectorToken::Symbol("!=") => NotIn,
            SelectorToken::Symbol(">") => GreaterThan,
            SelectorToken::Symbol("<") => LessThan,
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        let value = match self.peek() {
            SelectorToken::End | SelectorToken::Symbol(",") => "",
            SelectorToken::Word(value) => {
                self.at += 1;
                value
            }
            SelectorToken::Symbol(sign) => return Err(format!("found '{sign}', expected: identifier")),
        };
        requirement(key, operator, &[value])
    }

    /// Parses `(a,b)`; a missing word is the empty value.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            SelectorToken::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        match self.peek() {
            SelectorToken::Word(_) | SelectorToken::Symbol("," | ")") => {}
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                SelectorToken::Word(value) => {
                    values.push(value);
                    match self.next() {
                        SelectorToken::Symbol(",") if self.peek() != SelectorToken::Symbol(")") => {}
                        SelectorToken::Symbol(",") => values.push(""),
                        SelectorToken::Symbol(")") => return Ok(unique(values)),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                SelectorToken::Symbol(",") => values.push(""),
                SelectorToken::Symbol(")") => {
                    values.push("");
                    return Ok(unique(values));
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }
}

fn unique(mut values: Vec<&str>) -> Vec<&str> {
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests;
