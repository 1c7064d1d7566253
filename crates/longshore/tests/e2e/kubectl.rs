//! Everyday kubectl commands.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::clients::CliClient;

const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: greeting
  labels: {app: hello}
data:
  text: hello
  tone: kind
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'web:1', ports: [{containerPort: 80}]}
      - {name: side, image: 'side:1'}
";

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.e2e.longshore.dev}
spec:
  group: e2e.longshore.dev
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bo], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}
    additionalPrinterColumns:
    - {name: Load, type: integer, jsonPath: .spec.load}
    - {name: Flag, type: string, jsonPath: .spec.flag, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: Boat is what comes and goes.
        properties:
          spec:
            type: object
            required: [load]
            properties:
              load: {type: integer, minimum: 0, description: Load is counted in tons.}
              flag: {type: string, default: red}
              masts: {type: integer, default: 1}
          status:
            type: object
            properties: {masts: {type: integer}}
";

#[test]
fn kubectl_apply_diff_edit_and_patch() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    assert_eq!(kubectl.run_with_stdin("apply -f -", CONFIG_MAP), "configmap/greeting created\n");
    assert_eq!(kubectl.run_with_stdin("apply -f -", CONFIG_MAP), "configmap/greeting unchanged\n");

    let warmer = CONFIG_MAP.replace("text: hello", "text: welcome").replace("  tone: kind\n", "");
    let said = kubectl.try_run("diff -f -", &warmer);
    assert!(
        !said.success && said.stdout.contains("-  text: hello") && said.stdout.contains("+  text: welcome"),
        "{}",
        said.stdout
    );
    assert_eq!(kubectl.run_with_stdin("apply -f -", &warmer), "configmap/greeting configured\n");
    // Fields that are no longer in the manifest are removed.
    kubectl.assert_prints("get cm greeting -o jsonpath='{.data}'", r#"{"text":"welcome"}"#);
    assert!(kubectl.try_run("diff -f -", &warmer).success);

    // With server-side apply, fields have owners, and another manager's field is not overwritten by accident.
    let ours = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {a: ours}}";
    let theirs = ours.replace("ours", "theirs");
    kubectl.run_with_stdin("apply --server-side --field-manager=us -f -", ours);
    kubectl.assert_refused(
        "apply --server-side --field-manager=them -f -",
        &theirs,
        "conflict with \"us\": .data.a",
    );
    kubectl.run_with_stdin("apply --server-side --field-manager=them --force-conflicts -f -", &theirs);
    kubectl.assert_prints("get cm shared -o jsonpath='{.data.a}'", "theirs");

    let editor = kubectl.cluster.folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i s/welcome/edited/ \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    kubectl.assert_mentions("edit cm greeting", &["configmap/greeting edited"]);
    kubectl.assert_prints("get cm greeting -o jsonpath='{.data.text}'", "edited");

    kubectl.run(r#"patch cm greeting --type=merge -p '{"data":{"text":null,"merged":"1"}}'"#);
    kubectl.assert_prints("get cm greeting -o jsonpath='{.data}'", r#"{"merged":"1"}"#);
    kubectl.run(
        r#"patch cm greeting --type=json -p '[{"op":"move","from":"/data/merged","path":"/data/moved"}]'"#,
    );
    kubectl.assert_prints("get cm greeting -o jsonpath='{.data}'", r#"{"moved":"1"}"#);
    // Strategic merge patches merge lists by key: one container changes and the other stays.
    kubectl.run_with_stdin("apply -f -", DEPLOYMENT);
    kubectl.run(r#"patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:2"}]}}}}'"#);
    let images = "get deployment web -o jsonpath='{.spec.template.spec.containers[*].image}'";
    kubectl.assert_prints(images, "web:1 side:2");
    kubectl.run("set image deployment/web main=web:2");
    kubectl.assert_prints(images, "web:2 side:2");
    kubectl.assert_refused(
        "apply -f -",
        &DEPLOYMENT.replace("app: web}}\n  template", "app: other}}\n  template"),
        "is invalid",
    );
}

#[test]
fn kubectl_get_output_formats() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", CONFIG_MAP);
    kubectl.run_with_stdin("apply -f -", DEPLOYMENT);
    kubectl.assert_mentions("get cm greeting", &["NAME", "DATA", "AGE", "greeting   2"]);
    kubectl.assert_mentions(
        "get deployment web -o wide",
        &["READY", "CONTAINERS", "IMAGES", "SELECTOR", "/2 ", "main,side", "app=web"],
    );
    kubectl.assert_prints(
        "get cm greeting -o custom-columns=N:.metadata.name,T:.data.text",
        "N          T\ngreeting   hello",
    );
    kubectl.assert_prints("get cm -l app=hello -o jsonpath='{.items[*].metadata.name}'", "greeting");
    kubectl.assert_prints("get cm --field-selector metadata.name=greeting -o name", "configmap/greeting");
    kubectl
        .assert_mentions("get cm greeting -o yaml", &["apiVersion: v1", "kind: ConfigMap", "  text: hello"]);
    kubectl
        .assert_mentions("get namespaces --show-labels", &["kubernetes.io/metadata.name=default", "Active"]);
    assert_eq!(kubectl.run_json("get cm,deployment -o json")["kind"], "List");
    kubectl.assert_prints("get --raw /readyz", "ok");
    kubectl.assert_refused("get cm nothing", "", "configmaps \"nothing\" not found");
    kubectl.assert_refused("get wrecks", "", "the server doesn't have a resource type \"wrecks\"");

    kubectl.assert_mentions(
        "describe cm greeting",
        &["Name:         greeting", "app=hello", "text:\n----\nhello"],
    );
    kubectl.assert_mentions("describe deployment web", &["Replicas:", "2 desired", "web:1"]);
    kubectl.assert_mentions(
        "explain deployment.spec.replicas",
        &["GROUP:      apps", "KIND:       Deployment", "FIELD: replicas <integer>"],
    );
    kubectl.assert_mentions("explain pod --recursive", &["containers\t<[]Container> -required-"]);
    let resources = kubectl.run("api-resources");
    for row in ["configmaps", "deployments", "customresourcedefinitions", "clusterroles"] {
        assert!(resources.lines().any(|line| line.starts_with(row)), "no {row} in\n{resources}");
    }
    kubectl.assert_mentions("api-versions", &["apps/v1", "rbac.authorization.k8s.io/v1", "v1"]);
    kubectl.assert_mentions("version", &["Client Version: v1.36.3", "Server Version: v1.36.3"]);
    kubectl.assert_mentions("cluster-info", &["is running at"]);
}

#[test]
fn kubectl_watch_wait_label_annotate_scale_and_delete() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.run_with_stdin("apply -f -", CONFIG_MAP);
    let mut watching = kubectl
        .command("get cm -l app=hello --watch -o jsonpath='{.metadata.name}={.data.text}{\"\\n\"}'")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(seen.next().as_deref(), Some("greeting=hello"));
    kubectl.run(r#"patch cm greeting --type=merge -p '{"data":{"text":"changed"}}'"#);
    assert_eq!(seen.next().as_deref(), Some("greeting=changed"));
    watching.kill().unwrap();
    watching.wait().unwrap();

    kubectl.assert_prints("label cm greeting tier=front", "configmap/greeting labeled");
    kubectl.assert_refused("label cm greeting tier=back", "", "already has a value");
    kubectl.run("label cm greeting tier=back --overwrite");
    kubectl.assert_prints("get cm -l 'tier in (back)' -o name", "configmap/greeting");
    kubectl.run("annotate cm greeting note=kept");
    kubectl.assert_prints("get cm greeting -o jsonpath='{.metadata.annotations.note}'", "kept");
    kubectl.run("annotate cm greeting note-");
    kubectl.assert_prints("get cm greeting -o jsonpath='{.metadata.annotations.note}'", "");

    kubectl.run_with_stdin("apply -f -", DEPLOYMENT);
    kubectl.assert_prints("scale deployment web --replicas=5", "deployment.apps/web scaled");
    kubectl.assert_prints("get deployment web -o jsonpath='{.spec.replicas}'", "5");
    kubectl.assert_refused(
        "scale deployment web --current-replicas=2 --replicas=3",
        "",
        "Expected replicas to be 2, was 5",
    );

    kubectl.assert_prints(
        "wait cm/greeting --for=jsonpath='{.data.text}'=changed --timeout=10s",
        "configmap/greeting condition met",
    );
    kubectl.assert_refused(
        "wait deployment/web --for=condition=Nonsense --timeout=1s",
        "",
        "timed out waiting for the condition",
    );
    kubectl.assert_prints("delete cm greeting", "configmap \"greeting\" deleted from {ns} namespace");
    kubectl.run("wait cm/greeting --for=delete --timeout=10s");
    kubectl.assert_refused("delete cm greeting", "", "not found");
    kubectl.run("delete cm greeting --ignore-not-found");

    // Deleting a namespace deletes its contents.
    kubectl.remove_namespace_at_end("{ns}-yard");
    kubectl.run("create namespace {ns}-yard");
    kubectl.run("-n {ns}-yard create configmap plan --from-literal=a=b");
    kubectl.run("delete namespace {ns}-yard --timeout=30s");
    kubectl.assert_refused("get namespace {ns}-yard", "", "not found");
    kubectl.assert_prints("get cm -n {ns}-yard -o name", "");
}

#[test]
fn kubectl_create_and_auth_can_i() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl.remove_namespace_at_end("{ns}-dock");
    kubectl.assert_prints("create namespace {ns}-dock", "namespace/{ns}-dock created");
    kubectl.assert_prints("-n {ns}-dock create configmap plan --from-literal=a=b", "configmap/plan created");
    kubectl.assert_prints(
        "-n {ns}-dock create secret generic key --from-literal=k=secret",
        "secret/key created",
    );
    kubectl.assert_prints("-n {ns}-dock get secret key -o jsonpath='{.data.k}'", "c2VjcmV0");
    kubectl.assert_mentions("-n {ns}-dock describe secret key", &["k:  6 bytes"]);
    kubectl.assert_prints("-n {ns}-dock create serviceaccount clerk", "serviceaccount/clerk created");
    kubectl.run("-n {ns}-dock create role reader --verb=get,list --resource=configmaps");
    kubectl.run("-n {ns}-dock create rolebinding clerk --role=reader --serviceaccount={ns}-dock:clerk");
    kubectl.run("-n {ns}-dock create deployment web --image=web:1 --replicas=3");
    kubectl.run("-n {ns}-dock create service clusterip web --tcp=80:8080");
    kubectl.assert_refused("-n {ns}-dock create configmap plan", "", "already exists");

    let clerk = "--as=system:serviceaccount:{ns}-dock:clerk";
    kubectl.assert_prints(&format!("-n {{ns}}-dock auth can-i list configmaps {clerk}"), "yes");
    assert_eq!(
        kubectl.try_run(&format!("-n {{ns}}-dock auth can-i list secrets {clerk}"), "").stdout,
        "no\n"
    );
    kubectl
        .assert_mentions(&format!("-n {{ns}}-dock auth can-i --list {clerk}"), &["configmaps", "[get list]"]);
    kubectl.assert_refused(
        &format!("-n {{ns}}-dock get secrets {clerk}"),
        "",
        "cannot list resource \"secrets\" in API group \"\" in the namespace \"{ns}-dock\"",
    );
    kubectl.assert_mentions("auth whoami", &["Username", "system:authenticated"]);

    let token = kubectl.run("-n {ns}-dock create token clerk --duration=1h");
    let (token, server) =
        (token.trim(), kubectl.run("config view --minify -o jsonpath='{.clusters[0].cluster.server}'"));
    fs::write(kubectl.cluster.folder.path().join("empty"), "").unwrap();
    // A kubeconfig without the administrator's certificate, so that only the token authenticates.
    let bare = format!(
        "--kubeconfig=empty --server={server} --insecure-skip-tls-verify --token={token} -n {{ns}}-dock"
    );
    kubectl.assert_mentions(
        &format!("{bare} auth whoami"),
        &["system:serviceaccount:{ns}-dock:clerk", "system:serviceaccounts"],
    );
    kubectl.assert_mentions(&format!("{bare} get configmaps"), &["plan"]);
    kubectl.assert_refused(&format!("{bare} delete configmap plan"), "", "Forbidden");
}

#[test]
fn kubectl_custom_resource() {
    let Some(kubectl) = CliClient::kubectl() else { return };
    kubectl
        .cluster
        .remove_at_end("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.e2e.longshore.dev");
    kubectl.run_with_stdin("apply -f -", CRD);
    let wait = "wait crd/boats.e2e.longshore.dev --for=condition=Established --timeout=10s";
    // `kubectl wait` fails while there are no conditions yet, which is the case for a short time.
    for _ in 0..50 {
        if kubectl.try_run(wait, "").success {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    kubectl.run(wait);
    let boat = "{apiVersion: e2e.longshore.dev/v1, kind: Boat, metadata: {name: argo}, spec: {load: 50}}";
    assert_eq!(kubectl.run_with_stdin("apply -f -", boat), "boat.e2e.longshore.dev/argo created\n");
    let rows: Vec<String> = kubectl
        .run("get bo -o wide")
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(rows[0], "NAME LOAD FLAG");
    assert_eq!(rows[1], "argo 50 red");
    kubectl.assert_mentions("get all", &["boat.e2e.longshore.dev/argo"]);
    kubectl.assert_mentions("explain boat.spec.load", &["Load is counted in tons.", "FIELD: load <integer>"]);
    kubectl.assert_refused("apply -f -", &boat.replace("50", "-1"), "should be greater than or equal to 0");
    kubectl.assert_refused(
        "apply -f -",
        &boat.replace("load: 50", "load: 50, sails: 3"),
        "unknown field \"spec.sails\"",
    );
    kubectl.run("scale boat argo --replicas=3");
    kubectl.assert_prints("get boat argo -o jsonpath='{.spec.masts}'", "3");
    kubectl.run(
        r#"patch boat argo --subresource=status --type=merge -p '{"status":{"masts":3},"spec":{"load":1}}'"#,
    );
    kubectl.assert_prints("get boat argo -o jsonpath='{.spec.load} {.status.masts}'", "50 3");
    kubectl.run("delete crd boats.e2e.longshore.dev --timeout=30s");
    // kubectl's discovery cache still has the kind for a while; the server no longer serves it.
    kubectl.assert_refused("get boats", "", "the server could not find the requested resource");
}
