//! Fields that an endpoint resets and therefore lets no manager own: the status on the main resource, the spec on `/status`, and some
//! others.

use super::{compare::Difference, element::PathElement, fieldset::FieldSet};

/// Filter of the paths that can be owned at an endpoint.
#[derive(Debug, Clone)]
pub enum ResetFilter {
    /// All paths but these and their descendants.
    Exclude(FieldSet),
    /// Only paths with one of these prefixes; `*` matches any element.
    IncludePrefixes(&'static [&'static [&'static str]]),
}

/// Status endpoints that reset more than the spec: group, kind, paths.
#[rustfmt::skip]
const STATUS_RESETS: &[(&str, &str, &[&[&str]])] = &[
    ("", "Pod", &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
    ("apps", "Deployment", &[&["spec"], &["metadata", "labels"]]),
    ("certificates.k8s.io", "CertificateSigningRequest", &[&["spec"], &["status", "conditions"]]),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", SPEC_AND_METADATA),
    ("apiregistration.k8s.io", "APIService", SPEC_AND_METADATA),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", SPEC_AND_METADATA),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", SPEC_AND_METADATA),
    ("networking.k8s.io", "ServiceCIDR", SPEC_AND_METADATA),
    ("resource.k8s.io", "ResourceClaim", SPEC_AND_METADATA),
    ("storage.k8s.io", "VolumeAttachment", SPEC_AND_METADATA),
];

const SPEC_AND_METADATA: &[&[&str]] = &[&["spec"], &["metadata"]];

impl ResetFilter {
    /// Returns the filter of a kind at an endpoint. `has_status`: the kind has a `/status`.
    pub fn for_endpoint(group: &str, kind: &str, subresource: &str, custom: bool, has_status: bool) -> Self {
        let but = |paths| Self::Exclude(FieldSet::from_paths(paths));
        match (group, kind, subresource) {
            ("", "Pod", "ephemeralcontainers") => Self::IncludePrefixes(&[&["spec", "ephemeralContainers"]]),
            ("", "Pod", "resize") => Self::IncludePrefixes(&[
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
            ]),
            ("", "Namespace", "finalize") => but(&[&["status"]]),
            ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
                but(&[&["spec"], &["status", "certificate"]])
            }
            ("certificates.k8s.io", "CertificateSigningRequest", "") => but(&[&["spec"], &["status"]]),
            (_, _, "status") if custom => but(SPEC_AND_METADATA),
            (_, _, "status") => {
                let row = STATUS_RESETS.iter().find(|row| (row.0, row.1) == (group, kind));
                but(row.map_or(&[&["spec"]], |row| row.2))
            }
            (_, _, "") if has_status => but(&[&["status"]]),
            _ => but(&[]),
        }
    }

    pub(super) fn filter(&self, set: &FieldSet) -> FieldSet {
        match self {
            Self::Exclude(ignored) => set.recursive_difference(ignored),
            Self::IncludePrefixes(patterns) => matching_prefixes(set, patterns),
        }
    }

    pub(super) fn filter_difference(&self, difference: &Difference) -> Difference {
        Difference {
            added: self.filter(&difference.added),
            modified: self.filter(&difference.modified),
            removed: self.filter(&difference.removed),
        }
    }
}

fn matching_prefixes(set: &FieldSet, patterns: &[&[&str]]) -> FieldSet {
    let mut out = FieldSet::default();
    for step in set.nodes() {
        let matches = |first: &str| {
            first == "*" || matches!(&step.element, PathElement::Field(name) if **name == *first)
        };
        let tails: Vec<&[&str]> = patterns
            .iter()
            .filter_map(|pattern| pattern.split_first())
            .filter(|(first, _)| matches(first))
            .map(|(_, tail)| tail)
            .collect();
        if tails.is_empty() {
            continue;
        }
        let whole = tails.iter().any(|tail| tail.is_empty());
        let below = if whole { step.children.clone() } else { matching_prefixes(&step.children, &tails) };
        out.push(step.element.clone(), step.is_member, below);
    }
    out
}
