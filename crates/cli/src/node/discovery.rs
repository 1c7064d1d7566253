//! Discovery: verifies the cluster's identity before any secret is sent to it, as kubeadm does.
//!
//! The ConfigMap `kube-public/cluster-info` is public. It contains the cluster's CA and is signed with each bootstrap
//! token, so that the holder of a token can verify that the server has the token too. The CA must also match the given
//! hash. Only then is the cluster trusted, and only under that CA.

use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::clients::{self, ErrorMessage};
use super::join_args::{CaCertHash, JoinToken, ServerAddress};

const CLUSTER_INFO_PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("cannot reach {server}: {trouble}")]
    Unreachable { server: ServerAddress, trouble: ErrorMessage },
    #[error("cannot read ConfigMap `kube-public/cluster-info` of {server}: HTTP status {code}")]
    UnexpectedStatus { server: ServerAddress, code: u16 },
    #[error("ConfigMap `kube-public/cluster-info` of {server} is invalid: {why}")]
    InvalidClusterInfo { server: ServerAddress, why: String },
    #[error("{server} does not know the token `{id}`: it is mistyped, has expired or was revoked")]
    UnknownToken { server: ServerAddress, id: String },
    #[error(
        "{server} has no token `{id}` with this secret: the token is mistyped, or this is not your cluster"
    )]
    WrongToken { server: ServerAddress, id: String },
    #[error(
        "the CA of {server} has hash {found}, expected {wanted}: this is not your cluster, or its CA has changed; no secret was sent"
    )]
    CaHashMismatch { server: ServerAddress, found: CaCertHash, wanted: CaCertHash },
    #[error("cannot verify {server} with its own CA: {trouble}; no secret was sent")]
    UnverifiedServer { server: ServerAddress, trouble: ErrorMessage },
}

/// Returns the CA of the cluster at `server` in PEM form, verified by token and hash.
pub async fn fetch_ca(
    server: &ServerAddress,
    token: &JoinToken,
    wanted: CaCertHash,
) -> Result<Vec<u8>, DiscoveryError> {
    let unreachable = |trouble| DiscoveryError::Unreachable { server: server.clone(), trouble };
    let client = clients::unverified(server).map_err(|error| unreachable(error.into()))?;
    let (code, body) = clients::get(&client, CLUSTER_INFO_PATH).await.map_err(unreachable)?;
    if code != 200 {
        return Err(DiscoveryError::UnexpectedStatus { server: server.clone(), code });
    }
    let found = verify_cluster_info(server, &body, token, wanted)?;
    // Repeats the request over TLS verified with this CA. From here on the connection is secure.
    let impostor = |trouble| DiscoveryError::UnverifiedServer { server: server.clone(), trouble };
    let client = clients::anonymous(server, &found).map_err(|error| impostor(error.into()))?;
    let (code, body) = clients::get(&client, CLUSTER_INFO_PATH).await.map_err(impostor)?;
    if code != 200 || verify_cluster_info(server, &body, token, wanted)? != found {
        return Err(impostor(ErrorMessage::new("the response differs over the verified connection")));
    }
    Ok(found)
}

/// Returns the CA in the ConfigMap if token and hash verify it.
pub(super) fn verify_cluster_info(
    server: &ServerAddress,
    body: &[u8],
    token: &JoinToken,
    wanted: CaCertHash,
) -> Result<Vec<u8>, DiscoveryError> {
    let unreadable = |why: String| DiscoveryError::InvalidClusterInfo { server: server.clone(), why };
    let map: Value = serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    let text = |key: &str| map["data"][key].as_str();
    let kubeconfig =
        text("kubeconfig").ok_or_else(|| unreadable("key `kubeconfig` is missing".to_owned()))?;
    let id = token.id().to_owned();
    let Some(signature) = text(&format!("jws-kubeconfig-{id}")) else {
        return Err(DiscoveryError::UnknownToken { server: server.clone(), id });
    };
    if !is_signed(kubeconfig, signature, token) {
        return Err(DiscoveryError::WrongToken { server: server.clone(), id });
    }
    let authority = ca_from_kubeconfig(kubeconfig).map_err(unreadable)?;
    let found = ca_hash(&authority).map_err(unreadable)?;
    if found != wanted {
        return Err(DiscoveryError::CaHashMismatch { server: server.clone(), found, wanted });
    }
    Ok(authority)
}

/// Verifies a detached JWS signature (`header..tag`) of this content with this token.
fn is_signed(content: &str, signature: &str, token: &JoinToken) -> bool {
    let Some((header, tag)) = signature.split_once("..") else { return false };
    let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let (Some(claims), Some(tag)) = (decoded(header), decoded(tag)) else { return false };
    let claims: Value = serde_json::from_slice(&claims).unwrap_or_default();
    if claims["alg"] != "HS256" || claims["kid"] != token.id() {
        return false;
    }
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret().as_bytes());
    let expected = hmac::sign(&key, signed.as_bytes());
    constant_time::verify_slices_are_equal(expected.as_ref(), &tag).is_ok()
}

/// The CA of the single cluster in a kubeconfig.
fn ca_from_kubeconfig(kubeconfig: &str) -> Result<Vec<u8>, String> {
    let config: Value = serde_norway::from_str(kubeconfig).map_err(|error| error.to_string())?;
    let data = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    let data = data.ok_or_else(|| "the kubeconfig has no certificate-authority-data".to_owned())?;
    STANDARD
        .decode(data)
        .map_err(|_| "certificate-authority-data of the kubeconfig is not valid base64".to_owned())
}

/// Hash of the CA's public key in kubeadm's format. A file with several CAs is refused, because the hash would verify
/// only the first.
pub(super) fn ca_hash(authority: &[u8]) -> Result<CaCertHash, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
    let all = all.map_err(|_| "the CA is not a PEM certificate".to_owned())?;
    let [only] = all.as_slice() else {
        return Err(format!("it has {} CA certificates, but a hash verifies only one", all.len()));
    };
    let (_, certificate) =
        X509Certificate::from_der(only).map_err(|_| "the CA is not a valid certificate".to_owned())?;
    let digest = digest::digest(&digest::SHA256, certificate.public_key().raw);
    let digest = digest.as_ref().try_into().map_err(|_| "the hash has the wrong length".to_owned())?;
    Ok(CaCertHash::from_digest(digest))
}
