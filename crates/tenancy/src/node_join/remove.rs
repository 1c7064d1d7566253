//! Removes a node of an account on request of its owner.

use domain::ids::{WorkspaceName, truncate_for_error};
use domain::names::check_name;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_types::well_known::{NODE_LEAVING, TENANT};
use serde_json::json;

use super::node_names::{self, NODE_NAMES_CONFIG_MAP, NodeNameRegistry};
use crate::credential_store::is_code;
use crate::{Error, Tenancy};

impl Tenancy {
    /// Removes a node that joined: the controller drops its record and deletes the Node, which ends its certificate on the embedded cluster
    /// and the renewal of its certificate on every cluster. The machine cannot prevent it. A node that the actor
    /// may not read is reported as not found.
    pub async fn remove_node(&self, actor: &Actor, name: &str) -> Result<(), Error> {
        let unknown = || Error::NotFound { kind: "node", name: truncate_for_error(name) };
        check_name(name).map_err(|_| unknown())?;
        let client = self.0.clients.platform();
        let map = node_names::api(client.clone()).get_opt(NODE_NAMES_CONFIG_MAP).await?;
        let names = map.as_ref().map(NodeNameRegistry::from_config_map).unwrap_or_default();
        let owner = names.owner(name).ok_or_else(unknown)?;
        let workspace = WorkspaceName::personal(&owner);
        let scope = AccessScope::Workspace(&workspace);
        actor.authorize(Capability::ReadNodes, scope).map_err(|_| unknown())?;
        actor.authorize(Capability::ManageNodes, scope)?;
        let account = self.0.directory.account(&owner).ok_or_else(unknown)?;
        let is_recorded = account.joined.iter().any(|joined| joined.name == name);
        let nodes: Api<Node> = Api::all(client);
        let Some(node) = nodes.get_opt(name).await? else {
            if is_recorded {
                return Err(Error::Conflict(format!("node `{name}` is being recreated: retry later")));
            }
            return Err(unknown());
        };
        // An operator's node may have a name that looks like a tenant's.
        let is_labelled = node.labels().get(TENANT).is_some_and(|tenant| tenant == owner.as_str());
        if !is_recorded && !is_labelled {
            return Err(unknown());
        }
        let leaves = json!({ "metadata": { "uid": node.uid(), "annotations": { NODE_LEAVING: "true" } } });
        match nodes.patch(name, &PatchParams::default(), &Patch::Merge(leaves)).await {
            Err(error) if is_code(&error, 404) => return Err(unknown()),
            Err(error) if is_code(&error, 409) => {
                return Err(Error::ConcurrentUpdate(format!("node `{name}`")));
            }
            patched => drop(patched?),
        }
        self.0
            .directory
            .wait_for_own_write(|directory| {
                let account = directory.account(&owner);
                account.is_none_or(|account| account.joined.iter().all(|joined| joined.name != name))
            })
            .await;
        Ok(())
    }
}
