//! Owner references of the claims of a StatefulSet's pods: they decide whether a claim is deleted with the set or at scale-down. Pure: no
//! I/O, no clock.
//!
//! A claim whose owner is an earlier set or pod of the same name is not changed: it is about to be deleted. A claim with
//! another controller loses the references that this controller wrote.

#![warn(clippy::arithmetic_side_effects)]

use serde_json::Value;

use super::view::{ClaimRetentionPolicy, RetentionPolicy};
use crate::control::view::OwnerReference;

/// A set or a pod that may own claims.
#[derive(Clone, Copy, Debug)]
pub struct OwnerCandidate<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl OwnerCandidate<'_> {
    fn is_named_by(&self, owner: &OwnerReference) -> bool {
        owner.api_version == self.api_version && owner.kind == self.kind && owner.name == self.name
    }

    pub fn reference(&self) -> Value {
        serde_json::json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOwner {
    Nobody,
    Set,
    Pod,
}

/// The owner that a claim should have; `scaled_away` if its pod is beyond the replicas.
pub fn desired_owner(retention: ClaimRetentionPolicy, scaled_away: bool) -> ClaimOwner {
    match (retention.when_scaled, retention.when_deleted) {
        (RetentionPolicy::Delete, _) if scaled_away => ClaimOwner::Pod,
        (_, RetentionPolicy::Delete) => ClaimOwner::Set,
        (_, RetentionPolicy::Retain) => ClaimOwner::Nobody,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOwnerAction {
    /// Correct, or managed by another controller.
    Leave,
    /// Remove the owner references that this controller wrote, and add the new owner, if any.
    Rewrite(ClaimOwner),
}

/// Whether another controller manages a claim that should follow the set or the pod.
pub fn is_contested(
    owners: &[OwnerReference],
    retention: ClaimRetentionPolicy,
    set: &OwnerCandidate<'_>,
    pod: &OwnerCandidate<'_>,
) -> bool {
    let keeps_all =
        retention.when_deleted == RetentionPolicy::Retain && retention.when_scaled == RetentionPolicy::Retain;
    let foreign = |owner: &OwnerReference| !set.is_named_by(owner) && !pod.is_named_by(owner);
    !keeps_all && owners.iter().any(|owner| owner.controller && foreign(owner))
}

pub fn decide(
    owners: &[OwnerReference],
    retention: ClaimRetentionPolicy,
    (set, pod): (&OwnerCandidate<'_>, &OwnerCandidate<'_>),
    scaled_away: bool,
) -> ClaimOwnerAction {
    let stale = |candidate: &OwnerCandidate<'_>, owner: &OwnerReference| {
        candidate.is_named_by(owner) && owner.uid != candidate.uid
    };
    if owners.iter().any(|owner| stale(set, owner) || stale(pod, owner)) {
        return ClaimOwnerAction::Leave;
    }
    let contested = is_contested(owners, retention, set, pod);
    let wanted = if contested { ClaimOwner::Nobody } else { desired_owner(retention, scaled_away) };
    let ours = owners.iter().filter(|owner| owner.uid == set.uid || owner.uid == pod.uid);
    let ours: Vec<_> = ours.map(|owner| (owner.uid.as_str(), owner.controller)).collect();
    let fits = match wanted {
        ClaimOwner::Nobody => ours.is_empty(),
        ClaimOwner::Set => ours == [(set.uid, true)],
        ClaimOwner::Pod => ours == [(pod.uid, true)],
    };
    if fits { ClaimOwnerAction::Leave } else { ClaimOwnerAction::Rewrite(wanted) }
}

/// Whether the creation of a pod must wait: its claim still belongs to an earlier pod of its name that was scaled down.
pub fn is_stale(owners: &[OwnerReference], retention: ClaimRetentionPolicy, pod: &str) -> bool {
    let of_pod = |owner: &OwnerReference| owner.kind == "Pod" && owner.name == pod;
    retention.when_scaled == RetentionPolicy::Delete && owners.iter().any(of_pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: OwnerCandidate<'_> =
        OwnerCandidate { api_version: "apps/v1", kind: "StatefulSet", name: "s", uid: "set" };
    const POD: OwnerCandidate<'_> =
        OwnerCandidate { api_version: "v1", kind: "Pod", name: "s-0", uid: "pod" };

    fn owner(candidate: &OwnerCandidate<'_>, uid: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: candidate.api_version.to_owned(),
            kind: candidate.kind.to_owned(),
            name: candidate.name.to_owned(),
            uid: uid.to_owned(),
            controller,
        }
    }

    #[test]
    fn claim_owner_follows_retention_policy() {
        use RetentionPolicy::{Delete, Retain};
        let table = [
            (Retain, Retain, [ClaimOwner::Nobody, ClaimOwner::Nobody]),
            (Retain, Delete, [ClaimOwner::Set, ClaimOwner::Set]),
            (Delete, Retain, [ClaimOwner::Nobody, ClaimOwner::Pod]),
            (Delete, Delete, [ClaimOwner::Set, ClaimOwner::Pod]),
        ];
        for (when_scaled, when_deleted, expected) in table {
            let retention = ClaimRetentionPolicy { when_deleted, when_scaled };
            assert_eq!(
                [desired_owner(retention, false), desired_owner(retention, true)],
                expected,
                "{retention:?}"
            );
        }
    }

    #[test]
    fn claims_of_other_controllers_are_left_unchanged() {
        let gone = ClaimRetentionPolicy {
            when_deleted: RetentionPolicy::Delete,
            when_scaled: RetentionPolicy::Delete,
        };
        let kept = ClaimRetentionPolicy::default();
        let other = OwnerCandidate { kind: "Other", ..SET };
        let verdict = |owners: &[OwnerReference], retention| decide(owners, retention, (&SET, &POD), false);
        assert_eq!(verdict(&[], gone), ClaimOwnerAction::Rewrite(ClaimOwner::Set));
        assert_eq!(verdict(&[owner(&SET, "set", true)], gone), ClaimOwnerAction::Leave);
        assert_eq!(verdict(&[owner(&SET, "set", false)], gone), ClaimOwnerAction::Rewrite(ClaimOwner::Set));
        assert_eq!(verdict(&[owner(&SET, "set", true)], kept), ClaimOwnerAction::Rewrite(ClaimOwner::Nobody));
        assert_eq!(verdict(&[owner(&SET, "older", true)], gone), ClaimOwnerAction::Leave);
        assert_eq!(verdict(&[owner(&other, "x", true)], gone), ClaimOwnerAction::Leave);
        let both = [owner(&other, "x", true), owner(&SET, "set", true)];
        assert_eq!(verdict(&both, gone), ClaimOwnerAction::Rewrite(ClaimOwner::Nobody));
        assert_eq!(verdict(&[owner(&other, "x", true)], kept), ClaimOwnerAction::Leave);
        assert!(is_stale(&[owner(&POD, "older", true)], gone, "s-0"));
        assert!(!is_stale(&[owner(&POD, "older", true)], kept, "s-0"));
    }
}
