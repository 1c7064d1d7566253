//! The life of an edge account: how its owner logs in as in OpenYurt's console, and how their machines become its nodes.
//!
//! Modules in reading order: what a machine runs to join ([`tool`], [`script`]), the token by which it does ([`token`], [`issue`], [`reading`]),
//! what it asks for and whether it gets it ([`request`], [`ruling`]), and again before that ends ([`renewal`]), and what nodes
//! are called ([`names`]); what is left over of it all ([`sweep`]).
//!
//! Always true: a node is an account's when `User.status.joined` says so, which is written before the node has a certificate; no
//! label and no taint makes it anybody's. Neither kubeconfig nor join token is in any object but its own Secret.
//! Elsewhere: who acts on rulings, looks after nodes and takes them away with the account (`crate::provision`), pools and what people
//! see of nodes (`fleet`).

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::directory::Account;
use crate::{Error, SignedIn, Tenancy};

mod issue;
pub(crate) mod names;
pub(crate) mod reading;
pub(crate) mod renewal;
pub(crate) mod request;
pub(crate) mod ruling;
mod script;
mod sweep;
pub(crate) mod token;
mod tool;

pub use issue::JoinScript;
pub use tool::{JoinTool, ToolError};

/// What somebody who logs in wishes of the script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinWish {
    /// The pool that the machine joins.
    pub pool: Option<String>,
}

/// What OpenYurt's console is told at a login. Whoever has the first two can act as the account, so they are not shown to those
/// who debug.
pub struct EdgeLogin {
    /// Empty where the account has expired, or is not ready yet.
    pub kube_config: String,
    /// Likewise.
    pub node_add_script: String,
    /// In days; 0: without end.
    pub valid_period: i64,
    pub max_node_num: i64,
    pub namespace: String,
    pub node_num: i64,
    pub effective_time: Option<Timestamp>,
    pub expire_time: Option<Timestamp>,
    pub expired: bool,
    /// None where the account has expired.
    pub session: Option<SignedIn>,
}

impl fmt::Debug for EdgeLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EdgeLogin");
        shown.field("namespace", &self.namespace).field("expired", &self.expired).finish_non_exhaustive()
    }
}

impl Tenancy {
    /// Logs somebody in as OpenYurt's console does: by e-mail address, phone number or name, and token or password. Refused as
    /// [`Tenancy::sign_in`] is, but that an expired account is told that it is, and gets nothing else.
    pub async fn edge_login(
        &self,
        login: &str,
        secret: &str,
        from: IpAddr,
        join: JoinWish,
    ) -> Result<EdgeLogin, Error> {
        let account = self.recognise(login, secret, from).await?;
        let expired = account.is_expired(self.0.clock.now());
        let mut told = EdgeLogin {
            kube_config: String::new(),
            node_add_script: String::new(),
            valid_period: account.valid_days,
            max_node_num: account.max_nodes,
            namespace: if account.namespace.is_empty() {
                account.id.to_string()
            } else {
                account.namespace.clone()
            },
            node_num: account.nodes,
            effective_time: account.effective,
            expire_time: account.expires,
            expired,
            session: None,
        };
        if expired {
            return Ok(told);
        }
        match self.outfit(&account, join).await {
            Ok((session, kube_config, node_add_script)) => {
                (told.kube_config, told.node_add_script) = (kube_config, node_add_script);
                told.session = Some(session);
            }
            // Its time was over while it was asked for.
            Err(Error::AccountExpired) => told.expired = true,
            Err(error) => return Err(error),
        }
        Ok(told)
    }

    /// What a login gives: a session, a kubeconfig and a script by which machines join.
    async fn outfit(&self, account: &Account, join: JoinWish) -> Result<(SignedIn, String, String), Error> {
        let session = self.open_session(account).await?;
        let kube_config = where_ready(self.kubeconfig(&session.actor).await.map(|file| file.text))?;
        let script = self.join_script(&session.actor, join.pool.as_deref()).await;
        let script = where_ready(script.map(|script| script.join))?;
        Ok((session, kube_config, script))
    }
}

/// Nothing, where the account is not ready or the cluster does not say where it is: that is no reason to refuse a login.
fn where_ready(text: Result<String, Error>) -> Result<String, Error> {
    match text {
        Err(Error::Conflict(why)) => {
            tracing::info!(why, "somebody logs in without all that a login gives");
            Ok(String::new())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
