//! Attributes that a pool may set on its nodes: labels, annotations and taints.
//!
//! Checked when a pool is written through the API, and again by the controller, because pools can be written directly.
//! A pool can never set the labels of a node's tenant and pool membership.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kube_types::node_pool::NodePoolSpec;
use kube_types::well_known::{DESIRED_POOL, POOL, PREVIOUS_POOL_ATTRIBUTES, TENANT};

/// OpenYurt's label for members of a pool whose pods use the host network.
pub(crate) const HOST_NETWORK: &str = "nodepool.openyurt.io/hostnetwork";

/// Keys that no pool may set.
const RESERVED_KEYS: &[&str] = &[
    TENANT,
    POOL,
    DESIRED_POOL,
    PREVIOUS_POOL_ATTRIBUTES,
    HOST_NETWORK,
    "kubernetes.io/hostname",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Domains of Kubernetes, OpenYurt and the platform, whose keys tenants may not set.
const SYSTEM_DOMAINS: &[&str] =
    &["kubernetes.io", "k8s.io", "openyurt.io", "openyurt", "alibabacloud.com", "longshore.dev"];
const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Maximum number of labels, annotations and taints each.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum length of an annotation's value in bytes.
const MAX_ANNOTATION_LEN: usize = 4096;

/// Whether no pool may set this key.
pub(crate) fn is_reserved(key: &str) -> bool {
    RESERVED_KEYS.contains(&key)
}

/// Attributes of a pool's members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PoolAttributes {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
}

/// Checks a spec for a tenant's pool or a common one. The error names the invalid attribute.
pub(crate) fn validate(spec: &NodePoolSpec, of_tenant: bool) -> Result<(), String> {
    let counts = [spec.labels.len(), spec.annotations.len(), spec.taints.len()];
    if counts.iter().any(|count| *count > MAX_ATTRIBUTES) {
        return Err(format!(
            "a node pool has at most {MAX_ATTRIBUTES} labels, {MAX_ATTRIBUTES} annotations and {MAX_ATTRIBUTES} taints"
        ));
    }
    spec.labels.iter().try_for_each(|(key, value)| validate_label(key, value, of_tenant))?;
    spec.annotations.iter().try_for_each(|(key, value)| validate_annotation(key, value, of_tenant))?;
    spec.taints.iter().try_for_each(|one| validate_taint(one, of_tenant))
}

/// Permitted attributes of a pool; others are ignored.
pub(crate) fn permitted(spec: &NodePoolSpec, of_tenant: bool) -> PoolAttributes {
    let keep = |pairs: &BTreeMap<String, String>, check: fn(&str, &str, bool) -> Result<(), String>| {
        let allowed = pairs.iter().filter(|(key, value)| check(key, value, of_tenant).is_ok());
        allowed
            .take(MAX_ATTRIBUTES)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    let mut labels = keep(&spec.labels, validate_label);
    if spec.host_network {
        labels.insert(HOST_NETWORK.to_owned(), "true".to_owned());
    }
    let taints = spec.taints.iter().filter(|one| validate_taint(one, of_tenant).is_ok());
    let mut each: BTreeMap<(&str, &str), &Taint> = BTreeMap::new();
    each.extend(
        taints.take(MAX_ATTRIBUTES).map(|taint| ((taint.key.as_str(), taint.effect.as_str()), taint)),
    );
    PoolAttributes {
        labels,
        annotations: keep(&spec.annotations, validate_annotation),
        taints: each.into_values().cloned().collect(),
    }
}

fn validate_label(key: &str, value: &str, of_tenant: bool) -> Result<(), String> {
    validate_key("label", key, of_tenant)?;
    if is_label_value(value) { Ok(()) } else { Err(format!("label `{}`: invalid value", shortened(key))) }
}

fn validate_annotation(key: &str, value: &str, of_tenant: bool) -> Result<(), String> {
    validate_key("annotation", key, of_tenant)?;
    if value.len() <= MAX_ANNOTATION_LEN {
        Ok(())
    } else {
        Err(format!("annotation `{}`: value exceeds {MAX_ANNOTATION_LEN} bytes", shortened(key)))
    }
}

fn validate_taint(taint: &Taint, of_tenant: bool) -> Result<(), String> {
    validate_key("taint", &taint.key, of_tenant)?;
    if !TAINT_EFFECTS.contains(&taint.effect.as_str()) {
        return Err(format!(
            "taint `{}`: effect must be one of {}",
            shortened(&taint.key),
            TAINT_EFFECTS.join(", ")
        ));
    }
    if taint.value.as_deref().is_none_or(is_label_value) {
        Ok(())
    } else {
        Err(format!("taint `{}`: invalid value", shortened(&taint.key)))
    }
}

fn validate_key(what: &str, key: &str, of_tenant: bool) -> Result<(), String> {
    if !is_qualified_name(key) {
        return Err(format!("{what} `{}`: invalid key", shortened(key)));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |system: &&str| {
        prefix.strip_suffix(*system).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if is_reserved(key) || (of_tenant && SYSTEM_DOMAINS.iter().any(within)) {
        return Err(format!("{what} `{key}`: reserved for the system"));
    }
    Ok(())
}

/// A qualified name in Kubernetes' sense: `prefix/name` or `name`.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let part = |part: &str| {
        let well = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().next().is_some_and(well)
            && part.bytes().last().is_some_and(well)
            && part.bytes().all(|byte| well(byte) || byte == b'-')
    };
    !name.is_empty()
        && is_label_value(name)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(part))
}

/// Kubernetes' rule for label values: empty, or up to 63 letters, digits, `-`, `_`, `.`, with a letter or digit at both
/// ends.
pub(crate) fn is_label_value(value: &str) -> bool {
    let outer = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && outer(value.bytes().next())
        && outer(value.bytes().last())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn shortened(text: &str) -> String {
    domain::ids::truncate_for_error(text)
}

#[cfg(test)]
mod tests;
