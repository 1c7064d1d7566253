//! Objects that a life cycle left in the cluster, without fields that differ between any two installations.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope, verbs};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::platform::until;

/// Objects by `Kind namespace/name`.
pub type Objects = BTreeMap<String, Value>;

/// Identity of an object of a chart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectRef {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// Identities of all objects in a manifest.
pub fn object_refs(manifest: &str) -> BTreeSet<ObjectRef> {
    let documents = serde_norway::Deserializer::from_str(manifest);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    let place = |object: Value| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(ObjectRef {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    };
    objects.filter_map(place).collect()
}

/// A cluster and the namespace that a chart was installed into.
pub struct ClusterView<'l> {
    pub client: kube::Client,
    pub namespace: &'l str,
    /// Objects outside the namespace.
    pub object_refs: &'l BTreeSet<ObjectRef>,
}

impl ClusterView<'_> {
    /// Objects in the namespace and at `object_refs`, in comparable form.
    pub async fn objects(&self) -> Objects {
        self.list_objects().await.iter().map(|(_, object)| (key(object), comparable(object))).collect()
    }

    /// Deletes all these objects and waits until they are gone.
    pub async fn remove(&self) {
        for (api, object) in self.list_objects().await {
            let name = object["metadata"]["name"].as_str().unwrap();
            // Errors are ignored: a controller may have deleted the object.
            let _ = api.delete(name, &DeleteParams::background()).await;
            until("it is gone", async || api.get_opt(name).await.unwrap().is_none().then_some(())).await;
        }
    }

    async fn list_objects(&self) -> Vec<(Api<DynamicObject>, Value)> {
        let discovery = Discovery::new(self.client.clone()).run_aggregated().await.unwrap();
        let kinds = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        let listed = kinds.filter(|(resource, abilities)| {
            // Events belong to no release, and Endpoints are derived from Services.
            let ours = !["Event", "Endpoints"].contains(&resource.kind.as_str());
            ours && abilities.scope == Scope::Namespaced && abilities.supports_operation(verbs::LIST)
        });
        let lists = listed.map(async |(resource, _)| {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), self.namespace, &resource);
            let list = match api.list(&ListParams::default()).await {
                // The kind of another test, deleted after discovery.
                Err(kube::Error::Api(status)) if status.code == 404 => return Vec::new(),
                list => list.unwrap(),
            };
            let whole = |object: DynamicObject| {
                let mut object = serde_json::to_value(object).unwrap();
                object["apiVersion"] = json!(resource.api_version);
                object["kind"] = json!(resource.kind);
                (api.clone(), object)
            };
            list.items.into_iter().map(whole).collect::<Vec<_>>()
        });
        let elsewhere = self.object_refs.iter().filter_map(|place| {
            let (group, version) = place.api_version.split_once('/').unwrap_or(("", &place.api_version));
            // A kind that is no longer served has no objects.
            let (resource, abilities) =
                discovery.resolve_gvk(&GroupVersionKind::gvk(group, version, &place.kind))?;
            let api: Api<DynamicObject> = match (abilities.scope, place.namespace.as_deref()) {
                (Scope::Cluster, _) => Api::all_with(self.client.clone(), &resource),
                (Scope::Namespaced, Some(namespace)) if namespace != self.namespace => {
                    Api::namespaced_with(self.client.clone(), namespace, &resource)
                }
                (Scope::Namespaced, _) => return None, // found already
            };
            Some((api, place.name.clone()))
        });
        let single = elsewhere.map(async |(api, name)| {
            let object = api.get_opt(&name).await.unwrap()?;
            Some((api, serde_json::to_value(object).unwrap()))
        });
        let mut found: Vec<_> = join_all(lists).await.into_iter().flatten().collect();
        found.extend(join_all(single).await.into_iter().flatten());
        found.retain(|(_, object)| is_from_chart(object));
        found
    }
}

/// False for objects that controllers derived from the chart's, that every namespace has, and for Helm records (read
/// with Helm).
fn is_from_chart(object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owned = owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let given = [("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")];
    let given = given.iter().any(|given| (object["kind"].as_str(), name) == (Some(given.0), given.1));
    !(owned || given || object["type"] == "helm.sh/release.v1")
}

fn key(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Keys with values that the cluster generates.
const GENERATED_KEYS: [&str; 10] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "nodeName",
    "volumeName",
];

/// The object without status and generated values.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(entries) = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["manager"] == "helm");
        for entry in entries {
            entry["time"] = json!("*");
        }
    }
    if let Some(marks) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        // Volume binding of claims.
        marks
            .retain(|name, _| !name.contains("pv.kubernetes.io/") && !name.contains("volume.kubernetes.io/"));
    }
    if object["type"] == "kubernetes.io/service-account-token" {
        object["data"] = json!("*");
    }
    mask_generated(&mut object);
    object
}

fn mask_generated(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                // `clusterIP: None` is in the spec and not generated.
                if GENERATED_KEYS.contains(&name.as_str()) && !member.to_string().contains("None") {
                    *member = json!("*");
                } else {
                    mask_generated(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_generated),
        Value::String(text) if text.starts_with("kube-api-access-") => {
            "kube-api-access-*".clone_into(text);
        }
        _ => {}
    }
}

/// Collects differences with their paths.
pub fn differences(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for name in names {
                let member = |object: &serde_json::Map<String, Value>| object.get(name).cloned();
                let (ours, theirs) =
                    (member(ours).unwrap_or(json!("absent")), member(theirs).unwrap_or(json!("absent")));
                differences(&ours, &theirs, &format!("{path}/{name}"), found);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differences(ours, theirs, &format!("{path}/{place}"), found);
            }
        }
        _ if ours == theirs => {}
        _ => found.push(format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

#[test]
fn comparable_omits_generated_fields_only() {
    let object = |uid: &str, replicas: u8| {
        json!({
            "kind": "Service", "metadata": {"name": "a", "uid": uid, "managedFields": [
                {"manager": "helm", "time": uid, "fieldsV1": {"f:spec": {}}}, {"manager": uid}]},
            "spec": {"clusterIP": uid, "replicas": replicas}, "status": {"at": uid},
        })
    };
    assert_eq!(comparable(&object("1", 2)), comparable(&object("2", 2)));
    let mut found = Vec::new();
    differences(&comparable(&object("1", 2)), &comparable(&object("2", 3)), "", &mut found);
    assert_eq!(found, ["/spec/replicas: ours 2, theirs 3"]);
}
