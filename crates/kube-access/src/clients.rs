//! Clients of one cluster: for the platform's own identity and for impersonated users.
//!
//! Invariants: a request carries exactly the `Impersonate-*` headers of its client; any others are removed. When one client wraps
//! another, at most one of them impersonates, and its identity applies.
//!
//! See also: `domain::actor` decides the impersonated identity; the platform's own RBAC role limits the identities that it can impersonate.

use std::sync::Arc;
use std::time::Duration;

use domain::actor::Impersonation;
use http::Request;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use kube::client::Body;
use tower::service_fn;

use crate::errors::ImpersonationError;
use crate::timeout;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const IMPERSONATE_PREFIX: &str = "impersonate-";

/// The kubeconfig itself impersonates (`as`).
#[derive(Debug, thiserror::Error)]
#[error(
    "it impersonates a user (`as`), whose groups would be added to every impersonated request: remove `as`"
)]
pub struct KubeconfigImpersonates;

/// Refuses a kubeconfig that impersonates: `kube` would add its headers to the headers of every impersonated request.
pub fn reject_impersonation(config: &kube::Config) -> Result<(), KubeconfigImpersonates> {
    let auth = &config.auth_info;
    let named = auth.impersonate.is_some() || auth.impersonate_uid.is_some();
    let more = auth.impersonate_groups.is_some() || auth.impersonate_user_extra.is_some();
    if named || more { Err(KubeconfigImpersonates) } else { Ok(()) }
}

/// Clients of one cluster, which share one connection.
#[derive(Clone)]
pub struct Clients {
    base: kube::Client,
    platform: kube::Client,
    timeout: Duration,
}

impl Clients {
    /// Clients over `own`, which authenticates as the platform.
    pub fn new(own: kube::Client) -> Self {
        Self::with_timeout(own, timeout::REQUEST_TIMEOUT)
    }

    /// As [`Clients::new`], with another request timeout.
    pub fn with_timeout(own: kube::Client, limit: Duration) -> Self {
        Self {
            platform: impersonating_client(own.clone(), Ok(HeaderMap::new()), limit),
            base: own,
            timeout: limit,
        }
    }

    /// The client for the platform's own requests.
    pub fn platform(&self) -> kube::Client {
        self.platform.clone()
    }

    /// The client for requests on behalf of `who`. Kubernetes authorises them.
    pub fn impersonating(&self, who: &Impersonation) -> kube::Client {
        impersonating_client(self.base.clone(), impersonation_headers(who), self.timeout)
    }
}

fn impersonation_headers(who: &Impersonation) -> Result<HeaderMap, ImpersonationError> {
    let value = |name: &str| {
        HeaderValue::from_str(name)
            .map_err(|_| ImpersonationError::InvalidName { user: who.user().to_owned() })
    };
    let mut headers = HeaderMap::new();
    headers.insert(IMPERSONATE_USER, value(who.user())?);
    for group in who.groups() {
        headers.append(IMPERSONATE_GROUP, value(group)?);
    }
    Ok(headers)
}

fn impersonating_client(
    line: kube::Client,
    headers: Result<HeaderMap, ImpersonationError>,
    limit: Duration,
) -> kube::Client {
    let namespace = line.default_namespace().to_owned();
    let headers = Arc::new(headers);
    let call = move |mut request: Request<Body>| {
        let (line, headers) = (line.clone(), headers.clone());
        async move {
            let dressed = headers.as_ref().as_ref().map_err(ImpersonationError::clone);
            let dressed = dressed.and_then(|headers| set_impersonation_headers(&mut request, headers));
            dressed.map_err(|unsent| kube::Error::Service(Box::new(unsent)))?;
            timeout::send(&line, request, limit).await
        }
    };
    kube::Client::new(service_fn(call), namespace)
}

/// Request extension: the headers were set by one of these clients. The type is private, so no other code can add it.
#[derive(Clone)]
struct Impersonated;

/// Sets the impersonation headers of a request to exactly the headers of one client.
fn set_impersonation_headers(
    request: &mut Request<Body>,
    headers: &HeaderMap,
) -> Result<(), ImpersonationError> {
    let ours = request.extensions_mut().insert(Impersonated).is_some();
    let request_headers = request.headers_mut();
    let others: Vec<HeaderName> = request_headers
        .keys()
        .filter(|name| name.as_str().starts_with(IMPERSONATE_PREFIX))
        .cloned()
        .collect();
    if ours && !others.is_empty() {
        let Some(user) = headers.get(IMPERSONATE_USER) else { return Ok(()) };
        return Err(ImpersonationError::AlreadyImpersonated {
            user: String::from_utf8_lossy(user.as_bytes()).into_owned(),
        });
    }
    for name in others {
        request_headers.remove(name);
    }
    for (name, value) in headers {
        request_headers.append(name, value.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
