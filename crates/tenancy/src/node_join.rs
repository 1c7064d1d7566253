//! Edge accounts: login for OpenYurt's console, and machines that join as nodes of an account.
//!
//! Modules:
//!
//! - The tool and script that a machine joins with: [`join_tool`], [`script`].
//! - Join tokens and their rights: [`token`], [`issue`], [`csr_reader_role`].
//! - Certificate requests and their approval: [`node_csr`], [`csr_decision`]; renewals: [`csr_renewal`].
//! - Node names: [`node_names`]. Removal of a node by its owner: [`remove`].
//! - Garbage collection: [`gc`].
//!
//! Invariants: a node belongs to an account if `User.status.joined` lists it, which is written before the node has a certificate;
//! labels and taints prove nothing. Kubeconfigs are stored nowhere, and a join token only in its own Secret.
//!
//! Elsewhere: the controllers that execute these decisions, reconcile nodes and remove them with the account (`crate::controller`),
//! pools and views of nodes (`fleet`).

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::directory::Account;
use crate::{Error, NewSession, Tenancy};

pub(crate) mod csr_decision;
pub(crate) mod csr_reader_role;
pub(crate) mod csr_renewal;
mod gc;
mod issue;
mod join_tool;
pub(crate) mod node_csr;
pub(crate) mod node_names;
mod remove;
mod script;
pub(crate) mod token;

pub use issue::JoinScript;
pub use join_tool::{JoinTool, ToolError};

/// Options of the join script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinOptions {
    /// The pool that the machine joins.
    pub pool: Option<String>,
}

/// The response to a login of OpenYurt's console. The first two fields are credentials, so `Debug` omits them.
pub struct OpenYurtLogin {
    /// Empty if the account has expired or is not ready yet.
    pub kube_config: String,
    /// Empty in the same cases.
    pub node_add_script: String,
    /// In days; 0: no expiry.
    pub validity_days: i64,
    pub max_node_num: i64,
    pub namespace: String,
    pub node_num: i64,
    pub effective_time: Option<Timestamp>,
    pub expire_time: Option<Timestamp>,
    pub expired: bool,
    /// `None` if the account has expired.
    pub session: Option<NewSession>,
}

impl fmt::Debug for OpenYurtLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EdgeLogin");
        shown.field("namespace", &self.namespace).field("expired", &self.expired).finish_non_exhaustive()
    }
}

impl Tenancy {
    /// Logs in as OpenYurt's console does: by e-mail address, phone number or name, with a token or password. Fails like
    /// [`Tenancy::sign_in`], except that an expired account gets a response with `expired` and without credentials.
    pub async fn openyurt_login(
        &self,
        login: &str,
        secret: &str,
        from: IpAddr,
        join: JoinOptions,
    ) -> Result<OpenYurtLogin, Error> {
        let account = self.verify_credentials(login, secret, from).await?;
        let expired = account.is_expired(self.0.clock.now());
        let mut response = OpenYurtLogin {
            kube_config: String::new(),
            node_add_script: String::new(),
            validity_days: account.valid_days,
            max_node_num: account.max_nodes,
            namespace: if account.namespace.is_empty() {
                account.id.to_string()
            } else {
                account.namespace.clone()
            },
            node_num: account.nodes,
            effective_time: account.effective_since,
            expire_time: account.expires,
            expired,
            session: None,
        };
        if expired {
            return Ok(response);
        }
        match self.issue_credentials(&account, join).await {
            Ok((session, kube_config, node_add_script)) => {
                (response.kube_config, response.node_add_script) = (kube_config, node_add_script);
                response.session = Some(session);
            }
            // It expired during the login.
            Err(Error::AccountExpired) => response.expired = true,
            Err(error) => return Err(error),
        }
        Ok(response)
    }

    /// Creates a session, a kubeconfig and a join script.
    async fn issue_credentials(
        &self,
        account: &Account,
        join: JoinOptions,
    ) -> Result<(NewSession, String, String), Error> {
        let session = self.open_session(account).await?;
        let kube_config = empty_if_not_ready(self.kubeconfig(&session.actor).await.map(|file| file.text))?;
        let script = self.join_script(&session.actor, join.pool.as_deref()).await;
        let script = empty_if_not_ready(script.map(|script| script.join_script))?;
        Ok((session, kube_config, script))
    }
}

/// Empty if the account is not ready or the cluster publishes no address: that is no reason to refuse a login.
fn empty_if_not_ready(text: Result<String, Error>) -> Result<String, Error> {
    match text {
        Err(Error::Conflict(why)) => {
            tracing::info!(why, "login response is incomplete");
            Ok(String::new())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
