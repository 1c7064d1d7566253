//! The request handler: from request head to response.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use governor::PriorityLevel;
use governor::bytes::ByteReservation;
use governor::work::{Interrupt, WorkError};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::Body as _;
use parking_lot::Mutex;

use super::audit::RequestAudit;
use super::body::{self, RequestBody};
use super::flow::FlowAssignment;
use super::list::EstimatedBytes;
use super::negotiate::{self, Format, OfferedTypes};
use super::outgoing::{self, Outbox, ResponseReservation};
use super::query::Query;
use super::respond::{self, Body, OpenStream};
use super::revalidate::Revalidation;
use super::routes;
use super::target::{self, ResourcePath};
use crate::access::authn::{FixedIdentity, PeerCertificate};
use crate::access::node::node_in_field_selector;
use crate::access::rbac::name_in_field_selector;
use crate::access::{Attributes, User};
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::metrics::RequestLabels;
use crate::rules;
use crate::schema::resources::Resource;
use crate::verbs::{self, ResourceRequest, ResourceResponse};

pub use super::body::BODY_LIMIT;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const NODES: &str = "system:nodes";

/// The Kubernetes API as a `tower` service, over TLS or in process for a named identity.
#[derive(Clone)]
pub struct ApiService {
    cluster: Cluster,
    identity: Option<Arc<User>>,
    peer: Option<PeerCertificate>,
    address: Option<IpAddr>,
}

impl ApiService {
    /// Callers authenticate by client certificate or token.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, identity: None, peer: None, address: None }
    }

    /// Every request is authenticated as `user` and may still impersonate others.
    pub fn with_identity(cluster: Cluster, user: User) -> Self {
        Self { cluster, identity: Some(Arc::new(user)), peer: None, address: None }
    }

    /// Sets the address and client certificate of the connection.
    pub(crate) fn with_peer(mut self, address: IpAddr, peer: Option<PeerCertificate>) -> Self {
        self.address = Some(address);
        self.peer = peer;
        self
    }

    async fn respond<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        // Requests from the network cannot set these extensions.
        parts.extensions.remove::<FixedIdentity>();
        if let Some(user) = &self.identity {
            parts.extensions.insert(FixedIdentity(User::clone(user)));
        }
        if let Some(peer) = &self.peer {
            parts.extensions.insert(peer.clone());
        }
        let cluster = self.cluster;
        let started = Instant::now();
        let mut trail = RequestAudit::begin(cluster.auditor(), &parts, self.address);
        let mut body = std::pin::pin!(body);
        let work = handle(&cluster, &parts, self.address, body.as_mut(), &mut trail);
        let work = AssertUnwindSafe(work).catch_unwind();
        let format = negotiate::error_format(header(&parts.headers, &ACCEPT));
        let mut response = match work.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => respond::error_response(&error, format),
            Err(_) => respond::error_response(&panic_error(&cluster, &parts), format),
        };
        // On HTTP/1 an unread body closes the connection, possibly while the client already sends the next request.
        if self.identity.is_none() && response.status().is_client_error() {
            body::discard(body, response.status()).await;
        }
        trail.end(&mut response);
        record_metrics(&cluster, &parts, response.status().as_u16(), started.elapsed());
        response
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

fn panic_error(cluster: &Cluster, parts: &Parts) -> ApiError {
    tracing::error!(method = %parts.method, path = parts.uri.path(), "a request panicked");
    cluster.metrics().record_panic("request");
    ApiError::internal("This request caused apiserver to panic. Look in the logs for details.")
}

fn record_metrics(cluster: &Cluster, parts: &Parts, code: u16, took: Duration) {
    let (method, path) = (&parts.method, parts.uri.path());
    let found = target::parse_resource_path(path);
    let watch = parts.uri.query().is_some_and(|query| query.contains("watch="));
    cluster.metrics().record_request(
        RequestLabels::from_request(&cluster.registry(), method, found.as_ref(), watch),
        code,
        took,
    );
    if code >= 500 {
        tracing::warn!(http.method = %method, http.path = path, http.status = code, ?took, "kubernetes");
    } else {
        tracing::debug!(http.method = %method, http.path = path, http.status = code, ?took, "kubernetes");
    }
}

fn rejection_error(rejected: governor::AdmissionError) -> ApiError {
    ApiError::rejected(&rejected)
}

/// Health checks acquire no seat: an overloaded server is still healthy.
fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|prefix| path.starts_with(prefix))
}

async fn handle<B>(
    cluster: &Cluster,
    parts: &Parts,
    address: Option<IpAddr>,
    body: B,
    audit: &mut RequestAudit<'_>,
) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let resource_path = target::parse_resource_path(path).filter(|found| !found.resource.is_empty());
    let attributes = match &resource_path {
        Some(found) => attributes(target::verb(&parts.method, found, query.watch), found, &query),
        None => Attributes {
            verb: parts.method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            ..Attributes::default()
        },
    };
    if let Some(found) = &resource_path {
        check_length(found)?;
    }
    let caller = cluster.authenticator().authenticate(parts)?;
    let is_impersonated = parts.headers.contains_key(IMPERSONATE_USER);
    let is_own = parts.extensions.get::<FixedIdentity>().is_some() && !is_impersonated;
    if is_own {
        audit.disable();
    }
    if audit.is_recording() {
        audit.user = Some(caller.name.clone());
        audit.is_node = caller.in_group(NODES);
    }
    let user = cluster.impersonation().resolve(cluster.authorizer(), caller, &parts.headers, &attributes)?;
    if is_impersonated && audit.is_recording() {
        audit.impersonator = audit.user.replace(user.name.clone());
    }
    let flows = cluster.service_account_flows();
    let payer =
        FlowAssignment::for_request(cluster.governor(), flows, cluster.store(), &user, is_own, address);
    let is_repeatable = is_repeatable(&attributes);
    let mut held = Vec::new();
    let request = AdmittedRequest {
        cluster,
        parts,
        flow_assignment: payer,
        is_platform: is_own,
        user,
        attributes,
        query,
        resource_path,
    };
    let (response, is_stream) = match request.respond(body, &mut held).await {
        Ok(answered) => answered,
        Err(error) => {
            (respond::error_response(&error, negotiate::error_format(header(&parts.headers, &ACCEPT))), false)
        }
    };
    if is_stream {
        return Ok(response);
    }
    // A response in memory is charged in full, a streamed list in part.
    let estimated = response.extensions().get::<EstimatedBytes>().map(|EstimatedBytes(bytes)| *bytes);
    let exact = response.body().size_hint().exact();
    let size = exact
        .unwrap_or_else(|| estimated.unwrap_or(STREAMED_LIST_RESERVATION).min(STREAMED_LIST_RESERVATION));
    // The platform reads its responses promptly and is charged less.
    let size =
        if payer.level == PriorityLevel::Platform { size.min(STREAMED_LIST_RESERVATION / 4) } else { size };
    // Most of a write's response was reserved before the write.
    let missing = size
        .saturating_add(outgoing::RESPONSE_OVERHEAD)
        .saturating_sub(held.iter().map(ByteReservation::held).sum());
    if missing > 0 {
        match cluster.governor().reserve(payer.level, payer.flow, missing) {
            Ok(reserved) => held.push(reserved),
            Err(error) if is_repeatable => return Err(rejection_error(error)),
            // The write is stored: after a 429 the client would send it again.
            Err(_) => {}
        }
    }
    let outbox = parts.extensions.get::<Arc<Outbox>>();
    Ok(outgoing::with_reservation(response, ResponseReservation::new(held, outbox)))
}

/// Whether a call can be sent again after it was executed: a read, a review, or the deletion of a collection.
fn is_repeatable(asked: &Attributes) -> bool {
    matches!(asked.verb.as_str(), "get" | "list" | "watch" | "deletecollection")
        || matches!(asked.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
        || !asked.path.is_empty()
}

/// An authenticated request with its budgets.
struct AdmittedRequest<'a> {
    cluster: &'a Cluster,
    parts: &'a Parts,
    flow_assignment: FlowAssignment,
    is_platform: bool,
    user: User,
    attributes: Attributes,
    query: Query,
    resource_path: Option<ResourcePath>,
}

impl AdmittedRequest<'_> {
    /// Returns the response, and whether it is an unbounded stream. Adds reservations that last until the response is sent to `held`.
    async fn respond<B>(self, body: B, held: &mut Vec<ByteReservation>) -> Result<(Response<Body>, bool)>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self {
            cluster,
            parts,
            flow_assignment: payer,
            is_platform: is_own,
            user,
            attributes: asked,
            query,
            resource_path,
        } = self;
        let path = parts.uri.path();
        let seat =
            async || cluster.governor().acquire_seat(payer.level, payer.flow).await.map_err(rejection_error);
        cluster.authorizer().check(&user, &asked)?;
        let Some(found) = resource_path else {
            let _seat = if is_health(path) { None } else { Some(seat().await?) };
            return Ok((routes::handle(cluster, parts, &query)?, false));
        };
        let verb = target::verb(&parts.method, &found, query.watch);
        let Some(resource) = routes::find_resource(cluster, &found)? else {
            return Ok((routes::not_found(), false));
        };
        if let Err(error) = check_path(&resource, &found) {
            // Invalid paths of custom resources are outside the API, like paths of an unknown group.
            return if resource.is_custom() { Ok((routes::not_found(), false)) } else { Err(error) };
        }
        if verb.is_empty() || !is_verb_supported(&resource, &found, verb) {
            return Err(ApiError::method_not_allowed());
        }
        check_name(&found.name)?;
        let offer = if matches!(verb, "list" | "watch") { OfferedTypes::List } else { OfferedTypes::Object };
        let representation =
            negotiate::negotiate(header(&parts.headers, &ACCEPT), offer, negotiate::object_views)?;
        if verb == "watch" && representation.format == Format::Yaml {
            return Err(ApiError::not_acceptable(negotiate::STREAM_TYPES));
        }
        // Long-running requests are counted while they are open, and occupy a seat only while they are being opened.
        let is_stream = verb == "watch" || (found.subresource == "log" && query.get("follow").is_some());
        let open = if is_stream {
            let counted = cluster.governor().open_stream(payer.level, payer.flow).map_err(rejection_error)?;
            let reserved = cluster
                .governor()
                .reserve(payer.level, payer.flow, verbs::WATCH_BYTES)
                .map_err(rejection_error)?;
            let revalidation = (!is_own).then(|| Revalidation {
                cluster: cluster.clone(),
                parts: parts.clone(),
                user: user.clone(),
                attributes: asked,
            });
            Some(OpenStream { stream: counted, reserved, revalidation })
        } else {
            None
        };
        // The body is read before the seat is acquired: a slow client blocks no other request. Bodies of reads are ignored.
        let body = if matches!(verb, "get" | "list" | "watch") {
            RequestBody::default()
        } else {
            body::read(body, cluster.governor(), payer.level, payer.flow).await?
        };
        let _seat = seat().await?;
        let call = ResourceRequest {
            cluster: cluster.clone(),
            verb,
            resource,
            subresource: found.subresource,
            via_subresource: "",
            namespace: found.namespace,
            name: found.name,
            user,
            level: payer.level,
            query,
            representation,
            user_agent: header(&parts.headers, &USER_AGENT).unwrap_or_default().to_owned(),
            content_type: header(&parts.headers, &CONTENT_TYPE).map(str::to_owned),
            body: body.bytes.clone(),
            warnings: Mutex::default(),
            flow: Some(cluster.pool().flow(payer.flow)),
            interrupt: None,
            error_format: negotiate::error_format(header(&parts.headers, &ACCEPT)),
        };
        let resource = &call.resource;
        let own = resource.custom.as_ref().and_then(|custom| custom.deprecation());
        if let Some(warning) = own.or_else(|| rules::deprecation(&resource.group, &resource.kind)) {
            call.warn(warning);
        }
        if !matches!(verb, "get" | "list" | "watch") {
            held.extend(body.reserved);
            let bytes = call.stored_size() as u64 + outgoing::RESPONSE_OVERHEAD;
            held.push(cluster.governor().reserve(payer.level, payer.flow, bytes).map_err(rejection_error)?);
        }
        let weight = call.weight();
        if is_stream || call.is_inline(weight) {
            return Ok((execute(call, open, payer).await?, is_stream));
        }
        let runtime = tokio::runtime::Handle::current();
        let flow = cluster.pool().flow(payer.flow);
        let bytes = (weight as u64).saturating_mul(verbs::MEMORY_EXPANSION);
        let work = move |ticket: &governor::work::WorkContext| {
            let interrupt: Option<Interrupt> = Some(ticket.interrupt());
            runtime.block_on(execute(ResourceRequest { interrupt, ..call }, open, payer))
        };
        match cluster.pool().run(flow, bytes, verbs::REQUEST_TIMEOUT, work).await {
            Ok(response) => Ok((response?, false)),
            Err(WorkError::Panicked) => Err(panic_error(cluster, parts)),
            Err(error) => Err(ApiError::from_work(&error)),
        }
    }
}

/// Reserved for a response of unknown size, such as a streamed list.
const STREAMED_LIST_RESERVATION: u64 = 4 << 20;

/// Executes a call and encodes its response.
async fn execute(
    call: ResourceRequest,
    open: Option<OpenStream>,
    payer: FlowAssignment,
) -> Result<Response<Body>> {
    let mut answer = verbs::handle(&call).await;
    if let Ok(ResourceResponse::Watch(stream)) = &mut answer {
        stream.charge(payer.level, payer.flow).map_err(rejection_error)?;
    }
    let dressed = answer.and_then(|answer| {
        call.check_interrupt()?;
        respond::encode_answer(&call, answer, open)
    });
    let mut response = match dressed {
        Ok(response) => response,
        Err(error) => respond::error_response(&error, call.error_format),
    };
    respond::add_warnings(&mut response, &call.warnings.lock());
    Ok(response)
}

/// Refuses invalid paths for every method: namespaced objects without a namespace, cluster-scoped ones with one, unknown subresources, and
/// paths below a subresource other than a proxy.
fn check_path(resource: &Resource, found: &ResourcePath) -> Result<()> {
    let misplaced = if found.namespace.is_empty() {
        resource.namespaced && !found.name.is_empty()
    } else {
        !resource.namespaced
    };
    let unknown = !found.subresource.is_empty()
        && !resource.is_custom()
        && resource.subresource(&found.subresource).is_none();
    let beyond = !found.subpath.is_empty() && found.subresource != "proxy";
    if misplaced || unknown || beyond { Err(ApiError::no_such_resource()) } else { Ok(()) }
}

/// Maximum length of a name in a path. Most kinds have a lower limit.
const MAX_NAME_LEN: usize = 1024;

/// Returns 404 for names that no object can have, before authorization caches them. Kubernetes returns 404, too.
fn check_length(found: &ResourcePath) -> Result<()> {
    let ResourcePath { group, version, namespace, resource, name, subresource, .. } = found;
    let longest = [group, version, namespace, resource, name, subresource].into_iter().map(String::len).max();
    if longest.is_some_and(|longest| longest > MAX_NAME_LEN) {
        return Err(ApiError::no_such_resource());
    }
    Ok(())
}

/// Refuses names that would change the path.
fn check_name(name: &str) -> Result<()> {
    match name {
        "." | ".." => {
            Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")))
        }
        _ if name.contains('%') => {
            Err(ApiError::bad_request(format!("Name parameter invalid: {name:?}: may not contain '%'")))
        }
        _ => Ok(()),
    }
}

/// Whether the verb suits the path: POST for collections and subresources, PUT and PATCH for objects; across all namespaces only reads.
fn is_verb_supported(resource: &Resource, found: &ResourcePath, verb: &str) -> bool {
    match verb {
        _ if resource.namespaced && found.namespace.is_empty() => matches!(verb, "list" | "watch"),
        "create" => found.name.is_empty() || !found.subresource.is_empty(),
        "update" | "patch" => !found.name.is_empty(),
        _ => true,
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the attributes for authorization.
fn attributes(verb: &str, found: &ResourcePath, query: &Query) -> Attributes {
    let mut name = found.name.clone();
    if name.is_empty() && matches!(verb, "list" | "watch" | "deletecollection") {
        // A rule with `resourceNames` allows lists and watches of that name.
        name_in_field_selector(&query.field_selector).unwrap_or_default().clone_into(&mut name);
    }
    let of_pods = found.resource == "pods" && found.group.is_empty() && matches!(verb, "list" | "watch");
    let on_node =
        if of_pods { node_in_field_selector(&query.field_selector).unwrap_or_default() } else { "" };
    // For Namespace objects the request's namespace is the object's own name, as in Kubernetes.
    let own = found.resource == "namespaces" && found.group.is_empty();
    Attributes {
        verb: verb.to_owned(),
        group: found.group.clone(),
        version: found.version.clone(),
        resource: found.resource.clone(),
        subresource: found.subresource.clone(),
        namespace: if own { found.name.clone() } else { found.namespace.clone() },
        name,
        node_name: on_node.to_owned(),
        path: String::new(),
    }
}

#[cfg(test)]
mod tests;
