//! Horizontal pod autoscalers, in the shape of `autoscaling/v2`.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::quantity;
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, KindRules};

pub use super::autoscaling_v1::{from_v1, to_v1};
use super::defaulting::{default_if_absent, ensure_object, is_empty, nested_mut, set_field};
use super::resources;

pub const RULES: KindRules = KindRules {
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
    default,
    validate: |object| validate(object, None),
    validate_update: |new, old| validate(new, Some(old)),
    validate_status: |new, _| {
        let mut errs = FieldErrors::new();
        for name in ["currentReplicas", "desiredReplicas"] {
            check::not_negative(&PathValue::root(new).get("status").get(name), &mut errs);
        }
        errs
    },
    ..DEFAULT_RULES
};

/// The metric sources: the value of `type`, and the field of the source.
const METRIC_SOURCES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn default(object: &mut Value) {
    let Some(spec) = ensure_object(object, "spec") else { return };
    default_if_absent(spec, "minReplicas", 1);
    if is_empty(spec, "metrics") {
        set_field(spec, "metrics", json!([cpu_metric(80)]));
    }
    if let Some(behavior) = nested_mut(spec, "behavior") {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        if let Some(up) = ensure_object(behavior, "scaleUp") {
            default_if_absent(up, "stabilizationWindowSeconds", 0);
            default_if_absent(up, "selectPolicy", "Max");
            default_if_absent(up, "policies", json!([pods, percent]));
        }
        if let Some(down) = ensure_object(behavior, "scaleDown") {
            default_if_absent(down, "selectPolicy", "Max");
            default_if_absent(down, "policies", json!([percent]));
        }
    }
}

/// A metric for CPU utilisation, in percent of the requests.
pub fn cpu_metric(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(object).get("spec");
    let before = old.map(|old| PathValue::root(old).get("spec"));
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    // Zero needs a disabled feature gate, unless it is stored already.
    let was_zero = before.as_ref().is_some_and(|spec| spec.get("minReplicas").number() == Some(0));
    let bound = i64::from(!was_zero);
    if least.exists() && least.int() < bound {
        let words = format!("must be greater than or equal to {bound}");
        errs.push(FieldError::invalid(&least.path, least.int(), words));
    }
    if most.int() == 0 {
        errs.push(FieldError::required(&most.path, "must be set and greater than 0"));
    } else if most.int() < 0 {
        errs.push(FieldError::invalid(&most.path, most.int(), "must be greater than or equal to 1"));
    }
    if least.exists() && most.int() < least.int() {
        let words = "must be greater than or equal to `minReplicas`";
        errs.push(FieldError::invalid(&most.path, most.int(), words));
    }
    let target = spec.get("scaleTargetRef");
    let same = before.as_ref().is_some_and(|spec| {
        let before = spec.get("scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|name| before.get(name).text() == target.get(name).text())
    });
    let empty_group = target.get("kind").text() == "ReplicationController";
    validate_reference(&target, same, empty_group, &mut errs);
    let metrics = spec.get("metrics");
    metrics.items().for_each(|metric| validate_metric(&metric, &mut errs));
    let from_outside = |metric: PathValue| matches!(metric.get("type").text(), "Object" | "External");
    if least.number() == Some(0) && !metrics.items().any(from_outside) {
        let words = "must specify at least one Object or External metric to support scaling to zero replicas";
        errs.push(FieldError::forbidden(&metrics.path, words));
    }
    for name in ["scaleUp", "scaleDown"] {
        let rules = spec.get("behavior").get(name);
        if rules.exists() {
            validate_scaling_rules(&rules, &mut errs);
        }
    }
    errs
}

/// A reference to an object by kind, name and version.
fn validate_reference(at: &PathValue, any_version: bool, empty_group: bool, errs: &mut FieldErrors) {
    check::required_text(&at.get("kind"), check::path_segment, errs);
    check::required_text(&at.get("name"), check::path_segment, errs);
    let version = at.get("apiVersion");
    if any_version {
        return;
    }
    let words = match version.text().matches('/').count() {
        0 if empty_group => return,
        1 if !version.text().starts_with('/') => return,
        0 | 1 if !empty_group => "apiVersion must specify API group".to_owned(),
        0 | 1 => return,
        _ => format!("unexpected GroupVersion string: {}", version.text()),
    };
    errs.push(FieldError::invalid(&version.path, version.text(), words));
}

fn validate_metric(metric: &PathValue, errs: &mut FieldErrors) {
    let kind = metric.get("type");
    let names: Vec<_> = METRIC_SOURCES.iter().map(|(name, _)| *name).collect();
    if kind.is_empty() {
        errs.push(FieldError::required(&kind.path, "must specify a metric source type"));
    }
    let expected = METRIC_SOURCES.iter().find(|(name, _)| *name == kind.text()).map(|(_, field)| *field);
    if expected.is_none() {
        // Kubernetes reports this twice: for the type, and for the missing source.
        errs.push(FieldError::unsupported(&kind.path, kind.text(), &names));
        errs.push(FieldError::unsupported(&kind.path, kind.text(), &names));
    }
    let present: Vec<_> = ["object", "external", "pods", "resource", "containerResource"]
        .into_iter()
        .filter(|name| metric.has(name))
        .collect();
    if let Some(first) = present.first() {
        validate_source(first, &metric.get(first), errs);
    }
    if let Some(expected) = expected.filter(|expected| !metric.has(expected)) {
        let words = "must populate information for the given metric source";
        errs.push(FieldError::required(&metric.get(expected).path, words));
    }
    if present.len() != 1 {
        for other in present.into_iter().filter(|name| Some(*name) != expected) {
            let words = "must populate the given metric source only";
            errs.push(FieldError::forbidden(&metric.get(other).path, words));
        }
    }
}

fn validate_source(kind: &str, at: &PathValue, errs: &mut FieldErrors) {
    let target = at.get("target");
    let (value, average) = (target.get("value"), target.get("averageValue"));
    let utilization = target.get("averageUtilization");
    if kind == "object" {
        validate_reference(&at.get("describedObject"), false, true, errs);
    }
    if matches!(kind, "object" | "external" | "pods") {
        let name = at.nested("metric.name");
        if name.is_empty() {
            errs.push(FieldError::required(&name.path, "must specify a metric name"));
        } else {
            check::text(&name, check::path_segment, errs);
        }
    } else if at.get("name").is_empty() {
        errs.push(FieldError::required(&at.get("name").path, "must specify a resource name"));
    } else if kind == "containerResource" {
        resources::validate_container_resource_name(at.get("name").text(), &at.get("name").path, errs);
    }
    if kind == "containerResource" {
        let container = at.get("container");
        if container.is_empty() {
            errs.push(FieldError::required(&container.path, "must specify a container"));
        } else {
            check::text(&container, check::dns_label, errs);
        }
    }
    validate_metric_target(&target, errs);
    match kind {
        "object" if !value.exists() && !average.exists() => {
            let words = "must set either a target value or averageValue";
            errs.push(FieldError::required(&average.path, words));
        }
        "external" if !value.exists() && !average.exists() => {
            let words = "must set either a target value for metric or a per-pod target";
            errs.push(FieldError::required(&average.path, words));
        }
        "external" if value.exists() && average.exists() => {
            let words = "may not set both a target value for metric and a per-pod target";
            errs.push(FieldError::forbidden(&value.path, words));
        }
        "pods" if !average.exists() => {
            errs.push(FieldError::required(&average.path, "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (utilization.exists(), average.exists()) {
            (false, false) => {
                let words = "must set either a target raw value or a target utilization";
                errs.push(FieldError::required(&utilization.path, words));
            }
            (true, true) => {
                let words = "may not set both a target raw value and a target utilization";
                errs.push(FieldError::forbidden(&average.path, words));
            }
            _ => {}
        },
        _ => {}
    }
}

fn validate_metric_target(target: &PathValue, errs: &mut FieldErrors) {
    let kind = target.get("type");
    if kind.is_empty() {
        errs.push(FieldError::required(&kind.path, "must specify a metric target type"));
    }
    if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
        let words = "must be either Utilization, Value, or AverageValue";
        errs.push(FieldError::invalid(&kind.path, kind.text(), words));
    }
    for name in ["value", "averageValue"] {
        let at = target.get(name);
        if at.value.and_then(Quantity::from_value).is_some_and(|amount| amount <= Quantity::default()) {
            errs.push(FieldError::invalid(&at.path, at.to_json(), "must be positive"));
        }
    }
    let utilization = target.get("averageUtilization");
    if utilization.exists() && utilization.int() < 1 {
        errs.push(FieldError::invalid(&utilization.path, utilization.int(), "must be greater than 0"));
    }
}

fn validate_scaling_rules(rules: &PathValue, errs: &mut FieldErrors) {
    let window = rules.get("stabilizationWindowSeconds");
    if window.int() < 0 {
        let words = "must be greater than or equal to zero";
        errs.push(FieldError::invalid(&window.path, window.int(), words));
    }
    if window.int() > 3600 {
        errs.push(FieldError::invalid(&window.path, window.int(), "must be less than or equal to 3600"));
    }
    if rules.has("selectPolicy") {
        check::one_of(&rules.get("selectPolicy"), &["Disabled", "Max", "Min"], errs);
    }
    let policies = rules.get("policies");
    if policies.is_empty() {
        errs.push(FieldError::required(&policies.path, "must specify at least one Policy"));
    }
    for policy in policies.items() {
        check::one_of(&policy.get("type"), &["Percent", "Pods"], errs);
        check::positive(&policy.get("value"), errs);
        let period = policy.get("periodSeconds");
        check::positive(&period, errs);
        if period.int() > 1800 {
            errs.push(FieldError::invalid(&period.path, period.int(), "must be less than or equal to 1800"));
        }
    }
    quantity::not_negative(&rules.get("tolerance"), errs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_autoscaler_scales_by_cpu() {
        let mut object = json!({"spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Min"}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        default(&mut object);
        assert_eq!(validate(&object, None), []);
        insta::assert_json_snapshot!(object["spec"], @r#"
            {
              "behavior": {
                "scaleDown": {
                  "policies": [
                    {
                      "periodSeconds": 15,
                      "type": "Percent",
                      "value": 100
                    }
                  ],
                  "selectPolicy": "Min"
                },
                "scaleUp": {
                  "policies": [
                    {
                      "periodSeconds": 15,
                      "type": "Pods",
                      "value": 4
                    },
                    {
                      "periodSeconds": 15,
                      "type": "Percent",
                      "value": 100
                    }
                  ],
                  "selectPolicy": "Max",
                  "stabilizationWindowSeconds": 0
                }
              },
              "maxReplicas": 3,
              "metrics": [
                {
                  "resource": {
                    "name": "cpu",
                    "target": {
                      "averageUtilization": 80,
                      "type": "Utilization"
                    }
                  },
                  "type": "Resource"
                }
              ],
              "minReplicas": 1,
              "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": "d"
              }
            }
            "#);
    }

    #[test]
    fn metrics_must_fit_their_type() {
        let mut object = json!({"spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a/b"},
            "metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "No", "averageUtilization": 0}}}]}});
        default(&mut object);
        let told: Vec<_> = validate(&object, None).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
            spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`
            spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'
            spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group
            spec.metrics[0].resource.target.type: Invalid value: "No": must be either Utilization, Value, or AverageValue
            spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0
            spec.metrics[0].pods: Required value: must populate information for the given metric source
            "#);
    }
}
