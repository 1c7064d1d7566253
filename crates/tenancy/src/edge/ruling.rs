//! Decides on certificate requests of machines that join. Pure: no I/O, no clock.
//!
//! A request of one of our join tokens is granted unless a rule denies it; the first such rule gives the reason. A request that was
//! granted before a crash is granted again after it: the record names it.

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use kube_types::user::JoinedNode;

use super::names;
use super::request::{Asked, Program};
use super::token::{JoinToken, group, id_of};

/// The age limit of a request that is granted, and of a node that gets a further certificate by a join token.
pub(crate) const WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// The context of a decision.
pub(crate) struct Known<'a> {
    /// The token that the request was created with, if it still exists.
    pub token: Option<&'a JoinToken>,
    /// The account that the token names.
    pub account: Option<Account<'a>>,
    /// The account that the node's name belongs to or belonged to.
    pub named: Option<&'a UserId>,
    /// A Node of that name exists.
    pub exists: bool,
}

/// The account in the view of the rules.
pub(crate) struct Account<'a> {
    pub id: &'a UserId,
    pub namespace: &'a str,
    /// Ready, not disabled, not expired, not being deleted.
    pub open: bool,
    pub most: i64,
    pub joined: &'a [JoinedNode],
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Grant { node: String, program: Program },
    Deny(Denial),
}

/// Why a request is denied. The text becomes the message of the request's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    #[error("the join token is not good any more: get a new join script")]
    TokenGone,
    #[error("the requester is not who the join token is for")]
    WrongRequester,
    #[error("the account cannot be used: it has expired, is disabled, or is not ready")]
    AccountClosed,
    #[error("the request is older than an hour")]
    TooOld,
    #[error(
        "a node asks for digital signature, client auth and perhaps key encipherment, and for nothing else"
    )]
    WrongUsages,
    #[error(
        "the certificate of a tenant's node is valid for at most 24 hours: ask for expirationSeconds of at most 86400"
    )]
    TooLong,
    #[error(
        "the cluster signs certificates for more than 24 hours: ask for expirationSeconds of at most 86400, or run kube-controller-manager with \
         --cluster-signing-duration=24h and delete the ConfigMap longshore-system/node-certificates"
    )]
    SignedTooLong,
    #[error("the certificate must name one node, `system:node:<name>` of `system:nodes`, and nothing else")]
    WrongSubject,
    #[error(
        "the name of a new node must begin with the id of its account and a dash (`<id>-<name>`), and have at most 63 characters: get a new join script"
    )]
    WrongName,
    #[error("the name of this node is another's")]
    NameTaken,
    #[error("this node has its certificate already: delete the node, and join anew with a new join script")]
    Replayed,
    #[error("the account has as many nodes as it may have")]
    TooManyNodes,
    #[error("the node is not one of the account's any more: join anew with a new join script")]
    NodeGone,
}

impl Denial {
    /// The reason of the condition.
    pub fn reason(self) -> String {
        format!("{self:?}")
    }
}

/// Decides on a request.
pub(crate) fn rule(asked: &Asked, known: &Known<'_>, now: Timestamp) -> Ruling {
    match weigh(asked, known, now) {
        Ok((node, program)) => Ruling::Grant { node, program },
        Err(denial) => Ruling::Deny(denial),
    }
}

/// Checks the rules in order. Returns the first violation.
fn weigh(asked: &Asked, known: &Known<'_>, now: Timestamp) -> Result<(String, Program), Denial> {
    let token = known.token.ok_or(Denial::TokenGone)?;
    let account = known.account.as_ref().ok_or(Denial::AccountClosed)?;
    let theirs = id_of(&asked.user) == Some(token.id.as_str())
        && token.owner == *account.id
        && asked.groups.contains(&group(account.id));
    holds(theirs, Denial::WrongRequester)?;
    holds(account.open, Denial::AccountClosed)?;
    holds(asked.is_for_a_client(), Denial::WrongUsages)?;
    holds(asked.is_short_lived(), Denial::TooLong)?;
    let (node, program) = asked.machine(account.namespace).ok_or(Denial::WrongSubject)?;
    let record = account.joined.iter().find(|joined| joined.name == node);
    // A node that was admitted before names had a prefix keeps its name.
    holds(record.is_some() || names::is_allowed(node, account.id), Denial::WrongName)?;
    let grant = Ok((node.to_owned(), program));
    if record.is_some_and(|record| record.requests.contains(&program.entry(&asked.uid))) {
        // Recorded as granted, but not approved yet.
        return grant;
    }
    holds(!token.is_expired(now), Denial::TokenGone)?;
    holds(now.duration_since(asked.created) <= WITHIN, Denial::TooOld)?;
    holds(known.named.is_none_or(|owner| owner == account.id), Denial::NameTaken)?;
    if let Some(record) = record {
        let again = record.requests.iter().any(|granted| granted.starts_with(program.prefix()));
        let late = now.duration_since(record.since.0) > WITHIN;
        holds(!again && !late && record.token == token.id, Denial::Replayed)?;
    } else {
        holds(!known.exists, Denial::NameTaken)?;
        holds(!token.has_let_in(node), Denial::Replayed)?;
        let nodes = i64::try_from(account.joined.len()).unwrap_or(i64::MAX);
        holds(nodes < account.most, Denial::TooManyNodes)?;
    }
    grant
}

/// Returns `denial` unless `fact` holds.
pub(super) fn holds(fact: bool, denial: Denial) -> Result<(), Denial> {
    if fact { Ok(()) } else { Err(denial) }
}

#[cfg(test)]
mod tests;
