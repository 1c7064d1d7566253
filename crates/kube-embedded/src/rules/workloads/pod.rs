//! Pods.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules, go_structs};

use super::defaulting::{default_if_absent, ensure_object, is_empty, items_mut, nested_mut, set_field};
use super::{container, defaults, podspec, resources, scheduling, status, template, warnings};

pub const RULES: KindRules = KindRules {
    kind: "Pod",
    generation: GenerationPolicy::Content,
    default,
    prepare_for_create: create,
    validate,
    validate_update,
    validate_status: status::validate_pod,
    warnings: |new, old| {
        if old.is_some() {
            return Vec::new();
        }
        let pod = PathValue::root(new);
        let name = warnings::host_name_warning(&pod, "the Pod's hostname");
        name.into_iter().chain(warnings::for_pod(&pod)).collect()
    },
    ..DEFAULT_RULES
};

const IMMUTABLE_FIELDS_MESSAGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

/// `podIP` is the first of `podIPs`. The older field wins.
fn default_addresses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").filter(|status| status.is_object()) else { return };
    let first = status["podIPs"][0]["ip"].as_str().unwrap_or_default().to_owned();
    match status["podIP"].as_str() {
        Some(ip) if !ip.is_empty() && ip != first => {
            let ip = ip.to_owned();
            set_field(status, "podIPs", json!([{"ip": ip}]));
        }
        None | Some("") if !first.is_empty() => set_field(status, "podIP", first),
        _ => {}
    }
}

fn default(pod: &mut Value) {
    default_addresses(pod);
    let Some(spec) = ensure_object(pod, "spec") else { return };
    defaults::pod_spec(spec);
    let on_host = spec.get("hostNetwork").is_some_and(|value| value == true);
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
            if on_host {
                for port in items_mut(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned()
                        && port.get("hostPort").is_none_or(|port| port.is_null() || port == 0)
                    {
                        set_field(port, "hostPort", number);
                    }
                }
            }
        }
    }
    default_pod_level_requests(spec);
    default_if_absent(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        set_field(spec, "terminationGracePeriodSeconds", 1);
    }
}

/// Limits become requests where none are set.
fn requests_from_limits(container: &mut Value) {
    let limits = container.get("resources").and_then(|resources| resources.get("limits"));
    let Some(limits) = limits.and_then(Value::as_object).cloned() else { return };
    if let Some(resources) = nested_mut(container, "resources")
        && !limits.is_empty()
        && let Some(requests) = ensure_object(resources, "requests")
    {
        for (name, amount) in limits {
            default_if_absent(requests, &name, amount);
        }
    }
}

/// The same for pod-level resources, after the sum of the containers' requests.
fn default_pod_level_requests(spec: &mut Value) {
    let limits = spec.get("resources").and_then(|resources| resources.get("limits"));
    let Some(limits) = limits.and_then(Value::as_object).filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let at = PathValue::root(spec);
    let sums = ["cpu", "memory"]
        .map(|name| (name, resources::aggregate(&at, "requests", name).map(|(_, words)| words)));
    if let Some(resources) = nested_mut(spec, "resources")
        && let Some(requests) = ensure_object(resources, "requests")
    {
        for (name, sum) in sums {
            if let Some(sum) = sum {
                default_if_absent(requests, name, sum);
            }
        }
        let whole = |name: &str| matches!(name, "cpu" | "memory") || resources::is_huge_pages(name);
        for (name, amount) in limits.into_iter().filter(|(name, _)| whole(name)) {
            default_if_absent(requests, &name, amount);
        }
    }
}

fn create(pod: &mut Value) {
    let class = qos_class(&PathValue::root(pod).get("spec"));
    let born = PathValue::root(pod).nested("metadata.creationTimestamp").to_json();
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !PathValue::root(pod).nested("spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": born,
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    set_field(pod, "status", status);
    merge_label_keys(pod);
    set_app_armor_fields(pod);
}

/// Converts an `AppArmor` annotation to the field, unless the pod has the same profile already.
fn set_app_armor_fields(pod: &mut Value) {
    let notes = PathValue::root(pod).nested("metadata.annotations").to_json();
    let Some(spec) = nested_mut(pod, "spec") else { return };
    if PathValue::root(spec).nested("os.name").text() == "windows" {
        return;
    }
    let of_pod = PathValue::root(spec).nested("securityContext.appArmorProfile").to_json();
    for list in defaults::CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            let name = PathValue::root(container).get("name").text();
            let note =
                notes.get(format!("{}{name}", template::APP_ARMOR_ANNOTATION_PREFIX)).and_then(Value::as_str);
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
                && let Some(context) = ensure_object(container, "securityContext")
            {
                default_if_absent(context, "appArmorProfile", profile);
            }
        }
    }
}

/// `matchLabelKeys`: merges the pod's own values of those labels into the selector.
fn merge_label_keys(pod: &mut Value) {
    let labels = PathValue::root(pod).nested("metadata.labels").to_json();
    let merge = |term: &mut Value| {
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in term.get(keys).and_then(Value::as_array).cloned().unwrap_or_default() {
                let value = key.as_str().and_then(|key| labels.get(key)).cloned();
                if let (Some(value), Some(selector)) = (value, nested_mut(term, "labelSelector")) {
                    default_if_absent(selector, "matchExpressions", json!([]));
                    if let Some(list) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
                        list.push(json!({"key": key, "operator": operator, "values": [value]}));
                    }
                }
            }
        }
    };
    let Some(spec) = nested_mut(pod, "spec") else { return };
    items_mut(spec, "topologySpreadConstraints").for_each(merge);
    for kind in ["affinity.podAffinity", "affinity.podAntiAffinity"] {
        if let Some(pods) = nested_mut(spec, kind) {
            items_mut(pods, "requiredDuringSchedulingIgnoredDuringExecution").for_each(merge);
            items_mut(pods, "preferredDuringSchedulingIgnoredDuringExecution")
                .filter_map(|term| term.get_mut("podAffinityTerm"))
                .for_each(merge);
        }
    }
}

/// The `QoS` class `Guaranteed`, `Burstable` or `BestEffort`, from requests and limits of cpu and memory.
pub fn qos_class(spec: &PathValue) -> &'static str {
    let amount = |owner: &PathValue, list: &str, name: &str| {
        let amount = owner.get("resources").get(list).peek(name).and_then(Quantity::from_value);
        amount.filter(|amount| *amount > Quantity::default())
    };
    let (regular, init) = (spec.get("containers"), spec.get("initContainers"));
    let owners: Vec<_> = if spec.has("resources") {
        vec![spec.clone()]
    } else {
        regular.items().chain(init.items()).collect()
    };
    let limited =
        |owner: &PathValue| ["cpu", "memory"].iter().all(|name| amount(owner, "limits", name).is_some());
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
pub(super) fn validate_always(pod: &PathValue, errs: &mut FieldErrors) {
    let (metadata, spec) = (pod.get("metadata"), pod.get("spec"));
    template::validate_annotations(&metadata.get("annotations"), &spec, errs);
    podspec::validate(&spec, Some(&metadata), errs);
    if spec.get("serviceAccountName").is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.nested("projected.sources").items().filter(|s| s.has("serviceAccountToken"))
            {
                let words = "must not be specified when serviceAccountName is not set";
                errs.push(FieldError::forbidden(&source.get("serviceAccountToken").path, words));
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.get(list).items().for_each(|c| container::validate_trimmed_image(&c, errs));
    }
}

fn validate(pod: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let pod = PathValue::root(pod);
    let spec = pod.get("spec");
    validate_always(&pod, &mut errs);
    if !spec.get("ephemeralContainers").is_empty() {
        errs.push(FieldError::forbidden(&spec.get("ephemeralContainers").path, "cannot be set on create"));
    }
    if !spec.get("nodeName").is_empty() && !spec.get("schedulingGates").is_empty() {
        let words = "cannot be set until all schedulingGates have been cleared";
        errs.push(FieldError::forbidden(&spec.get("nodeName").path, words));
    }
    template::validate_profiles_agree(&pod.nested("metadata.annotations"), &spec, &mut errs);
    errs
}

fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    validate_always(&new, &mut errs);
    let notes = new.nested("metadata.annotations");
    template::validate_immutable_annotations(&notes, &old.nested("metadata.annotations"), &mut errs);
    template::validate_annotations(&notes, &new.get("spec"), &mut errs);
    validate_change(&new.get("spec"), &old.get("spec"), &mut errs);
    errs
}

/// The few mutable fields of a pod.
fn validate_change(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    for list in ["containers", "initContainers"] {
        let (now, then) = (new.get(list), old.get(list));
        if now.len() != then.len() {
            let words = "pod updates may not add or remove containers";
            errs.push(FieldError::forbidden(&now.path, words));
            return;
        }
        for container in now.items() {
            check::required(&container.get("image"), errs);
            container::validate_trimmed_image(&container, errs);
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
    validate_added_tolerations(&new.get("tolerations"), &old.get("tolerations"), errs);
    let known = old.get("schedulingGates");
    let known: HashSet<_> = known.items().map(|gate| gate.get("name").text()).collect();
    for gate in new.get("schedulingGates").items().map(|gate| gate.get("name")) {
        if !known.contains(gate.text()) {
            let words = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.text());
            errs.push(FieldError::forbidden(&gate.path, words));
        }
    }
    if new.to_json() == old.to_json() {
        return;
    }
    let gated = !old.get("schedulingGates").is_empty();
    if gated {
        validate_narrowed_node_selection(new, old, errs);
    }
    let (before, now) = (old.to_json(), with_mutable_fields_reset(new, old, gated));
    if now != before {
        let difference = go_structs::difference("PodSpec", &to_internal(before), &to_internal(now));
        errs.push(FieldError::forbidden(&new.path, format!("{IMMUTABLE_FIELDS_MESSAGE}{difference}")));
    }
}

/// A spec in Kubernetes' internal form: host namespaces are in the security context.
fn to_internal(mut spec: Value) -> Value {
    for name in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let shared = spec.get(name).cloned();
        if let Some(shared) = shared
            && let Some(context) = ensure_object(&mut spec, "securityContext")
        {
            set_field(context, name, shared);
        }
    }
    spec
}

fn validate_added_tolerations(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    let without_seconds = |toleration: &PathValue| {
        let mut toleration = toleration.to_json();
        if let Value::Object(map) = &mut toleration {
            map.remove("tolerationSeconds");
        }
        toleration
    };
    let kept: HashSet<Value> = new.items().map(|now| without_seconds(&now)).collect();
    if old.items().all(|then| kept.contains(&without_seconds(&then))) {
        scheduling::validate_tolerations(new, errs);
    } else {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        errs.push(FieldError::forbidden(&new.path, words));
    }
}

/// The node selection of a gated pod may only be narrowed.
fn validate_narrowed_node_selection(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    let selector = new.get("nodeSelector");
    if old.get("nodeSelector").entries().any(|(key, value)| selector.peek(key) != value.value) {
        let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errs.push(FieldError::invalid(&selector.path, selector.to_json(), words));
    }
    let terms = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (now, then) = (new.nested(terms), old.nested(terms));
    if then.is_empty() {
        return;
    }
    if now.len() != then.len() {
        let words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errs.push(FieldError::invalid(&now.path, now.to_json(), words));
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
            errs.push(FieldError::invalid(&now.path, now.to_json(), words));
        }
    }
}

/// The new spec with all mutable fields reset; a remaining difference is an error.
fn with_mutable_fields_reset(new: &PathValue, old: &PathValue, gated: bool) -> Value {
    let mut spec = new.to_json();
    let back = |spec: &mut Value, name: &str| match (old.peek(name), spec.as_object_mut()) {
        (Some(value), Some(map)) => drop(map.insert(name.to_owned(), value.clone())),
        (None, Some(map)) => drop(map.remove(name)),
        (_, None) => {}
    };
    for list in ["containers", "initContainers"] {
        let images: Vec<_> =
            old.get(list).items().map(|container| container.get("image").to_json()).collect();
        for (container, image) in items_mut(&mut spec, list).zip(images) {
            set_field(container, "image", image);
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
        let node = old.nested("affinity.nodeAffinity");
        if let Some(affinity) = ensure_object(&mut spec, "affinity") {
            if let Value::Object(map) = affinity {
                map.remove("nodeAffinity");
            }
            if node.exists() {
                set_field(affinity, "nodeAffinity", node.to_json());
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
