//! Garbage collection of join tokens, their roles, and names of older nodes. The cluster itself deletes decided requests.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube_types::marks;

use super::names::{self, NAMES, Names};
use super::reading;
use super::token::{self, JoinToken};
use crate::register::claims::only;
use crate::secrets::{is_code, writing};
use crate::{Error, Tenancy, pages};

impl Tenancy {
    /// Collects all garbage of joining. Called periodically.
    pub(crate) async fn sweep_edge(&self) -> Result<(), Error> {
        self.sweep_join_tokens().await?;
        self.sweep_token_roles().await?;
        self.sweep_names().await
    }

    /// Deletes expired join tokens, and those of accounts that do not exist.
    async fn sweep_join_tokens(&self) -> Result<(), Error> {
        let (tokens, now) = (token::api(self.0.clients.own()), self.0.clock.now());
        let over = |secret: Secret| {
            let token = JoinToken::of(&secret)?;
            (token.is_expired(now) || self.0.directory.account(&token.owner).is_none())
                .then_some(secret.metadata)
        };
        let of_tenants = ListParams::default().labels(marks::TENANT);
        for meta in pages::all(&tokens, &of_tenants, over).await? {
            gone(tokens.delete(meta.name.as_deref().unwrap_or_default(), &only(&meta)).await.map(drop))?;
        }
        Ok(())
    }

    /// Deletes roles whose join token is deleted.
    async fn sweep_token_roles(&self) -> Result<(), Error> {
        let client = self.0.clients.own();
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(client.clone()), Api::all(client.clone()));
        let tokens = token::api(client);
        let of_tokens = ListParams::default().labels(marks::JOIN_TOKEN);
        let found = pages::all(&roles, &of_tokens, |role: ClusterRole| Some(role.metadata)).await?;
        for meta in found {
            let Some(token) = meta.labels.iter().flatten().find(|(key, _)| *key == marks::JOIN_TOKEN) else {
                continue;
            };
            let name = reading::name(token.1);
            if meta.name.as_ref() != Some(&name)
                || tokens.get_opt(&format!("{}{}", token::PREFIX, token.1)).await?.is_some()
            {
                continue;
            }
            gone(bindings.delete(&name, &DeleteParams::default()).await.map(drop))?;
            gone(roles.delete(&name, &only(&meta)).await.map(drop))?;
        }
        Ok(())
    }

    /// Drops names of older nodes that no longer need to be reserved.
    async fn sweep_names(&self) -> Result<(), Error> {
        let maps = names::api(self.0.clients.own());
        let Some(map) = maps.get_opt(NAMES).await? else { return Ok(()) };
        let mut names = Names::of(&map);
        let accounts = self.0.directory.accounts();
        let has = |name: &str| {
            accounts.iter().any(|account| account.joined.iter().any(|joined| joined.name == name))
        };
        if names.forget(self.0.clock.now(), has) {
            gone(maps.replace(NAMES, &writing(), &names.to_map(map)).await.map(drop))?;
        }
        Ok(())
    }
}

/// Ignores objects that are deleted or were changed concurrently: the next round handles those.
fn gone(done: Result<(), kube::Error>) -> Result<(), Error> {
    match done {
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        done => done.map_err(Error::from),
    }
}
