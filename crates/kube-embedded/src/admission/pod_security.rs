//! The `PodSecurity` plugin: pod security standards, selected by a namespace's labels.
//!
//! `pod-security.kubernetes.io/enforce` rejects pods; `warn` adds warnings, also for templates of
//! controllers; `audit` is only validated (there is no audit log). New labels of a namespace cause warnings
//! if existing pods violate them.
//!
//! See also: `checks` has the rules of each standard.

mod checks;

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::refusal::refused;
use super::{Operation, Request};
use crate::access::{items, text};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::store::Store;

use checks::Complaint;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The newest version whose checks differ from the previous one.
const NEWEST: u32 = 35;
/// Maximum number of pods of a namespace that are checked when its labels change.
const MOST_PODS: usize = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level and its version; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standard {
    level: Level,
    minor: Option<u32>,
}

impl std::fmt::Display for Standard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl Standard {
    fn complaints(self, pod: &Value) -> Vec<Complaint> {
        let minor = self.minor.unwrap_or(NEWEST).min(NEWEST);
        match self.level {
            Level::Privileged => Vec::new(),
            Level::Baseline => checks::baseline(pod, minor),
            Level::Restricted => checks::restricted(pod, minor),
        }
    }

    /// The message `violates PodSecurity "baseline:latest": ...` without its first word.
    fn violation(self, pod: &Value) -> Option<String> {
        let complaints = self.complaints(pod);
        let details: Vec<String> = complaints.iter().map(Complaint::in_full).collect();
        (!details.is_empty()).then(|| format!("PodSecurity \"{self}\": {}", details.join(", ")))
    }
}

struct Policy {
    enforce: Standard,
    warn: Standard,
}

/// The policy in a namespace's labels, and the errors of invalid labels.
fn policy(namespace: &Value) -> (Policy, FieldErrors) {
    let labels = &namespace["metadata"]["labels"];
    let mut errors = FieldErrors::new();
    let mut read = |mode: &str, fallback: Level| -> (Standard, Option<Level>, bool) {
        let mut complain = |label: &str, value: &str, detail: &str| {
            let path = Path::new("metadata.labels").key(label);
            errors.push(FieldError::invalid(&path, value, detail));
        };
        let mut standard = Standard { level: Level::Privileged, minor: None };
        let mut set = None;
        let label = format!("{PREFIX}{mode}");
        if let Some(value) = labels[&label].as_str() {
            set = match value {
                "privileged" => Some(Level::Privileged),
                "baseline" => Some(Level::Baseline),
                "restricted" => Some(Level::Restricted),
                _ => None,
            };
            if set.is_none() {
                complain(&label, value, "must be one of privileged, baseline, restricted");
            }
            standard.level = set.unwrap_or(fallback);
        }
        let label = format!("{PREFIX}{mode}-version");
        let version = labels[&label].as_str();
        if let Some(value) = version
            && value != "latest"
        {
            standard.minor = minor_of(value);
            if standard.minor.is_none() {
                complain(&label, value, "must be \"latest\" or \"v1.x\"");
            }
        }
        (standard, set, version.is_some())
    };
    // Invalid labels enforce the strictest level and warn for none.
    let (enforce, enforced, _) = read("enforce", Level::Restricted);
    read("audit", Level::Privileged);
    let (mut warn, _, version_set) = read("warn", Level::Privileged);
    let silent = labels[format!("{PREFIX}warn")].is_null();
    if silent && enforced.is_some_and(|level| level > warn.level) {
        warn.level = enforce.level;
        if !version_set {
            warn.minor = enforce.minor;
        }
    }
    (Policy { enforce, warn }, errors)
}

/// Parses `v1.30` as 30.
fn minor_of(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("v1.")?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().ok()).flatten()
}

/// Rejects a pod or a namespace's labels, or returns the warnings for the response.
pub fn check(store: &Store, request: &Request<'_>, object: &Value) -> Result<Vec<String>> {
    if request.operation == Operation::Delete {
        return Ok(Vec::new());
    }
    match (request.resource.group.as_ref(), request.resource.name.as_ref(), request.subresource) {
        ("", "namespaces", "") => check_namespace(store, request, object),
        ("", "pods", "" | "ephemeralcontainers" | "resize") => check_pod(store, request, object),
        (group, name, "") => Ok(template(group, name, object)
            .and_then(|pod| namespace_policy(store, request.namespace)?.warn.violation(pod))
            .map(|violation| format!("would violate {violation}"))
            .into_iter()
            .collect()),
        _ => Ok(Vec::new()),
    }
}

fn namespace_policy(store: &Store, namespace: &str) -> Option<Policy> {
    store.get("namespaces", "", namespace).map(|found| policy(&found.value()).0)
}

/// The pod template of a controller.
fn template<'a>(group: &str, resource: &str, object: &'a Value) -> Option<&'a Value> {
    let template = match (group, resource) {
        ("", "podtemplates") => &object["template"],
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => &object["spec"]["template"],
        ("batch", "cronjobs") => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => return None,
    };
    template.is_object().then_some(template)
}

fn check_pod(store: &Store, request: &Request<'_>, pod: &Value) -> Result<Vec<String>> {
    let Some(policy) = namespace_policy(store, request.namespace) else { return Ok(Vec::new()) };
    if request.operation == Operation::Update && request.old.is_some_and(|old| !significant(pod, old)) {
        return Ok(Vec::new());
    }
    if let Some(violation) = policy.enforce.violation(pod) {
        return Err(refused(request, pod, format!("violates {violation}")));
    }
    Ok(policy.warn.violation(pod).map(|violation| format!("would violate {violation}")).into_iter().collect())
}

/// Only images and ephemeral containers of a pod can change in a relevant way.
fn significant(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<(String, String)> {
        let containers = items(&pod["spec"], list).iter();
        containers.map(|c| (text(c, "name").to_owned(), text(c, "image").to_owned())).collect()
    };
    let changed = |list: &str| {
        let (new, old) = (images(new, list), images(old, list));
        new.len() != old.len() || new.iter().zip(&old).any(|(new, old)| new.1 != old.1)
    };
    let present: HashSet<_> = images(old, "ephemeralContainers").into_iter().collect();
    let joined = images(new, "ephemeralContainers").iter().any(|container| !present.contains(container));
    changed("containers") || changed("initContainers") || joined
}

fn check_namespace(store: &Store, request: &Request<'_>, namespace: &Value) -> Result<Vec<String>> {
    let (new, errors) = policy(namespace);
    let (old, old_errors) = match request.old {
        Some(old) => policy(old),
        None => policy(&Value::Null),
    };
    let name = text(&namespace["metadata"], "name");
    if !errors.is_empty() && errors != old_errors {
        return Err(ApiError::invalid("", "Namespace", name, &errors));
    }
    let relaxed = new.enforce.minor == old.enforce.minor && new.enforce.level <= old.enforce.level;
    if request.operation == Operation::Create || new.enforce.level == Level::Privileged || relaxed {
        return Ok(Vec::new());
    }
    Ok(pods_violating(store, name, new.enforce))
}

/// Warnings about existing pods, grouped by violation.
fn pods_violating(store: &Store, namespace: &str, standard: Standard) -> Vec<String> {
    let pods = store.list("pods", Some(namespace)).objects;
    let mut faulty: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(MOST_PODS) {
        let complaints = standard.complaints(&pod.value());
        if complaints.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = complaints.iter().map(|complaint| complaint.reason.as_str()).collect();
        // Pods are sorted by name: the message names the first one.
        faulty.entry(reasons.join(", ")).or_insert_with(|| (pod.name.to_string(), 0)).1 += 1;
    }
    let mut warnings = Vec::new();
    if pods.len() > MOST_PODS {
        let total = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {total} existing pods"
        ));
    }
    if faulty.is_empty() {
        return warnings;
    }
    warnings.push(format!(
        "existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{standard}\""
    ));
    let mut lines: Vec<String> = faulty
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            n => format!("{first} (and {} other pods): {reasons}", n - 1),
        })
        .collect();
    lines.sort();
    warnings.extend(lines);
    warnings
}

#[cfg(test)]
mod tests;
