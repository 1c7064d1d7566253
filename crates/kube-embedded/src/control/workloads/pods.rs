//! Pod control shared by all workloads: create pods from a template, adopt matching pods, release others.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::control::events::InvolvedObject;
use crate::control::view::Pod;
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, has_finalizer,
    remove_from_list,
};
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

pub const PODS: &str = "pods";

/// The controller object of pods.
pub struct Owner<'a> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub object: &'a Object,
}

impl Owner<'_> {
    /// The owner reference of a managed object.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.object.name, "uid": self.object.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// Builds a pod of `owner` from a template, without a name.
pub fn from_template(owner: &Owner<'_>, template: &Value) -> Value {
    let mut metadata = json!({
        "namespace": owner.object.namespace, "ownerReferences": [owner.reference()],
    });
    for part in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][part].is_null() {
            metadata[part] = template["metadata"][part].clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// Creates a pod for `owner`; `component` records an Event.
pub async fn create(
    context: &Context,
    owner: &Owner<'_>,
    component: &'static str,
    pod: Value,
) -> Result<(), ApiError> {
    let about = InvolvedObject::new(owner.api_version, owner.kind, owner.object);
    match context.client.create(Component::ControllerManager, pod).await {
        Ok(pod) => {
            context.events.normal(component, about, "SuccessfulCreate", format!("Created pod: {}", pod.name));
            Ok(())
        }
        // Expected in a terminating namespace: no Event.
        Err(error) if error.is_namespace_terminating() => Ok(()),
        Err(error) => {
            context.events.warning(component, about, "FailedCreate", format!("Error creating: {error}"));
            Err(error)
        }
    }
}

/// Deletes a pod of `owner`; `component` records an Event.
pub async fn remove(
    context: &Context,
    owner: &Owner<'_>,
    component: &'static str,
    pod: &Object,
) -> Result<(), ApiError> {
    let key = Key::new(&PODS.into(), &pod.namespace, &pod.name);
    let meant = Preconditions { uid: &pod.uid, version: None };
    let about = InvolvedObject::new(owner.api_version, owner.kind, owner.object);
    match context.client.delete(&key, meant, Propagation::Background).await {
        Ok(()) => {
            context.events.normal(component, about, "SuccessfulDelete", format!("Deleted pod: {}", pod.name));
            Ok(())
        }
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        Err(mut error) => {
            context.events.warning(component, about, "FailedDelete", format!("Error deleting: {error}"));
            error.message = format!("unable to delete pods: {error}");
            Err(error)
        }
    }
}

/// The prefix of the generated names of an owner's pods.
pub fn name_prefix(owner: &str) -> String {
    // The API truncates a long prefix so that the suffix fits; a prefix that is too long for a name has no dash.
    if owner.len() < 253 { format!("{owner}-") } else { owner.to_owned() }
}

/// Returns the pods that `owner` manages, by name. Matching pods without a controller are adopted first;
/// managed pods that no longer match are released. An owner that is being deleted changes nothing.
pub async fn claim(
    context: &Context,
    owner: &Owner<'_>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    claim_all(context, owner, selector, PODS, None, |pod| !pod.view::<Pod>().is_finished()).await
}

/// The same for objects of any kind; only `alive` ones are adopted or released.
pub async fn claim_from(
    context: &Context,
    owner: &Owner<'_>,
    selector: &LabelSelector,
    storage: &str,
    alive: impl Fn(&Object) -> bool + Send + Sync,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    claim_all(context, owner, selector, storage, None, alive).await
}

/// The same for an owner that tracks its pods by a finalizer, including finished pods: adopted pods get the finalizer,
/// released pods lose it.
pub async fn claim_tracked(
    context: &Context,
    owner: &Owner<'_>,
    selector: &LabelSelector,
    finalizer: &str,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    claim_all(context, owner, selector, PODS, Some(finalizer), |_| true).await
}

async fn claim_all(
    context: &Context,
    owner: &Owner<'_>,
    selector: &LabelSelector,
    storage: &str,
    finalizer: Option<&str>,
    alive: impl Fn(&Object) -> bool + Send + Sync,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    let matches = |object: &Object| selector.matches(|key| object.label(key));
    let free = |object: &Object| !owner.object.is_deleting && !object.is_deleting && alive(object);
    let mut claimed = Vec::new();
    for object in owned_objects(context, owner.object, storage) {
        // A tracked pod of a deleted owner stays claimed, because only the owner removes its finalizer.
        if matches(&object) || (finalizer.is_some() && owner.object.is_deleting) {
            claimed.push(object);
        } else if free(&object) {
            release(context, owner, &object, finalizer).await?;
        }
    }
    for orphan in context.store.unmanaged(storage, &owner.object.namespace) {
        if matches(&orphan) && free(&orphan) {
            claimed.push(adopt(context, owner, &orphan, finalizer).await?);
        }
    }
    claimed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(claimed)
}

/// Adds the keys of all owners of one kind that a change of a pod may affect: its current and previous controller, and, if
/// it has none, the owners that select it.
pub fn enqueue_owners(
    context: &Context,
    event: &Event,
    (kind, storage): (&str, &str),
    selects: impl Fn(&Object, &Object) -> bool,
    keys: &mut Vec<Key>,
) {
    let pod = &event.object;
    let manager = |pod: &Object| {
        pod.controller_uid.as_ref()?;
        let pod = pod.view::<Pod>();
        let manager = pod.metadata.controller().filter(|owner| owner.kind == kind)?;
        Some(Key::new(&storage.into(), &pod.metadata.namespace, &manager.name))
    };
    keys.extend(manager(pod));
    let before = event.previous.as_ref().filter(|before| before.controller_uid != pod.controller_uid);
    keys.extend(before.and_then(|before| manager(before)));
    if pod.controller_uid.is_none() && event.kind != EventKind::Deleted {
        let sets = context.store.list(storage, Some(&pod.namespace)).objects;
        let takers = sets.iter().filter(|set| selects(set, pod));
        keys.extend(takers.map(|set| Key::new(&storage.into(), &set.namespace, &set.name)));
    }
}

/// The objects of a kind that have `owner` as their controller.
pub fn owned_objects(context: &Context, owner: &Object, storage: &str) -> impl Iterator<Item = Arc<Object>> {
    let dependents = context.store.dependents(&owner.uid).into_iter();
    dependents.filter_map(move |(found, object)| {
        let ours = found.as_ref() == storage
            && object.namespace == owner.namespace
            && object.controller_uid.as_ref() == Some(&owner.uid);
        ours.then_some(object)
    })
}

async fn adopt(
    context: &Context,
    owner: &Owner<'_>,
    object: &Object,
    finalizer: Option<&str>,
) -> Result<Arc<Object>, ReconcileError> {
    let mut value = object.value();
    add_to(&mut value["metadata"]["ownerReferences"], owner.reference());
    if let Some(finalizer) = finalizer.filter(|finalizer| !has_finalizer(&value, finalizer)) {
        add_to(&mut value["metadata"]["finalizers"], finalizer.into());
    }
    Ok(context.client.update(Component::ControllerManager, ObjectPart::Main, value).await?)
}

/// Appends to a list in a document, or creates it.
pub fn add_to(list: &mut Value, element: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(element),
        None => *list = json!([element]),
    }
}

async fn release(
    context: &Context,
    owner: &Owner<'_>,
    object: &Object,
    finalizer: Option<&str>,
) -> Result<(), ReconcileError> {
    let mut value = object.value();
    if let Some(finalizer) = finalizer {
        remove_from_list(&mut value["metadata"], "finalizers", |found| found == finalizer);
    }
    if let Some(list) = value["metadata"]["ownerReferences"].as_array_mut() {
        list.retain(|reference| reference["uid"] != *owner.object.uid);
    }
    context.client.update(Component::ControllerManager, ObjectPart::Main, value).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::test_cluster::TestCluster;

    #[tokio::test]
    async fn cluster_becomes_idle() {
        let world = TestCluster::without_nodes().await;
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        world.create("/api/v1/namespaces/default/pods", pod).await;
        world.make_pods_ready("default").await;
        assert_eq!(world.list("/api/v1/namespaces/default/pods").await[0]["status"]["phase"], "Running");
        world.advance(3600).await;
    }
}
