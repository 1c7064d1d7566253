//! Machines that join accounts, and accounts that expire.

use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube_types::{NodePool, NodePoolSpec};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;
use crate::edge::request::{CLIENT, KUBELET};
use crate::edge::token::{self, JOINERS, JoinToken};

pub(super) const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A manual clock that starts at the system time: the cluster expires bootstrap tokens by the system clock.
pub(super) fn clock_of_tokens() -> HeldClock {
    HeldClock::at(jiff::Timestamp::now())
}

/// A join token of an account.
pub(super) async fn join_token(world: &World, clock: &HeldClock, id: &str, pool: Option<&str>) -> JoinToken {
    let now = domain::clock::Clock::now(clock);
    let token = JoinToken::mint(&id.parse().unwrap(), None, pool, now);
    token::api(world.admin()).create(&PostParams::default(), &token.to_secret()).await.unwrap();
    token
}

/// A client that authenticates with the token.
pub(super) fn joiner(world: &World, token: &JoinToken) -> kube::Client {
    let group = token::group(&token.owner);
    let groups = ["system:bootstrappers", JOINERS, &group, "system:authenticated"];
    world.of(&format!("system:bootstrap:{}", token.id), &groups)
}

/// A kubelet's certificate request. A valid `organization` is `system:nodes`.
pub(super) fn request(node: &str, organization: Option<&str>) -> String {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, format!("system:node:{node}"));
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

/// The certificate request of yurthub on `uaaaaaaaaaa-edge-1`, created by OpenSSL, with three organizations.
const HUB_PEM: &str = "\
-----BEGIN CERTIFICATE REQUEST-----
MIIBPTCB5AIBADCBgTEZMBcGA1UECgwQb3Blbnl1cnQ6eXVydGh1YjEVMBMGA1UE
CgwMc3lzdGVtOm5vZGVzMSQwIgYDVQQKDBtvcGVueXVydDp0ZW5hbnQ6dWFhYWFh
YWFhYWExJzAlBgNVBAMMHnN5c3RlbTpub2RlOnVhYWFhYWFhYWFhLWVkZ2UtMTBZ
MBMGByqGSM49AgEGCCqGSM49AwEHA0IABJc5mu2KbTmOl4jgpcurxZRcWQHWSecI
DNykcPpGQEWOeCZyQ7Y8V7yfNsgeco54CPg7btxatfOHL7jfFk4zCWagADAKBggq
hkjOPQQDAgNIADBFAiBavyOV1C1HFwIT5oOtgeE5hFwZ+lNR2ur3TCef9Chv/AIh
APOwD2BgpoQOajBAkLnVP/+cvswVMihZbBUkQUS+1lCm
-----END CERTIFICATE REQUEST-----
";

/// Creates a certificate request with this object name.
pub(super) async fn ask(world: &World, token: &JoinToken, name: &str, pem: &str) {
    ask_as(joiner(world, token), KUBELET, name, pem).await;
}

pub(super) async fn ask_as(client: kube::Client, signer: &str, name: &str, pem: &str) {
    try_ask_as(client, signer, name, pem).await.unwrap();
}

async fn try_ask_as(
    client: kube::Client,
    signer: &str,
    name: &str,
    pem: &str,
) -> kube::Result<CertificateSigningRequest> {
    let csr: CertificateSigningRequest = serde_json::from_value(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": k8s_openapi::ByteString(pem.as_bytes().to_vec()),
            "signerName": signer,
            "usages": ["digital signature", "client auth"],
        },
    }))
    .unwrap();
    Api::all(client).create(&PostParams::default(), &csr).await
}

pub(super) async fn ask_for(world: &World, token: &JoinToken, node: &str) {
    ask(world, token, &format!("csr-{node}"), &request(node, Some("system:nodes"))).await;
}

/// The decision on a request: type and reason.
pub(super) async fn answer(world: &World, name: &str) -> Option<String> {
    let csr: CertificateSigningRequest = get(world, name).await?;
    let said = csr.status?.conditions?.into_iter().find(|said| said.type_ != "Failed")?;
    Some(format!("{} {}", said.type_, said.reason?))
}

pub(super) fn kubelet(world: &World, node: &str) -> kube::Client {
    world.of(&format!("system:node:{node}"), &["system:nodes", "system:authenticated"])
}

/// Waits for the certificate, then reports as the kubelet to the Node that the platform created.
pub(super) async fn appear(world: &World, node: &str) -> Option<()> {
    let said = answer(world, &format!("csr-{node}")).await?;
    assert_eq!(said, "Approved Joined", "{node}");
    report(world, node).await
}

/// Reports the kubelet's status if the Node exists.
async fn report(world: &World, node: &str) -> Option<()> {
    let found: Node = get(world, node).await?;
    if found.status.and_then(|status| status.node_info).is_none_or(|info| info.kubelet_version.is_empty()) {
        let info = json!({"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "m", "operatingSystem": "linux",
            "osImage": "", "systemUUID": ""});
        let report = Patch::Merge(json!({"status": {"nodeInfo": info}}));
        Api::<Node>::all(kubelet(world, node))
            .patch_status(node, &PatchParams::default(), &report)
            .await
            .unwrap();
    }
    Some(())
}

/// The Node of a tenant's machine that registers itself, with these effects of the tenant's taint.
fn registering(node: &str, tenant: &str, effects: &[&str]) -> Node {
    let taints: Vec<Value> = effects
        .iter()
        .map(|effect| json!({"key": marks::TENANT, "value": tenant, "effect": effect}))
        .collect();
    let node =
        json!({"metadata": {"name": node, "labels": {marks::TENANT: tenant}}, "spec": {"taints": taints}});
    serde_json::from_value(node).unwrap()
}

async fn leave(world: &World, node: &str) {
    patch::<Node>(world, node, json!({"metadata": {"annotations": {marks::LEAVING: "true"}}})).await;
}

pub(super) async fn nodes_of(world: &World, user: &str) -> (i64, Vec<String>) {
    let status = get::<User>(world, user).await.and_then(|user| user.status).unwrap_or_default();
    (status.node_num, status.nodes)
}

/// The owner of a node by its label and by its taint.
pub(super) fn marks_of(node: &Node) -> (Option<String>, Option<String>) {
    let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
    let of = |effect: &str| {
        let taint = taints.iter().find(|taint| taint.key == marks::TENANT && taint.effect == effect);
        taint.and_then(|taint| taint.value.clone())
    };
    assert_eq!(of("NoSchedule"), of("NoExecute"));
    (node.labels().get(marks::TENANT).cloned(), of("NoSchedule"))
}

/// Two ready accounts, with this limit of nodes each.
pub(super) async fn two(world: &World, clock: &HeldClock, nodes: i64) {
    for (name, id) in [("ana", ID), ("ben", OTHER)] {
        let mut user = user(name, Some(id));
        (user.spec.max_node_num, user.spec.valid_period) = (nodes, 7);
        create(world, &user).await;
    }
    let ready = async || user_is_ready(world, "ana").await.and(user_is_ready(world, "ben").await);
    until_reached(world, &Fault::none(), clock, "ready", ready).await;
}

/// Runs the controllers without faults until `reached` holds.
pub(super) async fn run_until(
    world: &World,
    clock: &HeldClock,
    what: &str,
    mut reached: impl AsyncFnMut() -> Option<()>,
) {
    let (heard, _guard) = crate::heard::listen();
    let begun = std::time::Instant::now();
    let mut told = false;
    let reached = async || {
        let answer = reached().await;
        if answer.is_none() && !told && begun.elapsed() > std::time::Duration::from_secs(50) {
            told = true;
            eprintln!("{what}: {}", heard.text());
        }
        answer
    };
    until_reached(world, &Fault::none(), clock, what, reached).await;
}

#[tokio::test]
async fn a_machine_becomes_a_node_of_its_account_and_of_no_other() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    let (anas, bens) = (
        join_token(&world, &clock, ID, Some("hangzhou")).await,
        join_token(&world, &clock, OTHER, None).await,
    );
    world.apply([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1"}})]).await;
    let one = request("uaaaaaaaaaa-edge-1", Some("system:nodes"));
    ask(&world, &anas, "csr-uaaaaaaaaaa-edge-1", &one).await;
    let counted = async || {
        appear(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await == (1, vec!["uaaaaaaaaaa-edge-1".to_owned()])).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    let node: Node = get(&world, "uaaaaaaaaaa-edge-1").await.unwrap();
    assert_eq!(marks_of(&node), (Some(ID.to_owned()), Some(ID.to_owned())));
    assert_eq!(node.labels().get(marks::DESIRED_POOL).map(String::as_str), Some("hangzhou"));
    let csr: CertificateSigningRequest = get(&world, "csr-uaaaaaaaaaa-edge-1").await.unwrap();
    assert!(csr.status.unwrap().certificate.is_some());

    // One request for each reason of denial, and a second valid one.
    ask(&world, &anas, "replayed", &one).await;
    ask(&world, &bens, "anothers", &request("uaaaaaaaaaa-edge-1", Some("system:nodes"))).await;
    ask(&world, &bens, "of-the-cloud", &request("cloud-1", Some("system:nodes"))).await;
    ask(&world, &bens, "of-nobody", &request("edge-1", Some("system:nodes"))).await;
    ask(&world, &bens, "no-organization", &request("ubbbbbbbbbb-edge-7", None)).await;
    ask(&world, &bens, "users", &request("ubbbbbbbbbb-edge-7", Some("openyurt:users"))).await;
    ask_for(&world, &anas, "uaaaaaaaaaa-edge-2").await;
    let first = async || answer(&world, "csr-uaaaaaaaaaa-edge-2").await.map(drop);
    run_until(&world, &clock, "answered", first).await;
    ask_for(&world, &anas, "uaaaaaaaaaa-edge-3").await;
    let said = [
        ("csr-uaaaaaaaaaa-edge-2", "Approved Joined"),
        ("csr-uaaaaaaaaaa-edge-3", "Denied TooManyNodes"),
        ("replayed", "Denied Replayed"),
        ("anothers", "Denied WrongName"),
        ("of-the-cloud", "Denied WrongName"),
        ("of-nobody", "Denied WrongName"),
        ("no-organization", "Denied WrongSubject"),
        ("users", "Denied WrongSubject"),
    ];
    let all = async || {
        for (name, _) in said {
            answer(&world, name).await?;
        }
        Some(())
    };
    run_until(&world, &clock, "all answered", all).await;
    for (name, expected) in said {
        assert_eq!(answer(&world, name).await.as_deref(), Some(expected), "{name}");
    }
    assert_eq!(nodes_of(&world, "ben").await, (0, Vec::new()));

    // The second never reports: its Node is deleted after an hour. The first is deleted and recreated; then it leaves.
    delete::<Node>(&world, "uaaaaaaaaaa-edge-1").await;
    let before = node.uid();
    let again = async || {
        let node: Node =
            get(&world, "uaaaaaaaaaa-edge-1").await.filter(|node: &Node| node.uid() != before)?;
        assert_eq!(marks_of(&node), (Some(ID.to_owned()), Some(ID.to_owned())));
        assert_eq!(node.labels().get(marks::DESIRED_POOL).map(String::as_str), Some("hangzhou"));
        report(&world, "uaaaaaaaaaa-edge-1").await;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "created again", again).await;
    clock.advance(SignedDuration::from_mins(61));
    let one = async || {
        let left = nodes_of(&world, "ana").await == (1, vec!["uaaaaaaaaaa-edge-1".to_owned()]);
        (left && get::<Node>(&world, "uaaaaaaaaaa-edge-2").await.is_none()).then_some(())
    };
    run_until(&world, &clock, "the second slot is free", one).await;
    leave(&world, "uaaaaaaaaaa-edge-1").await;
    let free = async || {
        let gone = get::<Node>(&world, "uaaaaaaaaaa-edge-1").await.is_none();
        (gone && nodes_of(&world, "ana").await == (0, Vec::new())).then_some(())
    };
    run_until(&world, &clock, "both slots are free", free).await;
    // The machine still has its certificate, which is invalid without its Node.
    let machine: Api<Node> = Api::all(kubelet(&world, "uaaaaaaaaaa-edge-1"));
    let tainted = &["NoSchedule", "NoExecute"][..];
    for (tenant, effects) in [(ID, &[][..]), (ID, &["NoSchedule"]), (OTHER, tainted), (ID, tainted)] {
        let node = registering("uaaaaaaaaaa-edge-1", tenant, effects);
        let refused = machine.create(&PostParams::default(), &node).await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("is gone")),
            "{tenant} {effects:?}: {refused:?}"
        );
    }
    assert_eq!(nodes_of(&world, "ana").await, (0, Vec::new()));
    let untouched: Node = get(&world, "cloud-1").await.unwrap();
    assert_eq!(marks_of(&untouched), (None, None));
}

#[tokio::test]
async fn a_node_renews_its_certificate_for_as_long_as_it_is_its_accounts() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 1).await;
    let token = join_token(&world, &clock, ID, None).await;
    ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let counted = async || {
        appear(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    // Renewal needs neither the token nor a free slot. A request of a node of no account is left to other approvers.
    delete_token(&world, &token).await;
    clock.advance(SignedDuration::from_mins(5));
    let own = |node: &str| request(node, Some("system:nodes"));
    ask_as(kubelet(&world, "cloud-1"), KUBELET, "nobodys", &own("cloud-1")).await;
    ask_as(kubelet(&world, "uaaaaaaaaaa-edge-1"), KUBELET, "next", &own("uaaaaaaaaaa-edge-1")).await;
    let answered = async || answer(&world, "next").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(answer(&world, "next").await.as_deref(), Some("Approved Renewed"));
    assert_eq!(answer(&world, "nobodys").await, None);
    assert_eq!(nodes_of(&world, "ana").await, (1, vec!["uaaaaaaaaaa-edge-1".to_owned()]));

    leave(&world, "uaaaaaaaaaa-edge-1").await;
    let gone = async || (nodes_of(&world, "ana").await == (0, Vec::new())).then_some(());
    run_until(&world, &clock, "gone", gone).await;
    let refused =
        try_ask_as(kubelet(&world, "uaaaaaaaaaa-edge-1"), KUBELET, "deleted", &own("uaaaaaaaaaa-edge-1"))
            .await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    assert_eq!(get::<CertificateSigningRequest>(&world, "deleted").await, None);
}

#[tokio::test]
async fn the_proxy_beside_a_kubelet_finds_the_token_of_its_accounts_namespace() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 1).await;
    let token = join_token(&world, &clock, ID, None).await;
    ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let first = async || answer(&world, "csr-uaaaaaaaaaa-edge-1").await.map(drop);
    run_until(&world, &clock, "answered", first).await;
    let secret = async |namespace: &str| {
        let secrets: Api<Secret> = Api::namespaced(world.admin(), namespace);
        secrets.get_opt("yurthub-token").await.unwrap()
    };
    assert_eq!(secret(ID).await, None, "nobody looks for it yet");
    ask_as(joiner(&world, &token), CLIENT, "hub", HUB_PEM).await;
    let made = async || {
        answer(&world, "hub").await?;
        secret(ID).await?.data?.get("token").map(drop)
    };
    run_until(&world, &clock, "made", made).await;
    assert_eq!(answer(&world, "hub").await.as_deref(), Some("Approved Joined"));
    let found = secret(ID).await.unwrap();
    assert_eq!(found.type_.as_deref(), Some("kubernetes.io/service-account-token"));
    assert_eq!(found.annotations()["kubernetes.io/service-account.name"], "default");
    assert_eq!(secret(OTHER).await, None);
    // The next certificate recreates a deleted Secret.
    Api::<Secret>::namespaced(world.admin(), ID)
        .delete("yurthub-token", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    ask_as(kubelet(&world, "uaaaaaaaaaa-edge-1"), CLIENT, "hub-next", HUB_PEM).await;
    let again = async || {
        answer(&world, "hub-next").await?;
        secret(ID).await.map(drop)
    };
    run_until(&world, &clock, "there again", again).await;
    assert_eq!(answer(&world, "hub-next").await.as_deref(), Some("Approved Renewed"));
}

#[tokio::test]
async fn older_node_keeps_its_name_and_a_full_registry_keeps_no_machine_away() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    let now = domain::clock::Clock::now(&clock);
    // About the number of names that one ConfigMap can hold, with its managed fields.
    let name = |number: usize| format!("{number:0>200}");
    let many = (0..2_400).map(|number| (name(number), OTHER.parse().unwrap(), now));
    let map = crate::edge::names::older(many.chain([("edge-1".to_owned(), ID.parse().unwrap(), now)]));
    create_in(&world, &map).await;
    let older = json!({"name": "edge-1", "since": now, "requests": ["kubelet/1"], "uid": "gone"});
    let status = Patch::Merge(json!({"status": {"joined": [older], "nodes": ["edge-1"]}}));
    Api::<User>::all(world.admin()).patch_status("ana", &PatchParams::default(), &status).await.unwrap();
    let token = join_token(&world, &clock, ID, None).await;
    ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let both = async || {
        appear(&world, "uaaaaaaaaaa-edge-1").await?;
        report(&world, "edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 2).then_some(())
    };
    run_until(&world, &clock, "both nodes are there", both).await;
    assert_eq!(marks_of(&get(&world, "edge-1").await.unwrap()), (Some(ID.to_owned()), Some(ID.to_owned())));
    // An older node does not register itself, mirrors no foreign pods, and renews its certificate and its name.
    let machine = kubelet(&world, "edge-1");
    let own: Node = serde_json::from_value(json!({"metadata": {"name": "edge-1"}})).unwrap();
    match Api::all(machine.clone()).create(&PostParams::default(), &own).await {
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains("longshore-older-node-registration"), "{status:?}");
        }
        other => panic!("{other:?}"),
    }
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(machine.clone(), "kube-system");
    let uid = get::<Node>(&world, "edge-1").await.unwrap().uid();
    let mirror = serde_json::from_value(json!({
        "metadata": {"name": "dns", "labels": {"k8s-app": "kube-dns"}, "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "edge-1", "uid": uid, "controller": true}]},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c", "image": "x"}]},
    }));
    match pods.create(&PostParams::default(), &mirror.unwrap()).await {
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains("longshore-older-node-pods"), "{status:?}");
        }
        other => panic!("{other:?}"),
    }
    clock.advance(SignedDuration::from_mins(5));
    ask_as(machine, KUBELET, "older", &request("edge-1", Some("system:nodes"))).await;
    let answered = async || answer(&world, "older").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(answer(&world, "older").await.as_deref(), Some("Approved Renewed"));
    let after: ConfigMap = crate::edge::names::api(world.admin()).get("node-names").await.unwrap();
    assert_ne!(
        after.data.unwrap()["edge-1"],
        map.data.unwrap()["edge-1"],
        "reserved for as long as the new certificate"
    );
}

pub(super) async fn create_in(world: &World, map: &ConfigMap) {
    crate::edge::names::api(world.admin()).create(&PostParams::default(), map).await.unwrap();
}

async fn delete_token(world: &World, token: &JoinToken) {
    token::api(world.admin()).delete(&token.name(), &kube::api::DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn requests_that_are_not_by_our_tokens_are_left_to_others() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    let token = join_token(&world, &clock, ID, None).await;
    let pem = request("edge-9", Some("system:nodes"));
    // An administrator's own bootstrap token.
    let theirs = world.of("system:bootstrap:abcdef", &["system:masters"]);
    let csr: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "foreign"},
        "spec": {
            "request": k8s_openapi::ByteString(pem.into_bytes()), "usages": ["digital signature", "client auth"],
            // Not a built-in signer, which would approve it.
            "signerName": "example.com/nodes",
        },
    }))
    .unwrap();
    Api::all(theirs).create(&PostParams::default(), &csr).await.unwrap();
    ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let answered = async || answer(&world, "csr-uaaaaaaaaaa-edge-1").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(answer(&world, "foreign").await, None);
}

#[tokio::test]
async fn join_token_reads_its_own_requests_and_no_others() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    let (anas, bens) =
        (join_token(&world, &clock, ID, None).await, join_token(&world, &clock, OTHER, None).await);
    ask_for(&world, &anas, "uaaaaaaaaaa-edge-1").await;
    ask_for(&world, &anas, "uaaaaaaaaaa-edge-2").await;
    ask_for(&world, &bens, "ubbbbbbbbbb-edge-1").await;
    let (one, two, theirs) = ("csr-uaaaaaaaaaa-edge-1", "csr-uaaaaaaaaaa-edge-2", "csr-ubbbbbbbbbb-edge-1");
    let all = async || {
        answer(&world, one).await.and(answer(&world, two).await).and(answer(&world, theirs).await).map(drop)
    };
    run_until(&world, &clock, "all answered", all).await;
    let requests: Api<CertificateSigningRequest> = Api::all(joiner(&world, &anas));
    let by_name = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    for name in [one, two] {
        assert_eq!(requests.list(&by_name(name)).await.unwrap().items.len(), 1);
    }
    let forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    assert!(forbidden(requests.list(&by_name(theirs)).await.unwrap_err()));
    assert!(forbidden(requests.get(theirs).await.unwrap_err()));
    assert!(forbidden(requests.list(&ListParams::default()).await.unwrap_err()));
    // The roles are deleted with the token.
    delete_token(&world, &anas).await;
    let fault = Fault::none();
    tenancy(&world, &fault, &clock).await.unwrap().sweep_edge().await.unwrap();
    let role = |token: &JoinToken| format!("longshore-join-{}", token.id);
    assert!(get::<k8s_openapi::api::rbac::v1::ClusterRole>(&world, &role(&anas)).await.is_none());
    assert!(get::<ClusterRoleBinding>(&world, &role(&anas)).await.is_none());
    assert!(get::<ClusterRoleBinding>(&world, &role(&bens)).await.is_some());
}

#[tokio::test]
async fn a_machine_cannot_say_itself_whose_it_is() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    let token = join_token(&world, &clock, ID, None).await;
    ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let counted = async || {
        appear(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    let nodes: Api<Node> = Api::all(kubelet(&world, "uaaaaaaaaaa-edge-1"));
    let forbidden = |what: &str, answer: Result<Node, kube::Error>| match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what}: {other:?}"),
    };
    let changes = [
        json!({"metadata": {"labels": {marks::TENANT: null}}}),
        json!({"metadata": {"labels": {marks::TENANT: OTHER}}}),
        json!({"metadata": {"labels": {marks::POOL: "elsewhere"}}}),
        json!({"spec": {"taints": []}}),
        json!({"spec": {"taints": [{"key": marks::TENANT, "value": OTHER, "effect": "NoSchedule"}]}}),
    ];
    let how = PatchParams::default();
    for change in &changes {
        let text = change.to_string();
        forbidden(&text, nodes.patch("uaaaaaaaaaa-edge-1", &how, &Patch::Merge(change)).await);
    }
    for change in &changes[..3] {
        let text = format!("status {change}");
        forbidden(&text, nodes.patch_status("uaaaaaaaaaa-edge-1", &how, &Patch::Merge(change)).await);
    }
    let harmless = json!({"metadata": {"labels": {"color": "blue"}}});
    nodes.patch("uaaaaaaaaaa-edge-1", &how, &Patch::Merge(harmless)).await.unwrap();
    let own = json!({"metadata": {"name": "uaaaaaaaaaa-edge-2", "labels": {marks::TENANT: OTHER}}});
    let own: Node = serde_json::from_value(own).unwrap();
    let created =
        Api::<Node>::all(kubelet(&world, "uaaaaaaaaaa-edge-2")).create(&PostParams::default(), &own).await;
    forbidden("a new node", created);
}

async fn says(world: &World, kind: &str) -> Option<bool> {
    let status = get::<User>(world, "ana").await?.status?;
    Some(progress::condition(&status.conditions, kind)?.status == "True")
}

/// All edge objects of an account: a token, a request, a node, a pool.
pub(super) async fn equip(world: &World, clock: &HeldClock, id: &str, node: &str) -> JoinToken {
    let token = join_token(world, clock, id, None).await;
    ask_for(world, &token, node).await;
    let mut pool = NodePool::new(&format!("pool-{id}"), NodePoolSpec::default());
    pool.labels_mut().insert(marks::TENANT.to_owned(), id.to_owned());
    create(world, &pool).await;
    token
}

/// Which of the objects of [`equip`] still exist.
pub(super) async fn equipment(world: &World, id: &str, node: &str) -> [bool; 4] {
    let tokens = ListParams::default().labels(&format!("{}={id}", marks::TENANT));
    [
        !token::api(world.admin()).list(&tokens).await.unwrap().items.is_empty(),
        get::<CertificateSigningRequest>(world, &format!("csr-{node}")).await.is_some(),
        get::<Node>(world, node).await.is_some(),
        get::<NodePool>(world, &format!("pool-{id}")).await.is_some(),
    ]
}

#[tokio::test]
async fn an_account_is_warned_expires_is_prolonged_and_goes() {
    let (world, clock) = (world().await, clock_of_tokens());
    two(&world, &clock, 2).await;
    patch::<User>(&world, "ben", json!({"spec": {"validPeriod": 0}})).await;
    equip(&world, &clock, ID, "uaaaaaaaaaa-edge-1").await;
    equip(&world, &clock, OTHER, "ubbbbbbbbbb-edge-2").await;
    let both = async || {
        appear(&world, "uaaaaaaaaaa-edge-1").await.and(appear(&world, "ubbbbbbbbbb-edge-2").await)?;
        (nodes_of(&world, "ana").await.0 == 1 && nodes_of(&world, "ben").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "both have a node", both).await;
    // A label that was added by hand does not make a node the account's.
    let labelled = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1", "labels": {marks::TENANT: ID}}});
    world.apply([labelled]).await;

    assert_eq!(says(&world, "Expiring").await, Some(false));
    clock.advance(DAY * 4);
    let warned = async || says(&world, "Expiring").await.filter(|&is| is).map(drop);
    run_until(&world, &clock, "warned", warned).await;
    assert_eq!(says(&world, "Expired").await, Some(false));
    clock.advance(DAY * 3);
    let expired = async || get::<User>(&world, "ana").await?.status?.expired.then_some(());
    run_until(&world, &clock, "expired", expired).await;
    assert!(service_account(&world, ID).await.is_none());
    assert_eq!(
        equipment(&world, ID, "uaaaaaaaaaa-edge-1").await,
        [true; 4],
        "nothing goes before the grace is over"
    );
    patch::<User>(&world, "ana", json!({"spec": {"validPeriod": 8}})).await;
    let open = async || {
        let status = get::<User>(&world, "ana").await?.status?;
        (!status.expired && service_account(&world, ID).await.is_some()).then_some(())
    };
    run_until(&world, &clock, "open again", open).await;

    // A temporarily wrong clock deletes nothing.
    clock.advance(DAY * 365);
    run_until(&world, &clock, "expired by a wrong clock", expired).await;
    clock.advance(-DAY * 365);
    run_until(&world, &clock, "open by the right one", open).await;
    assert_eq!(equipment(&world, ID, "uaaaaaaaaaa-edge-1").await, [true; 4]);

    clock.advance(DAY);
    run_until(&world, &clock, "expired again", expired).await;
    clock.advance(DAY);
    let gone = async || get::<User>(&world, "ana").await.is_none().then_some(());
    run_until(&world, &clock, "gone", gone).await;
    assert_eq!(equipment(&world, ID, "uaaaaaaaaaa-edge-1").await, [false; 4]);
    assert!(get::<Namespace>(&world, ID).await.is_none() && service_account(&world, ID).await.is_none());
    assert_eq!(equipment(&world, OTHER, "ubbbbbbbbbb-edge-2").await, [true; 4]);
    is_whole(&world, OTHER).await;
    assert!(get::<Node>(&world, "cloud-1").await.is_some());

    // A machine of the deleted account returns: no pods of others run there, and no other account gets its name.
    let lost = registering("uaaaaaaaaaa-edge-1", ID, &["NoSchedule", "NoExecute"]);
    let refused = Api::all(kubelet(&world, "uaaaaaaaaaa-edge-1")).create(&PostParams::default(), &lost).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "its credential is void");
    // On a cluster without that check, it can register.
    Api::all(world.admin()).create(&PostParams::default(), &lost).await.unwrap();
    let kept_away = async || {
        let node: Node = get(&world, "uaaaaaaaaaa-edge-1").await?;
        (marks_of(&node).1.as_deref() == Some(ID) && node.spec?.unschedulable == Some(true)).then_some(())
    };
    run_until(&world, &clock, "kept away", kept_away).await;
}

#[tokio::test]
async fn an_account_that_never_becomes_one_goes_after_an_hour_and_takes_nothing() {
    let clock = HeldClock::new();
    let world = World::under(Arc::new(clock.clone()), []).await;
    manifests::apply(&world.admin()).await.unwrap();
    let foreign = foreign_namespace(&world, ID, json!({})).await;
    create(&world, &user("ana", Some(ID))).await;
    // A disabled account and an administrator stay, although neither is ready.
    let (mut ben, mut eve) = (user("ben", Some(OTHER)), user("eve", Some("ucccccccccc")));
    ben.spec.disabled = true;
    eve.spec.platform_roles = vec!["admin".to_owned()];
    foreign_namespace(&world, "ucccccccccc", json!({})).await;
    for user in [&ben, &eve] {
        create(&world, user).await;
    }
    let told = async || says(&world, "Ready").await.map(drop);
    run_until(&world, &clock, "told", told).await;
    // The hour counts from the start of the controllers: a server that was down for an hour has not tried for an hour.
    clock.advance(SignedDuration::from_hours(2));
    let mut begun = None;
    let gone = async || {
        if begun.is_none() {
            let tried = json!({"spec": {"organization": "again"}});
            patch::<User>(&world, "ana", tried).await;
            let generation = get::<User>(&world, "ana").await?.metadata.generation;
            until("looked at", async || {
                let status = get::<User>(&world, "ana").await?.status?;
                (status.observed_generation == generation).then_some(())
            })
            .await;
            begun = Some(());
            clock.advance(SignedDuration::from_hours(1));
            for name in ["ana", "ben", "eve"] {
                patch::<User>(&world, name, json!({"spec": {"organization": "later"}})).await;
            }
        }
        get::<User>(&world, "ana").await.is_none().then_some(())
    };
    run_until(&world, &clock, "gone", gone).await;
    is_untouched(&world, &foreign).await;
    assert!(get::<User>(&world, "ben").await.is_some() && get::<User>(&world, "eve").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_joins_whenever_the_server_dies() {
    let clock = clock_of_tokens();
    let points = testkit::every_kill_point(
        async || {
            let world = world().await;
            two(&world, &clock, 1).await;
            let token = join_token(&world, &clock, ID, None).await;
            ask_for(&world, &token, "uaaaaaaaaaa-edge-1").await;
            ask_for(&world, &token, "uaaaaaaaaaa-edge-2").await;
            world
        },
        async |world, fault| {
            let joined = async || {
                let answers = [
                    answer(world, "csr-uaaaaaaaaaa-edge-1").await?,
                    answer(world, "csr-uaaaaaaaaaa-edge-2").await?,
                ];
                let node = if answers[0].starts_with("Approved") {
                    "uaaaaaaaaaa-edge-1"
                } else {
                    "uaaaaaaaaaa-edge-2"
                };
                appear(world, node).await?;
                (nodes_of(world, "ana").await == (1, vec![node.to_owned()])).then_some(())
            };
            until_reached(world, fault, &clock, "joined", joined).await;
            Ok::<(), ()>(())
        },
        async |world| {
            let mut answers = [
                answer(world, "csr-uaaaaaaaaaa-edge-1").await.unwrap(),
                answer(world, "csr-uaaaaaaaaaa-edge-2").await.unwrap(),
            ];
            answers.sort();
            assert_eq!(answers, ["Approved Joined", "Denied TooManyNodes"]);
            let all: Vec<Node> =
                Api::<Node>::all(world.admin()).list(&ListParams::default()).await.unwrap().items;
            assert_eq!(all.len(), 1);
            assert_eq!(marks_of(&all[0]), (Some(ID.to_owned()), Some(ID.to_owned())));
        },
    )
    .await;
    assert!(points >= 6, "{points}");
}
