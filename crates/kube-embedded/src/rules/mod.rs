//! Rules of the kinds beyond their schema: defaulting, strategy and validation, one [`KindRules`] per kind.
//!
//! Pure: no store, no clock, no randomness. Cluster IPs of Services,
//! the default `StorageClass` and quota need those and are admission. Kinds without a row use [`DEFAULT_RULES`].

pub mod accessors;
pub mod check;
pub mod diff;
pub mod go_structs;
pub mod meta;
pub mod rest_strategy;

pub mod cluster;
pub mod core;
pub mod events;
pub mod flow_control;
pub mod mutating;
pub mod network;
pub mod rbac;
pub mod storage;
pub mod webhooks;
pub mod workloads;

use serde_json::Value;

use crate::field::FieldErrors;

/// When `metadata.generation` is incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationPolicy {
    /// The kind has no generation.
    Absent,
    /// When anything except metadata and status changes.
    Content,
    /// The same, but new objects have none (`CSIDriver`).
    ContentAfterCreate,
    /// Also when the annotations change (Deployment).
    ContentAndAnnotations,
    /// Also when the labels change (`EndpointSlice`).
    ContentAndLabels,
    /// Set and never incremented (`PriorityClass`).
    Fixed,
}

/// Valid names of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePolicy {
    /// RFC 1123 subdomain, 253 bytes: most kinds.
    Subdomain,
    /// RFC 1123 label, 63 bytes: namespaces, services.
    Label,
    /// Any path segment: RBAC kinds and a few more.
    PathSegment,
}

/// The rules of one kind. The functions get the object in the stored version of its kind.
#[derive(Clone, Copy)]
pub struct KindRules {
    pub group: &'static str,
    pub kind: &'static str,
    pub naming: NamePolicy,
    pub generation: GenerationPolicy,
    /// A create keeps the status, although there is a status subresource (Node).
    pub keeps_status_on_create: bool,
    /// Finalizers need no domain.
    pub allows_any_finalizer: bool,
    /// Sets defaults; runs on every write, and on the decoded object before a patch.
    pub default: fn(&mut Value),
    /// Prepares an object for creation (initial status, derived fields). The generic strategy has
    /// already dropped the client's status.
    pub prepare_for_create: fn(&mut Value),
    /// Prepares an update of the main resource: (new, old). The old status is already restored.
    pub prepare_for_update: fn(&mut Value, &Value),
    /// Errors of an object to create (metadata is validated separately).
    pub validate: fn(&Value) -> FieldErrors,
    /// Errors of an update: (new, old). Includes the errors of `validate` where they apply to updates.
    pub validate_update: fn(&Value, &Value) -> FieldErrors,
    /// Errors of an update through `/status`: (new, old).
    pub validate_status: fn(&Value, &Value) -> FieldErrors,
    /// `Warning` headers for a create (`None`) or an update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
}

/// The rules of a kind without a row.
pub const DEFAULT_RULES: KindRules = KindRules {
    group: "",
    kind: "",
    naming: NamePolicy::Subdomain,
    generation: GenerationPolicy::Absent,
    keeps_status_on_create: false,
    allows_any_finalizer: false,
    default: |_| {},
    prepare_for_create: |_| {},
    prepare_for_update: |_, _| {},
    validate: |_| FieldErrors::new(),
    validate_update: |_, _| FieldErrors::new(),
    validate_status: |_, _| FieldErrors::new(),
    warnings: |_, _| Vec::new(),
};

/// The rules of all kinds with a row.
const ALL_RULES: &[&[KindRules]] = &[
    cluster::RULES,
    core::cluster::RULES,
    core::config::RULES,
    core::service::RULES,
    core::volume::RULES,
    events::RULES,
    network::ingress::RULES,
    flow_control::RULES,
    mutating::RULES,
    network::traffic::RULES,
    rbac::RULES,
    storage::RULES,
    webhooks::RULES,
    workloads::RULES,
    crate::crd::RULES,
];

/// Custom resources: all have a generation.
pub const CUSTOM_RESOURCE_RULES: KindRules =
    KindRules { generation: GenerationPolicy::Content, ..DEFAULT_RULES };

/// All errors of creating an object of a built-in kind, metadata included.
pub fn validate_create(rules: &KindRules, object: &Value, namespaced: bool) -> FieldErrors {
    let meta = &object["metadata"];
    let mut errs = if rules.allows_any_finalizer {
        meta::validate_lenient_create(meta, namespaced, rules.naming)
    } else {
        meta::validate_create(meta, namespaced, rules.naming)
    };
    errs.append((rules.validate)(object));
    errs
}

/// All errors of updating the main resource of a built-in kind, metadata included.
pub fn validate_update(rules: &KindRules, new: &Value, old: &Value, namespaced: bool) -> FieldErrors {
    let mut errs = if rules.allows_any_finalizer {
        meta::validate_custom_update(&new["metadata"], &old["metadata"], namespaced)
    } else {
        meta::validate_update(&new["metadata"], &old["metadata"], namespaced)
    };
    errs.append((rules.validate_update)(new, old));
    errs
}

/// The rules of a built-in kind.
pub fn for_kind(group: &str, kind: &str) -> &'static KindRules {
    ALL_RULES
        .iter()
        .copied()
        .flatten()
        .find(|rules| rules.group == group && rules.kind == kind)
        .unwrap_or(&DEFAULT_RULES)
}

/// The warning on every request for a deprecated kind, including reads and failed
/// requests.
pub fn deprecation(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_unique_per_kind() {
        let mut kinds: Vec<_> =
            ALL_RULES.iter().copied().flatten().map(|rules| (rules.group, rules.kind)).collect();
        let all = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), all);
        assert_eq!(for_kind("", "Service").naming, NamePolicy::Label);
        assert_eq!(for_kind("no", "Such").kind, "");
    }

    #[test]
    fn rules_do_not_panic_on_malformed_objects() {
        use serde_json::json;
        let odd = [
            json!({}),
            json!({"metadata": {}, "spec": {}, "status": {}}),
            json!({"metadata": {"name": 3}, "spec": {"ports": {}, "rules": [null, 1]}, "data": [], "webhooks": [[]]}),
        ];
        for rules in ALL_RULES.iter().copied().flatten() {
            for object in &odd {
                let (mut new, old) = (object.clone(), object.clone());
                (rules.default)(&mut new);
                (rules.prepare_for_create)(&mut new);
                (rules.prepare_for_update)(&mut new, &old);
                let _ = validate_create(rules, &new, true);
                let _ = validate_update(rules, &new, &old, false);
                let _ = (rules.validate_status)(&new, &old);
                let _ = (rules.warnings)(&new, Some(&old));
            }
        }
    }
}
