//! Server-side printing: objects as rows of a Table, for `kubectl get`.
//!
//! The resource table defines the columns; this module has the cells, in the same order, for every kind with
//! its own columns ([`PRINTERS`]). Columns of custom resources have JSON paths. Lists, single objects and
//! watches all use [`table`].

mod age;
mod cluster;
mod json_path;
mod network;
mod pod;
pub mod selector;
mod workloads;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use self::json_path::JsonPath;
use crate::rules::accessors::{items, non_empty_text, text};
use crate::schema::resources::{PrinterColumn, Resource};

/// The cells of one row.
pub type Cells = Vec<Value>;

type CellsFn = fn(&Value, Timestamp) -> Cells;

/// The row function of each kind. Other kinds show name and creation time.
#[rustfmt::skip]
const PRINTERS: &[(&str, &str, CellsFn)] = &[
    ("", "ConfigMap", cluster::config_map),
    ("", "Endpoints", network::endpoints),
    ("", "Event", cluster::event),
    ("", "Namespace", cluster::namespace),
    ("", "Node", cluster::node),
    ("", "PersistentVolume", cluster::persistent_volume),
    ("", "PersistentVolumeClaim", cluster::persistent_volume_claim),
    ("", "Pod", workloads::pod),
    ("", "PodTemplate", workloads::pod_template),
    ("", "ReplicationController", workloads::replication_controller),
    ("", "ResourceQuota", workloads::quota),
    ("", "Secret", cluster::secret),
    ("", "Service", network::service),
    ("", "ServiceAccount", cluster::name_and_age),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", cluster::admission_policy),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", cluster::policy_binding),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", cluster::webhooks),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", cluster::admission_policy),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", cluster::policy_binding),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", cluster::webhooks),
    ("apiregistration.k8s.io", "APIService", cluster::api_service),
    ("apps", "ControllerRevision", workloads::controller_revision),
    ("apps", "DaemonSet", workloads::daemon_set),
    ("apps", "Deployment", workloads::deployment),
    ("apps", "ReplicaSet", workloads::replica_set),
    ("apps", "StatefulSet", workloads::stateful_set),
    ("autoscaling", "HorizontalPodAutoscaler", workloads::autoscaler),
    ("autoscaling", "Scale", workloads::scale),
    ("batch", "CronJob", workloads::cron_job),
    ("batch", "Job", workloads::job),
    ("certificates.k8s.io", "CertificateSigningRequest", cluster::signing_request),
    ("coordination.k8s.io", "Lease", cluster::lease),
    ("discovery.k8s.io", "EndpointSlice", network::endpoint_slice),
    ("events.k8s.io", "Event", cluster::event),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", cluster::flow_schema),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", cluster::priority_level),
    ("networking.k8s.io", "IPAddress", network::ip_address),
    ("networking.k8s.io", "Ingress", network::ingress),
    ("networking.k8s.io", "IngressClass", network::ingress_class),
    ("networking.k8s.io", "NetworkPolicy", network::network_policy),
    ("networking.k8s.io", "ServiceCIDR", network::service_cidr),
    ("node.k8s.io", "RuntimeClass", cluster::runtime_class),
    ("policy", "PodDisruptionBudget", workloads::disruption_budget),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", cluster::binding),
    ("rbac.authorization.k8s.io", "RoleBinding", cluster::binding),
    ("resource.k8s.io", "DeviceClass", cluster::name_and_age),
    ("resource.k8s.io", "ResourceClaim", cluster::resource_claim),
    ("resource.k8s.io", "ResourceClaimTemplate", cluster::name_and_age),
    ("resource.k8s.io", "ResourceSlice", cluster::resource_slice),
    ("scheduling.k8s.io", "PriorityClass", workloads::priority_class),
    ("storage.k8s.io", "CSIDriver", cluster::csi_driver),
    ("storage.k8s.io", "CSINode", cluster::csi_node),
    ("storage.k8s.io", "StorageClass", cluster::storage_class_row),
    ("storage.k8s.io", "VolumeAttachment", cluster::volume_attachment),
    ("storage.k8s.io", "VolumeAttributesClass", cluster::volume_attributes_class),
];

/// The cells of `object` in the order of the resource's columns. The object may have any served
/// version; an autoscaler in version 1 shows only that version's fields.
pub fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Cells {
    if resource.is_custom() {
        return custom_cells(&resource.columns, object, now);
    }
    cells_fn(&resource.group, &resource.kind)(object, now)
}

fn cells_fn(group: &str, kind: &str) -> CellsFn {
    let found = PRINTERS.iter().find(|(g, k, _)| *g == group && *k == kind);
    found.map_or(cluster::name_and_time, |(_, _, row)| *row)
}

/// The name, then the value of each column's path.
fn custom_cells(columns: &[PrinterColumn], object: &Value, now: Timestamp) -> Cells {
    let cell = |column: &PrinterColumn| {
        let path = JsonPath::parse(&column.json_path);
        path.and_then(|path| path.first(object).map(|found| custom_cell(&column.ty, found, now)))
    };
    let own = columns.iter().skip(1).map(|column| cell(column).unwrap_or_default());
    std::iter::once(name(object)).chain(own).collect()
}

/// A value of a wrong type for its column is shown as null; a string column shows any value.
fn custom_cell(ty: &str, found: &Value, now: Timestamp) -> Value {
    match (ty, found) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => {
            found.clone()
        }
        ("string", Value::Null) => "<no value>".into(),
        ("string", _) => found.to_string().into(),
        #[expect(clippy::cast_possible_truncation, reason = "an integer column cuts fractions off")]
        ("integer", Value::Number(n)) => n.as_i64().or(n.as_f64().map(|n| n as i64)).into(),
        ("date", Value::String(at)) if at.is_empty() => "<unknown>".into(),
        ("date", Value::String(_)) => age::parse_time(found)
            .map_or_else(|| "<invalid>".to_owned(), |_| age::age_since(found, now))
            .into(),
        _ => Value::Null,
    }
}

/// The object in a row (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the query parameter; `None` for an invalid value.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// Options of a Table.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions<'a> {
    pub include: IncludeObject,
    /// `v1` or `v1beta1`, from the Accept header.
    pub version: &'a str,
    /// Whether to describe the columns; in a watch only the first event does.
    pub headers: bool,
}

/// A Table of `objects`. `list_meta` is the list's `metadata`; for a single object, alone or in a watch
/// event, it is `{"resourceVersion": ...}`.
pub fn table<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Value>,
    list_meta: &Value,
    form: TableOptions<'_>,
    now: Timestamp,
) -> Value {
    let rows: Vec<_> = objects.into_iter().map(|object| table_row(resource, object, form, now)).collect();
    let columns = form.headers.then(|| resource.columns.iter().map(column_definition).collect::<Vec<_>>());
    // Without a printer for the kind, Go writes an empty list of rows as null.
    let plain = !resource.is_custom() && resource.columns.iter().any(|c| c.name.as_ref() == "Created At");
    let rows = if rows.is_empty() && plain { Value::Null } else { rows.into() };
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", form.version), "metadata": list_meta,
        "columnDefinitions": columns, "rows": rows,
    })
}

/// The Table of a single object.
pub fn single_object_table(
    resource: &Resource,
    object: &Value,
    form: TableOptions<'_>,
    now: Timestamp,
) -> Value {
    let list_meta = match object["metadata"].get("resourceVersion") {
        Some(version) => json!({"resourceVersion": version}),
        None => json!({}), // of a dry run
    };
    table(resource, [object], &list_meta, form, now)
}

/// The Table of the Scale of an object of `parent`.
pub fn scale_table(parent: &Resource, scale: &Value, form: TableOptions<'_>, now: Timestamp) -> Value {
    const OWN: [(&str, &str, &str); 4] = [
        ("Name", "string", ""),
        ("Desired", "integer", ""),
        ("Available", "integer", ""),
        ("Age", "string", ""),
    ];
    const CUSTOM: [(&str, &str, &str); 2] = [("Name", "string", "name"), ("Created At", "date", "")];
    let columns: &[_] = if parent.is_custom() { &CUSTOM } else { &OWN };
    let column = |(name, ty, format): &(&str, &str, &str)| PrinterColumn {
        name: (*name).into(),
        ty: (*ty).into(),
        format: (*format).into(),
        description: "".into(),
        priority: 0,
        json_path: "".into(),
    };
    let shown = Resource {
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: if parent.is_custom() { "" } else { "Scale" }.into(),
        columns: columns.iter().map(column).collect(),
        custom: None,
        ..parent.clone()
    };
    single_object_table(&shown, scale, form, now)
}

/// Annotations that represent fields missing in a version. `PartialObjectMetadata` omits them,
/// as Kubernetes does.
const COMPATIBILITY_ANNOTATIONS: &[&str] = &[
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
    "deprecated.daemonset.template.generation",
];

/// `PartialObjectMetadata`, as metadata-only caches of controllers request it.
pub fn partial_object_metadata(object: &Value, version: &str) -> Value {
    let mut metadata = object["metadata"].clone();
    if let Some(fields) = metadata.as_object_mut()
        && let Some(Value::Object(annotations)) = fields.get_mut("annotations")
    {
        annotations.retain(|name, _| !COMPATIBILITY_ANNOTATIONS.contains(&name.as_str()));
        if annotations.is_empty() {
            fields.remove("annotations");
        }
    }
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
    })
}

fn column_definition(column: &PrinterColumn) -> Value {
    json!({
        "name": column.name, "type": column.ty, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

pub fn table_row(resource: &Resource, object: &Value, form: TableOptions<'_>, now: Timestamp) -> Value {
    let carried = match form.include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(object, form.version),
        IncludeObject::Object => {
            let mut whole = object.as_object().cloned().unwrap_or_default();
            whole.entry("kind").or_insert_with(|| resource.kind.as_ref().into());
            whole.entry("apiVersion").or_insert_with(|| resource.api_version().into());
            Value::Object(whole)
        }
    };
    let mut row = Map::new();
    row.insert("cells".to_owned(), self::cells(resource, object, now).into());
    row.insert("object".to_owned(), carried);
    if let Some(ended) = completed_pod_condition(resource, object) {
        row.insert("conditions".to_owned(), json!([ended]));
    }
    Value::Object(row)
}

/// The row condition of a terminated pod, by which clients can hide it.
fn completed_pod_condition(resource: &Resource, object: &Value) -> Option<Value> {
    if resource.kind.as_ref() != "Pod" || !resource.group.is_empty() {
        return None;
    }
    let (reason, message) = match text(&object["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    age::age_since(&object["metadata"]["creationTimestamp"], now).into()
}

/// The string, or `otherwise` if empty.
fn text_or_default(value: &Value, otherwise: &str) -> Value {
    non_empty_text(value).unwrap_or(otherwise).into()
}

/// The status of the condition `kind`, if the object has it.
fn condition_status<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let found = items(&status["conditions"]).iter().find(|condition| text(&condition["type"]) == kind);
    found.map(|condition| text(&condition["status"]))
}

/// The name, with a mark if one of these annotations makes the object the default of its kind.
fn name_with_default_marker(object: &Value, annotations: &[&str]) -> Value {
    let set = |key: &&str| text(&object["metadata"]["annotations"][*key]) == "true";
    let mark = if annotations.iter().any(set) { " (default)" } else { "" };
    format!("{}{mark}", text(&object["metadata"]["name"])).into()
}

#[cfg(test)]
mod tests;
