//! The API as the controllers inside this process use it.

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;

use super::{Call, Deletion, create, delete};
use crate::access::User;
use crate::cluster::{Cluster, WeakCluster};
use crate::control::{Actor, Preconditions, Propagation};
use crate::error::{ApiError, Result};
use crate::http::negotiate::Representation;
use crate::http::query::Query;
use crate::schema::resources::Resource;
use crate::store::Key;

/// The controller manager. It holds its cluster weakly: controllers do not keep a cluster alive.
pub struct ControllerManager(pub WeakCluster);

impl ControllerManager {
    fn cluster(&self) -> Result<Cluster> {
        self.0.upgrade().ok_or_else(|| ApiError::internal("the cluster has been closed"))
    }
}

fn call(
    cluster: &Cluster,
    verb: &'static str,
    resource: &std::sync::Arc<Resource>,
    namespace: &str,
    name: &str,
) -> Call {
    Call {
        cluster: cluster.clone(),
        verb,
        resource: resource.clone(),
        subresource: String::new(),
        door: "",
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: User::named("system:kube-controller-manager", &["system:masters", "system:authenticated"]),
        query: Query::default(),
        representation: Representation::default(),
        user_agent: "kube-controller-manager".to_owned(),
        content_type: None,
        body: bytes::Bytes::new(),
        warnings: Mutex::default(),
    }
}

impl Actor for ControllerManager {
    fn delete<'a>(
        &'a self,
        key: &'a Key,
        preconditions: Preconditions<'a>,
        propagation: Propagation,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let cluster = self.cluster()?;
            let registry = cluster.registry();
            let resource = registry.of_storage(&key.storage).ok_or_else(ApiError::no_such_resource)?;
            let call = call(&cluster, "delete", resource, &key.namespace, &key.name);
            let options = Deletion {
                uid: Some(preconditions.uid.to_owned()),
                version: preconditions.version.map(|version| version.to_string()),
                propagation: Some(propagation),
                ..Deletion::default()
            };
            delete::remove(&call, &options).await.map(drop)
        }
        .boxed()
    }

    fn create(&self, document: Value) -> BoxFuture<'_, Result<()>> {
        async move {
            let cluster = self.cluster()?;
            let registry = cluster.registry();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let api_version = text(&document["apiVersion"]);
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let resource = registry.of_kind(group, version, &text(&document["kind"]));
            let resource = resource.ok_or_else(ApiError::no_such_resource)?;
            let mut call = call(&cluster, "create", resource, &text(&document["metadata"]["namespace"]), "");
            call.body = document.to_string().into();
            create::create(&call).await.map(drop)
        }
        .boxed()
    }
}
