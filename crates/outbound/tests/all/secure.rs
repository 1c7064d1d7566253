//! TLS: trusted authorities and client certificates.

use std::sync::{Arc, Mutex};

use outbound::access::Identity;
use outbound::{Access, Failure, Secret, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::network::{Network, PUBLIC, ok, redirect, serve};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap(), key)
    }

    fn identity(&self) -> Identity {
        let (certificate, key) = self.issue("me.example");
        Identity { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) }
    }

    /// Serves `a.example` and `b.example` and records whether the client presented a certificate.
    fn network(&self, seen: &Arc<Mutex<Vec<bool>>>) -> Network {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.as_ref().der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let acceptors = ["a.example", "b.example"].map(|name| {
            let (certificate, key) = self.issue(name);
            let verifier = verifier.clone().allow_unauthenticated().build().unwrap();
            let mut config = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_client_cert_verifier(verifier)
                .with_single_cert(
                    vec![certificate.der().clone()],
                    PrivateKeyDer::Pkcs8(key.serialize_der().into()),
                )
                .unwrap();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            TlsAcceptor::from(Arc::new(config))
        });
        let seen = seen.clone();
        let network = Network::of_lines(move |to, line| {
            let (acceptor, seen) =
                (acceptors[usize::from(to.ip().to_string() != PUBLIC)].clone(), seen.clone());
            tokio::spawn(async move {
                if to.port() == 80 {
                    return serve(line, |_| ok("plain"));
                }
                let Ok(line) = acceptor.accept(line).await else { return };
                seen.lock().unwrap().push(line.get_ref().1.peer_certificates().is_some());
                serve(line, |request| match request.uri().path() {
                    "/down" => redirect("http://a.example/"),
                    "/on" => redirect("https://b.example/"),
                    _ => ok("secure"),
                });
            });
        });
        network.name("a.example", &[&[PUBLIC]]).name("b.example", &[&["203.0.113.8"]])
    }
}

fn trusting(authority: &Authority) -> Access {
    let trust = Trust { authorities: Some(authority.pem()), ..Trust::default() };
    Access { login: None, trust }
}

#[tokio::test]
async fn only_whom_one_believes_is_talked_to() {
    let (ours, other, seen) = (Authority::new(), Authority::new(), Arc::default());
    let network = ours.network(&seen);
    assert_eq!(network.get_with("https://a.example/", &trusting(&ours)).await.unwrap().body, "secure");
    for access in [trusting(&other), Access::none()] {
        let said = network.get_with("https://a.example/?key=canary", &access).await.unwrap_err();
        // A system without any trusted authority reports `Certificates`.
        let fits = matches!(said, Failure::Tls { .. } | Failure::Certificates { .. });
        assert!(fits && !format!("{said:?}").contains("canary"), "{said}");
    }
    let mut blind = Access::none();
    blind.trust.blindly = true;
    assert_eq!(network.get_with("https://a.example/", &blind).await.unwrap().body, "secure");
    let said = network.get_with("https://other.example/", &trusting(&ours)).await.unwrap_err();
    assert!(matches!(said, Failure::Dial(_)), "{said}");
}

#[tokio::test]
async fn the_name_in_a_certificate_must_be_the_one_asked_for() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen).name("c.example", &[&[PUBLIC]]);
    let said = network.get_with("https://c.example/", &trusting(&ours)).await.unwrap_err();
    assert!(matches!(said, Failure::Tls { .. }), "{said}");
}

#[tokio::test]
async fn ones_own_certificate_is_shown_at_its_origin_only() {
    let (ours, seen) = (Authority::new(), Arc::<Mutex<Vec<bool>>>::default());
    let network = ours.network(&seen);
    let mut access = trusting(&ours);
    access.trust.identity = Some(ours.identity());
    network.get_with("https://a.example/", &access).await.unwrap();
    network.get_with("https://a.example/on", &access).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, true, false]);
}

#[tokio::test]
async fn nobody_is_led_from_what_is_secure_to_what_is_not() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen);
    let said = network.get_with("https://a.example/down", &trusting(&ours)).await.unwrap_err();
    assert_eq!(said.to_string(), "https://a.example/down leads on to http://a.example, which is not secure");
    assert_eq!(said.kind(), domain::Kind::Forbidden);
}

#[tokio::test]
async fn certificates_that_are_none_are_named() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen);
    let mut no_key = trusting(&ours);
    no_key.trust.identity = Some(Identity { certificate: ours.pem(), key: Secret::new("canary") });
    let mut no_pem = Access::none();
    no_pem.trust.authorities = Some("canary".to_owned());
    for access in [no_key, no_pem] {
        let said = network.get_with("https://a.example/", &access).await.unwrap_err();
        assert_eq!(said.kind(), domain::Kind::Invalid);
        assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
    }
    assert_eq!(network.dialled(), []);
}
