//! Garbage collection of join tokens, their roles, and names of older nodes. The cluster itself deletes decided requests.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube_types::well_known;

use super::csr_reader_role;
use super::node_names::{self, NODE_NAMES_CONFIG_MAP, NodeNameRegistry};
use super::token::{self, JoinToken};
use crate::credential_store::{is_code, post_params};
use crate::register::email_claims::delete_if_unchanged;
use crate::{Error, Tenancy, paging};

impl Tenancy {
    /// Collects all garbage of joining. Called periodically.
    pub(crate) async fn collect_join_garbage(&self) -> Result<(), Error> {
        self.delete_stale_join_tokens().await?;
        self.delete_orphaned_token_roles().await?;
        self.prune_node_names().await
    }

    /// Deletes join tokens that have expired or whose account does not exist.
    async fn delete_stale_join_tokens(&self) -> Result<(), Error> {
        let (tokens, now) = (token::api(self.0.clients.platform()), self.0.clock.now());
        let over = |secret: Secret| {
            let token = JoinToken::from_secret(&secret)?;
            (token.is_expired(now) || self.0.directory.account(&token.owner).is_none())
                .then_some(secret.metadata)
        };
        let of_tenants = ListParams::default().labels(well_known::TENANT);
        for meta in paging::list_all(&tokens, &of_tenants, over).await? {
            ignore_not_found_or_conflict(
                tokens
                    .delete(meta.name.as_deref().unwrap_or_default(), &delete_if_unchanged(&meta))
                    .await
                    .map(drop),
            )?;
        }
        Ok(())
    }

    /// Deletes roles whose join token is deleted.
    async fn delete_orphaned_token_roles(&self) -> Result<(), Error> {
        let client = self.0.clients.platform();
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(client.clone()), Api::all(client.clone()));
        let tokens = token::api(client);
        let of_tokens = ListParams::default().labels(well_known::JOIN_TOKEN);
        let found = paging::list_all(&roles, &of_tokens, |role: ClusterRole| Some(role.metadata)).await?;
        for meta in found {
            let Some(token) = meta.labels.iter().flatten().find(|(key, _)| *key == well_known::JOIN_TOKEN)
            else {
                continue;
            };
            let name = csr_reader_role::role_name(token.1);
            if meta.name.as_ref() != Some(&name)
                || tokens.get_opt(&format!("{}{}", token::PREFIX, token.1)).await?.is_some()
            {
                continue;
            }
            ignore_not_found_or_conflict(bindings.delete(&name, &DeleteParams::default()).await.map(drop))?;
            ignore_not_found_or_conflict(roles.delete(&name, &delete_if_unchanged(&meta)).await.map(drop))?;
        }
        Ok(())
    }

    /// Drops names of older nodes that no longer need to be reserved.
    async fn prune_node_names(&self) -> Result<(), Error> {
        let maps = node_names::api(self.0.clients.platform());
        let Some(map) = maps.get_opt(NODE_NAMES_CONFIG_MAP).await? else { return Ok(()) };
        let mut names = NodeNameRegistry::from_config_map(&map);
        let accounts = self.0.directory.accounts();
        let has = |name: &str| {
            accounts.iter().any(|account| account.joined.iter().any(|joined| joined.name == name))
        };
        if names.prune(self.0.clock.now(), has) {
            ignore_not_found_or_conflict(
                maps.replace(NODE_NAMES_CONFIG_MAP, &post_params(), &names.to_config_map(map))
                    .await
                    .map(drop),
            )?;
        }
        Ok(())
    }
}

/// Ignores objects that are deleted or were changed concurrently: the next round handles those.
fn ignore_not_found_or_conflict(done: Result<(), kube::Error>) -> Result<(), Error> {
    match done {
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        done => done.map_err(Error::from),
    }
}
