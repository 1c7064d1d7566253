//! Owner references of the claims of a StatefulSet's pods: they decide whether a claim is deleted with the set or at scale-down. Pure: no
//! I/O, no clock.
//!
//! A claim whose owner is an earlier set or pod of the same name is not changed: it is about to be deleted. A claim with
//! another controller loses the references that this controller wrote.

#![warn(clippy::arithmetic_side_effects)]

use serde_json::Value;

use super::view::{Fate, Retention};
use crate::control::view::OwnerReference;

/// A set or a pod that may own claims.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Candidate<'_> {
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
pub enum Heir {
    Nobody,
    Set,
    Pod,
}

/// The owner that a claim should have; `scaled_away` if its pod is beyond the replicas.
pub fn heir(retention: Retention, scaled_away: bool) -> Heir {
    match (retention.when_scaled, retention.when_deleted) {
        (Fate::Delete, _) if scaled_away => Heir::Pod,
        (_, Fate::Delete) => Heir::Set,
        (_, Fate::Retain) => Heir::Nobody,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Correct, or managed by another controller.
    Leave,
    /// Remove the owner references that this controller wrote, and add the new owner, if any.
    Rewrite(Heir),
}

/// Whether another controller manages a claim that should follow the set or the pod.
pub fn is_contested(
    owners: &[OwnerReference],
    retention: Retention,
    set: &Candidate<'_>,
    pod: &Candidate<'_>,
) -> bool {
    let keeps_all = retention.when_deleted == Fate::Retain && retention.when_scaled == Fate::Retain;
    let foreign = |owner: &OwnerReference| !set.is_named_by(owner) && !pod.is_named_by(owner);
    !keeps_all && owners.iter().any(|owner| owner.controller && foreign(owner))
}

pub fn judge(
    owners: &[OwnerReference],
    retention: Retention,
    (set, pod): (&Candidate<'_>, &Candidate<'_>),
    scaled_away: bool,
) -> Verdict {
    let stale = |candidate: &Candidate<'_>, owner: &OwnerReference| {
        candidate.is_named_by(owner) && owner.uid != candidate.uid
    };
    if owners.iter().any(|owner| stale(set, owner) || stale(pod, owner)) {
        return Verdict::Leave;
    }
    let contested = is_contested(owners, retention, set, pod);
    let wanted = if contested { Heir::Nobody } else { heir(retention, scaled_away) };
    let ours = owners.iter().filter(|owner| owner.uid == set.uid || owner.uid == pod.uid);
    let ours: Vec<_> = ours.map(|owner| (owner.uid.as_str(), owner.controller)).collect();
    let fits = match wanted {
        Heir::Nobody => ours.is_empty(),
        Heir::Set => ours == [(set.uid, true)],
        Heir::Pod => ours == [(pod.uid, true)],
    };
    if fits { Verdict::Leave } else { Verdict::Rewrite(wanted) }
}

/// Whether the creation of a pod must wait: its claim still belongs to an earlier pod of its name that was scaled down.
pub fn is_stale(owners: &[OwnerReference], retention: Retention, pod: &str) -> bool {
    let of_pod = |owner: &OwnerReference| owner.kind == "Pod" && owner.name == pod;
    retention.when_scaled == Fate::Delete && owners.iter().any(of_pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Candidate<'_> =
        Candidate { api_version: "apps/v1", kind: "StatefulSet", name: "s", uid: "set" };
    const POD: Candidate<'_> = Candidate { api_version: "v1", kind: "Pod", name: "s-0", uid: "pod" };

    fn owner(candidate: &Candidate<'_>, uid: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: candidate.api_version.to_owned(),
            kind: candidate.kind.to_owned(),
            name: candidate.name.to_owned(),
            uid: uid.to_owned(),
            controller,
        }
    }

    #[test]
    fn a_claim_goes_where_the_policy_says() {
        use Fate::{Delete, Retain};
        let table = [
            (Retain, Retain, [Heir::Nobody, Heir::Nobody]),
            (Retain, Delete, [Heir::Set, Heir::Set]),
            (Delete, Retain, [Heir::Nobody, Heir::Pod]),
            (Delete, Delete, [Heir::Set, Heir::Pod]),
        ];
        for (when_scaled, when_deleted, expected) in table {
            let retention = Retention { when_deleted, when_scaled };
            assert_eq!([heir(retention, false), heir(retention, true)], expected, "{retention:?}");
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let gone = Retention { when_deleted: Fate::Delete, when_scaled: Fate::Delete };
        let kept = Retention::default();
        let other = Candidate { kind: "Other", ..SET };
        let verdict = |owners: &[OwnerReference], retention| judge(owners, retention, (&SET, &POD), false);
        assert_eq!(verdict(&[], gone), Verdict::Rewrite(Heir::Set));
        assert_eq!(verdict(&[owner(&SET, "set", true)], gone), Verdict::Leave);
        assert_eq!(verdict(&[owner(&SET, "set", false)], gone), Verdict::Rewrite(Heir::Set));
        assert_eq!(verdict(&[owner(&SET, "set", true)], kept), Verdict::Rewrite(Heir::Nobody));
        assert_eq!(verdict(&[owner(&SET, "older", true)], gone), Verdict::Leave);
        assert_eq!(verdict(&[owner(&other, "x", true)], gone), Verdict::Leave);
        let both = [owner(&other, "x", true), owner(&SET, "set", true)];
        assert_eq!(verdict(&both, gone), Verdict::Rewrite(Heir::Nobody));
        assert_eq!(verdict(&[owner(&other, "x", true)], kept), Verdict::Leave);
        assert!(is_stale(&[owner(&POD, "older", true)], gone, "s-0"));
        assert!(!is_stale(&[owner(&POD, "older", true)], kept, "s-0"));
    }
}
