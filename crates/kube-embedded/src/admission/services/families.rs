//! IP families of a Service on an IPv4-only cluster.

use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{is_empty_value, items, list_mut, members, text, texts};
use crate::rules::core::service::needs_cluster_ip;
use crate::rules::core::service_addresses as addresses;
use crate::rules::network::ip;

/// The family of allocated addresses.
const CLUSTER_FAMILY: &str = "IPv4";

/// Sets `ipFamilyPolicy` and `ipFamilies`, or rejects values that this cluster cannot provide.
pub fn set_ip_families(service: &mut Value, old: Option<&Value>) -> Result<()> {
    if !needs_cluster_ip(service) || old.is_some_and(|old| is_unchanged_prefer_dual_stack(service, old)) {
        return Ok(());
    }
    let no_selector = is_empty_value(&service["spec"]["selector"]);
    let headless = text(&service["spec"]["clusterIP"]) == "None";
    if is_empty_value(&service["spec"]["ipFamilyPolicy"]) {
        let before = old.map(|old| text(&old["spec"]["ipFamilyPolicy"])).filter(|policy| !policy.is_empty());
        // Without a selector the families of the endpoints are unknown.
        let policy =
            before.unwrap_or(if headless && no_selector { "RequireDualStack" } else { "SingleStack" });
        members(service, "spec").insert("ipFamilyPolicy".to_owned(), policy.into());
    }
    reject_invalid(service, &addresses::validate(service, old))?;
    let mut errs = validate_consistency(service, old);
    infer_families(service, &mut errs);
    reject_invalid(service, &errs)?;
    if headless && no_selector {
        set_headless_dual_stack(service);
        return Ok(());
    }
    reject_invalid(service, &unsupported_families(service))?;
    if is_empty_value(&service["spec"]["ipFamilies"]) {
        members(service, "spec").insert("ipFamilies".to_owned(), json!([CLUSTER_FAMILY]));
    }
    Ok(())
}

fn reject_invalid(service: &Value, errs: &FieldErrors) -> Result<()> {
    if errs.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("", "Service", text(&service["metadata"]["name"]), errs))
}

/// Whether an unchanged `PreferDualStack` remains valid.
fn is_unchanged_prefer_dual_stack(new: &Value, old: &Value) -> bool {
    let same = |field: &str| items(&new["spec"][field]) == items(&old["spec"][field]);
    let prefers = |service: &Value, absent: bool| match &service["spec"]["ipFamilyPolicy"] {
        Value::Null => absent,
        policy => text(policy) == "PreferDualStack",
    };
    new["spec"]["type"] == old["spec"]["type"]
        && prefers(new, false)
        && prefers(old, true)
        && same("clusterIPs")
        && same("ipFamilies")
}

/// Errors of inconsistent policy and lists; with `SingleStack`, an unchanged second entry is dropped.
fn validate_consistency(service: &mut Value, old: Option<&Value>) -> FieldErrors {
    const LISTS: &[(&str, &str, &str)] =
        &[("clusterIPs", "cluster IP", "cluster IPs"), ("ipFamilies", "IP family", "IP families")];
    let path = Path::new("spec.ipFamilyPolicy");
    let policy = service["spec"]["ipFamilyPolicy"].clone();
    let single = text(&policy) == "SingleStack";
    let mut errs = FieldErrors::new();
    for (field, one, many) in LISTS {
        let length = items(&service["spec"][*field]).len();
        if let Some(old) = old {
            let was = items(&old["spec"][*field]);
            if single && items(&service["spec"][*field]) == was && length > 1 {
                if let Some(list) = list_mut(&mut service["spec"], field) {
                    list.truncate(1);
                }
            } else if !single && length != 0 && length < was.len() {
                let words = format!("must be 'SingleStack' to release the secondary {one}");
                errs.push(FieldError::invalid(&path, policy.clone(), words));
            }
        }
        if single && items(&service["spec"][*field]).len() == 2 {
            let words =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified");
            errs.push(FieldError::invalid(&path, policy.clone(), words));
        }
    }
    errs
}

/// Derives families from the addresses.
fn infer_families(service: &mut Value, errs: &mut FieldErrors) {
    let addresses = service["spec"]["clusterIPs"].clone();
    let mut families: Vec<Value> = items(&service["spec"]["ipFamilies"]).to_vec();
    let given = families.len();
    for (at, address) in texts(&addresses).enumerate() {
        // Each error shows all addresses.
        if address == "None" || errs.is_full() {
            break;
        }
        if at < families.len() || at < given {
            continue;
        }
        if ip::is_v6(address) {
            let path = Path::new("spec.clusterIPs").index(at);
            errs.push(FieldError::invalid(
                &path,
                addresses.clone(),
                "IPv6 is not configured on this cluster",
            ));
        } else {
            families.push(CLUSTER_FAMILY.into());
        }
    }
    if families.len() > given {
        members(service, "spec").insert("ipFamilies".to_owned(), families.into());
    }
}

/// A headless Service without selector may have both families on any cluster.
fn set_headless_dual_stack(service: &mut Value) {
    let single = text(&service["spec"]["ipFamilyPolicy"]) == "SingleStack";
    let first = items(&service["spec"]["ipFamilies"]).first().map_or(CLUSTER_FAMILY, text).to_owned();
    let other = if first == "IPv4" { "IPv6" } else { "IPv4" };
    let families = match items(&service["spec"]["ipFamilies"]).len() {
        0 | 1 if single => json!([first]),
        0 | 1 => json!([first, other]),
        _ => return,
    };
    members(service, "spec").insert("ipFamilies".to_owned(), families);
}

fn unsupported_families(service: &Value) -> FieldErrors {
    let spec = &service["spec"];
    let mut errs = FieldErrors::new();
    if text(&spec["ipFamilyPolicy"]) == "RequireDualStack" {
        let words = "this cluster is not configured for dual-stack services";
        errs.push(FieldError::invalid(&Path::new("spec.ipFamilyPolicy"), "RequireDualStack", words));
    }
    for (at, family) in texts(&spec["ipFamilies"]).enumerate().filter(|(_, family)| *family != CLUSTER_FAMILY)
    {
        let path = Path::new("spec.ipFamilies").index(at);
        errs.push(FieldError::invalid(&path, family, "not configured on this cluster"));
    }
    errs
}
