//! Rows of cluster-level kinds: nodes, storage, RBAC, admission.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::age::{age_since, human_duration};
use super::{Cells, age, condition_status, name, name_with_default_marker, text_or_default};
use crate::rules::accessors::{
    bool_or_false, entries, int, is_empty_value, items, non_empty_text, text, texts,
};
use crate::rules::events;

pub fn config_map(object: &Value, now: Timestamp) -> Cells {
    let keys = entries(&object["data"]).count() + entries(&object["binaryData"]).count();
    vec![name(object), keys.into(), age(object, now)]
}

pub fn secret(object: &Value, now: Timestamp) -> Cells {
    let keys = entries(&object["data"]).count();
    vec![name(object), text(&object["type"]).into(), keys.into(), age(object, now)]
}

/// Kinds with only a name and an age.
pub fn name_and_age(object: &Value, now: Timestamp) -> Cells {
    vec![name(object), age(object, now)]
}

/// Kinds without columns: name and creation timestamp, unformatted.
pub fn name_and_time(object: &Value, _: Timestamp) -> Cells {
    vec![name(object), text(&object["metadata"]["creationTimestamp"]).into()]
}

pub fn namespace(object: &Value, now: Timestamp) -> Cells {
    vec![name(object), text(&object["status"]["phase"]).into(), age(object, now)]
}

pub fn node(node: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&node["spec"], &node["status"]);
    let mut state = match condition_status(status, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if bool_or_false(&spec["unschedulable"]) {
        state.push_str(",SchedulingDisabled");
    }
    let role = |(key, value): (&'_ String, &'_ Value)| -> Option<String> {
        let named = key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty());
        let own = non_empty_text(value).filter(|_| key == "kubernetes.io/role");
        named.or(own).map(ToOwned::to_owned)
    };
    let roles: BTreeSet<_> = entries(&node["metadata"]["labels"]).filter_map(role).collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    let address = |kind: &str| -> Value {
        let found = items(&status["addresses"]).iter().find(|address| text(&address["type"]) == kind);
        found.map_or("<none>", |address| text(&address["address"])).into()
    };
    let info = &status["nodeInfo"];
    let kernel = non_empty_text(&info["kernelVersion"]).unwrap_or("<unknown>");
    let kernel = match non_empty_text(&info["architecture"]) {
        Some(architecture) => format!("{kernel} ({architecture})"),
        None => kernel.to_owned(),
    };
    vec![
        name(node),
        state.into(),
        if roles.is_empty() { "<none>".into() } else { roles.into() },
        age(node, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        text_or_default(&info["osImage"], "<unknown>"),
        kernel.into(),
        text_or_default(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

/// Formats access modes as `RWO,ROX`: each once, in Kubernetes' order.
fn access_modes(modes: &Value) -> String {
    const SHORT: &[(&str, &str)] = &[
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let held = SHORT.iter().filter(|(long, _)| texts(modes).any(|mode| mode == *long));
    held.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn storage_class_name(object: &Value) -> &str {
    let old = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    old.unwrap_or_else(|| text(&object["spec"]["storageClassName"]))
}

/// The phase, or `Terminating` if the object is being deleted.
fn phase(object: &Value) -> Value {
    let leaving = !object["metadata"]["deletionTimestamp"].is_null();
    if leaving { "Terminating" } else { text(&object["status"]["phase"]) }.into()
}

fn storage_quantity(amounts: &Value) -> &str {
    non_empty_text(&amounts["storage"]).unwrap_or("0")
}

pub fn persistent_volume(volume: &Value, now: Timestamp) -> Cells {
    let spec = &volume["spec"];
    let claim = &spec["claimRef"];
    let claim = if claim.is_null() {
        String::new()
    } else {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    };
    vec![
        name(volume),
        storage_quantity(&spec["capacity"]).into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(volume),
        claim.into(),
        storage_class_name(volume).into(),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        text(&volume["status"]["reason"]).into(),
        age(volume, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

pub fn persistent_volume_claim(claim: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let bound = !is_empty_value(&spec["volumeName"]);
    let (capacity, modes) = if bound {
        (storage_quantity(&status["capacity"]), access_modes(&status["accessModes"]))
    } else {
        ("", String::new())
    };
    vec![
        name(claim),
        phase(claim),
        text(&spec["volumeName"]).into(),
        capacity.into(),
        modes.into(),
        storage_class_name(claim).into(),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        age(claim, now),
        spec["volumeMode"].as_str().unwrap_or("<unset>").into(),
    ]
}

pub fn event(event: &Value, now: Timestamp) -> Cells {
    let mut core = event.clone();
    if core.get("regarding").is_some() || text(&core["apiVersion"]).starts_with("events.k8s.io/") {
        events::to_core(&mut core);
    }
    let series = &core["series"];
    let first = [&core["firstTimestamp"], &core["eventTime"]].into_iter().find(|at| !at.is_null());
    let first = age_since(first.unwrap_or(&Value::Null), now);
    let (last, count) = if series.is_null() {
        let last = &core["lastTimestamp"];
        let last = if last.is_null() { first.clone() } else { age_since(last, now) };
        (last, int(&core["count"]).max(i64::from(int(&core["count"]) == 0)))
    } else {
        (age_since(&series["lastObservedTime"], now), int(&series["count"]))
    };
    let about = &core["involvedObject"];
    let kind = text(&about["kind"]).to_lowercase();
    let target = non_empty_text(&about["name"]).map_or_else(|| kind.clone(), |name| format!("{kind}/{name}"));
    let component =
        non_empty_text(&core["source"]["component"]).unwrap_or_else(|| text(&core["reportingComponent"]));
    let instance =
        non_empty_text(&core["source"]["host"]).unwrap_or_else(|| text(&core["reportingInstance"]));
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        text(&core["type"]).into(),
        text(&core["reason"]).into(),
        target.into(),
        text(&about["fieldPath"]).into(),
        source.into(),
        text(&core["message"]).trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

pub fn binding(binding: &Value, now: Timestamp) -> Cells {
    let role = &binding["roleRef"];
    let subjects = |kind: &str| {
        let of_kind = items(&binding["subjects"]).iter().filter(|subject| text(&subject["kind"]) == kind);
        let shown = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(binding),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub fn signing_request(request: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&request["spec"], &request["status"]);
    let has = |kind: &str| condition_status(status, kind).is_some();
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !is_empty_value(&status["certificate"]) {
        state.push_str(",Issued");
    }
    let duration = spec["expirationSeconds"].as_i64().map(|s| human_duration(SignedDuration::from_secs(s)));
    vec![
        name(request),
        age(request, now),
        text_or_default(&spec["signerName"], "<none>"),
        text(&spec["username"]).into(),
        duration.unwrap_or_else(|| "<none>".to_owned()).into(),
        state.into(),
    ]
}

pub fn lease(lease: &Value, now: Timestamp) -> Cells {
    vec![name(lease), text(&lease["spec"]["holderIdentity"]).into(), age(lease, now)]
}

pub fn storage_class_row(class: &Value, now: Timestamp) -> Cells {
    let default = name_with_default_marker(
        class,
        &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
    );
    vec![
        default,
        text(&class["provisioner"]).into(),
        text_or_default(&class["reclaimPolicy"], "Delete"),
        text_or_default(&class["volumeBindingMode"], "Immediate"),
        bool_or_false(&class["allowVolumeExpansion"]).into(),
        age(class, now),
    ]
}

pub fn volume_attributes_class(class: &Value, now: Timestamp) -> Cells {
    vec![name(class), text(&class["driverName"]).into(), age(class, now)]
}

pub fn volume_attachment(object: &Value, now: Timestamp) -> Cells {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        bool_or_false(&object["status"]["attached"]).into(),
        age(object, now),
    ]
}

pub fn csi_node(object: &Value, now: Timestamp) -> Cells {
    vec![name(object), items(&object["spec"]["drivers"]).len().into(), age(object, now)]
}

pub fn csi_driver(driver: &Value, now: Timestamp) -> Cells {
    let spec = &driver["spec"];
    let audiences = spec["tokenRequests"].as_array().map(|requests| {
        requests.iter().map(|request| text(&request["audience"])).collect::<Vec<_>>().join(",")
    });
    let modes = texts(&spec["volumeLifecycleModes"]).collect::<Vec<_>>().join(",");
    vec![
        name(driver),
        spec["attachRequired"].as_bool().unwrap_or(true).into(),
        bool_or_false(&spec["podInfoOnMount"]).into(),
        bool_or_false(&spec["storageCapacity"]).into(),
        audiences.unwrap_or_else(|| "<unset>".to_owned()).into(),
        bool_or_false(&spec["requiresRepublish"]).into(),
        if modes.is_empty() { "<none>".into() } else { modes.into() },
        age(driver, now),
    ]
}

pub fn webhooks(object: &Value, now: Timestamp) -> Cells {
    vec![name(object), items(&object["webhooks"]).len().into(), age(object, now)]
}

/// `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`.
pub fn admission_policy(policy: &Value, now: Timestamp) -> Cells {
    let spec = &policy["spec"];
    let rules = items(&spec["validations"]).len() + items(&spec["mutations"]).len();
    let kind = &spec["paramKind"];
    let kind = if kind.is_null() {
        "<unset>".to_owned()
    } else {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    };
    vec![name(policy), rules.into(), kind.into(), age(policy, now)]
}

pub fn policy_binding(binding: &Value, now: Timestamp) -> Cells {
    let reference = &binding["spec"]["paramRef"];
    let shown = match (non_empty_text(&reference["name"]), non_empty_text(&reference["namespace"])) {
        (Some(name), Some(namespace)) => format!("{namespace}/{name}"),
        (Some(name), None) => format!("*/{name}"),
        (None, _) if !reference["selector"].is_null() => go_selector(&reference["selector"]),
        (None, _) => "<unset>".to_owned(),
    };
    vec![name(binding), text(&binding["spec"]["policyName"]).into(), shown.into(), age(binding, now)]
}

/// A selector in the format of Go's protobuf, used by this column only.
fn go_selector(selector: &Value) -> String {
    let labels = entries(&selector["matchLabels"]).map(|(key, value)| format!("{key}: {},", text(value)));
    let expressions = items(&selector["matchExpressions"]).iter().map(|expression| {
        let values = texts(&expression["values"]).collect::<Vec<_>>().join(" ");
        let (key, operator) = (text(&expression["key"]), text(&expression["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

pub fn runtime_class(class: &Value, now: Timestamp) -> Cells {
    vec![name(class), text(&class["handler"]).into(), age(class, now)]
}

pub fn api_service(service: &Value, now: Timestamp) -> Cells {
    let target = &service["spec"]["service"];
    let target = if target.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", text(&target["namespace"]), text(&target["name"]))
    };
    let conditions = items(&service["status"]["conditions"]).iter();
    let available = conditions.filter(|condition| text(&condition["type"]) == "Available").map(|condition| {
        let status = text(&condition["status"]);
        match non_empty_text(&condition["reason"]) {
            Some(reason) if status != "True" => format!("{status} ({reason})"),
            _ => status.to_owned(),
        }
    });
    let available = available.take(1).next().unwrap_or_else(|| "Unknown".to_owned());
    vec![name(service), target.into(), available.into(), age(service, now)]
}

pub fn flow_schema(schema: &Value, now: Timestamp) -> Cells {
    let spec = &schema["spec"];
    let dangling = condition_status(&schema["status"], "Dangling").unwrap_or("?");
    vec![
        name(schema),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        int(&spec["matchingPrecedence"]).into(),
        text_or_default(&spec["distinguisherMethod"]["type"], "<none>"),
        age(schema, now),
        dangling.into(),
    ]
}

pub fn priority_level(level: &Value, now: Timestamp) -> Cells {
    let spec = &level["spec"];
    let limited = &spec["limited"];
    let queuing = &limited["limitResponse"]["queuing"];
    let number = |within: &Value, field: &str| {
        if within.is_null() { Value::from("<none>") } else { int(&within[field]).into() }
    };
    vec![
        name(level),
        text(&spec["type"]).into(),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(level, now),
    ]
}

pub fn resource_claim(claim: &Value, now: Timestamp) -> Cells {
    let leaving = !claim["metadata"]["deletionTimestamp"].is_null();
    let allocated = !claim["status"]["allocation"].is_null();
    let reserved = allocated && !is_empty_value(&claim["status"]["reservedFor"]);
    let states = [
        (leaving, "deleted"),
        (!allocated && !leaving, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let held: Vec<_> = states.iter().filter(|(holds, _)| *holds).map(|(_, state)| *state).collect();
    vec![name(claim), held.join(",").into(), age(claim, now)]
}

pub fn resource_slice(slice: &Value, now: Timestamp) -> Cells {
    let spec = &slice["spec"];
    vec![
        name(slice),
        text(&spec["nodeName"]).into(),
        text(&spec["driver"]).into(),
        text(&spec["pool"]["name"]).into(),
        age(slice, now),
    ]
}
