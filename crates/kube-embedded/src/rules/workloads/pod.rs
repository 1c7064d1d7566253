//! Pods.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::{self, At};
use crate::rules::{Generation, PLAIN, Rules, go_structs};

use super::fill::{down, each, ensure, is_empty, missing, put};
use super::{container, defaults, podspec, resources, scheduling, status, template, warnings};

pub const RULES: Rules = Rules {
    kind: "Pod",
    generation: Generation::Content,
    default,
    create,
    validate,
    validate_update,
    validate_status: status::validate_pod,
    warnings: |new, old| {
        if old.is_some() {
            return Vec::new();
        }
        let pod = At::root(new);
        let name = warnings::name_for_hosts(&pod, "the Pod's hostname");
        name.into_iter().chain(warnings::of_pod(&pod)).collect()
    },
    ..PLAIN
};

const CHANGE_REFUSED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

/// `podIP` is the first of `podIPs`. The older field wins.
fn default_addresses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").filter(|status| status.is_object()) else { return };
    let first = status["podIPs"][0]["ip"].as_str().unwrap_or_default().to_owned();
    match status["podIP"].as_str() {
        Some(ip) if !ip.is_empty() && ip != first => {
            let ip = ip.to_owned();
            put(status, "podIPs", json!([{"ip": ip}]));
        }
        None | Some("") if !first.is_empty() => put(status, "podIP", first),
        _ => {}
    }
}

fn default(pod: &mut Value) {
    default_addresses(pod);
    let Some(spec) = ensure(pod, "spec") else { return };
    defaults::pod_spec(spec);
    let on_host = spec.get("hostNetwork").is_some_and(|value| value == true);
    for list in ["containers", "initContainers"] {
        for container in each(spec, list) {
            requests_from_limits(container);
            if on_host {
                for port in each(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned()
                        && port.get("hostPort").is_none_or(|port| port.is_null() || port == 0)
                    {
                        put(port, "hostPort", number);
                    }
                }
            }
        }
    }
    pod_level_requests(spec);
    missing(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        put(spec, "terminationGracePeriodSeconds", 1);
    }
}

/// Limits become requests where none are set.
fn requests_from_limits(container: &mut Value) {
    let limits = container.get("resources").and_then(|resources| resources.get("limits"));
    let Some(limits) = limits.and_then(Value::as_object).cloned() else { return };
    if let Some(resources) = down(container, "resources")
        && !limits.is_empty()
        && let Some(requests) = ensure(resources, "requests")
    {
        for (name, amount) in limits {
            missing(requests, &name, amount);
        }
    }
}

/// The same for pod-level resources, after the sum of the containers' requests.
fn pod_level_requests(spec: &mut Value) {
    let limits = spec.get("resources").and_then(|resources| resources.get("limits"));
    let Some(limits) = limits.and_then(Value::as_object).filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let at = At::root(spec);
    let sums = ["cpu", "memory"]
        .map(|name| (name, resources::aggregate(&at, "requests", name).map(|(_, words)| words)));
    if let Some(resources) = down(spec, "resources")
        && let Some(requests) = ensure(resources, "requests")
    {
        for (name, sum) in sums {
            if let Some(sum) = sum {
                missing(requests, name, sum);
            }
        }
        let whole = |name: &str| matches!(name, "cpu" | "memory") || resources::is_huge_pages(name);
        for (name, amount) in limits.into_iter().filter(|(name, _)| whole(name)) {
            missing(requests, &name, amount);
        }
    }
}

fn create(pod: &mut Value) {
    let class = quality_of_service(&At::root(pod).get("spec"));
    let born = At::root(pod).down("metadata.creationTimestamp").json();
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !At::root(pod).down("spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": born,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    put(pod, "status", status);
    merge_label_keys(pod);
    app_armor_fields(pod);
}

/// Converts an `AppArmor` annotation to the field, unless the pod has the same profile already.
fn app_armor_fields(pod: &mut Value) {
    let notes = At::root(pod).down("metadata.annotations").json();
    let Some(spec) = down(pod, "spec") else { return };
    if At::root(spec).down("os.name").text() == "windows" {
        return;
    }
    let of_pod = At::root(spec).down("securityContext.appArmorProfile").json();
    for list in defaults::CONTAINER_LISTS {
        for container in each(spec, list) {
            let name = At::root(container).get("name").text();
            let note = notes.get(format!("{}{name}", template::APP_ARMOR)).and_then(Value::as_str);
            let profile = match note {
                Some("unconfined") => json!({"type": "Unconfined"}),
                Some("runtime/default") => json!({"type": "RuntimeDefault"}),
                Some(note) => match note.strip_prefix("localhost/").filter(|name| !name.is_empty()) {
                    Some(name) => json!({"type": "Localhost", "localhostProfile": name}),
                    None => continue,
                },
                None => continue,
            };
            if profile != of_pod
                && let Some(context) = ensure(container, "securityContext")
            {
                missing(context, "appArmorProfile", profile);
            }
        }
    }
}

/// `matchLabelKeys`: merges the pod's own values of those labels into the selector.
fn merge_label_keys(pod: &mut Value) {
    let labels = At::root(pod).down("metadata.labels").json();
    let merge = |term: &mut Value| {
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in term.get(keys).and_then(Value::as_array).cloned().unwrap_or_default() {
                let value = key.as_str().and_then(|key| labels.get(key)).cloned();
                if let (Some(value), Some(selector)) = (value, down(term, "labelSelector")) {
                    missing(selector, "matchExpressions", json!([]));
                    if let Some(list) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
                        list.push(json!({"key": key, "operator": operator, "values": [value]}));
                    }
                }
            }
        }
    };
    let Some(spec) = down(pod, "spec") else { return };
    each(spec, "topologySpreadConstraints").for_each(merge);
    for kind in ["affinity.podAffinity", "affinity.podAntiAffinity"] {
        if let Some(pods) = down(spec, kind) {
            each(pods, "requiredDuringSchedulingIgnoredDuringExecution").for_each(merge);
            each(pods, "preferredDuringSchedulingIgnoredDuringExecution")
                .filter_map(|term| term.get_mut("podAffinityTerm"))
                .for_each(merge);
        }
    }
}

/// The `QoS` class `Guaranteed`, `Burstable` or `BestEffort`, from requests and limits of cpu and memory.
pub fn quality_of_service(spec: &At) -> &'static str {
    let amount = |owner: &At, list: &str, name: &str| {
        let amount = owner.get("resources").get(list).peek(name).and_then(Quantity::of);
        amount.filter(|amount| *amount > Quantity::default())
    };
    let (regular, init) = (spec.get("containers"), spec.get("initContainers"));
    let owners: Vec<_> = if spec.has("resources") {
        vec![spec.clone()]
    } else {
        regular.items().chain(init.items()).collect()
    };
    let limited = |owner: &At| ["cpu", "memory"].iter().all(|name| amount(owner, "limits", name).is_some());
    let total = |list: &str, name: &str| {
        owners.iter().filter_map(|owner| amount(owner, list, name)).reduce(|sum, amount| sum.add(&amount))
    };
    let totals = |list: &str| ["cpu", "memory"].map(|name| total(list, name));
    let (requests, limits) = (totals("requests"), totals("limits"));
    if requests.iter().chain(&limits).all(Option::is_none) {
        "BestEffort"
    } else if owners.iter().all(limited) && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Validation of a pod on create and update.
pub(super) fn validate_always(pod: &At, errs: &mut FieldErrors) {
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    template::annotations(&metadata.get("annotations"), &spec, errs);
    podspec::validate(&spec, Some(&metadata), errs);
    if spec.get("serviceAccountName").is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.down("projected.sources").items().filter(|s| s.has("serviceAccountToken")) {
                let words = "must not be specified when serviceAccountName is not set";
                errs.push(FieldError::forbidden(&source.get("serviceAccountToken").path, words));
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.get(list).items().for_each(|c| container::image_is_trimmed(&c, errs));
    }
}

fn validate(pod: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let pod = At::root(pod);
    let spec = pod.get("spec");
    validate_always(&pod, &mut errs);
    if !spec.get("ephemeralContainers").is_empty() {
        errs.push(FieldError::forbidden(&spec.get("ephemeralContainers").path, "cannot be set on create"));
    }
    if !spec.get("nodeName").is_empty() && !spec.get("schedulingGates").is_empty() {
        let words = "cannot be set until all schedulingGates have been cleared";
        errs.push(FieldError::forbidden(&spec.get("nodeName").path, words));
    }
    template::profiles_agree(&pod.down("metadata.annotations"), &spec, &mut errs);
    errs
}

fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (At::root(new), At::root(old));
    validate_always(&new, &mut errs);
    let notes = new.down("metadata.annotations");
    template::annotations_stay(&notes, &old.down("metadata.annotations"), &mut errs);
    template::annotations(&notes, &new.get("spec"), &mut errs);
    validate_change(&new.get("spec"), &old.get("spec"), &mut errs);
    errs
}

/// The few mutable fields of a pod.
fn validate_change(new: &At, old: &At, errs: &mut FieldErrors) {
    for list in ["containers", "initContainers"] {
        let (now, then) = (new.get(list), old.get(list));
        if now.len() != then.len() {
            let words = "pod updates may not add or remove containers";
            errs.push(FieldError::forbidden(&now.path, words));
            return;
        }
        for container in now.items() {
            check::required(&container.get("image"), errs);
            container::image_is_trimmed(&container, errs);
        }
    }
    let (deadline, before) = (new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"));
    match (deadline.number(), before.number()) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            errs.push(FieldError::invalid(&deadline.path, now, check::between(0, i64::from(i32::MAX))));
            return;
        }
        (Some(now), Some(then)) if then < now => {
            let words = "must be less than or equal to previous value";
            errs.push(FieldError::invalid(&deadline.path, now, words));
            return;
        }
        (None, Some(_)) => {
            let words = "must not update from a positive integer to nil value";
            errs.push(FieldError::invalid(&deadline.path, Value::Null, words));
        }
        _ => {}
    }
    only_more_tolerations(&new.get("tolerations"), &old.get("tolerations"), errs);
    let known = old.get("schedulingGates");
    let known: HashSet<_> = known.items().map(|gate| gate.get("name").text()).collect();
    for gate in new.get("schedulingGates").items().map(|gate| gate.get("name")) {
        if !known.contains(gate.text()) {
            let words = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text());
            errs.push(FieldError::forbidden(&gate.path, words));
        }
    }
    if new.json() == old.json() {
        return;
    }
    let gated = !old.get("schedulingGates").is_empty();
    if gated {
        narrowed(new, old, errs);
    }
    let (before, now) = (old.json(), with_changes_undone(new, old, gated));
    if now != before {
        let difference = go_structs::difference("PodSpec", &inside(before), &inside(now));
        errs.push(FieldError::forbidden(&new.path, format!("{CHANGE_REFUSED}{difference}")));
    }
}

/// A spec in Kubernetes' internal form: host namespaces are in the security context.
fn inside(mut spec: Value) -> Value {
    for name in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let shared = spec.get(name).cloned();
        if let Some(shared) = shared
            && let Some(context) = ensure(&mut spec, "securityContext")
        {
            put(context, name, shared);
        }
    }
    spec
}

fn only_more_tolerations(new: &At, old: &At, errs: &mut FieldErrors) {
    let without_seconds = |toleration: &At| {
        let mut toleration = toleration.json();
        if let Value::Object(map) = &mut toleration {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: HashSet<Value> = new.items().map(|now| without_seconds(&now)).collect();
    if old.items().all(|then| kept.contains(&without_seconds(&then))) {
        scheduling::tolerations(new, errs);
    } else {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        errs.push(FieldError::forbidden(&new.path, words));
    }
}

/// The node selection of a gated pod may only be narrowed.
fn narrowed(new: &At, old: &At, errs: &mut FieldErrors) {
    let selector = new.get("nodeSelector");
    if old.get("nodeSelector").entries().any(|(key, value)| selector.peek(key) != value.value) {
        let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errs.push(FieldError::invalid(&selector.path, selector.json(), words));
    }
    let terms = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (now, then) = (new.down(terms), old.down(terms));
    if then.is_empty() {
        return;
    }
    if now.len() != then.len() {
        let words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errs.push(FieldError::invalid(&now.path, now.json(), words));
        return;
    }
    for (now, then) in now.items().zip(then.items()) {
        let lists = ["matchExpressions", "matchFields"];
        let was_empty = lists.iter().all(|list| then.get(list).is_empty());
        let grown = was_empty && lists.iter().any(|list| !now.get(list).is_empty());
        let begins = |list: &&str| {
            let (now, then) = (now.get(list), then.get(list));
            now.len() >= then.len() && now.items().zip(then.items()).all(|(a, b)| a.value == b.value)
        };
        if grown || !lists.iter().all(begins) {
            let words = "only additions are allowed (no mutations or deletions)";
            errs.push(FieldError::invalid(&now.path, now.json(), words));
        }
    }
}

/// The new spec with all mutable fields reset; a remaining difference is an error.
fn with_changes_undone(new: &At, old: &At, gated: bool) -> Value {
    let mut spec = new.json();
    let back = |spec: &mut Value, name: &str| match (old.peek(name), spec.as_object_mut()) {
        (Some(value), Some(map)) => drop(map.insert(name.to_owned(), value.clone())),
        (None, Some(map)) => drop(map.remove(name)),
        (_, None) => {}
    };
    for list in ["containers", "initContainers"] {
        let images: Vec<_> = old.get(list).items().map(|container| container.get("image").json()).collect();
        for (container, image) in each(&mut spec, list).zip(images) {
            put(container, "image", image);
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        back(&mut spec, name);
    }
    let grace = "terminationGracePeriodSeconds";
    if old.get(grace).int() < 0 && new.get(grace).int() == 1 {
        back(&mut spec, grace);
    }
    if gated {
        back(&mut spec, "nodeSelector");
        let node = old.down("affinity.nodeAffinity");
        if let Some(affinity) = ensure(&mut spec, "affinity") {
            if let Value::Object(map) = affinity {
                map.remove("nodeAffinity");
            }
            if node.exists() {
                put(affinity, "nodeAffinity", node.json());
            }
        }
        if is_empty(&spec, "affinity") {
            back(&mut spec, "affinity");
        }
    }
    spec
}

#[cfg(test)]
mod tests;
