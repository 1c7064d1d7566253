//! Field checks shared by all kinds, with the exact messages of Kubernetes.
//!
//! Two layers. Functions that return `Vec<String>` check a string and return error messages. Functions that
//! take a [`PathValue`] check the value at a path of an object and report errors under that path. The rules of the kinds use the second
//! layer.
//!
//! Invariant: nothing here panics for any object. A value of the wrong JSON type
//! counts as absent, because decoding has rejected it before.

mod path_value;
pub mod quantity;

use std::collections::HashSet;

use serde_json::Value;

pub use self::path_value::PathValue;
use crate::field::{FieldError, FieldErrors, Path};
use crate::selector::MAX_REQUIREMENTS;

pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub const POSITIVE: &str = "must be greater than zero";
pub const IMMUTABLE: &str = "field is immutable";

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const UNDERSCORED_SUBDOMAIN: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const UNDERSCORED_SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD: &str = "\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn pattern_message(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn too_many_bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

/// `must be between 1 and 65535, inclusive`
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Starts with `first`, ends with `last`, and has only `inner` in between.
fn has_charset(text: &str, first: fn(u8) -> bool, inner: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => first(*only) && last(*only),
        [begin, middle @ .., end] => first(*begin) && middle.iter().all(|b| inner(*b)) && last(*end),
    }
}

fn is_label(text: &str) -> bool {
    has_charset(text, lower_or_digit, |b| lower_or_digit(b) || b == b'-', lower_or_digit)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    has_charset(text, |b| b.is_ascii_alphanumeric(), inner, |b| b.is_ascii_alphanumeric())
}

/// RFC 1123 label, 63 bytes.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern_message(LABEL_MESSAGE, LABEL, &["my-name", "123-abc"])
        });
    }
    wrong
}

/// RFC 1123 subdomain, 253 bytes.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    subdomain_within(text, too_long(253))
}

fn subdomain_within(text: &str, length_words: String) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(length_words);
    }
    if !is_subdomain(text) {
        wrong.push(pattern_message(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// RFC 1123 subdomain that may also contain underscores (DNS search paths).
pub fn dns_subdomain_underscored(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    let part = |part: &str| {
        let inner = |b: u8| lower_or_digit(b) || matches!(b, b'-' | b'_');
        has_charset(part.strip_prefix('_').unwrap_or(part), lower_or_digit, inner, lower_or_digit)
    };
    if !text.split('.').all(part) {
        wrong.push(pattern_message(UNDERSCORED_SUBDOMAIN_MESSAGE, UNDERSCORED_SUBDOMAIN, &["example.com"]));
    }
    wrong
}

/// RFC 1035 label, 63 bytes.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) || text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        wrong.push(pattern_message(LABEL_1035_MESSAGE, LABEL_1035, &["my-name", "abc-123"]));
    }
    wrong
}

/// `*.` followed by a subdomain, 253 bytes.
pub fn dns_wildcard(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        wrong.push(pattern_message(WILDCARD_MESSAGE, WILDCARD, &["*.example.com"]));
    }
    wrong
}

/// The key of a label or an annotation: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let pattern = || pattern_message(KEY_MESSAGE, KEY, &["MyName", "my.name", "123-abc"]);
    let parts: Vec<_> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let of_prefix = subdomain_within(prefix, too_many_bytes(253));
            wrong.extend(of_prefix.into_iter().map(|words| format!("prefix part {words}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern()
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_many_bytes(63)));
    }
    if !is_key(name) {
        wrong.push(format!("name part {}", pattern()));
    }
    wrong
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_many_bytes(63));
    }
    if !text.is_empty() && !is_key(text) {
        wrong.push(pattern_message(LABEL_VALUE_MESSAGE, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    wrong
}

pub fn c_identifier(text: &str) -> Vec<String> {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if has_charset(text, first, inner, inner) {
        return Vec::new();
    }
    let words = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![pattern_message(words, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// The name of a port: an IANA service name.
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|b| lower_or_digit(b) || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The name of an environment variable, as lenient as Kubernetes is since 1.34.
pub fn env_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if text.chars().any(|c| c == '=' || !(' '..='~').contains(&c)) {
        return vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        ];
    }
    Vec::new()
}

/// A key of a ConfigMap or a Secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
    {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        wrong.push(pattern_message(words, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern_message(words, "[0-9]+%", &["1%", "93%"])]
}

pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern_message(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A URL path segment.
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let found = ["/", "%"].into_iter().filter(|bad| text.contains(bad));
    found.map(|bad| format!("may not contain '{bad}'")).collect()
}

pub fn ip(text: &str) -> Vec<String> {
    match text.parse::<std::net::IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// Reports each message of `judge` about the string at `at`.
pub fn text(at: &PathValue, judge: fn(&str) -> Vec<String>, errs: &mut FieldErrors) {
    let text = at.text();
    errs.extend(judge(text).into_iter().map(|words| FieldError::invalid(&at.path, text, words)));
}

/// A required string, checked by `judge`.
pub fn required_text(at: &PathValue, judge: fn(&str) -> Vec<String>, errs: &mut FieldErrors) {
    if at.text().is_empty() {
        errs.push(FieldError::required(&at.path, ""));
    } else {
        text(at, judge, errs);
    }
}

/// A required value.
pub fn required(at: &PathValue, errs: &mut FieldErrors) {
    if at.is_empty() {
        errs.push(FieldError::required(&at.path, ""));
    }
}

pub fn not_negative(at: &PathValue, errs: &mut FieldErrors) {
    if at.int() < 0 {
        errs.push(FieldError::invalid(&at.path, at.int(), NOT_NEGATIVE));
    }
}

pub fn positive(at: &PathValue, errs: &mut FieldErrors) {
    if at.int() <= 0 {
        errs.push(FieldError::invalid(&at.path, at.int(), POSITIVE));
    }
}

/// An optional number within limits.
pub fn number_in_range(at: &PathValue, low: i64, high: i64, errs: &mut FieldErrors) {
    if let Some(number) = at.number()
        && !(low..=high).contains(&number)
    {
        errs.push(FieldError::invalid(&at.path, number, between(low, high)));
    }
}

/// A port number; an absent one counts as 0.
pub fn port_number(at: &PathValue, errs: &mut FieldErrors) {
    if !(1..=65535).contains(&at.int()) {
        errs.push(FieldError::invalid(&at.path, at.int(), between(1, 65535)));
    }
}

/// A port by number or by name.
pub fn port(at: &PathValue, errs: &mut FieldErrors) {
    if at.value.is_some_and(Value::is_string) { text(at, port_name, errs) } else { port_number(at, errs) }
}

/// A number that is not negative, or a percentage.
pub fn number_or_percent(at: &PathValue, errs: &mut FieldErrors) {
    if at.value.is_some_and(Value::is_string) { text(at, percent, errs) } else { not_negative(at, errs) }
}

/// The percentage at this path, if it is one.
pub fn percent_of(at: &PathValue) -> Option<i64> {
    at.text().strip_suffix('%').and_then(|digits| digits.parse().ok())
}

pub fn at_most_hundred_percent(at: &PathValue, errs: &mut FieldErrors) {
    if percent_of(at).is_some_and(|percent| percent > 100) {
        errs.push(FieldError::invalid(&at.path, at.to_json(), "must not be greater than 100%"));
    }
}

/// An enum value; `""` is unsupported as well.
pub fn one_of(at: &PathValue, supported: &[&str], errs: &mut FieldErrors) {
    if !supported.contains(&at.text()) {
        errs.push(FieldError::unsupported(&at.path, at.text(), supported));
    }
}

/// A required enum value.
pub fn required_one_of(at: &PathValue, supported: &[&str], errs: &mut FieldErrors) {
    if at.text().is_empty() {
        errs.push(FieldError::required(&at.path, ""));
    } else {
        one_of(at, supported, errs);
    }
}

/// The labels of an object, a template or a selector; errors are reported at the map.
pub fn labels(at: &PathValue, errs: &mut FieldErrors) {
    for (key, value) in at.entries() {
        label_name(key, &at.path, errs);
        let value = value.text();
        errs.extend(label_value(value).into_iter().map(|words| FieldError::invalid(&at.path, value, words)));
    }
}

pub fn label_name(key: &str, path: &Path, errs: &mut FieldErrors) {
    errs.extend(qualified_name(key).into_iter().map(|words| FieldError::invalid(path, key, words)));
}

/// The annotations of an object or a template.
pub fn annotations(at: &PathValue, errs: &mut FieldErrors) {
    const MAX_ANNOTATION_BYTES: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in at.entries() {
        size += key.len() + value.text().len();
        let lower = key.to_lowercase();
        errs.extend(
            qualified_name(&lower).into_iter().map(|words| FieldError::invalid(&at.path, key, words)),
        );
    }
    if size > MAX_ANNOTATION_BYTES {
        errs.push(FieldError::too_long(&at.path, MAX_ANNOTATION_BYTES));
    }
}

/// Whether this is one of the four operators of every selector; reports values that do not match it.
pub fn set_operator(operator: &PathValue, values: &PathValue, errs: &mut FieldErrors) -> bool {
    match operator.text() {
        "In" | "NotIn" => {
            if values.is_empty() {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errs.push(FieldError::required(&values.path, why));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errs.push(FieldError::forbidden(&values.path, why));
            }
        }
        _ => return false,
    }
    true
}

/// `matchLabels` and `matchExpressions`.
/// Validates a label selector. Controllers compare each requirement with many objects, so their number is limited as in queries;
/// Kubernetes has no such limit.
pub fn label_selector(at: &PathValue, errs: &mut FieldErrors) {
    let expressions = at.get("matchExpressions");
    let count = at.get("matchLabels").len() + expressions.len();
    let count = count + expressions.items().map(|expression| expression.get("values").len()).sum::<usize>();
    if count > MAX_REQUIREMENTS {
        errs.push(FieldError::too_many(&at.path, count, MAX_REQUIREMENTS));
        return;
    }
    labels(&at.get("matchLabels"), errs);
    for expression in at.get("matchExpressions").items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        if !set_operator(&operator, &values, errs) {
            errs.push(FieldError::invalid(&operator.path, operator.text(), "not a valid selector operator"));
        }
        text(&expression.get("key"), qualified_name, errs);
        for value in values.items() {
            text(&value, label_value, errs);
        }
    }
}

/// Whether a label selector matches these labels. An invalid selector matches nothing.
pub fn selector_matches(selector: &PathValue, labels: &PathValue) -> bool {
    let label = |key: &str| labels.value.and_then(|map| map.get(key)).and_then(Value::as_str);
    let exact = selector.get("matchLabels").entries().all(|(key, value)| label(key) == Some(value.text()));
    exact
        && selector.get("matchExpressions").items().all(|expression| {
            let found = label(expression.get("key").text());
            let listed =
                || found.is_some_and(|found| expression.get("values").items().any(|v| v.text() == found));
            match expression.get("operator").text() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// A selector without requirements.
pub fn selector_is_empty(selector: &PathValue) -> bool {
    selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty()
}

/// A list of `metav1.Condition`.
pub fn conditions(list: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for condition in list.items() {
        let (kind, reason) = (condition.get("type"), condition.get("reason"));
        if seen.contains(&kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        } else {
            seen.insert(kind.text());
        }
        text(&kind, qualified_name, errs);
        one_of(&condition.get("status"), &["False", "True", "Unknown"], errs);
        let generation = condition.get("observedGeneration");
        if generation.int() < 0 {
            let words = "must be greater than or equal to zero";
            errs.push(FieldError::invalid(&generation.path, generation.int(), words));
        }
        required(&condition.get("lastTransitionTime"), errs);
        required(&reason, errs);
        if reason.len() > 1024 {
            errs.push(FieldError::too_long(&reason.path, 1024));
        }
        if !reason.is_empty() {
            text(&reason, condition_reason, errs);
        }
        let message = condition.get("message");
        if message.len() > 32 * 1024 {
            errs.push(FieldError::too_long(&message.path, 32 * 1024));
        }
    }
}

fn condition_reason(text: &str) -> Vec<String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    let last = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let alone = text.len() == 1 && text.bytes().all(|b| b.is_ascii_alphabetic());
    if alone || text.len() > 1 && has_charset(text, |b| b.is_ascii_alphabetic(), inner, last) {
        return Vec::new();
    }
    let words = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![pattern_message(words, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)]
}

/// Reports `Invalid value: ...: field is immutable` if the values differ.
pub fn immutable(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    if new.to_json() != old.to_json() {
        errs.push(FieldError::invalid(&new.path, new.to_json(), IMMUTABLE));
    }
}

/// As [`immutable`], for a Go struct.
pub fn immutable_structure(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    if new.to_json() != old.to_json() {
        errs.push(FieldError::invalid(&new.path, new.to_go_names(), IMMUTABLE));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_checks_match_kubernetes() {
        type StringCheck = fn(&str) -> Vec<String>;
        let long = "a".repeat(64);
        let rows: &[(StringCheck, &str, &[&str])] = &[
            (dns_label, "a-1", &[]),
            (dns_label, "a.b", &["must not contain dots"]),
            (dns_label, &long, &["must be no more than 63 characters"]),
            (dns_subdomain, "a.b-c.9", &[]),
            (dns_subdomain_underscored, "_tcp.a_b.c", &[]),
            (dns_wildcard, "*.a.b", &[]),
            (qualified_name, "example.com/Name_1", &[]),
            (qualified_name, "/x", &["prefix part must be non-empty"]),
            (label_value, "", &[]),
            (label_value, &long, &["must be no more than 63 bytes"]),
            (port_name, "http-2", &[]),
            (
                port_name,
                "-9--8",
                &[
                    "must contain at least one letter (a-z)",
                    "must not contain consecutive hyphens",
                    "must not begin or end with a hyphen",
                ],
            ),
            (env_name, "1 a", &[]),
            (env_name, "", &["environment variable name must be non-empty"]),
            (config_key, "..a", &["must not start with '..'"]),
            (percent, "25%", &[]),
            (path_segment, "a/b%", &["may not contain '/'", "may not contain '%'"]),
            (http_header_name, "X-A", &[]),
        ];
        for (judge, text, wrong) in rows {
            assert_eq!(judge(text), *wrong, "{text}");
        }
        let words = dns_label("A_b").remove(0);
        assert!(
            words.ends_with(
                "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ),
            "{words}"
        );
    }

    #[test]
    fn label_selector_is_validated_and_matched() {
        let object = json!({"s": {"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "x", "operator": "NotIn", "values": ["1"]},
            {"key": "y", "operator": "Exists"},
        ]}, "l": {"a": "b", "y": ""}, "m": {"a": "b", "x": "1", "y": ""}});
        let root = PathValue::root(&object);
        let mut errs = FieldErrors::new();
        label_selector(&root.get("s"), &mut errs);
        assert!(errs.is_empty());
        assert!(selector_matches(&root.get("s"), &root.get("l")));
        assert!(!selector_matches(&root.get("s"), &root.get("m")));

        let object = json!({"matchExpressions": [{"key": "a b", "operator": "Is", "values": ["!"]}, {"key": "k", "operator": "In"}]});
        label_selector(&PathValue::root(&object), &mut errs);
        let places: Vec<_> = errs.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(
            places,
            [
                "matchExpressions[0].operator",
                "matchExpressions[0].key",
                "matchExpressions[0].values[0]",
                "matchExpressions[1].values"
            ]
        );
    }
}
