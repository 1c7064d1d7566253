//! Everyday kubectl commands.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::clients::Client;

const GREETING: &str = "
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
fn apply_diff_edit_and_patch() {
    let Some(kubectl) = Client::kubectl() else { return };
    assert_eq!(kubectl.with("apply -f -", GREETING), "configmap/greeting created\n");
    assert_eq!(kubectl.with("apply -f -", GREETING), "configmap/greeting unchanged\n");

    let warmer = GREETING.replace("text: hello", "text: welcome").replace("  tone: kind\n", "");
    let said = kubectl.try_with("diff -f -", &warmer);
    assert!(
        !said.ok && said.stdout.contains("-  text: hello") && said.stdout.contains("+  text: welcome"),
        "{}",
        said.stdout
    );
    assert_eq!(kubectl.with("apply -f -", &warmer), "configmap/greeting configured\n");
    // Fields that are no longer in the manifest are removed.
    kubectl.prints("get cm greeting -o jsonpath='{.data}'", r#"{"text":"welcome"}"#);
    assert!(kubectl.try_with("diff -f -", &warmer).ok);

    // With server-side apply, fields have owners, and another manager's field is not overwritten by accident.
    let ours = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {a: ours}}";
    let theirs = ours.replace("ours", "theirs");
    kubectl.with("apply --server-side --field-manager=us -f -", ours);
    kubectl.refuses(
        "apply --server-side --field-manager=them -f -",
        &theirs,
        "conflict with \"us\": .data.a",
    );
    kubectl.with("apply --server-side --field-manager=them --force-conflicts -f -", &theirs);
    kubectl.prints("get cm shared -o jsonpath='{.data.a}'", "theirs");

    let editor = kubectl.cluster.folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i s/welcome/edited/ \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    kubectl.mentions("edit cm greeting", &["configmap/greeting edited"]);
    kubectl.prints("get cm greeting -o jsonpath='{.data.text}'", "edited");

    kubectl.ok(r#"patch cm greeting --type=merge -p '{"data":{"text":null,"merged":"1"}}'"#);
    kubectl.prints("get cm greeting -o jsonpath='{.data}'", r#"{"merged":"1"}"#);
    kubectl.ok(
        r#"patch cm greeting --type=json -p '[{"op":"move","from":"/data/merged","path":"/data/moved"}]'"#,
    );
    kubectl.prints("get cm greeting -o jsonpath='{.data}'", r#"{"moved":"1"}"#);
    // Strategic merge patches merge lists by key: one container changes and the other stays.
    kubectl.with("apply -f -", DEPLOYMENT);
    kubectl.ok(r#"patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:2"}]}}}}'"#);
    let images = "get deployment web -o jsonpath='{.spec.template.spec.containers[*].image}'";
    kubectl.prints(images, "web:1 side:2");
    kubectl.ok("set image deployment/web main=web:2");
    kubectl.prints(images, "web:2 side:2");
    kubectl.refuses(
        "apply -f -",
        &DEPLOYMENT.replace("app: web}}\n  template", "app: other}}\n  template"),
        "is invalid",
    );
}

#[test]
fn get_in_every_form() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", GREETING);
    kubectl.with("apply -f -", DEPLOYMENT);
    kubectl.mentions("get cm greeting", &["NAME", "DATA", "AGE", "greeting   2"]);
    kubectl.mentions(
        "get deployment web -o wide",
        &["READY", "CONTAINERS", "IMAGES", "SELECTOR", "/2 ", "main,side", "app=web"],
    );
    kubectl.prints(
        "get cm greeting -o custom-columns=N:.metadata.name,T:.data.text",
        "N          T\ngreeting   hello",
    );
    kubectl.prints("get cm -l app=hello -o jsonpath='{.items[*].metadata.name}'", "greeting");
    kubectl.prints("get cm --field-selector metadata.name=greeting -o name", "configmap/greeting");
    kubectl.mentions("get cm greeting -o yaml", &["apiVersion: v1", "kind: ConfigMap", "  text: hello"]);
    kubectl.mentions("get namespaces --show-labels", &["kubernetes.io/metadata.name=default", "Active"]);
    assert_eq!(kubectl.json("get cm,deployment -o json")["kind"], "List");
    kubectl.prints("get --raw /readyz", "ok");
    kubectl.refuses("get cm nothing", "", "configmaps \"nothing\" not found");
    kubectl.refuses("get wrecks", "", "the server doesn't have a resource type \"wrecks\"");

    kubectl.mentions("describe cm greeting", &["Name:         greeting", "app=hello", "text:\n----\nhello"]);
    kubectl.mentions("describe deployment web", &["Replicas:", "2 desired", "web:1"]);
    kubectl.mentions(
        "explain deployment.spec.replicas",
        &["GROUP:      apps", "KIND:       Deployment", "FIELD: replicas <integer>"],
    );
    kubectl.mentions("explain pod --recursive", &["containers\t<[]Container> -required-"]);
    let resources = kubectl.ok("api-resources");
    for row in ["configmaps", "deployments", "customresourcedefinitions", "clusterroles"] {
        assert!(resources.lines().any(|line| line.starts_with(row)), "no {row} in\n{resources}");
    }
    kubectl.mentions("api-versions", &["apps/v1", "rbac.authorization.k8s.io/v1", "v1"]);
    kubectl.mentions("version", &["Client Version: v1.36.3", "Server Version: v1.36.3"]);
    kubectl.mentions("cluster-info", &["is running at"]);
}

#[test]
fn watch_wait_label_annotate_scale_and_delete() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.with("apply -f -", GREETING);
    let mut watching = kubectl
        .command("get cm -l app=hello --watch -o jsonpath='{.metadata.name}={.data.text}{\"\\n\"}'")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(seen.next().as_deref(), Some("greeting=hello"));
    kubectl.ok(r#"patch cm greeting --type=merge -p '{"data":{"text":"changed"}}'"#);
    assert_eq!(seen.next().as_deref(), Some("greeting=changed"));
    watching.kill().unwrap();
    watching.wait().unwrap();

    kubectl.prints("label cm greeting tier=front", "configmap/greeting labeled");
    kubectl.refuses("label cm greeting tier=back", "", "already has a value");
    kubectl.ok("label cm greeting tier=back --overwrite");
    kubectl.prints("get cm -l 'tier in (back)' -o name", "configmap/greeting");
    kubectl.ok("annotate cm greeting note=kept");
    kubectl.prints("get cm greeting -o jsonpath='{.metadata.annotations.note}'", "kept");
    kubectl.ok("annotate cm greeting note-");
    kubectl.prints("get cm greeting -o jsonpath='{.metadata.annotations.note}'", "");

    kubectl.with("apply -f -", DEPLOYMENT);
    kubectl.prints("scale deployment web --replicas=5", "deployment.apps/web scaled");
    kubectl.prints("get deployment web -o jsonpath='{.spec.replicas}'", "5");
    kubectl.refuses(
        "scale deployment web --current-replicas=2 --replicas=3",
        "",
        "Expected replicas to be 2, was 5",
    );

    kubectl.prints(
        "wait cm/greeting --for=jsonpath='{.data.text}'=changed --timeout=10s",
        "configmap/greeting condition met",
    );
    kubectl.refuses(
        "wait deployment/web --for=condition=Nonsense --timeout=1s",
        "",
        "timed out waiting for the condition",
    );
    kubectl.prints("delete cm greeting", "configmap \"greeting\" deleted from {ns} namespace");
    kubectl.ok("wait cm/greeting --for=delete --timeout=10s");
    kubectl.refuses("delete cm greeting", "", "not found");
    kubectl.ok("delete cm greeting --ignore-not-found");

    // Deleting a namespace deletes its contents.
    kubectl.removes_namespace("{ns}-yard");
    kubectl.ok("create namespace {ns}-yard");
    kubectl.ok("-n {ns}-yard create configmap plan --from-literal=a=b");
    kubectl.ok("delete namespace {ns}-yard --timeout=30s");
    kubectl.refuses("get namespace {ns}-yard", "", "not found");
    kubectl.prints("get cm -n {ns}-yard -o name", "");
}

#[test]
fn create_and_who_may() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl.removes_namespace("{ns}-dock");
    kubectl.prints("create namespace {ns}-dock", "namespace/{ns}-dock created");
    kubectl.prints("-n {ns}-dock create configmap plan --from-literal=a=b", "configmap/plan created");
    kubectl.prints("-n {ns}-dock create secret generic key --from-literal=k=secret", "secret/key created");
    kubectl.prints("-n {ns}-dock get secret key -o jsonpath='{.data.k}'", "c2VjcmV0");
    kubectl.mentions("-n {ns}-dock describe secret key", &["k:  6 bytes"]);
    kubectl.prints("-n {ns}-dock create serviceaccount clerk", "serviceaccount/clerk created");
    kubectl.ok("-n {ns}-dock create role reader --verb=get,list --resource=configmaps");
    kubectl.ok("-n {ns}-dock create rolebinding clerk --role=reader --serviceaccount={ns}-dock:clerk");
    kubectl.ok("-n {ns}-dock create deployment web --image=web:1 --replicas=3");
    kubectl.ok("-n {ns}-dock create service clusterip web --tcp=80:8080");
    kubectl.refuses("-n {ns}-dock create configmap plan", "", "already exists");

    let clerk = "--as=system:serviceaccount:{ns}-dock:clerk";
    kubectl.prints(&format!("-n {{ns}}-dock auth can-i list configmaps {clerk}"), "yes");
    assert_eq!(
        kubectl.try_with(&format!("-n {{ns}}-dock auth can-i list secrets {clerk}"), "").stdout,
        "no\n"
    );
    kubectl.mentions(&format!("-n {{ns}}-dock auth can-i --list {clerk}"), &["configmaps", "[get list]"]);
    kubectl.refuses(
        &format!("-n {{ns}}-dock get secrets {clerk}"),
        "",
        "cannot list resource \"secrets\" in API group \"\" in the namespace \"{ns}-dock\"",
    );
    kubectl.mentions("auth whoami", &["Username", "system:authenticated"]);

    let token = kubectl.ok("-n {ns}-dock create token clerk --duration=1h");
    let (token, server) =
        (token.trim(), kubectl.ok("config view --minify -o jsonpath='{.clusters[0].cluster.server}'"));
    fs::write(kubectl.cluster.folder.path().join("empty"), "").unwrap();
    // A kubeconfig without the administrator's certificate, so that only the token authenticates.
    let bare = format!(
        "--kubeconfig=empty --server={server} --insecure-skip-tls-verify --token={token} -n {{ns}}-dock"
    );
    kubectl.mentions(
        &format!("{bare} auth whoami"),
        &["system:serviceaccount:{ns}-dock:clerk", "system:serviceaccounts"],
    );
    kubectl.mentions(&format!("{bare} get configmaps"), &["plan"]);
    kubectl.refuses(&format!("{bare} delete configmap plan"), "", "Forbidden");
}

#[test]
fn a_kind_of_ones_own() {
    let Some(kubectl) = Client::kubectl() else { return };
    kubectl
        .cluster
        .removes("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.e2e.longshore.dev");
    kubectl.with("apply -f -", CRD);
    let wait = "wait crd/boats.e2e.longshore.dev --for=condition=Established --timeout=10s";
    // `kubectl wait` fails while there are no conditions yet, which is the case for a short time.
    for _ in 0..50 {
        if kubectl.try_with(wait, "").ok {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    kubectl.ok(wait);
    let boat = "{apiVersion: e2e.longshore.dev/v1, kind: Boat, metadata: {name: argo}, spec: {load: 50}}";
    assert_eq!(kubectl.with("apply -f -", boat), "boat.e2e.longshore.dev/argo created\n");
    let rows: Vec<String> = kubectl
        .ok("get bo -o wide")
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(rows[0], "NAME LOAD FLAG");
    assert_eq!(rows[1], "argo 50 red");
    kubectl.mentions("get all", &["boat.e2e.longshore.dev/argo"]);
    kubectl.mentions("explain boat.spec.load", &["Load is counted in tons.", "FIELD: load <integer>"]);
    kubectl.refuses("apply -f -", &boat.replace("50", "-1"), "should be greater than or equal to 0");
    kubectl.refuses(
        "apply -f -",
        &boat.replace("load: 50", "load: 50, sails: 3"),
        "unknown field \"spec.sails\"",
    );
    kubectl.ok("scale boat argo --replicas=3");
    kubectl.prints("get boat argo -o jsonpath='{.spec.masts}'", "3");
    kubectl.ok(
        r#"patch boat argo --subresource=status --type=merge -p '{"status":{"masts":3},"spec":{"load":1}}'"#,
    );
    kubectl.prints("get boat argo -o jsonpath='{.spec.load} {.status.masts}'", "50 3");
    kubectl.ok("delete crd boats.e2e.longshore.dev --timeout=30s");
    // kubectl's discovery cache still has the kind for a while; the server no longer serves it.
    kubectl.refuses("get boats", "", "the server could not find the requested resource");
}
