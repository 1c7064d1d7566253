//! Lists and maps of any size: for every list and map field of every built-in kind that clients can create, the CPU time of a
//! request grows at most linearly with the number of its elements.
//!
//! The fields come from the schema. Each distinct field of each type is tested once, in the first kind that has it. Time is CPU
//! time of the thread, so that other tests do not disturb it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::schema::builtin;
use crate::schema::resources::Resource;
use crate::schema::types::{ListMerge, Shape, TypeRef};

/// Sizes of the first measurement, and of the second one that only suspects get.
const SMALL: usize = 120;
const LARGE: usize = 300;
/// Time at ten times the size over time at the size: linear is 10, quadratic 100.
const SUSPICIOUS: u32 = 11;
const TOO_STEEP: u32 = 18;
/// Below this nothing is suspicious.
const NOISE: Duration = Duration::from_millis(15);
/// Requests of the full-size run: the largest body that is accepted, and what it may cost in a release build.
const FULL_BYTES: usize = 3 * 1024 * 1024 - 4096;
const FULL_TIME: Duration = Duration::from_secs(2);

/// A step from an object to one of its parts.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Element,
    Entry,
}

/// A list or map field of a kind.
struct Target {
    resource: Resource,
    steps: Vec<Step>,
    is_associative: bool,
}

impl Target {
    fn name(&self) -> String {
        let mut name = self.resource.kind.to_string();
        for step in &self.steps {
            match step {
                Step::Field(field) => name = format!("{name}.{field}"),
                Step::Element => name.push_str("[]"),
                Step::Entry => name.push_str("{}"),
            }
        }
        name
    }

    fn path(&self) -> String {
        let Resource { group, version, name, namespaced, .. } = &self.resource;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if *namespaced { format!("{root}/namespaces/default/{name}") } else { format!("{root}/{name}") }
    }

    /// An object with `count` elements in this field, all distinct or all alike.
    fn object(&self, count: usize, is_distinct: bool) -> Value {
        let mut object = base(&self.resource);
        let (mut ty, mut at) = (self.resource.root(), &mut object);
        for step in &self.steps {
            ty = match step {
                Step::Field(name) => ty.child(name).expect("a step is a field"),
                Step::Entry => ty.child("a").expect("a step is an entry"),
                Step::Element => ty.element().expect("a step is an element"),
            };
            let missing = |value: &Value| value.is_null();
            at = match step {
                Step::Field(name) => &mut at[name.as_str()],
                Step::Entry => &mut at["a"],
                Step::Element => {
                    if at.as_array().is_none_or(Vec::is_empty) {
                        *at = json!([null]);
                    }
                    &mut at[0]
                }
            };
            if missing(at) {
                *at = sample(ty, "", 0, 0);
            }
        }
        let number = |i: usize| if is_distinct { i } else { 0 };
        *at = match ty.shape() {
            Shape::Map(map) => {
                let value = ty.follow(map.value);
                Value::Object(
                    (0..count).map(|i| (format!("k{i}"), sample(value, "", number(i), 0))).collect(),
                )
            }
            Shape::List(list) => {
                let element = ty.follow(list.element);
                (0..count).map(|i| sample(element, "", number(i), 0)).collect()
            }
            other => unreachable!("a target is a list or a map, not {other:?}"),
        };
        object
    }
}

/// A valid object of a kind, where a generated one would be refused before all of its rules are evaluated.
fn base(resource: &Resource) -> Value {
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
        _ => sample(resource.root(), "", 0, 0),
    };
    let mut object = body;
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_ref().into();
    object["metadata"] = json!({"name": "a"});
    object
}

/// A value of a type: the `i`th, with the fields that it needs.
fn sample(ty: TypeRef<'_>, field: &str, i: usize, depth: usize) -> Value {
    let chosen = match field {
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
    if !chosen.is_null() {
        return chosen;
    }
    match ty.shape() {
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
            const TELLING: &[&str] =
                &["name", "key", "manager", "operation", "apiVersion", "fieldsType", "fieldsV1", "operator"];
            let needed = |name: &str, required: bool| required || TELLING.contains(&name);
            let fields = body.fields.iter().filter(|f| needed(&f.name, f.required));
            let fields: Map<_, _> = fields
                .map(|f| (f.name.to_string(), sample(ty.follow(f.ty), &f.name, i, depth + 1)))
                .collect();
            Value::Object(fields)
        }
    }
}

/// Every list and map field, once per type that has it.
fn targets() -> Vec<Target> {
    fn walk(
        resource: &Resource,
        ty: TypeRef<'_>,
        steps: &[Step],
        seen: &mut HashSet<(String, String)>,
        found: &mut Vec<Target>,
    ) {
        let Shape::Struct(body) = ty.shape() else { return };
        for field in &body.fields {
            if steps.is_empty() && field.name.as_ref() == "status" {
                continue;
            }
            if !seen.insert((ty.name().to_owned(), field.name.to_string())) {
                continue;
            }
            let mut steps = steps.to_vec();
            steps.push(Step::Field(field.name.to_string()));
            let below = ty.follow(field.ty);
            let (inner, step, is_associative) = match below.shape() {
                Shape::List(list) => {
                    (below.follow(list.element), Some(Step::Element), list.merge != ListMerge::Atomic)
                }
                Shape::Map(map) => (below.follow(map.value), Some(Step::Entry), !map.atomic),
                _ => (below, None, false),
            };
            if let Some(step) = step {
                found.push(Target { resource: resource.clone(), steps: steps.clone(), is_associative });
                steps.push(step);
            }
            walk(resource, inner, &steps, seen, found);
        }
    }
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for resource in builtin::resources().iter().filter(|resource| resource.has_verb("create")) {
        walk(resource, resource.root(), &[], &mut seen, &mut found);
    }
    found
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Create,
    Apply,
}

async fn open() -> kube::Client {
    // All work is done on this thread, where its time is measured.
    let config = Config { inline_bytes: usize::MAX, ..Config::default() };
    let cluster = Cluster::open(config).await.unwrap();
    cluster.client(User::admin())
}

/// The CPU time of one dry run.
async fn cost(
    client: &kube::Client,
    target: &Target,
    verb: Verb,
    count: usize,
    is_distinct: bool,
) -> Duration {
    let body = target.object(count, is_distinct).to_string().into_bytes();
    let (method, path, media) = match verb {
        Verb::Create => ("POST", format!("{}?dryRun=All", target.path()), "application/json"),
        Verb::Apply => {
            let query = "dryRun=All&fieldManager=me&force=true";
            ("PATCH", format!("{}/a?{query}", target.path()), "application/apply-patch+yaml")
        }
    };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(body.into()).unwrap();
    let began = cpu_time();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let took = cpu_time().saturating_sub(began);
    let text = String::from_utf8_lossy(&body);
    let is_answered =
        code != 429 && code != 503 && code != 504 && !text.contains("panic") && !text.is_empty();
    assert!(is_answered, "{} {code}: {:.1000}", target.name(), text);
    took
}

/// The factor by which ten times as many elements cost more, where that is more than it may be.
async fn steepness(client: &kube::Client, target: &Target, verb: Verb, is_distinct: bool) -> Option<u32> {
    let ratio = async |small: usize| {
        let few = cost(client, target, verb, small, is_distinct).await.max(Duration::from_micros(1));
        let many = cost(client, target, verb, 10 * small, is_distinct).await;
        (many > NOISE).then(|| u32::try_from(many.as_nanos() / few.as_nanos()).unwrap_or(u32::MAX))
    };
    ratio(SMALL).await.filter(|&ratio| ratio >= SUSPICIOUS)?;
    let mut least = u32::MAX;
    for _ in 0..2 {
        least = least.min(ratio(LARGE).await?);
    }
    (least >= TOO_STEEP).then_some(least)
}

/// Tests each `part`th field of `parts`, so that the work is shared by several tests.
async fn check_part(part: usize, parts: usize) {
    let client = open().await;
    let mut steep = Vec::new();
    for target in targets().iter().skip(part).step_by(parts) {
        for is_distinct in [true, false] {
            if let Some(ratio) = steepness(&client, target, Verb::Create, is_distinct).await {
                steep.push(format!("create {} (distinct: {is_distinct}): {ratio}", target.name()));
            }
        }
        if target.is_associative
            && let Some(ratio) = steepness(&client, target, Verb::Apply, true).await
        {
            steep.push(format!("apply {}: {ratio}", target.name()));
        }
    }
    assert!(steep.is_empty(), "time grows faster than the number of elements:\n{}", steep.join("\n"));
}

#[test]
fn targets_include_fields_of_pods_services_and_metadata() {
    let names: Vec<_> = targets().iter().map(Target::name).collect();
    for name in [
        "Pod.spec.containers",
        "Pod.spec.containers[].ports",
        "Pod.spec.schedulingGates",
        "Pod.spec.topologySpreadConstraints",
        "Service.spec.ports",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:#?}");
    }
    assert!(names.iter().any(|name| name.ends_with(".metadata.managedFields")));
    assert!(names.len() > 250, "{}", names.len());
}

#[tokio::test]
async fn requests_cost_time_linear_in_each_list_even_fields() {
    check_part(0, 2).await;
}

#[tokio::test]
async fn requests_cost_time_linear_in_each_list_odd_fields() {
    check_part(1, 2).await;
}

/// For release builds: the largest request for each field.
#[tokio::test]
#[ignore = "takes minutes in a debug build; run with --release"]
async fn largest_requests_are_answered_in_time() {
    let client = open().await;
    let mut slow = Vec::new();
    for target in targets() {
        let sizes = [100, 200].map(|count| target.object(count, true).to_string().len());
        let each = (sizes[1] - sizes[0]).max(100) / 100 + 3;
        let took = cost(&client, &target, Verb::Create, FULL_BYTES / each, true).await;
        if took > FULL_TIME {
            slow.push(format!("{}: {took:?}", target.name()));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
