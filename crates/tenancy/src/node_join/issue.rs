//! Issues the script with which a machine joins.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::{NodePool, well_known};
use sha2::{Digest, Sha256};
use x509_parser::pem::Pem;

use super::node_names;
use super::script::{self, JoinParams};
use super::token::{self, JoinToken};
use crate::credential_store::{is_code, post_params};
use crate::{Account, Error, Tenancy};

/// Scripts to join and to reset a machine. `Debug` omits them, as the first contains a token.
pub struct JoinScript {
    pub join_script: String,
    pub reset_script: String,
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
        let account = self.unrestricted_account(actor)?;
        if !account.is_open(self.0.clock.now()) {
            return Err(Error::AccountExpired);
        }
        if account.effective_since.is_none() {
            return Err(Error::Conflict(format!("user `{}` is not ready yet", account.id)));
        }
        if let Some(pool) = pool {
            self.check_pool_access(actor, &account, pool).await?;
        }
        let address = self.api_server_endpoint().await?;
        let server = host_and_port(&address.server).ok_or_else(|| {
            Error::Conflict(format!("machines cannot join at address `{}`", address.server))
        })?;
        let authorities = ca_key_digests(address.ca_data.as_deref())
            .ok_or_else(|| Error::Conflict("the CA of the cluster is unknown".to_owned()))?;
        let token = self.join_token(&account, pool).await?;
        let namespace = if account.namespace.is_empty() { account.id.as_str() } else { &account.namespace };
        let prefix = node_names::node_name_prefix(&account.id);
        let join = JoinParams {
            server: &server,
            token: &token.expose(),
            ca_digests: &authorities,
            namespace,
            prefix: &prefix,
            pool,
        };
        let tool = &self.0.settings.join_tool;
        Ok(JoinScript {
            join_script: script::join_script(tool, &join),
            reset_script: script::reset_script(tool),
            expires: token.expires,
        })
    }

    /// Checks that the pool exists and is the account's own or shared. A pool of another account is not found.
    async fn check_pool_access(&self, actor: &Actor, account: &Account, pool: &str) -> Result<(), Error> {
        let unknown = || Error::NotFound { kind: "node pool", name: pool.to_owned() };
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if pool.is_empty() || pool.len() > 253 || !pool.bytes().all(plain) {
            return Err(Error::Invalid(
                "a node pool name must have lower-case letters, digits, `-` and `.` only".to_owned(),
            ));
        }
        let pools: Api<NodePool> = Api::all(self.0.clients.platform());
        let found = pools.get_opt(pool).await?.ok_or_else(unknown)?;
        let owner = found.labels().get(well_known::TENANT);
        let everybodys = actor.authorize(Capability::ManageNodes, AccessScope::Platform).is_ok();
        match owner {
            Some(owner) if owner != account.id.as_str() && !everybodys => Err(unknown()),
            _ => Ok(()),
        }
    }

    /// Reuses a token that still serves, or creates one.
    async fn join_token(&self, account: &Account, pool: Option<&str>) -> Result<JoinToken, Error> {
        let (tokens, now) = (token::api(self.0.clients.platform()), self.0.clock.now());
        let theirs = ListParams::default().labels(&format!("{}={}", well_known::TENANT, account.id));
        let found = tokens.list(&theirs).await?;
        let serving = found.items.iter().filter_map(JoinToken::from_secret).find(|token| {
            token.owner == account.id && token.is_usable_for(pool, account.expires, account.max_nodes, now)
        });
        if let Some(token) = serving {
            return Ok(token);
        }
        loop {
            let token = JoinToken::mint(&account.id, account.expires, pool, now);
            match tokens.create(&post_params(), &token.to_secret()).await {
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
fn ca_key_digests(base64: Option<&str>) -> Option<Vec<String>> {
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
