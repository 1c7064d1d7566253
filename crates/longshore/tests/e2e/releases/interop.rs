//! The real Helm and Longshore on the same releases: the `longshore` command line without a server, and requests to
//! the platform. Each reads the other's records the same way and continues from them.

use std::fs;
use std::sync::Arc;

use http::{Method, Request};
use serde_json::{Value, json};

use crate::clients::CliClient;
use crate::platform::{PlatformUser, until};
use crate::program::Server;
use crate::request::send;
use crate::target::Cluster;

/// Environment variables with the paths of the programs.
const HELMS: [&str; 3] = ["LONGSHORE_HELM_3_17", "LONGSHORE_HELM_3_22", "LONGSHORE_HELM_4_3"];
/// The version whose output `longshore` reproduces.
const HELM_4: &str = HELMS[2];

/// A chart with a workload, a Service, configuration, a hook, a test and notes.
const CHART: &[(&str, &str)] = &[
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: \"7\"\ndescription: A web server\n",
    ),
    ("values.yaml", "replicas: 1\ngreeting: hello\nnested: {kept: true, dropped: true}\n"),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: {{ .Values.replicas }}\n  \
         selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    \
         spec:\n      containers:\n      - {name: web, image: web}\n",
    ),
    (
        "templates/service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  \
         selector: {app: {{ .Release.Name }}}\n  ports: [{port: 80}]\n",
    ),
    (
        "templates/greeting.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-before\n  annotations:\n    \
         helm.sh/hook: pre-install,pre-upgrade,pre-rollback\n    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded\n",
    ),
    (
        "templates/test.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-test\n  annotations:\n    \
         helm.sh/hook: test\n    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded\n\
         spec:\n  restartPolicy: Never\n  containers: [{name: test, image: test}]\n",
    ),
    ("templates/NOTES.txt", "{{ .Values.greeting }}, {{ .Release.Name }}!\n"),
];

/// Commands that read a release; `status` prints the whole record.
const READ_COMMANDS: [&str; 4] =
    ["history app -o json", "status app -o json", "get values app --all -o json", "get manifest app"];

#[test]
fn longshore_continues_helm_release() {
    for_each_helm(|kubectl, helm, variable| assert_handover(kubectl, helm, &kubectl.longshore(), variable));
}

#[test]
fn helm_continues_longshore_release() {
    for_each_helm(|kubectl, helm, variable| assert_handover(kubectl, &kubectl.longshore(), helm, variable));
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_continues_platform_release() {
    let (cluster, server) = Cluster::with_platform().await;
    let cluster = Arc::new(cluster);
    let Some(kubectl) = CliClient::kubectl_on(&cluster) else { return };
    write_chart(&cluster);
    let person = PlatformUser::register(&server, &cluster).await;
    let package = upload(&server, &person, &kubectl.longshore()).await;
    for variable in HELMS {
        let Some(helm) = kubectl.helm(variable) else { continue };
        change_alternately(
            &helm.on_namespace(&person.id),
            &kubectl.on_namespace(&person.id),
            &person,
            &package,
            variable,
        )
        .await;
    }
}

/// A platform user and a Helm user change the same release.
async fn change_alternately(
    helm: &CliClient,
    kubectl: &CliClient,
    person: &PlatformUser,
    package: &Value,
    variable: &str,
) {
    let body = json!({
        "namespace": person.id, "name": "app", "values": {"greeting": "one"}, "chart": {"package": package},
    });
    // A real cluster observes new role bindings with a short delay.
    until("the platform takes it", async || {
        (person.call(Method::POST, "releases", Some(&body)).await.code == 201).then_some(())
    })
    .await;
    let path = "releases/host/{me}/app";
    person.wait_until(path, |view| view["state"] == "active").await;
    assert_same_output(helm, &helm.longshore(), variable, "made by the platform");
    assert!(helm.run("status app").contains("one, app!"));
    assert!(helm.run("get all app").contains("greeting: one"));
    assert_eq!(states(helm), ["deployed"]);

    helm.run("upgrade app ./web --wait --set greeting=two");
    assert_eq!(greeting(kubectl), "two");
    let revisions =
        |count: usize| move |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == count);
    person.wait_until(&format!("{path}/history"), revisions(2)).await;
    helm.run("rollback app 1 --wait");
    assert_eq!(greeting(kubectl), "one");
    person.wait_until(&format!("{path}/history"), revisions(3)).await;
    // The platform continues from Helm's revision.
    let change = json!({"values": {"greeting": "three"}});
    let changed = person.call(Method::PATCH, path, Some(&change)).await;
    assert_eq!(changed.code, 200, "{}", changed.text);
    until("it says three", async || (greeting(kubectl) == "three").then_some(())).await;
    person.wait_until(path, |view| view["state"] == "active" && view["revision"] == 4).await;
    assert_eq!(states(helm), ["superseded", "superseded", "superseded", "deployed"]);

    // The release is still desired, so the platform reinstalls it until the request is deleted.
    helm.run("uninstall app --wait");
    until("it comes back", async || {
        let said = kubectl.try_run("get configmap app -o jsonpath={.data.greeting}", "");
        (said.success && said.stdout == "three").then_some(())
    })
    .await;
    let gone = person.call(Method::DELETE, path, None).await;
    assert_eq!(gone.code, 202, "{}", gone.text);
    until("it is gone", async || (person.call(Method::GET, path, None).await.code == 404).then_some(()))
        .await;
    helm.assert_prints("list --short", "");
    kubectl.assert_prints("get deployments,services -o name", "");
}

async fn upload(server: &Server, person: &PlatformUser, us: &CliClient) -> Value {
    us.run("package ./web");
    let archive = fs::read(us.cluster.folder.path().join("web-1.0.0.tgz")).unwrap();
    let request = Request::post("/api/longshore/v1/packages")
        .header("authorization", format!("Bearer {}", person.token))
        .header("content-type", "application/gzip");
    let kept = send(&server.platform(), request.body(archive).unwrap()).await;
    assert_eq!(kept.code, 200, "{}", kept.text);
    kept.json()["package"].clone()
}

fn for_each_helm(test: impl Fn(&CliClient, &CliClient, &str)) {
    let Some(kubectl) = CliClient::kubectl() else { return };
    write_chart(&kubectl.cluster);
    for variable in HELMS {
        let Some(helm) = kubectl.helm(variable) else { continue };
        test(&kubectl, &helm, variable);
    }
}

/// `maker` creates a release and `taker` continues it. Both must read the same after each step.
fn assert_handover(kubectl: &CliClient, maker: &CliClient, taker: &CliClient, variable: &str) {
    let both = |step: &str| assert_same_output(maker, taker, variable, step);
    maker.run("install app ./web --wait --set greeting=one,nested.dropped=null --labels team=blue");
    maker.run("upgrade app ./web --wait --set greeting=two");
    both("two revisions by one");
    taker.run("upgrade app ./web --wait --reuse-values --set replicas=2");
    assert_eq!(greeting(kubectl), "two", "{variable}");
    kubectl.assert_prints("get deployment app -o jsonpath={.status.readyReplicas}", "2");
    taker.run("rollback app 1 --wait");
    assert_eq!(greeting(kubectl), "one", "{variable}");
    taker.run("test app --timeout 1m");
    both("upgrade, rollback and test by the other");
    // Then `maker` continues.
    maker.run("upgrade app ./web --wait --set greeting=three");
    taker.run("uninstall app --wait --keep-history");
    both("uninstall, history kept");
    maker.run("rollback app 2 --wait");
    assert_eq!(greeting(kubectl), "two", "{variable}");
    assert_eq!(states(taker).last().unwrap(), "deployed", "{variable}");
    taker.run("uninstall app --wait");
    for client in [maker, taker] {
        client.assert_prints("list --short", "");
        client.assert_refused("status app", "", "not found");
    }
    kubectl.assert_prints("get deployments,services,secrets,leases -o name", "");
}

/// Asserts that both clients read the same of the release.
fn assert_same_output(one: &CliClient, other: &CliClient, variable: &str, step: &str) {
    // Helm 3 lists releases that are not deployed only with `--all`; Helm 4 always does.
    let list = |client: &CliClient| {
        let said = client.try_run("list --all -o json", "");
        if said.success { said.stdout } else { client.run("list -o json") }
    };
    assert_eq!(comparable(&list(one)), comparable(&list(other)), "{variable}, {step}: list");
    for line in READ_COMMANDS {
        let (first, second) = (one.run(line), other.run(line));
        if line.ends_with("json") {
            assert_eq!(comparable(&first), comparable(&second), "{variable}, {step}: {line}");
        } else {
            assert_eq!(first, second, "{variable}, {step}: {line}");
        }
    }
    let (first, second) = (one.run("get all app"), other.run("get all app"));
    if variable == HELM_4 {
        assert_eq!(first, second, "{variable}, {step}: get all");
    }
}

/// Removes live objects, which may have changed since, and fields that only Helm 4 has. Removes empty times, which
/// Helm 3 prints and Helm 4 omits.
fn comparable(text: &str) -> Value {
    let mut value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    remove_volatile_fields(&mut value);
    value
}

fn remove_volatile_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| {
                *member != "" && !["resources", "apply_method", "rollback_revision"].contains(&name.as_str())
            });
            members.values_mut().for_each(remove_volatile_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_volatile_fields),
        _ => {}
    }
}

fn greeting(kubectl: &CliClient) -> String {
    kubectl.run("get configmap app -o jsonpath={.data.greeting}")
}

fn states(client: &CliClient) -> Vec<String> {
    let history = client.run_json("history app -o json");
    let state = |revision: &Value| revision["status"].as_str().unwrap().to_owned();
    history.as_array().unwrap().iter().map(state).collect()
}

fn write_chart(cluster: &Cluster) {
    for (name, text) in CHART {
        let file = cluster.folder.path().join("web").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}
