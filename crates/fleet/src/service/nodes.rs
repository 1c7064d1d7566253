//! Desired pool and autonomy of nodes.

use domain::Actor;
use k8s_openapi::api::core;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::ApiResource;
use kube_types::FIELD_MANAGER;
use kube_types::well_known::{AUTONOMY, DESIRED_POOL};
use serde_json::{Value, json};

use super::{NODE, POOL, authorize_change, is_valid_name, not_found, tenant_of, write_error};
use crate::node::NodeObject;
use crate::{Error, Fleet};

impl Fleet {
    /// Sets whether a node keeps its pods while it is disconnected from the cluster.
    pub async fn set_autonomy(&self, actor: &Actor, node: &str, enabled: bool) -> Result<(), Error> {
        let current = self.get_node_for_change(actor, node).await?;
        let value = if enabled { "true" } else { "false" };
        self.patch_node(&current, node, &json!({"annotations": {AUTONOMY: value}})).await
    }

    /// Sets or removes a node's desired pool.
    pub async fn move_node(&self, actor: &Actor, node: &str, pool: Option<&str>) -> Result<(), Error> {
        let current = self.get_node_for_change(actor, node).await?;
        if let Some(name) = pool {
            let pool = self.get_pool(name).await?;
            let owner = tenant_of(&pool.metadata);
            authorize_change(actor, owner, POOL, name)?;
            if owner.is_some_and(|owner| tenant_of(&current.metadata) != Some(owner)) {
                return Err(Error::Conflict(format!(
                    "node pool `{name}` and node `{node}` belong to different tenants"
                )));
            }
        }
        self.patch_node(&current, node, &json!({"labels": {DESIRED_POOL: pool}})).await
    }

    fn node_api(&self) -> Api<NodeObject> {
        Api::all_with(self.0.clients.platform(), &ApiResource::erase::<core::v1::Node>(&()))
    }

    /// The current node, if the actor may change it.
    async fn get_node_for_change(&self, actor: &Actor, name: &str) -> Result<NodeObject, Error> {
        if !is_valid_name(name) {
            return Err(not_found(NODE, name));
        }
        let node = self.node_api().get_opt(name).await?.ok_or_else(|| not_found(NODE, name))?;
        authorize_change(actor, tenant_of(&node.metadata), NODE, name)?;
        Ok(node)
    }

    /// Patches the node, with a precondition on its UID.
    async fn patch_node(&self, node: &NodeObject, name: &str, metadata: &Value) -> Result<(), Error> {
        let mut patch = json!({ "metadata": metadata });
        patch["metadata"]["uid"] = node.metadata.uid.clone().into();
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.node_api().patch(name, &params, &Patch::Merge(&patch)).await;
        written.map(drop).map_err(|error| write_error(error, NODE, name))
    }
}
