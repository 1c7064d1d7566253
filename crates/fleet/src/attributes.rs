//! What a pool may put on its nodes: labels, annotations and taints.
//!
//! Asked when somebody writes a pool through us, and again by the controller, because a pool can be written without us. What
//! says whose a node is, and which pool it is in, is never a pool's to say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use kube_types::marks::{DESIRED_POOL, POOL, PREVIOUS, TENANT};
use kube_types::node_pool::NodePoolSpec;

/// OpenYurt's label of the members of a pool whose pods use the network of their node.
pub(crate) const HOST_NETWORK: &str = "nodepool.openyurt.io/hostnetwork";

/// Never a pool's to say.
const RESERVED: &[&str] = &[
    TENANT,
    POOL,
    DESIRED_POOL,
    PREVIOUS,
    HOST_NETWORK,
    "kubernetes.io/hostname",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// What Kubernetes, OpenYurt and the platform say by keys of theirs is nothing that a tenant says.
const SYSTEMS: &[&str] =
    &["kubernetes.io", "k8s.io", "openyurt.io", "openyurt", "alibabacloud.com", "longshore.dev"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// So much of each may one pool give.
const MOST: usize = 64;
/// Bytes of an annotation.
const LONGEST: usize = 4096;

/// Whether this is never a pool's to say.
pub(crate) fn is_reserved(key: &str) -> bool {
    RESERVED.contains(&key)
}

/// Everything that one pool gives to its members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributes {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
}

/// Whether a pool, of a tenant or of nobody, may say all this; if not, what is wrong, with its name.
pub(crate) fn check(spec: &NodePoolSpec, of_tenant: bool) -> Result<(), String> {
    let counts = [spec.labels.len(), spec.annotations.len(), spec.taints.len()];
    if counts.iter().any(|count| *count > MOST) {
        return Err(format!("a node pool has at most {MOST} labels, {MOST} annotations and {MOST} taints"));
    }
    spec.labels.iter().try_for_each(|(key, value)| label(key, value, of_tenant))?;
    spec.annotations.iter().try_for_each(|(key, value)| annotation(key, value, of_tenant))?;
    spec.taints.iter().try_for_each(|one| taint(one, of_tenant))
}

/// What a pool gives, as far as it may.
pub(crate) fn of(spec: &NodePoolSpec, of_tenant: bool) -> Attributes {
    let keep = |pairs: &BTreeMap<String, String>, check: fn(&str, &str, bool) -> Result<(), String>| {
        let allowed = pairs.iter().filter(|(key, value)| check(key, value, of_tenant).is_ok());
        allowed.take(MOST).map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let mut labels = keep(&spec.labels, label);
    if spec.host_network {
        labels.insert(HOST_NETWORK.to_owned(), "true".to_owned());
    }
    let taints = spec.taints.iter().filter(|one| taint(one, of_tenant).is_ok());
    let mut each: BTreeMap<(&str, &str), &Taint> = BTreeMap::new();
    each.extend(taints.take(MOST).map(|taint| ((taint.key.as_str(), taint.effect.as_str()), taint)));
    Attributes {
        labels,
        annotations: keep(&spec.annotations, annotation),
        taints: each.into_values().cloned().collect(),
    }
}

fn label(key: &str, value: &str, of_tenant: bool) -> Result<(), String> {
    allowed("label", key, of_tenant)?;
    if is_label_value(value) {
        Ok(())
    } else {
        Err(format!("label `{}`: its value cannot be one of a label", short(key)))
    }
}

fn annotation(key: &str, value: &str, of_tenant: bool) -> Result<(), String> {
    allowed("annotation", key, of_tenant)?;
    if value.len() <= LONGEST {
        Ok(())
    } else {
        Err(format!("annotation `{}`: its value is longer than {LONGEST} bytes", short(key)))
    }
}

fn taint(taint: &Taint, of_tenant: bool) -> Result<(), String> {
    allowed("taint", &taint.key, of_tenant)?;
    if !EFFECTS.contains(&taint.effect.as_str()) {
        return Err(format!("taint `{}`: its effect is one of {}", short(&taint.key), EFFECTS.join(", ")));
    }
    if taint.value.as_deref().is_none_or(is_label_value) {
        Ok(())
    } else {
        Err(format!("taint `{}`: its value cannot be one of a label", short(&taint.key)))
    }
}

fn allowed(what: &str, key: &str, of_tenant: bool) -> Result<(), String> {
    if !is_key(key) {
        return Err(format!("{what} `{}`: this is no name of a {what}", short(key)));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let within = |system: &&str| {
        prefix.strip_suffix(*system).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if is_reserved(key) || (of_tenant && SYSTEMS.iter().any(within)) {
        return Err(format!("{what} `{key}`: the system's, which no pool of yours can set"));
    }
    Ok(())
}

/// `prefix/name` or `name`, as Kubernetes has it.
fn is_key(key: &str) -> bool {
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

/// Empty, or up to 63 letters, digits, dashes, underscores and dots, the outer ones letters or digits.
pub(crate) fn is_label_value(value: &str) -> bool {
    let outer = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && outer(value.bytes().next())
        && outer(value.bytes().last())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn short(text: &str) -> String {
    domain::ids::shortened(text)
}

#[cfg(test)]
mod tests;
