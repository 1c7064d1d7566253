//! Certificate renewal, with a manual clock.

use domain::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use testkit::HeldClock;

use super::super::folder::{Asked, Folder, FolderError};
use super::super::join::Joined;
use super::super::renewal::{Renewal, again, due};
use super::*;

#[test]
fn a_certificate_is_renewed_in_good_time_and_not_by_all_at_once() {
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
        assert_eq!(due(begin, end, machine), at(expected), "{machine}");
    }
    assert_eq!(due(end, begin, "0000"), at("2026-01-04T00:00:00Z"), "one that has ended is due");
    for (now, expected) in [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-10T00:00:00Z", "2026-01-10T02:24:00Z"),
        ("2026-01-12T00:00:00Z", "2026-01-12T00:00:00Z"),
    ] {
        assert_eq!(again(at(now), end), at(expected), "{now}");
    }
}

/// A joined node, advanced step by step.
struct Staying {
    folder: Folder,
    joined: Joined,
    identity: folder::Identity,
}

impl Staying {
    async fn enter(args: &JoinArgs, clock: &HeldClock) -> Self {
        let entered = join::enter(args, Arc::new(clock.clone()), &mut |_| Ok(())).await;
        let (folder, identity, joined) = entered.unwrap();
        Self { folder, joined, identity }
    }
}

async fn requests(world: &World) -> Vec<CertificateSigningRequest> {
    let mut all = world.csrs().list(&ListParams::default()).await.unwrap().items;
    all.sort_by_key(|csr| csr.metadata.resource_version.as_ref().and_then(|v| v.parse::<u64>().ok()));
    all
}

fn move_to(clock: &HeldClock, at: Timestamp) {
    clock.advance(at.duration_since(clock.now()));
}

#[tokio::test]
async fn a_machine_that_stays_renews_its_certificate_whatever_comes_between() {
    let world = World::new().await;
    let clock = HeldClock::at(Timestamp::now());
    let args = world.args("edge-1", &["--certificate-seconds", "600"]);
    let approver = world.decides("Approved", "");
    let mut machine = Staying::enter(&args, &clock).await;
    assert_eq!(approver.await.unwrap().spec.expiration_seconds, Some(600));
    let first = machine.identity.certificate.clone();
    let mut renewal = Renewal::of(&machine.folder, &machine.identity, Some(600)).unwrap();
    assert!(renewal.next > clock.now() && renewal.next < clock.now() + SignedDuration::from_secs(600));

    // Before the renewal time nothing happens. Then a CSR is created, which stays pending.
    move_to(&clock, renewal.next - SignedDuration::from_secs(1));
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 1);
    move_to(&clock, renewal.next);
    renewal.step(&mut machine.joined).await.unwrap();
    renewal.step(&mut machine.joined).await.unwrap();
    let asked = requests(&world).await;
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].spec.username.as_deref(), Some("system:node:edge-1"));
    assert_eq!(asked[1].spec.signer_name, "kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(asked[1].spec.expiration_seconds, Some(600));

    // After a restart the same CSR is used.
    drop(machine);
    let mut machine = Staying::enter(&args, &clock).await;
    let mut renewal = Renewal::of(&machine.folder, &machine.identity, Some(600)).unwrap();
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 2);

    // After a denial a new CSR with another key is created, with a delay.
    world.decides("Denied", "not today").await.unwrap();
    let refused = renewal.step(&mut machine.joined).await.unwrap_err().to_string();
    assert_eq!(refused, "the node was not let in: not today");
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 2);
    move_to(&clock, renewal.next);
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 3);
    assert_eq!(machine.folder.identity().unwrap().unwrap().certificate, first, "the present one serves");

    // After approval the node uses the new certificate.
    world.decides("Approved", "").await.unwrap();
    world.cluster.rest().await;
    renewal.step(&mut machine.joined).await.unwrap();
    let identity = machine.folder.identity().unwrap().unwrap();
    assert_ne!(identity.certificate, first);
    certificate::check(&identity.certificate, &identity.key, "edge-1").unwrap();
    private(&world.folder.path().join("edge-1"));
    let node = machine.joined.found().await.unwrap().unwrap();
    machine.joined.live(&node).await.unwrap();
    let der = CertificateDer::from_pem_slice(&identity.certificate).unwrap();
    assert!(world.shown.lock().unwrap().as_deref() == Some(&*der), "it shows the new one");
    // The certificate was issued by the cluster's own clock, which has not moved.
    move_to(&clock, Timestamp::now());
    renewal.step(&mut machine.joined).await.unwrap();
    assert_eq!(requests(&world).await.len(), 3);
}

#[tokio::test]
async fn a_machine_that_died_while_it_changed_its_certificate_has_the_new_one() {
    let folder = tempdir().unwrap();
    let dir = folder.path().join("edge-1");
    let server: Server = "127.0.0.1:1".parse().unwrap();
    let text = |text: &str| text.as_bytes().to_vec();
    let of = |n: u8| Ok::<_, FolderError>(Asked { key: vec![n], request: vec![n] });
    // Crashes before the first move, after the key, after the request, and after all.
    for moved in 0..=3 {
        let machine = Folder::enter(&dir, &server, "edge-1").unwrap();
        machine.asked(|| of(1)).unwrap();
        machine.certify(&text("ca"), &[1]).unwrap();
        machine.asked_next(|| of(2)).unwrap();
        drop(machine);
        std::fs::copy(dir.join("next-key.pem"), dir.join("next-certificate.pem")).unwrap();
        for name in ["key.pem", "request.pem", "certificate.pem"].iter().take(moved) {
            std::fs::rename(dir.join(format!("next-{name}")), dir.join(name)).unwrap();
        }
        let machine = Folder::existing(&dir).unwrap();
        let identity = machine.identity().unwrap().unwrap();
        assert_eq!((identity.key, identity.certificate), (vec![2], vec![2]), "{moved}");
        assert_eq!(machine.asked(|| of(3)).unwrap().request, [2]);
        assert_eq!(machine.asked_next(|| of(4)).unwrap().request, [4], "nothing is left of it");
        machine.leave().unwrap();
        assert!(!dir.exists());
    }
}
