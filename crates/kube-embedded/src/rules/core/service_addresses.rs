//! Cluster IPs and IP families of a Service: valid values and valid changes.
//!
//! Called by validation, and before it by `crate::admission::services`, which must not allocate addresses for
//! an inconsistent Service.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{items, text, texts};
use crate::rules::check::{self, PathValue};
use crate::rules::network::ip;

/// `clusterIPs` is only `None`.
pub fn is_headless(service: &Value) -> bool {
    matches!(items(&service["spec"]["clusterIPs"]), [only] if text(only) == "None")
}

fn is_external_name(service: &Value) -> bool {
    text(&service["spec"]["type"]) == "ExternalName"
}

/// Errors of `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy`.
pub fn validate(service: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errs = FieldErrors::new();
    if is_external_name(service) {
        return errs;
    }
    let root = PathValue::root(service);
    let spec = root.get("spec");
    let (first, all, families) = (spec.get("clusterIP"), spec.get("clusterIPs"), spec.get("ipFamilies"));
    match (first.text(), all.items().next()) {
        ("", Some(_)) => {
            let words = "must be empty when `clusterIP` is not specified";
            errs.push(FieldError::invalid(&all.path, all.to_json(), words));
        }
        ("", None) => {}
        (_, None) => errs.push(FieldError::required(&all.path, "")),
        (first, Some(listed)) if first != listed.text() => {
            errs.push(FieldError::invalid(&all.path, all.to_json(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        check::one_of(&family, &["IPv4", "IPv6"], &mut errs);
        if seen.contains(&family.text()) {
            errs.push(FieldError::duplicate(&family.path, family.text()));
        }
        seen.insert(family.text());
    }
    let policy = spec.get("ipFamilyPolicy");
    if policy.exists() {
        check::one_of(&policy, &["PreferDualStack", "RequireDualStack", "SingleStack"], &mut errs);
    }
    validate_cluster_ips(&all, old, &families, &mut errs);
    errs
}

fn validate_cluster_ips(all: &PathValue, old: Option<&Value>, families: &PathValue, errs: &mut FieldErrors) {
    let known: HashSet<_> = old.into_iter().flat_map(|old| texts(&old["spec"]["clusterIPs"])).collect();
    let before = errs.len();
    for (at, address) in all.items().enumerate() {
        if at == 0 && address.text() == "None" {
            if all.len() > 1 {
                let words = "'None' must be the first and only value";
                errs.push(FieldError::invalid(&all.path, all.to_json(), words));
            }
            continue;
        }
        ip::validate_legacy_ip(&address, &known, errs);
    }
    let broken = errs.len() != before;
    if all.len() > 2 {
        errs.push(FieldError::invalid(&all.path, all.to_json(), "may only hold up to 2 values"));
    }
    if broken {
        return;
    }
    let versions: Vec<_> = all.items().map(|address| ip::is_v6(address.text())).collect();
    if versions.len() > 1 && !(versions.contains(&true) && versions.contains(&false)) {
        let words = "may specify no more than one IP for each IP family";
        errs.push(FieldError::invalid(&all.path, all.to_json(), words));
    }
    for ((address, v6), (at, family)) in all.items().zip(versions).zip(families.items().enumerate()) {
        let wanted = match (family.text(), v6) {
            ("IPv4", true) => "IPv4",
            ("IPv6", false) if address.text() != "None" => "IPv6",
            _ => continue,
        };
        let words = format!("expected an {wanted} value as indicated by `ipFamilies[{at}]`");
        errs.push(FieldError::invalid(&address.path, address.text(), words));
    }
}

/// Errors of a change of addresses or families: the first of each is immutable, the second may be added or removed.
pub fn validate_change(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    if is_external_name(new) || is_external_name(old) {
        return errs;
    }
    match (is_headless(old), is_headless(new)) {
        (true, true) => {}
        (was, is) => {
            validate_list_change(new, old, "clusterIPs", "clusterIP", &mut errs);
            if !was && !is {
                validate_list_change(new, old, "ipFamilies", "ipFamily", &mut errs);
            }
        }
    }
    errs
}

fn validate_list_change(new: &Value, old: &Value, field: &str, one: &str, errs: &mut FieldErrors) {
    let path = Path::new("spec").field(field);
    let (now, was) = (&new["spec"][field], &old["spec"][field]);
    let (now_list, was_list) = (items(now), items(was));
    let mut refuse = |at: usize, words: &str| {
        errs.push(FieldError::invalid(&path.index(at), now.clone(), words));
    };
    if now_list.len() == was_list.len() {
        for (at, _) in now_list.iter().zip(was_list).enumerate().filter(|(_, (now, was))| now != was) {
            refuse(if field == "clusterIPs" { at } else { 0 }, "may not change once set");
        }
        return;
    }
    let gone = items(&new["spec"]["clusterIPs"]).is_empty();
    if gone && now_list.len() < was_list.len() {
        refuse(0, &format!("primary {one} can not be unset"));
    }
    if let (Some(now), Some(was)) = (now_list.first(), was_list.first())
        && now != was
    {
        refuse(0, "may not change once set");
    }
    let policy = &new["spec"]["ipFamilyPolicy"];
    if now_list.len() < was_list.len() && now_list.len() == 1 && text(policy) != "SingleStack" {
        let words = format!("must be set to 'SingleStack' when releasing the secondary {one}");
        errs.push(FieldError::invalid(&Path::new("spec.ipFamilyPolicy"), policy.clone(), words));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::error_messages;

    #[test]
    fn cluster_ips_must_match_families() {
        let table = [
            (json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv6"]}), vec![]),
            (
                json!({"clusterIP": "a", "clusterIPs": ["10.0.0.1"]}),
                vec!["spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"],
            ),
            (
                json!({"clusterIP": "::1", "clusterIPs": ["::1"], "ipFamilies": ["IPv4"]}),
                vec![
                    "spec.clusterIPs[0]: Invalid value: \"::1\": expected an IPv4 value as indicated by `ipFamilies[0]`",
                ],
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(error_messages(&validate(&json!({"spec": spec}), None)), expected);
        }
    }

    #[test]
    fn first_cluster_ip_is_immutable() {
        let service = |list: Value| json!({"spec": {"clusterIPs": list, "ipFamilies": ["IPv4"]}});
        let old = service(json!(["10.96.0.1"]));
        assert_eq!(
            error_messages(&validate_change(&service(json!(["10.96.0.2"])), &old)),
            ["spec.clusterIPs[0]: Invalid value: [\"10.96.0.2\"]: may not change once set"]
        );
        assert_eq!(error_messages(&validate_change(&old, &old)), Vec::<String>::new());
    }
}
