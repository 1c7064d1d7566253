//! Pod counts of workloads: replicas, job parallelism, one pod per node for DaemonSets, and the surge of an update.

use serde_json::Value;

use WorkloadKind::*;

/// A pod, or an object whose controller creates pods.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    kind: WorkloadKind,
    object: &'a Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    CronJob,
    Pod,
}

/// Kinds that create pods: group, kind, variant. Versions are ignored: the relevant fields are the same in all of them.
#[rustfmt::skip]
const WORKLOAD_KINDS: &[(&str, &str, WorkloadKind)] = &[
    ("apps",       "Deployment",            Deployment),
    ("extensions", "Deployment",            Deployment),
    ("apps",       "StatefulSet",           StatefulSet),
    ("apps",       "DaemonSet",             DaemonSet),
    ("extensions", "DaemonSet",             DaemonSet),
    ("apps",       "ReplicaSet",            ReplicaSet),
    ("extensions", "ReplicaSet",            ReplicaSet),
    ("",           "ReplicationController", ReplicaSet),
    ("batch",      "Job",                   Job),
    ("batch",      "CronJob",               CronJob),
    ("",           "Pod",                   Pod),
];

impl<'a> Workload<'a> {
    /// Returns the workload if the object is one.
    pub fn from_object(object: &'a Value) -> Option<Self> {
        let (group, kind) = (api_group(object), str_field(object, "kind"));
        let row = WORKLOAD_KINDS.iter().find(|row| (row.0, row.1) == (group, kind))?;
        Some(Self { kind: row.2, object })
    }

    /// `Deployment/web`
    pub fn kind_and_name(&self) -> String {
        format!("{}/{}", str_field(self.object, "kind"), self.name())
    }

    pub fn name(&self) -> &'a str {
        str_field(&self.object["metadata"], "name")
    }

    pub fn object(&self) -> &'a Value {
        self.object
    }

    /// The pod template; for a Pod, the object itself.
    pub fn template(&self) -> &'a Value {
        match self.kind {
            Pod => self.object,
            CronJob => &self.object["spec"]["jobTemplate"]["spec"]["template"],
            _ => &self.object["spec"]["template"],
        }
    }

    /// Whether it runs one pod on each eligible node.
    pub fn is_per_node(&self) -> bool {
        self.kind == DaemonSet
    }

    /// Number of pods when all are running; `nodes` is the number of eligible nodes of a DaemonSet. A `CronJob` counts
    /// as one run: overlapping runs are usually a mistake.
    pub fn pods(&self, nodes: u64) -> u64 {
        let spec = &self.object["spec"];
        match self.kind {
            Pod => 1,
            DaemonSet => nodes,
            Job => concurrent_pods(spec),
            CronJob if spec["suspend"] == true => 0,
            CronJob => concurrent_pods(&spec["jobTemplate"]["spec"]),
            Deployment | StatefulSet | ReplicaSet => count_or_one(spec, "replicas"),
        }
    }

    /// Number of additional pods during a rolling update.
    pub fn surge(&self, nodes: u64) -> u64 {
        let spec = &self.object["spec"];
        match self.kind {
            Deployment if spec["strategy"]["type"] == "Recreate" => 0,
            Deployment => int_or_percent(
                &spec["strategy"]["rollingUpdate"]["maxSurge"],
                "25%",
                self.pods(nodes),
                u64::div_ceil,
            ),
            DaemonSet if spec["updateStrategy"]["type"] == "OnDelete" => 0,
            DaemonSet => int_or_percent(
                &spec["updateStrategy"]["rollingUpdate"]["maxSurge"],
                "0",
                nodes,
                u64::div_ceil,
            ),
            _ => 0,
        }
    }

    /// Whether pods may be unavailable during a rolling update, so that it can proceed without a surge.
    pub fn allows_unavailable_pods(&self) -> bool {
        let missing = &self.object["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
        self.kind == Deployment
            && int_or_percent(missing, "25%", self.pods(0), |part, whole| part / whole) > 0
    }

    /// Claims per pod: the templates of a `StatefulSet` and ephemeral volumes.
    pub fn claims_per_pod(&self) -> impl Iterator<Item = &'a Value> {
        let templates: &[Value] = match self.kind {
            StatefulSet => array_field(&self.object["spec"], "volumeClaimTemplates"),
            _ => &[],
        };
        let volumes = array_field(&self.template()["spec"], "volumes").iter();
        let ephemeral = volumes.map(|volume| &volume["ephemeral"]["volumeClaimTemplate"]);
        templates.iter().chain(ephemeral.filter(|template| template.is_object()))
    }

    /// Object that the controller creates besides pods, by its resource name in a quota.
    pub(super) fn created_resource(&self) -> Option<&'static str> {
        match self.kind {
            Deployment => Some("replicasets.apps"),
            CronJob if self.object["spec"]["suspend"] != true => Some("jobs.batch"),
            _ => None,
        }
    }
}

/// Concurrent pods of a job. Without `completions` it is a work queue with `parallelism` workers.
fn concurrent_pods(job: &Value) -> u64 {
    if job["suspend"] == true {
        return 0;
    }
    let parallel = count_or_one(job, "parallelism");
    if job["completions"].is_null() { parallel } else { parallel.min(count_or_one(job, "completions")) }
}

/// A count that defaults to one.
pub(super) fn count_or_one(spec: &Value, key: &str) -> u64 {
    let value = &spec[key];
    if value.is_null() { 1 } else { value.as_u64().unwrap_or_default() }
}

/// A percentage of `whole`, rounded by `divide`, or an absolute number.
fn int_or_percent(value: &Value, default: &str, whole: u64, divide: fn(u64, u64) -> u64) -> u64 {
    if let Some(number) = value.as_u64() {
        return number;
    }
    let text = value.as_str().unwrap_or(default);
    match text.strip_suffix('%') {
        Some(percent) => {
            percent.parse::<u64>().map_or(0, |percent| divide(whole.saturating_mul(percent), 100))
        }
        None => text.parse().unwrap_or_default(),
    }
}

pub(super) fn api_group(object: &Value) -> &str {
    str_field(object, "apiVersion").split_once('/').map_or("", |(group, _)| group)
}

pub(super) fn str_field<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn array_field<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_and_surge_of_each_kind() {
        #[rustfmt::skip]
        let table = [
            ("apps/v1", "Deployment", json!({}), 1, 1),
            ("apps/v1", "Deployment", json!({"replicas": 0}), 0, 0),
            ("apps/v1", "Deployment", json!({"replicas": 5}), 5, 2),
            ("apps/v1", "Deployment", json!({"replicas": 5, "strategy": {"type": "Recreate"}}), 5, 0),
            ("apps/v1", "Deployment", json!({"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": 3}}}), 5, 3),
            ("apps/v1", "Deployment", json!({"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": "50%"}}}), 5, 3),
            ("apps/v1", "StatefulSet", json!({"replicas": 3}), 3, 0),
            ("apps/v1", "DaemonSet", json!({}), 4, 0),
            ("apps/v1", "DaemonSet", json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "30%"}}}), 4, 2),
            ("apps/v1", "DaemonSet", json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}}), 4, 0),
            ("apps/v1", "ReplicaSet", json!({"replicas": 2}), 2, 0),
            ("v1", "ReplicationController", json!({"replicas": 2}), 2, 0),
            ("batch/v1", "Job", json!({}), 1, 0),
            ("batch/v1", "Job", json!({"parallelism": 4}), 4, 0),
            ("batch/v1", "Job", json!({"parallelism": 4, "completions": 2}), 2, 0),
            ("batch/v1", "Job", json!({"completions": 9}), 1, 0),
            ("batch/v1", "Job", json!({"parallelism": 4, "suspend": true}), 0, 0),
            ("batch/v1", "CronJob", json!({"jobTemplate": {"spec": {"parallelism": 2}}}), 2, 0),
            ("batch/v1", "CronJob", json!({"suspend": true}), 0, 0),
            ("v1", "Pod", json!({}), 1, 0),
        ];
        for (api_version, kind, spec, pods, surge) in table {
            let object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
            let workload = Workload::from_object(&object).unwrap();
            assert_eq!((workload.pods(4), workload.surge(4)), (pods, surge), "{object}");
        }
    }

    #[test]
    fn deployment_allows_unavailable_pods_by_max_unavailable() {
        let rolling = |replicas: u64, missing: Value| {
            let spec =
                json!({"replicas": replicas, "strategy": {"rollingUpdate": {"maxUnavailable": missing}}});
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec});
            Workload::from_object(&object).unwrap().allows_unavailable_pods()
        };
        assert!(!rolling(3, json!(null)), "a quarter of three is none");
        assert!(rolling(4, json!(null)) && rolling(1, json!(1)) && rolling(3, json!("34%")));
        assert!(!rolling(9, json!(0)) && !rolling(9, json!("0%")));
    }

    #[test]
    fn objects_of_other_api_groups_are_no_workloads() {
        for (api_version, kind) in [("v1", "Service"), ("example.com/v1", "Deployment"), ("v1", "Job")] {
            assert!(Workload::from_object(&json!({"apiVersion": api_version, "kind": kind})).is_none());
        }
    }
}
