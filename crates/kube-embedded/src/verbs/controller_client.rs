//! The API for the controllers in this process.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use governor::PriorityLevel;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    DeletionOptions, MEMORY_EXPANSION, REQUEST_TIMEOUT, ResourceRequest, ResourceResponse, create, delete,
    pods, scale, update,
};
use crate::access::User;
use crate::cluster::{Cluster, WeakCluster};
use crate::control::{Component, ControllerClient, ObjectPart, Preconditions, Propagation};
use crate::error::{ApiError, Result, qualified};
use crate::http::flow;
use crate::http::negotiate::{Format, Representation};
use crate::http::query::Query;
use crate::schema::resources::Resource;
use crate::store::{Key, Object};

/// In-process controllers' access to the API. References the cluster weakly, so that controllers do not keep a cluster alive.
pub struct ControllerManager(pub WeakCluster);

impl ControllerManager {
    fn cluster(&self) -> Result<Cluster> {
        self.0.upgrade().ok_or_else(|| ApiError::internal("the cluster has been closed"))
    }

    async fn remove(&self, by: Component, key: &Key, options: DeletionOptions) -> Result<()> {
        let cluster = self.cluster()?;
        let registry = cluster.registry();
        let resource = registry.by_storage(&key.storage).ok_or_else(ApiError::no_such_resource)?;
        let call = component_call(&cluster, by, "delete", resource, (&key.namespace, &key.name));
        delete::remove(&call, &options).await.map(drop)
    }
}

/// Returns user name and user agent of a component.
fn component_names(by: Component) -> (&'static str, &'static str) {
    match by {
        Component::ApiServer => ("system:apiserver", "kube-apiserver"),
        Component::ControllerManager => ("system:kube-controller-manager", "kube-controller-manager"),
        Component::Scheduler => ("system:kube-scheduler", "kube-scheduler"),
        Component::Kubelet => ("system:node", "kubelet"),
    }
}

fn component_call(
    cluster: &Cluster,
    by: Component,
    verb: &'static str,
    resource: &Arc<Resource>,
    (namespace, name): (&str, &str),
) -> ResourceRequest {
    let (user, agent) = component_names(by);
    ResourceRequest {
        cluster: cluster.clone(),
        verb,
        resource: resource.clone(),
        subresource: String::new(),
        via_subresource: "",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: User::named(user, &["system:masters", "system:authenticated"]),
        level: PriorityLevel::Platform,
        query: Query::default(),
        representation: Representation::default(),
        user_agent: agent.to_owned(),
        content_type: None,
        body: bytes::Bytes::new(),
        warnings: Mutex::default(),
        flow: None,
        interrupt: None,
        error_format: Format::Json,
    }
}

/// Returns the call that writes `document`.
fn write_call(
    cluster: &Cluster,
    by: Component,
    verb: &'static str,
    document: &Value,
) -> Result<ResourceRequest> {
    let registry = cluster.registry();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&document["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = registry.by_kind(group, version, &text(&document["kind"]));
    let resource = resource.ok_or_else(ApiError::no_such_resource)?;
    let name = if verb == "create" { String::new() } else { text(&document["metadata"]["name"]) };
    let mut call =
        component_call(cluster, by, verb, resource, (&text(&document["metadata"]["namespace"]), &name));
    call.body = document.to_string().into();
    Ok(call)
}

/// Returns the call of `/scale` for an object of a kind.
fn scale_call(
    cluster: &Cluster,
    verb: &'static str,
    (api_version, kind): (&str, &str),
    place: (&str, &str),
) -> Result<ResourceRequest> {
    let registry = cluster.registry();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = registry.by_kind(group, version, kind).ok_or_else(|| {
        let words = format!("no matches for kind {kind:?} in version {api_version:?}");
        ApiError::new(404, "", words)
    })?;
    if resource.subresource("scale").is_none() {
        let what = qualified(&resource.name, group);
        return Err(ApiError::new(404, "", format!("{what} does not implement the scale subresource")));
    }
    let mut call = component_call(cluster, Component::ControllerManager, verb, resource, place);
    "scale".clone_into(&mut call.subresource);
    Ok(call)
}

/// Returns the object after a write.
fn stored_object(answer: ResourceResponse) -> Result<Arc<Object>> {
    match answer {
        ResourceResponse::Stored(_, object) => Ok(object),
        // The write removed the last finalizer, and the object is gone.
        ResourceResponse::Document(_, value) => {
            let version = value["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok());
            Ok(Arc::new(Object::new(value, version.unwrap_or_default())))
        }
        _ => Err(ApiError::internal("a write answered something else than its object")),
    }
}

/// Executes a write: on the pool if its object is large, within the share of the namespace's tenant.
async fn execute(
    call: ResourceRequest,
    write: fn(ResourceRequest) -> BoxFuture<'static, Result<ResourceResponse>>,
) -> Result<ResourceResponse> {
    let (cluster, weight) = (call.cluster.clone(), call.weight());
    if call.is_inline(weight) {
        return write(call).await;
    }
    let runtime = tokio::runtime::Handle::current();
    let tenant = flow::of_namespace(&cluster, &call.namespace);
    let bytes = (weight as u64).saturating_mul(MEMORY_EXPANSION);
    let pool = cluster.pool();
    let done = pool.run(pool.flow(tenant), bytes, REQUEST_TIMEOUT, move |ticket| {
        runtime.block_on(write(ResourceRequest { interrupt: Some(ticket.interrupt()), ..call }))
    });
    done.await.map_err(|error| ApiError::from_work(&error))?
}

/// Returns the call that replaces a document, with optimistic locking by its `resourceVersion`.
fn replacing(
    cluster: &Cluster,
    by: Component,
    part: ObjectPart,
    document: &Value,
) -> Result<ResourceRequest> {
    let mut call = write_call(cluster, by, "update", document)?;
    if part == ObjectPart::Status {
        "status".clone_into(&mut call.subresource);
    }
    Ok(call)
}

/// Replaces a document as part of another call, which may run on the pool itself.
pub async fn replace_document(
    cluster: &Cluster,
    by: Component,
    part: ObjectPart,
    document: &Value,
) -> Result<Arc<Object>> {
    stored_object(update::replace(&replacing(cluster, by, part, document)?).await?)
}

impl ControllerClient for ControllerManager {
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>> {
        let options = DeletionOptions {
            uid: Some(preconditions.uid.to_owned()),
            version: preconditions.version.map(|version| version.to_string()),
            propagation: Some(propagation),
            ..DeletionOptions::default()
        };
        self.remove(Component::ControllerManager, key, options).boxed()
    }

    fn delete_immediately<'a>(&'a self, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>> {
        let options = DeletionOptions {
            uid: Some(uid.to_owned()),
            grace_seconds: Some(0),
            ..DeletionOptions::default()
        };
        self.remove(Component::Kubelet, key, options).boxed()
    }

    fn create(&self, by: Component, document: Value) -> BoxFuture<'_, Result<Arc<Object>>> {
        async move {
            let call = write_call(&self.cluster()?, by, "create", &document)?;
            stored_object(execute(call, |call| async move { create::create(&call).await }.boxed()).await?)
        }
        .boxed()
    }

    fn update(&self, by: Component, part: ObjectPart, document: Value) -> BoxFuture<'_, Result<Arc<Object>>> {
        async move {
            let call = replacing(&self.cluster()?, by, part, &document)?;
            stored_object(execute(call, |call| async move { update::replace(&call).await }.boxed()).await?)
        }
        .boxed()
    }

    fn get_scale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
    ) -> BoxFuture<'a, Result<Value>> {
        async move {
            match scale::handle(&scale_call(&self.cluster()?, "get", kind, place)?).await? {
                ResourceResponse::Scale(scale) => Ok(scale),
                _ => Err(ApiError::internal("a scale answered something else")),
            }
        }
        .boxed()
    }

    fn update_scale<'a>(
        &'a self,
        kind: (&'a str, &'a str),
        place: (&'a str, &'a str),
        wanted: Value,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let mut call = scale_call(&self.cluster()?, "update", kind, place)?;
            call.body = wanted.to_string().into();
            scale::handle(&call).await.map(drop)
        }
        .boxed()
    }

    fn bind<'a>(&'a self, pod: &'a Object, node: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let cluster = self.cluster()?;
            let registry = cluster.registry();
            let pods = registry.get("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
            let place = (pod.namespace.as_ref(), pod.name.as_ref());
            let mut call = component_call(&cluster, Component::Scheduler, "create", pods, place);
            "binding".clone_into(&mut call.subresource);
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
                "target": {"kind": "Node", "name": node},
            });
            call.body = binding.to_string().into();
            pods::bind_pod(&call).await.map(drop)
        }
        .boxed()
    }
}
