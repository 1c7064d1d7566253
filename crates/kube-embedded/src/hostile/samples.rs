//! Generated requests: for every list and map field of every built-in kind, an object with many elements in it.
//!
//! The fields come from the schema. Each distinct field of each type occurs once, in the first kind that contains it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::schema::builtin;
use crate::schema::resources::Resource;
use crate::schema::types::{ListMerge, Shape, TypeRef};

/// Name of the object for updates and patches.
pub const EXISTING: &str = "existing";

/// The content of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Required fields, with different names.
    Distinct,
    /// Required fields, all equal.
    Identical,
    /// All fields; booleans are true.
    AllFields,
    /// Strings of unprintable characters.
    ControlCharacters,
    /// One element, with strings of unprintable characters as long as all elements together.
    Huge,
}

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Create,
    /// Creates with the field and the next one of the kind, each with half of the elements.
    CreatePair,
    Apply,
    Replace,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    /// A merge patch of the status.
    Status,
}

/// All variants of a field in the full-size run.
pub const VARIANTS: &[(RequestKind, Fill)] = &[
    (RequestKind::Create, Fill::Identical),
    (RequestKind::Create, Fill::AllFields),
    (RequestKind::Create, Fill::ControlCharacters),
    (RequestKind::Create, Fill::Huge),
    (RequestKind::CreatePair, Fill::Distinct),
    (RequestKind::Replace, Fill::Distinct),
    (RequestKind::JsonPatch, Fill::Distinct),
    (RequestKind::MergePatch, Fill::Distinct),
    (RequestKind::StrategicPatch, Fill::Distinct),
];

pub struct SampleRequest {
    pub method: &'static str,
    pub path: String,
    pub media: &'static str,
    pub body: Vec<u8>,
}

/// One step of a path into an object.
#[derive(Clone, Debug)]
pub enum PathStep {
    Field(String),
    Element,
    Entry,
}

/// A list or map field of a kind.
pub struct ListField {
    pub resource: Resource,
    steps: Vec<PathStep>,
    pub is_associative: bool,
    /// Whether it is below the root's `status`.
    pub is_status: bool,
}

impl ListField {
    pub fn name(&self) -> String {
        let mut name = self.resource.kind.to_string();
        for step in &self.steps {
            match step {
                PathStep::Field(field) => name = format!("{name}.{field}"),
                PathStep::Element => name.push_str("[]"),
                PathStep::Entry => name.push_str("{}"),
            }
        }
        name
    }

    /// A hash of the name, stable across runs.
    pub fn hash(&self) -> usize {
        self.name().bytes().fold(0, |hash: usize, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    }

    /// The variant that the short run tests in addition to `(Create, Distinct)`, chosen by hash.
    pub fn variant(&self) -> (RequestKind, Fill) {
        VARIANTS[self.hash() % VARIANTS.len()]
    }

    /// Returns a dry run with `count` elements in this field.
    pub fn request(&self, next: &Self, kind: RequestKind, fill: Fill, count: usize) -> SampleRequest {
        let kind = if self.is_status { RequestKind::Status } else { kind };
        let mut object = valid_object(&self.resource);
        if kind == RequestKind::CreatePair && next.resource.kind == self.resource.kind && !next.is_status {
            next.fill(&mut object, count / 2, fill);
            self.fill(&mut object, count / 2, fill);
        } else {
            self.fill(&mut object, count, fill);
        }
        let objects_path = collection_path(&self.resource);
        let create_request = |body: Value| SampleRequest {
            method: "POST",
            path: format!("{objects_path}?dryRun=All"),
            media: "application/json",
            body: body.to_string().into_bytes(),
        };
        if matches!(kind, RequestKind::Create | RequestKind::CreatePair) {
            return create_request(object);
        }
        let patch_request = |media, mut body: Value| {
            if body.is_object() {
                body["metadata"]["name"] = EXISTING.into();
            }
            let path = format!("{objects_path}/{EXISTING}?dryRun=All&fieldManager=me");
            SampleRequest { method: "PATCH", path, media, body: body.to_string().into_bytes() }
        };
        match kind {
            RequestKind::Create | RequestKind::CreatePair => create_request(object),
            RequestKind::Apply => {
                let path = format!("{objects_path}/a?dryRun=All&fieldManager=me&force=true");
                let body = object.to_string().into_bytes();
                SampleRequest { method: "PATCH", path, media: "application/apply-patch+yaml", body }
            }
            RequestKind::Replace => {
                let replaced = patch_request("application/json", object);
                SampleRequest { method: "PUT", ..replaced }
            }
            RequestKind::MergePatch => patch_request("application/merge-patch+json", object),
            RequestKind::StrategicPatch => patch_request("application/strategic-merge-patch+json", object),
            RequestKind::JsonPatch => patch_request("application/json-patch+json", to_json_patch(&object)),
            RequestKind::Status => {
                let body = json!({"status": object["status"]}).to_string().into_bytes();
                let path = format!("{objects_path}/{EXISTING}/status?dryRun=All");
                SampleRequest { method: "PATCH", path, media: "application/merge-patch+json", body }
            }
        }
    }

    /// Adds `count` elements to this field.
    fn fill(&self, object: &mut Value, count: usize, fill: Fill) {
        let (mut ty, mut at) = (self.resource.root_type(), object);
        for step in &self.steps {
            ty = match step {
                PathStep::Field(name) => ty.child(name).expect("a step is a field"),
                PathStep::Entry => ty.child("a").expect("a step is an entry"),
                PathStep::Element => ty.element().expect("a step is an element"),
            };
            let missing = |value: &Value| value.is_null();
            at = match step {
                PathStep::Field(name) => &mut at[name.as_str()],
                PathStep::Entry => &mut at["a"],
                PathStep::Element => {
                    if at.as_array().is_none_or(Vec::is_empty) {
                        *at = json!([null]);
                    }
                    &mut at[0]
                }
            };
            if missing(at) {
                *at = Sampler { fill: Fill::Distinct, text: "" }.value(ty, "", 0, 0);
            }
        }
        let text = match fill {
            Fill::Huge => "\u{7f}".repeat(count.saturating_mul(HUGE_FACTOR)),
            _ => "\u{1}\u{7f}".repeat(10),
        };
        let sampler = Sampler { fill, text: &text };
        let count = if fill == Fill::Huge { 1 } else { count };
        let element_number = |i: usize| if fill == Fill::Identical { 0 } else { i };
        *at = match ty.shape() {
            Shape::Map(map) => {
                let value = ty.with_id(map.value);
                Value::Object(
                    (0..count)
                        .map(|i| {
                            let is_bad = matches!(fill, Fill::ControlCharacters | Fill::Huge);
                            let key = if is_bad { format!("{text}{i}") } else { format!("k{i}") };
                            (key, sampler.value(value, "", element_number(i), 0))
                        })
                        .collect(),
                )
            }
            Shape::List(list) => {
                let element = ty.with_id(list.element);
                (0..count).map(|i| sampler.value(element, "", element_number(i), 0)).collect()
            }
            other => unreachable!("a target is a list or a map, not {other:?}"),
        };
    }
}

/// The collection path of a kind.
pub fn collection_path(resource: &Resource) -> String {
    let Resource { group, version, name, namespaced, .. } = resource;
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if *namespaced { format!("{root}/namespaces/default/{name}") } else { format!("{root}/{name}") }
}

/// A JSON patch that sets the fields of `object`.
fn to_json_patch(object: &Value) -> Value {
    let add = |path: String, value: &Value| json!({"op": "add", "path": path, "value": value});
    let mut operations = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let fields = value.as_object().into_iter().flatten().filter(|(field, _)| *field != "name");
                operations.extend(fields.map(|(field, value)| add(format!("/metadata/{field}"), value)));
            }
            _ => operations.push(add(format!("/{name}"), value)),
        }
    }
    Value::Array(operations)
}

/// Returns a valid object of a kind. Workloads and Services are written by hand: a generated one would fail early and skip later rules.
pub fn valid_object(resource: &Resource) -> Value {
    let pod = json!({"containers": [{"name": "a", "image": "a"}]});
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let selector = json!({"matchLabels": labels});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let body = match &*resource.kind {
        "Pod" => json!({"spec": pod}),
        "PodTemplate" => json!({"template": template}),
        "Deployment" | "ReplicaSet" | "DaemonSet" => {
            json!({"spec": {"selector": selector, "template": template}})
        }
        "StatefulSet" => json!({"spec": {"serviceName": "a", "selector": selector, "template": template}}),
        "ReplicationController" => json!({"spec": {"selector": labels, "template": template}}),
        "Job" => json!({"spec": {"template": once}}),
        "CronJob" => json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "Secret" | "ConfigMap" | "ServiceAccount" | "Role" | "ClusterRole" => json!({}),
        _ => Sampler { fill: Fill::Distinct, text: "" }.value(resource.root_type(), "", 0, 0),
    };
    let mut object = body;
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_ref().into();
    object["metadata"] = json!({"name": "a"});
    object
}

/// Bytes of a huge string per element that it replaces.
const HUGE_FACTOR: usize = 12;

/// Generates values of a type.
struct Sampler<'a> {
    fill: Fill,
    text: &'a str,
}

impl Sampler<'_> {
    /// The `i`th value of a type, with its required fields.
    fn value(&self, ty: TypeRef<'_>, field: &str, i: usize, depth: usize) -> Value {
        let fixed_value = match field {
            "protocol" => json!("TCP"),
            "operator" => json!("Exists"),
            "whenUnsatisfiable" => json!("DoNotSchedule"),
            "effect" => json!("NoSchedule"),
            "operation" => json!("Update"),
            "fieldsType" => json!("FieldsV1"),
            "fieldsV1" => json!({"f:data": {}}),
            "apiVersion" => json!("v1"),
            "containerPort" | "port" => json!(i % 65_535 + 1),
            "mountPath" | "devicePath" => json!(format!("/d{i}")),
            "ip" => json!(format!("10.{}.{}.{}", i >> 16 & 255, i >> 8 & 255, i & 255)),
            "status" if matches!(ty.shape(), Shape::String) => json!("True"),
            _ => Value::Null,
        };
        if !fixed_value.is_null() {
            return fixed_value;
        }
        match ty.shape() {
            Shape::String if matches!(self.fill, Fill::ControlCharacters | Fill::Huge) => {
                json!(format!("{}{i}", self.text))
            }
            Shape::String => json!(format!("n{i}")),
            Shape::Int32 | Shape::Int64 => json!(i % 1000 + 1),
            Shape::Double => json!(1.5),
            Shape::Bool => json!(true),
            Shape::Bytes => json!("YQ=="),
            Shape::Time => json!("2026-01-02T03:04:05Z"),
            Shape::MicroTime => json!("2026-01-02T03:04:05.000000Z"),
            Shape::Duration => json!("1s"),
            Shape::Quantity => json!("1"),
            Shape::IntOrString => json!(1),
            Shape::Any | Shape::Map(_) => json!({}),
            Shape::List(_) => json!([]),
            Shape::Struct(_) if depth > 4 => json!({}),
            Shape::Struct(body) => {
                const IDENTIFYING_FIELDS: &[&str] = &[
                    "name",
                    "key",
                    "manager",
                    "operation",
                    "apiVersion",
                    "fieldsType",
                    "fieldsV1",
                    "operator",
                ];
                let is_complete = self.fill == Fill::AllFields && depth < 2;
                let is_included = |name: &str, required: bool| {
                    is_complete || required || IDENTIFYING_FIELDS.contains(&name)
                };
                let fields = body.fields.iter().filter(|f| is_included(&f.name, f.required));
                let fields: Map<_, _> = fields
                    .map(|f| (f.name.to_string(), self.value(ty.with_id(f.ty), &f.name, i, depth + 1)))
                    .collect();
                Value::Object(fields)
            }
        }
    }
}

/// Returns every list and map field, once per type that contains it.
pub fn list_fields() -> Vec<ListField> {
    fn walk(
        resource: &Resource,
        ty: TypeRef<'_>,
        steps: &[PathStep],
        is_status: bool,
        seen: &mut HashSet<(String, String)>,
        found: &mut Vec<ListField>,
    ) {
        let Shape::Struct(body) = ty.shape() else { return };
        for field in &body.fields {
            if steps.is_empty() && (field.name.as_ref() == "status") != is_status {
                continue;
            }
            if !seen.insert((ty.name().to_owned(), field.name.to_string())) {
                continue;
            }
            let mut steps = steps.to_vec();
            steps.push(PathStep::Field(field.name.to_string()));
            let below = ty.with_id(field.ty);
            let (inner, step, is_associative) = match below.shape() {
                Shape::List(list) => {
                    (below.with_id(list.element), Some(PathStep::Element), list.merge != ListMerge::Atomic)
                }
                Shape::Map(map) => (below.with_id(map.value), Some(PathStep::Entry), !map.atomic),
                _ => (below, None, false),
            };
            if let Some(step) = step {
                found.push(ListField {
                    resource: resource.clone(),
                    steps: steps.clone(),
                    is_associative,
                    is_status,
                });
                steps.push(step);
            }
            walk(resource, inner, &steps, is_status, seen, found);
        }
    }
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let resources = builtin::resources();
    let creatable = || resources.iter().filter(|resource| resource.has_verb("create"));
    for resource in creatable() {
        walk(resource, resource.root_type(), &[], false, &mut seen, &mut found);
    }
    for resource in creatable().filter(|resource| resource.subresource("status").is_some()) {
        walk(resource, resource.root_type(), &[], true, &mut seen, &mut found);
    }
    found
}
