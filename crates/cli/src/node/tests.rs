//! Nodes that join an embedded cluster over TLS, with every request recorded.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::AUTHORIZATION;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_embedded::access::User;
use kube_embedded::access::authn::PeerCertificate;
use kube_embedded::cluster::Cluster;
use kube_embedded::http::accept::{ConnectionLimits, accept};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use testkit::wait_for;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::{ServiceExt, service_fn};

use super::*;

mod renewal;

const TOKEN: &str = "abcdef.0123456789abcdef";

struct JoinHarness {
    cluster: Cluster,
    admin: kube::Client,
    server: String,
    hash: String,
    folder: TempDir,
    /// Method, path and presence of a token of every request received.
    requests: Arc<Mutex<Vec<String>>>,
    /// The client certificate of the latest connection, if it had one.
    client_certificate: Arc<Mutex<Option<Vec<u8>>>>,
}

impl JoinHarness {
    async fn new() -> Self {
        let cluster = Cluster::in_memory().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let shown: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        tokio::spawn(serve_and_record(cluster.clone(), listener, heard.clone(), shown.clone()));
        let hash = discovery::ca_hash(cluster.pki().ca_pem().as_bytes()).unwrap().to_string();
        let admin = cluster.client(User::admin());
        let world = Self {
            cluster,
            admin,
            server,
            hash,
            folder: tempdir().unwrap(),
            requests: heard,
            client_certificate: shown,
        };
        world.create_token(TOKEN, json!({})).await;
        let binding = json!({"metadata": {"name": "join"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}]});
        let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        world
    }

    /// Creates a bootstrap token and waits until the cluster has signed `cluster-info` with it.
    async fn create_token(&self, token: &str, more: Value) {
        let (id, secret) = token.split_once('.').unwrap();
        let mut data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true"});
        data.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let object = json!({"metadata": {"name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token", "stringData": data});
        let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), "kube-system");
        secrets.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        self.cluster.wait_until_idle().await;
    }

    fn args(&self, name: &str, more: &[&str]) -> JoinArgs {
        let dir = self.folder.path().join(name);
        let mut words = vec!["longshore", "node", "join", "--server", &self.server, "--name", name];
        words.extend(["--dir", dir.to_str().unwrap()]);
        for (flag, value) in [("--token", TOKEN), ("--ca-cert-hash", self.hash.as_str())] {
            if !more.contains(&flag) {
                words.extend([flag, value]);
            }
        }
        words.extend(more);
        match <crate::Cli as clap::Parser>::try_parse_from(words).unwrap().command {
            crate::Command::Node(Command::Join(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    async fn join(&self, args: &JoinArgs) -> Result<String, NodeError> {
        let mut said = String::new();
        let mut say = |line: &str| {
            writeln!(said, "{line}").unwrap();
            Ok(())
        };
        join::run(args, &mut say).await?;
        Ok(said.replace(&self.server, "SERVER"))
    }

    async fn reset(&self, name: &str) -> Result<String, NodeError> {
        let mut said = String::new();
        let mut say = |line: &str| {
            writeln!(said, "{line}").unwrap();
            Ok(())
        };
        reset::run(&ResetArgs { dir: self.folder.path().join(name) }, &mut say).await?;
        Ok(said.replace(&self.server, "SERVER"))
    }

    fn csrs(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.admin.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.admin.clone())
    }

    /// Decides the next pending CSR in this way.
    fn decide_next_csr(
        &self,
        kind: &'static str,
        message: &'static str,
    ) -> JoinHandle<CertificateSigningRequest> {
        let csrs = self.csrs();
        tokio::spawn(async move {
            let is_open = |csr: &CertificateSigningRequest| {
                csr.status.as_ref().is_none_or(|status| status.conditions.is_none())
            };
            let csr = loop {
                let all = csrs.list(&ListParams::default()).await.unwrap().items;
                match all.into_iter().find(is_open) {
                    Some(csr) => break csr,
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            };
            let name = csr.metadata.name.clone().unwrap();
            let decision = json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Test", "message": message}]}});
            csrs.patch_subresource("approval", &name, &PatchParams::default(), &Patch::Merge(decision))
                .await
                .unwrap();
            csr
        })
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// Serves a cluster and records its requests.
async fn serve_and_record(
    cluster: Cluster,
    listener: TcpListener,
    heard: Arc<Mutex<Vec<String>>>,
    shown: Arc<Mutex<Option<Vec<u8>>>>,
) {
    let tls = Arc::new(cluster.pki().server_config().unwrap());
    let stopping = cluster.wait_until_stopped();
    let of_peer = move |_, peer: Option<&rustls_pki_types::CertificateDer<'_>>| {
        *shown.lock().unwrap() = peer.map(|peer| peer.to_vec());
        let inner = match peer.and_then(|peer| PeerCertificate::from_der(peer)) {
            Some(peer) => cluster.service_as(peer.user),
            None => cluster.service(),
        };
        let heard = heard.clone();
        service_fn(move |request: http::Request<_>| {
            let token = if request.headers().contains_key(AUTHORIZATION) { " with a token" } else { "" };
            heard.lock().unwrap().push(format!("{} {}{token}", request.method(), request.uri().path()));
            inner.clone().oneshot(request)
        })
    };
    accept(listener, Some(tls), ConnectionLimits::default(), of_peer, stopping).await;
}

fn ready_status(node: &Node) -> &str {
    machine::find_condition(node, "Ready").map_or("-", |ready| ready.status.as_str())
}

#[tokio::test]
async fn a_machine_joins_by_the_steps_of_a_kubelet_and_goes_on_from_where_it_was() {
    let world = JoinHarness::new().await;
    let approver = world.decide_next_csr("Approved", "");
    let args = world.args("edge-1", &["--pool", "hangzhou", "--label", "rack=7"]);
    insta::assert_snapshot!(world.join(&args).await.unwrap(), @r"
    SERVER verified; waiting for the certificate of node `edge-1` to be approved
    node `edge-1` has joined SERVER
    ");
    let csr = approver.await.unwrap();
    assert_eq!(csr.spec.username.as_deref(), Some("system:bootstrap:abcdef"));
    let heard = world.take_requests();
    let info = "GET /api/v1/namespaces/kube-public/configmaps/cluster-info";
    assert_eq!(heard[..2], [info, info]);
    assert_eq!(heard[2], "POST /apis/certificates.k8s.io/v1/certificatesigningrequests with a token");
    let node = world.nodes().get("edge-1").await.unwrap();
    assert_eq!(ready_status(&node), "True");
    let labels = node.metadata.labels.clone().unwrap();
    assert_eq!(
        [EDGE, POOL, "rack"].map(|key| labels.get(key).map(String::as_str)),
        [Some("true"), Some("hangzhou"), Some("7")]
    );
    let leases: Api<Lease> = Api::namespaced(world.admin.clone(), "kube-node-lease");
    let lease = leases.get("edge-1").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("edge-1"));
    assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, node.metadata.uid.clone().unwrap());
    assert_private(&world.folder.path().join("edge-1"));

    // The token is deleted, and everything after the certificate is lost.
    let secrets: Api<Secret> = Api::namespaced(world.admin.clone(), "kube-system");
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    world.nodes().delete("edge-1", &DeleteParams::default()).await.unwrap();
    assert_eq!(world.join(&args).await.unwrap(), "node `edge-1` has joined SERVER\n");
    assert_eq!(world.join(&args).await.unwrap(), "node `edge-1` has joined SERVER\n");
    assert!(
        !world.take_requests().iter().any(|line| line.contains("with a token")),
        "nothing is asked for again"
    );
    assert_eq!(world.csrs().list(&ListParams::default()).await.unwrap().items.len(), 1);
}

const EDGE: &str = "openyurt.io/is-edge-worker";
const POOL: &str = "apps.openyurt.io/desired-nodepool";

fn assert_private(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir), 0o700);
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["ca.pem", "certificate.pem", "key.pem", "lock", "machine.json", "request.pem"]);
}

#[tokio::test]
async fn nothing_secret_is_sent_to_a_cluster_that_has_not_proved_itself() {
    let world = JoinHarness::new().await;
    world.create_token("unsign.0123456789abcdef", json!({"usage-bootstrap-signing": "false"})).await;
    let zeros = format!("sha256:{}", "0".repeat(64));
    let table: [&[&str]; 4] = [
        &["--ca-cert-hash", &zeros],
        &["--token", "abcdef.fedcba9876543210"],
        &["--token", "nobody.0123456789abcdef"],
        &["--token", "unsign.0123456789abcdef"],
    ];
    let mut picture = String::new();
    for more in table {
        let why = world.join(&world.args("edge-1", more)).await.unwrap_err().to_string();
        let why = why.replace(&world.server, "SERVER").replace(&world.hash, "HASH").replace(&zeros, "ZEROS");
        writeln!(picture, "{why}").unwrap();
    }
    insta::assert_snapshot!(picture, @r#"
    the CA of SERVER has hash HASH, expected ZEROS: this is not your cluster, or its CA has changed; no secret was sent
    SERVER has no token `abcdef` with this secret: the token is mistyped, or this is not your cluster
    SERVER does not know the token `nobody`: it is mistyped, has expired or was revoked
    SERVER does not know the token `unsign`: it is mistyped, has expired or was revoked
    "#);
    let heard = world.take_requests();
    let info = "GET /api/v1/namespaces/kube-public/configmaps/cluster-info";
    assert_eq!(heard, [info; 4]);
    assert!(world.csrs().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn who_is_not_let_in_is_told_why() {
    let world = JoinHarness::new().await;
    let mut picture = String::new();
    let mut tell = |what: &str, came: Result<String, NodeError>| {
        let why = came.unwrap_err().to_string();
        let why = why
            .split("node-csr-")
            .enumerate()
            .map(|(n, part)| if n == 0 { part.to_owned() } else { format!("node-csr-N{}", &part[32..]) });
        let why = why.collect::<String>().replace(&world.server, "SERVER");
        writeln!(picture, "{what}: {}", why.replace(world.folder.path().to_str().unwrap(), "DIR")).unwrap();
    };
    world.create_token("signer.0123456789abcdef", json!({"usage-bootstrap-authentication": "false"})).await;
    let args = world.args("edge-1", &["--token", "signer.0123456789abcdef"]);
    tell("withdrawn", world.join(&args).await);
    let args = world.args("edge-1", &["--timeout", "1"]);
    tell("nobody decides", world.join(&args).await);
    let denier = world.decide_next_csr("Denied", "the account may have 3 nodes, and has 3");
    tell("denied", world.join(&args).await);
    denier.await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(world.admin.clone());
    bindings.delete("join", &DeleteParams::default()).await.unwrap();
    tell("without a right", world.join(&args).await);
    let mut elsewhere = world.args("edge-1", &[]);
    elsewhere.server = "127.0.0.1:1".parse().unwrap();
    tell("another cluster", world.join(&elsewhere).await);
    elsewhere.dir = Some(world.folder.path().join("other"));
    tell("nobody there", world.join(&elsewhere).await);
    insta::assert_snapshot!(picture, @r#"
    withdrawn: the cluster does not accept the token: it has expired or was revoked
    nobody decides: certificate signing request `node-csr-N` was not approved within 1 seconds: join again to keep waiting
    denied: the certificate signing request was denied: the account may have 3 nodes, and has 3
    without a right: the token may not request a node certificate: certificatesigningrequests.certificates.k8s.io is forbidden: User "system:bootstrap:abcdef" cannot create resource "certificatesigningrequests" in API group "certificates.k8s.io" at the cluster scope
    another cluster: `DIR/edge-1` belongs to node `edge-1` of SERVER: remove that node with `longshore node reset --dir`, or choose another --dir
    nobody there: cannot reach https://127.0.0.1:1: ServiceError: client error (Connect): tcp connect error: Connection refused (os error 111)
    "#);
}

#[tokio::test]
async fn join_creates_new_csr_after_denial_and_resumes_pending_csr() {
    let world = JoinHarness::new().await;
    let args = world.args("edge-1", &["--timeout", "1"]);
    world.join(&args).await.unwrap_err();
    world.join(&args).await.unwrap_err();
    assert_eq!(world.csrs().list(&ListParams::default()).await.unwrap().items.len(), 1, "the same request");
    world.decide_next_csr("Denied", "no").await.unwrap();
    world.join(&args).await.unwrap_err();
    let approver = world.decide_next_csr("Approved", "");
    world.join(&world.args("edge-1", &[])).await.unwrap();
    approver.await.unwrap();
    assert_eq!(world.csrs().list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn join_refuses_name_of_another_machine() {
    let world = JoinHarness::new().await;
    let approver = world.decide_next_csr("Approved", "");
    world.join(&world.args("edge-1", &[])).await.unwrap();
    approver.await.unwrap();
    let before = world.nodes().get("edge-1").await.unwrap();
    let approver = world.decide_next_csr("Approved", "");
    let mut other = world.args("edge-1", &[]);
    other.dir = Some(world.folder.path().join("other"));
    let failure = world.join(&other).await.unwrap_err();
    approver.await.unwrap();
    assert!(matches!(&failure, NodeError::NameTaken(name) if name == "edge-1"), "{failure}");
    assert_eq!(world.nodes().get("edge-1").await.unwrap(), before);
}

#[tokio::test]
async fn heartbeat_updates_node_and_fails_when_node_is_deleted() {
    let world = JoinHarness::new().await;
    let approver = world.decide_next_csr("Approved", "");
    let args = world.args("edge-1", &["--stay"]);
    let dir = args.dir.clone().unwrap();
    let staying = tokio::spawn({
        let args = args.clone();
        async move { join::run(&args, &mut |_| Ok(())).await }
    });
    approver.await.unwrap();
    let leases: Api<Lease> = Api::namespaced(world.admin.clone(), "kube-node-lease");
    let renewed = async || leases.get_opt("edge-1").await.unwrap()?.spec?.renew_time;
    let first = wait_for("the machine is in", async || renewed().await).await;
    let busy = state_dir::StateDir::open(&dir).err().unwrap().to_string();
    assert!(busy.contains("in use by another process"), "{busy}");
    wait_for("the Lease is renewed", async || renewed().await.filter(|at| *at != first)).await;
    world.nodes().delete("edge-1", &DeleteParams::default()).await.unwrap();
    let came = tokio::time::timeout(Duration::from_mins(1), staying).await.unwrap().unwrap();
    assert!(matches!(came, Err(NodeError::NodeDeleted(_))), "{came:?}");
}

#[tokio::test]
async fn a_machine_that_leaves_says_what_it_may_not_take_back() {
    let world = JoinHarness::new().await;
    let approver = world.decide_next_csr("Approved", "");
    world.join(&world.args("edge-1", &[])).await.unwrap();
    approver.await.unwrap();
    insta::assert_snapshot!(world.reset("edge-1").await.unwrap(), @r#"
    deleted the key and certificate of node `edge-1` of SERVER
    node `edge-1` still exists and must be deleted by its owner or an administrator: nodes "edge-1" is forbidden: User "system:node:edge-1" cannot delete resource "nodes" in API group "" at the cluster scope
    "#);
    let node = world.nodes().get("edge-1").await.unwrap();
    assert_eq!(ready_status(&node), "False");
    assert!(!world.folder.path().join("edge-1").exists());
    let failure = world.reset("edge-1").await.unwrap_err();
    assert!(matches!(failure, NodeError::Folder(state_dir::StateDirError::NoMachine(_))), "{failure}");
}

/// The hash was computed by openssl: `x509 -pubkey`, `pkey -outform der`, SHA-256.
#[test]
fn ca_hash_matches_openssl() {
    let authority = concat!(
        "-----BEGIN CERTIFICATE-----\n",
        "MIIBgDCCASegAwIBAgIULg6mVXy0v7OUH+6gCSvfccthv98wCgYIKoZIzj0EAwIwFTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjEx\n",
        "MTYwMjQ3MTFaGA8yMTI2MTAyMzAyNDcxMVowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDQj\n",
        "Air6KGNvPwhS1yTtRcmvtpCcChhcRXQQhksTtszghya/fXUl49T+qa2zdRCeDHeF+n6017VSezK01zM6xNWjUzBRMB0GA1UdDgQWBBT+\n",
        "FTRP2mpWQp/fZeNHx2mZRhY7mDAfBgNVHSMEGDAWgBT+FTRP2mpWQp/fZeNHx2mZRhY7mDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49\n",
        "BAMCA0cAMEQCIF4jSBTr8PHtKWnzyS46dA9cNLsVcpvlGxsbpuk5C9xvAiApvWSgo1ke82dAJqbX+uEJud5ZuivcpDoDC4iyJDIKUA==\n",
        "-----END CERTIFICATE-----\n",
    );
    let hash = discovery::ca_hash(authority.as_bytes()).unwrap().to_string();
    assert_eq!(hash, "sha256:161be5936539fd1b546bc1f0505b3c54393c3caa698c0246cf17b1a02c9dbbf8");
    assert!(discovery::ca_hash(authority.repeat(2).as_bytes()).unwrap_err().contains("2 CA certificates"));
    assert!(discovery::ca_hash(b"").is_err());
}

#[test]
fn join_arguments_are_validated_without_echoing_secrets() {
    for (text, good) in [
        ("https://10.0.0.1:6443", true),
        ("10.0.0.1:6443", true),
        ("https://[::1]:6443/", true),
        ("http://10.0.0.1", false),
        ("https://a:b@c", false),
        ("https://a/path", false),
        ("", false),
    ] {
        assert_eq!(text.parse::<ServerAddress>().is_ok(), good, "{text}");
    }
    let token: JoinToken = TOKEN.parse().unwrap();
    assert_eq!(format!("{token:?}"), "JoinToken(abcdef.…)");
    for text in ["abcdef.0123456789abcde", "abcdef0123456789abcdef", "Abcdef.0123456789abcdef", ""] {
        let why = text.parse::<JoinToken>().unwrap_err();
        assert!(text.is_empty() || !why.contains(text), "{why}");
    }
    let hash = format!("sha256:{}", "0a".repeat(32));
    assert_eq!(hash.parse::<CaCertHash>().unwrap().to_string(), hash);
    for text in ["sha256:0a", &hash[7..], &hash.replace("0a", "0g")] {
        assert!(text.parse::<CaCertHash>().is_err(), "{text}");
    }
    for (text, good) in
        [("edge-1", true), ("a.b", true), ("Edge", false), ("-a", false), ("a..b", false), ("", false)]
    {
        assert_eq!(join_args::node_name(text).is_ok(), good, "{text}");
    }
    assert_eq!(join_args::label("a/b=c"), Ok(("a/b".to_owned(), "c".to_owned())));
    assert!(
        join_args::label("a").is_err() && join_args::label("a=/").is_err() && join_args::label("=a").is_err()
    );
}
