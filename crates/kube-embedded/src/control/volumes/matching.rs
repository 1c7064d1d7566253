//! Matching of volumes to claims. Pure: no I/O, no clock.

use std::cmp::Reverse;

use super::view::{Claim, Volume};
use crate::selector::LabelSelector;

/// Returns the best of `volumes` for a claim without `volumeName`: one that is reserved for it, else the smallest available one
/// that is large enough, preferring those with the fewest access modes. A `delayed` claim only matches volumes
/// reserved for it: the scheduler selects others.
pub fn best_match<V: AsRef<Volume>>(
    claim: &Claim,
    volumes: impl Iterator<Item = V>,
    delayed: bool,
) -> Option<V> {
    let selector = match &claim.spec.selector {
        Some(selector) => LabelSelector::from_label_selector_object(selector).ok()?,
        None => LabelSelector::everything(),
    };
    let suits = |volume: &Volume| {
        let meant = volume.is_for(claim);
        let free = || {
            !delayed
                && volume.spec.claim_ref.is_none()
                && volume.status.phase == "Available"
                && volume.class() == claim.class()
                && selector.matches(|key| volume.metadata.labels.get(key).map(String::as_str))
        };
        !volume.metadata.is_deleting()
            && volume.capacity() >= claim.request()
            && same_kind(claim, volume)
            && offers(volume, claim)
            && (meant || free())
    };
    volumes.filter(|volume| suits(volume.as_ref())).min_by_key(|volume| {
        let volume = volume.as_ref();
        (volume.spec.access_modes.len(), Reverse(volume.is_for(claim)), volume.capacity())
    })
}

fn same_kind(claim: &Claim, volume: &Volume) -> bool {
    same_mode(claim, volume)
        && claim.spec.volume_attributes_class_name == volume.spec.volume_attributes_class_name
}

pub fn same_mode(claim: &Claim, volume: &Volume) -> bool {
    claim.spec.volume_mode == volume.spec.volume_mode
}

fn offers(volume: &Volume, claim: &Claim) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}

/// Returns why a claim cannot be bound to the volume that it names.
pub fn mismatch_reason(claim: &Claim, volume: &Volume) -> Option<String> {
    let fails = [
        (
            volume.metadata.is_deleting(),
            format!("the volume is marked for deletion {:?}", volume.metadata.name),
        ),
        (volume.capacity().value() < claim.request().value(), "requested PV is too small".to_owned()),
        (volume.class() != claim.class(), "storageClassName does not match".to_owned()),
        (
            claim.spec.volume_attributes_class_name != volume.spec.volume_attributes_class_name,
            "volumeAttributesClassName does not match".to_owned(),
        ),
        (!same_mode(claim, volume), "incompatible volumeMode".to_owned()),
        (!offers(volume, claim), "incompatible accessMode".to_owned()),
    ];
    fails.into_iter().find(|(fails, _)| *fails).map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: &str, modes: &[&str], more: Value) -> Arc<Volume> {
        let mut document = json!({"metadata": {"name": name, "labels": {"n": name}}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": "c"}});
        let Value::Object(more) = more else { panic!("fields are an object") };
        document["spec"].as_object_mut().unwrap().extend(more);
        Arc::new(serde_json::from_value(document).unwrap())
    }

    fn claim(size: &str, more: Value) -> Claim {
        let mut document = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {
            "accessModes": ["RWO"], "storageClassName": "c", "resources": {"requests": {"storage": size}}}});
        let Value::Object(more) = more else { panic!("fields are an object") };
        document["spec"].as_object_mut().unwrap().extend(more);
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn best_match_is_the_smallest_sufficient_volume_unless_one_is_reserved() {
        let volumes = [
            volume("small", "1Gi", &["RWO"], json!({})),
            volume("large", "5Gi", &["RWO"], json!({})),
            volume("middle", "3Gi", &["RWO"], json!({})),
            volume("many", "2Gi", &["RWO", "RWX"], json!({})),
            volume("block", "2Gi", &["RWO"], json!({"volumeMode": "Block"})),
            volume("other", "2Gi", &["RWO"], json!({"storageClassName": "other"})),
            volume("meant", "9Gi", &["RWO"], json!({"claimRef": {"namespace": "n", "name": "mine"}})),
            volume("taken", "2Gi", &["RWO"], json!({"claimRef": {"namespace": "n", "name": "x"}})),
        ];
        let chosen = |claim: &Claim, delayed| {
            best_match(claim, volumes.iter(), delayed).map(|volume| volume.metadata.name.clone())
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(chosen(&claim("2Gi", json!({})), false), some("middle"));
        assert_eq!(chosen(&claim("1Gi", json!({})), false), some("small"));
        assert_eq!(chosen(&claim("1Gi", json!({"accessModes": ["RWX"]})), false), some("many"));
        assert_eq!(
            chosen(&claim("1Gi", json!({"selector": {"matchLabels": {"n": "large"}}})), false),
            some("large")
        );
        assert_eq!(chosen(&claim("1Gi", json!({"volumeMode": "Block"})), false), some("block"));
        assert_eq!(chosen(&claim("10Gi", json!({})), false), None);
        assert_eq!(chosen(&claim("1Gi", json!({})), true), None, "the scheduler chooses");
        let mut mine = claim("1Gi", json!({}));
        mine.metadata.name = "mine".to_owned();
        assert_eq!(chosen(&mine, true), some("meant"));
        assert_eq!(chosen(&mine, false), some("meant"));
    }

    #[test]
    fn mismatch_reason_is_the_first_of_many() {
        let one = volume("v", "1Gi", &["RWO"], json!({}));
        assert_eq!(mismatch_reason(&claim("1Gi", json!({})), &one), None);
        assert_eq!(mismatch_reason(&claim("2Gi", json!({})), &one).unwrap(), "requested PV is too small");
        let cases = [
            (json!({"storageClassName": ""}), "storageClassName does not match"),
            (json!({"volumeMode": "Block"}), "incompatible volumeMode"),
            (json!({"accessModes": ["RWX"]}), "incompatible accessMode"),
        ];
        for (more, words) in cases {
            assert_eq!(mismatch_reason(&claim("1Gi", more), &one).unwrap(), words);
        }
    }
}
