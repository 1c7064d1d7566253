//! Nodes that join with a real bootstrap token and a real CSR. The results and messages must be the same on every
//! target.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::platform::until;
use crate::program::longshore;
use crate::target::Cluster;

const SECRET: &str = "0123456789abcdef";
const INFO: &str = "cluster-info";

/// Cluster address and bootstrap token for a node that joins.
struct JoinFixture {
    cluster: Cluster,
    admin: kube::Client,
    server: String,
    /// Id of the bootstrap token.
    id: String,
}

impl JoinFixture {
    async fn new() -> Self {
        let cluster = Cluster::start();
        let admin = cluster.client().await;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let server = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        // The namespace is unique, `e2e-<process>-<number>`. A token id has six characters for it.
        let mut numbers = cluster.namespace.split('-').skip(1).map(|number| number.parse::<u32>().unwrap());
        let id = format!("{:05x}{:x}", numbers.next().unwrap() & 0xf_ffff, numbers.next().unwrap() & 0xf);
        let invitation = Self { cluster, admin, server, id };
        invitation.prepare().await;
        invitation
    }

    /// Creates the token and allows its group to create CSRs, then waits until the cluster signs the cluster
    /// information with it.
    async fn prepare(&self) {
        let (id, name) = (&self.id, format!("bootstrap-token-{}", self.id));
        let group = format!("system:bootstrappers:{}", self.cluster.namespace);
        let secret = json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": {
            "token-id": id, "token-secret": SECRET, "auth-extra-groups": group,
            "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"}});
        self.cluster.remove_at_end(format!("/api/v1/namespaces/kube-system/secrets/{name}"));
        let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), "kube-system");
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let binding = json!({"metadata": {"name": self.cluster.namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        self.cluster.remove_at_end(format!("{path}/{}", self.cluster.namespace));
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin.clone());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(self.admin.clone(), "kube-public");
        let key = format!("jws-kubeconfig-{id}");
        until("the cluster signs with the token", async || {
            maps.get(INFO).await.unwrap().data.unwrap_or_default().contains_key(&key).then_some(())
        })
        .await;
    }

    fn dir(&self) -> PathBuf {
        self.cluster.folder.path().join("machine")
    }

    fn join(&self, name: &str, hash: &str) -> Command {
        let mut join = longshore(["node", "join", "--server", &self.server, "--name", name]);
        join.args(["--token", &format!("{}.{SECRET}", self.id), "--ca-cert-hash", hash, "--dir"]);
        join.arg(self.dir());
        join
    }

    /// CSRs created with this token.
    async fn list_csrs(&self) -> Vec<CertificateSigningRequest> {
        let csrs: Api<CertificateSigningRequest> = Api::all(self.admin.clone());
        let asker = format!("system:bootstrap:{}", self.id);
        let mut all = csrs.list(&ListParams::default()).await.unwrap().items;
        all.retain(|csr| csr.spec.username.as_deref() == Some(&asker));
        all
    }

    /// Approves the first CSR, unless the cluster approves it automatically.
    async fn approve_first_csr(&self) {
        let asked = async || self.list_csrs().await.into_iter().next();
        let csr = until("the machine asks", asked).await;
        let name = csr.metadata.name.unwrap();
        let csrs: Api<CertificateSigningRequest> = Api::all(self.admin.clone());
        let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "by hand"}]}});
        csrs.patch_subresource("approval", &name, &PatchParams::default(), &Patch::Strategic(approval))
            .await
            .unwrap();
    }
}

/// Runs a command on a blocking thread, so that the test continues.
pub async fn run_blocking(mut command: Command) -> (bool, String) {
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    (
        status.success(),
        format!("{}{}", String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap()),
    )
}

/// The hash of the cluster's CA certificate in an error message.
fn hash_in_error(refusal: &str) -> String {
    let at = refusal.find("sha256:").unwrap_or_else(|| panic!("{refusal}"));
    refusal[at..at + 71].to_owned()
}

/// A client with the certificate in a node's folder.
pub async fn as_node(dir: &Path, server: &str) -> kube::Client {
    let read = |name: &str| STANDARD.encode(std::fs::read(dir.join(name)).unwrap());
    let user =
        json!({"client-certificate-data": read("certificate.pem"), "client-key-data": read("key.pem")});
    client(server, &read("ca.pem"), &user).await
}

/// A client with these kubeconfig credentials.
pub async fn client(server: &str, authority: &str, user: &Value) -> kube::Client {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn node_joins_is_restricted_and_resets() {
    let invitation = JoinFixture::new().await;
    let name = format!("edge-{}", invitation.cluster.namespace);
    invitation.cluster.remove_at_end(format!("/api/v1/nodes/{name}"));

    let nothing = format!("sha256:{}", "0".repeat(64));
    let (well, said) = run_blocking(invitation.join(&name, &nothing)).await;
    assert!(!well && said.contains("no secret was sent"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
    assert!(invitation.list_csrs().await.is_empty(), "it was refused before anything was asked");

    let join = invitation.join(&name, &hash_in_error(&said));
    let (came, ()) = tokio::join!(run_blocking(join), invitation.approve_first_csr());
    assert!(came.0, "{}", came.1);
    assert!(came.1.ends_with(&format!("node `{name}` has joined {}\n", invitation.server)), "{}", came.1);
    let nodes: Api<Node> = Api::all(invitation.admin.clone());
    let node = nodes.get(&name).await.unwrap();
    let labels = node.metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("openyurt.io/is-edge-worker").map(String::as_str), Some("true"));
    until("it is ready, and pods may come", async || {
        let node = nodes.get(&name).await.unwrap();
        let conditions = node.status?.conditions?;
        let ready = conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        (ready && taints.is_empty()).then_some(())
    })
    .await;

    assert_node_is_restricted(&invitation, &name).await;

    let mut reset = longshore(["node", "reset", "--dir"]);
    reset.arg(invitation.dir());
    let (well, said) = run_blocking(reset).await;
    assert!(well && said.contains("must be deleted by its owner"), "{said}");
    assert!(!invitation.dir().exists());
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
}

/// Checks the permissions of a node's certificate, and the messages of denied requests.
async fn assert_node_is_restricted(invitation: &JoinFixture, name: &str) {
    let client = as_node(&invitation.dir(), &invitation.server).await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.get(name).await.unwrap();
    let refusal = |came: Result<Value, kube::Error>| came.unwrap_err().to_string();
    let told = |came: Result<Node, kube::Error>| refusal(came.map(|node| json!(node)));
    let patch =
        async |change: Value| told(nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await);
    let user = format!("User \"system:node:{name}\"");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let secret = secrets.get(&format!("bootstrap-token-{}", invitation.id)).await;
    let table = [
        (
            told(nodes.get("another").await),
            format!(
                "nodes \"another\" is forbidden: {user} cannot get resource \"nodes\" in API group \"\" at the cluster scope: node '{name}' cannot read 'another', only its own Node object"
            ),
        ),
        (
            refusal(nodes.list(&ListParams::default()).await.map(|_| Value::Null)),
            format!(
                "nodes is forbidden: {user} cannot list resource \"nodes\" in API group \"\" at the cluster scope: node '{name}' cannot read all nodes, only its own Node object"
            ),
        ),
        (
            refusal(secret.map(|_| Value::Null)),
            format!(
                "secrets \"bootstrap-token-{}\" is forbidden: {user} cannot get resource \"secrets\" in API group \"\" in the namespace \"kube-system\": no relationship found between node '{name}' and this object",
                invitation.id
            ),
        ),
        (
            patch(json!({"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}})).await,
            format!(
                "nodes \"{name}\" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/a"
            ),
        ),
        (
            patch(json!({"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})).await,
            format!("nodes \"{name}\" is forbidden: node \"{name}\" is not allowed to modify taints"),
        ),
        (
            refusal(nodes.delete(name, &DeleteParams::default()).await.map(|_| Value::Null)),
            format!(
                "nodes \"{name}\" is forbidden: {user} cannot delete resource \"nodes\" in API group \"\" at the cluster scope"
            ),
        ),
    ];
    for (found, expected) in table {
        assert!(found.contains(&expected), "{found}\n{expected}");
    }
}
