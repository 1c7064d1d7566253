//! Labels and selectors formatted in one line.

use serde_json::Value;

use crate::rules::accessors::{entries, items, text, texts};

/// `a=1,b=2`, or `<none>`.
pub fn labels(labels: &Value) -> String {
    text_or_none(join_labels(labels))
}

/// `a=1,b=2`
pub fn join_labels(labels: &Value) -> String {
    let pairs: Vec<_> = entries(labels).map(|(key, value)| format!("{key}={}", text(value))).collect();
    pairs.join(",")
}

/// A label selector in kubectl's syntax, or `<none>`.
pub fn selector(selector: &Value) -> String {
    text_or_none(requirements(selector))
}

/// A label selector in kubectl's syntax: `a=1,b in (x,y),!c`, sorted by key.
pub fn requirements(selector: &Value) -> String {
    let equal =
        entries(&selector["matchLabels"]).map(|(key, v)| (key.as_str(), format!("{key}={}", text(v))));
    let others = items(&selector["matchExpressions"]).iter().map(|expression| {
        let key = text(&expression["key"]);
        let mut values: Vec<_> = texts(&expression["values"]).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, shown)
    });
    let mut all: Vec<_> = equal.chain(others).collect();
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

fn text_or_none(shown: String) -> String {
    if shown.is_empty() { "<none>".to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_formatted_in_kubectl_syntax() {
        let both = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "c", "operator": "Exists"},
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
            {"key": "e", "operator": "NotIn", "values": ["q"]},
        ]});
        assert_eq!(selector(&both), "a in (x,y),b=1,c,!d,e notin (q)");
        assert_eq!(selector(&json!({})), "<none>");
        assert_eq!(requirements(&Value::Null), "");
        assert_eq!(labels(&json!({"b": "2", "a": ""})), "a=,b=2");
    }
}
