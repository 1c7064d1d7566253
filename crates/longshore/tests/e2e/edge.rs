//! Life cycle of an edge account with nodes: nodes join up to the account's limit, belong to the account alone, and
//! are removed with it.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube_types::User;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use crate::console::ConsoleUser;
use crate::nodes::{client, run_blocking};
use crate::platform::until;
use crate::program::longshore;
use crate::request::send_body;
use crate::target::Cluster;

const TENANT: &str = "openyurt/tenant";

/// Server address and join credentials of an account's node join script.
pub struct JoinScript {
    pub server: String,
    pub token: String,
    hash: String,
}

impl JoinScript {
    pub async fn fetch(visitor: &ConsoleUser) -> Self {
        let login = visitor.login().await;
        assert_eq!(login.code, 200, "{}", login.text);
        let told = login.json();
        let script = told["spec"]["nodeAddScript"].as_str().unwrap();
        let quoted = |after: &str| {
            let rest = script.split(after).nth(1).unwrap_or_else(|| panic!("no {after} in {script}"));
            rest.split('\'').nth(1).unwrap().to_owned()
        };
        Self {
            server: format!("https://{}", quoted(" join ")),
            token: quoted("--token="),
            hash: quoted("--discovery-token-ca-cert-hash="),
        }
    }

    pub fn token_id(&self) -> &str {
        self.token.split('.').next().unwrap()
    }

    /// Folder in which a node keeps its credentials after joining with this script.
    pub fn node_folder(&self, cluster: &Cluster, name: &str) -> PathBuf {
        cluster.folder.path().join(format!("{name}-{}", self.token_id()))
    }

    /// Joins as one node. Returns whether it was admitted, and the output.
    pub async fn join(&self, cluster: &Cluster, name: &str) -> (bool, String) {
        cluster.remove_at_end(format!("/api/v1/nodes/{name}"));
        let folder = self.node_folder(cluster, name);
        let mut join = longshore(["node", "join", "--server", &self.server, "--name", name]);
        join.args(["--token", &self.token, "--ca-cert-hash", &self.hash, "--dir"]).arg(folder);
        run_blocking(join).await
    }
}

/// A CSR for a node certificate with these organisations in its subject.
fn node_csr(name: &str, organisations: &[&str]) -> CertificateSigningRequest {
    let mut wanted = CertificateParams::default();
    wanted.distinguished_name = DistinguishedName::new();
    wanted.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
    for organisation in organisations {
        wanted.distinguished_name.push(DnType::OrganizationName, *organisation);
    }
    let request = wanted.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let csr = json!({"metadata": {"name": format!("ask-{name}")}, "spec": {
        "request": ByteString(request.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"], "expirationSeconds": 86_400}});
    serde_json::from_value(csr).unwrap()
}

/// Remaining validity of a PEM certificate.
pub fn remaining_validity(pem: &[u8]) -> SignedDuration {
    let (_, block) = x509_parser::pem::parse_x509_pem(pem).unwrap();
    let end = block.parse_x509().unwrap().validity().not_after.timestamp();
    Timestamp::from_second(end).unwrap().duration_since(Timestamp::now())
}

/// Asserts that a certificate of a tenant's node expires within a day; allows for clock skew.
pub fn assert_ends_within_a_day(pem: &[u8]) {
    let remaining = remaining_validity(pem);
    assert!(remaining <= SignedDuration::from_mins(24 * 60 + 5), "a certificate for {remaining:#}");
}

fn owner_label_and_taint(node: &Node) -> (Option<&str>, Option<&str>) {
    let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(TENANT));
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    let taint = taints
        .filter(|taint| taint.key == TENANT && taint.effect == "NoSchedule")
        .find_map(|taint| taint.value.as_deref());
    (label.map(String::as_str), taint)
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_join_up_to_the_limit_are_their_accounts_and_go_with_it() {
    let (cluster, server) = Cluster::with_platform().await;
    let admin = cluster.client().await;
    let (mine, other) =
        (ConsoleUser::register(&server, &cluster).await, ConsoleUser::register(&server, &cluster).await);
    let (script, others) = (JoinScript::fetch(&mine).await, JoinScript::fetch(&other).await);
    let name = |number: usize| format!("{}-edge-{number}", mine.namespace);
    let users: Api<User> = Api::all(admin.clone());
    let account = format!("user-{}", mine.phone);
    users
        .patch(&account, &PatchParams::default(), &Patch::Merge(json!({"spec": {"maxNodeNum": 2}})))
        .await
        .unwrap();

    let nodes: Api<Node> = Api::all(admin.clone());
    for number in [1, 2] {
        let (came, said) = script.join(&cluster, &name(number)).await;
        assert!(came, "{said}\n{}", server.log());
        let certificate = script.node_folder(&cluster, &name(number)).join("certificate.pem");
        assert_ends_within_a_day(&std::fs::read(certificate).unwrap());
        until("it is marked", async || {
            let node = nodes.get(&name(number)).await.unwrap();
            (owner_label_and_taint(&node) == (Some(&mine.namespace), Some(&mine.namespace))).then_some(())
        })
        .await;
    }
    let (came, said) = script.join(&cluster, &name(3)).await;
    assert!(!came && said.contains("the account has reached its node limit"), "{said}");
    assert!(nodes.get_opt(&name(3)).await.unwrap().is_none());
    let foreign = format!("{}-edge-1", other.namespace);
    let (came, said) = others.join(&cluster, &foreign).await;
    assert!(came, "{said}");
    let (came, said) = others.join(&cluster, &name(2)).await;
    assert!(!came && said.contains("must begin with the id of its account"), "{said}");

    let listed = until("both are told", async || {
        let list = mine.get("/nodes").await.json();
        let names: Vec<String> =
            list["allNodes"].as_array()?.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        (names.len() == 2).then_some(names)
    })
    .await;
    assert_eq!(listed, [name(1), name(2)]);
    assert_eq!(mine.login().await.json()["status"]["nodeNum"], 2);
    assert_foreign_csrs_are_denied(&cluster, &script, &mine).await;
    assert_renewal(&cluster, &script, &name(1), &name(2)).await;
    expire_account(&cluster, &mine).await;

    assert!(
        nodes.get_opt(&name(1)).await.unwrap().is_none() && nodes.get_opt(&name(2)).await.unwrap().is_none()
    );
    let spaces: Api<Namespace> = Api::all(admin.clone());
    assert!(spaces.get_opt(&mine.namespace).await.unwrap().is_none());
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
    let token = |script: &JoinScript| format!("bootstrap-token-{}", script.token_id());
    assert!(secrets.get_opt(&token(&script)).await.unwrap().is_none());
    let csrs: Api<CertificateSigningRequest> = Api::all(admin.clone());
    let asked = csrs.list(&ListParams::default()).await.unwrap();
    let requests = |script: &JoinScript| {
        let by = format!("system:bootstrap:{}", script.token_id());
        asked.iter().filter(|csr| csr.spec.username.as_deref() == Some(&by)).count()
    };
    assert_eq!(requests(&script), 0);
    // Other accounts are unaffected.
    assert!(requests(&others) > 0);
    assert_eq!(
        owner_label_and_taint(&nodes.get(&foreign).await.unwrap()),
        (Some(&*other.namespace), Some(&*other.namespace))
    );
    assert!(spaces.get_opt(&other.namespace).await.unwrap().is_some());
    assert!(secrets.get_opt(&token(&others)).await.unwrap().is_some());
    assert_eq!(other.get("/nodes").await.code, 200);
}

/// A node can request its next certificate with its current one, and no certificate of another node.
async fn assert_renewal(cluster: &Cluster, script: &JoinScript, node: &str, other: &str) {
    let folder = script.node_folder(cluster, node);
    let kept = |file: &str| STANDARD.encode(std::fs::read(folder.join(file)).unwrap());
    let shown =
        json!({"client-certificate-data": kept("certificate.pem"), "client-key-data": kept("key.pem")});
    let own: Api<CertificateSigningRequest> = Api::all(client(&script.server, &kept("ca.pem"), &shown).await);
    let refused = own.create(&PostParams::default(), &node_csr(other, &["system:nodes"])).await.unwrap_err();
    assert!(refused.to_string().contains("can only create a node CSR with CN="), "{refused}");
    let csr = node_csr(node, &["system:nodes"]);
    let name = csr.metadata.name.clone().unwrap();
    cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
    own.create(&PostParams::default(), &csr).await.unwrap();
    let (reason, certificate) = until("it has its next certificate", async || {
        let status = own.get(&name).await.unwrap().status?;
        let decided = status.conditions?.into_iter().next()?;
        Some((decided.reason.unwrap_or_default(), status.certificate?.0))
    })
    .await;
    // A real cluster approves renewals of node certificates automatically, except the certificates of tenants' nodes.
    assert_eq!(reason, "Renewed");
    assert_ends_within_a_day(&certificate);
}

/// CSRs that do not belong to a node of the account are denied.
async fn assert_foreign_csrs_are_denied(cluster: &Cluster, script: &JoinScript, visitor: &ConsoleUser) {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let authority =
        kubeconfig.clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone().unwrap();
    let machine = client(&script.server, &authority, &json!({"token": script.token})).await;
    let csrs: Api<CertificateSigningRequest> = Api::all(cluster.client().await);
    let rows: [(&str, &[&str]); 3] =
        [("none", &[]), ("users", &["openyurt:users"]), ("more", &["system:nodes", "system:masters"])];
    for (word, organisations) in rows {
        let csr = node_csr(&format!("{word}-{}", visitor.phone), organisations);
        let name = csr.metadata.name.clone().unwrap();
        cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
        let asked = Api::all(machine.clone()).create(&PostParams::default(), &csr).await;
        if let Err(refused) = asked {
            // The API server may reject such a subject on its own.
            assert!(refused.to_string().contains("system:masters"), "{refused}");
            continue;
        }
        let (kind, reason) = until("it is decided", async || {
            let decided = csrs.get(&name).await.unwrap().status?.conditions?.into_iter().next()?;
            Some((decided.type_, decided.reason.unwrap_or_default()))
        })
        .await;
        assert_eq!((kind.as_str(), reason.as_str()), ("Denied", "WrongSubject"), "{word}");
    }
}

/// Expires the account, then moves the expiry back beyond the grace period, so that the account is deleted.
async fn expire_account(cluster: &Cluster, visitor: &ConsoleUser) {
    let admin = cluster.client().await;
    let users: Api<User> = Api::all(admin.clone());
    let account = format!("user-{}", visitor.phone);
    let past = json!({"status": {"effectiveTime": "2020-01-01T00:00:00Z"}});
    users.patch_status(&account, &PatchParams::default(), &Patch::Merge(past)).await.unwrap();
    let told = until("it has expired", async || {
        let login = visitor.login().await;
        assert_eq!(login.code, 200, "{}", login.text);
        let told = login.json();
        (told["status"]["expired"] == true).then_some(told)
    })
    .await;
    assert_eq!((&told["spec"]["kubeConfig"], &told["spec"]["nodeAddScript"]), (&json!(""), &json!("")));
    let path = format!("/apis/user.openyurt.io/v1alpha1/users/{account}/status");
    until("it is gone", async || {
        let user = users.get_opt(&account).await.unwrap();
        let Some(mut user) = user else { return Some(()) };
        let status = user.status.get_or_insert_default();
        let long_ago = Time(Timestamp::now() - SignedDuration::from_hours(48));
        let is_new = |said: &&mut Condition| {
            said.type_ == "Expired"
                && said.last_transition_time.0.duration_since(long_ago.0) > SignedDuration::from_hours(1)
        };
        if let Some(said) = status.conditions.iter_mut().find(is_new) {
            said.last_transition_time = long_ago;
            // A conflicting concurrent write is retried by the loop.
            send_body(&admin, Method::PUT, &path, "application/json", serde_json::to_string(&user).unwrap())
                .await;
        }
        None
    })
    .await;
}
