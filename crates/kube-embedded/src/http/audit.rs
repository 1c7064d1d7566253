//! Audit events of the Kubernetes API: writes and refusals, passed to a sink before the response is sent.
//!
//! Not recorded: successful reads; requests of the platform in its own name, because the request that causes them is recorded; successful
//! reviews and dry runs, which change nothing; node heartbeats (Leases, Events, status). An event contains names, never object content.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use parking_lot::Mutex;

use super::respond::Body;
use super::target::{self, ResourcePath};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Limit of recorded refusals without valid credentials per second: unauthenticated clients must not fill the disk.
const MAX_UNAUTHENTICATED: u32 = 20;
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// One write or refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Also sent as the response header `Audit-Id`.
    pub id: String,
    /// The effective user; `None` without valid credentials.
    pub user: Option<String>,
    /// The authenticated user who impersonated `user`.
    pub impersonator: Option<String>,
    pub verb: &'static str,
    /// `deployments.apps/<namespace>/<name>/<subresource>`.
    pub object: Option<String>,
    pub source: Option<IpAddr>,
    /// `None` if the client disconnected before there was a response.
    pub status: Option<u16>,
}

/// Receives audit events. Called before the response is sent; must not block.
pub trait AuditSink: Send + Sync + 'static {
    fn write(&self, event: &AuditEvent);
}

/// The audit trail of one cluster.
pub struct Auditor {
    sink: Arc<dyn AuditSink>,
    unauthenticated: Mutex<RateWindow>,
}

struct RateWindow {
    started: Instant,
    count: u32,
    suppressed: u64,
}

impl Auditor {
    pub fn new(sink: Arc<dyn AuditSink>) -> Self {
        let window = RateWindow { started: Instant::now(), count: 0, suppressed: 0 };
        Self { sink, unauthenticated: Mutex::new(window) }
    }

    fn write(&self, event: &AuditEvent) {
        if event.user.is_some() || self.admits_unauthenticated() {
            self.sink.write(event);
        }
    }

    fn admits_unauthenticated(&self) -> bool {
        let mut window = self.unauthenticated.lock();
        if window.started.elapsed() >= RATE_WINDOW {
            let suppressed = window.suppressed;
            *window = RateWindow { started: Instant::now(), count: 0, suppressed: 0 };
            if suppressed > 0 {
                tracing::warn!(suppressed, "audit events of unauthenticated callers were not recorded");
            }
        }
        window.count += 1;
        if window.count > MAX_UNAUTHENTICATED {
            window.suppressed += 1;
            return false;
        }
        true
    }
}

/// Audit state of one request. If dropped before [`Self::end`], a write is recorded as abandoned.
pub(super) struct RequestAudit<'a> {
    auditor: Option<&'a Auditor>,
    parts: &'a Parts,
    source: Option<IpAddr>,
    pub user: Option<String>,
    pub impersonator: Option<String>,
    /// Whether the user is a node.
    pub is_node: bool,
}

impl<'a> RequestAudit<'a> {
    pub fn begin(auditor: Option<&'a Auditor>, parts: &'a Parts, source: Option<IpAddr>) -> Self {
        Self { auditor, parts, source, user: None, impersonator: None, is_node: false }
    }

    /// Whether the request is recorded; if not, its user need not be stored here.
    pub fn is_recording(&self) -> bool {
        self.auditor.is_some()
    }

    /// Disables recording of this request.
    pub fn disable(&mut self) {
        self.auditor = None;
    }

    /// Records the request if required, before the response is sent.
    pub fn end(mut self, response: &mut Response<Body>) {
        let Some(auditor) = self.auditor.take() else { return };
        let status = response.status().as_u16();
        let is_write = !self.parts.method.is_safe();
        if !is_write && !matches!(status, 401 | 403 | 429) {
            return;
        }
        let path =
            target::parse_resource_path(self.parts.uri.path()).filter(|path| !path.resource.is_empty());
        if status < 400 && path.as_ref().is_some_and(|path| self.is_read_only(path)) {
            return;
        }
        let event = self.event(path.as_ref(), Some(status));
        if let Ok(id) = HeaderValue::from_str(&event.id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        auditor.write(&event);
    }

    fn is_read_only(&self, path: &ResourcePath) -> bool {
        let is_review = matches!(path.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
        let is_dry_run = self.parts.uri.query().is_some_and(|query| query.contains("dryRun="));
        let is_heartbeat = self.is_node
            && (matches!(path.resource.as_str(), "leases" | "events") || path.subresource == "status");
        is_review || is_dry_run || is_heartbeat
    }

    fn event(&mut self, path: Option<&ResourcePath>, status: Option<u16>) -> AuditEvent {
        let is_watch = self.parts.uri.query().is_some_and(|query| query.contains("watch="));
        let verb = path.map_or("", |path| target::verb(&self.parts.method, path, is_watch));
        AuditEvent {
            id: uuid::Uuid::new_v4().to_string(),
            user: self.user.take(),
            impersonator: self.impersonator.take(),
            verb: if verb.is_empty() { "other" } else { verb },
            object: path.and_then(object_name),
            source: self.source,
            status,
        }
    }
}

impl Drop for RequestAudit<'_> {
    fn drop(&mut self) {
        if let Some(auditor) = self.auditor.take().filter(|_| !self.parts.method.is_safe()) {
            let path =
                target::parse_resource_path(self.parts.uri.path()).filter(|path| !path.resource.is_empty());
            let event = self.event(path.as_ref(), None);
            auditor.write(&event);
        }
    }
}

/// Returns the object's names; `None` if one is not a valid name, because a path can contain arbitrary text.
fn object_name(path: &ResourcePath) -> Option<String> {
    let is_name = |text: &str| {
        text.len() <= 253
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'_'))
    };
    let resource = crate::error::qualified(&path.resource, &path.group);
    let parts = [resource.as_str(), &path.namespace, &path.name, &path.subresource];
    let given: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    given.iter().all(|part| is_name(part)).then(|| given.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::User;
    use crate::cluster::{Cluster, Config};
    use http::Request;
    use tower::ServiceExt;

    #[derive(Default)]
    struct RecordingSink(Mutex<Vec<AuditEvent>>);

    impl AuditSink for RecordingSink {
        fn write(&self, event: &AuditEvent) {
            self.0.lock().push(event.clone());
        }
    }

    #[tokio::test]
    async fn only_writes_and_refusals_are_recorded() {
        let sink = Arc::new(RecordingSink::default());
        let cluster =
            Cluster::open(Config { audit_sink: Some(sink.clone()), ..Config::default() }).await.unwrap();
        let send = async |headers: &[(&str, &str)], method: &str, path: &str, body: &'static str| {
            let mut request =
                Request::builder().method(method).uri(path).header("content-type", "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let service = cluster.service_as(User::named("platform", &["system:masters"]));
            let request =
                request.body(http_body_util::Full::new(bytes::Bytes::from_static(body.as_bytes()))).unwrap();
            service.oneshot(request).await.unwrap().status().as_u16()
        };
        let maps = "/api/v1/namespaces/default/configmaps";
        let admin: &[(&str, &str)] = &[("impersonate-user", "ann"), ("impersonate-group", "system:masters")];
        let jane: &[(&str, &str)] = &[("impersonate-user", "jane")];
        let map = r#"{"metadata":{"name":"a"}}"#;
        // Requests of the platform itself are not recorded.
        assert_eq!(send(&[], "POST", maps, r#"{"metadata":{"name":"own"}}"#).await, 201);
        assert_eq!(send(admin, "POST", &format!("{maps}?dryRun=All"), map).await, 201);
        assert_eq!(send(admin, "POST", maps, map).await, 201);
        assert_eq!(send(admin, "GET", maps, "").await, 200);
        assert_eq!(send(admin, "GET", &format!("{maps}/missing"), "").await, 404);
        assert_eq!(send(admin, "DELETE", &format!("{maps}/a"), "").await, 200);
        assert_eq!(send(jane, "GET", &format!("{maps}/a"), "").await, 403);
        assert_eq!(send(jane, "DELETE", "/api/v1/namespaces/default/pods/a%20b/eviction", "").await, 403);
        let recorded = sink.0.lock();
        let shown: Vec<_> = recorded
            .iter()
            .map(|event| {
                assert_eq!((event.id.len(), event.impersonator.as_deref()), (36, Some("platform")));
                let user = event.user.as_deref().unwrap_or("-");
                let object = event.object.as_deref().unwrap_or("-");
                format!("{user} {} {object} {}", event.verb, event.status.unwrap_or(0))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "ann create configmaps/default 201",
                "ann delete configmaps/default/a 200",
                "jane get configmaps/default/a 403",
                "jane delete - 403",
            ]
        );
    }

    #[test]
    fn unauthenticated_callers_cannot_flood_the_audit_log() {
        let sink = Arc::new(RecordingSink::default());
        let auditor = Auditor::new(sink.clone());
        let (parts, ()) = Request::get("/api/v1/secrets").body(()).unwrap().into_parts();
        for _ in 0..1000 {
            let mut response = super::super::respond::text(401, "");
            RequestAudit::begin(Some(&auditor), &parts, None).end(&mut response);
        }
        let count = sink.0.lock().len();
        assert!((20..=200).contains(&count), "{count}");
        drop(RequestAudit::begin(Some(&auditor), &parts, None));
        let (parts, ()) = Request::delete("/api/v1/namespaces/a/pods/b").body(()).unwrap().into_parts();
        let mut left = RequestAudit::begin(Some(&auditor), &parts, None);
        left.user = Some("jane".to_owned());
        drop(left);
        let last = sink.0.lock().pop().unwrap();
        assert_eq!((last.status, last.object.as_deref()), (None, Some("pods/a/b")));
    }
}
