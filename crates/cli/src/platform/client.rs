//! HTTP client of the platform's API.
//!
//! Requests have a timeout. Redirects are not followed, so that a token is never sent elsewhere.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::response::Parts;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

use super::PlatformError;
use super::access::PlatformAccess;
use super::address::Address;
use super::events::EventStream;
use super::problem::Problem;
use super::secret::Secret;

/// Root path of the platform's API.
const API_ROOT: &str = "/api/longshore/v1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";
/// Registration responds when the account is ready, or after a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum response size, above the size of any list.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Client of a platform.
pub struct Client {
    http: Http<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Address,
    credentials: Credentials,
}

/// Credentials of requests.
#[derive(Clone, Debug)]
pub enum Credentials {
    Anonymous,
    Token(Secret),
    /// A browser session: the cookie and the CSRF token.
    Session {
        cookie: Secret,
        csrf: Secret,
    },
}

/// Successful response.
#[derive(Debug)]
pub struct ApiResponse {
    /// `null` if there is no body.
    pub body: Value,
    pub headers: HeaderMap,
}

impl Client {
    pub fn new(access: &PlatformAccess) -> Result<Self, PlatformError> {
        let credentials = access.token.clone().map_or(Credentials::Anonymous, Credentials::Token);
        let mut plain = HttpConnector::new();
        plain.set_connect_timeout(Some(CONNECT_TIMEOUT));
        plain.enforce_http(false);
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls_config(access)?).https_or_http().enable_http1();
        let connector = connector.wrap_connector(plain);
        let http = Http::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, server: access.server.clone(), credentials })
    }

    /// The same platform with other credentials.
    #[must_use]
    pub fn with_credentials(&self, credentials: Credentials) -> Self {
        Self { http: self.http.clone(), server: self.server.clone(), credentials }
    }

    pub fn server(&self) -> &Address {
        &self.server
    }

    /// Fails if there are no credentials.
    pub fn require_credentials(self) -> Result<Self, PlatformError> {
        match self.credentials {
            Credentials::Anonymous => Err(PlatformError::NotSignedIn { server: self.server }),
            _ => Ok(self),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Value, PlatformError> {
        Ok(self.send(Method::GET, path, None).await?.body)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, PlatformError> {
        Ok(self.send(Method::POST, path, Some(body)).await?.body)
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, PlatformError> {
        Ok(self.send(Method::PUT, path, Some(body)).await?.body)
    }

    pub async fn delete(&self, path: &str) -> Result<Value, PlatformError> {
        Ok(self.send(Method::DELETE, path, None).await?.body)
    }

    /// Changes only the given fields.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, PlatformError> {
        Ok(self.send(Method::PATCH, path, Some(body)).await?.body)
    }

    /// Sends a request. `path` is relative to the API's root.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ApiResponse, PlatformError> {
        let body = body.map(|body| (JSON, Bytes::from(body.to_string())));
        self.send_with_timeout(REQUEST_TIMEOUT, method, path, body).await
    }

    /// Sends a request with its own timeout.
    pub async fn post_with_timeout(
        &self,
        limit: Duration,
        path: &str,
        body: &Value,
    ) -> Result<Value, PlatformError> {
        let body = Some((JSON, Bytes::from(body.to_string())));
        Ok(self.send_with_timeout(limit, Method::POST, path, body).await?.body)
    }

    /// Uploads a chart archive.
    pub async fn upload(&self, path: &str, archive: Bytes) -> Result<Value, PlatformError> {
        let body = Some(("application/gzip", archive));
        Ok(self.send_with_timeout(REQUEST_TIMEOUT, Method::POST, path, body).await?.body)
    }

    async fn send_with_timeout(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        body: Option<(&str, Bytes)>,
    ) -> Result<ApiResponse, PlatformError> {
        let request = self.build_request(method, path, JSON, body)?;
        let silent = || PlatformError::Timeout { server: self.server.clone(), seconds: limit.as_secs() };
        tokio::time::timeout(limit, self.exchange(request)).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Opens a stream of server-sent events.
    pub async fn open_event_stream(&self, path: &str) -> Result<EventStream, PlatformError> {
        let request = self.build_request(Method::GET, path, "text/event-stream", None)?;
        let silent =
            || PlatformError::Timeout { server: self.server.clone(), seconds: REQUEST_TIMEOUT.as_secs() };
        let response = tokio::time::timeout(REQUEST_TIMEOUT, self.http.request(request)).await;
        let response = response.map_err(|_| silent())?.map_err(|error| self.unreachable_error(&error))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
            let body = body.map_err(|error| self.unreachable_error(error.as_ref()))?.to_bytes();
            return Err(self.error_from_response(&head, &body));
        }
        let body = body.map_err(|error| root_cause(&error)).boxed_unsync();
        Ok(EventStream::new(self.server.clone(), body))
    }

    fn build_request(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&str, Bytes)>,
    ) -> Result<Request<Full<Bytes>>, PlatformError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{API_ROOT}/{path}", self.server))
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("longshore/", env!("CARGO_PKG_VERSION")));
        for (name, value) in self.credentials.headers()? {
            request = request.header(name, value);
        }
        if let Some((kind, _)) = &body {
            request = request.header(CONTENT_TYPE, *kind);
        }
        let bytes = body.map(|(_, bytes)| bytes).unwrap_or_default();
        request
            .body(Full::new(bytes))
            .map_err(|error| PlatformError::Usage(format!("invalid request: {error}")))
    }

    fn unreachable_error(&self, error: &dyn Error) -> PlatformError {
        PlatformError::Unreachable { server: self.server.clone(), why: root_cause(error) }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<ApiResponse, PlatformError> {
        let response = self.http.request(request).await.map_err(|error| self.unreachable_error(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| self.unreachable_error(error.as_ref()))?.to_bytes();
        if !head.status.is_success() {
            return Err(self.error_from_response(&head, &body));
        }
        let strange = |why: String| PlatformError::UnexpectedResponse { server: self.server.clone(), why };
        let body = if body.is_empty() { Value::Null } else { parse_body(&body).map_err(strange)? };
        Ok(ApiResponse { body, headers: head.headers })
    }

    /// Converts an error response.
    fn error_from_response(&self, head: &Parts, body: &[u8]) -> PlatformError {
        if head.status.is_redirection() {
            let why = format!("HTTP status {}", head.status);
            return PlatformError::UnexpectedResponse { server: self.server.clone(), why };
        }
        let id = head.headers.get("x-request-id").and_then(|id| id.to_str().ok());
        self.error_from_problem(Problem::from_response(head.status, body, id))
    }

    fn error_from_problem(&self, problem: Problem) -> PlatformError {
        match &self.credentials {
            Credentials::Token(_) if problem.is_token_rejection() => {
                PlatformError::TokenRejected { server: self.server.clone(), problem }
            }
            _ => PlatformError::Api(problem),
        }
    }
}

impl Credentials {
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, PlatformError> {
        // The error does not contain the text.
        let secret = |text: String| match HeaderValue::from_str(&text) {
            Ok(mut value) => {
                value.set_sensitive(true);
                Ok(value)
            }
            Err(_) => {
                Err(PlatformError::Usage("the token contains characters that are not printable".to_owned()))
            }
        };
        Ok(match self {
            Self::Anonymous => Vec::new(),
            Self::Token(token) => vec![(AUTHORIZATION, secret(format!("Bearer {}", token.expose()))?)],
            Self::Session { cookie, csrf } => vec![
                (http::header::COOKIE, secret(cookie.expose().to_owned())?),
                (HeaderName::from_static("x-csrf-token"), secret(csrf.expose().to_owned())?),
            ],
        })
    }
}

fn parse_body(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|_| "the response is not JSON".to_owned())
}

/// Trusts only the given CA, or the system's CAs without one.
fn tls_config(access: &PlatformAccess) -> Result<ClientConfig, PlatformError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default protocol versions");
    let config = match &access.ca {
        Some(file) => config.with_root_certificates(read_ca_file(file)?),
        None if access.server.is_secure() => {
            config.with_native_roots().map_err(PlatformError::SystemCertificates)?
        }
        None => config.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

fn read_ca_file(file: &Path) -> Result<RootCertStore, PlatformError> {
    let unusable = |why: String| PlatformError::CaFile { file: file.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(root_cause(&error)))? {
        let certificate = certificate.map_err(|error| unusable(root_cause(&error)))?;
        roots.add(certificate).map_err(|error| unusable(root_cause(&error)))?;
    }
    if roots.is_empty() { Err(unusable("it has no certificates".to_owned())) } else { Ok(roots) }
}

/// Message of the last source in the chain. The outer ones say only that an error occurred.
fn root_cause(error: &dyn Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    super::output::escape_control(&last.to_string())
}

/// Encodes one path segment, so that an argument cannot change the path.
pub fn encode_segment(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            out.push(char::from(byte));
        } else if byte == b'.' && text.bytes().any(|byte| byte != b'.') {
            out.push('.');
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encode_segment_keeps_input_in_one_segment() {
        let rows = [
            ("acme-7", "acme-7"),
            ("ana@example.com", "ana%40example.com"),
            ("..", "%2E%2E"),
            ("../users", "..%2Fusers"),
            ("a?b#c%d e", "a%3Fb%23c%25d%20e"),
            ("é", "%C3%A9"),
        ];
        for (text, expected) in rows {
            assert_eq!(encode_segment(text), expected);
        }
    }
}
