//! Tests of node restrictions through the API.

use std::fmt::Write;

use base64::Engine as _;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::access::User;
use crate::cluster::Cluster;

struct NodeRestrictionFixture {
    cluster: Cluster,
    node: kube::Client,
    admin: kube::Client,
}

impl NodeRestrictionFixture {
    async fn new() -> Self {
        let cluster = Cluster::in_memory().await;
        let node = cluster.client(User::named("system:node:edge", &["system:nodes"]));
        let admin = cluster.client(User::admin());
        Self { cluster, node, admin }
    }

    /// Returns the status code, and the message or the object.
    async fn send(&self, client: &kube::Client, method: &str, path: &str, body: Value) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let answer = client.send(request.body(body.into()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn create_as_admin(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.send(&self.admin, "POST", path, object).await;
        assert_eq!(code, 201, "{answer:#}");
        answer
    }
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

fn mirror_pod(uid: &Value, more: &Value) -> Value {
    let mut pod = pod("static", "edge");
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "hash"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "edge", "uid": uid, "controller": true}]);
    pod["spec"].as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    pod
}

#[tokio::test]
async fn a_node_writes_itself_and_its_pods_and_nothing_else() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let world = NodeRestrictionFixture::new().await;
    world.create_as_admin("/api/v1/nodes", json!({"metadata": {"name": "other"}})).await;
    let labelled = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let restricted = json!({"node-restriction.kubernetes.io/a": "b", "node-role.kubernetes.io/master": "", "x.k8s.io/y": "", "kubernetes.io/os": "linux"});
    let own = json!({"kubernetes.io/hostname": "edge", "openyurt.io/is-edge-worker": "true", "a.node.kubernetes.io/b": "c"});
    let taint = json!([{"key": "mine", "effect": "NoSchedule"}]);
    let csr = |cn: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut wanted = rcgen::CertificateParams::default();
        wanted.distinguished_name = rcgen::DistinguishedName::new();
        wanted.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        wanted.distinguished_name.push(rcgen::DnType::CommonName, cn);
        let request = wanted.serialize_request(&key).unwrap().pem().unwrap();
        let request = base64::engine::general_purpose::STANDARD.encode(request);
        json!({"metadata": {"generateName": "csr-"}, "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"]}})
    };
    let mut picture = String::new();
    let mut say = |what: &str, (code, answer): (u16, Value)| {
        let message = answer["message"].as_str().unwrap_or_default();
        writeln!(picture, "{what}: {code} {message}").unwrap();
        answer
    };
    let node = &world.node;
    say("register another", world.send(node, "POST", "/api/v1/nodes", labelled("stranger", json!({}))).await);
    say(
        "with labels of others",
        world.send(node, "POST", "/api/v1/nodes", labelled("edge", restricted.clone())).await,
    );
    let this = say("register", world.send(node, "POST", "/api/v1/nodes", labelled("edge", own)).await);
    assert_eq!(this["metadata"]["labels"]["sim.longshore.dev/node"], "false", "it has a kubelet of its own");
    assert_eq!(this["spec"]["taints"][0]["key"], "node.kubernetes.io/not-ready");
    let change = |body: Value| world.send(node, "PATCH", "/api/v1/nodes/edge", body);
    say(
        "change own labels",
        change(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}})).await,
    );
    say("change labels of others", change(json!({"metadata": {"labels": restricted}})).await);
    say("drop its taints", change(json!({"spec": {"taints": null}})).await);
    say("add a taint", change(json!({"spec": {"taints": taint}})).await);
    say("own itself to another", change(json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}})).await);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    say("report", world.send(node, "PATCH", "/api/v1/nodes/edge/status", ready.clone()).await);
    say("report for another", world.send(node, "PATCH", "/api/v1/nodes/other/status", ready).await);
    say("delete itself", world.send(node, "DELETE", "/api/v1/nodes/edge", Value::Null).await);
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    say("lease", world.send(node, "POST", LEASES, lease("edge")).await);
    say("lease of another", world.send(node, "POST", LEASES, lease("other")).await);
    world.create_as_admin(PODS, pod("here", "edge")).await;
    world.create_as_admin(PODS, pod("there", "other")).await;
    let status = json!({"status": {"phase": "Running"}});
    say("status of its pod", world.send(node, "PATCH", &format!("{PODS}/here/status"), status.clone()).await);
    say("status of another's", world.send(node, "PATCH", &format!("{PODS}/there/status"), status).await);
    let relabel = json!({"metadata": {"labels": {"a": "b"}}});
    say("labels by status", world.send(node, "PATCH", &format!("{PODS}/here/status"), relabel).await);
    say("a pod of its own", world.send(node, "POST", PODS, pod("own", "edge")).await);
    let uid = &this["metadata"]["uid"];
    say(
        "mirror with a secret",
        world.send(node, "POST", PODS, mirror_pod(uid, &json!({"imagePullSecrets": [{"name": "s"}]}))).await,
    );
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    say("mirror with a claim", world.send(node, "POST", PODS, mirror_pod(uid, &claim)).await);
    say(
        "mirror of another life",
        world.send(node, "POST", PODS, mirror_pod(&json!("gone"), &json!({}))).await,
    );
    say("mirror", world.send(node, "POST", PODS, mirror_pod(uid, &json!({}))).await);
    let evict = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}});
    say("evict another's", world.send(node, "POST", &format!("{PODS}/there/eviction"), evict("there")).await);
    say("delete another's", world.send(node, "DELETE", &format!("{PODS}/there"), Value::Null).await);
    let token = |bound: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], "boundObjectRef": bound}});
    let tokens = "/api/v1/namespaces/default/serviceaccounts/default/token";
    say("token without a pod", world.send(node, "POST", tokens, token(Value::Null)).await);
    let bound = |pod: &Value| json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
    let (_, here) = world.send(&world.admin, "GET", &format!("{PODS}/here"), Value::Null).await;
    let (_, there) = world.send(&world.admin, "GET", &format!("{PODS}/there"), Value::Null).await;
    say("token for its pod", world.send(node, "POST", tokens, token(bound(&here))).await);
    say("token for another's", world.send(node, "POST", tokens, token(bound(&there))).await);
    let mut vault = token(bound(&here));
    vault["spec"]["audiences"] = json!(["vault"]);
    say("token for a third party", world.send(node, "POST", tokens, vault).await);
    say("evict", world.send(node, "POST", &format!("{PODS}/here/eviction"), evict("here")).await);
    let csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    say("renew", world.send(node, "POST", csrs, csr("system:node:edge")).await);
    say("certificate of another", world.send(node, "POST", csrs, csr("system:node:other")).await);
    let picture = picture.replace(uid.as_str().unwrap(), "UID");
    insta::assert_snapshot!(picture);
    drop(world.cluster);
}
