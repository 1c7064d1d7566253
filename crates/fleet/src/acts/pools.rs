//! Creates, updates and deletes pools.

use domain::Actor;
use domain::actor::Place;
use domain::ids::{UserId, shortened};
use domain::roles::Capability;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube_types::FIELD_MANAGER;
use kube_types::marks::{DESIRED_POOL, MANAGED_BY, POOL as IN_POOL, TENANT};
use kube_types::node_pool::{CLOUD, EDGE, NodePoolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{POOL, is_name, may, may_change, not_found, refused, tenant_of};
use crate::rows::Pairs;
use crate::served::Pools;
use crate::{Error, Fleet, attributes};

/// Maximum number of pools per tenant.
const MOST: usize = 20;
/// Maximum number of nodes named when deletion is refused.
const NAMED: usize = 3;

/// A pool that somebody wants.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolWish {
    pub name: String,
    /// `Edge` or `Cloud`.
    #[serde(rename = "type")]
    pub pool_type: String,
    /// Whose it is to be, for administrators; everybody else's is their own.
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

/// What is to be different about a pool; what is absent stays. Its type and the network of its pods stay as they are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolChange {
    #[serde(default)]
    pub labels: Option<Pairs>,
    #[serde(default)]
    pub annotations: Option<Pairs>,
    #[serde(default)]
    pub taints: Option<Vec<Taint>>,
}

impl Fleet {
    /// Creates a pool: a tenant's, for that tenant's nodes only, or by an administrator a common one.
    pub async fn create_pool(&self, actor: &Actor, wish: PoolWish) -> Result<(), Error> {
        let tenant = owner(actor, wish.tenant.as_deref())?;
        let PoolWish { name, pool_type, labels, annotations, taints, host_network, .. } = wish;
        check(&name, &pool_type, host_network)?;
        let served = self.served()?;
        let mut spec =
            NodePoolSpec { pool_type, labels, annotations, taints, host_network, ..NodePoolSpec::default() };
        attributes::check(&spec, tenant.is_some()).map_err(Error::Invalid)?;
        // Later versions have no selector.
        if served.resource.version == "v1alpha1" {
            let members = [(IN_POOL.to_owned(), name.clone())].into();
            spec.selector = Some(LabelSelector { match_labels: Some(members), match_expressions: None });
        }
        if let Some(tenant) = &tenant {
            let own = served
                .feed
                .all()
                .iter()
                .filter(|pool| pool.tenant.as_deref() == Some(tenant.as_str()))
                .count();
            if own >= MOST {
                return Err(Error::Conflict(format!(
                    "there are {own} node pools of yours already, which is the most"
                )));
            }
        }
        let mut pool = DynamicObject::new(&name, &served.resource).data(json!({ "spec": spec }));
        let labels = pool.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned());
        labels.extend(tenant.map(|tenant| (TENANT.to_owned(), tenant.to_string())));
        let made = self.pool_api(&served).create(&params(), &pool).await;
        made.map(drop).map_err(|error| refused(error, POOL, &name))
    }

    /// Changes the attributes of a pool's members.
    pub async fn change_pool(&self, actor: &Actor, name: &str, change: PoolChange) -> Result<(), Error> {
        let mut pool = self.pool(name).await?;
        let tenant = tenant_of(&pool.metadata).map(str::to_owned);
        may_change(actor, tenant.as_deref(), POOL, name)?;
        let PoolChange { labels, annotations, taints } = change;
        let wanted = NodePoolSpec {
            labels: labels.clone().unwrap_or_default(),
            annotations: annotations.clone().unwrap_or_default(),
            taints: taints.clone().unwrap_or_default(),
            ..NodePoolSpec::default()
        };
        attributes::check(&wanted, tenant.is_some()).map_err(Error::Invalid)?;
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
        let written = self.pool_api(&self.served()?).replace(name, &params(), &pool).await;
        written.map(drop).map_err(|error| refused(error, POOL, name))
    }

    /// Deletes a pool without nodes.
    pub async fn delete_pool(&self, actor: &Actor, name: &str) -> Result<(), Error> {
        let pool = self.pool(name).await?;
        may_change(actor, tenant_of(&pool.metadata), POOL, name)?;
        let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(self.0.clients.own());
        for label in [IN_POOL, DESIRED_POOL] {
            let limit = u32::try_from(NAMED).unwrap_or(u32::MAX);
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
        let deleted = self.pool_api(&self.served()?).delete(name, &params).await;
        deleted.map(drop).map_err(|error| refused(error, POOL, name))
    }

    pub(super) async fn pool(&self, name: &str) -> Result<DynamicObject, Error> {
        let served = self.served()?;
        if !is_name(name) {
            return Err(not_found(POOL, name));
        }
        self.pool_api(&served).get_opt(name).await?.ok_or_else(|| not_found(POOL, name))
    }

    fn served(&self) -> Result<Pools, Error> {
        self.0.pools.borrow().clone().ok_or(Error::NoPools)
    }

    fn pool_api(&self, served: &Pools) -> Api<DynamicObject> {
        Api::all_with(self.0.clients.own(), &served.resource)
    }
}

/// Tenant of a new pool, if the actor may create it.
fn owner(actor: &Actor, wanted: Option<&str>) -> Result<Option<UserId>, Error> {
    let tenant = match wanted {
        Some(wanted) => Some(wanted.parse::<UserId>().map_err(|error| Error::Invalid(error.to_string()))?),
        None if actor.may(Capability::ManageNodes, Place::Platform).is_ok() => None,
        None => actor.id().cloned(),
    };
    may(actor, Capability::ManageNodes, tenant.as_ref().map(UserId::as_str))?;
    Ok(tenant)
}

fn check(name: &str, pool_type: &str, host_network: bool) -> Result<(), Error> {
    // The name becomes a label value.
    if !is_name(name) || name.contains('.') || !attributes::is_label_value(name) {
        return Err(Error::Invalid(format!(
            "`{}` cannot be the name of a node pool: up to 63 small letters, digits and inner dashes",
            shortened(name)
        )));
    }
    match pool_type {
        EDGE => Ok(()),
        CLOUD if !host_network => Ok(()),
        CLOUD => Err(Error::Invalid("hostNetwork: a pool of type Cloud cannot have it".to_owned())),
        _ => Err(Error::Invalid(format!(
            "type `{}`: a node pool is of type {EDGE} or {CLOUD}",
            shortened(pool_type)
        ))),
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false }
}
