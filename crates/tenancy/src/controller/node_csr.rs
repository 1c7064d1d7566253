//! Controller of `CertificateSigningRequest` objects: approves or denies machines that join as nodes of an account, and renewals.
//!
//! One request at a time. An approval is recorded before it is given: first in the account's status (against the `resourceVersion` that was
//! read, so that no two requests share one slot), then with the token. Then the Node is created with its owner's label and taints, so that
//! no scheduler ever sees it without them. Last, the request is approved. A crash between two steps is harmless: the record names the
//! request that the node was granted to. A renewal writes nothing but the time of an older node's name.
//!
//! Elsewhere: the rules (`crate::node_join::csr_decision`, `crate::node_join::csr_renewal`), the lifetime of certificates
//! ([`super::certificate_lifetime`]), the nodes themselves ([`super::nodes`]).

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kube_access::queue::Action;
use kube_types::user::JoinedNode;
use kube_types::{FIELD_MANAGER, User, UserStatus};
use serde_json::json;

use super::nodes::is_labelled;
use super::user::status::{AccountState, account_state};
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::credential_store::post_params;
use crate::directory::Account;
use crate::node_join::csr_decision::{self, CsrContext, CsrDecision, Denial, decide};
use crate::node_join::csr_reader_role;
use crate::node_join::csr_renewal;
use crate::node_join::node_csr::{self, NodeCsr, NodeProgram};
use crate::node_join::node_names::{self, NODE_NAMES_CONFIG_MAP, NodeNameRegistry};
use crate::node_join::token::{self, JoinToken, token_id_of_user};

/// The cached part of a request: its name, if it waits for a decision or its certificate is valid for too long.
pub(super) struct PendingCsr(Option<String>);

impl PendingCsr {
    pub fn from_csr(csr: &CertificateSigningRequest) -> Self {
        let concerns_us = is_handled_here(csr) || node_csr::overlong_certificate(csr).is_some();
        Self(concerns_us.then(|| csr.name_any()))
    }

    pub fn key(&self) -> Option<String> {
        self.0.clone()
    }
}

/// Whether the request is pending and of a kind that this controller decides on. A renewal may be for a node without an account;
/// only the node names show this.
fn is_handled_here(csr: &CertificateSigningRequest) -> bool {
    (node_csr::is_from_join_token(csr) || node_csr::renewing_node(csr).is_some())
        && !node_csr::is_decided(csr)
}

impl TenancyController {
    /// Reconciles one request.
    pub(super) async fn reconcile_csr(&self, name: &str) -> Result<Action, ReconcileError> {
        let requests = self.api::<CertificateSigningRequest>();
        let found = requests.get_opt(name).await.context(|| format!("read the request `{name}`"))?;
        if let Some(csr) = &found
            && let Some(signed) = node_csr::overlong_certificate(csr)
        {
            self.record_lifetime(csr, signed).await?;
            return Ok(Action::AwaitChange);
        }
        let Some(csr) = found.filter(is_handled_here) else { return Ok(Action::AwaitChange) };
        if let Some(node) = node_csr::renewing_node(&csr) {
            return self.reconcile_renewal(&csr, node).await;
        }
        let parsed_csr = NodeCsr::from_csr(&csr);
        let token = self.get_join_token(&parsed_csr).await?;
        if let Some((_, token)) = &token {
            self.grant_read_access(token, name).await?;
        }
        let user = match &token {
            Some((_, token)) => self.get_user_by_id(&token.owner).await?,
            None => None,
        };
        let account = user.as_ref().and_then(Account::from_user);
        let (_, names) = self.get_node_names().await?;
        let now = self.clock.now();
        let node =
            account.as_ref().and_then(|account| parsed_csr.node_and_program(account_namespace(account)));
        let exists = match node {
            Some((node, _)) => self.get_node(node).await?.is_some(),
            None => false,
        };
        let status = user.as_ref().and_then(|user| user.status.clone()).unwrap_or_default();
        let owner = node.and_then(|(node, _)| names.owner(node));
        let known = CsrContext {
            token: token.as_ref().map(|(_, token)| token),
            account: user
                .as_ref()
                .zip(account.as_ref())
                .map(|(user, account)| node_account(user, account, &status.joined, now)),
            name_owner: owner.as_ref(),
            node_exists: exists,
        };
        let ruling = self.apply_lifetime_limit(&parsed_csr, decide(&parsed_csr, &known, now)).await?;
        match (ruling, user, token, account) {
            (CsrDecision::Approve { node, program }, Some(user), Some((secret, token)), Some(account)) => {
                let (entry, pool) =
                    (program.record_entry(&parsed_csr.uid), token.pool.clone().unwrap_or_default());
                self.record_node(&user, &node, &token, &entry, now).await?;
                self.record_token_use(secret, token, &node).await?;
                let since = status.joined.iter().find(|joined| joined.name == node);
                let since = since.map_or(now, |joined| joined.since.0);
                self.create_node(&node, &account.id, &pool, since).await?;
                if program == NodeProgram::Yurthub {
                    self.ensure_yurthub_token(account_namespace(&account)).await?;
                }
                let message = format!("a node of {}", account.id);
                self.set_csr_condition(&csr, "Approved", "Joined", &message).await?;
                tracing::info!(request.name = name, node.name = node, tenant.id = %account.id, program = ?program, "admitted a node");
            }
            (ruling, ..) => {
                let denial = match ruling {
                    CsrDecision::Deny(denial) => denial,
                    // Without token and account nothing is granted.
                    CsrDecision::Approve { .. } => Denial::TokenGone,
                };
                self.deny(&csr, denial).await?;
            }
        }
        Ok(Action::AwaitChange)
    }

    /// Grants the holder of a join token the right to read the request that it created.
    async fn grant_read_access(&self, token: &JoinToken, request: &str) -> Result<(), ReconcileError> {
        let name = csr_reader_role::role_name(&token.id);
        let doing = || format!("allow the join token `{}` to read its request `{request}`", token.id);
        let (roles, how) = (self.api::<ClusterRole>(), PatchParams::apply(FIELD_MANAGER).force());
        let found = roles.get_opt(&name).await.context(doing)?;
        let requests = found.as_ref().map(csr_reader_role::requests_in_role).unwrap_or_default();
        if !requests.iter().any(|known| known == request) {
            let role = Patch::Apply(csr_reader_role::role(token, requests, request));
            roles.patch(&name, &how, &role).await.context(doing)?;
        }
        // Kubernetes allows bindings only to existing roles.
        let bindings = self.api::<ClusterRoleBinding>();
        if bindings.get_opt(&name).await.context(doing)?.is_none() {
            let binding = Patch::Apply(csr_reader_role::binding(token));
            bindings.patch(&name, &how, &binding).await.context(doing)?;
        }
        Ok(())
    }

    /// Decides on a node's certificate renewal. Requests of nodes without an account are left to other approvers.
    async fn reconcile_renewal(
        &self,
        csr: &CertificateSigningRequest,
        node: &str,
    ) -> Result<Action, ReconcileError> {
        let (map, mut names) = self.get_node_names().await?;
        let Some(owner) = names.owner(node) else { return Ok(Action::AwaitChange) };
        let (user, now) = (self.get_user_by_id(&owner).await?, self.clock.now());
        if user.is_none() && self.get_node(node).await?.is_some_and(|node| !is_labelled(&node, &owner)) {
            // An operator's node whose name looks like a tenant's.
            return Ok(Action::AwaitChange);
        }
        let account = user.as_ref().and_then(Account::from_user);
        let status = user.as_ref().and_then(|user| user.status.clone()).unwrap_or_default();
        let standing = user.as_ref().zip(account.as_ref());
        let standing = standing.map(|(user, account)| node_account(user, account, &status.joined, now));
        let parsed_csr = NodeCsr::from_csr(csr);
        match self
            .apply_lifetime_limit(&parsed_csr, csr_renewal::decide(&parsed_csr, node, standing.as_ref(), now))
            .await?
        {
            CsrDecision::Approve { program, .. } => {
                if program == NodeProgram::Yurthub {
                    self.ensure_yurthub_token(account.as_ref().map_or(owner.as_str(), account_namespace))
                        .await?;
                }
                // The name of an older node stays reserved while this certificate is valid, too.
                if let Some(map) = map.filter(|_| names.extend_reservation(node, now)) {
                    self.replace_node_names(map, &names).await?;
                }
                self.set_csr_condition(csr, "Approved", "Renewed", &format!("a node of {owner}")).await?;
                tracing::info!(request.name = csr.name_any(), node.name = node, tenant.id = %owner, program = ?program, "renewed a node's certificate");
            }
            CsrDecision::Deny(denial) => self.deny(csr, denial).await?,
        }
        Ok(Action::AwaitChange)
    }

    /// Denies a request with the reason of the denial.
    async fn deny(&self, csr: &CertificateSigningRequest, denial: Denial) -> Result<(), ReconcileError> {
        self.set_csr_condition(csr, "Denied", &denial.reason(), &denial.to_string()).await?;
        tracing::info!(request.name = csr.name_any(), reason = denial.reason(), "did not let a node in");
        Ok(())
    }

    /// The join token of the requester, if it exists and is one of ours.
    async fn get_join_token(&self, asked: &NodeCsr) -> Result<Option<(Secret, JoinToken)>, ReconcileError> {
        let Some(id) = token_id_of_user(&asked.user) else { return Ok(None) };
        let name = format!("{}{id}", token::PREFIX);
        let found = token::api(self.client.clone()).get_opt(&name).await;
        let found = found.context(|| format!("read the join token `{id}`"))?;
        Ok(found.and_then(|secret| JoinToken::from_secret(&secret).map(|token| (secret, token))))
    }

    /// The User with this id, read from the cluster.
    async fn get_user_by_id(&self, id: &UserId) -> Result<Option<User>, ReconcileError> {
        let Some(name) = self.user_name_by_id(id) else { return Ok(None) };
        let found = self.api::<User>().get_opt(&name).await.context(|| format!("read user `{name}`"))?;
        let is = |user: &User| user.status.as_ref().is_some_and(|status| status.tenant_id == id.as_str());
        Ok(found.filter(is))
    }

    pub(super) async fn get_node(&self, name: &str) -> Result<Option<Node>, ReconcileError> {
        self.api::<Node>().get_opt(name).await.context(|| format!("read node `{name}`"))
    }

    /// The names of older nodes, and their ConfigMap.
    pub(super) async fn get_node_names(
        &self,
    ) -> Result<(Option<ConfigMap>, NodeNameRegistry), ReconcileError> {
        let found = node_names::api(self.client.clone()).get_opt(NODE_NAMES_CONFIG_MAP).await;
        let found = found.context(|| "read the names of older nodes".to_owned())?;
        let names = found.as_ref().map(NodeNameRegistry::from_config_map).unwrap_or_default();
        Ok((found, names))
    }

    /// Replaces the names of older nodes. Fails on a conflict.
    async fn replace_node_names(
        &self,
        before: ConfigMap,
        names: &NodeNameRegistry,
    ) -> Result<(), ReconcileError> {
        let maps = node_names::api(self.client.clone());
        let written = maps.replace(NODE_NAMES_CONFIG_MAP, &post_params(), &names.to_config_map(before)).await;
        written.map(drop).context(|| "write the names of older nodes".to_owned())
    }

    /// Records in the account's status that the node was granted to this request.
    async fn record_node(
        &self,
        user: &User,
        node: &str,
        token: &JoinToken,
        entry: &str,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let mut status = user.status.clone().unwrap_or_default();
        if !add_to_status(&mut status, node, token, entry, now) {
            return Ok(());
        }
        let (name, after) = (user.name_any(), User { status: Some(status), ..user.clone() });
        let doing = || format!("record node `{node}` in the status of user `{name}`");
        let written = self.api::<User>().replace_status(&name, &PostParams::default(), &after).await;
        let kept = written.context(doing)?.status.unwrap_or_default();
        // A CRD of another project may lack the field, and the API server would prune it: then nothing would limit the number of nodes.
        if kept.joined.iter().any(|joined| joined.name == node) {
            return Ok(());
        }
        let lost = "the CRD User on the cluster does not preserve `status.joined`";
        Err(kube::Error::Service(lost.into())).context(doing)
    }

    /// Records with the token that it admitted this node name.
    async fn record_token_use(
        &self,
        secret: Secret,
        mut token: JoinToken,
        node: &str,
    ) -> Result<(), ReconcileError> {
        if token.has_admitted(node) {
            return Ok(());
        }
        token.admitted_nodes.push(node.to_owned());
        let metadata = json!({
            "resourceVersion": secret.resource_version(),
            "annotations": token.to_secret().metadata.annotations,
        });
        let (name, patch) = (token.secret_name(), Patch::Merge(json!({ "metadata": metadata })));
        let written = token::api(self.client.clone()).patch(&name, &PatchParams::default(), &patch).await;
        written.map(drop).context(|| format!("record the use of token `{}`", token.id))
    }

    /// Writes the decision to the request. Fails on a conflict.
    pub(super) async fn set_csr_condition(
        &self,
        csr: &CertificateSigningRequest,
        what: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), ReconcileError> {
        let now = Time(self.clock.now());
        let condition = json!({
            "type": what, "status": "True", "reason": reason, "message": message,
            "lastUpdateTime": now, "lastTransitionTime": now,
        });
        let patch = json!({
            "metadata": { "resourceVersion": csr.resource_version() },
            "status": { "conditions": [condition] },
        });
        let requests: Api<CertificateSigningRequest> = self.api();
        let name = csr.name_any();
        let told = requests.patch_approval(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        told.map(drop).context(|| format!("decide on the request `{name}`"))
    }
}

/// The account as the rules view it.
fn node_account<'a>(
    user: &User,
    account: &'a Account,
    joined: &'a [JoinedNode],
    now: Timestamp,
) -> csr_decision::NodeAccount<'a> {
    csr_decision::NodeAccount {
        id: &account.id,
        namespace: account_namespace(account),
        is_open: account_state(user, now) == AccountState::Open
            && !account.is_deleting
            && account.effective_since.is_some(),
        max_nodes: user.spec.max_node_num,
        joined,
    }
}

/// The namespace that the certificate's organization names.
pub(super) fn account_namespace(account: &Account) -> &str {
    if account.namespace.is_empty() { account.id.as_str() } else { &account.namespace }
}

/// Records a grant in the status. Returns whether anything changed.
fn add_to_status(
    status: &mut UserStatus,
    node: &str,
    token: &JoinToken,
    entry: &str,
    now: Timestamp,
) -> bool {
    let place = status.joined.iter().position(|joined| joined.name == node);
    let place = place.unwrap_or_else(|| {
        status.joined.push(JoinedNode {
            name: node.to_owned(),
            since: Time(now),
            token: token.id.clone(),
            pool: token.pool.clone().unwrap_or_default(),
            requests: Vec::new(),
            uid: String::new(),
        });
        status.joined.len() - 1
    });
    let joined = &mut status.joined[place];
    if joined.requests.iter().any(|granted| granted == entry) {
        return false;
    }
    joined.requests.push(entry.to_owned());
    status.nodes = status.joined.iter().map(|joined| joined.name.clone()).collect();
    true
}
