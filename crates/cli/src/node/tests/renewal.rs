//! Certificate renewal, with a manual clock.

use domain::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use testkit::ManualClock;

use super::super::join::JoinedNode;
use super::super::renewal::{Renewal, renewal_time, retry_time};
use super::super::state_dir::{KeyAndRequest, StateDir, StateDirError};
use super::*;

#[test]
fn renewal_time_is_before_expiry_and_spread_across_machines() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let (begin, end) = (at("2026-01-01T00:00:00Z"), at("2026-01-11T00:00:00Z"));
    for (machine, expected) in [
        ("0000aaaa", "2026-01-08T00:00:00Z"), // seven tenths
        ("0064aaaa", "2026-01-09T00:00:00Z"), // 100 thousandths later
        ("00c8aaaa", "2026-01-10T00:00:00Z"), // 200
        ("00c9aaaa", "2026-01-08T00:00:00Z"), // wraps around
        ("", "2026-01-08T00:00:00Z"),
        ("é", "2026-01-08T00:00:00Z"),
    ] {
        assert_eq!(renewal_time(begin, end, machine), at(expected), "{machine}");
    }
    assert_eq!(renewal_time(end, begin, "0000"), at("2026-01-04T00:00:00Z"), "one that has ended is due");
    for (now, expected) in [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-10T00:00:00Z", "2026-01-10T02:24:00Z"),
        ("2026-01-12T00:00:00Z", "2026-01-12T00:00:00Z"),
    ] {
        assert_eq!(retry_time(at(now), end), at(expected), "{now}");
    }
}

/// A joined node, advanced step by step.
struct RenewalHarness {
    folder: StateDir,
    joined: JoinedNode,
    identity: state_dir::NodeIdentity,
}

impl RenewalHarness {
    async fn start(args: &JoinArgs, clock: &ManualClock) -> Self {
        let entered = join::join_or_resume(args, Arc::new(clock.clone()), &mut |_| Ok(())).await;
        let (folder, identity, joined) = entered.unwrap();
        Self { folder, joined, identity }
    }
}

async fn requests(world: &JoinHarness) -> Vec<CertificateSigningRequest> {
    let mut all = world.csrs().list(&ListParams::default()).await.unwrap().items;
    all.sort_by_key(|csr| csr.metadata.resource_version.as_ref().and_then(|v| v.parse::<u64>().ok()));
    all
}

fn set_time(clock: &ManualClock, at: Timestamp) {
    clock.advance(at.duration_since(clock.now()));
}

#[tokio::test]
async fn renewal_resumes_after_interruptions() {
    let world = JoinHarness::new().await;
    let clock = ManualClock::starting_at(Timestamp::now());
    let args = world.args("edge-1", &["--certificate-seconds", "600"]);
    let approver = world.decide_next_csr("Approved", "");
    let mut machine = RenewalHarness::start(&args, &clock).await;
    assert_eq!(approver.await.unwrap().spec.expiration_seconds, Some(600));
    let first = machine.identity.certificate.clone();
    let mut renewal = Renewal::new(&machine.folder, &machine.identity, Some(600)).unwrap();
    assert!(
        renewal.next_step_at > clock.now()
            && renewal.next_step_at < clock.now() + SignedDuration::from_secs(600)
    );

    // Before the renewal time nothing happens. Then a CSR is created, which stays pending.
    set_time(&clock, renewal.next_step_at - SignedDuration::from_secs(1));
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 1);
    set_time(&clock, renewal.next_step_at);
    renewal.step(&mut machine.joined).await.unwrap();
    renewal.step(&mut machine.joined).await.unwrap();
    let asked = requests(&world).await;
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].spec.username.as_deref(), Some("system:node:edge-1"));
    assert_eq!(asked[1].spec.signer_name, "kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(asked[1].spec.expiration_seconds, Some(600));

    // After a restart the same CSR is used.
    drop(machine);
    let mut machine = RenewalHarness::start(&args, &clock).await;
    let mut renewal = Renewal::new(&machine.folder, &machine.identity, Some(600)).unwrap();
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 2);

    // After a denial a new CSR with another key is created, with a delay.
    world.decide_next_csr("Denied", "not today").await.unwrap();
    let refused = renewal.step(&mut machine.joined).await.unwrap_err().to_string();
    assert_eq!(refused, "the certificate signing request was denied: not today");
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 2);
    set_time(&clock, renewal.next_step_at);
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 3);
    assert_eq!(machine.folder.identity().unwrap().unwrap().certificate, first, "the present one serves");

    // After approval the node uses the new certificate.
    world.decide_next_csr("Approved", "").await.unwrap();
    world.cluster.wait_until_idle().await;
    renewal.step(&mut machine.joined).await.unwrap();
    let identity = machine.folder.identity().unwrap().unwrap();
    assert_ne!(identity.certificate, first);
    certificate::verify(&identity.certificate, &identity.key, "edge-1").unwrap();
    assert_private(&world.folder.path().join("edge-1"));
    let node = machine.joined.get_node().await.unwrap().unwrap();
    machine.joined.renew_lease(&node).await.unwrap();
    let der = CertificateDer::from_pem_slice(&identity.certificate).unwrap();
    assert!(world.client_certificate.lock().unwrap().as_deref() == Some(&*der), "it shows the new one");
    // The certificate was issued by the cluster's own clock, which has not moved.
    set_time(&clock, Timestamp::now());
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 3);
}

#[tokio::test]
async fn certificate_replacement_resumes_after_crash() {
    let folder = tempdir().unwrap();
    let dir = folder.path().join("edge-1");
    let server: ServerAddress = "127.0.0.1:1".parse().unwrap();
    let text = |text: &str| text.as_bytes().to_vec();
    let of = |n: u8| Ok::<_, StateDirError>(KeyAndRequest { key: vec![n], request: vec![n] });
    // Crashes before the first move, after the key, after the request, and after all.
    for moved in 0..=3 {
        let machine = StateDir::open_or_create(&dir, &server, "edge-1").unwrap();
        machine.load_or_create_request(|| of(1)).unwrap();
        machine.save_certificate(&text("ca"), &[1]).unwrap();
        machine.load_or_create_next_request(|| of(2)).unwrap();
        drop(machine);
        std::fs::copy(dir.join("next-key.pem"), dir.join("next-certificate.pem")).unwrap();
        for name in ["key.pem", "request.pem", "certificate.pem"].iter().take(moved) {
            std::fs::rename(dir.join(format!("next-{name}")), dir.join(name)).unwrap();
        }
        let machine = StateDir::open(&dir).unwrap();
        let identity = machine.identity().unwrap().unwrap();
        assert_eq!((identity.key, identity.certificate), (vec![2], vec![2]), "{moved}");
        assert_eq!(machine.load_or_create_request(|| of(3)).unwrap().request, [2]);
        assert_eq!(
            machine.load_or_create_next_request(|| of(4)).unwrap().request,
            [4],
            "nothing is left of it"
        );
        machine.remove_all().unwrap();
        assert!(!dir.exists());
    }
}
