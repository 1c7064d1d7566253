//! Consistency of a Job's status.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::failure_policy::{count_indexes, first_common_index, invalid_without_value};

fn is_true(status: &PathValue, condition: &str) -> bool {
    let conditions = status.get("conditions");
    conditions.items().any(|c| c.get("type").text() == condition && c.get("status").text() == "True")
}

pub fn validate(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    let (spec, now, before) = (new.get("spec"), new.get("status"), old.get("status"));
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        check::not_negative(&now.get(name), &mut errs);
    }
    validate_conditions(&now, &before, &mut errs);
    if spec.has("successPolicy") && is_true(&now, "Complete") && !is_true(&now, "SuccessCriteriaMet") {
        let words = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errs.push(invalid_without_value(&now.get("conditions").path, words));
    }
    validate_uncounted_pods(&now.get("uncountedTerminatedPods"), &mut errs);
    validate_times(&spec, &now, &before, &mut errs);
    validate_indexes(&spec, &now, &mut errs);
    if is_true(&now, "Complete") || is_true(&now, "Failed") {
        for name in ["active", "terminating"] {
            if now.get(name).int() > 0 {
                let words = format!("{name}>0 is invalid for finished job");
                errs.push(FieldError::invalid(&now.get(name).path, now.get(name).int(), words));
            }
        }
        let uncounted = now.get("uncountedTerminatedPods");
        if !uncounted.get("failed").is_empty() || !uncounted.get("succeeded").is_empty() {
            let words = "must be empty for finished job";
            errs.push(FieldError::invalid(&uncounted.path, uncounted.to_go_names(), words));
        }
    }
    let ready = now.get("ready");
    if ready.exists() && ready.int() > now.get("active").int() {
        let words = "cannot set more ready pods than active";
        errs.push(FieldError::invalid(&ready.path, ready.int(), words));
    }
    for name in ["failed", "succeeded"] {
        let (counter, then) = (now.get(name), before.get(name));
        if counter.int() < then.int() {
            let words = format!("cannot decrease the {name} counter");
            errs.push(FieldError::invalid(&counter.path, counter.int(), words));
        }
    }
    errs
}

/// Pods that have terminated and are not counted yet, without duplicates.
fn validate_uncounted_pods(pods: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for uid in ["succeeded", "failed"].map(|list| pods.get(list)).iter().flat_map(PathValue::items) {
        if uid.is_empty() {
            errs.push(FieldError::invalid(&uid.path, "", "must not be empty"));
        } else if seen.contains(&uid.text()) {
            errs.push(FieldError::duplicate(&uid.path, uid.text()));
        } else {
            seen.insert(uid.text());
        }
    }
}

fn validate_conditions(now: &PathValue, before: &PathValue, errs: &mut FieldErrors) {
    let is = |condition: &str| is_true(now, condition);
    let was = |condition: &str| is_true(before, condition);
    let path = &now.get("conditions").path;
    let mut refuse = |wrong: bool, words: &str| {
        if wrong {
            errs.push(invalid_without_value(path, words));
        }
    };
    refuse(is("Complete") && is("Failed"), "cannot set Complete=True and Failed=true conditions");
    refuse(
        is("Complete") && is("FailureTarget"),
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    refuse(
        is("Failed") && !is("FailureTarget") && !was("Failed"),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        is("Complete") && !is("SuccessCriteriaMet") && !was("Complete"),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    refuse(
        is("SuccessCriteriaMet") && is("Failed"),
        "cannot set SuccessCriteriaMet=True and Failed=true conditions",
    );
    refuse(
        is("SuccessCriteriaMet") && is("FailureTarget"),
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    );
    for condition in ["Failed", "Complete", "FailureTarget"] {
        let words = format!("cannot disable the terminal {condition}=True condition");
        refuse(was(condition) && !is(condition), &words);
    }
    refuse(
        was("SuccessCriteriaMet") && !is("SuccessCriteriaMet"),
        "cannot disable the SuccessCriteriaMet=True condition",
    );
    refuse(
        was("Complete") && !was("SuccessCriteriaMet") && is("SuccessCriteriaMet"),
        "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
    );
}

fn validate_times(spec: &PathValue, now: &PathValue, before: &PathValue, errs: &mut FieldErrors) {
    let (start, end) = (now.get("startTime"), now.get("completionTime"));
    let complete = is_true(now, "Complete");
    if end.exists() && !complete {
        let words = "cannot set completionTime when there is no Complete=True condition";
        errs.push(FieldError::invalid(&end.path, end.to_json(), words));
    }
    if !end.exists() && complete {
        errs.push(FieldError::required(&end.path, "completionTime is required for Complete jobs"));
    }
    // Both are in UTC and in one format, so their strings compare as the times do.
    if start.exists() && end.exists() && end.text() < start.text() {
        errs.push(FieldError::invalid(&end.path, end.to_json(), "must be equal to or after `startTime`"));
    }
    if !start.exists() && (complete || is_true(now, "Failed")) {
        errs.push(FieldError::required(&start.path, "startTime is required for finished job"));
    }
    if end.exists() && before.has("completionTime") && end.value != before.peek("completionTime") {
        errs.push(FieldError::invalid(&end.path, end.to_json(), check::IMMUTABLE));
    }
    let moved = before.has("startTime") && start.value != before.peek("startTime");
    if moved && !spec.get("suspend").bool_or_false() {
        let words = "field is immutable for unsuspended job once set";
        errs.push(FieldError::invalid(&start.path, start.to_json(), words));
    }
}

fn validate_indexes(spec: &PathValue, now: &PathValue, errs: &mut FieldErrors) {
    let (done, failed) = (now.get("completedIndexes"), now.get("failedIndexes"));
    let per_index = spec.has("backoffLimitPerIndex");
    if let Some(completions) = spec.get("completions").number() {
        for (at, name) in [(&done, "completedIndexes"), (&failed, "failedIndexes")] {
            if let Err(why) = count_indexes(at.text(), completions)
                && (name == "completedIndexes" || per_index)
            {
                let words = format!("error parsing {name}: {why}");
                errs.push(FieldError::invalid(&at.path, at.text(), words));
            }
        }
    }
    if let Some(index) = first_common_index(done.text(), failed.text()) {
        let words = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errs.push(FieldError::invalid(&failed.path, failed.text(), words));
    }
    if !done.is_empty() && spec.get("completionMode").text() != "Indexed" {
        let words = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errs.push(FieldError::invalid(&done.path, done.text(), words));
    }
    if failed.exists() && !per_index {
        let words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errs.push(FieldError::invalid(&failed.path, failed.text(), words));
    }
}
