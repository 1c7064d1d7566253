//! CronJobs. Their template gets the defaults of a pod, but not the defaults of a Job.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::{default_if_absent, default_if_zero, ensure_object};
use super::{job, schedule, warnings};

pub const RULES: KindRules = KindRules {
    group: "batch",
    kind: "CronJob",
    generation: GenerationPolicy::Content,
    default: |cron| {
        let Some(spec) = ensure_object(cron, "spec") else { return };
        default_if_zero(spec, "concurrencyPolicy", "Allow");
        default_if_absent(spec, "suspend", false);
        default_if_absent(spec, "successfulJobsHistoryLimit", 3);
        default_if_absent(spec, "failedJobsHistoryLimit", 1);
        default_if_absent(spec, "jobTemplate", json!({}));
        if let Some(template) = ensure_object(spec, "jobTemplate")
            && let Some(spec) = ensure_object(template, "spec")
        {
            job::default_spec(spec);
        }
    },
    validate: |cron| {
        let mut errs = validate(cron, None);
        let name = PathValue::root(cron).nested("metadata.name");
        if name.len() > 52 {
            errs.push(FieldError::invalid(&name.path, name.text(), "must be no more than 52 characters"));
        }
        errs
    },
    validate_update: |new, old| validate(new, Some(old)),
    warnings: |new, old| {
        let spec = PathValue::root(new).get("spec");
        let mut told = warnings::for_controller(new, old, "spec.jobTemplate.spec.template", true);
        if old.is_none_or(|old| warnings::changes_generation(new, old)) {
            told.extend(job::too_many_to_track(&spec.nested("jobTemplate.spec")));
        }
        if old.is_some() && spec.get("schedule").text().contains("TZ") {
            told.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
        }
        told
    },
    ..DEFAULT_RULES
};

fn validate(cron: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(cron).get("spec");
    let before = old.map(|old| PathValue::root(old).get("spec"));
    let (times, zone) = (spec.get("schedule"), spec.get("timeZone"));
    if times.is_empty() {
        errs.push(FieldError::required(&times.path, ""));
    } else {
        let had_zone = before.as_ref().is_some_and(|spec| spec.get("schedule").text().contains("TZ"));
        if let Err(why) = schedule::validate(times.text()) {
            errs.push(FieldError::invalid(&times.path, times.text(), why));
        }
        if times.text().contains("TZ") {
            let words = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            let both = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            if !had_zone || zone.exists() {
                let words = if had_zone { both } else { words };
                errs.push(FieldError::invalid(&times.path, times.text(), words));
            }
        }
    }
    check::not_negative(&spec.get("startingDeadlineSeconds"), &mut errs);
    if zone.exists() && before.is_none_or(|spec| spec.peek("timeZone") != zone.value) {
        validate_time_zone(&zone, &mut errs);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    check::required_one_of(&spec.get("concurrencyPolicy"), &policies, &mut errs);
    let template = spec.nested("jobTemplate.spec");
    job::validate_spec(&template, &mut errs);
    let selector = template.get("selector");
    if selector.exists() {
        let words = "`selector` will be auto-generated";
        errs.push(FieldError::invalid(&selector.path, selector.to_json(), words));
    }
    let manual = template.get("manualSelector");
    if manual.bool_or_false() {
        errs.push(FieldError::unsupported(&manual.path, true, &["nil", "false"]));
    }
    check::not_negative(&spec.get("successfulJobsHistoryLimit"), &mut errs);
    check::not_negative(&spec.get("failedJobsHistoryLimit"), &mut errs);
    errs
}

fn validate_time_zone(zone: &PathValue, errs: &mut FieldErrors) {
    let name = zone.text();
    let mut bad = |words: String| errs.push(FieldError::invalid(&zone.path, name, words));
    if name.is_empty() {
        return bad("timeZone must be nil or non-empty string".to_owned());
    }
    let sound = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if !name.split('/').all(sound) {
        return bad(format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        bad("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned());
    }
    if !schedule::is_time_zone(name) {
        bad(format!("unknown time zone {name}"));
    }
}
