//! Clients of one cluster: for the platform's own identity and for impersonated users.
//!
//! Invariants: a request carries exactly the `Impersonate-*` headers of its client; any others are removed. When one client wraps
//! another, at most one of them impersonates, and its identity applies.
//!
//! See also: `domain::actor` decides the impersonated identity; the platform's own RBAC role limits who may be impersonated.

use std::sync::Arc;
use std::time::Duration;

use domain::actor::Impersonation;
use http::Request;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use kube::client::Body;
use tower::service_fn;

use crate::patience;
use crate::verb::InvalidCall;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const ALL: &str = "impersonate-";

/// Why a request was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unsent {
    #[error("`{user}` or one of its groups is no name that a request can carry")]
    NoName { user: String },
    #[error("a client that acts as `{user}` was asked to act as somebody else besides")]
    TwoNames { user: String },
    #[error(transparent)]
    Invalid(InvalidCall),
}

/// The kubeconfig itself impersonates (`as`).
#[derive(Debug, thiserror::Error)]
#[error("it acts as somebody else (`as`), whose groups everybody would have that the platform acts as")]
pub struct ActsAs;

/// Refuses a kubeconfig that impersonates: `kube` would add its headers to those of every impersonated request.
pub fn check(config: &kube::Config) -> Result<(), ActsAs> {
    let auth = &config.auth_info;
    let named = auth.impersonate.is_some() || auth.impersonate_uid.is_some();
    let more = auth.impersonate_groups.is_some() || auth.impersonate_user_extra.is_some();
    if named || more { Err(ActsAs) } else { Ok(()) }
}

/// Clients of one cluster, which share one connection.
#[derive(Clone)]
pub struct Clients {
    line: kube::Client,
    own: kube::Client,
    limit: Duration,
}

impl Clients {
    /// Clients over `own`, which authenticates as the platform.
    pub fn new(own: kube::Client) -> Self {
        Self::with_limit(own, patience::LIMIT)
    }

    /// As [`Clients::new`], with another request timeout.
    pub fn with_limit(own: kube::Client, limit: Duration) -> Self {
        Self { own: client(own.clone(), Ok(HeaderMap::new()), limit), line: own, limit }
    }

    /// The client for the platform's own requests.
    pub fn own(&self) -> kube::Client {
        self.own.clone()
    }

    /// The client for requests on behalf of `who`. Kubernetes authorises them.
    pub fn acting_as(&self, who: &Impersonation) -> kube::Client {
        client(self.line.clone(), headers(who), self.limit)
    }
}

fn headers(who: &Impersonation) -> Result<HeaderMap, Unsent> {
    let value =
        |name: &str| HeaderValue::from_str(name).map_err(|_| Unsent::NoName { user: who.user().to_owned() });
    let mut headers = HeaderMap::new();
    headers.insert(USER, value(who.user())?);
    for group in who.groups() {
        headers.append(GROUP, value(group)?);
    }
    Ok(headers)
}

fn client(line: kube::Client, headers: Result<HeaderMap, Unsent>, limit: Duration) -> kube::Client {
    let namespace = line.default_namespace().to_owned();
    let headers = Arc::new(headers);
    let call = move |mut request: Request<Body>| {
        let (line, headers) = (line.clone(), headers.clone());
        async move {
            let dressed = headers.as_ref().as_ref().map_err(Unsent::clone);
            let dressed = dressed.and_then(|headers| dress(&mut request, headers));
            dressed.map_err(|unsent| kube::Error::Service(Box::new(unsent)))?;
            patience::send(&line, request, limit).await
        }
    };
    kube::Client::new(service_fn(call), namespace)
}

/// Request extension: the headers were set by one of these clients. The type is private, so no other code can add it.
#[derive(Clone)]
struct Dressed;

/// Sets the impersonation headers of a request to exactly those of one client.
fn dress(request: &mut Request<Body>, headers: &HeaderMap) -> Result<(), Unsent> {
    let ours = request.extensions_mut().insert(Dressed).is_some();
    let worn = request.headers_mut();
    let others: Vec<HeaderName> =
        worn.keys().filter(|name| name.as_str().starts_with(ALL)).cloned().collect();
    if ours && !others.is_empty() {
        let Some(user) = headers.get(USER) else { return Ok(()) };
        return Err(Unsent::TwoNames { user: String::from_utf8_lossy(user.as_bytes()).into_owned() });
    }
    for name in others {
        worn.remove(name);
    }
    for (name, value) in headers {
        worn.append(name, value.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
