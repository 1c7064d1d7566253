//! Namespace, Node, ServiceAccount and Endpoints.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors, Path};
use crate::quantity::Quantity;
use crate::rules::accessors::{
    go_duplicate, go_names, items, list_mut, maps_mut, members, set_if_empty, text, texts,
};
use crate::rules::check::{self, PathValue, quantity};
use crate::rules::network::ip;
use crate::rules::{DEFAULT_RULES, KindRules, NamePolicy, meta};

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "",
        kind: "Namespace",
        naming: NamePolicy::Label,
        default: |namespace| {
            set_name_label(namespace);
            set_if_empty(members(namespace, "status"), "phase", "Active");
        },
        prepare_for_create: |namespace| {
            set_name_label(namespace);
            namespace["status"] = json!({"phase": "Active"});
            let finalizers = members(namespace, "spec").entry("finalizers").or_insert_with(|| json!([]));
            if !texts(finalizers).any(|finalizer| finalizer == "kubernetes") {
                match finalizers.as_array_mut() {
                    Some(list) => list.push("kubernetes".into()),
                    None => *finalizers = json!(["kubernetes"]),
                }
            }
        },
        prepare_for_update: |new, old| {
            let spec = members(new, "spec");
            match old["spec"].get("finalizers") {
                Some(kept) => _ = spec.insert("finalizers".to_owned(), kept.clone()),
                None => _ = spec.remove("finalizers"),
            }
        },
        validate: validate_namespace,
        validate_update: |new, _| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::Label);
            errs.extend(validate_namespace(new));
            errs
        },
        validate_status: |new, _| {
            let (wanted, empty) =
                if meta::is_deleting(new) { ("Terminating", "not empty") } else { ("Active", "empty") };
            let phase = text(&new["status"]["phase"]);
            if phase == wanted {
                return FieldErrors::new();
            }
            let words = format!("may only be '{wanted}' if `deletionTimestamp` is {empty}");
            FieldError::invalid(&Path::new("status.Phase"), phase, words).into()
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "",
        kind: "Node",
        keeps_status_on_create: true,
        default: |node| {
            sync_pod_cidrs(node);
            let status = members(node, "status");
            if let (None, Some(capacity)) = (status.get("allocatable"), status.get("capacity").cloned()) {
                status.insert("allocatable".to_owned(), capacity);
            }
        },
        // A removed feature.
        prepare_for_create: |node| _ = members(node, "spec").remove("configSource"),
        validate: validate_node,
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain);
            errs.extend(validate_node(new));
            errs.extend(validate_node_update(new, old));
            errs
        },
        validate_status: validate_node_update,
        warnings: |node, _| node_warnings(node),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "",
        kind: "ServiceAccount",
        prepare_for_create: strip_secret_references,
        prepare_for_update: |new, _| strip_secret_references(new),
        validate_update: |new, _| meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain),
        warnings: |new, old| {
            const KEY: &str = "kubernetes.io/enforce-mountable-secrets";
            let has = |account: &Value| account["metadata"]["annotations"].get(KEY).is_some();
            if !has(new) || old.is_some_and(has) {
                return Vec::new();
            }
            vec![format!(
                "metadata.annotations[{KEY}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            )]
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "",
        kind: "Endpoints",
        default: |endpoints| {
            for subset in list_mut(endpoints, "subsets").into_iter().flatten() {
                for port in maps_mut(subset, "ports") {
                    set_if_empty(port, "protocol", "TCP");
                }
            }
        },
        validate: |endpoints| validate_subsets(&PathValue::root(endpoints).get("subsets")),
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain);
            if new["subsets"] != old["subsets"] {
                errs.extend(validate_subsets(&PathValue::root(new).get("subsets")));
            }
            errs
        },
        warnings: |endpoints, _| endpoints_warnings(endpoints),
        ..DEFAULT_RULES
    },
];

/// Sets the label with the namespace's name.
fn set_name_label(namespace: &mut Value) {
    const KEY: &str = "kubernetes.io/metadata.name";
    let name = text(&namespace["metadata"]["name"]).to_owned();
    if !name.is_empty() {
        members(namespace, "metadata");
        members(&mut namespace["metadata"], "labels").insert(KEY.to_owned(), name.into());
    }
}

fn validate_namespace(namespace: &Value) -> FieldErrors {
    validate_namespace_finalizers(namespace, false)
}

/// Errors of `spec.finalizers`; through `/finalize` (`indexed`) they name the element.
pub fn validate_namespace_finalizers(namespace: &Value, indexed: bool) -> FieldErrors {
    let root = PathValue::root(namespace);
    let finalizers = root.nested("spec.finalizers");
    let mut errs = FieldErrors::new();
    for finalizer in finalizers.items() {
        let place = if indexed { finalizer } else { finalizer.with_path(finalizers.path.clone()) };
        check::text(&place, check::qualified_name, &mut errs);
        meta::validate_standard_finalizer(&place, &mut errs);
    }
    errs
}

/// `podCIDR` is the first of `podCIDRs`; setting one sets the other.
fn sync_pod_cidrs(node: &mut Value) {
    let spec = members(node, "spec");
    let one = spec.get("podCIDR").map(text).unwrap_or_default().to_owned();
    let first = spec.get("podCIDRs").and_then(|list| items(list).first()).map(text).unwrap_or_default();
    if one.is_empty() && !first.is_empty() {
        let first = first.to_owned();
        spec.insert("podCIDR".to_owned(), first.into());
    } else if !one.is_empty() && one != first {
        spec.insert("podCIDRs".to_owned(), json!([one]));
    }
}

fn validate_node(node: &Value) -> FieldErrors {
    let root = PathValue::root(node);
    let mut errs = FieldErrors::new();
    // The path is a bug of Kubernetes; the taints are in the spec.
    validate_taints(&root.nested("spec.taints").with_path(Path::new("metadata.taints")), &mut errs);
    validate_resource_lists(&root, &mut errs);
    let ranges = root.nested("spec.podCIDRs");
    for range in ranges.items() {
        ip::validate_legacy_cidr(range.text(), &range.path, &HashSet::<&str>::new(), &mut errs);
    }
    if ranges.len() > 1 {
        let v6 = ranges.items().filter(|range| range.text().contains(':')).count();
        if ranges.len() > 2 || v6 != 1 {
            let words = "may specify no more than one CIDR for each IP family";
            errs.push(FieldError::invalid(&ranges.path, ranges.to_json(), words));
        }
    }
    errs
}

fn validate_taints(taints: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.get("key"), taint.get("value"), taint.get("effect"));
        check::text(&key, check::qualified_name, errs);
        let wrong = check::label_value(value.text());
        if !wrong.is_empty() {
            errs.push(FieldError::invalid(&value.path, value.text(), wrong.join(";")));
        }
        check::required_one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errs);
        let pair = (key.text(), effect.text());
        if seen.contains(&pair) {
            let mut twice = FieldError::duplicate(&taint.path, go_names(&taint.to_json()));
            "taints must be unique by key and effect pair".clone_into(&mut twice.detail);
            errs.push(twice);
        }
        seen.insert(pair);
    }
}

/// Capacity and allocatable.
fn validate_resource_lists(root: &PathValue, errs: &mut FieldErrors) {
    for field in ["capacity", "allocatable"] {
        let list = root.get("status").get(field);
        for (name, amount) in list.entries() {
            let at = amount.with_path(list.path.field(name));
            quantity::not_negative(&at, errs);
            let counted = matches!(name, "pods") || name.contains('/') && !name.starts_with("kubernetes.io/");
            let whole = amount.value.and_then(Quantity::from_value).is_none_or(|amount| amount.is_whole());
            if counted && !whole {
                errs.push(FieldError::invalid(&at.path, at.to_json(), "must be an integer"));
            }
        }
    }
}

fn validate_node_update(new: &Value, old: &Value) -> FieldErrors {
    let root = PathValue::root(new);
    let mut errs = FieldErrors::new();
    validate_resource_lists(&root, &mut errs);
    let mut seen = HashSet::new();
    for address in root.nested("status.addresses").items() {
        if seen.contains(&address.value) {
            let (kind, place) = (json!(address.get("type").text()), json!(address.get("address").text()));
            let shown = format!("{{\"Type\":{kind},\"Address\":{place}}}");
            errs.push(go_duplicate(&address.path, shown));
        }
        seen.insert(address.value);
    }
    let once = |field: &str, name: &str| {
        let words = format!("node updates may not change {name} except from \"\" to valid");
        FieldError::forbidden(&Path::new("spec").field(field), words)
    };
    let (now, was) = (&new["spec"], &old["spec"]);
    if !items(&was["podCIDRs"]).is_empty() && now["podCIDRs"] != was["podCIDRs"] {
        errs.push(once("podCIDRs", "podCIDR"));
    }
    if !text(&was["providerID"]).is_empty() && now["providerID"] != was["providerID"] {
        errs.push(once("providerID", "providerID"));
    }
    validate_taints(&root.nested("spec.taints").with_path(Path::new("metadata.taints")), &mut errs);
    if text(&now["externalID"]) != text(&was["externalID"]) {
        errs.push(FieldError::forbidden(&Path::new("spec.externalID"), "may not be updated"));
    }
    errs
}

fn node_warnings(node: &Value) -> Vec<String> {
    let root = PathValue::root(node);
    let spec = root.get("spec");
    let mut warnings = Vec::new();
    if spec.has("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.get("externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings.extend(spec.get("podCIDRs").items().flat_map(|range| ip::cidr_warnings(&range)));
    warnings
}

/// Removes all fields except the name from the Secrets of a ServiceAccount.
fn strip_secret_references(account: &mut Value) {
    for secret in maps_mut(account, "secrets") {
        secret.retain(|field, _| field == "name");
    }
}

fn validate_subsets(subsets: &PathValue) -> FieldErrors {
    let mut errs = FieldErrors::new();
    for subset in subsets.items() {
        let lists = [subset.get("addresses"), subset.get("notReadyAddresses")];
        if lists.iter().all(PathValue::is_empty) {
            let words = "must specify `addresses` or `notReadyAddresses`";
            errs.push(FieldError::required(&subset.path, words));
        }
        for address in lists.iter().flat_map(PathValue::items) {
            let (place, host, node) = (address.get("ip"), address.get("hostname"), address.get("nodeName"));
            ip::validate_legacy_ip(&place, &HashSet::<&str>::new(), &mut errs);
            if !host.is_empty() {
                check::text(&host, check::dns_label, &mut errs);
            }
            if node.exists() {
                check::text(&node, check::dns_subdomain, &mut errs);
            }
            ip::validate_endpoint_ip(&place, &mut errs);
        }
        let ports = subset.get("ports");
        for port in ports.items() {
            let name = port.get("name");
            if !name.is_empty() {
                check::text(&name, check::dns_label, &mut errs);
            } else if ports.len() > 1 {
                errs.push(FieldError::required(&name.path, ""));
            }
            check::port_number(&port.get("port"), &mut errs);
            check::required_one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"], &mut errs);
            if port.has("appProtocol") {
                check::text(&port.get("appProtocol"), check::qualified_name, &mut errs);
            }
        }
    }
    errs
}

fn endpoints_warnings(endpoints: &Value) -> Vec<String> {
    let root = PathValue::root(endpoints);
    let mut warnings = Vec::new();
    if root.nested("metadata.labels").key("endpoints.kubernetes.io/managed-by").text()
        == "endpoint-controller"
    {
        return warnings;
    }
    for subset in root.get("subsets").items() {
        for field in ["addresses", "notReadyAddresses"] {
            warnings
                .extend(subset.get(field).items().filter_map(|address| ip::ip_warning(&address.get("ip"))));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_gets_name_label_and_finalizer() {
        let rules = &RULES[0];
        let mut namespace = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x/y"]}});
        (rules.prepare_for_create)(&mut namespace);
        assert_eq!(
            namespace,
            json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                   "spec": {"finalizers": ["x/y", "kubernetes"]}, "status": {"phase": "Active"}})
        );
    }

    #[test]
    fn taints_are_unique_by_key_and_effect() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let errs = validate_node(&json!({"spec": {"taints": [taint, taint, {"key": "a", "effect": "x"}]}}));
        let told: Vec<_> = errs.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "metadata.taints[1]: Duplicate value: {\"Effect\":\"NoSchedule\",\"Key\":\"a\"}: taints must be unique by key and effect pair",
                "metadata.taints[2].effect: Unsupported value: \"x\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ]
        );
    }
}
