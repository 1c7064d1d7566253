//! Pod templates, and pod annotations with a meaning.

use std::collections::HashSet;

use crate::field::{Complaint, FieldError, FieldErrors};
use crate::rules::check::{self, At};

use super::{path, podspec};

pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Errors of a template; errors of its labels are reported at `labels`, not at `metadata.labels`.
pub fn validate(template: &At, errs: &mut FieldErrors) {
    let metadata = template.get("metadata");
    let spec = template.get("spec");
    check::labels(&metadata.get("labels").named(template.path.field("labels")), errs);
    let notes = metadata.get("annotations").named(template.path.field("annotations"));
    check::annotations(&notes, errs);
    annotations(&notes, &spec, errs);
    podspec::validate(&spec, None, errs);
    profiles_agree(&notes, &spec, errs);
    let ephemeral = spec.get("ephemeralContainers");
    if !ephemeral.is_empty() {
        let words = "ephemeral containers not allowed in pod template";
        errs.push(FieldError::forbidden(&ephemeral.path, words));
    }
}

/// A template of a kind whose pods run permanently.
pub fn validate_lasting(template: &At, kind: &str, errs: &mut FieldErrors) {
    validate(template, errs);
    lasts(template, kind, errs);
}

pub fn lasts(template: &At, kind: &str, errs: &mut FieldErrors) {
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
pub fn immutable(pods: &At) -> FieldError {
    let named = |name: &str| Some(format!("\"{name}\":{}", pods.get("metadata").peek(name)?));
    let metadata = ["labels", "annotations"].into_iter().filter_map(named);
    let parts: Vec<_> = metadata.chain([format!("\"Spec\":{}", pods.get("spec").go())]).collect();
    let detail = format!("{{{}}}: {}", parts.join(","), check::IMMUTABLE);
    FieldError { path: pods.path.clone(), complaint: Complaint::Invalid, value: None, detail }
}

/// The error of a selector that does not match the labels of its template.
pub fn selector_misses(template: &At, errs: &mut FieldErrors) {
    let labels = template.down("metadata.labels");
    errs.push(FieldError::invalid(
        &labels.path,
        labels.json(),
        "`selector` does not match template `labels`",
    ));
}

/// Validates the annotations of a pod or a template that have a meaning.
pub fn annotations(notes: &At, spec: &At, errs: &mut FieldErrors) {
    if notes.has(MIRROR) && spec.get("nodeName").is_empty() {
        let at = notes.key(MIRROR);
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
            seccomp(&at.named(notes.path.field(key)), errs);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
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

fn seccomp(at: &At, errs: &mut FieldErrors) {
    let profile = at.text();
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    let Some(local) = profile.strip_prefix("localhost/") else {
        errs.push(FieldError::invalid(&at.path, profile, "must be a valid seccomp profile"));
        return;
    };
    let local = serde_json::Value::from(local);
    path::descending(&At { value: Some(&local), path: at.path.clone() }, errs);
}

/// A profile set by annotation and by field must be the same.
pub fn profiles_agree(notes: &At, spec: &At, errs: &mut FieldErrors) {
    let of_pod = spec.down("securityContext.seccompProfile");
    if of_pod.exists() && notes.has(SECCOMP_POD) {
        agrees(notes.get(SECCOMP_POD).text(), &of_pod, &of_pod, "seccomp", errs);
    }
    let windows = spec.down("os.name").text() == "windows";
    let armor_of_pod = spec.down("securityContext.appArmorProfile");
    for container in podspec::containers(spec) {
        let name = container.get("name").text();
        let own = container.down("securityContext.seccompProfile");
        let note = notes.get(&format!("{SECCOMP_CONTAINER}{name}"));
        if own.exists() && note.exists() {
            agrees(note.text(), &own, &own, "seccomp", errs);
        }
        let own = container.down("securityContext.appArmorProfile");
        let profile = if own.exists() { own.clone() } else { armor_of_pod.clone() };
        let note = notes.get(&format!("{APP_ARMOR}{name}"));
        if !windows && profile.exists() && note.exists() {
            agrees(note.text(), &profile, &own, "apparmor", errs);
        }
    }
}

fn agrees(note: &str, profile: &At, shown: &At, what: &str, errs: &mut FieldErrors) {
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
pub fn annotations_stay(new: &At, old: &At, errs: &mut FieldErrors) {
    let kept = |key: &str| key.starts_with(APP_ARMOR) || key == MIRROR;
    let what = |key: &str| if key == MIRROR { "mirror pod annotation" } else { "AppArmor annotations" };
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
