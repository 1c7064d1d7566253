//! Admission plugins that set or check fields from the cluster's state: default classes, priorities,
//! default tolerations, protection finalizers, the taint of a new node.
//!
//! Each function handles one kind and is called with objects of that kind only, after defaulting and before
//! validation ([`validate_claim_resize`] after it).

use serde_json::{Value, json};

use crate::access::node::MIRROR;
use crate::error::{ApiError, Result};
use crate::quantity::Quantity;
use crate::rules::accessors::{
    bool_or_false, int, is_empty_value, items, list_mut, members, set_if_absent, text,
};
use crate::rules::core::volume::add_protection_finalizer;
use crate::store::Store;

const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The newest object annotated as default; of equally old ones the first by name.
fn default_class(store: &Store, storage: &str, annotations: &[&str]) -> Option<String> {
    let all = store.list(storage, None).objects;
    let marked = all.iter().map(|object| object.value()).filter(|class| {
        annotations.iter().any(|key| text(&class["metadata"]["annotations"][*key]) == "true")
    });
    let order = |class: &Value| {
        let made = text(&class["metadata"]["creationTimestamp"]).to_owned();
        (std::cmp::Reverse(made), text(&class["metadata"]["name"]).to_owned())
    };
    marked.map(|class| order(&class)).min().map(|(_, name)| name)
}

/// The name of the default StorageClass.
pub fn default_storage_class(store: &Store) -> Option<String> {
    default_class(
        store,
        "storageclasses.storage.k8s.io",
        &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
    )
}

/// Sets the default class of a claim without class.
pub fn set_storage_class(store: &Store, claim: &mut Value) {
    let annotated = claim["metadata"]["annotations"].get(STORAGE_CLASS_ANNOTATION).is_some();
    if annotated || !claim["spec"]["storageClassName"].is_null() {
        return;
    }
    if let Some(name) = default_storage_class(store) {
        members(claim, "spec").insert("storageClassName".to_owned(), name.into());
    }
}

/// Sets the default class of a new Ingress without class.
pub fn set_ingress_class(store: &Store, ingress: &mut Value) {
    let annotated = ingress["metadata"]["annotations"].get("kubernetes.io/ingress.class").is_some();
    if annotated || !ingress["spec"]["ingressClassName"].is_null() {
        return;
    }
    let key = "ingressclass.kubernetes.io/is-default-class";
    if let Some(name) = default_class(store, "ingressclasses.networking.k8s.io", &[key]) {
        members(ingress, "spec").insert("ingressClassName".to_owned(), name.into());
    }
}

/// Adds the protection finalizer to a new volume, claim or attributes class.
pub fn add_storage_finalizer(kind: &str, object: &mut Value) {
    let finalizer = match kind {
        "PersistentVolume" => "kubernetes.io/pv-protection",
        "PersistentVolumeClaim" => "kubernetes.io/pvc-protection",
        "VolumeAttributesClass" => "kubernetes.io/vac-protection",
        _ => return,
    };
    add_protection_finalizer(object, finalizer);
}

/// Adds the not-ready taint to a new node.
pub fn add_not_ready_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let taints = items(&node["spec"]["taints"]);
    if taints.iter().any(|taint| text(&taint["key"]) == KEY && text(&taint["effect"]) == "NoSchedule") {
        return;
    }
    members(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = list_mut(&mut node["spec"], "taints") {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
    }
}

/// Adds the default tolerations: pods stay for five minutes on a lost node.
pub fn add_default_tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(&pod["spec"]["tolerations"]).iter().any(|toleration| {
            matches!(text(&toleration["key"]), k if k.is_empty() || k == key)
                && matches!(text(&toleration["effect"]), "" | "NoExecute")
        });
        if !tolerated {
            let spec = members(pod, "spec");
            if spec.get("tolerations").is_none_or(Value::is_null) {
                spec.insert("tolerations".to_owned(), json!([]));
            }
            if let Some(list) = list_mut(&mut pod["spec"], "tolerations") {
                list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                                 "tolerationSeconds": 300}));
            }
        }
    }
}

/// The priority classes of every cluster.
const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Rejects the deletion of a system priority class.
pub fn reject_system_class_deletion(name: &str) -> Result<()> {
    if SYSTEM_CLASSES.iter().any(|(class, _)| *class == name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(ApiError::forbidden("scheduling.k8s.io", "priorityclasses", name, why));
    }
    Ok(())
}

/// Sets the priority of a new pod, from its class or the default one.
pub fn set_priority(store: &Store, name: &str, pod: &mut Value) -> Result<()> {
    const STORAGE: &str = "priorityclasses.scheduling.k8s.io";
    let refuse = |why: String| ApiError::forbidden("", "pods", name, why);
    let asked = text(&pod["spec"]["priorityClassName"]);
    let class = if asked.is_empty() {
        default_priority_class(store)
    } else {
        let stored = store.get(STORAGE, "", asked).map(|class| class.value());
        let built_in = SYSTEM_CLASSES.iter().find(|(name, _)| *name == asked);
        let built_in = built_in.map(|(name, value)| {
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"})
        });
        let found = stored.or(built_in);
        Some(found.ok_or_else(|| refuse(format!("no PriorityClass with name {asked} was found")))?)
    };
    let class = class.unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    let (value, policy) = (int(&class["value"]), text(&class["preemptionPolicy"]));
    let given = &pod["spec"]["priority"];
    if given.as_i64().is_some_and(|given| given != value) {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        )));
    }
    let given = text(&pod["spec"]["preemptionPolicy"]);
    if !given.is_empty() && !policy.is_empty() && given != policy {
        return Err(refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    let name = class["metadata"].get("name").cloned();
    let spec = members(pod, "spec");
    if let Some(name) = name {
        spec.insert("priorityClassName".to_owned(), name);
    }
    spec.insert("priority".to_owned(), value.into());
    if !policy.is_empty() {
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

/// An updated pod keeps its priority.
pub fn keep_priority(pod: &mut Value, old: &Value) {
    let spec = members(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if !old["spec"][field].is_null() {
            set_if_absent(spec, field, old["spec"][field].clone());
        }
    }
}

/// The default `PriorityClass` with the lowest value.
fn default_priority_class(store: &Store) -> Option<Value> {
    let all = store.list("priorityclasses.scheduling.k8s.io", None).objects;
    let defaults =
        all.iter().map(|class| class.value()).filter(|class| bool_or_false(&class["globalDefault"]));
    defaults.min_by_key(|class| int(&class["value"]))
}

/// Rejects a second default `PriorityClass`; `old` is set on updates.
pub fn reject_second_default_class(store: &Store, class: &Value, old: Option<&Value>) -> Result<()> {
    if !bool_or_false(&class["globalDefault"]) {
        return Ok(());
    }
    let name = text(&class["metadata"]["name"]);
    let Some(default) = default_priority_class(store) else { return Ok(()) };
    let other = text(&default["metadata"]["name"]);
    if old.is_some() && other == name {
        return Ok(());
    }
    let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
    Err(ApiError::forbidden("scheduling.k8s.io", "priorityclasses", name, why))
}

/// A claim may be resized if it is bound and its class allows expansion.
pub fn validate_claim_resize(store: &Store, new: &Value, old: &Value) -> Result<()> {
    let asked = |claim: &Value| {
        Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"]).unwrap_or_default()
    };
    if asked(new) <= asked(old) {
        return Ok(());
    }
    let refuse = |why: &str| {
        Err(ApiError::forbidden("", "persistentvolumeclaims", text(&new["metadata"]["name"]), why))
    };
    if text(&old["status"]["phase"]) != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    let class = |claim: &Value| {
        let annotated = claim["metadata"]["annotations"][STORAGE_CLASS_ANNOTATION].as_str();
        annotated.unwrap_or_else(|| text(&claim["spec"]["storageClassName"])).to_owned()
    };
    let (now, was) = (class(new), class(old));
    let grows = !now.is_empty()
        && now == was
        && store
            .get("storageclasses.storage.k8s.io", "", &now)
            .is_some_and(|class| bool_or_false(&class.value()["allowVolumeExpansion"]));
    if grows {
        return Ok(());
    }
    refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

/// Sets the ServiceAccount `default` of a pod without account, except for mirror pods.
pub fn set_service_account(pod: &mut Value) {
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return;
    }
    let spec = members(pod, "spec");
    if spec.get("serviceAccountName").is_none_or(is_empty_value) {
        spec.insert("serviceAccountName".to_owned(), "default".into());
        spec.insert("serviceAccount".to_owned(), "default".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Change, Expect, Key, Op};

    async fn store_with(objects: &[(&str, &str, Value)]) -> std::sync::Arc<Store> {
        let store = Store::in_memory();
        for (storage, name, object) in objects {
            let mut object = object.clone();
            object["metadata"]["name"] = (*name).into();
            let key = Key::new(&(*storage).into(), "", name);
            store.commit(vec![Change { key, expect: Expect::Absent, op: Op::Put(object) }]).await.unwrap();
        }
        store
    }

    #[tokio::test]
    async fn default_class_is_the_newest() {
        let class = |made: &str, default: &str| {
            let annotations = json!({"storageclass.kubernetes.io/is-default-class": default});
            json!({"metadata": {"creationTimestamp": made, "annotations": annotations}})
        };
        let store = store_with(&[
            ("storageclasses.storage.k8s.io", "old", class("2026-01-01T00:00:00Z", "true")),
            ("storageclasses.storage.k8s.io", "b", class("2026-01-02T00:00:00Z", "true")),
            ("storageclasses.storage.k8s.io", "a", class("2026-01-02T00:00:00Z", "true")),
            ("storageclasses.storage.k8s.io", "no", class("2026-01-03T00:00:00Z", "false")),
        ])
        .await;
        let mut claim = json!({"spec": {}});
        set_storage_class(&store, &mut claim);
        assert_eq!(claim["spec"]["storageClassName"], "a");
        let mut claim = json!({"spec": {"storageClassName": ""}});
        set_storage_class(&store, &mut claim);
        assert_eq!(claim["spec"]["storageClassName"], "", "no class is a choice, too");
    }

    #[tokio::test]
    async fn pod_priority_follows_its_class() {
        let store = store_with(&[
            ("priorityclasses.scheduling.k8s.io", "high", json!({"value": 9, "preemptionPolicy": "Never"})),
            ("priorityclasses.scheduling.k8s.io", "usual", json!({"value": 3, "globalDefault": true})),
        ])
        .await;
        let table = [
            (json!({"priorityClassName": "high"}), "high 9 Never"),
            (json!({}), "usual 3 "),
            (
                json!({"priorityClassName": "system-node-critical"}),
                "system-node-critical 2000001000 PreemptLowerPriority",
            ),
            (
                json!({"priorityClassName": "none"}),
                "pods \"p\" is forbidden: no PriorityClass with name none was found",
            ),
            (
                json!({"priorityClassName": "high", "priority": 4}),
                "pods \"p\" is forbidden: the integer value of priority (4) must not be provided in pod spec; priority admission controller computed 9 from the given PriorityClass name",
            ),
        ];
        for (spec, expected) in table {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
            let told = match set_priority(&store, "p", &mut pod) {
                Ok(()) => {
                    let spec = &pod["spec"];
                    let (class, policy) = (text(&spec["priorityClassName"]), text(&spec["preemptionPolicy"]));
                    format!("{class} {} {policy}", spec["priority"])
                }
                Err(error) => error.message,
            };
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn tolerations_and_taints_are_added_once() {
        let mut pod = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready"}]}});
        add_default_tolerations(&mut pod);
        add_default_tolerations(&mut pod);
        assert_eq!(items(&pod["spec"]["tolerations"]).len(), 2);
        let mut node = json!({});
        add_not_ready_taint(&mut node);
        add_not_ready_taint(&mut node);
        assert_eq!(items(&node["spec"]["taints"]).len(), 1);
    }
}
