//! Client certificate of a node: requested with a bootstrap token, approved by another user, then downloaded.
//!
//! The CSR's name is derived from its content, so that a request after a crash finds the existing one.

use std::time::Duration;

use aws_lc_rs::digest;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::time::Instant;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::clients::{ErrorMessage, status_code};
use super::state_dir::{KeyAndRequest, StateDirError};

const SIGNER_NAME: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Retry interval after a failed watch.
const WATCH_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a rejected token is retried. API servers learn of a new token from a watch.
const TOKEN_RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Retry interval of a rejected token.
const TOKEN_RETRY_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error(transparent)]
    Folder(#[from] StateDirError),
    #[error("cannot generate a key: {0}")]
    Key(#[from] rcgen::Error),
    #[error("the cluster does not accept the token: it has expired or was revoked")]
    TokenRejected,
    #[error("the token may not request a node certificate: {0}")]
    NotAllowed(ErrorMessage),
    #[error("cannot request a certificate: {0}")]
    Request(ErrorMessage),
    #[error("certificate signing request `{0}` belongs to another client")]
    NameConflict(String),
    #[error("the certificate signing request was denied: {0}")]
    Denied(String),
    #[error("the cluster could not issue the certificate: {0}")]
    Failed(String),
    #[error("certificate signing request `{0}` was deleted before it was approved or denied: join again")]
    RequestDeleted(String),
    #[error(
        "certificate signing request `{name}` was not approved within {seconds} seconds: join again to keep waiting"
    )]
    DecisionTimeout { name: String, seconds: u64 },
    #[error("the issued certificate does not match the request: {0}")]
    Mismatch(&'static str),
}

/// Generates a key (P-256) and a CSR for the node `name`.
pub fn generate_request(name: &str) -> Result<KeyAndRequest, CertificateError> {
    let key = KeyPair::generate()?;
    let mut wanted = CertificateParams::default();
    wanted.distinguished_name = DistinguishedName::new();
    wanted.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    wanted.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
    let request = wanted.serialize_request(&key)?.pem()?;
    Ok(KeyAndRequest { key: key.serialize_pem().into_bytes(), request: request.into_bytes() })
}

/// Creates the CSR with a bootstrap token, waits for the decision and returns the certificate.
/// `lifetime_seconds` is the requested lifetime.
pub async fn request_certificate(
    client: Client,
    pending: &KeyAndRequest,
    lifetime_seconds: Option<i32>,
    timeout: Duration,
) -> Result<Vec<u8>, CertificateError> {
    let csrs: Api<CertificateSigningRequest> = Api::all(client);
    let placed =
        create_csr_with_new_token(&csrs, pending, lifetime_seconds, timeout.min(TOKEN_RETRY_TIMEOUT)).await?;
    let name = placed.metadata.name.unwrap_or_default();
    let seconds = timeout.as_secs();
    let decided = tokio::time::timeout(timeout, wait_until_decided(&csrs, &name)).await;
    let csr = decided.map_err(|_| CertificateError::DecisionTimeout { name, seconds })??;
    extract_certificate(&csr)
}

/// As [`create_or_get_csr`], but retries a token that the API server does not know yet.
async fn create_csr_with_new_token(
    csrs: &Api<CertificateSigningRequest>,
    asked: &KeyAndRequest,
    lasting: Option<i32>,
    propagation: Duration,
) -> Result<CertificateSigningRequest, CertificateError> {
    let began = Instant::now();
    loop {
        match create_or_get_csr(csrs, asked, lasting, to_certificate_error).await {
            Err(CertificateError::TokenRejected) if began.elapsed() < propagation => {
                tokio::time::sleep(TOKEN_RETRY_INTERVAL).await;
            }
            other => return other,
        }
    }
}

/// Creates the CSR, or returns the existing one of an earlier attempt.
pub async fn create_or_get_csr<E: From<CertificateError>>(
    csrs: &Api<CertificateSigningRequest>,
    asked: &KeyAndRequest,
    lasting: Option<i32>,
    refusal: impl Fn(kube::Error) -> E,
) -> Result<CertificateSigningRequest, E> {
    let csr = build_csr(&asked.request, lasting);
    match csrs.create(&PostParams::default(), &csr).await {
        Err(error) if status_code(&error) == 409 => {
            let name = csr.metadata.name.unwrap_or_default();
            let found = csrs.get(&name).await.map_err(refusal)?;
            if found.spec.request.0 == asked.request {
                Ok(found)
            } else {
                Err(CertificateError::NameConflict(name).into())
            }
        }
        other => other.map_err(refusal),
    }
}

fn to_certificate_error(error: kube::Error) -> CertificateError {
    match status_code(&error) {
        401 => CertificateError::TokenRejected,
        403 => CertificateError::NotAllowed(error.into()),
        _ => CertificateError::Request(error.into()),
    }
}

fn build_csr(pem: &[u8], lasting: Option<i32>) -> CertificateSigningRequest {
    let digest = digest::digest(&digest::SHA256, pem);
    let digits = super::hex(&digest.as_ref()[..16]);
    CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(format!("node-csr-{digits}")), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.to_vec()),
            signer_name: SIGNER_NAME.to_owned(),
            expiration_seconds: lasting,
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

/// Waits for the decision on the CSR. Retries all errors except a rejected token.
async fn wait_until_decided(
    csrs: &Api<CertificateSigningRequest>,
    name: &str,
) -> Result<CertificateSigningRequest, CertificateError> {
    loop {
        let is_over = |csr: Option<&CertificateSigningRequest>| csr.is_none_or(is_decided);
        match await_condition(csrs.clone(), name, is_over).await {
            Ok(Some(csr)) => return Ok(csr),
            Ok(None) => return Err(CertificateError::RequestDeleted(name.to_owned())),
            Err(_) => match csrs.get_opt(name).await {
                Err(error) if status_code(&error) == 401 => return Err(to_certificate_error(error)),
                // Permission to read the CSR is granted shortly after its creation.
                _ => tokio::time::sleep(WATCH_RETRY_INTERVAL).await,
            },
        }
    }
}

fn condition<'a>(
    csr: &'a CertificateSigningRequest,
    kind: &str,
) -> Option<&'a CertificateSigningRequestCondition> {
    let conditions = csr.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|found| found.type_ == kind && found.status != "False")
}

fn issued_certificate(csr: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = csr.status.as_ref()?.certificate.as_ref()?;
    (!certificate.0.is_empty()).then_some(&certificate.0)
}

pub fn is_decided(csr: &CertificateSigningRequest) -> bool {
    issued_certificate(csr).is_some()
        || condition(csr, "Denied").is_some()
        || condition(csr, "Failed").is_some()
}

pub fn extract_certificate(csr: &CertificateSigningRequest) -> Result<Vec<u8>, CertificateError> {
    let words = |found: &CertificateSigningRequestCondition| {
        let said = [&found.message, &found.reason].into_iter().flatten().find(|text| !text.is_empty());
        said.cloned().unwrap_or_else(|| "no reason given".to_owned())
    };
    if let Some(denied) = condition(csr, "Denied") {
        return Err(CertificateError::Denied(words(denied)));
    }
    if let Some(failed) = condition(csr, "Failed") {
        return Err(CertificateError::Failed(words(failed)));
    }
    let pem = issued_certificate(csr).ok_or(CertificateError::Mismatch("it is missing"))?;
    Ok(pem.to_vec())
}

/// Checks that a certificate belongs to this key and node. Returns its validity period.
pub fn verify(pem: &[u8], key: &[u8], name: &str) -> Result<(Timestamp, Timestamp), CertificateError> {
    let wrong = CertificateError::Mismatch;
    let der = CertificateDer::from_pem_slice(pem).map_err(|_| wrong("it is not a PEM certificate"))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| wrong("it cannot be parsed"))?;
    let key = str::from_utf8(key).map_err(|_| wrong("the key is not UTF-8"))?;
    let key = KeyPair::from_pem(key)?;
    if certificate.public_key().raw != rcgen::PublicKeyData::subject_public_key_info(&key) {
        return Err(wrong("it is for another key"));
    }
    let named = certificate.subject().iter_common_name().next().and_then(|cn| cn.as_str().ok());
    if named != Some(&format!("system:node:{name}")) {
        return Err(wrong("it is for another subject"));
    }
    let moment = |at: x509_parser::time::ASN1Time| {
        Timestamp::from_second(at.timestamp()).map_err(|_| wrong("its validity period is invalid"))
    };
    let validity = certificate.validity();
    Ok((moment(validity.not_before)?, moment(validity.not_after)?))
}
