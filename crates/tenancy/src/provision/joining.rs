//! Controller of `CertificateSigningRequest` objects: approves or denies machines that join as nodes of an account, and renewals.
//!
//! One request at a time. An approval is recorded before it is given: first in the account's status (against the `resourceVersion` that was
//! read, so that no two requests share one slot), then with the token. Then the Node is created with its owner's label and taints, so that
//! no scheduler ever sees it without them. Last, the request is approved. A crash between two steps is harmless: the record names the
//! request that the node was granted to. A renewal writes nothing but the time of an older node's name.
//!
//! Elsewhere: the rules (`crate::edge::ruling`, `crate::edge::renewal`), the lifetime of certificates ([`super::lifetime`]), the nodes
//! themselves ([`super::nodes`]).

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kube_access::queue::Next;
use kube_types::user::JoinedNode;
use kube_types::{FIELD_MANAGER, User, UserStatus};
use serde_json::json;

use super::nodes::is_labelled;
use super::user::report::{Door, door};
use super::{Doing, ProvisionError, Provisioner};
use crate::directory::Account;
use crate::edge::names::{self, NAMES, Names};
use crate::edge::reading;
use crate::edge::renewal;
use crate::edge::request::{self, Asked, Program};
use crate::edge::ruling::{self, Denial, Known, Ruling, rule};
use crate::edge::token::{self, JoinToken, id_of};
use crate::secrets::writing;

/// The cached part of a request: its name, if it waits for a decision or its certificate is valid for too long.
pub(super) struct Waiting(Option<String>);

impl Waiting {
    pub fn of(csr: &CertificateSigningRequest) -> Self {
        let concerns_us = may_be_ours(csr) || request::signed_too_long(csr).is_some();
        Self(concerns_us.then(|| csr.name_any()))
    }

    pub fn key(&self) -> Option<String> {
        self.0.clone()
    }
}

/// Whether the request is pending and of a kind that this controller decides on. A renewal may be of a node of no account, which
/// only the node names tell.
fn may_be_ours(csr: &CertificateSigningRequest) -> bool {
    (request::is_ours(csr) || request::renewing(csr).is_some()) && !request::is_decided(csr)
}

impl Provisioner {
    /// Reconciles one request.
    pub(super) async fn sync_request(&self, name: &str) -> Result<Next, ProvisionError> {
        let requests = self.api::<CertificateSigningRequest>();
        let found = requests.get_opt(name).await.doing(|| format!("read the request `{name}`"))?;
        if let Some(csr) = &found
            && let Some(signed) = request::signed_too_long(csr)
        {
            self.record_lifetime(csr, signed).await?;
            return Ok(Next::Rest);
        }
        let Some(csr) = found.filter(may_be_ours) else { return Ok(Next::Rest) };
        if let Some(node) = request::renewing(&csr) {
            return self.renew(&csr, node).await;
        }
        let asked = Asked::of(&csr);
        let token = self.join_token(&asked).await?;
        if let Some((_, token)) = &token {
            self.allow_reading(token, name).await?;
        }
        let user = match &token {
            Some((_, token)) => self.user_with(&token.owner).await?,
            None => None,
        };
        let account = user.as_ref().and_then(Account::of);
        let (_, names) = self.names().await?;
        let now = self.clock.now();
        let node = account.as_ref().and_then(|account| asked.machine(namespace(account)));
        let exists = match node {
            Some((node, _)) => self.node(node).await?.is_some(),
            None => false,
        };
        let status = user.as_ref().and_then(|user| user.status.clone()).unwrap_or_default();
        let owner = node.and_then(|(node, _)| names.owner(node));
        let known = Known {
            token: token.as_ref().map(|(_, token)| token),
            account: user
                .as_ref()
                .zip(account.as_ref())
                .map(|(user, account)| standing_of(user, account, &status.joined, now)),
            named: owner.as_ref(),
            exists,
        };
        let ruling = self.limited(&asked, rule(&asked, &known, now)).await?;
        match (ruling, user, token, account) {
            (Ruling::Grant { node, program }, Some(user), Some((secret, token)), Some(account)) => {
                let (entry, pool) = (program.entry(&asked.uid), token.pool.clone().unwrap_or_default());
                self.record(&user, &node, &token, &entry, now).await?;
                self.mark_used(secret, token, &node).await?;
                let since = status.joined.iter().find(|joined| joined.name == node);
                let since = since.map_or(now, |joined| joined.since.0);
                self.create_node(&node, &account.id, &pool, since).await?;
                if program == Program::Hub {
                    self.give_hub_token(namespace(&account)).await?;
                }
                let message = format!("a node of {}", account.id);
                self.say(&csr, "Approved", "Joined", &message).await?;
                tracing::info!(request.name = name, node.name = node, tenant.id = %account.id, program = ?program, "let a node in");
            }
            (ruling, ..) => {
                let denial = match ruling {
                    Ruling::Deny(denial) => denial,
                    // Without token and account nothing is granted.
                    Ruling::Grant { .. } => Denial::TokenGone,
                };
                self.deny(&csr, denial).await?;
            }
        }
        Ok(Next::Rest)
    }

    /// Grants the holder of a join token the right to read the request that it created.
    async fn allow_reading(&self, token: &JoinToken, request: &str) -> Result<(), ProvisionError> {
        let name = reading::name(&token.id);
        let doing = || format!("let the join token `{}` read its request `{request}`", token.id);
        let (roles, how) = (self.api::<ClusterRole>(), PatchParams::apply(FIELD_MANAGER).force());
        let found = roles.get_opt(&name).await.doing(doing)?;
        let requests = found.as_ref().map(reading::requests).unwrap_or_default();
        if !requests.iter().any(|known| known == request) {
            let role = Patch::Apply(reading::role(token, requests, request));
            roles.patch(&name, &how, &role).await.doing(doing)?;
        }
        // Kubernetes allows bindings only to existing roles.
        let bindings = self.api::<ClusterRoleBinding>();
        if bindings.get_opt(&name).await.doing(doing)?.is_none() {
            let binding = Patch::Apply(reading::binding(token));
            bindings.patch(&name, &how, &binding).await.doing(doing)?;
        }
        Ok(())
    }

    /// Decides on a node's certificate renewal. Requests of nodes of no account are left to other approvers.
    async fn renew(&self, csr: &CertificateSigningRequest, node: &str) -> Result<Next, ProvisionError> {
        let (map, mut names) = self.names().await?;
        let Some(owner) = names.owner(node) else { return Ok(Next::Rest) };
        let (user, now) = (self.user_with(&owner).await?, self.clock.now());
        if user.is_none() && self.node(node).await?.is_some_and(|node| !is_labelled(&node, &owner)) {
            // An operator's node whose name looks like a tenant's.
            return Ok(Next::Rest);
        }
        let account = user.as_ref().and_then(Account::of);
        let status = user.as_ref().and_then(|user| user.status.clone()).unwrap_or_default();
        let standing = user.as_ref().zip(account.as_ref());
        let standing = standing.map(|(user, account)| standing_of(user, account, &status.joined, now));
        let asked = Asked::of(csr);
        match self.limited(&asked, renewal::rule(&asked, node, standing.as_ref(), now)).await? {
            Ruling::Grant { program, .. } => {
                if program == Program::Hub {
                    self.give_hub_token(account.as_ref().map_or(owner.as_str(), namespace)).await?;
                }
                // The name of an older node stays reserved while this certificate is valid, too.
                if let Some(map) = map.filter(|_| names.extend(node, now)) {
                    self.write_names(map, &names).await?;
                }
                self.say(csr, "Approved", "Renewed", &format!("a node of {owner}")).await?;
                tracing::info!(request.name = csr.name_any(), node.name = node, tenant.id = %owner, program = ?program, "renewed a node's certificate");
            }
            Ruling::Deny(denial) => self.deny(csr, denial).await?,
        }
        Ok(Next::Rest)
    }

    /// Denies a request with the reason of the denial.
    async fn deny(&self, csr: &CertificateSigningRequest, denial: Denial) -> Result<(), ProvisionError> {
        self.say(csr, "Denied", &denial.reason(), &denial.to_string()).await?;
        tracing::info!(request.name = csr.name_any(), reason = denial.reason(), "did not let a node in");
        Ok(())
    }

    /// The join token of the requester, if it exists and is one of ours.
    async fn join_token(&self, asked: &Asked) -> Result<Option<(Secret, JoinToken)>, ProvisionError> {
        let Some(id) = id_of(&asked.user) else { return Ok(None) };
        let name = format!("{}{id}", token::PREFIX);
        let found = token::api(self.client.clone()).get_opt(&name).await;
        let found = found.doing(|| format!("read the join token `{id}`"))?;
        Ok(found.and_then(|secret| JoinToken::of(&secret).map(|token| (secret, token))))
    }

    /// The User with this id, read from the cluster.
    async fn user_with(&self, id: &UserId) -> Result<Option<User>, ProvisionError> {
        let Some(name) = self.user_of(id) else { return Ok(None) };
        let found = self.api::<User>().get_opt(&name).await.doing(|| format!("read user `{name}`"))?;
        let is = |user: &User| user.status.as_ref().is_some_and(|status| status.tenant_id == id.as_str());
        Ok(found.filter(is))
    }

    pub(super) async fn node(&self, name: &str) -> Result<Option<Node>, ProvisionError> {
        self.api::<Node>().get_opt(name).await.doing(|| format!("read node `{name}`"))
    }

    /// The names of older nodes, and their ConfigMap.
    pub(super) async fn names(&self) -> Result<(Option<ConfigMap>, Names), ProvisionError> {
        let found = names::api(self.client.clone()).get_opt(NAMES).await;
        let found = found.doing(|| "read the names of older nodes".to_owned())?;
        let names = found.as_ref().map(Names::of).unwrap_or_default();
        Ok((found, names))
    }

    /// Replaces the names of older nodes. Fails on a conflict.
    async fn write_names(&self, before: ConfigMap, names: &Names) -> Result<(), ProvisionError> {
        let maps = names::api(self.client.clone());
        let written = maps.replace(NAMES, &writing(), &names.to_map(before)).await;
        written.map(drop).doing(|| "write the names of older nodes".to_owned())
    }

    /// Records in the account's status that the node was granted to this request.
    async fn record(
        &self,
        user: &User,
        node: &str,
        token: &JoinToken,
        entry: &str,
        now: Timestamp,
    ) -> Result<(), ProvisionError> {
        let mut status = user.status.clone().unwrap_or_default();
        if !enter(&mut status, node, token, entry, now) {
            return Ok(());
        }
        let (name, after) = (user.name_any(), User { status: Some(status), ..user.clone() });
        let doing = || format!("write node `{node}` into the status of user `{name}`");
        let written = self.api::<User>().replace_status(&name, &PostParams::default(), &after).await;
        let kept = written.doing(doing)?.status.unwrap_or_default();
        // A CRD of another project may lack the field, and the API server would prune it: then nothing would limit the number of nodes.
        if kept.joined.iter().any(|joined| joined.name == node) {
            return Ok(());
        }
        let lost = "the cluster's definition of User does not keep `status.joined`";
        Err(kube::Error::Service(lost.into())).doing(doing)
    }

    /// Records with the token that it admitted this node name.
    async fn mark_used(
        &self,
        secret: Secret,
        mut token: JoinToken,
        node: &str,
    ) -> Result<(), ProvisionError> {
        if token.has_let_in(node) {
            return Ok(());
        }
        token.let_in.push(node.to_owned());
        let metadata = json!({
            "resourceVersion": secret.resource_version(),
            "annotations": token.to_secret().metadata.annotations,
        });
        let (name, patch) = (token.name(), Patch::Merge(json!({ "metadata": metadata })));
        let written = token::api(self.client.clone()).patch(&name, &PatchParams::default(), &patch).await;
        written.map(drop).doing(|| format!("write that the token `{}` was used", token.id))
    }

    /// Writes the decision to the request. Fails on a conflict.
    pub(super) async fn say(
        &self,
        csr: &CertificateSigningRequest,
        what: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), ProvisionError> {
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
        told.map(drop).doing(|| format!("decide on the request `{name}`"))
    }
}

/// The account as the rules view it.
fn standing_of<'a>(
    user: &User,
    account: &'a Account,
    joined: &'a [JoinedNode],
    now: Timestamp,
) -> ruling::Account<'a> {
    ruling::Account {
        id: &account.id,
        namespace: namespace(account),
        open: door(user, now) == Door::Open && !account.leaving && account.effective.is_some(),
        most: user.spec.max_node_num,
        joined,
    }
}

/// The namespace that the certificate's organization names.
fn namespace(account: &Account) -> &str {
    if account.namespace.is_empty() { account.id.as_str() } else { &account.namespace }
}

/// Records a grant in the status. Returns whether anything changed.
fn enter(status: &mut UserStatus, node: &str, token: &JoinToken, entry: &str, now: Timestamp) -> bool {
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
