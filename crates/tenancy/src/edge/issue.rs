//! Issues the script with which a machine joins.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::roles::Capability;
use domain::{Actor, Place};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::{NodePool, marks};
use sha2::{Digest, Sha256};
use x509_parser::pem::Pem;

use super::names;
use super::script::{self, Join};
use super::token::{self, JoinToken};
use crate::secrets::{is_code, writing};
use crate::{Account, Error, Tenancy};

/// Scripts to join and to reset a machine. `Debug` omits them, as the first contains a token.
pub struct JoinScript {
    pub join: String,
    pub reset: String,
    /// When the token in it expires.
    pub expires: Timestamp,
}

impl fmt::Debug for JoinScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinScript").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Tenancy {
    /// Issues the script with which a machine joins as a node of the actor, optionally in a pool.
    pub async fn join_script(&self, actor: &Actor, pool: Option<&str>) -> Result<JoinScript, Error> {
        let account = self.account_of(actor)?;
        if !account.is_open(self.0.clock.now()) {
            return Err(Error::AccountExpired);
        }
        if account.effective.is_none() {
            return Err(Error::Conflict(format!("user `{}` is not ready yet", account.id)));
        }
        if let Some(pool) = pool {
            self.may_join(actor, &account, pool).await?;
        }
        let address = self.address().await?;
        let server = host_and_port(&address.server).ok_or_else(|| {
            Error::Conflict(format!("`{}` is no address that a machine could join", address.server))
        })?;
        let authorities = authorities(address.authority.as_deref()).ok_or_else(|| {
            Error::Conflict("the cluster does not say by which authority a machine would know it".to_owned())
        })?;
        let token = self.join_token(&account, pool).await?;
        let namespace = if account.namespace.is_empty() { account.id.as_str() } else { &account.namespace };
        let prefix = names::prefix(&account.id);
        let join = Join {
            server: &server,
            token: &token.words(),
            authorities: &authorities,
            namespace,
            prefix: &prefix,
            pool,
        };
        let tool = &self.0.settings.join_tool;
        Ok(JoinScript { join: script::join(tool, &join), reset: script::reset(tool), expires: token.expires })
    }

    /// Checks that the pool exists and is the account's own or shared. A pool of another account is not found.
    async fn may_join(&self, actor: &Actor, account: &Account, pool: &str) -> Result<(), Error> {
        let unknown = || Error::NotFound { kind: "node pool", name: pool.to_owned() };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if pool.is_empty() || pool.len() > 253 || !pool.bytes().all(plain) {
            return Err(Error::Invalid(
                "a node pool is named with small letters, digits, `-` and `.`".to_owned(),
            ));
        }
        let pools: Api<NodePool> = Api::all(self.0.clients.own());
        let found = pools.get_opt(pool).await?.ok_or_else(unknown)?;
        let owner = found.labels().get(marks::TENANT);
        let everybodys = actor.may(Capability::ManageNodes, Place::Platform).is_ok();
        match owner {
            Some(owner) if owner != account.id.as_str() && !everybodys => Err(unknown()),
            _ => Ok(()),
        }
    }

    /// Reuses a token that still serves, or creates one.
    async fn join_token(&self, account: &Account, pool: Option<&str>) -> Result<JoinToken, Error> {
        let (tokens, now) = (token::api(self.0.clients.own()), self.0.clock.now());
        let theirs = ListParams::default().labels(&format!("{}={}", marks::TENANT, account.id));
        let found = tokens.list(&theirs).await?;
        let serving = found.items.iter().filter_map(JoinToken::of).find(|token| {
            token.owner == account.id && token.serves(pool, account.expires, account.max_nodes, now)
        });
        if let Some(token) = serving {
            return Ok(token);
        }
        loop {
            let token = JoinToken::mint(&account.id, account.expires, pool, now);
            match tokens.create(&writing(), &token.to_secret()).await {
                // The random id is in use.
                Err(error) if is_code(&error, 409) => {}
                made => return made.map(|_: Secret| token).map_err(Error::from),
            }
        }
    }
}

/// Host and port of a URL, as join tools expect.
fn host_and_port(url: &str) -> Option<String> {
    let url = Uri::try_from(url).ok().filter(|url| url.scheme_str() == Some("https"))?;
    Some(format!("{}:{}", url.host()?, url.port_u16().unwrap_or(443)))
}

/// The CA certificates of the cluster, each as the digest of its public key.
fn authorities(base64: Option<&str>) -> Option<Vec<String>> {
    let pem = STANDARD.decode(base64?).ok()?;
    let digest = |block: Pem| {
        let certificate = block.parse_x509().ok()?;
        let digest = Sha256::digest(certificate.public_key().raw);
        Some(format!("sha256:{}", hex(&digest)))
    };
    let found: Option<Vec<String>> =
        Pem::iter_from_buffer(&pem).map(|block| block.ok().and_then(digest)).collect();
    found.filter(|found| !found.is_empty())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}
