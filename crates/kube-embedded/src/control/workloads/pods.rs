//! What all workloads do with pods: make them from a template, claim those that match, let go of those that do not.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::control::view::Pod;
use crate::control::{Component, Context, Failure, Part, drop_from, has_finalizer};
use crate::selector::Labels;
use crate::store::Object;

pub const PODS: &str = "pods";

/// Who manages pods.
pub struct Owner<'a> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub object: &'a Object,
}

impl Owner<'_> {
    /// How a managed object names its manager.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.object.name, "uid": self.object.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// A pod as a template describes it, managed by `owner`. It has no name yet.
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

/// The prefix of the generated names of an owner's pods.
pub fn name_prefix(owner: &str) -> String {
    // The API cuts a long prefix so that the suffix fits.
    format!("{owner}-")
}

/// The pods that `owner` manages, in the order of their names. Matching pods that nobody manages are adopted first;
/// managed ones that do not match any more are let go. An owner that is being deleted changes nothing.
pub async fn claim(
    context: &Context,
    owner: &Owner<'_>,
    selector: &Labels,
) -> Result<Vec<Arc<Object>>, Failure> {
    claim_all(context, owner, selector, None).await
}

/// The same, finished pods included, for an owner that holds its pods by a finalizer: those that it adopts get it,
/// those that it lets go lose it.
pub async fn claim_tracked(
    context: &Context,
    owner: &Owner<'_>,
    selector: &Labels,
    finalizer: &str,
) -> Result<Vec<Arc<Object>>, Failure> {
    claim_all(context, owner, selector, Some(finalizer)).await
}

async fn claim_all(
    context: &Context,
    owner: &Owner<'_>,
    selector: &Labels,
    finalizer: Option<&str>,
) -> Result<Vec<Arc<Object>>, Failure> {
    let matches = |object: &Object| selector.matches(|key| object.label(key));
    let namespace = &owner.object.namespace;
    let managed = |object: &Object| {
        let pod = object.view::<Pod>();
        pod.metadata.controller().is_some_and(|manager| *manager.uid == *owner.object.uid)
    };
    let mut claimed = Vec::new();
    for (storage, object) in context.store.dependents(&owner.object.uid) {
        if storage.as_ref() != PODS || object.namespace != *namespace || !managed(&object) {
            continue;
        }
        if matches(&object) || owner.object.deleting {
            claimed.push(object);
        } else if !object.deleting {
            release(context, owner, &object, finalizer).await?;
        }
    }
    if !owner.object.deleting {
        let orphans = context.store.select(PODS, Some(namespace), |object| {
            !object.deleting && matches(object) && !owner.object.uid.is_empty() && is_orphan(object)
        });
        for orphan in orphans {
            let is_free = finalizer.is_some() || !orphan.view::<Pod>().is_finished();
            if is_free {
                claimed.push(adopt(context, owner, &orphan, finalizer).await?);
            }
        }
    }
    claimed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(claimed)
}

/// Nobody manages it. Most pods have no owners at all or a managing one: a look at the document is rare.
fn is_orphan(object: &Object) -> bool {
    object.owners.is_empty() || object.view::<Pod>().metadata.controller().is_none()
}

async fn adopt(
    context: &Context,
    owner: &Owner<'_>,
    object: &Object,
    finalizer: Option<&str>,
) -> Result<Arc<Object>, Failure> {
    let mut value = object.value();
    add_to(&mut value["metadata"]["ownerReferences"], owner.reference());
    if let Some(finalizer) = finalizer.filter(|finalizer| !has_finalizer(&value, finalizer)) {
        add_to(&mut value["metadata"]["finalizers"], finalizer.into());
    }
    Ok(context.actor.update(Component::ControllerManager, Part::Main, value).await?)
}

/// Adds to a list in a document, or begins it.
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
) -> Result<(), Failure> {
    let mut value = object.value();
    if let Some(finalizer) = finalizer {
        drop_from(&mut value["metadata"], "finalizers", |found| found == finalizer);
    }
    if let Some(list) = value["metadata"]["ownerReferences"].as_array_mut() {
        list.retain(|reference| reference["uid"] != *owner.object.uid);
    }
    context.actor.update(Component::ControllerManager, Part::Main, value).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::world::World;

    #[tokio::test]
    async fn a_world_comes_to_rest() {
        let world = World::without_nodes().await;
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        world.create("/api/v1/namespaces/default/pods", pod).await;
        world.run_pods("default").await;
        assert_eq!(world.list("/api/v1/namespaces/default/pods").await[0]["status"]["phase"], "Running");
        world.advance(3600).await;
    }
}
