//! The `ResourceQuota` plugin: limits the objects and resources of a namespace.
//!
//! Every write that changes the usage calls [`charge`], which rejects it or returns the changes of the
//! quotas' `status.used`. They are part of the write's transaction, so two concurrent writes cannot both
//! take the last of a resource. Concurrent charges are added up by the store ([`Rebase`]); only a write that
//! exceeds the quota then is repeated, and rejected.
//!
//! Invariant: after a commit, `used` is the usage of the namespace's objects as
//! counted at their own writes. Usage that changes by time alone (pods past their grace period) is found by [`status`],
//! which the quota controller calls.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, BTreeSet};

use domain::resources::resource_list::{self, ResourceField, ResourceList, count_quantity};
use domain::resources::{claim_usage, compute_resources, service_usage};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::errors::forbidden;
use super::{AdmissionRequest, Operation};
use crate::access::{items, text, texts};
use crate::error::Result;
use crate::quantity::Quantity;
use crate::store::{Change, Expect, Key, Object, Op, Rebase, Store};

const QUOTA_STORAGE: &str = "resourcequotas";
const STORAGE_CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

/// Compute resources that each container must specify if a quota counts them.
const REQUIRED_RESOURCES: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Returns the quota changes to commit together with this write, or its rejection. `new` is the object as
/// it will be stored; `None` if the write removes it.
pub fn charge(
    store: &Store,
    request: &AdmissionRequest<'_>,
    new: Option<&Value>,
    now: Timestamp,
) -> Result<Vec<Change>> {
    let storage = request.resource.storage.as_ref();
    let counted = matches!(request.subresource, "" | "status" | "resize") && storage != "events";
    if request.namespace.is_empty() || !counted {
        return Ok(Vec::new());
    }
    let quotas = store.list(QUOTA_STORAGE, Some(request.namespace)).objects;
    if let Some(new) = new
        && can_be_rejected(request, new)
        && storage == "pods"
    {
        // Pods without a required resource are rejected before any quota reports its usage.
        for quota in
            quotas.iter().map(|found| found.value()).filter(|quota| matches_scopes(quota, storage, new))
        {
            if let Some(lacking) = unspecified_resources(&resource_list::parse(&quota["spec"]["hard"]), new) {
                let name = text(&quota["metadata"], "name");
                return Err(forbidden(request, new, format!("failed quota: {name}: must specify {lacking}")));
            }
        }
    }
    let mut changes = Vec::new();
    for found in &quotas {
        // A quota that is itself written is not changed twice in one transaction.
        if storage == QUOTA_STORAGE && *found.name == *request.name {
            continue;
        }
        let mut quota = found.value();
        let charge = QuotaCharge::new(request, new, now, &quota);
        if charge.is_empty() {
            continue;
        }
        // A quota without usage is counted now, in the state before this write.
        let counted =
            if is_status_current(&quota) { quota["status"].clone() } else { status(store, &quota, now) };
        let status = charge.apply(&counted).map_err(|excess| {
            let name = text(&quota["metadata"], "name");
            forbidden(request, new.unwrap_or(&Value::Null), format!("exceeded quota: {name}, {excess}"))
        })?;
        if quota["status"] != status {
            quota["status"] = status;
            let rebase = charge.rebase(quota["spec"].clone());
            changes.push(Change {
                key: Key::new(&QUOTA_STORAGE.into(), request.namespace, &found.name),
                expect: Expect::Version(found.version),
                op: Op::Rebase(quota, rebase),
            });
        }
    }
    Ok(changes)
}

/// The usage of an object before and after a write.
struct QuotaCharge {
    before: ResourceList,
    after: ResourceList,
    /// The write is rejected if it exceeds the quota.
    can_be_rejected: bool,
}

impl QuotaCharge {
    fn new(request: &AdmissionRequest<'_>, new: Option<&Value>, now: Timestamp, quota: &Value) -> Self {
        let storage = request.resource.storage.as_ref();
        let of = |object: Option<&Value>| match object {
            Some(object) if matches_scopes(quota, storage, object) => usage(storage, object, now),
            _ => ResourceList::new(),
        };
        let (before, after) = (of(request.old), of(new));
        let refusable = new.is_some_and(|new| can_be_rejected(request, new)) && !after.is_empty();
        Self { before, after, can_be_rejected: refusable }
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// Returns `counted`, a quota's status, after the write; `Err` is the excess.
    fn apply(&self, counted: &Value) -> Result<Value, String> {
        let (hard, used) = (resource_list::parse(&counted["hard"]), resource_list::parse(&counted["used"]));
        if self.can_be_rejected
            && let Some(excess) = exceeded_resources(&hard, &used, &self.before, &self.after)
        {
            return Err(excess);
        }
        let mut updated = used;
        for name in hard.keys() {
            let (less, more) = (self.before.get(name), self.after.get(name));
            if less.is_none() && more.is_none() {
                continue;
            }
            let mut amount = updated.get(name).cloned().unwrap_or(Quantity::ZERO);
            if let Some(more) = more {
                amount = amount.add(more);
            }
            if let Some(less) = less {
                amount = amount.sub(less);
            }
            updated.insert(name.clone(), if amount.sign() < 0 { Quantity::ZERO } else { amount });
        }
        Ok(json!({ "hard": counted["hard"], "used": resource_list::to_json(&updated) }))
    }

    /// Charges a quota that other writes have charged concurrently.
    fn rebase(self, spec: Value) -> Rebase {
        Rebase::new(move |newest| {
            if newest["spec"] != spec || !is_status_current(newest) {
                return None;
            }
            let status = self.apply(&newest["status"]).ok()?;
            let mut quota = newest.clone();
            quota["status"] = status;
            Some(quota)
        })
    }
}

/// Whether the status belongs to the current spec.
fn is_status_current(quota: &Value) -> bool {
    let (hard, status) = (&quota["spec"]["hard"], &quota["status"]);
    status["hard"].is_object()
        && status["used"].is_object()
        && resource_list::parse(hard) == resource_list::parse(&status["hard"])
}

/// Whether a write can be rejected; others only change the usage.
fn can_be_rejected(request: &AdmissionRequest<'_>, new: &Value) -> bool {
    let limited_in_time = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
    match (request.resource.storage.as_ref(), request.subresource, request.operation) {
        (_, _, Operation::Delete) | (_, "status", _) => false,
        ("pods", "resize", _)
        | (_, "", Operation::Create)
        | ("services" | "persistentvolumeclaims", "", _) => true,
        ("pods", "", _) => request.old.is_some_and(|old| limited_in_time(old) != limited_in_time(new)),
        _ => false,
    }
}

/// `requests.cpu for: a,b; requests.memory for: a`
fn unspecified_resources(hard: &ResourceList, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let whole = &spec["resources"];
    if [ResourceField::Requests, ResourceField::Limits]
        .iter()
        .any(|side| !resource_list::parse(&whole[side.key()]).is_empty())
    {
        return None;
    }
    let mut lacking: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
        let resources = &container["resources"];
        let declared = compute_resources(
            &resource_list::parse(&resources["requests"]),
            &resource_list::parse(&resources["limits"]),
        );
        for name in REQUIRED_RESOURCES
            .into_iter()
            .filter(|name| hard.contains_key(*name) && !declared.contains_key(*name))
        {
            lacking.entry(name).or_default().insert(text(container, "name"));
        }
    }
    let parts = lacking.iter().map(|(name, containers)| {
        format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `requested: a=1, used: a=1, limited: a=1` for the exceeded resources.
fn exceeded_resources(
    hard: &ResourceList,
    used: &ResourceList,
    before: &ResourceList,
    after: &ResourceList,
) -> Option<String> {
    let mut lists = [Vec::new(), Vec::new(), Vec::new()];
    for (name, limit) in hard {
        let Some(wanted) = after.get(name) else { continue };
        let requested = before.get(name).map_or_else(|| wanted.clone(), |had| wanted.sub(had));
        let taken = used.get(name).cloned().unwrap_or(Quantity::ZERO);
        if requested.sign() <= 0 || taken.add(&requested) <= *limit {
            continue;
        }
        for (list, amount) in lists.iter_mut().zip([&requested, &taken, limit]) {
            list.push(format!("{name}={amount}"));
        }
    }
    let [requested, used, limited] = lists.map(|list| list.join(","));
    (!limited.is_empty()).then(|| format!("requested: {requested}, used: {used}, limited: {limited}"))
}

/// The usage of one object.
fn usage(storage: &str, object: &Value, now: Timestamp) -> ResourceList {
    let mut usage = ResourceList::from([(format!("count/{storage}"), count_quantity(1))]);
    match storage {
        "pods" if pod_uses_resources(object, now) => {
            let of = |side| resource_list::for_pod_with_overhead(object, side);
            usage.extend(compute_resources(&of(ResourceField::Requests), &of(ResourceField::Limits)));
            usage.insert("pods".to_owned(), count_quantity(1));
        }
        "services" => usage.extend(service_usage(object)),
        "persistentvolumeclaims" => usage.extend(claim_usage(object)),
        "configmaps" | "secrets" | "replicationcontrollers" | QUOTA_STORAGE => {
            usage.insert(storage.to_owned(), count_quantity(1));
        }
        _ => {}
    }
    usage
}

/// Finished pods and pods past their grace period only count as objects.
fn pod_uses_resources(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(&pod["status"], "phase"), "Failed" | "Succeeded") {
        return false;
    }
    let metadata = &pod["metadata"];
    let deleted: Option<Timestamp> = text(metadata, "deletionTimestamp").parse().ok();
    match (deleted, metadata["deletionGracePeriodSeconds"].as_i64()) {
        (Some(deleted), Some(grace)) => {
            let end = deleted.checked_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
            now <= end
        }
        _ => true,
    }
}

/// Whether an object matches all scopes of a quota. Only pods and claims have scopes.
fn matches_scopes(quota: &Value, storage: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let plain = texts(spec, "scopes").into_iter().map(|name| (name, "Exists".to_owned(), Vec::new()));
    let selected = items(&spec["scopeSelector"], "matchExpressions").iter().map(|term| {
        (text(term, "scopeName").to_owned(), text(term, "operator").to_owned(), texts(term, "values"))
    });
    plain.chain(selected).all(|(scope, operator, values)| match storage {
        "pods" => pod_matches_scope(object, &scope, &operator, &values),
        "persistentvolumeclaims" if scope == "VolumeAttributesClass" => {
            let status = &object["status"];
            let mut names: Vec<&str> = vec![
                text(&object["spec"], "volumeAttributesClassName"),
                text(status, "currentVolumeAttributesClassName"),
                text(&status["modifyVolumeStatus"], "targetVolumeAttributesClassName"),
            ];
            names.retain(|name| !name.is_empty());
            if names.is_empty() {
                return matches_scope_term(&operator, &values, "");
            }
            names.iter().any(|name| matches_scope_term(&operator, &values, name))
        }
        _ => false,
    })
}

fn pod_matches_scope(pod: &Value, scope: &str, operator: &str, values: &[String]) -> bool {
    let spec = &pod["spec"];
    let terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => matches_scope_term(operator, values, text(spec, "priorityClassName")),
        "CrossNamespacePodAffinity" => crosses_namespaces(&spec["affinity"]),
        _ => false,
    }
}

/// Evaluates a scope selector term for a name, which is empty if unset.
fn matches_scope_term(operator: &str, values: &[String], name: &str) -> bool {
    let among = values.iter().any(|value| value == name);
    match operator {
        "Exists" => !name.is_empty(),
        "DoesNotExist" => name.is_empty(),
        "In" => !name.is_empty() && among,
        "NotIn" => name.is_empty() || !among,
        _ => false,
    }
}

/// Whether no container requests cpu or memory.
fn is_best_effort(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let asks = |resources: &Value| {
        [ResourceField::Requests, ResourceField::Limits].iter().any(|side| {
            let list = resource_list::parse(&resources[side.key()]);
            ["cpu", "memory"].iter().any(|name| list.get(*name).is_some_and(|amount| amount.sign() > 0))
        })
    };
    let mut containers = items(spec, "containers").iter().chain(items(spec, "initContainers"));
    !asks(&spec["resources"]) && !containers.any(|container| asks(&container["resources"]))
}

fn crosses_namespaces(affinity: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let required = items(&affinity[kind], "requiredDuringSchedulingIgnoredDuringExecution").iter();
        let preferred = items(&affinity[kind], "preferredDuringSchedulingIgnoredDuringExecution").iter();
        required
            .chain(preferred.map(|weighted| &weighted["podAffinityTerm"]))
            .any(|term| !items(term, "namespaces").is_empty() || !term["namespaceSelector"].is_null())
    })
}

/// The status of a quota, counted from the objects of its namespace.
pub fn status(store: &Store, quota: &Value, now: Timestamp) -> Value {
    let hard = &quota["spec"]["hard"];
    let namespace = text(&quota["metadata"], "namespace");
    let wanted = resource_list::parse(hard);
    let mut used: ResourceList = wanted.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
    let storages: BTreeSet<&str> = wanted.keys().map(|name| storage_of_resource_name(name)).collect();
    for storage in storages {
        for object in store.list(storage, Some(namespace)).objects {
            let value = value_for_usage(storage, &object);
            if !matches_scopes(quota, storage, &value) {
                continue;
            }
            let mut taken = usage(storage, &value, now);
            taken.retain(|name, _| wanted.contains_key(name));
            resource_list::add(&mut used, &taken);
        }
    }
    json!({ "hard": hard, "used": resource_list::to_json(&used) })
}

/// Objects that are only counted are not parsed.
fn value_for_usage(storage: &str, object: &Object) -> Value {
    match storage {
        "pods" | "services" | "persistentvolumeclaims" => object.value(),
        _ => Value::Null,
    }
}

/// The storage whose objects a resource name of a quota counts.
fn storage_of_resource_name(name: &str) -> &str {
    match name {
        "services" | "services.nodeports" | "services.loadbalancers" => "services",
        "persistentvolumeclaims" | "requests.storage" => "persistentvolumeclaims",
        "configmaps" | "secrets" | "replicationcontrollers" | QUOTA_STORAGE => name,
        _ if name.contains(STORAGE_CLASS_SUFFIX) => "persistentvolumeclaims",
        _ => name.strip_prefix("count/").unwrap_or("pods"),
    }
}

#[cfg(test)]
mod tests;
