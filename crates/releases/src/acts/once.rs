//! Idempotency keys: a call that is repeated with the same key is executed once.
//!
//! The key of the last change is stored in the request itself, so it holds after a crash and on every server.

use aws_lc_rs::digest::{SHA256, digest};
use domain::Actor;
use kube::ResourceExt;
use kube_types::HelmRequest;
use kube_types::marks::ASKED;

use crate::values::hash::hex;

/// Preconditions and options of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The `v` of the release that the caller saw, if any, as a precondition.
    pub seen: Option<&'a str>,
    /// The caller's idempotency key, if any.
    pub key: Option<&'a str>,
    /// Uses the caller's rights as an administrator of the platform. Upgrades and rollbacks only.
    pub as_administrator: bool,
}

/// The stored form of an idempotency key: a hash over caller, action and key.
pub(super) fn mark(actor: &Actor, act: &str, key: &str) -> String {
    let text = format!("{}\n{act}\n{key}", actor.label());
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

/// Whether the last change of the request had this key.
pub(super) fn was_done(request: &HelmRequest, mark: Option<&String>) -> bool {
    mark.is_some() && request.annotations().get(ASKED) == mark
}

/// Stores the key, or removes the previous one.
pub(super) fn remember(request: &mut HelmRequest, mark: Option<String>) {
    match mark {
        Some(mark) => drop(request.annotations_mut().insert(ASKED.to_owned(), mark)),
        None => drop(request.annotations_mut().remove(ASKED)),
    }
}
