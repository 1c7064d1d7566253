//! Pod templates, and pod annotations with a meaning.

use std::collections::HashSet;

use crate::field::{FieldError, FieldErrorType, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::{paths, podspec};

pub const APP_ARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Errors of a template; errors of its labels are reported at `labels`, not at `metadata.labels`.
pub fn validate(template: &PathValue, errs: &mut FieldErrors) {
    let metadata = template.get("metadata");
    let spec = template.get("spec");
    check::labels(&metadata.get("labels").with_path(template.path.field("labels")), errs);
    let notes = metadata.get("annotations").with_path(template.path.field("annotations"));
    check::annotations(&notes, errs);
    validate_annotations(&notes, &spec, errs);
    podspec::validate(&spec, None, errs);
    validate_profiles_agree(&notes, &spec, errs);
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        let words = "ephemeral containers not allowed in pod template";
        errs.push(FieldError::forbidden(&ephemeral.path, words));
    }
}

/// A template of a kind whose pods run permanently.
pub fn validate_long_running(template: &PathValue, kind: &str, errs: &mut FieldErrors) {
    validate(template, errs);
    validate_restart_policy_always(template, kind, errs);
}

pub fn validate_restart_policy_always(template: &PathValue, kind: &str, errs: &mut FieldErrors) {
    let spec = template.get("spec");
    check::one_of(&spec.get("restartPolicy"), &["Always"], errs);
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.exists() {
        let words = format!("activeDeadlineSeconds in {kind} is not Supported");
        errs.push(FieldError::forbidden(&deadline.path, words));
    }
}

/// `Invalid value: {"labels":...,"Spec":...}: field is immutable`: Go embeds the metadata of a template
/// before the rest.
pub fn immutable_template_error(pods: &PathValue) -> FieldError {
    let named = |name: &str| Some(format!("\"{name}\":{}", pods.get("metadata").peek(name)?));
    let metadata = ["labels", "annotations"].into_iter().filter_map(named);
    let parts: Vec<_> = metadata.chain([format!("\"Spec\":{}", pods.get("spec").to_go_names())]).collect();
    let detail = format!("{{{}}}: {}", parts.join(","), check::IMMUTABLE);
    FieldError { path: pods.path.clone(), error_type: FieldErrorType::Invalid, value: None, detail }
}

/// The error of a selector that does not match the labels of its template.
pub fn selector_mismatch(template: &PathValue, errs: &mut FieldErrors) {
    let labels = template.nested("metadata.labels");
    errs.push(FieldError::invalid(
        &labels.path,
        labels.to_json(),
        "`selector` does not match template `labels`",
    ));
}

/// Validates the annotations of a pod or a template that have a meaning.
pub fn validate_annotations(notes: &PathValue, spec: &PathValue, errs: &mut FieldErrors) {
    if notes.has(MIRROR_ANNOTATION) && spec.get("nodeName").is_empty() {
        let at = notes.key(MIRROR_ANNOTATION);
        let words = "must set spec.nodeName if mirror pod annotation is set";
        errs.push(FieldError::invalid(&at.path, at.text(), words));
    }
    if notes.has(DELETION_COST) {
        let at = notes.key(DELETION_COST);
        let digits = at.text().strip_prefix('-').unwrap_or(at.text());
        let plain = digits == "0" || !digits.starts_with('0');
        if at.text().starts_with('+') || !plain || at.text().parse::<i32>().is_err() {
            errs.push(FieldError::invalid(&at.path, at.text(), "must be a 32bit integer"));
        }
    }
    let names: HashSet<_> = podspec::containers(spec).map(|c| c.get("name").text()).collect();
    for (key, at) in notes.entries() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp(&at.with_path(notes.path.field(key)), errs);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR_ANNOTATION_PREFIX) {
            if !names.contains(container) {
                errs.push(FieldError::invalid(&at.path, container, "container not found"));
            }
            let profile = at.text();
            if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/")
            {
                let words = format!("invalid AppArmor profile name: {profile:?}");
                errs.push(FieldError::invalid(&at.path, profile, words));
            }
        }
    }
}

fn validate_seccomp(at: &PathValue, errs: &mut FieldErrors) {
    let profile = at.text();
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    let Some(local) = profile.strip_prefix("localhost/") else {
        errs.push(FieldError::invalid(&at.path, profile, "must be a valid seccomp profile"));
        return;
    };
    let local = serde_json::Value::from(local);
    paths::validate_descending_path(&PathValue { value: Some(&local), path: at.path.clone() }, errs);
}

/// A profile set by annotation and by field must be the same.
pub fn validate_profiles_agree(notes: &PathValue, spec: &PathValue, errs: &mut FieldErrors) {
    let of_pod = spec.nested("securityContext.seccompProfile");
    if of_pod.exists() && notes.has(SECCOMP_POD) {
        validate_profile_agrees(notes.get(SECCOMP_POD).text(), &of_pod, &of_pod, "seccomp", errs);
    }
    let windows = spec.nested("os.name").text() == "windows";
    let armor_of_pod = spec.nested("securityContext.appArmorProfile");
    for container in podspec::containers(spec) {
        let name = container.get("name").text();
        let own = container.nested("securityContext.seccompProfile");
        let note = notes.get(&format!("{SECCOMP_CONTAINER}{name}"));
        if own.exists() && note.exists() {
            validate_profile_agrees(note.text(), &own, &own, "seccomp", errs);
        }
        let own = container.nested("securityContext.appArmorProfile");
        let profile = if own.exists() { own.clone() } else { armor_of_pod.clone() };
        let note = notes.get(&format!("{APP_ARMOR_ANNOTATION_PREFIX}{name}"));
        if !windows && profile.exists() && note.exists() {
            validate_profile_agrees(note.text(), &profile, &own, "apparmor", errs);
        }
    }
}

fn validate_profile_agrees(
    note: &str,
    profile: &PathValue,
    shown: &PathValue,
    what: &str,
    errs: &mut FieldErrors,
) {
    let same_type = match profile.get("type").text() {
        "Unconfined" => note == "unconfined",
        "RuntimeDefault" => note == "runtime/default" || what == "seccomp" && note == "docker/default",
        "Localhost" => note.starts_with("localhost/"),
        _ => true,
    };
    if !same_type {
        let words = format!("{what} type in annotation and field must match");
        errs.push(FieldError::forbidden(&shown.get("type").path, words));
    } else if profile.get("type").text() == "Localhost"
        && note.strip_prefix("localhost/") != Some(profile.get("localhostProfile").text())
    {
        let words = format!("{what} profile in annotation and field must match");
        errs.push(FieldError::forbidden(&shown.get("localhostProfile").path, words));
    }
}

/// Annotations that are immutable in a pod.
pub fn validate_immutable_annotations(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    let kept = |key: &str| key.starts_with(APP_ARMOR_ANNOTATION_PREFIX) || key == MIRROR_ANNOTATION;
    let what =
        |key: &str| if key == MIRROR_ANNOTATION { "mirror pod annotation" } else { "AppArmor annotations" };
    for (key, at) in old.entries().filter(|(key, _)| kept(key)) {
        if new.peek(key) != at.value {
            let words = format!("may not remove or update {}", what(key));
            errs.push(FieldError::forbidden(&new.key(key).path, words));
        }
    }
    for (key, at) in new.entries().filter(|(key, _)| kept(key) && !old.has(key)) {
        errs.push(FieldError::forbidden(&at.path, format!("may not add {}", what(key))));
    }
}
