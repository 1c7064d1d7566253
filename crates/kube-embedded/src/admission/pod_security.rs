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

use super::errors::forbidden;
use super::{AdmissionRequest, Operation};
use crate::access::{items, text};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::store::Store;

use checks::Violation;

const LABEL_PREFIX: &str = "pod-security.kubernetes.io/";
/// The newest version whose checks differ from the previous one.
const LATEST_MINOR: u32 = 35;
/// Maximum number of pods of a namespace that are checked when its labels change.
const MAX_PODS: usize = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

/// A level and its version; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LevelVersion {
    level: SecurityLevel,
    minor: Option<u32>,
}

impl std::fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            SecurityLevel::Privileged => "privileged",
            SecurityLevel::Baseline => "baseline",
            SecurityLevel::Restricted => "restricted",
        };
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl LevelVersion {
    fn violations(self, pod: &Value) -> Vec<Violation> {
        let minor = self.minor.unwrap_or(LATEST_MINOR).min(LATEST_MINOR);
        match self.level {
            SecurityLevel::Privileged => Vec::new(),
            SecurityLevel::Baseline => checks::baseline(pod, minor),
            SecurityLevel::Restricted => checks::restricted(pod, minor),
        }
    }

    /// The message `violates PodSecurity "baseline:latest": ...` without its first word.
    fn violation_message(self, pod: &Value) -> Option<String> {
        let complaints = self.violations(pod);
        let details: Vec<String> = complaints.iter().map(Violation::message).collect();
        (!details.is_empty()).then(|| format!("PodSecurity \"{self}\": {}", details.join(", ")))
    }
}

struct NamespacePolicy {
    enforce: LevelVersion,
    warn: LevelVersion,
}

/// The policy in a namespace's labels, and the errors of invalid labels.
fn parse_policy(namespace: &Value) -> (NamespacePolicy, FieldErrors) {
    let labels = &namespace["metadata"]["labels"];
    let mut errors = FieldErrors::new();
    let mut read = |mode: &str, fallback: SecurityLevel| -> (LevelVersion, Option<SecurityLevel>, bool) {
        let mut complain = |label: &str, value: &str, detail: &str| {
            let path = Path::new("metadata.labels").key(label);
            errors.push(FieldError::invalid(&path, value, detail));
        };
        let mut standard = LevelVersion { level: SecurityLevel::Privileged, minor: None };
        let mut set = None;
        let label = format!("{LABEL_PREFIX}{mode}");
        if let Some(value) = labels[&label].as_str() {
            set = match value {
                "privileged" => Some(SecurityLevel::Privileged),
                "baseline" => Some(SecurityLevel::Baseline),
                "restricted" => Some(SecurityLevel::Restricted),
                _ => None,
            };
            if set.is_none() {
                complain(&label, value, "must be one of privileged, baseline, restricted");
            }
            standard.level = set.unwrap_or(fallback);
        }
        let label = format!("{LABEL_PREFIX}{mode}-version");
        let version = labels[&label].as_str();
        if let Some(value) = version
            && value != "latest"
        {
            standard.minor = parse_minor(value);
            if standard.minor.is_none() {
                complain(&label, value, "must be \"latest\" or \"v1.x\"");
            }
        }
        (standard, set, version.is_some())
    };
    // Invalid labels enforce the strictest level and warn for none.
    let (enforce, enforced, _) = read("enforce", SecurityLevel::Restricted);
    read("audit", SecurityLevel::Privileged);
    let (mut warn, _, version_set) = read("warn", SecurityLevel::Privileged);
    let silent = labels[format!("{LABEL_PREFIX}warn")].is_null();
    if silent && enforced.is_some_and(|level| level > warn.level) {
        warn.level = enforce.level;
        if !version_set {
            warn.minor = enforce.minor;
        }
    }
    (NamespacePolicy { enforce, warn }, errors)
}

/// Parses `v1.30` as 30.
fn parse_minor(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("v1.")?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && (digits == "0" || !digits.starts_with('0'))).then(|| digits.parse().ok()).flatten()
}

/// Rejects a pod or a namespace's labels, or returns the warnings for the response.
pub fn check(store: &Store, request: &AdmissionRequest<'_>, object: &Value) -> Result<Vec<String>> {
    if request.operation == Operation::Delete {
        return Ok(Vec::new());
    }
    match (request.resource.group.as_ref(), request.resource.name.as_ref(), request.subresource) {
        ("", "namespaces", "") => check_namespace(store, request, object),
        ("", "pods", "" | "ephemeralcontainers" | "resize") => check_pod(store, request, object),
        (group, name, "") => Ok(pod_template(group, name, object)
            .and_then(|pod| namespace_policy(store, request.namespace)?.warn.violation_message(pod))
            .map(|violation| format!("would violate {violation}"))
            .into_iter()
            .collect()),
        _ => Ok(Vec::new()),
    }
}

fn namespace_policy(store: &Store, namespace: &str) -> Option<NamespacePolicy> {
    store.get("namespaces", "", namespace).map(|found| parse_policy(&found.value()).0)
}

/// The pod template of a controller.
fn pod_template<'a>(group: &str, resource: &str, object: &'a Value) -> Option<&'a Value> {
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

fn check_pod(store: &Store, request: &AdmissionRequest<'_>, pod: &Value) -> Result<Vec<String>> {
    let Some(policy) = namespace_policy(store, request.namespace) else { return Ok(Vec::new()) };
    if request.operation == Operation::Update
        && request.old.is_some_and(|old| !is_significant_change(pod, old))
    {
        return Ok(Vec::new());
    }
    if let Some(violation) = policy.enforce.violation_message(pod) {
        return Err(forbidden(request, pod, format!("violates {violation}")));
    }
    Ok(policy
        .warn
        .violation_message(pod)
        .map(|violation| format!("would violate {violation}"))
        .into_iter()
        .collect())
}

/// Only images and ephemeral containers of a pod can change in a relevant way.
fn is_significant_change(new: &Value, old: &Value) -> bool {
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

fn check_namespace(store: &Store, request: &AdmissionRequest<'_>, namespace: &Value) -> Result<Vec<String>> {
    let (new, errors) = parse_policy(namespace);
    let (old, old_errors) = match request.old {
        Some(old) => parse_policy(old),
        None => parse_policy(&Value::Null),
    };
    let name = text(&namespace["metadata"], "name");
    if !errors.is_empty() && errors != old_errors {
        return Err(ApiError::invalid("", "Namespace", name, &errors));
    }
    let relaxed = new.enforce.minor == old.enforce.minor && new.enforce.level <= old.enforce.level;
    if request.operation == Operation::Create || new.enforce.level == SecurityLevel::Privileged || relaxed {
        return Ok(Vec::new());
    }
    Ok(warnings_of_existing_pods(store, name, new.enforce))
}

/// Warnings about existing pods, grouped by violation.
fn warnings_of_existing_pods(store: &Store, namespace: &str, standard: LevelVersion) -> Vec<String> {
    let pods = store.list("pods", Some(namespace)).objects;
    let mut faulty: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(MAX_PODS) {
        let complaints = standard.violations(&pod.value());
        if complaints.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = complaints.iter().map(|complaint| complaint.reason.as_str()).collect();
        // Pods are sorted by name: the message names the first one.
        faulty.entry(reasons.join(", ")).or_insert_with(|| (pod.name.to_string(), 0)).1 += 1;
    }
    let mut warnings = Vec::new();
    if pods.len() > MAX_PODS {
        let total = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS} of {total} existing pods"
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
