//! Rules of the kinds beyond their schema: defaulting, strategy and validation, one [`Rules`] per kind.
//!
//! Pure: no store, no clock, no randomness. Cluster IPs of Services,
//! the default `StorageClass` and quota need those and are admission. Kinds without a row use [`PLAIN`].

pub mod check;
pub mod conduct;
pub mod diff;
pub mod go_structs;
pub mod meta;
pub mod read;

pub mod cluster;
pub mod core;
pub mod events;
pub mod flow;
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
pub enum Generation {
    /// The kind has no generation.
    Absent,
    /// When anything except metadata and status changes.
    Content,
    /// The same, but new objects have none (`CSIDriver`).
    ContentOnceChanged,
    /// Also when the annotations change (Deployment).
    ContentAndAnnotations,
    /// Also when the labels change (`EndpointSlice`).
    ContentAndLabels,
    /// Set and never incremented (`PriorityClass`).
    Fixed,
}

/// Valid names of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// RFC 1123 subdomain, 253 bytes: most kinds.
    Subdomain,
    /// RFC 1123 label, 63 bytes: namespaces, services.
    Label,
    /// Any path segment: RBAC kinds and a few more.
    PathSegment,
}

/// The rules of one kind. The functions get the object in the stored version of its kind.
#[derive(Clone, Copy)]
pub struct Rules {
    pub group: &'static str,
    pub kind: &'static str,
    pub naming: Naming,
    pub generation: Generation,
    /// A create keeps the status, although there is a status subresource (Node).
    pub status_on_create: bool,
    /// Finalizers need no domain.
    pub any_finalizer: bool,
    /// Sets defaults; runs on every write, and on the decoded object before a patch.
    pub default: fn(&mut Value),
    /// Prepares an object for creation (initial status, derived fields). The generic strategy has
    /// already dropped the client's status.
    pub create: fn(&mut Value),
    /// Prepares an update of the main resource: (new, old). The old status is already restored.
    pub update: fn(&mut Value, &Value),
    /// Errors of an object to create (metadata is validated separately).
    pub validate: fn(&Value) -> FieldErrors,
    /// Errors of an update: (new, old). Includes those of `validate` where they apply to updates.
    pub validate_update: fn(&Value, &Value) -> FieldErrors,
    /// Errors of an update through `/status`: (new, old).
    pub validate_status: fn(&Value, &Value) -> FieldErrors,
    /// `Warning` headers for a create (`None`) or an update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
}

/// The rules of a kind without a row.
pub const PLAIN: Rules = Rules {
    group: "",
    kind: "",
    naming: Naming::Subdomain,
    generation: Generation::Absent,
    status_on_create: false,
    any_finalizer: false,
    default: |_| {},
    create: |_| {},
    update: |_, _| {},
    validate: |_| FieldErrors::new(),
    validate_update: |_, _| FieldErrors::new(),
    validate_status: |_, _| FieldErrors::new(),
    warnings: |_, _| Vec::new(),
};

/// The rules of all kinds with a row.
const ALL: &[&[Rules]] = &[
    cluster::RULES,
    core::cluster::RULES,
    core::config::RULES,
    core::service::RULES,
    core::volume::RULES,
    events::RULES,
    network::ingress::RULES,
    flow::RULES,
    mutating::RULES,
    network::traffic::RULES,
    rbac::RULES,
    storage::RULES,
    webhooks::RULES,
    workloads::RULES,
    crate::crd::RULES,
];

/// Custom resources: all have a generation.
pub const CUSTOM: Rules = Rules { generation: Generation::Content, ..PLAIN };

/// All errors of creating an object of a built-in kind, metadata included.
pub fn validate_create(rules: &Rules, object: &Value, namespaced: bool) -> FieldErrors {
    let meta = &object["metadata"];
    let mut errs = if rules.any_finalizer {
        meta::validate_lenient_create(meta, namespaced, rules.naming)
    } else {
        meta::validate_create(meta, namespaced, rules.naming)
    };
    errs.append((rules.validate)(object));
    errs
}

/// All errors of updating the main resource of a built-in kind, metadata included.
pub fn validate_update(rules: &Rules, new: &Value, old: &Value, namespaced: bool) -> FieldErrors {
    let mut errs = if rules.any_finalizer {
        meta::validate_custom_update(&new["metadata"], &old["metadata"], namespaced)
    } else {
        meta::validate_update(&new["metadata"], &old["metadata"], namespaced)
    };
    errs.append((rules.validate_update)(new, old));
    errs
}

/// The rules of a built-in kind.
pub fn of(group: &str, kind: &str) -> &'static Rules {
    ALL.iter().copied().flatten().find(|rules| rules.group == group && rules.kind == kind).unwrap_or(&PLAIN)
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
    fn no_kind_has_two_rows() {
        let mut kinds: Vec<_> =
            ALL.iter().copied().flatten().map(|rules| (rules.group, rules.kind)).collect();
        let all = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), all);
        assert_eq!(of("", "Service").naming, Naming::Label);
        assert_eq!(of("no", "Such").kind, "");
    }

    #[test]
    fn no_rule_panics_on_an_odd_object() {
        use serde_json::json;
        let odd = [
            json!({}),
            json!({"metadata": {}, "spec": {}, "status": {}}),
            json!({"metadata": {"name": 3}, "spec": {"ports": {}, "rules": [null, 1]}, "data": [], "webhooks": [[]]}),
        ];
        for rules in ALL.iter().copied().flatten() {
            for object in &odd {
                let (mut new, old) = (object.clone(), object.clone());
                (rules.default)(&mut new);
                (rules.create)(&mut new);
                (rules.update)(&mut new, &old);
                let _ = validate_create(rules, &new, true);
                let _ = validate_update(rules, &new, &old, false);
                let _ = (rules.validate_status)(&new, &old);
                let _ = (rules.warnings)(&new, Some(&old));
            }
        }
    }
}
