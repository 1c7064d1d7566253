//! Our actions compared with the real Helm versions: same records, same objects, and each can continue the other's
//! release.

use std::sync::Arc;

use domain::clock::SystemClock;
use helm_release::actions::{
    ActionOptions, ApplyMode, Install, Propagation, Rollback, Uninstall, Upgrade, ValuesPolicy,
};
use helm_release::record::Status;
use helm_release::{Error, Helm};
use helm_template::profile::Profile;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use kube_apply::{Discovery, NoProgress};
use serde_json::Value;

use crate::fixture::{chart, storage, values};
use crate::helm_cli::{HELM_VARIABLES, ServedCluster};

const HELM_4: &str = "LONGSHORE_HELM_4_3";

/// An action that both sides run.
#[derive(Clone, Copy, Debug)]
enum Action {
    Install(&'static str),
    Upgrade(&'static str),
    Reuse(&'static str),
    Rollback(i64),
    Uninstall { keep: bool },
}

impl Action {
    /// The command line of the action.
    fn command_line(self) -> String {
        let set = |values: &str| if values.is_empty() { String::new() } else { format!(" --set {values}") };
        match self {
            Self::Install(values) => format!("install app ./plain{}", set(values)),
            Self::Upgrade(values) => format!("upgrade app ./plain{}", set(values)),
            Self::Reuse(values) => format!("upgrade app ./plain --reuse-values{}", set(values)),
            Self::Rollback(revision) => format!("rollback app {revision}"),
            Self::Uninstall { keep: true } => "uninstall app --keep-history".into(),
            Self::Uninstall { keep: false } => "uninstall app".into(),
        }
    }

    async fn run_with(self, helm: &Helm, applying: ApplyMode) -> Result<(), Error> {
        let run = ActionOptions { apply_mode: applying, ..ActionOptions::new(&NoProgress) };
        let (name, namespace) = ("app".to_owned(), "default".to_owned());
        let given = |text: &str| values(&format!("{{{}}}", text.replace('=', ": ")));
        let chart = chart("plain", helm.profile);
        let upgrade = |text: &str, old_values, run| Upgrade {
            name: "app".into(),
            namespace: "default".into(),
            chart: chart.clone(),
            values: given(text),
            values_policy: old_values,
            labels: [].into(),
            install: false,
            create_namespace: false,
            skip_crds: false,
            skip_schema: false,
            subchart_notes: false,
            atomic: false,
            cleanup_on_fail: false,
            options: run,
        };
        match self {
            Self::Install(text) => {
                let install = Install {
                    name,
                    namespace,
                    chart: chart.clone(),
                    values: given(text),
                    labels: [].into(),
                    create_namespace: false,
                    skip_crds: false,
                    skip_schema: false,
                    subchart_notes: false,
                    replace: false,
                    atomic: false,
                    options: run,
                };
                helm.install(&install).await.map(|_| ())
            }
            Self::Upgrade(text) => helm.upgrade(&upgrade(text, ValuesPolicy::Keep, run)).await.map(|_| ()),
            Self::Reuse(text) => helm.upgrade(&upgrade(text, ValuesPolicy::Reuse, run)).await.map(|_| ()),
            Self::Rollback(revision) => {
                let rollback = Rollback { name, namespace, revision, cleanup_on_fail: false, options: run };
                helm.rollback(&rollback).await.map(|_| ())
            }
            Self::Uninstall { keep } => {
                let uninstall = Uninstall {
                    name,
                    namespace,
                    keep_history: keep,
                    ignore_not_found: false,
                    propagation: Propagation::Background,
                    ignore_pending: true,
                    options: run,
                };
                helm.uninstall(&uninstall).await.map(|_| ())
            }
        }
    }
}

/// All actions in the life of a release. The `--set` values become the same YAML map if `=` is replaced by `: `.
const LIFECYCLE: [Action; 8] = [
    Action::Install("word=one"),
    Action::Upgrade("word=two"),
    Action::Upgrade(""),
    Action::Reuse("text=three"),
    Action::Rollback(1),
    Action::Rollback(0),
    Action::Uninstall { keep: true },
    Action::Rollback(2),
];

async fn ours(served: &ServedCluster, variable: &str) -> Helm {
    let client = served.client();
    let discovery = Discovery::read(&client).await.unwrap();
    let profile = if variable == HELM_4 { Profile::Helm4 } else { Profile::Helm3 };
    Helm { profile, ..Helm::new(client.clone(), client, discovery, Arc::new(SystemClock), "us") }
}

/// Records and objects of the namespace, without fields that vary between runs.
async fn namespace_state(served: &ServedCluster) -> Value {
    let client = served.client();
    let mut records: Vec<Value> = Vec::new();
    for stored in storage(&client).history("app").await.unwrap() {
        let mut json: Value = serde_json::from_str(&stored.record.to_json().unwrap()).unwrap();
        normalize(&mut json);
        records.push(json);
    }
    let list = ListParams::default();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default").list(&list).await.unwrap();
    let secrets =
        Api::<Secret>::namespaced(client, "default").list(&list.fields("type=Opaque")).await.unwrap();
    let mut objects = Vec::new();
    for item in
        maps.items.iter().map(serde_json::to_value).chain(secrets.items.iter().map(serde_json::to_value))
    {
        let mut item = item.unwrap();
        // Created by each cluster, not by an action.
        if item["metadata"]["name"] == "kube-root-ca.crt" {
            continue;
        }
        normalize(&mut item);
        objects.push(item);
    }
    serde_json::json!({"records": records, "objects": objects})
}

/// Replaces times by their presence and removes fields that vary between runs.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for gone in ["uid", "resourceVersion", "time", "modtime", "schemamodtime"] {
                map.remove(gone);
            }
            for (key, value) in map.iter_mut() {
                let is_time = [
                    "creationTimestamp",
                    "first_deployed",
                    "last_deployed",
                    "deleted",
                    "started_at",
                    "completed_at",
                ];
                if is_time.contains(&key.as_str()) {
                    let set =
                        value.as_str().is_some_and(|text| !text.is_empty() && !text.starts_with("0001"));
                    *value = Value::Bool(set);
                }
                normalize(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_have_the_same_results_as_helm() {
    for variable in HELM_VARIABLES {
        let (theirs, us) = (ServedCluster::new().await, ServedCluster::new().await);
        let Some(real) = theirs.helm(variable) else { continue };
        let helm = ours(&us, variable).await;
        // Helm 3 has no other apply method and records none.
        let applying = if variable == HELM_4 { ApplyMode::Auto } else { ApplyMode::Helm3 };
        for act in LIFECYCLE {
            real.run_ok(&act.command_line()).await;
            act.run_with(&helm, applying).await.unwrap();
            let (mut theirs, ours) = (namespace_state(&theirs).await, namespace_state(&us).await);
            if variable == "LONGSHORE_HELM_3_22" {
                without_policies(&mut theirs);
            }
            assert_same(&theirs, &ours, &format!("{variable} {act:?}"));
        }
    }
}

/// Our Helm 3 profile predates output log policies.
fn without_policies(left: &mut Value) {
    let records = left["records"].as_array_mut().into_iter().flatten();
    for hook in records.flat_map(|record| record["hooks"].as_array_mut().into_iter().flatten()) {
        hook.as_object_mut().unwrap().remove("output_log_policies");
    }
}

/// Reports the first path where two values differ.
fn assert_same(theirs: &Value, ours: &Value, place: &str) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let pick =
                    |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                assert_same(&pick(a), &pick(b), &format!("{place}.{key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                assert_same(a, b, &format!("{place}[{at}]"));
            }
        }
        (a, b) => assert_eq!(a, b, "{place}"),
    }
}

/// Each action in turn by one side and the other, on one cluster.
#[tokio::test(flavor = "multi_thread")]
async fn helm_and_longshore_continue_each_others_releases() {
    for variable in HELM_VARIABLES {
        for we_begin in [true, false] {
            let served = ServedCluster::new().await;
            let Some(real) = served.helm(variable) else { continue };
            let helm = ours(&served, variable).await;
            for (at, act) in LIFECYCLE.into_iter().chain([Action::Uninstall { keep: false }]).enumerate() {
                if (at % 2 == 0) == we_begin {
                    act.run_with(&helm, ApplyMode::Auto)
                        .await
                        .unwrap_or_else(|error| panic!("{variable} {act:?}: {error}"));
                } else {
                    real.run_ok(&act.command_line()).await;
                }
                assert_consistent(&served).await;
            }
            let left = namespace_state(&served).await;
            assert_eq!(left["records"].as_array().unwrap().len(), 0, "{variable} {left}");
            let names: Vec<_> = left["objects"]
                .as_array()
                .unwrap()
                .iter()
                .map(|object| &object["metadata"]["name"])
                .collect();
            assert_eq!(names, ["app-plain-before"], "{variable}: a hook stays, as Helm has it");
        }
    }
}

async fn assert_consistent(served: &ServedCluster) {
    let history = storage(&served.client()).history("app").await.unwrap();
    let count = |status: Status| history.iter().filter(|stored| stored.record.info.status == status).count();
    assert!(
        count(Status::Deployed) <= 1 && history.iter().all(|stored| !stored.record.info.status.is_pending())
    );
}

/// Error messages equal Helm's.
#[tokio::test(flavor = "multi_thread")]
async fn errors_match_helm() {
    let (theirs, us) = (ServedCluster::new().await, ServedCluster::new().await);
    let Some(real) = theirs.helm(HELM_4) else { return };
    let helm = ours(&us, HELM_4).await;
    let refused = async |act: Action| {
        let said = real.run(&act.command_line()).await;
        assert!(!said.is_success, "{act:?}");
        let last = said.stderr.lines().last().unwrap_or_default().to_owned();
        let ours = act.run_with(&helm, ApplyMode::Auto).await.unwrap_err().to_string();
        let theirs = last.trim_start_matches("Error: ").to_owned();
        assert!(
            theirs.ends_with(&ours) || ours.ends_with(&theirs),
            "{act:?}\ntheirs: {theirs}\nours:   {ours}"
        );
    };
    refused(Action::Upgrade("word=one")).await;
    refused(Action::Rollback(1)).await;
    refused(Action::Uninstall { keep: false }).await;
    real.run_ok("install app ./plain").await;
    Action::Install("").run_with(&helm, ApplyMode::Auto).await.unwrap();
    refused(Action::Install("")).await;
    refused(Action::Rollback(7)).await;
    refused(Action::Upgrade("count=many")).await;
    real.run_ok("uninstall app --keep-history").await;
    Action::Uninstall { keep: true }.run_with(&helm, ApplyMode::Auto).await.unwrap();
    refused(Action::Uninstall { keep: true }).await;
    refused(Action::Upgrade("")).await;
    refused(Action::Install("")).await;
}
