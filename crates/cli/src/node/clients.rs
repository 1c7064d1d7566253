//! Clients of the Kubernetes API: anonymous, with a bootstrap token, as the node. Converts their errors to messages.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::join_args::{JoinToken, ServerAddress};
use super::state_dir::NodeIdentity;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response from an unverified cluster.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Error message with its causes. Contains nothing that was sent.
#[derive(Debug)]
pub struct ErrorMessage(String);

impl ErrorMessage {
    pub(super) fn new(words: impl fmt::Display) -> Self {
        Self(words.to_string())
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<kube::Error> for ErrorMessage {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self(status.message.clone());
        }
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let more = inner.to_string();
            if !words.contains(&more) {
                words = format!("{words}: {more}");
            }
            cause = inner.source();
        }
        Self(words)
    }
}

/// HTTP status of an API error; 0 for other errors.
pub(super) fn status_code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn config(server: &ServerAddress) -> Config {
    let mut config = Config::new(server.uri().clone());
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // No proxy: there is no way to configure one here, and the environment is not read.
    config.proxy_url = None;
    config
}

/// Client without TLS verification. Only signed content of its responses is trusted.
pub(super) fn unverified(server: &ServerAddress) -> Result<Client, kube::Error> {
    let mut config = config(server);
    config.accept_invalid_certs = true;
    Client::try_from(config)
}

fn verified_config(server: &ServerAddress, authority: &[u8]) -> Config {
    let mut config = config(server);
    let certificates = CertificateDer::pem_slice_iter(authority).flatten();
    config.root_cert = Some(certificates.map(|certificate| certificate.to_vec()).collect());
    config
}

/// Anonymous client that trusts only this CA.
pub(super) fn anonymous(server: &ServerAddress, authority: &[u8]) -> Result<Client, kube::Error> {
    Client::try_from(verified_config(server, authority))
}

/// Client with the bootstrap token.
pub(super) fn bootstrap(
    server: &ServerAddress,
    authority: &[u8],
    token: &JoinToken,
) -> Result<Client, kube::Error> {
    let mut config = verified_config(server, authority);
    config.auth_info.token = Some(token.expose().into());
    Client::try_from(config)
}

/// Client with the node's certificate.
pub(super) fn node(identity: &NodeIdentity) -> Result<Client, kube::Error> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut config = verified_config(&identity.server, &identity.authority);
    config.auth_info.client_certificate_data = Some(STANDARD.encode(&identity.certificate));
    config.auth_info.client_key_data = Some(STANDARD.encode(&identity.key).into());
    Client::try_from(config)
}

/// GET request with a bounded response.
pub(super) async fn get(client: &Client, path: &str) -> Result<(u16, Bytes), ErrorMessage> {
    let request = http::Request::get(path).body(Vec::new().into()).map_err(ErrorMessage::new)?;
    let answer = client.send(request).await.map_err(ErrorMessage::from)?;
    let code = answer.status().as_u16();
    let body =
        Limited::new(answer.into_body(), MAX_RESPONSE_BYTES).collect().await.map_err(ErrorMessage::new)?;
    Ok((code, body.to_bytes()))
}
