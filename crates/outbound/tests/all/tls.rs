//! TLS: trusted authorities and client certificates.

use std::sync::{Arc, Mutex};

use outbound::access::ClientCertificate;
use outbound::{Access, FetchError, SecretString, TlsTrust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::fake_network::{FakeNetwork, PUBLIC, ok, redirect, serve};

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

    fn identity(&self) -> ClientCertificate {
        let (certificate, key) = self.issue("me.example");
        ClientCertificate { certificate: certificate.pem(), key: SecretString::new(key.serialize_pem()) }
    }

    /// Serves `a.example` and `b.example` and records whether the client presented a certificate.
    fn network(&self, seen: &Arc<Mutex<Vec<bool>>>) -> FakeNetwork {
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
        let network = FakeNetwork::with_connections(move |to, line| {
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
        network.with_host("a.example", &[&[PUBLIC]]).with_host("b.example", &[&["203.0.113.8"]])
    }
}

fn access_trusting(authority: &Authority) -> Access {
    let trust = TlsTrust { authorities: Some(authority.pem()), ..TlsTrust::default() };
    Access { auth: None, trust }
}

#[tokio::test]
async fn server_certificate_must_be_trusted() {
    let (ours, other, seen) = (Authority::new(), Authority::new(), Arc::default());
    let network = ours.network(&seen);
    assert_eq!(network.get_with("https://a.example/", &access_trusting(&ours)).await.unwrap().body, "secure");
    for access in [access_trusting(&other), Access::anonymous()] {
        let said = network.get_with("https://a.example/?key=canary", &access).await.unwrap_err();
        // A system without any trusted authority reports `Certificates`.
        let fits = matches!(said, FetchError::Tls { .. } | FetchError::Certificates { .. });
        assert!(fits && !format!("{said:?}").contains("canary"), "{said}");
    }
    let mut blind = Access::anonymous();
    blind.trust.insecure_skip_verify = true;
    assert_eq!(network.get_with("https://a.example/", &blind).await.unwrap().body, "secure");
    let said = network.get_with("https://other.example/", &access_trusting(&ours)).await.unwrap_err();
    assert!(matches!(said, FetchError::Dial(_)), "{said}");
}

#[tokio::test]
async fn server_certificate_must_match_the_host() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen).with_host("c.example", &[&[PUBLIC]]);
    let said = network.get_with("https://c.example/", &access_trusting(&ours)).await.unwrap_err();
    assert!(matches!(said, FetchError::Tls { .. }), "{said}");
}

#[tokio::test]
async fn client_certificate_is_sent_to_its_origin_only() {
    let (ours, seen) = (Authority::new(), Arc::<Mutex<Vec<bool>>>::default());
    let network = ours.network(&seen);
    let mut access = access_trusting(&ours);
    access.trust.client_certificate = Some(ours.identity());
    network.get_with("https://a.example/", &access).await.unwrap();
    network.get_with("https://a.example/on", &access).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, true, false]);
}

#[tokio::test]
async fn redirect_from_https_to_http_is_refused() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen);
    let said = network.get_with("https://a.example/down", &access_trusting(&ours)).await.unwrap_err();
    assert_eq!(
        said.to_string(),
        "https://a.example/down redirects to http://a.example, which does not use https"
    );
    assert_eq!(said.kind(), domain::ErrorKind::Forbidden);
}

#[tokio::test]
async fn invalid_certificates_are_rejected_and_not_echoed() {
    let (ours, seen) = (Authority::new(), Arc::default());
    let network = ours.network(&seen);
    let mut no_key = access_trusting(&ours);
    no_key.trust.client_certificate =
        Some(ClientCertificate { certificate: ours.pem(), key: SecretString::new("canary") });
    let mut no_pem = Access::anonymous();
    no_pem.trust.authorities = Some("canary".to_owned());
    for access in [no_key, no_pem] {
        let said = network.get_with("https://a.example/", &access).await.unwrap_err();
        assert_eq!(said.kind(), domain::ErrorKind::Invalid);
        assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
    }
    assert_eq!(network.dialled(), []);
}
