//! API verbs, after authentication and authorization.
//!
//! `http` parses a request into a [`ResourceRequest`], a verb returns a [`ResourceResponse`], and `http` encodes it. Reads never wait for
//! writes; a write is prepared without locks and retried after a conflict.

mod body;
mod controller_client;
mod convert;
mod cost;
mod create;
mod delete;
mod delete_collection;
mod evict;
mod logs;
mod managed_fields;
mod meta;
mod patch;
mod pods;
mod read;
mod scale;
mod selection;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use governor::work::Interrupt;
use governor::{Flow, PriorityLevel};
use parking_lot::Mutex;
use serde_json::Value;

use crate::access::User;
use crate::admission::{self, Operation};
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::http::negotiate::{Format, Representation};
use crate::http::query::Query;
use crate::print;
use crate::schema::resources::Resource;
use crate::store::{Allowance, Key, Object};

pub use body::go_package;
pub use controller_client::ControllerManager;
pub use convert::{ServedObject, needs_conversion, served_object, served_value};
pub use delete::DeletionOptions;
pub use watch::{BASE_BYTES as WATCH_BYTES, WatchStream};

/// Maximum number of recorded warnings per call; responses have fewer, see `http::respond`.
const MAX_WARNINGS: usize = 200;
/// Time limit of a call on the pool.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of a parsed and validated object per byte of its text.
pub const MEMORY_EXPANSION: u64 = 16;

/// A resource request.
pub struct ResourceRequest {
    pub cluster: Cluster,
    pub verb: &'static str,
    pub resource: Arc<Resource>,
    /// Empty for the main resource.
    pub subresource: String,
    /// The subresource through which the main object is changed (`scale`), for managed fields.
    pub via_subresource: &'static str,
    /// Empty for cluster-scoped resources, and for a list of all namespaces.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    pub user: User,
    pub level: PriorityLevel,
    pub query: Query,
    pub representation: Representation,
    pub user_agent: String,
    pub content_type: Option<String>,
    pub body: Bytes,
    pub warnings: Mutex<Vec<String>>,
    /// The flow that is charged for CPU time.
    pub flow: Option<Flow>,
    /// Set for a call that runs on the pool.
    pub interrupt: Option<Interrupt>,
    /// Format of error responses.
    pub error_format: Format,
}

/// Result of a verb.
pub enum ResourceResponse {
    /// A stored object, not yet converted to the request's version.
    Stored(u16, Arc<Object>),
    /// A document of the resource's kind, in the request's version.
    Document(u16, Value),
    /// The `Scale` of an object.
    Scale(Value),
    /// A document of another kind (`Status`, a review): never converted to a Table.
    OtherKind(u16, Value),
    List(ObjectPage),
    Watch(Box<WatchStream>),
    Text(String),
    /// Text that continues, as of a followed log.
    Stream(BoxStream<'static, Bytes>),
    /// 204 without a body.
    NoContent,
}

/// A list or a page of it.
pub struct ObjectPage {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
    pub continue_token: String,
    pub remaining: Option<usize>,
}

impl ResourceRequest {
    pub fn key(&self, name: &str) -> Key {
        Key::new(&self.resource.storage, &self.namespace, name)
    }

    pub fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock();
        let text = text.into();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    fn warn_all(&self, texts: Vec<String>) {
        for text in texts {
            self.warn(text);
        }
    }

    /// Returns an error if the client has disconnected or the deadline has passed. Call it before each long step: reading, patching,
    /// admission, validation, encoding. Nothing is written after an error.
    pub fn check_interrupt(&self) -> Result<()> {
        let stopped = self.interrupt.as_ref().map_or(Ok(()), Interrupt::check);
        stopped.map_err(|_| ApiError::request_timeout(REQUEST_TIMEOUT))
    }

    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.name, &self.name)
    }

    /// The 422 error of an invalid object. A custom resource is named by its own `kind`; Events belong to the core group in both API
    /// groups.
    fn invalid(&self, object: &Value, errors: impl Into<FieldErrors>) -> ApiError {
        let resource = &self.resource;
        let kind = object["kind"].as_str().filter(|_| resource.is_custom()).unwrap_or(&resource.kind);
        let is_event = !resource.is_custom() && kind == "Event";
        let group = if is_event { "" } else { resource.group.as_ref() };
        let name = if self.name.is_empty() { &object["metadata"]["name"] } else { &Value::Null };
        ApiError::invalid(group, kind, name.as_str().unwrap_or(&self.name), errors)
    }

    /// The option `includeObject`: the content of Table rows besides their cells.
    pub fn include(&self) -> Result<print::IncludeObject> {
        print::IncludeObject::parse(&self.query.include_object).ok_or_else(|| {
            let path = Path::new("includeObject");
            let why = "must be 'Metadata', 'Object', 'None', or empty";
            let error = FieldError::invalid(&path, self.query.include_object.as_str(), why);
            ApiError::bad_request(format!("Unable to convert to Table as requested: {error}"))
        })
    }

    fn exists(&self) -> bool {
        self.cluster.store().get(&self.resource.storage, &self.namespace, &self.name).is_some()
    }

    fn get_live(&self) -> Result<Arc<Object>> {
        let found = self.cluster.store().get(&self.resource.storage, &self.namespace, &self.name);
        found.ok_or_else(|| self.not_found())
    }

    /// Returns the same request for another object of the kind.
    fn for_object(&self, namespace: &str, name: &str) -> Self {
        Self {
            cluster: self.cluster.clone(),
            verb: self.verb,
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            via_subresource: self.via_subresource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            user: self.user.clone(),
            level: self.level,
            query: self.query.clone(),
            representation: self.representation,
            user_agent: self.user_agent.clone(),
            content_type: self.content_type.clone(),
            body: self.body.clone(),
            warnings: Mutex::default(),
            flow: self.flow,
            interrupt: self.interrupt.clone(),
            error_format: self.error_format,
        }
    }

    /// Returns the call that changes the main object through a subresource, named by the second argument.
    fn for_main_resource(&self, subresource: &'static str) -> Self {
        Self {
            subresource: String::new(),
            via_subresource: subresource,
            ..self.for_object(&self.namespace, &self.name)
        }
    }

    /// How far the write may exceed a storage budget. `change` is the object before and after; `None` for a new object.
    fn allowance(&self, change: Option<(&Value, &Value)>) -> Allowance {
        let is_subresource = !self.subresource.is_empty() || !self.via_subresource.is_empty();
        allowance(self.level, is_subresource, change)
    }

    fn admission<'a>(
        &'a self,
        operation: Operation,
        name: &'a str,
        old: Option<&'a Value>,
    ) -> admission::AdmissionRequest<'a> {
        admission::AdmissionRequest {
            operation,
            resource: &self.resource,
            subresource: if self.via_subresource.is_empty() {
                &self.subresource
            } else {
                self.via_subresource
            },
            namespace: &self.namespace,
            name,
            user: &self.user,
            old,
            dry_run: self.query.is_dry_run(),
        }
    }

    /// The field manager: the query parameter, else the first part of the user agent.
    fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        let printable: String = agent.chars().filter(|c| !c.is_control()).take(128).collect();
        if printable.is_empty() { "unknown".to_owned() } else { printable }
    }
}

/// Exempts writes that keep a cluster working from storage budgets: status, bindings and removals by platform components and
/// administrators, and the removal of a finalizer by any user.
fn allowance(level: PriorityLevel, is_subresource: bool, change: Option<(&Value, &Value)>) -> Allowance {
    let is_deleting = change.is_some_and(|(old, _)| !old["metadata"]["deletionTimestamp"].is_null());
    let finalizers = |object: &Value| object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    let is_released = is_deleting && change.is_some_and(|(old, new)| finalizers(new) < finalizers(old));
    match level {
        PriorityLevel::Platform if change.is_some() && (is_subresource || is_deleting) => {
            Allowance::Unlimited
        }
        PriorityLevel::Platform => Allowance::Small,
        PriorityLevel::Authenticated | PriorityLevel::Anonymous if is_released => Allowance::Small,
        PriorityLevel::Authenticated | PriorityLevel::Anonymous => Allowance::Strict,
    }
}

/// Executes a call.
pub async fn handle(call: &ResourceRequest) -> Result<ResourceResponse> {
    if !call.subresource.is_empty() {
        return subresource::handle(call).await;
    }
    if subresource::is_review(&call.resource) && !call.name.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    // A terminating CRD serves fewer verbs in discovery than it still accepts.
    if !call.resource.has_verb(call.verb) && !call.resource.is_custom() {
        return Err(ApiError::method_not_allowed());
    }
    match call.verb {
        "get" => read::get(call),
        "list" => read::list(call).await,
        "watch" => watch::open(call).map(|stream| ResourceResponse::Watch(Box::new(stream))),
        "create" if subresource::is_review(&call.resource) => subresource::create_review(call),
        "create" if call.resource.name.as_ref() == "bindings" => pods::bind_pod(call).await,
        "create" => create::create(call).await,
        "update" => update::replace(call).await,
        "patch" => patch::patch(call).await,
        "delete" => delete::delete(call).await,
        "deletecollection" => delete_collection::delete(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

#[cfg(test)]
mod interrupt_tests;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn storage_budget_allowance_covers_status_and_removals() {
        use Allowance::{Small, Strict, Unlimited};
        let live = json!({"metadata": {"finalizers": ["a", "b"]}});
        let mut dying = live.clone();
        dying["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        let mut released = dying.clone();
        released["metadata"]["finalizers"] = json!(["a"]);
        let (platform, tenant) = (PriorityLevel::Platform, PriorityLevel::Authenticated);
        for (level, is_subresource, change, expected) in [
            (platform, false, None, Small),
            (platform, false, Some((&live, &live)), Small),
            (platform, true, Some((&live, &live)), Unlimited),
            (platform, false, Some((&dying, &dying)), Unlimited),
            (tenant, false, None, Strict),
            (tenant, false, Some((&live, &live)), Strict),
            (tenant, true, Some((&live, &live)), Strict),
            (tenant, false, Some((&dying, &dying)), Strict),
            (tenant, false, Some((&dying, &released)), Small),
        ] {
            assert_eq!(allowance(level, is_subresource, change), expected, "{level:?} {change:?}");
        }
    }
}
