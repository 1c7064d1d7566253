//! Jobs. A Job selects its pods by its uid, so its selector is generated at the creation.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::{
    default_if_absent, default_if_zero, ensure_object, is_empty, items_mut, nested_mut, set_field,
};
use super::{defaults, failure_policy, job_status, selector, template, warnings};

pub const RULES: KindRules = KindRules {
    group: "batch",
    kind: "Job",
    generation: GenerationPolicy::Content,
    default,
    prepare_for_create: generate_selector,
    validate,
    validate_update,
    validate_status: job_status::validate,
    warnings: |new, old| {
        let mut warnings = warnings::for_controller(new, old, "spec.template", true);
        if old.is_none_or(|old| warnings::changes_generation(new, old)) {
            warnings.extend(too_many_to_track(&PathValue::root(new).get("spec")));
        }
        warnings
    },
    ..DEFAULT_RULES
};

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

fn default(job: &mut Value) {
    let Some(spec) = ensure_object(job, "spec") else { return };
    if spec.get("parallelism").is_none_or(Value::is_null) {
        default_if_absent(spec, "completions", 1);
        set_field(spec, "parallelism", 1);
    }
    let per_index = spec.get("backoffLimitPerIndex").is_some_and(Value::is_number);
    default_if_absent(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    default_if_absent(spec, "completionMode", "NonIndexed");
    default_if_absent(spec, "suspend", false);
    let replacement = if spec.get("podFailurePolicy").is_some_and(Value::is_object) {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default_if_absent(spec, "podReplacementPolicy", replacement);
    default_if_absent(spec, "manualSelector", false);
    default_spec(spec);
    // A Job without labels gets the labels of its pods. Before it has a selector, `prepare_for_create` does that,
    // because the generated labels then belong to the Job as well.
    if spec.get("selector").is_some_and(Value::is_object) {
        defaults::labels_from_template(job, "spec.template");
    }
}

/// Defaults of Jobs and of Job templates.
pub fn default_spec(spec: &mut Value) {
    default_if_absent(spec, "template", json!({}));
    defaults::template(spec, "template");
    if let Some(policy) = nested_mut(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for pattern in items_mut(rule, "onPodConditions") {
                default_if_zero(pattern, "status", "True");
            }
        }
    }
}

fn generate_selector(job: &mut Value) {
    let metadata = PathValue::root(job).get("metadata");
    let (uid, name) = (metadata.get("uid").text().to_owned(), metadata.get("name").text().to_owned());
    let manual = job["spec"]["manualSelector"] == true;
    if !manual && let Some(spec) = ensure_object(job, "spec") {
        if let Some(template) = ensure_object(spec, "template")
            && let Some(metadata) = ensure_object(template, "metadata")
            && let Some(labels) = ensure_object(metadata, "labels")
        {
            for (by_name, by_uid) in NAME_LABELS.into_iter().zip(UID_LABELS) {
                default_if_absent(labels, by_name, name.clone());
                default_if_absent(labels, by_uid, uid.clone());
            }
        }
        if let Some(selector) = ensure_object(spec, "selector")
            && let Some(labels) = ensure_object(selector, "matchLabels")
        {
            default_if_absent(labels, UID_LABELS[1], uid);
        }
    }
    if is_empty(&job["metadata"], "labels") {
        defaults::labels_from_template(job, "spec.template");
    }
}

fn validate(job: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let job = PathValue::root(job);
    let spec = job.get("spec");
    validate_generated_selector(&job, &mut errs);
    validate_spec(&spec, &mut errs);
    validate_selector(&spec, &mut errs);
    let completions = spec.get("completions").int();
    let name = job.nested("metadata.name");
    if spec.get("completionMode").text() == "Indexed" && completions > 0 {
        let longest = format!("{}-{}", name.text(), completions - 1);
        if !check::dns_label(&longest).is_empty() {
            let words = format!("will not able to create pod with invalid DNS label: {longest}");
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
    }
    errs
}

fn validate_generated_selector(job: &PathValue, errs: &mut FieldErrors) {
    let (spec, metadata) = (job.get("spec"), job.get("metadata"));
    let selector = spec.get("selector");
    if spec.get("manualSelector").bool_or_false() || !selector.exists() {
        return;
    }
    let (uid, name) = (metadata.get("uid"), metadata.get("name"));
    check::required(&uid, errs);
    let labels = spec.nested("template.metadata.labels");
    let expected: Vec<_> = UID_LABELS
        .iter()
        .zip(NAME_LABELS)
        .flat_map(|(by_uid, by_name)| [(*by_uid, uid.text()), (by_name, name.text())])
        .collect();
    for (label, value) in &expected {
        let words = format!("must be '{value}'");
        match labels.peek(label) {
            None => errs.push(FieldError::required(&labels.key(label).path, words)),
            Some(found) if found != value => {
                errs.push(FieldError::invalid(&labels.key(label).path, labels.to_json(), words));
            }
            Some(_) => {}
        }
    }
    let expected = expected.into_iter().map(|(label, value)| (label.to_owned(), Value::from(value)));
    let expected = Value::Object(expected.collect());
    if selector::is_parsable(&selector) && !check::selector_matches(&selector, &PathValue::root(&expected)) {
        errs.push(FieldError::invalid(&selector.path, selector.to_json(), "`selector` not auto-generated"));
    }
}

fn validate_selector(spec: &PathValue, errs: &mut FieldErrors) {
    let (chosen, pods) = (spec.get("selector"), spec.get("template"));
    check::label_selector(&chosen, errs);
    if !chosen.exists() {
        errs.push(FieldError::required(&chosen.path, ""));
    }
    if !chosen.exists()
        || selector::is_parsable(&chosen)
            && !check::selector_matches(&chosen, &pods.nested("metadata.labels"))
    {
        template::selector_mismatch(&pods, errs);
    }
}

/// Errors of a Job's spec, also inside a CronJob, without selector.
pub fn validate_spec(spec: &PathValue, errs: &mut FieldErrors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check::not_negative(&spec.get(name), errs);
    }
    let (per_index, max_failed) = (spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes"));
    if max_failed.exists() && !per_index.exists() {
        errs.push(FieldError::required(&per_index.path, "when maxFailedIndexes is specified"));
    }
    if spec.has("managedBy") {
        validate_managed_by(&spec.get("managedBy"), errs);
    }
    let mode = spec.get("completionMode");
    if mode.exists() {
        check::one_of(&mode, &["NonIndexed", "Indexed"], errs);
    }
    match mode.text() {
        "Indexed" => validate_indexed(spec, errs),
        // An empty mode is unsupported, without further errors.
        "" if mode.exists() => {}
        "NonIndexed" | "" => {
            for at in [&per_index, &max_failed].into_iter().filter(|at| at.exists()) {
                errs.push(FieldError::invalid(&at.path, at.int(), "requires indexed completion mode"));
            }
        }
        _ => {}
    }
    failure_policy::validate_failure_policy(spec, errs);
    let success = spec.get("successPolicy");
    if success.exists() {
        if mode.text() == "Indexed" {
            failure_policy::validate_success_policy(spec, errs);
        } else {
            errs.push(FieldError::invalid(
                &success.path,
                success.to_go_names(),
                "requires indexed completion mode",
            ));
        }
    }
    let replacement = spec.get("podReplacementPolicy");
    if replacement.exists() {
        let fails = spec.has("podFailurePolicy");
        let allowed: &[&str] = if fails { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        check::one_of(&replacement, allowed, errs);
    }
    template::validate(&spec.get("template"), errs);
    let restart = spec.nested("template.spec.restartPolicy");
    match restart.text() {
        "Always" | "" => {
            errs.push(FieldError::required(&restart.path, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if spec.has("podFailurePolicy") => {
            let words = "only \"Never\" is supported when podFailurePolicy is specified";
            errs.push(FieldError::invalid(&restart.path, restart.text(), words));
        }
        _ => check::one_of(&restart, &["OnFailure", "Never"], errs),
    }
}

/// `example.com/controller`
fn validate_managed_by(at: &PathValue, errs: &mut FieldErrors) {
    match at.text().split_once('/') {
        _ if at.is_empty() => errs.push(FieldError::required(&at.path, "")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for words in check::dns_subdomain(host) {
                errs.push(FieldError::invalid(&at.path, host, words));
            }
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !path.bytes().all(allowed) {
                let words = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errs.push(FieldError::invalid(&at.path, path, words));
            }
        }
        _ => {
            let words = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errs.push(FieldError::invalid(&at.path, at.text(), words));
        }
    }
    if at.len() > 63 {
        errs.push(FieldError::too_long(&at.path, 63));
    }
}

fn validate_indexed(spec: &PathValue, errs: &mut FieldErrors) {
    let (completions, parallelism) = (spec.get("completions"), spec.get("parallelism"));
    let max_failed = spec.get("maxFailedIndexes");
    if !completions.exists() {
        errs.push(FieldError::required(&completions.path, "when completion mode is Indexed"));
    }
    let mut most = |at: &PathValue, most: i64, more: &str| {
        if at.int() > most {
            let words = format!("must be less than or equal to {most}{more}");
            errs.push(FieldError::invalid(&at.path, at.int(), words));
        }
    };
    most(&parallelism, 100_000, " when completion mode is Indexed");
    most(&max_failed, 100_000, "");
    let many = completions.int() > 100_000 && spec.has("backoffLimitPerIndex");
    if many {
        let more = " when completions are above 100000 and used with backoff limit per index";
        most(&parallelism, 10_000, more);
        most(&max_failed, 10_000, more);
        if !max_failed.exists() {
            let words = "must be specified when completions is above 100000";
            errs.push(FieldError::required(&max_failed.path, words));
        }
    }
    if completions.exists() && max_failed.exists() && max_failed.int() > completions.int() {
        let words = "must be less than or equal to completions";
        errs.push(FieldError::invalid(&max_failed.path, max_failed.int(), words));
    }
}

fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = validate(new);
    let (was, now) = (PathValue::root(old), PathValue::root(new).get("spec"));
    let before = was.get("spec");
    // Kubernetes validates the spec once more for an update.
    validate_spec(&now, &mut errs);
    validate_selector(&now, &mut errs);
    let completions = now.get("completions");
    if now.get("completionMode").text() != "Indexed" {
        check::immutable(&completions, &before.get("completions"), &mut errs);
    } else if completions.exists()
        && completions.value != before.peek("completions")
        && completions.int() != now.get("parallelism").int()
    {
        let words = "can only be modified in tandem with spec.parallelism";
        errs.push(FieldError::invalid(&completions.path, completions.int(), words));
    }
    check::immutable(&now.get("selector"), &before.get("selector"), &mut errs);
    validate_template_update(&now, &was, &mut errs);
    for name in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        check::immutable_structure(&now.get(name), &before.get(name), &mut errs);
    }
    errs
}

/// The template of a Job is immutable, except the labels, annotations, scheduling fields and resources of a suspended one.
fn validate_template_update(now: &PathValue, job: &PathValue, errs: &mut FieldErrors) {
    let was = job.get("spec");
    let pods = now.get("template");
    let mut old = was.get("template").to_json();
    let condition = job.nested("status.conditions").items().find(|c| c.get("type").text() == "Suspended");
    let suspended = was.get("suspend").bool_or_false()
        && (!job.get("status").has("startTime")
            || condition.is_some_and(|c| c.get("status").text() == "True"));
    if suspended {
        let copy =
            |old: &mut Value, name: &str, from: &PathValue| match (from.peek(name), old.as_object_mut()) {
                (Some(value), Some(map)) => drop(map.insert(name.to_owned(), value.clone())),
                (None, Some(map)) => drop(map.remove(name)),
                (_, None) => {}
            };
        if let Some(metadata) = ensure_object(&mut old, "metadata") {
            copy(metadata, "annotations", &pods.get("metadata"));
            copy(metadata, "labels", &pods.get("metadata"));
        }
        if let Some(spec) = ensure_object(&mut old, "spec") {
            for name in ["nodeSelector", "tolerations", "schedulingGates"] {
                copy(spec, name, &pods.get("spec"));
            }
            if let Some(affinity) = ensure_object(spec, "affinity") {
                copy(affinity, "nodeAffinity", &pods.nested("spec.affinity"));
            }
            if is_empty(spec, "affinity") && !pods.get("spec").has("affinity") {
                spec.as_object_mut().map(|map| map.remove("affinity"));
            }
            for list in ["containers", "initContainers"] {
                let newer = pods.get("spec").get(list);
                for (container, newer) in items_mut(spec, list).zip(newer.items()) {
                    if container.get("name") == newer.peek("name") {
                        copy(container, "resources", &newer);
                    }
                }
            }
        }
        let (spec, old) = (pods.get("spec"), PathValue::root(&old).get("spec").to_json());
        if spec.to_json() != old {
            let path = now.path.field("template.spec");
            errs.push(FieldError::invalid(&path, spec.to_go_names(), check::IMMUTABLE));
        }
    } else if pods.to_json() != old {
        errs.push(template::immutable_template_error(&pods));
    }
}

/// A warning about Jobs so large that their indexes cannot be tracked.
pub fn too_many_to_track(spec: &PathValue) -> Option<String> {
    let large = spec.get("completions").int() > 100_000 && spec.get("parallelism").int() > 10_000;
    (spec.get("completionMode").text() == "Indexed" && large).then(|| {
        format!("{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail", spec.path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(labels: &Value) -> Value {
        let mut job = json!({"metadata": {"name": "j", "uid": "u", "labels": labels}, "spec": {"template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        default(&mut job);
        generate_selector(&mut job);
        job
    }

    #[test]
    fn selector_is_generated_from_uid() {
        let bare = job(&Value::Null);
        assert_eq!(validate(&bare), []);
        assert_eq!(bare["metadata"]["labels"], bare["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(bare["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(5));
        let labelled = job(&json!({"a": "b"}));
        assert_eq!(labelled["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn template_is_immutable_unless_suspended() {
        let old = job(&Value::Null);
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"x": "y"});
        let told = validate_update(&new, &old);
        assert_eq!(told.len(), 1);
        assert!(told[0].to_string().starts_with("spec.template: Invalid value: "), "{}", told[0]);
        let mut suspended = old;
        suspended["spec"]["suspend"] = true.into();
        assert_eq!(validate_update(&new, &suspended), []);
    }
}
