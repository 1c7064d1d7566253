//! Events, which exist in two API groups; the core form is stored.
//!
//! [`to_core`] and [`from_core`] are inverse for everything that both forms can express. Requests to
//! `events.k8s.io` are validated more strictly than those to the core group.

use serde_json::{Map, Value};

use super::accessors::{go_names, int, is_empty_value, text};
use super::check::{self, PathValue};
use super::{DEFAULT_RULES, KindRules, NamePolicy};
use crate::field::{FieldError, FieldErrors, Path};

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "",
        kind: "Event",
        naming: NamePolicy::PathSegment,
        allows_any_finalizer: true,
        validate: |event| validate_common(event, "reportingComponent"),
        validate_update: |new, _| validate_common(new, "reportingComponent"),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "events.k8s.io",
        kind: "Event",
        naming: NamePolicy::PathSegment,
        allows_any_finalizer: true,
        validate: validate_strict,
        validate_update: validate_strict_update,
        ..DEFAULT_RULES
    },
];

/// The field names: core, events.k8s.io.
const FIELD_NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an `events.k8s.io/v1` Event to a core one.
pub fn to_core(event: &mut Value) {
    rename_fields(event, "v1", |(core, own)| (own, core));
}

/// Converts a core Event to an `events.k8s.io/v1` one.
pub fn from_core(event: &mut Value) {
    rename_fields(event, "events.k8s.io/v1", |(core, own)| (core, own));
    // Only the core form always has the reporter.
    if let Some(fields) = event.as_object_mut() {
        let reporter = |name: &str| matches!(name, "reportingController" | "reportingInstance");
        fields.retain(|name, value| !(reporter(name) && is_empty_value(value)));
    }
}

fn rename_fields(
    event: &mut Value,
    api_version: &str,
    order: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(fields) = event.as_object_mut() else { return };
    fields.insert("apiVersion".to_owned(), api_version.into());
    let mut renamed = Map::new();
    for (from, to) in FIELD_NAMES.iter().copied().map(order) {
        if let Some(value) = fields.remove(from) {
            renamed.insert(to.to_owned(), value);
        }
    }
    fields.extend(renamed);
}

/// Checks of both groups; `reporter` is the group's name of the reporting component.
fn validate_common(event: &Value, reporter: &str) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let namespace = text(&event["metadata"]["namespace"]);
    let about = text(&event["involvedObject"]["namespace"]);
    let mismatch = if is_empty_value(&event["eventTime"]) {
        if about.is_empty() { !matches!(namespace, "" | "default") } else { namespace != about }
    } else {
        about.is_empty() && !matches!(namespace, "default" | "kube-system")
    };
    if mismatch {
        let path = Path::new("involvedObject.namespace");
        errs.push(FieldError::invalid(&path, about, "does not match event.namespace"));
    }
    if !is_empty_value(&event["eventTime"]) {
        let root = PathValue::root(event);
        let component = root.get("reportingComponent").with_path(Path::new(reporter));
        check::required(&component, &mut errs);
        check::text(&component, check::qualified_name, &mut errs);
        for (field, required, most) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let at = root.get(field);
            if required {
                check::required(&at, &mut errs);
            }
            if at.len() > most {
                let words = format!("can have at most {most} characters");
                errs.push(FieldError::invalid(&at.path, "", words));
            }
        }
    }
    let words = check::dns_subdomain(namespace).into_iter();
    errs.extend(words.map(|words| FieldError::invalid(&Path::new("namespace"), namespace, words)));
    errs
}

fn validate_strict(event: &Value) -> FieldErrors {
    let mut errs = validate_common(event, "reportingController");
    validate_series(event, &mut errs);
    if is_empty_value(&event["eventTime"]) {
        errs.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errs.push(FieldError::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let source = &event["source"];
    for (field, set) in [
        ("firstTimestamp", !is_empty_value(&event["firstTimestamp"])),
        ("lastTimestamp", !is_empty_value(&event["lastTimestamp"])),
        ("count", int(&event["count"]) != 0),
        ("source", !is_empty_value(&source["component"]) || !is_empty_value(&source["host"])),
    ] {
        if set {
            errs.push(FieldError::invalid(&Path::new(field), "", "needs to be unset"));
        }
    }
    errs
}

fn validate_series(event: &Value, errs: &mut FieldErrors) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if int(&series["count"]) < 2 {
        errs.push(FieldError::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if is_empty_value(&series["lastObservedTime"]) {
        errs.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
    }
}

fn validate_strict_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = validate_common(new, "reportingController");
    if new["series"] != old["series"] {
        validate_series(new, &mut errs);
    }
    for (field, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("reason", "reason"), // reported twice, a bug of Kubernetes
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if new[field] != old[field] {
            let is_text = !matches!(field, "eventTime" | "related" | "firstTimestamp" | "lastTimestamp");
            let value = if new[field].is_null() && is_text { "".into() } else { go_names(&new[field]) };
            errs.push(FieldError::invalid(&Path::new(shown), value, check::IMMUTABLE));
        }
    }
    errs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn event_conversion_round_trips() {
        let core = json!({"apiVersion": "v1", "involvedObject": {"name": "a"}, "message": "m", "reason": "r",
            "source": {"component": "c"}, "count": 2, "firstTimestamp": "t", "reportingComponent": "x"});
        let mut event = core.clone();
        from_core(&mut event);
        assert_eq!(
            event,
            json!({"apiVersion": "events.k8s.io/v1", "regarding": {"name": "a"}, "note": "m", "reason": "r",
                   "deprecatedSource": {"component": "c"}, "deprecatedCount": 2, "deprecatedFirstTimestamp": "t",
                   "reportingController": "x"})
        );
        to_core(&mut event);
        assert_eq!(event, core);
    }

    #[test]
    fn events_group_validates_more_strictly() {
        let event = json!({"metadata": {"name": "e", "namespace": "default"}, "count": 1});
        assert_eq!(validate_common(&event, "reportingComponent").len(), 0);
        let told: Vec<_> = validate_strict(&event).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: ",
                "count: Invalid value: \"\": needs to be unset",
            ]
        );
    }
}
