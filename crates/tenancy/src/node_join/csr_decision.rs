//! Decides on certificate requests of machines that join. Pure: no I/O, no clock.
//!
//! A request of one of our join tokens is granted unless a rule denies it; the first such rule gives the reason. A request that was
//! granted before a crash is granted again after it: the record names it.

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use kube_types::user::JoinedNode;

use super::node_csr::{NodeCsr, NodeProgram};
use super::node_names;
use super::token::{JoinToken, token_group, token_id_of_user};

/// The age limit of a request that is granted, and of a node that gets a further certificate by a join token.
pub(crate) const MAX_REQUEST_AGE: SignedDuration = SignedDuration::from_hours(1);

/// The context of a decision.
pub(crate) struct CsrContext<'a> {
    /// The token that the request was created with, if it still exists.
    pub token: Option<&'a JoinToken>,
    /// The account that the token names.
    pub account: Option<NodeAccount<'a>>,
    /// The account that the node's name belongs to or belonged to.
    pub name_owner: Option<&'a UserId>,
    /// A Node of that name exists.
    pub node_exists: bool,
}

/// The account in the view of the rules.
pub(crate) struct NodeAccount<'a> {
    pub id: &'a UserId,
    pub namespace: &'a str,
    /// Ready, not disabled, not expired, not being deleted.
    pub is_open: bool,
    pub max_nodes: i64,
    pub joined: &'a [JoinedNode],
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CsrDecision {
    Approve { node: String, program: NodeProgram },
    Deny(Denial),
}

/// Why a request is denied. The text becomes the message of the request's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("the join token has expired or was revoked: get a new join script")]
    TokenGone,
    #[error("the requester is not the user of the join token")]
    WrongRequester,
    #[error("the account cannot be used: it has expired, is disabled, or is not ready")]
    AccountClosed,
    #[error("the request is older than an hour")]
    TooOld,
    #[error("the usages must be digital signature, client auth and optionally key encipherment")]
    WrongUsages,
    #[error(
        "the certificate of a tenant's node is valid for at most 24 hours: set expirationSeconds to at most 86400"
    )]
    TooLong,
    #[error(
        "the cluster signs certificates for more than 24 hours: set expirationSeconds to at most 86400, or run kube-controller-manager with \
         --cluster-signing-duration=24h and delete the ConfigMap longshore-system/node-certificates"
    )]
    SignedTooLong,
    #[error("the certificate must name one node, `system:node:<name>` of `system:nodes`, and nothing else")]
    WrongSubject,
    #[error(
        "the name of a new node must begin with the id of its account and a dash (`<id>-<name>`), and have at most 63 characters: get a new join script"
    )]
    WrongName,
    #[error("the name of this node belongs to another account")]
    NameTaken,
    #[error("this node already has a certificate: delete the node and join again with a new join script")]
    Replayed,
    #[error("the account has reached its node limit")]
    TooManyNodes,
    #[error("the node no longer belongs to the account: join again with a new join script")]
    NodeGone,
}

impl Denial {
    /// The reason of the condition.
    pub fn reason(self) -> String {
        format!("{self:?}")
    }
}

/// Decides on a request.
pub(crate) fn decide(csr: &NodeCsr, known: &CsrContext<'_>, now: Timestamp) -> CsrDecision {
    match check_rules(csr, known, now) {
        Ok((node, program)) => CsrDecision::Approve { node, program },
        Err(denial) => CsrDecision::Deny(denial),
    }
}

/// Checks the rules in order. Returns the first violation.
fn check_rules(
    csr: &NodeCsr,
    known: &CsrContext<'_>,
    now: Timestamp,
) -> Result<(String, NodeProgram), Denial> {
    let token = known.token.ok_or(Denial::TokenGone)?;
    let account = known.account.as_ref().ok_or(Denial::AccountClosed)?;
    let theirs = token_id_of_user(&csr.user) == Some(token.id.as_str())
        && token.owner == *account.id
        && csr.groups.contains(&token_group(account.id));
    ensure(theirs, Denial::WrongRequester)?;
    ensure(account.is_open, Denial::AccountClosed)?;
    ensure(csr.has_client_usages(), Denial::WrongUsages)?;
    ensure(csr.has_allowed_lifetime(), Denial::TooLong)?;
    let (node, program) = csr.node_and_program(account.namespace).ok_or(Denial::WrongSubject)?;
    let record = account.joined.iter().find(|joined| joined.name == node);
    // A node that was admitted before names had a prefix keeps its name.
    ensure(record.is_some() || node_names::is_allowed_node_name(node, account.id), Denial::WrongName)?;
    let grant = Ok((node.to_owned(), program));
    if record.is_some_and(|record| record.requests.contains(&program.record_entry(&csr.uid))) {
        // Recorded as granted, but not approved yet.
        return grant;
    }
    ensure(!token.is_expired(now), Denial::TokenGone)?;
    ensure(now.duration_since(csr.created) <= MAX_REQUEST_AGE, Denial::TooOld)?;
    ensure(known.name_owner.is_none_or(|owner| owner == account.id), Denial::NameTaken)?;
    if let Some(record) = record {
        let again = record.requests.iter().any(|granted| granted.starts_with(program.prefix()));
        let late = now.duration_since(record.since.0) > MAX_REQUEST_AGE;
        ensure(!again && !late && record.token == token.id, Denial::Replayed)?;
    } else {
        ensure(!known.node_exists, Denial::NameTaken)?;
        ensure(!token.has_admitted(node), Denial::Replayed)?;
        let nodes = i64::try_from(account.joined.len()).unwrap_or(i64::MAX);
        ensure(nodes < account.max_nodes, Denial::TooManyNodes)?;
    }
    grant
}

/// Returns `denial` unless `condition` holds.
pub(super) fn ensure(condition: bool, denial: Denial) -> Result<(), Denial> {
    if condition { Ok(()) } else { Err(denial) }
}

#[cfg(test)]
mod tests;
