//! Tests of label selectors: grammar, errors, and agreement with a naive evaluation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn label_selector_errors_are_those_of_kubernetes() {
    #[rustfmt::skip]
    let table = [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a==b==c", "found '==', expected: ',' or 'end of string'"), ("a=b,", "found '', expected: identifier after ','"),
        ("a=b,,c=d", "found ',', expected: identifier after ','"), (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"), ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"), ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"), ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        ("a in in", "unable to parse requirement: found 'in' expected: '('"), ("a,(", "found '(', expected: identifier after ','"),
        ("/a=b", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
    ];
    for (text, error) in table {
        assert_eq!(LabelSelector::parse(text), Err(error.to_owned()), "{text}");
    }
    assert!(LabelSelector::parse("a=-b").unwrap_err().starts_with(
        "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be"
    ));
    assert!(
        LabelSelector::parse("a/b/c=d")
            .unwrap_err()
            .ends_with("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
    );
}

#[test]
fn label_selector_matches_labels() {
    let labels = json!({"app": "web", "n": "5", "empty": ""});
    #[rustfmt::skip]
    let table = [
        ("", true), ("app=web", true), ("app==db", false), ("app!=db", true), ("none!=x", true), ("app", true), ("!app", false),
        ("!none", true), ("app in (db, web)", true), ("app notin (web)", false), ("none notin (x)", true), ("n>4,n<6", true),
        ("n>5", false), ("app>1", false), ("empty=", true), ("empty in ()", true), ("empty in (,)", true), ("app in (web,)", true),
        ("app=web,n=6", false), ("in", false), ("in notin (in)", true), ("app\tin\n(web)", true), ("empty in (a,,b)", true),
    ];
    for (text, selected) in table {
        assert_eq!(LabelSelector::parse(text).unwrap().matches_value(&labels), selected, "{text}");
    }
}

#[test]
fn label_selector_object_equals_text_form() {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "n", "operator": "NotIn", "values": ["6"]}, {"key": "none", "operator": "DoesNotExist"}]});
    assert_eq!(
        LabelSelector::from_label_selector_object(&selector),
        LabelSelector::parse("app=web,n notin (6),!none")
    );
    assert!(!LabelSelector::from_label_selector_object(&Value::Null).unwrap().matches(|_| None));
    assert!(LabelSelector::from_label_selector_object(&json!({})).unwrap().is_everything());
    let unknown = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    assert_eq!(
        LabelSelector::from_label_selector_object(&unknown).unwrap_err(),
        "\"Like\" is not a valid label selector operator"
    );
    let empty = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    assert_eq!(
        LabelSelector::from_label_selector_object(&empty).unwrap_err(),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
}

type NaiveMatch = fn(&BTreeMap<String, String>, &str, &str) -> bool;

/// A requirement as text, with its naive evaluation.
fn any_requirement() -> impl Strategy<Value = (String, NaiveMatch, String, String)> {
    let forms: Vec<(&str, NaiveMatch)> = vec![
        ("K=V", |l, k, v| l.get(k).is_some_and(|x| x == v)),
        ("K != V", |l, k, v| l.get(k).is_none_or(|x| x != v)),
        ("K in (zz,V)", |l, k, v| l.get(k).is_some_and(|x| x == v || x == "zz")),
        ("K notin (V , zz)", |l, k, v| l.get(k).is_none_or(|x| x != v && x != "zz")),
        ("K", |l, k, _| l.contains_key(k)),
        (" !K ", |l, k, _| !l.contains_key(k)),
    ];
    (prop::sample::select(forms), "[a-c]", "[x-z]{1,2}")
        .prop_map(|((form, naive), k, v)| (form.replace('K', &k).replace('V', &v), naive, k, v))
}

proptest! {
    #[test]
    fn selection_agrees_with_a_naive_one(
        labels in prop::collection::btree_map("[a-c]", "[x-z]{1,2}", 0..4),
        terms in prop::collection::vec(any_requirement(), 0..4),
    ) {
        let text = terms.iter().map(|term| term.0.as_str()).collect::<Vec<_>>().join(",");
        let selector = LabelSelector::parse(&text).unwrap();
        let naive = terms.iter().all(|(_, naive, k, v)| naive(&labels, k, v));
        prop_assert_eq!(selector.matches(|key| labels.get(key).map(String::as_str)), naive);
    }

    #[test]
    fn no_text_stops_it(text in "\\PC*", near in "[ab=!<>(), \0]{0,20}(in|notin)?[ab=!<>(), ]{0,8}") {
        let _ = (LabelSelector::parse(&text), LabelSelector::parse(&near));
    }
}
