//! What joining leaves behind: tokens that are over, names of long ago. Requests that were decided are taken away by the cluster.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use kube_types::marks;

use super::names::{self, NAMES, Names};
use super::token::{self, JoinToken};
use crate::register::claims::only;
use crate::secrets::{is_code, writing};
use crate::{Error, Tenancy, pages};

impl Tenancy {
    pub(crate) async fn sweep_edge(&self) -> Result<(), Error> {
        self.sweep_join_tokens().await?;
        self.sweep_names().await
    }

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

    async fn sweep_names(&self) -> Result<(), Error> {
        let maps = names::api(self.0.clients.own());
        let Some(map) = maps.get_opt(NAMES).await? else { return Ok(()) };
        let mut names = Names::of(&map);
        let accounts = self.0.directory.accounts();
        let has = |name: &str| {
            accounts.iter().any(|account| account.joined.iter().any(|joined| joined.name == name))
        };
        if names.forget(self.0.clock.now(), has) {
            gone(maps.replace(&map.name_any(), &writing(), &names.to_map(Some(map))).await.map(drop))?;
        }
        Ok(())
    }
}

/// Gone already, or changed by somebody who uses it: another time.
fn gone(done: Result<(), kube::Error>) -> Result<(), Error> {
    match done {
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        done => done.map_err(Error::from),
    }
}
