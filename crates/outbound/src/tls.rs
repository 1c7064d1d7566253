//! rustls client configuration.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::access::{ClientCertificate, TlsTrust};

/// Builds the client configuration. The error describes the fault of the given certificates.
pub fn client_config(trust: &TlsTrust) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default protocol versions");
    let builder = if trust.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    } else {
        let roots = Arc::new(trusted_roots(trust)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        builder.with_webpki_verifier(verifier.map_err(|error| error.to_string())?)
    };
    match &trust.client_certificate {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let (chain, key) = client_auth(identity)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
        }
    }
}

fn trusted_roots(trust: &TlsTrust) -> Result<RootCertStore, String> {
    let Some(authorities) = &trust.authorities else { return system_roots() };
    let mut roots = if trust.include_system_roots { system_roots()? } else { RootCertStore::empty() };
    for certificate in parse_certificates(authorities)? {
        roots.add(certificate).map_err(|error| format!("invalid CA certificate: {error}"))?;
    }
    Ok(roots)
}

/// The system's authorities, loaded once.
fn system_roots() -> Result<RootCertStore, String> {
    static SYSTEM: OnceLock<RootCertStore> = OnceLock::new();
    let roots = SYSTEM.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    if roots.is_empty() { Err("the system has no CA certificates".to_owned()) } else { Ok(roots.clone()) }
}

fn parse_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if all.is_empty() => Err("they contain no certificate".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("they are not valid PEM: {error}")),
    }
}

fn client_auth(
    identity: &ClientCertificate,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    // The parser's error is dropped because it could repeat a line of the key.
    let key = PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes());
    Ok((parse_certificates(&identity.certificate)?, key.map_err(|_| "the key is not valid PEM".to_owned())?))
}

/// Verifier that accepts every certificate but still checks that the server holds its key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
