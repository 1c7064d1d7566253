//! TLS configuration of the platform's HTTP port.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsConfig;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Loads certificate and key; errors name the file.
pub fn server_config(tls: &TlsConfig) -> Result<Arc<ServerConfig>, BoxError> {
    let wrong = |file: &Path, why: String| BoxError::from(format!("`{}`: {why}", file.display()));
    let chain: Vec<_> = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&tls.cert, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong(&tls.key, error.to_string()))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&tls.cert, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
