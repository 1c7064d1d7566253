//! Desired pool and autonomy of nodes.

use domain::Actor;
use k8s_openapi::api::core;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::ApiResource;
use kube_types::FIELD_MANAGER;
use kube_types::marks::{AUTONOMY, DESIRED_POOL};
use serde_json::{Value, json};

use super::{NODE, POOL, is_name, may_change, not_found, refused, tenant_of};
use crate::node::Told;
use crate::{Error, Fleet};

impl Fleet {
    /// Sets whether a node keeps its pods while it is disconnected from the cluster.
    pub async fn set_autonomy(&self, actor: &Actor, node: &str, enabled: bool) -> Result<(), Error> {
        let told = self.changeable_node(actor, node).await?;
        let value = if enabled { "true" } else { "false" };
        self.write_node(&told, node, &json!({"annotations": {AUTONOMY: value}})).await
    }

    /// Sets or removes a node's desired pool.
    pub async fn move_node(&self, actor: &Actor, node: &str, pool: Option<&str>) -> Result<(), Error> {
        let told = self.changeable_node(actor, node).await?;
        if let Some(name) = pool {
            let pool = self.pool(name).await?;
            let owner = tenant_of(&pool.metadata);
            may_change(actor, owner, POOL, name)?;
            if owner.is_some_and(|owner| tenant_of(&told.metadata) != Some(owner)) {
                return Err(Error::Conflict(format!(
                    "node pool `{name}` belongs to somebody whose node `{node}` is not"
                )));
            }
        }
        self.write_node(&told, node, &json!({"labels": {DESIRED_POOL: pool}})).await
    }

    fn node_api(&self) -> Api<Told> {
        Api::all_with(self.0.clients.own(), &ApiResource::erase::<core::v1::Node>(&()))
    }

    /// The current node, if the actor may change it.
    async fn changeable_node(&self, actor: &Actor, name: &str) -> Result<Told, Error> {
        if !is_name(name) {
            return Err(not_found(NODE, name));
        }
        let told = self.node_api().get_opt(name).await?.ok_or_else(|| not_found(NODE, name))?;
        may_change(actor, tenant_of(&told.metadata), NODE, name)?;
        Ok(told)
    }

    /// Patches the node, with a precondition on its UID.
    async fn write_node(&self, told: &Told, name: &str, metadata: &Value) -> Result<(), Error> {
        let mut patch = json!({ "metadata": metadata });
        patch["metadata"]["uid"] = told.metadata.uid.clone().into();
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.node_api().patch(name, &params, &Patch::Merge(&patch)).await;
        written.map(drop).map_err(|error| refused(error, NODE, name))
    }
}
