//! The status of a CRD: name conflicts with other CRDs, and whether it is established.
//!
//! In Kubernetes, controllers compute this asynchronously; here a create or update stores it in the same commit.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock::rfc3339;

/// The finalizer that keeps a CRD until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Accepts or refuses the names of the CRD and sets its status. `others` are all other CRDs.
pub fn set_names_and_conditions(crd: &mut Value, others: &[Value], now: Timestamp) {
    let own = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let others = others.iter().filter(|other| {
        other["spec"]["group"] == crd["spec"]["group"] && other["metadata"]["name"] != own.as_str()
    });
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        let names = &other["status"]["acceptedNames"];
        let short = names["shortNames"].as_array().into_iter().flatten();
        let used = [&names["plural"], &names["singular"]].into_iter().chain(short);
        resources.extend(used.filter_map(Value::as_str).map(ToOwned::to_owned));
        let used = [&names["kind"], &names["listKind"]].into_iter();
        kinds.extend(used.filter_map(Value::as_str).map(ToOwned::to_owned));
    }
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let wanted = crd["spec"]["names"].clone();
    let mut accepted = crd["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let mut refusal: Option<(&str, String)> = None;

    for (key, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let before = accepted.get(key).cloned().unwrap_or_default();
        let ours = |name: &str| match &before {
            Value::String(before) => before == name,
            Value::Array(before) => before.iter().any(|before| before == name),
            _ => false,
        };
        let names: Vec<&str> = match &wanted[key] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let taken: Vec<String> = names
            .iter()
            .filter(|name| used.contains(**name) && !ours(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match taken.as_slice() {
            [] => {
                if wanted[key].is_null() {
                    accepted.remove(key);
                } else {
                    accepted.insert(key.to_owned(), wanted[key].clone());
                }
            }
            [only] => refusal = Some((reason, only.clone())),
            many => refusal = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    match &wanted["categories"] {
        Value::Null => accepted.remove("categories"),
        categories => accepted.insert("categories".to_owned(), categories.clone()),
    };
    for key in ["plural", "kind"] {
        accepted.entry(key).or_insert_with(|| "".into());
    }
    crd["status"]["acceptedNames"] = Value::Object(accepted);

    let names_are_fine = refusal.is_none();
    let (reason, message) = refusal.unwrap_or_else(|| ("NoConflicts", "no conflicts found".to_owned()));
    set_condition(crd, "NamesAccepted", names_are_fine, reason, &message, now);
    if names_are_fine {
        if !is_established(crd) {
            let message = "the initial names have been accepted";
            set_condition(crd, "Established", true, "InitialNamesAccepted", message, now);
        }
    } else if condition(crd, "Established").is_none() {
        set_condition(crd, "Established", false, "NotAccepted", "not all names are accepted", now);
    }
    if let Some(message) = api_approval(crd) {
        let (approved, reason, message) = message;
        set_condition(crd, "KubernetesAPIApprovalPolicyConformant", approved, reason, &message, now);
    }
}

/// Adds the storage version to `status.storedVersions`.
pub fn record_stored_version(crd: &mut Value) {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let Some(stored) = versions.clone().find(|version| version["storage"] == true) else { return };
    let Some(name) = stored["name"].as_str().map(ToOwned::to_owned) else { return };
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let list = crd["status"].as_object_mut().expect("made sure above").entry("storedVersions");
    if let Some(list) = list.or_insert_with(|| json!([])).as_array_mut()
        && !list.iter().any(|known| known == name.as_str())
    {
        list.push(name.into());
    }
}

/// Sets the `Terminating` condition of a deleted CRD whose objects remain.
pub fn set_terminating(crd: &mut Value, now: Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(crd, "Terminating", true, "InstanceDeletionPending", message, now);
}

pub fn is_established(crd: &Value) -> bool {
    condition(crd, "Established").is_some_and(|condition| condition["status"] == "True")
}

/// Whether all its names are accepted.
pub fn has_accepted_names(crd: &Value) -> bool {
    condition(crd, "NamesAccepted").is_some_and(|condition| condition["status"] == "True")
}

pub fn is_terminating(crd: &Value) -> bool {
    condition(crd, "Terminating").is_some_and(|condition| condition["status"] == "True")
}

fn condition<'a>(crd: &'a Value, ty: &str) -> Option<&'a Value> {
    crd["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == ty)
}

fn set_condition(crd: &mut Value, ty: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let since = condition(crd, ty)
        .filter(|condition| condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str().map(ToOwned::to_owned))
        .unwrap_or_else(|| rfc3339(now));
    let new = json!({
        "type": ty, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    let fields = crd["status"].as_object_mut().expect("made sure above");
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("made sure above");
    match conditions.iter_mut().find(|condition| condition["type"] == ty) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// Checks the API approval of protected groups: (approved, reason, message); `None` for other groups.
pub fn api_approval(crd: &Value) -> Option<(bool, &'static str, String)> {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")));
    if !protected {
        return None;
    }
    let annotation =
        crd["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap_or_default();
    Some(if annotation.is_empty() {
        let text = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        (false, "MissingAnnotation", text.to_owned())
    } else if annotation.starts_with("unapproved") {
        (false, "UnapprovedAnnotation", format!("not approved: {annotation:?}"))
    } else if annotation.contains("://") {
        (true, "ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let text = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
        (false, "InvalidAnnotation", text.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(name: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "metadata": {"name": format!("{name}.g.io")},
            "spec": {
                "group": "g.io",
                "names": {"plural": name, "singular": kind.to_lowercase(), "kind": kind,
                          "listKind": format!("{kind}List"), "shortNames": short},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
        })
    }

    #[test]
    fn names_are_accepted_unless_in_use() {
        let now = Timestamp::UNIX_EPOCH;
        let mut first = crd("widgets", "Widget", &["w"]);
        set_names_and_conditions(&mut first, &[], now);
        record_stored_version(&mut first);
        assert!(is_established(&first) && has_accepted_names(&first));
        assert_eq!(first["status"]["storedVersions"], json!(["v1"]));
        let once = first.clone();
        set_names_and_conditions(&mut first, std::slice::from_ref(&once), now);
        assert_eq!(first, once, "a second time changes nothing");

        let mut second = crd("gadgets", "Widget", &["w", "widgets"]);
        set_names_and_conditions(&mut second, &[first], now);
        assert!(!is_established(&second));
        let conditions = second["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions[0]["reason"], "ListKindConflict");
        assert_eq!(conditions[0]["message"], "\"WidgetList\" is already in use");
        assert_eq!(conditions[1]["reason"], "NotAccepted");
        assert_eq!(second["status"]["acceptedNames"], json!({"plural": "gadgets", "kind": ""}));
    }
}
