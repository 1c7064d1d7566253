//! Validation of object metadata on create and update.
//!
//! Kubernetes validates metadata several times on an update: in general, for the kind, and for some
//! kinds once more as if the object were created ([`validate_create`], called by those kinds' rules). Equal messages
//! are shown once, but each error is a separate cause, so the checks are repeated here as well.

use std::collections::HashSet;

use serde_json::Value;

use super::NamePolicy;
use super::accessors::text;
use super::check::{self, PathValue};
use crate::field::{FieldError, FieldErrorType, FieldErrors, Path};

/// Maximum length of a field manager's name.
pub const MAX_MANAGER_BYTES: usize = 128;

/// Finalizers without a domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// Errors of the metadata of an object of a built-in kind on create. A generated name
/// is set already.
pub fn validate_create(meta: &Value, namespaced: bool, naming: NamePolicy) -> FieldErrors {
    let mut errs = validate_for_create(meta, namespaced, naming);
    validate_standard_finalizers(meta, &mut errs);
    errs
}

/// As [`validate_create`], for kinds whose finalizers may lack a domain.
pub fn validate_lenient_create(meta: &Value, namespaced: bool, naming: NamePolicy) -> FieldErrors {
    validate_for_create(meta, namespaced, naming)
}

/// As [`validate_create`], for custom resources.
pub fn validate_custom_create(meta: &Value, namespaced: bool) -> FieldErrors {
    validate_for_create(meta, namespaced, NamePolicy::Subdomain)
}

/// Errors of changed metadata, as every kind checks it.
pub fn validate_update(new: &Value, old: &Value, namespaced: bool) -> FieldErrors {
    let mut errs = validate_custom_update(new, old, namespaced);
    validate_standard_finalizers(new, &mut errs);
    errs
}

/// As [`validate_update`], for custom resources, whose finalizers may lack a domain.
pub fn validate_custom_update(new: &Value, old: &Value, namespaced: bool) -> FieldErrors {
    let mut errs = validate_for_create(new, namespaced, NamePolicy::PathSegment);
    // Once for all kinds, once for the kind itself.
    for _ in 0..2 {
        validate_for_update(new, old, &mut errs);
    }
    errs
}

fn metadata_value(meta: &Value) -> PathValue<'_> {
    PathValue { value: Some(meta), path: Path::new("metadata") }
}

fn validate_for_create(meta: &Value, namespaced: bool, naming: NamePolicy) -> FieldErrors {
    let at = metadata_value(meta);
    let mut errs = FieldErrors::new();
    validate_name(&at, naming, &mut errs);
    let namespace = at.get("namespace");
    match (namespaced, namespace.text().is_empty()) {
        (true, true) => errs.push(FieldError::required(&namespace.path, "")),
        (true, false) => check::text(&namespace, check::dns_label, &mut errs),
        (false, false) => errs.push(FieldError::forbidden(&namespace.path, "not allowed on this type")),
        (false, true) => {}
    }
    check::not_negative(&at.get("generation"), &mut errs);
    validate_content(&at, &mut errs);
    validate_finalizers(&at.get("finalizers"), &mut errs);
    validate_managed_fields(&at.get("managedFields"), &mut errs);
    errs
}

fn validate_name(at: &PathValue, naming: NamePolicy, errs: &mut FieldErrors) {
    let prefix = at.get("generateName");
    for words in naming.prefix_errors(prefix.text()) {
        errs.push(FieldError::invalid(&prefix.path, prefix.text(), words));
    }
    let name = at.get("name");
    if name.text().is_empty() {
        errs.push(FieldError::required(&name.path, "name or generateName is required"));
    } else {
        for words in naming.name_errors(name.text()) {
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
    }
}

impl NamePolicy {
    /// Returns the errors of a name.
    pub fn name_errors(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => check::dns_subdomain(name),
            Self::Label => check::dns_label(name),
            Self::PathSegment => check::path_segment(name),
        }
    }

    /// Returns the errors of a `generateName` prefix.
    fn prefix_errors(self, prefix: &str) -> Vec<String> {
        match (self, prefix) {
            (_, "") | (Self::PathSegment, "." | "..") => Vec::new(),
            (Self::PathSegment, _) => self.name_errors(prefix),
            (_, _) => match prefix.strip_suffix('-') {
                // A dash at the end is cut off.
                Some(head) if !head.is_empty() => {
                    let kept = head.char_indices().next_back().map_or(0, |(at, _)| at);
                    self.name_errors(&format!("{}a", &head[..kept]))
                }
                _ => self.name_errors(prefix),
            },
        }
    }
}

/// Checks for create and update alike.
fn validate_content(at: &PathValue, errs: &mut FieldErrors) {
    check::labels(&at.get("labels"), errs);
    check::annotations(&at.get("annotations"), errs);
    validate_owners(&at.get("ownerReferences"), errs);
}

/// An owner reference with its fields in Go's order.
fn owner_text(owner: &Value) -> String {
    let members = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let given = members.iter().filter_map(|name| Some(format!("\"{name}\":{}", owner.get(name)?)));
    format!("{{{}}}", given.collect::<Vec<_>>().join(","))
}

fn owner_error(path: &Path, shown: &str, words: &str) -> FieldError {
    let detail = format!("{shown}: {words}");
    FieldError { path: path.clone(), error_type: FieldErrorType::Invalid, value: None, detail }
}

fn validate_owners(at: &PathValue, errs: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    let mut is_reported = false;
    for owner in at.items() {
        let read = |field: &str| owner.get(field).text();
        let (api_version, kind) = (read("apiVersion"), read("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut refuse = |field: &str, words: &str| {
            errs.push(FieldError::invalid(&at.path.field(field), read(field), words));
        };
        if version.is_empty() || version.contains('/') {
            refuse("apiVersion", "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if read(field).is_empty() {
                refuse(field, "must not be empty");
            }
        }
        if (group, version, kind) == ("", "v1", "Event") {
            let words = "/v1, Kind=Event is disallowed from being an owner";
            errs.push(owner_error(&at.path, &owner_text(&owner.to_json()), words));
        }
        if owner.get("controller").bool_or_false() {
            let this = format!("{kind}/{}", read("name"));
            if let Some(first) = &controller {
                // The error shows all owners: one error for each would be quadratic.
                if is_reported {
                    continue;
                }
                is_reported = true;
                let words = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let all: Vec<_> = at.items().map(|owner| owner_text(&owner.to_json())).collect();
                errs.push(owner_error(&at.path, &format!("[{}]", all.join(",")), &words));
            } else {
                controller = Some(this);
            }
        }
    }
}

fn validate_finalizers(at: &PathValue, errs: &mut FieldErrors) {
    for finalizer in at.items() {
        check::text(&finalizer.with_path(at.path.clone()), check::qualified_name, errs);
    }
    let has = |name: &str| at.items().any(|finalizer| finalizer.text() == name);
    if has("orphan") && has("foregroundDeletion") {
        let words = "finalizer orphan and foregroundDeletion cannot be both set";
        errs.push(FieldError::invalid(&at.path, at.to_json(), words));
    }
}

fn validate_standard_finalizers(meta: &Value, errs: &mut FieldErrors) {
    for finalizer in metadata_value(meta).get("finalizers").items() {
        validate_standard_finalizer(&finalizer, errs);
    }
}

/// A finalizer is a standard one, or has a domain.
pub fn validate_standard_finalizer(at: &PathValue, errs: &mut FieldErrors) {
    let name = at.text();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let words = "name is neither a standard finalizer name nor is it fully qualified";
        errs.push(FieldError::invalid(&at.path, name, words));
    }
}

fn validate_managed_fields(at: &PathValue, errs: &mut FieldErrors) {
    for entry in at.items() {
        let (operation, kind) = (entry.get("operation"), entry.get("fieldsType"));
        if !matches!(operation.text(), "Apply" | "Update") {
            errs.push(FieldError::invalid(&operation.path, operation.text(), "must be `Apply` or `Update`"));
        }
        if !matches!(kind.text(), "" | "FieldsV1") {
            errs.push(FieldError::invalid(&kind.path, kind.text(), "must be `FieldsV1`"));
        }
        validate_manager(&entry.get("manager"), errs);
        let subresource = entry.get("subresource");
        if subresource.len() > 256 {
            errs.push(FieldError::too_long(&subresource.path, 256));
        }
    }
}

/// Checks the name of a field manager: at most [`MAX_MANAGER_BYTES`], and printable.
///
/// Unlike in Kubernetes only the first unprintable character is an error: each error shows the whole name.
pub fn validate_manager(at: &PathValue, errs: &mut FieldErrors) {
    let name = at.text();
    if name.len() > MAX_MANAGER_BYTES {
        errs.push(FieldError::too_long(&at.path, MAX_MANAGER_BYTES));
        return;
    }
    if let Some((position, c)) = name.char_indices().find(|(_, c)| !is_printable(*c)) {
        let code = format!("U+{:04X}", u32::from(c));
        let words = format!("invalid character {code} (at position {position})");
        errs.push(FieldError::invalid(&at.path, name, words));
    }
}

/// As Go's `unicode.IsPrint`; a space is the only blank.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}'))
}

fn validate_for_update(new: &Value, old: &Value, errs: &mut FieldErrors) {
    let (new, old) = (metadata_value(new), metadata_value(old));
    if old.has("deletionTimestamp") {
        validate_no_new_finalizers(&new.get("finalizers"), &old.get("finalizers"), errs);
    }
    let version = new.get("resourceVersion");
    if version.text().is_empty() {
        errs.push(FieldError::invalid(&version.path, "", "must be specified for an update"));
    }
    let generation = new.get("generation");
    if generation.int() < old.get("generation").int() {
        let words = "must not be decremented";
        errs.push(FieldError::invalid(&generation.path, generation.int(), words));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        check::immutable(&new.get(field), &old.get(field), errs);
    }
    validate_content(&new, errs);
    validate_managed_fields(&new.get("managedFields"), errs);
}

fn validate_no_new_finalizers(new: &PathValue, old: &PathValue, errs: &mut FieldErrors) {
    let old: HashSet<_> = old.items().map(|finalizer| finalizer.text()).collect();
    let mut added: Vec<_> = new.items().map(|f| f.text()).filter(|name| !old.contains(name)).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let words = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
        );
        errs.push(FieldError::forbidden(&new.path, words));
    }
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    !text(&object["metadata"]["deletionTimestamp"]).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(errs: &[FieldError]) -> Vec<String> {
        errs.iter().map(ToString::to_string).map(|e| e.chars().take(70).collect()).collect()
    }

    #[test]
    fn creation_names_every_defect() {
        let meta = json!({
            "name": "Bad_", "labels": {"a b": "c!"}, "finalizers": ["foo", "x y/z"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "x", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "B", "name": "", "uid": "2", "controller": true},
            ],
            "managedFields": [{"operation": "Guess", "manager": "a\nb"}],
        });
        insta::assert_snapshot!(places(&validate_create(&meta, true, NamePolicy::Subdomain)).join("\n"));
    }

    #[test]
    fn manager_with_thousands_of_unprintable_characters_is_one_error() {
        let errors = |name: String| {
            let mut errs = FieldErrors::new();
            validate_manager(&PathValue { value: Some(&name.into()), path: Path::new("m") }, &mut errs);
            errs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(errors("\u{7f}".repeat(60_000)), ["m: Too long: may not be more than 128 bytes"]);
        let [only] = &errors("\u{7f}".repeat(100))[..] else { panic!("one error") };
        assert!(only.ends_with("invalid character U+007F (at position 0)"), "{only}");
    }

    #[test]
    fn several_controller_owners_are_one_error() {
        let owner = |n: usize| json!({"apiVersion": "v1", "kind": "A", "name": format!("x{n}"), "uid": "1", "controller": true});
        let meta = json!({"name": "a", "ownerReferences": (0..5_000).map(owner).collect::<Vec<_>>()});
        assert_eq!(validate_create(&meta, false, NamePolicy::Subdomain).len(), 1);
    }

    #[test]
    fn generate_name_may_end_in_dash() {
        for (prefix, wrong) in [("a-", 0), ("a.-", 0), ("-", 1), ("é-", 0), ("A-b-", 1)] {
            assert_eq!(NamePolicy::Subdomain.prefix_errors(prefix).len(), wrong, "{prefix}");
        }
    }

    #[test]
    fn what_identifies_an_object_stays() {
        let old = json!({"name": "a", "uid": "1", "resourceVersion": "3", "deletionTimestamp": "t",
                         "finalizers": ["a.b/c"]});
        let mut new = old.clone();
        new["uid"] = "2".into();
        new["finalizers"] = json!(["a.b/c", "a.b/d"]);
        let errs = validate_update(&new, &old, false);
        let told: std::collections::BTreeSet<_> = errs.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.into_iter().collect::<Vec<_>>().join("\n"));
        assert_eq!(errs.len(), 4, "each finding is told once for all kinds and once for this one");
    }
}
