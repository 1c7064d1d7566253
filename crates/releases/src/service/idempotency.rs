//! Idempotency keys: a call that is repeated with the same key is executed once.
//!
//! The key of the last change is stored in the request itself, so it holds after a crash and on every server.

use aws_lc_rs::digest::{SHA256, digest};
use domain::Actor;
use kube::ResourceExt;
use kube_types::HelmRequest;
use kube_types::well_known::IDEMPOTENCY_DIGEST;

use crate::values::hash::hex;

/// Preconditions and options of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestPreconditions<'a> {
    /// The `v` of the release that the caller saw, if any, as a precondition.
    pub if_match: Option<&'a str>,
    /// The caller's idempotency key, if any.
    pub idempotency_key: Option<&'a str>,
    /// Uses the caller's rights as an administrator of the platform. Upgrades and rollbacks only.
    pub as_administrator: bool,
}

/// The stored form of an idempotency key: a hash over caller, action and key.
pub(super) fn idempotency_hash(actor: &Actor, act: &str, key: &str) -> String {
    let text = format!("{}\n{act}\n{key}", actor.audit_name());
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

/// Whether the last change of the request had this key.
pub(super) fn is_replay(request: &HelmRequest, mark: Option<&String>) -> bool {
    mark.is_some() && request.annotations().get(IDEMPOTENCY_DIGEST) == mark
}

/// Stores the key, or removes the previous one.
pub(super) fn set_idempotency_hash(request: &mut HelmRequest, mark: Option<String>) {
    match mark {
        Some(mark) => drop(request.annotations_mut().insert(IDEMPOTENCY_DIGEST.to_owned(), mark)),
        None => drop(request.annotations_mut().remove(IDEMPOTENCY_DIGEST)),
    }
}
