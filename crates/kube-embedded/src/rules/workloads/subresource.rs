//! Pod subresources `/ephemeralcontainers` and `/resize`.
//!
//! Each has two functions: one resets all other fields of the new pod, and one validates the
//! change.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::check::PathValue;

use super::defaulting::{ensure_object, items_mut, set_field};
use super::{pod, template};

const ONLY_COMPUTE_MESSAGE: &str = "only cpu and memory resources are mutable";

/// Keeps only the ephemeral containers of the new pod.
pub fn keep_ephemeral(new: &mut Value, old: &Value) {
    let containers =
        new.get_mut("spec").and_then(|spec| spec.get_mut("ephemeralContainers")).map(Value::take);
    restore_old_except_metadata(new, old);
    if let Some(spec) = ensure_object(new, "spec") {
        match containers.filter(|list| !list.is_null()) {
            Some(list) => set_field(spec, "ephemeralContainers", list),
            None => drop(spec.as_object_mut().map(|map| map.remove("ephemeralContainers"))),
        }
    }
}

/// Keeps only the resources of the new pod and of its containers. A pod with other containers is left
/// unchanged, to be rejected.
pub fn keep_resize(new: &mut Value, old: &Value) {
    let wanted = new.clone();
    let (now, then) = (PathValue::root(&wanted).get("spec"), PathValue::root(old).get("spec"));
    let lists = ["containers", "initContainers"];
    let names = |spec: &PathValue, list: &str| -> Vec<String> {
        spec.get(list).items().map(|container| container.get("name").text().to_owned()).collect()
    };
    if lists.iter().any(|list| names(&now, list) != names(&then, list)) {
        return;
    }
    restore_old_except_metadata(new, old);
    let Some(spec) = ensure_object(new, "spec") else { return };
    copy(spec, &now, "resources");
    for list in lists {
        for (container, wanted) in items_mut(spec, list).zip(now.get(list).items()) {
            copy(container, &wanted, "resources");
            copy(container, &wanted, "resizePolicy");
        }
    }
}

/// The old pod with the new resourceVersion and managed fields.
fn restore_old_except_metadata(new: &mut Value, old: &Value) {
    let own = PathValue::root(new).get("metadata").to_json();
    let mut kept = old.clone();
    if let Some(metadata) = ensure_object(&mut kept, "metadata") {
        for name in ["resourceVersion", "managedFields"] {
            copy(metadata, &PathValue::root(&own), name);
        }
    }
    *new = kept;
}

/// Copies a field, or removes it if it is absent in `from`.
fn copy(to: &mut Value, from: &PathValue, name: &str) {
    match (from.peek(name), to.as_object_mut()) {
        (Some(value), Some(map)) => drop(map.insert(name.to_owned(), value.clone())),
        (None, Some(map)) => drop(map.remove(name)),
        (_, None) => {}
    }
}

fn static_pod_error(old: &PathValue, words: &str) -> Option<FieldErrors> {
    let mirror = old.nested("metadata.annotations").has("kubernetes.io/config.mirror");
    mirror.then(|| FieldError::forbidden(&Path::root(), words).into())
}

/// Ephemeral containers can only be added.
pub fn validate_ephemeral(new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    if let Some(refused) = static_pod_error(&old, "static pods do not support ephemeral containers") {
        return refused;
    }
    let mut errs = FieldErrors::new();
    pod::validate_always(&new, &mut errs);
    let notes = new.nested("metadata.annotations");
    template::validate_immutable_annotations(&notes, &old.nested("metadata.annotations"), &mut errs);
    let list = new.nested("spec.ephemeralContainers");
    let mut by_name = HashMap::new();
    for container in list.items() {
        by_name.entry(container.get("name").text()).or_insert(container);
    }
    for before in old.nested("spec.ephemeralContainers").items() {
        let name = before.get("name").text();
        let now = by_name.get(name);
        let what = match now {
            None => "removed",
            Some(now) if now.value != before.value => "changed",
            Some(_) => continue,
        };
        let words = format!("existing ephemeral containers {name:?} may not be {what}\n");
        errs.push(FieldError::forbidden(&list.path, words));
    }
    errs
}

/// Only cpu and memory may change, nothing may be removed, and the `QoS` class must stay.
pub fn validate_resize(new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    if let Some(refused) = static_pod_error(&old, "static pods cannot be resized") {
        return refused;
    }
    let (now, before) = (new.get("spec"), old.get("spec"));
    if before.nested("os.name").text() == "windows" {
        return FieldError::forbidden(&Path::root(), "windows pods cannot be resized").into();
    }
    let mut errs = FieldErrors::new();
    pod::validate_always(&new, &mut errs);
    if pod::qos_class(&now) != pod::qos_class(&before) {
        let class = new.nested("status.qosClass").to_json();
        let words = "Pod QOS Class may not change as a result of resizing";
        errs.push(FieldError::invalid(&now.path, class, words));
    }
    let statuses = old.nested("status.containerStatuses");
    let running = statuses.items().find(|status| status.nested("state.running").exists());
    if running.is_some_and(|status| !status.has("resources")) {
        let words = "Pod running on node without support for resize";
        errs.push(FieldError::forbidden(&now.path, words));
    }
    if before.has("resources") && !now.has("resources") {
        let words = "pod-level resources cannot be removed";
        errs.push(FieldError::forbidden(&now.get("resources").path, words));
    } else {
        validate_nothing_removed(&now, &before, "pod-level resource", &mut errs);
    }
    if !validate_same_containers(&now, &before, &mut errs) {
        return errs;
    }
    for list in ["initContainers", "containers"] {
        for (now, before) in now.get(list).items().zip(before.get(list).items()) {
            let regular = list == "containers";
            validate_nothing_removed(&now, &before, "resource", &mut errs);
            if with_previous_compute_resources(&now, &before) != before.to_json() {
                let init = "only cpu and memory resources for init or sidecar containers are mutable";
                errs.push(if regular {
                    FieldError::forbidden(&new.get("spec").path, ONLY_COMPUTE_MESSAGE)
                } else {
                    FieldError::forbidden(&now.path, init)
                });
            }
            let restarts = |policy: PathValue| policy.get("restartPolicy").text() == "RestartContainer";
            let sidecar = now.get("restartPolicy").text() == "Always";
            if !regular
                && !sidecar
                && now.value != before.value
                && now.get("resizePolicy").items().any(restarts)
            {
                let words =
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errs.push(FieldError::forbidden(&now.path, words));
            }
        }
    }
    errs
}

fn validate_same_containers(now: &PathValue, before: &PathValue, errs: &mut FieldErrors) -> bool {
    let told = errs.len();
    for list in ["containers", "initContainers"] {
        let (now, before) = (now.get(list), before.get(list));
        if now.len() != before.len() {
            let words = format!("{list} may not be added or removed on resize");
            errs.push(FieldError::forbidden(&now.path, words));
            continue;
        }
        for (now, before) in now.items().zip(before.items()) {
            if now.get("name").text() != before.get("name").text() {
                let words = format!("{list} may not be renamed or reordered on resize");
                errs.push(FieldError::forbidden(&now.get("name").path, words));
            }
        }
    }
    errs.len() == told
}

fn validate_nothing_removed(now: &PathValue, before: &PathValue, what: &str, errs: &mut FieldErrors) {
    for list in ["requests", "limits"] {
        let (now, before) = (now.get("resources").get(list), before.get("resources").get(list));
        if before.entries().any(|(name, _)| !now.has(name)) {
            errs.push(FieldError::forbidden(&now.path, format!("{what} {list} cannot be removed")));
        }
    }
}

/// The new container with its previous cpu and memory.
fn with_previous_compute_resources(now: &PathValue, before: &PathValue) -> Value {
    let mut container = now.to_json();
    let had = before.get("resources");
    if let Some(resources) = ensure_object(&mut container, "resources") {
        for list in ["requests", "limits"] {
            if let Some(amounts) = ensure_object(resources, list) {
                for name in ["cpu", "memory"] {
                    copy(amounts, &had.get(list), name);
                }
                if amounts == &Value::Object(Map::new()) && !had.has(list) {
                    resources.as_object_mut().map(|map| map.remove(list));
                }
            }
        }
    }
    if !before.has("resources") && container["resources"] == Value::Object(Map::new()) {
        container.as_object_mut().map(|map| map.remove("resources"));
    }
    container
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::error_messages;

    fn pod(cpu: &str) -> Value {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}});
        (pod::RULES.default)(&mut pod);
        pod
    }

    #[test]
    fn resize_changes_only_cpu_and_memory() {
        let old = pod("1");
        let mut new = pod("2");
        new["spec"]["hostname"] = "h".into();
        keep_resize(&mut new, &old);
        assert_eq!(new["spec"].get("hostname"), None);
        assert_eq!(validate_resize(&new, &old), []);
        let mut less = old.clone();
        less["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(
            error_messages(&validate_resize(&less, &old)),
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
        );
    }

    #[test]
    fn ephemeral_containers_can_only_be_added() {
        let old = pod("1");
        let mut new = old.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
        (pod::RULES.default)(&mut new);
        keep_ephemeral(&mut new, &old);
        assert_eq!(new["metadata"].get("labels"), None);
        assert_eq!(validate_ephemeral(&new, &old), []);
        assert_eq!(
            error_messages(&validate_ephemeral(&old, &new)),
            ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"]
        );
    }
}
