//! Clients of one cluster: for the platform itself, and for whomever it acts as.
//!
//! Always true: a request carries exactly the `Impersonate-*` headers of the client that it is sent by. One that was
//! put on it elsewhere, by accident or by somebody's wish, is taken off.
//! Elsewhere: as whom an actor acts (`domain::actor`), who may be impersonated at all (the platform's own role).

use std::sync::Arc;
use std::time::Duration;

use domain::actor::Impersonation;
use http::Request;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use kube::client::Body;
use tower::service_fn;

use crate::patience;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const ALL: &str = "impersonate-";

/// Nobody can be called that: nothing is sent.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{user}` or one of its groups is no name that a request can carry")]
pub(crate) struct NoName {
    user: String,
}

/// Makes clients of one cluster. All share one line to it.
#[derive(Clone)]
pub struct Clients {
    line: kube::Client,
    own: kube::Client,
    limit: Duration,
}

impl Clients {
    /// `own` says who the platform is.
    pub fn new(own: kube::Client) -> Self {
        Self::with_limit(own, patience::LIMIT)
    }

    /// As [`Clients::new`], with another limit of patience.
    pub fn with_limit(own: kube::Client, limit: Duration) -> Self {
        Self { own: client(own.clone(), Ok(HeaderMap::new()), limit), line: own, limit }
    }

    /// For what the platform does as itself.
    pub fn own(&self) -> kube::Client {
        self.own.clone()
    }

    /// For what somebody does through the platform: Kubernetes decides whether they may.
    pub fn acting_as(&self, who: &Impersonation) -> kube::Client {
        client(self.line.clone(), headers(who), self.limit)
    }
}

fn headers(who: &Impersonation) -> Result<HeaderMap, NoName> {
    let value = |name: &str| HeaderValue::from_str(name).map_err(|_| NoName { user: who.user().to_owned() });
    let mut headers = HeaderMap::new();
    headers.insert(USER, value(who.user())?);
    for group in who.groups() {
        headers.append(GROUP, value(group)?);
    }
    Ok(headers)
}

fn client(line: kube::Client, headers: Result<HeaderMap, NoName>, limit: Duration) -> kube::Client {
    let namespace = line.default_namespace().to_owned();
    let headers = Arc::new(headers);
    let call = move |mut request: Request<Body>| {
        let (line, headers) = (line.clone(), headers.clone());
        async move {
            match headers.as_ref() {
                Ok(headers) => dress(request.headers_mut(), headers),
                Err(refused) => return Err(kube::Error::Service(Box::new(refused.clone()))),
            }
            patience::send(&line, request, limit).await
        }
    };
    kube::Client::new(service_fn(call), namespace)
}

/// Leaves on a request the headers of one client, and nothing of the kind besides.
fn dress(worn: &mut HeaderMap, headers: &HeaderMap) {
    let foreign: Vec<HeaderName> =
        worn.keys().filter(|name| name.as_str().starts_with(ALL)).cloned().collect();
    for name in foreign {
        worn.remove(name);
    }
    for (name, value) in headers {
        worn.append(name, value.clone());
    }
}

#[cfg(test)]
mod tests;
