//! Kubernetes' `JSONPath` for printer columns of CRDs.
//!
//! Supports fields, indices, slices, unions, wildcards, recursive descent and filters. There is no `range`, because
//! a column is one path. A path without a match finds nothing; [`JsonPath::parse`] returns `None` for an
//! invalid path.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<JsonPathSegment>);

#[derive(Clone, Debug, PartialEq)]
enum JsonPathSegment {
    Field(String),
    Wildcard,
    Recursive,
    Slice { from: Option<i64>, to: SliceEnd, step: i64 },
    Union(Vec<Vec<JsonPathSegment>>),
    Exists(Vec<JsonPathSegment>),
    Filter { left: Vec<JsonPathSegment>, operator: String, right: Vec<JsonPathSegment> },
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SliceEnd {
    /// `[3]`: only this element.
    One,
    End,
    At(i64),
}

/// The path does not apply to a value: an index into a map, a filter on a string.
struct PathMismatch;

impl JsonPath {
    pub fn parse(path: &str) -> Option<Self> {
        JsonPathParser::new(path).parse_segments().map(Self)
    }

    /// Returns the first match of the path.
    pub fn first<'a>(&'a self, document: &'a Value) -> Option<&'a Value> {
        evaluate(&self.0, vec![document]).ok()?.first().copied()
    }
}

struct JsonPathParser<'a> {
    rest: &'a str,
}

/// Whether a character ends a name.
fn terminates(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

impl<'a> JsonPathParser<'a> {
    fn new(rest: &'a str) -> Self {
        Self { rest }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn parse_segments(mut self) -> Option<Vec<JsonPathSegment>> {
        let mut steps = Vec::new();
        while let Some(c) = self.rest.chars().next() {
            if let Some(filter) = self.rest.strip_prefix("[?(") {
                self.rest = filter;
                steps.push(self.filter()?);
            } else if let Some(below) = self.rest.strip_prefix("..") {
                if steps.last() == Some(&JsonPathSegment::Recursive) {
                    return None;
                }
                self.rest = below;
                steps.push(JsonPathSegment::Recursive);
                if below.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    steps.push(self.field());
                }
            } else {
                match c {
                    ' ' | '@' | '$' => _ = self.take(1),
                    '.' => {
                        self.take(1);
                        steps.push(self.field());
                    }
                    '[' => self.bracket(&mut steps)?,
                    '"' | '\'' => steps.push(self.quoted(c)?),
                    '+' | '-' | '0'..='9' => steps.push(self.number()?),
                    'a'..='z' | 'A'..='Z' => match self.take_name() {
                        "true" => steps.push(JsonPathSegment::Constant(true.into())),
                        "false" => steps.push(JsonPathSegment::Constant(false.into())),
                        _ => return None,
                    },
                    _ => return None,
                }
            }
        }
        Some(steps)
    }

    fn take_name(&mut self) -> &'a str {
        let end = self.rest.find(terminates).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// A name; a backslash escapes the next character.
    fn field(&mut self) -> JsonPathSegment {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                name.extend(chars.next().map(|(_, escaped)| escaped));
            } else if terminates(c) {
                end = at;
                break;
            } else {
                name.push(c);
            }
        }
        self.take(end);
        if name == "*" { JsonPathSegment::Wildcard } else { JsonPathSegment::Field(name) }
    }

    fn number(&mut self) -> Option<JsonPathSegment> {
        let digits = self.rest[1..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |at| at + 1));
        let whole = text.parse::<i64>().ok().map(Value::from);
        Some(JsonPathSegment::Constant(whole.or_else(|| text.parse::<f64>().ok().map(Value::from))?))
    }

    fn quoted(&mut self, quote: char) -> Option<JsonPathSegment> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        loop {
            match chars.next()?.1 {
                '\\' => text.push(chars.next()?.1),
                c if c == quote => break,
                c => text.push(c),
            }
        }
        let end = chars.next().map_or(self.rest.len(), |(at, _)| at);
        self.take(end);
        Some(JsonPathSegment::Constant(text.into()))
    }

    /// `[0]`, `[-1]`, `[1:3]`, `[*]`, `['key']`, `[0,2]`.
    fn bracket(&mut self, steps: &mut Vec<JsonPathSegment>) -> Option<()> {
        let end = self.rest.find(']')?;
        let inside = &self.take(end + 1)[1..end];
        if inside.contains(',') {
            let branch = |part: &str| JsonPathParser::new(&format!("[{}]", part.trim())).parse_segments();
            steps.push(JsonPathSegment::Union(inside.split(',').map(branch).collect::<Option<_>>()?));
        } else if let Some(key) = inside.strip_prefix('\'').and_then(|key| key.strip_suffix('\'')) {
            steps.extend(JsonPathParser::new(&format!(".{key}")).parse_segments()?);
        } else {
            steps.push(parse_slice(if inside == "*" { ":" } else { inside })?);
        }
        Some(())
    }

    /// The expression between `[?(` and `)]`; brackets within quotes do not end it.
    fn filter(&mut self) -> Option<JsonPathSegment> {
        let mut open = None;
        let mut end = None;
        let mut escaped = false;
        for (at, c) in self.rest.char_indices() {
            match (open, c) {
                (None, ')') => {
                    end = Some(at);
                    break;
                }
                (None, '"' | '\'') => open = Some(c),
                (Some(quote), c) if c == quote && !escaped => open = None,
                _ => {}
            }
            escaped = c == '\\' && !escaped;
        }
        let inside = self.take(end?);
        self.rest = self.rest.strip_prefix(")]")?;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let Some(begin) = inside.find(is_operator).filter(|at| *at > 0) else {
            return Some(JsonPathSegment::Exists(JsonPathParser::new(inside).parse_segments()?));
        };
        let (left, tail) = inside.split_at(begin);
        let (operator, right) = tail.split_at(tail.find(|c| !is_operator(c))?);
        Some(JsonPathSegment::Filter {
            left: JsonPathParser::new(left).parse_segments()?,
            operator: operator.to_owned(),
            right: JsonPathParser::new(right).parse_segments()?,
        })
    }
}

/// `from:to:step`, each optional; `from` alone selects that element.
fn parse_slice(text: &str) -> Option<JsonPathSegment> {
    let number = |part: &str| part.trim().parse::<i64>().ok();
    let mut parts = text.split(':');
    let from = parts.next().filter(|part| !part.is_empty());
    let from = from.map(|part| number(part).ok_or(())).transpose().ok()?;
    let to = match parts.next() {
        None if from.is_none() => return None,
        None => SliceEnd::One,
        Some("") => SliceEnd::End,
        Some(to) => SliceEnd::At(number(to)?),
    };
    let step = parts.next().filter(|part| !part.is_empty()).map_or(Some(1), number)?;
    parts.next().is_none().then_some(JsonPathSegment::Slice { from, to, step })
}

fn evaluate<'a>(steps: &'a [JsonPathSegment], start: Vec<&'a Value>) -> Result<Vec<&'a Value>, PathMismatch> {
    steps.iter().try_fold(start, |found, step| evaluate_segment(step, &found))
}

fn evaluate_segment<'a>(
    step: &'a JsonPathSegment,
    found: &[&'a Value],
) -> Result<Vec<&'a Value>, PathMismatch> {
    let mut next = Vec::new();
    for &value in found {
        match step {
            JsonPathSegment::Field(name) => next.extend(value.as_object().and_then(|map| map.get(name))),
            JsonPathSegment::Wildcard => next.extend(children(value)),
            JsonPathSegment::Recursive => collect_descendants(value, &mut next),
            JsonPathSegment::Constant(constant) => next.push(constant),
            JsonPathSegment::Slice { from, to, step } if !value.is_null() => {
                next.extend(slice_elements(value.as_array().ok_or(PathMismatch)?, *from, *to, *step)?);
            }
            // A union is applied below to all current values, once per branch.
            JsonPathSegment::Slice { .. } | JsonPathSegment::Union(_) => {}
            JsonPathSegment::Exists(left) => {
                let all = value.as_array().ok_or(PathMismatch)?.iter();
                next.extend(all.filter(|e| evaluate(left, vec![e]).is_ok_and(|found| !found.is_empty())));
            }
            JsonPathSegment::Filter { left, operator, right } => {
                for element in value.as_array().ok_or(PathMismatch)? {
                    let (left, right) = (evaluate(left, vec![element])?, evaluate(right, vec![element])?);
                    match (left.as_slice(), right.as_slice()) {
                        ([], _) | (_, []) => {}
                        ([left], [right]) => {
                            if compare_values(left, operator, right)? {
                                next.push(element);
                            }
                        }
                        _ => return Err(PathMismatch),
                    }
                }
            }
        }
    }
    if let JsonPathSegment::Union(branches) = step {
        for branch in branches {
            next.extend(evaluate(branch, found.to_vec())?);
        }
    }
    Ok(next)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// Collects the value and all its descendants that have children.
fn collect_descendants<'a>(value: &'a Value, into: &mut Vec<&'a Value>) {
    let below = children(value);
    if !below.is_empty() {
        into.push(value);
        for child in below {
            collect_descendants(child, into);
        }
    }
}

fn slice_elements(
    list: &[Value],
    from: Option<i64>,
    to: SliceEnd,
    step: i64,
) -> Result<Vec<&Value>, PathMismatch> {
    let length = i64::try_from(list.len()).map_err(|_| PathMismatch)?;
    let from = from.unwrap_or(0);
    let from = if from < 0 { from.saturating_add(length) } else { from };
    let to = match to {
        SliceEnd::One => from.saturating_add(1),
        SliceEnd::End => length,
        SliceEnd::At(to) if to < 0 => to.saturating_add(length),
        SliceEnd::At(to) => to,
    };
    if from == to {
        return Ok(Vec::new());
    }
    let begin = usize::try_from(from).map_err(|_| PathMismatch)?;
    let end = usize::try_from(to).map_err(|_| PathMismatch)?;
    let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or(PathMismatch)?;
    if begin >= list.len() || end > list.len() || begin > end {
        return Err(PathMismatch);
    }
    Ok(list[begin..end].iter().step_by(step).collect())
}

/// Compares two values of the same type; other comparisons fail.
fn compare_values(left: &Value, operator: &str, right: &Value) -> Result<bool, PathMismatch> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        _ => None,
    };
    let order = order.ok_or(PathMismatch)?;
    match operator {
        "==" => Ok(order == Ordering::Equal),
        "!=" => Ok(order != Ordering::Equal),
        "<" => Ok(order == Ordering::Less),
        "<=" => Ok(order != Ordering::Greater),
        ">" => Ok(order == Ordering::Greater),
        ">=" => Ok(order != Ordering::Less),
        _ => Err(PathMismatch),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_paths_find_values() {
        let document = json!({
            "metadata": {"labels": {"example.com/a": "x"}},
            "spec": {"n": [10, 20, 30], "m": {"k": {"v": 1}}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 3}, {"type": "Sy(n)c", "status": "False", "n": 5},
            ]},
        });
        let table = [
            (".metadata.labels.example\\.com/a", json!("x")),
            (".metadata.labels['example\\.com/a']", json!("x")),
            ("$.spec.n[0]", json!(10)),
            (".spec.n[-1]", json!(30)),
            (".spec.n[1:]", json!(20)),
            (".spec.n[*]", json!(10)),
            (".spec.n[2,0]", json!(30)),
            (".spec.n[9]", Value::Null),
            (".spec.n.x", Value::Null),
            (".spec.m[0]", Value::Null),
            ("..v", json!(1)),
            (".spec.m.*.v", json!(1)),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='Sy(n)c')].status", json!("False")),
            (".status.conditions[?(@.n>4)].type", json!("Sy(n)c")),
            (".status.conditions[?(@.n)].type", json!("Ready")),
            (".status.conditions[?(@.type==1)].type", Value::Null),
            (".status.conditions[?(@.none==\"x\")].type", Value::Null),
        ];
        for (path, expected) in table {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path} can be read"));
            assert_eq!(parsed.first(&document), (!expected.is_null()).then_some(&expected), "{path}");
        }
        for broken in [".a[", ".a[x]", ".a[?(@.b", "....a", "a", ".a[?(@.b==\"x)]"] {
            assert_eq!(JsonPath::parse(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[.\\[\\]?(@)a'\"\\\\:,*=<0-9é-]{0,24}") {
            let document = json!({"a": [{"a": "x"}, {"a": [1, 2]}], "é": 1});
            if let Some(path) = JsonPath::parse(&path) {
                let _ = path.first(&document);
            }
        }
    }
}
