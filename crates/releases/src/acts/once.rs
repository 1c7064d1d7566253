//! What somebody sends again under a key of theirs is done once.
//!
//! The request itself remembers the key under which it was last changed, so that it holds after a crash, and whichever server
//! is asked.

use aws_lc_rs::digest::{SHA256, digest};
use domain::Actor;
use kube::ResourceExt;
use kube_types::HelmRequest;
use kube_types::marks::ASKED;

use crate::values::hash::hex;

/// Under which condition something is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The version of the release that the caller saw, where they say.
    pub seen: Option<&'a str>,
    /// By what the caller knows the attempt again, where they say.
    pub key: Option<&'a str>,
    /// With the caller's rights as an administrator of the platform. Upgrades and rollbacks only.
    pub as_administrator: bool,
}

/// What is remembered of an attempt.
pub(super) fn mark(actor: &Actor, act: &str, key: &str) -> String {
    let text = format!("{}\n{act}\n{key}", actor.label());
    hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16])
}

/// Whether the request was last changed by just this attempt.
pub(super) fn was_done(request: &HelmRequest, mark: Option<&String>) -> bool {
    mark.is_some() && request.annotations().get(ASKED) == mark
}

/// Remembers the attempt, or that there was none that could be known again.
pub(super) fn remember(request: &mut HelmRequest, mark: Option<String>) {
    match mark {
        Some(mark) => drop(request.annotations_mut().insert(ASKED.to_owned(), mark)),
        None => drop(request.annotations_mut().remove(ASKED)),
    }
}
