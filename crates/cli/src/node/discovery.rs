//! How a cluster proves that it is the one that somebody's token is for, before anything secret is sent to it.
//!
//! The ConfigMap `kube-public/cluster-info` is open to all. It names the cluster's authority, and is signed with each
//! bootstrap token: who has the token can check that whoever answers has it too. The authority must besides be
//! the one whose hash was given. Only then is the cluster believed, and only under that authority.

use aws_lc_rs::{constant_time, digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::line::{self, Trouble};
use super::ticket::{AuthorityHash, JoinToken, Server};

const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("cannot reach {server}: {trouble}")]
    Unreachable { server: Server, trouble: Trouble },
    #[error("{server} does not say how to join it: it answers {code} for `kube-public/cluster-info`")]
    Closed { server: Server, code: u16 },
    #[error("what {server} says of itself cannot be read: {why}")]
    Unreadable { server: Server, why: String },
    #[error("{server} does not know the token `{id}`: it is mistyped, or it has expired or been withdrawn")]
    UnknownToken { server: Server, id: String },
    #[error(
        "{server} has no token `{id}` with this secret: the token is mistyped, or that is not your cluster"
    )]
    WrongToken { server: Server, id: String },
    #[error(
        "the authority of {server} is {found}, not {wanted}: that is not your cluster, or its authority has changed; nothing secret was sent"
    )]
    WrongAuthority { server: Server, found: AuthorityHash, wanted: AuthorityHash },
    #[error("{server} does not prove to be of its own authority: {trouble}; nothing secret was sent")]
    Impostor { server: Server, trouble: Trouble },
}

/// The authority of the cluster at `server`, in PEM form, once it has proved itself in both ways.
pub async fn authority(
    server: &Server,
    token: &JoinToken,
    wanted: AuthorityHash,
) -> Result<Vec<u8>, DiscoveryError> {
    let unreachable = |trouble| DiscoveryError::Unreachable { server: server.clone(), trouble };
    let client = line::unverified(server).map_err(|error| unreachable(error.into()))?;
    let (code, body) = line::get(&client, PATH).await.map_err(unreachable)?;
    if code != 200 {
        return Err(DiscoveryError::Closed { server: server.clone(), code });
    }
    let found = check(server, &body, token, wanted)?;
    // The same once more, from whoever has that authority's certificate: from here on the line itself is safe.
    let impostor = |trouble| DiscoveryError::Impostor { server: server.clone(), trouble };
    let client = line::anonymous(server, &found).map_err(|error| impostor(error.into()))?;
    let (code, body) = line::get(&client, PATH).await.map_err(impostor)?;
    if code != 200 || check(server, &body, token, wanted)? != found {
        return Err(impostor(Trouble::said("it says something else there")));
    }
    Ok(found)
}

/// The authority in a ConfigMap, if token and hash vouch for it.
pub(super) fn check(
    server: &Server,
    body: &[u8],
    token: &JoinToken,
    wanted: AuthorityHash,
) -> Result<Vec<u8>, DiscoveryError> {
    let unreadable = |why: String| DiscoveryError::Unreadable { server: server.clone(), why };
    let map: Value = serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
    let text = |key: &str| map["data"][key].as_str();
    let kubeconfig = text("kubeconfig").ok_or_else(|| unreadable("it has no kubeconfig".to_owned()))?;
    let id = token.id().to_owned();
    let Some(signature) = text(&format!("jws-kubeconfig-{id}")) else {
        return Err(DiscoveryError::UnknownToken { server: server.clone(), id });
    };
    if !is_signed(kubeconfig, signature, token) {
        return Err(DiscoveryError::WrongToken { server: server.clone(), id });
    }
    let authority = authority_in(kubeconfig).map_err(unreadable)?;
    let found = hash(&authority).map_err(unreadable)?;
    if found != wanted {
        return Err(DiscoveryError::WrongAuthority { server: server.clone(), found, wanted });
    }
    Ok(authority)
}

/// Whether a signature (`header..tag`, the content left out) is of this content and token.
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

/// The certificate of the one cluster that a kubeconfig names.
fn authority_in(kubeconfig: &str) -> Result<Vec<u8>, String> {
    let config: Value = serde_norway::from_str(kubeconfig).map_err(|error| error.to_string())?;
    let data = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    let data = data.ok_or_else(|| "its kubeconfig names no authority".to_owned())?;
    STANDARD.decode(data).map_err(|_| "the authority in its kubeconfig is no base64".to_owned())
}

/// The hash of an authority's public key, as `kubeadm` writes it. Several authorities in one file are refused: the hash would
/// vouch for the first, and all would be believed.
pub(super) fn hash(authority: &[u8]) -> Result<AuthorityHash, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority).collect();
    let all = all.map_err(|_| "its authority is no certificate in PEM form".to_owned())?;
    let [only] = all.as_slice() else {
        return Err(format!("it has {} authorities, and one hash vouches for one", all.len()));
    };
    let (_, certificate) =
        X509Certificate::from_der(only).map_err(|_| "its authority is no certificate".to_owned())?;
    let digest = digest::digest(&digest::SHA256, certificate.public_key().raw);
    let digest = digest.as_ref().try_into().map_err(|_| "the hash has another length".to_owned())?;
    Ok(AuthorityHash::of(digest))
}
