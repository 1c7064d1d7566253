//! Conversion of `autoscaling/v1`, which has only CPU utilisation; annotations carry the other metrics.

use serde_json::{Map, Value, json};

use super::autoscaling::cpu_metric;
use super::defaulting::{default_if_absent, ensure_object, nested_mut, set_field};
use crate::rules::check::PathValue;

const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

fn take(object: &mut Value, owner: &str, name: &str) -> Option<Value> {
    nested_mut(object, owner)?.as_object_mut()?.remove(name).filter(|value| !value.is_null())
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn utilization<'a>(metric: &PathValue<'a>, of: &str) -> Option<&'a Value> {
    let resource = metric.get("resource");
    let cpu = metric.get("type").text() == "Resource" && resource.get("name").text() == "cpu";
    resource.get(of).peek("averageUtilization").filter(|_| cpu)
}

/// From `autoscaling/v2` to `autoscaling/v1`.
pub fn to_v1(object: &mut Value) {
    set_field(object, "apiVersion", "autoscaling/v1");
    let metrics = list(take(object, "spec", "metrics"));
    let by_cpu = |metric: &Value| utilization(&PathValue::root(metric), "target").cloned();
    let percent = metrics.iter().find_map(by_cpu);
    let others: Vec<_> = metrics.iter().filter(|metric| by_cpu(metric).is_none()).map(spec_to_v1).collect();
    let behavior = take(object, "spec", "behavior");
    let current = list(take(object, "status", "currentMetrics"));
    let conditions = list(take(object, "status", "conditions"));
    if let Some(percent) = percent
        && let Some(spec) = ensure_object(object, "spec")
    {
        set_field(spec, "targetCPUUtilizationPercentage", percent);
    }
    let now =
        current.iter().rev().find_map(|metric| utilization(&PathValue::root(metric), "current").cloned());
    if let Some(now) = now
        && let Some(status) = ensure_object(object, "status")
    {
        set_field(status, "currentCPUUtilizationPercentage", now);
    }
    // Version 1 always has `currentReplicas`.
    if let Some(status) = ensure_object(object, "status") {
        default_if_absent(status, "currentReplicas", 0);
    }
    let current: Vec<_> = current.iter().map(status_to_v1).collect();
    let notes = [
        (METRICS_ANNOTATION, (!others.is_empty()).then_some(Value::Array(others))),
        (CURRENT_METRICS_ANNOTATION, (!current.is_empty()).then_some(Value::Array(current))),
        (BEHAVIOR_ANNOTATION, behavior.map(behavior_to_go)),
        (CONDITIONS_ANNOTATION, (!conditions.is_empty()).then_some(Value::Array(conditions))),
    ];
    for (name, value) in notes {
        if let Some(value) = value
            && let Some(metadata) = ensure_object(object, "metadata")
            && let Some(annotations) = ensure_object(metadata, "annotations")
        {
            set_field(annotations, name, to_go_json(&value));
        }
    }
}

/// From `autoscaling/v1` to `autoscaling/v2`.
pub fn from_v1(object: &mut Value) {
    set_field(object, "apiVersion", "autoscaling/v2");
    let mut note = |name: &str| -> Option<Value> {
        let text = take(object, "metadata.annotations", name)?;
        serde_json::from_str(text.as_str()?).ok()
    };
    let (others, current) = (note(METRICS_ANNOTATION), note(CURRENT_METRICS_ANNOTATION));
    let (behavior, conditions) = (note(BEHAVIOR_ANNOTATION), note(CONDITIONS_ANNOTATION));
    let empty =
        PathValue::root(object).nested("metadata.annotations").value.is_some_and(|notes| notes == &json!({}));
    if empty {
        take(object, "metadata", "annotations");
    }
    let mut metrics: Vec<_> = list(others).iter().map(spec_from_v1).collect();
    let percent = take(object, "spec", "targetCPUUtilizationPercentage").and_then(|percent| percent.as_i64());
    metrics.extend(percent.map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(80));
    }
    let now = take(object, "status", "currentCPUUtilizationPercentage");
    if let Some(spec) = ensure_object(object, "spec") {
        default_if_absent(spec, "minReplicas", 1);
        set_field(spec, "metrics", metrics);
        if let Some(behavior) = behavior.map(behavior_from_go).filter(|behavior| *behavior != json!({})) {
            set_field(spec, "behavior", behavior);
        }
    }
    let current: Vec<_> = match current {
        Some(current) => list(Some(current)).iter().map(status_from_v1).collect(),
        None => now
            .map(|now| json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": now}}}))
            .into_iter()
            .collect(),
    };
    for (name, value) in [("currentMetrics", current), ("conditions", list(conditions))] {
        if !value.is_empty()
            && let Some(status) = ensure_object(object, "status")
        {
            set_field(status, name, value);
        }
    }
}

/// The annotation contains Go's internal type: capitalised names, and null for absent fields.
fn behavior_to_go(mut behavior: Value) -> Value {
    for rules in ["scaleUp", "scaleDown"] {
        default_if_absent(&mut behavior, rules, Value::Null);
        if let Some(rules) = nested_mut(&mut behavior, rules) {
            for name in ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"] {
                default_if_absent(rules, name, Value::Null);
            }
        }
    }
    rename_keys(behavior, |name| name[..1].to_uppercase() + &name[1..])
}

/// The fields in the annotations, in Go's order.
const GO_FIELD_ORDER: &[&str] = &[
    "type",
    "kind",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "target",
    "metricName",
    "metricSelector",
    "name",
    "apiVersion",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "currentAverageUtilization",
    "targetAverageValue",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// JSON with fields in the order of [`GO_FIELD_ORDER`]; labels are sorted by name.
fn to_go_json(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let list: Vec<_> = list.iter().map(to_go_json).collect();
            format!("[{}]", list.join(","))
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(name, _)| {
                GO_FIELD_ORDER.iter().position(|known| known == name).unwrap_or(GO_FIELD_ORDER.len())
            });
            let write = |(name, value): (&String, &Value)| {
                let value = if name == "matchLabels" { value.to_string() } else { to_go_json(value) };
                format!("{}:{value}", Value::from(name.as_str()))
            };
            let members: Vec<_> = members.into_iter().map(write).collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

fn behavior_from_go(behavior: Value) -> Value {
    let mut behavior = rename_keys(behavior, |name| name[..1].to_lowercase() + &name[1..]);
    drop_nulls(&mut behavior);
    behavior
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn rename_keys(value: Value, how: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let renamed = map.into_iter().map(|(name, value)| {
                let first_is_ascii = name.as_bytes().first().is_some_and(u8::is_ascii);
                (if first_is_ascii { how(&name) } else { name }, rename_keys(value, how))
            });
            Value::Object(renamed.collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(|value| rename_keys(value, how)).collect()),
        other => other,
    }
}

/// The fields of a source: path in v2, name in v1.
fn source_fields(kind: &str, target: &'static str) -> Vec<(String, &'static str)> {
    let raw = target == "target";
    let pairs: &[(&str, &'static str)] = match (kind, raw) {
        ("object", true) => &[
            ("describedObject", "target"),
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("#.value", "targetValue"),
            ("#.averageValue", "averageValue"),
        ],
        ("object", false) => &[
            ("describedObject", "target"),
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("#.value", "currentValue"),
            ("#.averageValue", "averageValue"),
        ],
        ("pods", true) => &[
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("#.averageValue", "targetAverageValue"),
        ],
        ("pods", false) => &[
            ("metric.name", "metricName"),
            ("metric.selector", "selector"),
            ("#.averageValue", "currentAverageValue"),
        ],
        ("external", true) => &[
            ("metric.name", "metricName"),
            ("metric.selector", "metricSelector"),
            ("#.value", "targetValue"),
            ("#.averageValue", "targetAverageValue"),
        ],
        ("external", false) => &[
            ("metric.name", "metricName"),
            ("metric.selector", "metricSelector"),
            ("#.value", "currentValue"),
            ("#.averageValue", "currentAverageValue"),
        ],
        (_, true) => &[
            ("name", "name"),
            ("container", "container"),
            ("#.averageUtilization", "targetAverageUtilization"),
            ("#.averageValue", "targetAverageValue"),
        ],
        (_, false) => &[
            ("name", "name"),
            ("container", "container"),
            ("#.averageUtilization", "currentAverageUtilization"),
            ("#.averageValue", "currentAverageValue"),
        ],
    };
    pairs.iter().map(|(new, old)| (new.replace('#', target), *old)).collect()
}

const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

fn convert(metric: &Value, target: &'static str, to_v1: bool) -> Value {
    let at = PathValue::root(metric);
    let mut converted = Map::new();
    converted.insert("type".to_owned(), at.get("type").to_json());
    for kind in SOURCES.into_iter().filter(|kind| at.has(kind)) {
        let source = at.get(kind);
        let mut made = json!({});
        for (new, old) in source_fields(kind, target) {
            let (from, to) = if to_v1 { (new.as_str(), old) } else { (old, new.as_str()) };
            let found = source.nested(from);
            if found.exists() {
                set_nested(&mut made, to, found.to_json());
            }
        }
        converted.insert(kind.to_owned(), made);
    }
    Value::Object(converted)
}

fn set_nested(object: &mut Value, names: &str, value: Value) {
    match names.split_once('.') {
        Some((first, rest)) => {
            if let Some(member) = ensure_object(object, first) {
                set_nested(member, rest, value);
            }
        }
        None => set_field(object, names, value),
    }
}

fn spec_to_v1(metric: &Value) -> Value {
    let mut converted = convert(metric, "target", true);
    set_missing_quantities(&mut converted, &[("object", "targetValue"), ("pods", "targetAverageValue")]);
    converted
}

/// Quantities that v1 writes even if absent.
fn set_missing_quantities(metric: &mut Value, fields: &[(&str, &str)]) {
    for (kind, field) in fields {
        if let Some(source) = nested_mut(metric, kind) {
            default_if_absent(source, field, "0");
        }
    }
}

fn status_to_v1(metric: &Value) -> Value {
    let mut converted = convert(metric, "current", true);
    let fields = [
        ("object", "currentValue"),
        ("external", "currentValue"),
        ("pods", "currentAverageValue"),
        ("resource", "currentAverageValue"),
        ("containerResource", "currentAverageValue"),
    ];
    set_missing_quantities(&mut converted, &fields);
    converted
}

fn status_from_v1(metric: &Value) -> Value {
    convert(metric, "current", false)
}

/// v1 has no target type; it follows from the field that is set.
fn spec_from_v1(metric: &Value) -> Value {
    let mut converted = convert(metric, "target", false);
    for kind in SOURCES {
        if let Some(source) = nested_mut(&mut converted, kind)
            && let Some(target) = ensure_object(source, "target")
        {
            let sort = if target.get("averageUtilization").is_some() {
                "Utilization"
            } else if target.get("averageValue").is_some()
                || matches!(kind, "pods" | "resource" | "containerResource")
            {
                "AverageValue"
            } else {
                "Value"
            };
            set_field(target, "type", sort);
            if sort == "AverageValue" && target.get("value").is_some_and(|value| value == "0") {
                target.as_object_mut().map(|map| map.remove("value"));
            }
        }
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_to_v1_round_trips() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"minReplicas": 1, "maxReplicas": 4, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}},
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "Value", "value": "30"}}},
                    cpu_metric(50),
                ]},
            "status": {"conditions": [{"type": "AbleToScale", "status": "True"}], "currentReplicas": 0}});
        let mut object = v2.clone();
        to_v1(&mut object);
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(object["spec"].get("metrics"), None);
        assert_eq!(
            object["metadata"]["annotations"][METRICS_ANNOTATION].as_str().unwrap(),
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetValue":"30"}}]"#
        );
        from_v1(&mut object);
        assert_eq!(object, v2);
    }
}
