//! Machines that join accounts, and accounts that expire.

use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube_types::{NodePool, NodePoolSpec};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;
use crate::node_join::node_csr::{CLIENT_SIGNER, KUBELET_SIGNER};
use crate::node_join::token::{self, JOIN_TOKENS_GROUP, JoinToken};

pub(super) const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A manual clock that starts at the system time: the cluster expires bootstrap tokens by the system clock.
pub(super) fn manual_clock_at_system_time() -> ManualClock {
    ManualClock::starting_at(jiff::Timestamp::now())
}

/// A join token of an account.
pub(super) async fn join_token(
    world: &TestCluster,
    clock: &ManualClock,
    id: &str,
    pool: Option<&str>,
) -> JoinToken {
    let now = domain::clock::Clock::now(clock);
    let token = JoinToken::mint(&id.parse().unwrap(), None, pool, now);
    token::api(world.admin_client()).create(&PostParams::default(), &token.to_secret()).await.unwrap();
    token
}

/// A client that authenticates with the token.
pub(super) fn client_with_token(world: &TestCluster, token: &JoinToken) -> kube::Client {
    let group = token::token_group(&token.owner);
    let groups = ["system:bootstrappers", JOIN_TOKENS_GROUP, &group, "system:authenticated"];
    world.client_for(&format!("system:bootstrap:{}", token.id), &groups)
}

/// A kubelet's certificate request. A valid `organization` is `system:nodes`.
pub(super) fn kubelet_csr_pem(node: &str, organization: Option<&str>) -> String {
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
pub(super) const HUB_PEM: &str = "\
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
pub(super) async fn create_csr(world: &TestCluster, token: &JoinToken, name: &str, pem: &str) {
    create_csr_as(client_with_token(world, token), KUBELET_SIGNER, name, pem).await;
}

pub(super) async fn create_csr_as(client: kube::Client, signer: &str, name: &str, pem: &str) {
    try_create_csr_as(client, signer, name, pem).await.unwrap();
}

async fn try_create_csr_as(
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

pub(super) async fn create_csr_for_node(world: &TestCluster, token: &JoinToken, node: &str) {
    create_csr(world, token, &format!("csr-{node}"), &kubelet_csr_pem(node, Some("system:nodes"))).await;
}

/// The decision on a request: type and reason.
pub(super) async fn csr_condition(world: &TestCluster, name: &str) -> Option<String> {
    let csr: CertificateSigningRequest = get(world, name).await?;
    let said = csr.status?.conditions?.into_iter().find(|said| said.type_ != "Failed")?;
    Some(format!("{} {}", said.type_, said.reason?))
}

pub(super) fn kubelet_client(world: &TestCluster, node: &str) -> kube::Client {
    world.client_for(&format!("system:node:{node}"), &["system:nodes", "system:authenticated"])
}

/// Waits for the certificate, then reports as the kubelet to the Node that the platform created.
pub(super) async fn report_when_signed(world: &TestCluster, node: &str) -> Option<()> {
    let said = csr_condition(world, &format!("csr-{node}")).await?;
    assert_eq!(said, "Approved Joined", "{node}");
    report_kubelet_status(world, node).await
}

/// Reports the kubelet's status if the Node exists.
async fn report_kubelet_status(world: &TestCluster, node: &str) -> Option<()> {
    let found: Node = get(world, node).await?;
    if found.status.and_then(|status| status.node_info).is_none_or(|info| info.kubelet_version.is_empty()) {
        let info = json!({"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.3", "machineID": "m", "operatingSystem": "linux",
            "osImage": "", "systemUUID": ""});
        let report = Patch::Merge(json!({"status": {"nodeInfo": info}}));
        Api::<Node>::all(kubelet_client(world, node))
            .patch_status(node, &PatchParams::default(), &report)
            .await
            .unwrap();
    }
    Some(())
}

/// The Node of a tenant's machine that registers itself, with these effects of the tenant's taint.
fn self_registering_node(node: &str, tenant: &str, effects: &[&str]) -> Node {
    let taints: Vec<Value> = effects
        .iter()
        .map(|effect| json!({"key": well_known::TENANT, "value": tenant, "effect": effect}))
        .collect();
    let node = json!({"metadata": {"name": node, "labels": {well_known::TENANT: tenant}}, "spec": {"taints": taints}});
    serde_json::from_value(node).unwrap()
}

async fn mark_node_leaving(world: &TestCluster, node: &str) {
    patch::<Node>(world, node, json!({"metadata": {"annotations": {well_known::NODE_LEAVING: "true"}}}))
        .await;
}

pub(super) async fn nodes_of(world: &TestCluster, user: &str) -> (i64, Vec<String>) {
    let status = get::<User>(world, user).await.and_then(|user| user.status).unwrap_or_default();
    (status.node_num, status.nodes)
}

/// The owner of a node by its label and by its taint.
pub(super) fn owner_label_and_taint(node: &Node) -> (Option<String>, Option<String>) {
    let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
    let of = |effect: &str| {
        let taint = taints.iter().find(|taint| taint.key == well_known::TENANT && taint.effect == effect);
        taint.and_then(|taint| taint.value.clone())
    };
    assert_eq!(of("NoSchedule"), of("NoExecute"));
    (node.labels().get(well_known::TENANT).cloned(), of("NoSchedule"))
}

/// Two ready accounts, with this limit of nodes each.
pub(super) async fn create_two_accounts(world: &TestCluster, clock: &ManualClock, nodes: i64) {
    for (name, id) in [("ana", ID), ("ben", OTHER_ID)] {
        let mut user = user(name, Some(id));
        (user.spec.max_node_num, user.spec.valid_period) = (nodes, 7);
        create(world, &user).await;
    }
    let ready = async || user_is_ready(world, "ana").await.and(user_is_ready(world, "ben").await);
    run_controllers_until(world, &FaultInjector::healthy(), clock, "ready", ready).await;
}

/// Runs the controllers without faults until `reached` holds.
pub(super) async fn run_until(
    world: &TestCluster,
    clock: &ManualClock,
    what: &str,
    mut reached: impl AsyncFnMut() -> Option<()>,
) {
    let (heard, _guard) = crate::log_capture::capture();
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
    run_controllers_until(world, &FaultInjector::healthy(), clock, what, reached).await;
}

#[tokio::test]
async fn joined_machine_becomes_a_node_of_its_account_only() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let (anas, bens) = (
        join_token(&world, &clock, ID, Some("hangzhou")).await,
        join_token(&world, &clock, OTHER_ID, None).await,
    );
    world.apply([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1"}})]).await;
    let one = kubelet_csr_pem("uaaaaaaaaaa-edge-1", Some("system:nodes"));
    create_csr(&world, &anas, "csr-uaaaaaaaaaa-edge-1", &one).await;
    let counted = async || {
        report_when_signed(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await == (1, vec!["uaaaaaaaaaa-edge-1".to_owned()])).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    let node: Node = get(&world, "uaaaaaaaaaa-edge-1").await.unwrap();
    assert_eq!(owner_label_and_taint(&node), (Some(ID.to_owned()), Some(ID.to_owned())));
    assert_eq!(node.labels().get(well_known::DESIRED_POOL).map(String::as_str), Some("hangzhou"));
    let csr: CertificateSigningRequest = get(&world, "csr-uaaaaaaaaaa-edge-1").await.unwrap();
    assert!(csr.status.unwrap().certificate.is_some());

    // One request for each reason of denial, and a second valid one.
    create_csr(&world, &anas, "replayed", &one).await;
    create_csr(&world, &bens, "anothers", &kubelet_csr_pem("uaaaaaaaaaa-edge-1", Some("system:nodes"))).await;
    create_csr(&world, &bens, "of-the-cloud", &kubelet_csr_pem("cloud-1", Some("system:nodes"))).await;
    create_csr(&world, &bens, "of-nobody", &kubelet_csr_pem("edge-1", Some("system:nodes"))).await;
    create_csr(&world, &bens, "no-organization", &kubelet_csr_pem("ubbbbbbbbbb-edge-7", None)).await;
    create_csr(&world, &bens, "users", &kubelet_csr_pem("ubbbbbbbbbb-edge-7", Some("openyurt:users"))).await;
    create_csr_for_node(&world, &anas, "uaaaaaaaaaa-edge-2").await;
    let first = async || csr_condition(&world, "csr-uaaaaaaaaaa-edge-2").await.map(drop);
    run_until(&world, &clock, "answered", first).await;
    create_csr_for_node(&world, &anas, "uaaaaaaaaaa-edge-3").await;
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
            csr_condition(&world, name).await?;
        }
        Some(())
    };
    run_until(&world, &clock, "all answered", all).await;
    for (name, expected) in said {
        assert_eq!(csr_condition(&world, name).await.as_deref(), Some(expected), "{name}");
    }
    assert_eq!(nodes_of(&world, "ben").await, (0, Vec::new()));

    // The second never reports: its Node is deleted after an hour. The first is deleted and recreated; then it leaves.
    delete::<Node>(&world, "uaaaaaaaaaa-edge-1").await;
    let before = node.uid();
    let again = async || {
        let node: Node =
            get(&world, "uaaaaaaaaaa-edge-1").await.filter(|node: &Node| node.uid() != before)?;
        assert_eq!(owner_label_and_taint(&node), (Some(ID.to_owned()), Some(ID.to_owned())));
        assert_eq!(node.labels().get(well_known::DESIRED_POOL).map(String::as_str), Some("hangzhou"));
        report_kubelet_status(&world, "uaaaaaaaaaa-edge-1").await;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "created again", again).await;
    clock.advance(SignedDuration::from_mins(61));
    let one = async || {
        let left = nodes_of(&world, "ana").await == (1, vec!["uaaaaaaaaaa-edge-1".to_owned()]);
        (left && get::<Node>(&world, "uaaaaaaaaaa-edge-2").await.is_none()).then_some(())
    };
    run_until(&world, &clock, "the second slot is free", one).await;
    mark_node_leaving(&world, "uaaaaaaaaaa-edge-1").await;
    let free = async || {
        let gone = get::<Node>(&world, "uaaaaaaaaaa-edge-1").await.is_none();
        (gone && nodes_of(&world, "ana").await == (0, Vec::new())).then_some(())
    };
    run_until(&world, &clock, "both slots are free", free).await;
    // The machine still has its certificate, which is invalid without its Node.
    let machine: Api<Node> = Api::all(kubelet_client(&world, "uaaaaaaaaaa-edge-1"));
    let tainted = &["NoSchedule", "NoExecute"][..];
    for (tenant, effects) in [(ID, &[][..]), (ID, &["NoSchedule"]), (OTHER_ID, tainted), (ID, tainted)] {
        let node = self_registering_node("uaaaaaaaaaa-edge-1", tenant, effects);
        let refused = machine.create(&PostParams::default(), &node).await;
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("was deleted")),
            "{tenant} {effects:?}: {refused:?}"
        );
    }
    assert_eq!(nodes_of(&world, "ana").await, (0, Vec::new()));
    let untouched: Node = get(&world, "cloud-1").await.unwrap();
    assert_eq!(owner_label_and_taint(&untouched), (None, None));
}

#[tokio::test]
async fn node_renews_its_certificate_while_it_belongs_to_the_account() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 1).await;
    let token = join_token(&world, &clock, ID, None).await;
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let counted = async || {
        report_when_signed(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    // Renewal needs neither the token nor a free slot. A request of a node without an account is left to other approvers.
    delete_token(&world, &token).await;
    clock.advance(SignedDuration::from_mins(5));
    let own = |node: &str| kubelet_csr_pem(node, Some("system:nodes"));
    create_csr_as(kubelet_client(&world, "cloud-1"), KUBELET_SIGNER, "nobodys", &own("cloud-1")).await;
    create_csr_as(
        kubelet_client(&world, "uaaaaaaaaaa-edge-1"),
        KUBELET_SIGNER,
        "next",
        &own("uaaaaaaaaaa-edge-1"),
    )
    .await;
    let answered = async || csr_condition(&world, "next").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(csr_condition(&world, "next").await.as_deref(), Some("Approved Renewed"));
    assert_eq!(csr_condition(&world, "nobodys").await, None);
    assert_eq!(nodes_of(&world, "ana").await, (1, vec!["uaaaaaaaaaa-edge-1".to_owned()]));

    mark_node_leaving(&world, "uaaaaaaaaaa-edge-1").await;
    // The record is dropped before the Node is deleted.
    let gone = async || {
        let is_gone = get::<Node>(&world, "uaaaaaaaaaa-edge-1").await.is_none();
        (is_gone && nodes_of(&world, "ana").await == (0, Vec::new())).then_some(())
    };
    run_until(&world, &clock, "gone", gone).await;
    let refused = try_create_csr_as(
        kubelet_client(&world, "uaaaaaaaaaa-edge-1"),
        KUBELET_SIGNER,
        "deleted",
        &own("uaaaaaaaaaa-edge-1"),
    )
    .await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    assert_eq!(get::<CertificateSigningRequest>(&world, "deleted").await, None);
}

#[tokio::test]
async fn yurthub_finds_the_token_secret_in_the_account_namespace() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 1).await;
    let token = join_token(&world, &clock, ID, None).await;
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let first = async || csr_condition(&world, "csr-uaaaaaaaaaa-edge-1").await.map(drop);
    run_until(&world, &clock, "answered", first).await;
    let secret = async |namespace: &str| {
        let secrets: Api<Secret> = Api::namespaced(world.admin_client(), namespace);
        secrets.get_opt("yurthub-token").await.unwrap()
    };
    assert_eq!(secret(ID).await, None, "nobody looks for it yet");
    create_csr_as(client_with_token(&world, &token), CLIENT_SIGNER, "hub", HUB_PEM).await;
    let made = async || {
        csr_condition(&world, "hub").await?;
        secret(ID).await?.data?.get("token").map(drop)
    };
    run_until(&world, &clock, "made", made).await;
    assert_eq!(csr_condition(&world, "hub").await.as_deref(), Some("Approved Joined"));
    let found = secret(ID).await.unwrap();
    assert_eq!(found.type_.as_deref(), Some("kubernetes.io/service-account-token"));
    assert_eq!(found.annotations()["kubernetes.io/service-account.name"], "default");
    assert_eq!(secret(OTHER_ID).await, None);
    // The next certificate recreates a deleted Secret.
    Api::<Secret>::namespaced(world.admin_client(), ID)
        .delete("yurthub-token", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    create_csr_as(kubelet_client(&world, "uaaaaaaaaaa-edge-1"), CLIENT_SIGNER, "hub-next", HUB_PEM).await;
    let again = async || {
        csr_condition(&world, "hub-next").await?;
        secret(ID).await.map(drop)
    };
    run_until(&world, &clock, "there again", again).await;
    assert_eq!(csr_condition(&world, "hub-next").await.as_deref(), Some("Approved Renewed"));
}

#[tokio::test]
async fn legacy_node_keeps_its_name_and_full_registry_blocks_no_join() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let now = domain::clock::Clock::now(&clock);
    // About the number of names that one ConfigMap can hold, with its managed fields.
    let name = |number: usize| format!("{number:0>200}");
    let many = (0..2_400).map(|number| (name(number), OTHER_ID.parse().unwrap(), now));
    let map = crate::node_join::node_names::legacy_config_map(many.chain([(
        "edge-1".to_owned(),
        ID.parse().unwrap(),
        now,
    )]));
    create_in(&world, &map).await;
    let older = json!({"name": "edge-1", "since": now, "requests": ["kubelet/1"], "uid": "gone"});
    let status = Patch::Merge(json!({"status": {"joined": [older], "nodes": ["edge-1"]}}));
    Api::<User>::all(world.admin_client())
        .patch_status("ana", &PatchParams::default(), &status)
        .await
        .unwrap();
    let token = join_token(&world, &clock, ID, None).await;
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let both = async || {
        report_when_signed(&world, "uaaaaaaaaaa-edge-1").await?;
        report_kubelet_status(&world, "edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 2).then_some(())
    };
    run_until(&world, &clock, "both nodes are there", both).await;
    assert_eq!(
        owner_label_and_taint(&get(&world, "edge-1").await.unwrap()),
        (Some(ID.to_owned()), Some(ID.to_owned()))
    );
    // An older node does not register itself, mirrors no foreign pods, and renews its certificate and its name.
    let machine = kubelet_client(&world, "edge-1");
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
    create_csr_as(machine, KUBELET_SIGNER, "older", &kubelet_csr_pem("edge-1", Some("system:nodes"))).await;
    let answered = async || csr_condition(&world, "older").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(csr_condition(&world, "older").await.as_deref(), Some("Approved Renewed"));
    let after: ConfigMap =
        crate::node_join::node_names::api(world.admin_client()).get("node-names").await.unwrap();
    assert_ne!(
        after.data.unwrap()["edge-1"],
        map.data.unwrap()["edge-1"],
        "reserved for as long as the new certificate"
    );
}

pub(super) async fn create_in(world: &TestCluster, map: &ConfigMap) {
    crate::node_join::node_names::api(world.admin_client())
        .create(&PostParams::default(), map)
        .await
        .unwrap();
}

async fn delete_token(world: &TestCluster, token: &JoinToken) {
    token::api(world.admin_client())
        .delete(&token.secret_name(), &kube::api::DeleteParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn csrs_of_other_requesters_are_ignored() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let token = join_token(&world, &clock, ID, None).await;
    let pem = kubelet_csr_pem("edge-9", Some("system:nodes"));
    // An administrator's own bootstrap token.
    let theirs = world.client_for("system:bootstrap:abcdef", &["system:masters"]);
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
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let answered = async || csr_condition(&world, "csr-uaaaaaaaaaa-edge-1").await.map(drop);
    run_until(&world, &clock, "answered", answered).await;
    assert_eq!(csr_condition(&world, "foreign").await, None);
}

#[tokio::test]
async fn join_token_reads_its_own_requests_and_no_others() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let (anas, bens) =
        (join_token(&world, &clock, ID, None).await, join_token(&world, &clock, OTHER_ID, None).await);
    create_csr_for_node(&world, &anas, "uaaaaaaaaaa-edge-1").await;
    create_csr_for_node(&world, &anas, "uaaaaaaaaaa-edge-2").await;
    create_csr_for_node(&world, &bens, "ubbbbbbbbbb-edge-1").await;
    let (one, two, theirs) = ("csr-uaaaaaaaaaa-edge-1", "csr-uaaaaaaaaaa-edge-2", "csr-ubbbbbbbbbb-edge-1");
    let all = async || {
        csr_condition(&world, one)
            .await
            .and(csr_condition(&world, two).await)
            .and(csr_condition(&world, theirs).await)
            .map(drop)
    };
    run_until(&world, &clock, "all answered", all).await;
    let requests: Api<CertificateSigningRequest> = Api::all(client_with_token(&world, &anas));
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
    let fault = FaultInjector::healthy();
    tenancy(&world, &fault, &clock).await.unwrap().collect_join_garbage().await.unwrap();
    let role = |token: &JoinToken| format!("longshore-join-{}", token.id);
    assert!(get::<k8s_openapi::api::rbac::v1::ClusterRole>(&world, &role(&anas)).await.is_none());
    assert!(get::<ClusterRoleBinding>(&world, &role(&anas)).await.is_none());
    assert!(get::<ClusterRoleBinding>(&world, &role(&bens)).await.is_some());
}

#[tokio::test]
async fn node_cannot_choose_its_owner() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let token = join_token(&world, &clock, ID, None).await;
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
    let counted = async || {
        report_when_signed(&world, "uaaaaaaaaaa-edge-1").await?;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "counted", counted).await;
    let nodes: Api<Node> = Api::all(kubelet_client(&world, "uaaaaaaaaaa-edge-1"));
    let forbidden = |what: &str, answer: Result<Node, kube::Error>| match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what}: {other:?}"),
    };
    let changes = [
        json!({"metadata": {"labels": {well_known::TENANT: null}}}),
        json!({"metadata": {"labels": {well_known::TENANT: OTHER_ID}}}),
        json!({"metadata": {"labels": {well_known::POOL: "elsewhere"}}}),
        json!({"spec": {"taints": []}}),
        json!({"spec": {"taints": [{"key": well_known::TENANT, "value": OTHER_ID, "effect": "NoSchedule"}]}}),
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
    let own = json!({"metadata": {"name": "uaaaaaaaaaa-edge-2", "labels": {well_known::TENANT: OTHER_ID}}});
    let own: Node = serde_json::from_value(own).unwrap();
    let created = Api::<Node>::all(kubelet_client(&world, "uaaaaaaaaaa-edge-2"))
        .create(&PostParams::default(), &own)
        .await;
    forbidden("a new node", created);
}

async fn condition_status(world: &TestCluster, kind: &str) -> Option<bool> {
    let status = get::<User>(world, "ana").await?.status?;
    Some(conditions::find_condition(&status.conditions, kind)?.status == "True")
}

/// All edge objects of an account: a token, a request, a node, a pool.
pub(super) async fn create_edge_objects(
    world: &TestCluster,
    clock: &ManualClock,
    id: &str,
    node: &str,
) -> JoinToken {
    let token = join_token(world, clock, id, None).await;
    create_csr_for_node(world, &token, node).await;
    let mut pool = NodePool::new(&format!("pool-{id}"), NodePoolSpec::default());
    pool.labels_mut().insert(well_known::TENANT.to_owned(), id.to_owned());
    create(world, &pool).await;
    token
}

/// Which of the objects of [`create_edge_objects`] still exist.
pub(super) async fn existing_edge_objects(world: &TestCluster, id: &str, node: &str) -> [bool; 4] {
    let tokens = ListParams::default().labels(&format!("{}={id}", well_known::TENANT));
    [
        !token::api(world.admin_client()).list(&tokens).await.unwrap().items.is_empty(),
        get::<CertificateSigningRequest>(world, &format!("csr-{node}")).await.is_some(),
        get::<Node>(world, node).await.is_some(),
        get::<NodePool>(world, &format!("pool-{id}")).await.is_some(),
    ]
}

#[tokio::test]
async fn account_is_warned_expires_is_extended_and_is_deleted() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    patch::<User>(&world, "ben", json!({"spec": {"validPeriod": 0}})).await;
    create_edge_objects(&world, &clock, ID, "uaaaaaaaaaa-edge-1").await;
    create_edge_objects(&world, &clock, OTHER_ID, "ubbbbbbbbbb-edge-2").await;
    let both = async || {
        report_when_signed(&world, "uaaaaaaaaaa-edge-1")
            .await
            .and(report_when_signed(&world, "ubbbbbbbbbb-edge-2").await)?;
        (nodes_of(&world, "ana").await.0 == 1 && nodes_of(&world, "ben").await.0 == 1).then_some(())
    };
    run_until(&world, &clock, "both have a node", both).await;
    // A label that was added by hand does not make a node the account's.
    let labelled = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cloud-1", "labels": {well_known::TENANT: ID}}});
    world.apply([labelled]).await;

    assert_eq!(condition_status(&world, "Expiring").await, Some(false));
    clock.advance(DAY * 4);
    let warned = async || condition_status(&world, "Expiring").await.filter(|&is| is).map(drop);
    run_until(&world, &clock, "warned", warned).await;
    assert_eq!(condition_status(&world, "Expired").await, Some(false));
    clock.advance(DAY * 3);
    let expired = async || get::<User>(&world, "ana").await?.status?.expired.then_some(());
    run_until(&world, &clock, "expired", expired).await;
    assert!(service_account(&world, ID).await.is_none());
    assert_eq!(
        existing_edge_objects(&world, ID, "uaaaaaaaaaa-edge-1").await,
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
    assert_eq!(existing_edge_objects(&world, ID, "uaaaaaaaaaa-edge-1").await, [true; 4]);

    clock.advance(DAY);
    run_until(&world, &clock, "expired again", expired).await;
    clock.advance(DAY);
    let gone = async || get::<User>(&world, "ana").await.is_none().then_some(());
    run_until(&world, &clock, "gone", gone).await;
    assert_eq!(existing_edge_objects(&world, ID, "uaaaaaaaaaa-edge-1").await, [false; 4]);
    assert!(get::<Namespace>(&world, ID).await.is_none() && service_account(&world, ID).await.is_none());
    assert_eq!(existing_edge_objects(&world, OTHER_ID, "ubbbbbbbbbb-edge-2").await, [true; 4]);
    assert_fully_provisioned(&world, OTHER_ID).await;
    assert!(get::<Node>(&world, "cloud-1").await.is_some());

    // A machine of the deleted account returns: no pods of others run there, and no other account gets its name.
    let lost = self_registering_node("uaaaaaaaaaa-edge-1", ID, &["NoSchedule", "NoExecute"]);
    let refused =
        Api::all(kubelet_client(&world, "uaaaaaaaaaa-edge-1")).create(&PostParams::default(), &lost).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "its credential is void");
    // On a cluster without that check, it can register.
    Api::all(world.admin_client()).create(&PostParams::default(), &lost).await.unwrap();
    let kept_away = async || {
        let node: Node = get(&world, "uaaaaaaaaaa-edge-1").await?;
        (owner_label_and_taint(&node).1.as_deref() == Some(ID) && node.spec?.unschedulable == Some(true))
            .then_some(())
    };
    run_until(&world, &clock, "kept away", kept_away).await;
}

#[tokio::test]
async fn account_that_never_becomes_ready_is_deleted_after_an_hour() {
    let clock = ManualClock::new();
    let world = TestCluster::with_permissions(Arc::new(clock.clone()), []).await;
    manifests::apply(&world.admin_client()).await.unwrap();
    let foreign = foreign_namespace(&world, ID, json!({})).await;
    create(&world, &user("ana", Some(ID))).await;
    // A disabled account and an administrator stay, although neither is ready.
    let (mut ben, mut eve) = (user("ben", Some(OTHER_ID)), user("eve", Some("ucccccccccc")));
    ben.spec.disabled = true;
    eve.spec.platform_roles = vec!["admin".to_owned()];
    foreign_namespace(&world, "ucccccccccc", json!({})).await;
    for user in [&ben, &eve] {
        create(&world, user).await;
    }
    let told = async || condition_status(&world, "Ready").await.map(drop);
    run_until(&world, &clock, "told", told).await;
    // The hour counts from the start of the controllers: a server that was down for an hour has not tried for an hour.
    clock.advance(SignedDuration::from_hours(2));
    let mut begun = None;
    let gone = async || {
        if begun.is_none() {
            let tried = json!({"spec": {"organization": "again"}});
            patch::<User>(&world, "ana", tried).await;
            let generation = get::<User>(&world, "ana").await?.metadata.generation;
            wait_for("looked at", async || {
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
    assert_unchanged(&world, &foreign).await;
    assert!(get::<User>(&world, "ben").await.is_some() && get::<User>(&world, "eve").await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_joins_despite_a_crash_at_any_write() {
    let clock = manual_clock_at_system_time();
    let points = testkit::every_kill_point(
        async || {
            let world = test_cluster().await;
            create_two_accounts(&world, &clock, 1).await;
            let token = join_token(&world, &clock, ID, None).await;
            create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-1").await;
            create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-2").await;
            world
        },
        async |world, fault| {
            let joined = async || {
                let answers = [
                    csr_condition(world, "csr-uaaaaaaaaaa-edge-1").await?,
                    csr_condition(world, "csr-uaaaaaaaaaa-edge-2").await?,
                ];
                let node = if answers[0].starts_with("Approved") {
                    "uaaaaaaaaaa-edge-1"
                } else {
                    "uaaaaaaaaaa-edge-2"
                };
                report_when_signed(world, node).await?;
                (nodes_of(world, "ana").await == (1, vec![node.to_owned()])).then_some(())
            };
            run_controllers_until(world, fault, &clock, "joined", joined).await;
            Ok::<(), ()>(())
        },
        async |world| {
            let mut answers = [
                csr_condition(world, "csr-uaaaaaaaaaa-edge-1").await.unwrap(),
                csr_condition(world, "csr-uaaaaaaaaaa-edge-2").await.unwrap(),
            ];
            answers.sort();
            assert_eq!(answers, ["Approved Joined", "Denied TooManyNodes"]);
            let all: Vec<Node> =
                Api::<Node>::all(world.admin_client()).list(&ListParams::default()).await.unwrap().items;
            assert_eq!(all.len(), 1);
            assert_eq!(owner_label_and_taint(&all[0]), (Some(ID.to_owned()), Some(ID.to_owned())));
        },
    )
    .await;
    assert!(points >= 6, "{points}");
}
