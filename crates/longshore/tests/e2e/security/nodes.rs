//! Attacks by a tenant's node. It holds a certificate from the join flow and talks to Kubernetes directly instead of
//! running a kubelet.

mod credentials;
mod placement;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::console::ConsoleUser;
use crate::edge::{JoinScript, assert_ends_within_a_day};
use crate::nodes::client;
use crate::platform::until;
use crate::program::Server;
use crate::target::Cluster;

const TENANT_LABEL: &str = "openyurt/tenant";
/// A day in seconds.
const DAY_SECONDS: i32 = 86_400;
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// A certificate request of a kubelet and its key, both in PEM.
pub(super) fn kubelet_request(node: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    (params.serialize_request(&key).unwrap().pem().unwrap(), key.serialize_pem())
}

/// A kubelet's CSR for a node certificate, and its key in PEM. Real kubelets request no lifetime.
pub(super) fn kubelet_csr(
    name: &str,
    node: &str,
    seconds: Option<i32>,
) -> (CertificateSigningRequest, String) {
    let (request, key) = kubelet_request(node);
    let csr = json!({"metadata": {"name": name}, "spec": {
        "request": ByteString(request.into_bytes()), "usages": ["digital signature", "client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "expirationSeconds": seconds}});
    (serde_json::from_value(csr).unwrap(), key)
}

/// Requests a kubelet's certificate with a join token. Returns the decision (`Approved Joined`), and key and
/// certificate if approved.
pub(super) async fn request_certificate(
    cluster: &Cluster,
    script: &JoinScript,
    node: &str,
) -> (String, Option<Value>) {
    let authority = certificate_authority(cluster);
    let joiner = client(&script.server, &authority, &json!({"token": script.token})).await;
    let (csr, key) = kubelet_csr(&format!("security-{node}-{}", script.token_id()), node, Some(DAY_SECONDS));
    let name = csr.metadata.name.clone().unwrap();
    cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
    cluster.remove_at_end(format!("/api/v1/nodes/{node}"));
    let csrs: Api<CertificateSigningRequest> = Api::all(joiner);
    // A real API server observes a new join token through a watch, so the first attempts may return 401.
    until("the API server accepts the join token", async || {
        match csrs.create(&PostParams::default(), &csr).await {
            Ok(created) => Some(created),
            Err(kube::Error::Api(status)) if status.code == 401 => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    let observed: Api<CertificateSigningRequest> = Api::all(cluster.client().await);
    until("the certificate request is decided", async || {
        let status = observed.get(&name).await.unwrap().status?;
        let condition = status.conditions?.into_iter().next()?;
        let decision = format!("{} {}", condition.type_, condition.reason.unwrap_or_default());
        if condition.type_ == "Denied" {
            return Some((decision, None));
        }
        let certificate = status.certificate?.0;
        assert_ends_within_a_day(&certificate);
        let certificate = STANDARD.encode(certificate);
        let user = json!({"client-certificate-data": certificate, "client-key-data": STANDARD.encode(&key)});
        Some((decision, Some(user)))
    })
    .await
}

fn certificate_authority(cluster: &Cluster) -> String {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone().unwrap()
}

/// Status that a kubelet reports for a ready node.
pub(super) fn ready_status() -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
            "lastHeartbeatTime": now, "lastTransitionTime": now}],
        "nodeInfo": {"architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "x://1", "kernelVersion": "6",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "m", "operatingSystem": "linux",
            "osImage": "x", "systemUUID": "u"}}})
}

/// A tenant with a node whose certificate the test holds.
pub(super) struct NodeAttacker {
    admin: kube::Client,
    /// A client with the node's certificate.
    pub node: kube::Client,
    pub name: String,
    pub tenant: String,
}

impl NodeAttacker {
    pub async fn join(server: &Server, cluster: &Cluster) -> Self {
        let visitor = ConsoleUser::register(server, cluster).await;
        Self::join_as(server, cluster, &visitor).await
    }

    pub async fn join_as(server: &Server, cluster: &Cluster, visitor: &ConsoleUser) -> Self {
        let script = JoinScript::fetch(visitor).await;
        let name = format!("{}-edge", visitor.namespace);
        let (decision, user) = request_certificate(cluster, &script, &name).await;
        let user = user.unwrap_or_else(|| panic!("{decision}\n{}", server.log()));
        let node = client(&script.server, &certificate_authority(cluster), &user).await;
        Self { admin: cluster.client().await, node, name, tenant: visitor.namespace.clone() }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// The Node as a kubelet without knowledge of the taints registers it.
    fn untainted_node(&self) -> Node {
        serde_json::from_value(json!({"metadata": {"name": self.name}, "spec": {"taints": []}})).unwrap()
    }

    async fn register(&self, node: &Node) -> Result<Node, kube::Error> {
        Api::all(self.node.clone()).create(&PostParams::default(), node).await
    }

    /// Reports the node ready, as a kubelet does.
    async fn report_ready(&self) {
        let nodes: Api<Node> = Api::all(self.node.clone());
        nodes
            .patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(ready_status()))
            .await
            .unwrap();
    }

    /// Creates a mirror pod of a static pod of this node, as a kubelet does.
    async fn create_mirror_pod(&self, namespace: &str, pod: &str, labels: Value) -> Result<Pod, kube::Error> {
        let uid = self.nodes().get(&self.name).await.unwrap().metadata.uid;
        let mirror = json!({
            "metadata": {"name": pod, "labels": labels, "annotations": {MIRROR_ANNOTATION: "0123456789abcdef"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid, "controller": true}]},
            "spec": {"nodeName": self.name, "enableServiceLinks": false, "automountServiceAccountToken": false,
                "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
                "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "c", "image": "registry.invalid/x", "resources": {
                    "requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}});
        let pods: Api<Pod> = Api::namespaced(self.node.clone(), namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(mirror).unwrap()).await
    }
}

fn is_tainted(node: &Node, tenant: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let has = |effect: &str| {
        taints.into_iter().flatten().any(|taint| {
            taint.key == TENANT_LABEL && taint.value.as_deref() == Some(tenant) && taint.effect == effect
        })
    };
    let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(TENANT_LABEL));
    has("NoSchedule") && has("NoExecute") && label.map(String::as_str) == Some(tenant)
}

/// Asserts a 403 of an admission policy or authorizer. Returns the message.
fn assert_forbidden<T: std::fmt::Debug>(what: &str, result: Result<T, kube::Error>) -> String {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message,
        other => panic!("{what}: {other:?}"),
    }
}

/// A pod outside all workspaces, such as the cluster operator runs.
fn operator_pod(name: &str, spec: &Value) -> Pod {
    let mut pod = json!({"metadata": {"name": name}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "registry.invalid/x"}]);
    serde_json::from_value(pod).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_registers_untainted_to_receive_foreign_pods() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    // Once the certificate is issued, the Node exists with its taint.
    assert!(is_tainted(&attacker.nodes().get(&attacker.name).await.unwrap(), &attacker.tenant));
    assert_forbidden("an untainted Node", attacker.register(&attacker.untainted_node()).await);
    let mut other = attacker.untainted_node();
    let taint = |value: &str, effect: &str| json!({"key": TENANT_LABEL, "value": value, "effect": effect});
    for taints in [
        json!([taint(&attacker.tenant, "NoSchedule")]),
        json!([taint("ubbbbbbbbbb", "NoSchedule"), taint("ubbbbbbbbbb", "NoExecute")]),
    ] {
        other.spec = serde_json::from_value(json!({"taints": taints})).unwrap();
        assert_forbidden("a Node with other taints", attacker.register(&other).await);
    }

    attacker.report_ready().await;
    let label = json!({"metadata": {"labels": {"e2e": attacker.name}}});
    let nodes: Api<Node> = Api::all(attacker.node.clone());
    nodes.patch(&attacker.name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(attacker.admin.clone(), &cluster.namespace);
    let create = async |pod: Pod| {
        until("the namespace takes pods", async || pods.create(&PostParams::default(), &pod).await.ok()).await
    };
    create(operator_pod("lured", &json!({"nodeSelector": {"e2e": attacker.name}}))).await;
    until("the scheduler finds no node", async || {
        let pod = pods.get("lured").await.unwrap();
        assert_eq!(pod.spec?.node_name, None, "a foreign pod is on a tenant's node");
        let conditions = pod.status?.conditions?;
        conditions.iter().any(|found| found.reason.as_deref() == Some("Unschedulable")).then_some(())
    })
    .await;
    // A pod bound to the node directly is rejected, too.
    let placed = operator_pod("placed", &json!({"nodeName": attacker.name}));
    let refused = assert_forbidden("a foreign pod", pods.create(&PostParams::default(), &placed).await);
    assert!(refused.contains("longshore-tenant-node-placement"), "{refused}");
    let now = DeleteParams::default().grace_period(0);
    drop(pods.delete("lured", &now).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_returns_untainted_after_its_node_was_deleted() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Namespace", "name": "none", "uid": "00000000-0000-0000-0000-000000000000"}]}});
    let own: Api<Node> = Api::all(attacker.node.clone());
    let orphaned = own.patch(&attacker.name, &PatchParams::default(), &Patch::Merge(owner)).await;
    assert_forbidden("an owner that has it garbage-collected", orphaned);
    let first = attacker.nodes().get(&attacker.name).await.unwrap().metadata.uid;
    attacker.nodes().delete(&attacker.name, &DeleteParams::default()).await.unwrap();
    until("the platform created the node anew", async || {
        assert_forbidden("an untainted Node", attacker.register(&attacker.untainted_node()).await);
        let node = attacker.nodes().get_opt(&attacker.name).await.unwrap()?;
        assert!(is_tainted(&node, &attacker.tenant), "{node:?}");
        (node.metadata.uid != first).then_some(())
    })
    .await;
    // The kubelet continues with the new certificate.
    attacker.report_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_poses_as_cluster_dns_by_a_mirror_pod() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    let victim = ConsoleUser::register(&server, &cluster).await;
    attacker.report_ready().await;
    let dns = || json!({"k8s-app": "kube-dns"});
    let hub = format!("yurt-hub-{}", attacker.name);
    for (namespace, name, labels) in [
        ("kube-system", "coredns-0", dns()),
        ("kube-system", "harmless", json!({})),
        ("kube-system", hub.as_str(), dns()),
        ("kube-system", hub.as_str(), json!({"k8s-app": "yurt-hub", "app": "x"})),
        ("longshore-system", "longshore-0", json!({})),
        ("default", hub.as_str(), json!({"k8s-app": "yurt-hub"})),
        (cluster.namespace.as_str(), "x", json!({})),
        (victim.namespace.as_str(), "x", json!({})),
    ] {
        let refused = assert_forbidden(name, attacker.create_mirror_pod(namespace, name, labels).await);
        assert!(refused.contains("longshore-tenant-node"), "{namespace}/{name}: {refused}");
    }
    // A tenant's node does run its tenant's static pods and OpenYurt's proxy.
    let spaces: Api<Namespace> = Api::all(attacker.admin.clone());
    until("the tenant's namespace is there", async || spaces.get_opt(&attacker.tenant).await.unwrap()).await;
    let own = attacker.create_mirror_pod(&attacker.tenant, "mine", json!({"app": "mine"})).await;
    own.unwrap_or_else(|error| panic!("{error}"));
    cluster.remove_at_end(format!("/api/v1/namespaces/kube-system/pods/{hub}"));
    let proxy = attacker.create_mirror_pod("kube-system", &hub, json!({"k8s-app": "yurt-hub"})).await;
    proxy.unwrap_or_else(|error| panic!("{error}"));
    let everywhere: Api<Pod> = Api::all(attacker.admin.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={}", attacker.name));
    let names: Vec<String> =
        everywhere.list(&here).await.unwrap().into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let now = DeleteParams::default().grace_period(0);
    Api::<Pod>::namespaced(attacker.admin.clone(), "kube-system").delete(&hub, &now).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_reserves_the_name_of_an_operators_node() {
    let (cluster, server) = Cluster::with_platform().await;
    let (visitor, other) =
        (ConsoleUser::register(&server, &cluster).await, ConsoleUser::register(&server, &cluster).await);
    let script = JoinScript::fetch(&visitor).await;
    let control_plane = format!("control-plane-{}", visitor.phone);
    let victims = format!("{}-edge", other.namespace);
    let long = format!("{}-{}", visitor.namespace, "x".repeat(52));
    for name in [&control_plane, &victims, &long, &visitor.namespace] {
        let (decision, _) = request_certificate(&cluster, &script, name).await;
        assert_eq!(decision, "Denied WrongName", "{name}");
    }
    let longest = format!("{}-{}", visitor.namespace, "x".repeat(51));
    assert_eq!(request_certificate(&cluster, &script, &longest).await.0, "Approved Joined");
}
