//! Status updates: valid counters, and terminated containers that stay terminated.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::template;

/// Counters are not negative, and some are not above `status.replicas`.
pub fn validate_counters(status: &PathValue, all: &[&str], below_replicas: &[&str], errs: &mut FieldErrors) {
    for name in all {
        check::not_negative(&status.get(name), errs);
    }
    let replicas = status.get("replicas").int();
    for at in below_replicas.iter().map(|name| status.get(name)).filter(|at| at.int() > replicas) {
        errs.push(FieldError::invalid(&at.path, at.int(), "cannot be greater than status.replicas"));
    }
}

/// Available replicas do not exceed ready ones.
pub fn validate_available(status: &PathValue, words: &str, errs: &mut FieldErrors) {
    let available = status.get("availableReplicas");
    if available.int() > status.get("readyReplicas").int() {
        errs.push(FieldError::invalid(&available.path, available.int(), words));
    }
}

pub fn validate_collision_count(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    let (now, then) = (new.nested("status.collisionCount"), old.nested("status.collisionCount"));
    if then.exists() && now.int() < then.int() {
        errs.push(FieldError::invalid(&now.path, now.int(), "cannot be decremented"));
    }
}

pub fn validate_pod(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    let notes = new.nested("metadata.annotations");
    template::validate_immutable_annotations(&notes, &old.nested("metadata.annotations"), &mut errs);
    template::validate_annotations(&notes, &new.get("spec"), &mut errs);
    let (status, before) = (new.get("status"), old.get("status"));
    validate_conditions(&status.get("conditions"), &mut errs);
    let nominated = status.get("nominatedNodeName");
    if nominated.text() != before.get("nominatedNodeName").text() && !nominated.is_empty() {
        check::text(&nominated, check::dns_subdomain, &mut errs);
        if !old.nested("spec.nodeName").is_empty() {
            let words = "may not be set on pods that are already bound to a node";
            errs.push(FieldError::forbidden(&nominated.path, words));
        }
    }
    let generation = status.get("observedGeneration");
    if generation.int() < 0 {
        let words = "must be a non-negative integer";
        errs.push(FieldError::invalid(&generation.path, generation.int(), words));
    }
    check::immutable(&status.get("qosClass"), &before.get("qosClass"), &mut errs);
    for (statuses, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        validate_terminated_containers(
            &status.get(statuses),
            &before.get(statuses),
            &old.get("spec"),
            containers,
            &mut errs,
        );
    }
    let claims = new.nested("spec.resourceClaims");
    let claims: HashSet<_> = claims.items().map(|claim| claim.get("name").text()).collect();
    for claim in status.get("resourceClaimStatuses").items().map(|claim| claim.get("name")) {
        if !claims.contains(claim.text()) {
            let words = "must match the name of an entry in `spec.resourceClaims`";
            errs.push(FieldError::invalid(&claim.path, claim.text(), words));
        }
    }
    validate_addresses(&status.get("podIPs"), &mut errs);
    let hosts = status.get("hostIPs");
    if let Some(first) = hosts.items().next()
        && first.get("ip").text() != status.get("hostIP").text()
    {
        errs.push(FieldError::invalid(
            &first.get("ip").path,
            first.get("ip").text(),
            "must be equal to `hostIP`",
        ));
    }
    validate_addresses(&hosts, &mut errs);
    errs
}

fn validate_conditions(list: &PathValue, errs: &mut FieldErrors) {
    let own = ["PodScheduled", "Ready", "Initialized", "ContainersReady"];
    for condition in list.items() {
        // The path has a capital letter in this message only.
        let kind = condition.get("type").with_path(condition.path.field("Type"));
        if !own.contains(&kind.text()) {
            check::text(&kind, check::qualified_name, errs);
        }
        let generation = condition.get("observedGeneration");
        if generation.int() < 0 {
            let words = "must be a non-negative integer";
            errs.push(FieldError::invalid(&generation.path, generation.int(), words));
        }
    }
}

/// The first element of each name.
fn first_by_name<'a>(list: &PathValue<'a>) -> HashMap<&'a str, PathValue<'a>> {
    let mut found = HashMap::new();
    for item in list.items() {
        found.entry(item.get("name").text()).or_insert(item);
    }
    found
}

/// A terminated container restarts only if its restart policy allows it.
fn validate_terminated_containers(
    new: &PathValue,
    old: &PathValue,
    spec: &PathValue,
    containers: &str,
    errs: &mut FieldErrors,
) {
    let (now_by_name, container_by_name) = (first_by_name(new), first_by_name(&spec.get(containers)));
    for (i, before) in old.items().enumerate() {
        let ended = before.nested("state.terminated");
        let name = before.get("name").text();
        let now = now_by_name.get(name);
        if !ended.exists() || now.is_none_or(|now| now.nested("state.terminated").exists()) {
            continue;
        }
        let own = container_by_name
            .get(name)
            .map(|c| c.get("restartPolicy").text())
            .filter(|policy| !policy.is_empty());
        let policy = match (containers, own) {
            ("", _) => "Never",
            (_, Some(own)) => own,
            (_, None) => spec.get("restartPolicy").text(),
        };
        let again = match policy {
            "Always" => true,
            "OnFailure" => ended.get("exitCode").int() != 0,
            _ => false,
        };
        if !again {
            let words = "may not be transitioned to non-terminated state";
            errs.push(FieldError::forbidden(&new.path.index(i).field("state"), words));
        }
    }
}

fn validate_addresses(list: &PathValue, errs: &mut FieldErrors) {
    let texts: Vec<_> = list.items().map(|item| item.get("ip").text()).collect();
    for (i, text) in texts.iter().enumerate() {
        for words in check::ip(text) {
            errs.push(FieldError::invalid(&list.path.index(i), *text, words));
        }
    }
    let both = texts.iter().any(|ip| ip.contains(':')) && texts.iter().any(|ip| !ip.contains(':'));
    if texts.len() > 1 && (!both || texts.len() > 2) {
        let words = "may specify no more than one IP for each IP family";
        errs.push(FieldError::invalid(&list.path, list.to_go_names(), words));
    }
}
