//! Requests are approved by those who may, and signed as they were asked.

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls_pki_types::pem::PemObject as _;

use super::super::authn::PeerCertificate;
use super::super::rbac::tests::{binding, put};
use super::*;
use crate::store::Store;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn csr(signer: &str, subject: (&str, &str), names: &[&str], usages: &[&str], approved: bool) -> Value {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::new(names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, subject.1);
    params.distinguished_name.push(DnType::CommonName, subject.0);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let conditions = if approved { json!([{"type": "Approved", "status": "True"}]) } else { json!([]) };
    json!({"metadata": {"name": "c"}, "status": {"conditions": conditions},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": usages, "expirationSeconds": 600}})
}

/// Two organizations, which the library above cannot write: `openssl req` made this.
const TWO_GROUPS: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIHmMIGNAgEAMCsxDDAKBgNVBAoMA2RldjEMMAoGA1UECgwDb3BzMQ0wCwYDVQQD
DARqYW5lMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE27urxGfltvVya0uT+TfG
6kydTLQF9iZV6qoUQ2ENTgq38l+J7mj0SWuwJmqn2wmYwR96NVOtK30e9B5oSvoa
MqAAMAoGCCqGSM49BAMCA0gAMEUCIQCEA1XgX9SWQS3keU6njRbxW/LwJvRMwE4b
justKOLESAIgb95EDcCfL1tUUM98vh1DeYqdzoM8rtaAqk7Ux4YqMcc=
-----END CERTIFICATE REQUEST-----
";

#[test]
fn approved_requests_are_signed_or_told_why_not() {
    let data = tempfile::tempdir().unwrap();
    let pki = Pki::open(&data.path().join("pki"), &[], now()).unwrap();
    let (jane, node) = (("jane", "dev"), ("system:node:n", "system:nodes"));
    let signature = "digital signature";
    let table = [
        (csr(CLIENT, jane, &[], &["client auth"], true), "signed"),
        (csr(CLIENT, jane, &[], &["client auth"], false), "waits"),
        (csr("example.com/x", jane, &[], &["client auth"], true), "waits"),
        (csr(CLIENT, jane, &[], &["server auth"], true), "invalid usage for client certificate: server auth"),
        (
            csr(CLIENT, jane, &[], &[signature], true),
            "missing required usage for client certificate: client auth",
        ),
        (csr(KUBELET_CLIENT, node, &[], &[signature, "client auth"], true), "signed"),
        (
            csr(KUBELET_CLIENT, jane, &[], &[signature, "client auth"], true),
            "subject organization is not system:nodes",
        ),
        (
            csr(KUBELET_CLIENT, node, &["a.b"], &[signature, "client auth"], true),
            "DNS subjectAltNames are not allowed",
        ),
        (csr(KUBELET_SERVING, node, &["10.0.0.1"], &[signature, "server auth"], true), "signed"),
        (
            csr(KUBELET_SERVING, node, &[], &[signature, "server auth"], true),
            "DNS or IP subjectAltName is required",
        ),
        (
            csr(KUBELET_SERVING, node, &["a"], &["server auth"], true),
            "usages did not match [digital signature key encipherment server auth]",
        ),
    ];
    for (csr, expected) in table {
        let verdict = match sign(&pki, &Store::in_memory(), &csr, now()) {
            None => "waits".to_owned(),
            Some(status) if !status["certificate"].is_null() => "signed".to_owned(),
            Some(status) => text(&status["conditions"][1], "message").to_owned(),
        };
        assert_eq!(verdict, expected);
    }
}

#[test]
fn a_signed_certificate_says_who_and_how_long_and_passes_tls() {
    let data = tempfile::tempdir().unwrap();
    let pki = Pki::open(&data.path().join("pki"), &[], now()).unwrap();
    let mut csr = csr(CLIENT, ("jane", "dev"), &[], &["client auth", "digital signature"], true);
    csr["spec"]["request"] = STANDARD.encode(TWO_GROUPS).into();
    let status = sign(&pki, &Store::in_memory(), &csr, now()).unwrap();
    let pem = STANDARD.decode(text(&status, "certificate")).unwrap();
    let der = rustls_pki_types::CertificateDer::from_pem_slice(&pem).unwrap();
    let peer = PeerCertificate::read(&der).unwrap();
    assert_eq!(
        (peer.user.name.as_str(), peer.user.groups),
        ("jane", vec!["dev".to_owned(), "ops".to_owned()])
    );

    let ca = rustls_pki_types::CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let at = |seconds: i64| {
        let seconds = u64::try_from(now().as_second() + seconds).unwrap();
        rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    };
    assert!(verifier.verify_client_cert(&der, &[], at(599)).is_ok());
    assert!(verifier.verify_client_cert(&der, &[], at(601)).is_err());
}

#[tokio::test]
async fn certificate_of_a_tenants_node_lasts_a_day_at_most() {
    const HOUR: i64 = 3600;
    let data = tempfile::tempdir().unwrap();
    let pki = Pki::open(&data.path().join("pki"), &[], now()).unwrap();
    let store = Store::in_memory();
    super::super::node::tests::record_older_node(&store, "older").await;
    #[rustfmt::skip]
    let table = [
        ("system:node:uaaaaaaaaaa-edge", None,                  24 * HOUR),
        ("system:node:uaaaaaaaaaa-edge", Some(365 * 24 * HOUR), 24 * HOUR),
        ("system:node:uaaaaaaaaaa-edge", Some(HOUR),            HOUR),
        ("system:node:older",            None,                  24 * HOUR),
        ("system:node:operators",        None,                  365 * 24 * HOUR),
    ];
    for (name, asked, expected) in table {
        let usages = ["client auth", "digital signature"];
        let mut csr = csr(KUBELET_CLIENT, (name, "system:nodes"), &[], &usages, true);
        csr["spec"]["expirationSeconds"] = json!(asked);
        let status = sign(&pki, &store, &csr, now()).unwrap();
        let end = certificate_ends(&json!({ "status": status })).unwrap();
        assert_eq!(end.as_second() - now().as_second(), expected, "{name} {asked:?}");
    }
}

#[tokio::test]
async fn approving_needs_the_signer_and_nodes_join_by_themselves() {
    let store = Store::in_memory();
    let rule = |resource: &str, verb: &str| json!([{"apiGroups": [GROUP], "resources": [resource], "verbs": [verb]}]);
    put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "boot"}, "rules": rule("certificatesigningrequests/nodeclient", "create")})).await;
    put(&store, binding("", "boot", ("ClusterRole", "boot"), ("Group", "system:bootstrappers"))).await;
    let authorizer = Authorizer::new(store.clone());
    let node = ("system:node:n", "system:nodes");
    let mut csr = csr(KUBELET_CLIENT, node, &[], &["digital signature", "client auth"], false);
    let error = check_signer(&authorizer, &User::named("bob", &[]), "approve", &csr).unwrap_err();
    assert_eq!(
        error.message,
        "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to approve requests \
         with signerName \"kubernetes.io/kube-apiserver-client-kubelet\""
    );
    let mut signers = rule("signers", "approve");
    signers[0]["resourceNames"] = json!(["kubernetes.io/*"]);
    put(&store, json!({"kind": "ClusterRole", "metadata": {"name": "ap"}, "rules": signers})).await;
    put(&store, binding("", "ap", ("ClusterRole", "ap"), ("User", "bob"))).await;
    assert!(check_signer(&authorizer, &User::named("bob", &[]), "approve", &csr).is_ok());

    assert_eq!(auto_approval(&authorizer, &csr, now()), None);
    stamp(&User::named("system:bootstrap:abcdef", &["system:bootstrappers"]), &mut csr);
    let condition = auto_approval(&authorizer, &csr, now()).unwrap();
    assert_eq!(condition["message"], "Auto approving kubelet client certificate after SubjectAccessReview.");
    csr["status"]["conditions"] = json!([condition]);
    assert_eq!(auto_approval(&authorizer, &csr, now()), None);
}

#[test]
fn conditions_come_and_stay() {
    let with = |conditions: Value| json!({"spec": {"a": 1}, "status": {"conditions": conditions}});
    let (approved, denied) =
        (json!({"type": "Approved", "status": "True"}), json!({"type": "Denied", "status": "True"}));
    let none = with(json!([]));
    let table = [
        (json!([approved]), &none, true, ""),
        (
            json!([approved]),
            &none,
            false,
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"",
        ),
        (
            json!([]),
            &with(json!([approved])),
            true,
            "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
        ),
        (
            json!([approved, denied]),
            &none,
            true,
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
        ),
        (
            json!([{"type": "Approved", "status": "False"}]),
            &none,
            true,
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
        ),
        (json!([{"type": "Approved"}]), &none, true, "status.conditions[0].status: Required value"),
        (json!([{"status": "True"}]), &none, true, "status.conditions[0].type: Required value"),
    ];
    for (conditions, old, approving, expected) in table {
        let errors: Vec<String> =
            complaints(&with(conditions), old, approving).iter().map(ToString::to_string).collect();
        assert_eq!(errors.join(", "), expected);
    }
    let mut new = json!({"spec": {"a": 2}, "status": {"certificate": "x", "conditions": [approved]}});
    prepare_approval(&mut new, &none, now());
    let dated = json!({"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(new, json!({"spec": {"a": 1}, "status": {"conditions": [dated]}}));
}

#[test]
fn administrators_are_not_made_by_request() {
    let masters = csr(CLIENT, ("eve", MASTERS), &[], &["client auth"], false);
    assert_eq!(
        check_create(&masters).unwrap_err().message,
        "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: use of kubernetes.io/kube-apiserver-client \
         signer with system:masters group is not allowed"
    );
    assert!(check_create(&csr(CLIENT, ("eve", "dev"), &[], &["client auth"], false)).is_ok());
}
