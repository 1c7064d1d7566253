//! Target selectors of patches, as in kustomize: anchored patterns for names, selectors for labels and annotations.

use std::collections::BTreeMap;

use kube::core::{Expression, Selector as Labels, SelectorExt};
use kube_apply::Object;
use kube_types::release::ObjectSelector;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// The size limit of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 64 << 10;

/// A parsed selector.
pub struct TargetSelector {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    namespace: Option<Regex>,
    name: Option<Regex>,
    labels: Labels,
    annotations: Labels,
}

impl TargetSelector {
    pub fn parse(selector: &ObjectSelector) -> Result<Self, String> {
        let ObjectSelector { group, version, kind, namespace, name, label_selector, annotation_selector } =
            selector;
        Ok(Self {
            group: parse_pattern("group", group.as_deref())?,
            version: parse_pattern("version", version.as_deref())?,
            kind: parse_pattern("kind", kind.as_deref())?,
            namespace: parse_pattern("namespace", namespace.as_deref())?,
            name: parse_pattern("name", name.as_deref())?,
            labels: parse_selector("labelSelector", label_selector.as_deref())?,
            annotations: parse_selector("annotationSelector", annotation_selector.as_deref())?,
        })
    }

    pub fn matches(&self, object: &Object) -> bool {
        let (group, version) = match object.api_version().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object.api_version()),
        };
        let metadata = &object.value()["metadata"];
        let fits = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|p| p.is_match(text));
        fits(&self.group, group)
            && fits(&self.version, version)
            && fits(&self.kind, object.kind())
            && fits(&self.namespace, object.namespace().unwrap_or_default())
            && fits(&self.name, object.name())
            && self.labels.matches(&string_map(&metadata["labels"]))
            && self.annotations.matches(&string_map(&metadata["annotations"]))
    }
}

fn parse_pattern(field: &str, text: Option<&str>) -> Result<Option<Regex>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let built = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(MAX_PATTERN_BYTES).build();
    built.map(Some).map_err(|_| format!("target.{field} is not a valid pattern"))
}

fn string_map(map: &Value) -> BTreeMap<String, String> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn parse_selector(field: &str, text: Option<&str>) -> Result<Labels, String> {
    parse_label_selector(text.unwrap_or_default())
        .ok_or_else(|| format!("target.{field} is not a valid selector"))
}

/// Parses a label selector such as `app=web,tier in (a,b),!old`. `None` if it is invalid.
pub(crate) fn parse_label_selector(text: &str) -> Option<Labels> {
    let mut labels = Labels::default();
    for term in split_terms(text) {
        labels.extend(parse_expression(term.trim())?);
    }
    Some(labels)
}

/// Splits at commas outside parentheses. An empty text has no terms.
fn split_terms(text: &str) -> Vec<&str> {
    let mut inside = false;
    let split = text.split(move |c: char| {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    });
    if text.trim().is_empty() { Vec::new() } else { split.collect() }
}

fn parse_expression(term: &str) -> Option<Expression> {
    let key = |text: &str| {
        let text = text.trim();
        let fits = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "=!(),<>".contains(c));
        fits.then(|| text.to_owned())
    };
    let value = |text: &str| {
        let text = text.trim();
        (!text.contains(|c: char| c.is_whitespace() || "=!(),".contains(c))).then(|| text.to_owned())
    };
    if let Some((left, right)) = term.split_once("!=") {
        return Some(Expression::NotEqual(key(left)?, value(right)?));
    }
    if let Some((left, right)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Expression::Equal(key(left)?, value(right)?));
    }
    if let Some(absent) = term.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key(absent)?));
    }
    if let Some((left, list)) = term.split_once('(') {
        let values = list.strip_suffix(')')?.split(',').map(value).collect::<Option<_>>()?;
        let (name, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(Expression::In(key(name)?, values)),
            "notin" => Some(Expression::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    Some(Expression::Exists(key(term)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(field: &str, text: &str) -> ObjectSelector {
        serde_json::from_value(json!({field: text})).unwrap()
    }

    #[test]
    fn selector_matches_objects() {
        let object = Object::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "web-1", "namespace": "shop", "labels": {"app": "web", "tier": "a"}, "annotations": {"x/y": "z"},
        }}))
        .unwrap();
        #[rustfmt::skip]
        let table = [
            ("group", "apps", true), ("group", "app", false), ("version", "v1", true), ("version", "v1beta1", false),
            ("kind", "Deployment|StatefulSet", true), ("kind", "Deploy", false),
            ("name", "web-.*", true), ("name", "web", false), ("name", "", true),
            ("namespace", "shop", true), ("namespace", "other", false),
            ("labelSelector", "app=web", true), ("labelSelector", "app==web,tier!=b", true),
            ("labelSelector", "app in (web, api),!old", true), ("labelSelector", "app notin (web)", false),
            ("labelSelector", "tier", true), ("labelSelector", "old", false), ("labelSelector", " ", true),
            ("annotationSelector", "x/y=z", true), ("annotationSelector", "x/y=", false),
        ];
        for (field, text, expected) in table {
            let target = TargetSelector::parse(&selector(field, text)).unwrap();
            assert_eq!(target.matches(&object), expected, "{field}: {text}");
        }
    }

    #[test]
    fn invalid_selector_is_rejected() {
        for (field, text) in [
            ("name", "("),
            ("name", "(a{1000}){1000}"),
            ("labelSelector", "a=b=c"),
            ("labelSelector", "a in b"),
            ("labelSelector", "a,,b"),
            ("labelSelector", "a within (b)"),
            ("labelSelector", "a in (b"),
            ("annotationSelector", "a>1"),
        ] {
            let error = TargetSelector::parse(&selector(field, text)).err().unwrap();
            assert!(error.starts_with(&format!("target.{field} is no")), "{error}");
        }
    }
}
