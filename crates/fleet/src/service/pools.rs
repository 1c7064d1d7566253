//! Creates, updates and deletes pools.

use domain::Actor;
use domain::actor::AccessScope;
use domain::ids::{UserId, truncate_for_error};
use domain::roles::Capability;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube_types::FIELD_MANAGER;
use kube_types::node_pool::{NodePoolSpec, POOL_TYPE_CLOUD, POOL_TYPE_EDGE};
use kube_types::well_known::{DESIRED_POOL, MANAGED_BY, POOL as IN_POOL, TENANT};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{POOL, authorize, authorize_change, is_valid_name, not_found, tenant_of, write_error};
use crate::node_pool_crd::NodePoolWatch;
use crate::rows::Pairs;
use crate::{Error, Fleet, pool_attributes};

/// Maximum number of pools per tenant.
const MAX_POOLS_PER_TENANT: usize = 20;
/// Maximum number of nodes named when deletion is refused.
const MAX_NAMED_NODES: usize = 3;

/// Node pool to create.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePool {
    pub name: String,
    /// `Edge` or `Cloud`.
    #[serde(rename = "type")]
    pub pool_type: String,
    /// Tenant that owns the pool; administrators only. Other callers own the pools they create.
    #[serde(default)]
    pub tenant: Option<String>,
    #[serde(default)]
    pub labels: Pairs,
    #[serde(default)]
    pub annotations: Pairs,
    #[serde(default)]
    pub taints: Vec<Taint>,
    #[serde(default)]
    pub host_network: bool,
}

/// Update of a node pool. Absent fields are unchanged. Type and host network cannot be changed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdatePool {
    #[serde(default)]
    pub labels: Option<Pairs>,
    #[serde(default)]
    pub annotations: Option<Pairs>,
    #[serde(default)]
    pub taints: Option<Vec<Taint>>,
}

impl Fleet {
    /// Creates a pool: a tenant's, for that tenant's nodes only, or by an administrator a common one.
    pub async fn create_pool(&self, actor: &Actor, request: CreatePool) -> Result<(), Error> {
        let tenant = pool_tenant(actor, request.tenant.as_deref())?;
        let CreatePool { name, pool_type, labels, annotations, taints, host_network, .. } = request;
        validate(&name, &pool_type, host_network)?;
        let served = self.node_pool_watch()?;
        let mut spec =
            NodePoolSpec { pool_type, labels, annotations, taints, host_network, ..NodePoolSpec::default() };
        pool_attributes::validate(&spec, tenant.is_some()).map_err(Error::Invalid)?;
        // Later versions have no selector.
        if served.resource.version == "v1alpha1" {
            let members = [(IN_POOL.to_owned(), name.clone())].into();
            spec.selector = Some(LabelSelector { match_labels: Some(members), match_expressions: None });
        }
        if let Some(tenant) = &tenant {
            let own = served
                .cache
                .list()
                .iter()
                .filter(|pool| pool.tenant.as_deref() == Some(tenant.as_str()))
                .count();
            if own >= MAX_POOLS_PER_TENANT {
                return Err(Error::Conflict(format!("you have {own} node pools, which is the limit")));
            }
        }
        let mut pool = DynamicObject::new(&name, &served.resource).data(json!({ "spec": spec }));
        let labels = pool.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned());
        labels.extend(tenant.map(|tenant| (TENANT.to_owned(), tenant.to_string())));
        let made = self.pool_api(&served).create(&create_params(), &pool).await;
        made.map(drop).map_err(|error| write_error(error, POOL, &name))
    }

    /// Changes the attributes of a pool's members.
    pub async fn update_pool(&self, actor: &Actor, name: &str, change: UpdatePool) -> Result<(), Error> {
        let mut pool = self.get_pool(name).await?;
        let tenant = tenant_of(&pool.metadata).map(str::to_owned);
        authorize_change(actor, tenant.as_deref(), POOL, name)?;
        let UpdatePool { labels, annotations, taints } = change;
        let wanted = NodePoolSpec {
            labels: labels.clone().unwrap_or_default(),
            annotations: annotations.clone().unwrap_or_default(),
            taints: taints.clone().unwrap_or_default(),
            ..NodePoolSpec::default()
        };
        pool_attributes::validate(&wanted, tenant.is_some()).map_err(Error::Invalid)?;
        // Unknown fields of the spec are preserved.
        let spec = &mut pool.data["spec"];
        let written = [
            ("labels", labels.map(|labels| json!(labels))),
            ("annotations", annotations.map(|annotations| json!(annotations))),
            ("taints", taints.map(|taints| json!(taints))),
        ];
        for (key, value) in written {
            if let Some(value) = value {
                spec[key] = value;
            }
        }
        let written = self.pool_api(&self.node_pool_watch()?).replace(name, &create_params(), &pool).await;
        written.map(drop).map_err(|error| write_error(error, POOL, name))
    }

    /// Deletes a pool without nodes.
    pub async fn delete_pool(&self, actor: &Actor, name: &str) -> Result<(), Error> {
        let pool = self.get_pool(name).await?;
        authorize_change(actor, tenant_of(&pool.metadata), POOL, name)?;
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(self.0.clients.platform());
        for label in [IN_POOL, DESIRED_POOL] {
            let limit = u32::try_from(MAX_NAMED_NODES).unwrap_or(u32::MAX);
            let wanted = ListParams::default().labels(&format!("{label}={name}")).limit(limit);
            let found = nodes.list_metadata(&wanted).await?;
            let names: Vec<_> = found.items.into_iter().filter_map(|node| node.metadata.name).collect();
            if !names.is_empty() {
                return Err(Error::Conflict(format!(
                    "node pool `{name}` still has nodes (such as {}): move them first",
                    names.join(", ")
                )));
            }
        }
        // With preconditions, so that no other pool of this name is deleted.
        let only = Preconditions { uid: pool.metadata.uid, resource_version: pool.metadata.resource_version };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let deleted = self.pool_api(&self.node_pool_watch()?).delete(name, &params).await;
        deleted.map(drop).map_err(|error| write_error(error, POOL, name))
    }

    pub(super) async fn get_pool(&self, name: &str) -> Result<DynamicObject, Error> {
        let served = self.node_pool_watch()?;
        if !is_valid_name(name) {
            return Err(not_found(POOL, name));
        }
        self.pool_api(&served).get_opt(name).await?.ok_or_else(|| not_found(POOL, name))
    }

    fn node_pool_watch(&self) -> Result<NodePoolWatch, Error> {
        self.0.pools.borrow().clone().ok_or(Error::PoolsUnsupported)
    }

    fn pool_api(&self, served: &NodePoolWatch) -> Api<DynamicObject> {
        Api::all_with(self.0.clients.platform(), &served.resource)
    }
}

/// Tenant of a new pool, if the actor may create it.
fn pool_tenant(actor: &Actor, wanted: Option<&str>) -> Result<Option<UserId>, Error> {
    let tenant = match wanted {
        Some(wanted) => Some(wanted.parse::<UserId>().map_err(|error| Error::Invalid(error.to_string()))?),
        None if actor.authorize(Capability::ManageNodes, AccessScope::Platform).is_ok() => None,
        None => actor.user_id().cloned(),
    };
    authorize(actor, Capability::ManageNodes, tenant.as_ref().map(UserId::as_str))?;
    Ok(tenant)
}

fn validate(name: &str, pool_type: &str, host_network: bool) -> Result<(), Error> {
    // The name becomes a label value.
    if !is_valid_name(name) || name.contains('.') || !pool_attributes::is_label_value(name) {
        return Err(Error::Invalid(format!(
            "`{}` is not a valid node pool name: at most 63 lower-case letters, digits and inner dashes",
            truncate_for_error(name)
        )));
    }
    match pool_type {
        POOL_TYPE_EDGE => Ok(()),
        POOL_TYPE_CLOUD if !host_network => Ok(()),
        POOL_TYPE_CLOUD => {
            Err(Error::Invalid("hostNetwork is not supported for pools of type Cloud".to_owned()))
        }
        _ => Err(Error::Invalid(format!(
            "type `{}` must be {POOL_TYPE_EDGE} or {POOL_TYPE_CLOUD}",
            truncate_for_error(pool_type)
        ))),
    }
}

fn create_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false }
}
