//! `lookup` in templates: reads from the cluster with the caller's identity.
//!
//! Templates are not asynchronous. Rendering runs on its own thread, which blocks here until the cluster answers.
//! During that time its pool slot is free for other work; its memory stays reserved.

use std::cell::Cell;
use std::time::{Duration, Instant};

use domain::names::check_name;
use helm_template::budget::Admission as _;
use helm_template::data::{Data, Members};
use helm_template::env;
use helm_template::value::Str;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, TypeMeta};
use kube_apply::Discovery;
use kube_apply::discovery::{KindLookupError, ServedKind};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::LookupTarget;
use super::admission::PoolAdmission;

/// Maximum lookups per rendering.
const MAX_LOOKUPS: usize = 1_000;
/// Total time a rendering may wait for lookups.
const LOOKUP_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum objects in one list.
const MAX_LIST_ITEMS: usize = 10_000;
/// Objects per page of a list.
const PAGE_SIZE: u32 = 100;
/// Maximum bytes of JSON read by all lookups of a rendering.
const MAX_LOOKUP_BYTES: usize = 16 << 20;
/// Memory per byte of JSON: an object is parsed twice, and each string is stored in both structures.
const MEMORY_PER_JSON_BYTE: u64 = 4;

pub(super) struct ClusterLookup<'c> {
    runtime: Handle,
    cluster: &'c LookupTarget,
    lookups: Cell<usize>,
    wait_time: Cell<Duration>,
    admission: &'c PoolAdmission<'c>,
    bytes_read: Cell<usize>,
    /// Whether discovery was already refreshed in this rendering.
    is_discovery_refreshed: Cell<bool>,
}

impl<'c> ClusterLookup<'c> {
    pub(super) fn new(runtime: Handle, cluster: &'c LookupTarget, admission: &'c PoolAdmission<'c>) -> Self {
        let (asked, waited, refreshed) = (Cell::new(0), Cell::new(Duration::ZERO), Cell::new(false));
        Self {
            runtime,
            cluster,
            lookups: asked,
            wait_time: waited,
            admission,
            bytes_read: Cell::new(0),
            is_discovery_refreshed: refreshed,
        }
    }

    /// Counts bytes read from the cluster and reserves memory for them.
    fn reserve_bytes(&self, object: &Value) -> Result<(), Str> {
        let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
        self.bytes_read.set(self.bytes_read.get().saturating_add(bytes));
        if self.bytes_read.get() > MAX_LOOKUP_BYTES {
            return Err(format!("lookups of the templates exceed {MAX_LOOKUP_BYTES} bytes").into());
        }
        self.admission.reserve(bytes as u64 * MEMORY_PER_JSON_BYTE)
    }

    pub(super) fn discovery(&self) -> &Discovery {
        &self.cluster.discovery
    }
}

impl env::Cluster for ClusterLookup<'_> {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str> {
        self.lookups.set(self.lookups.get() + 1);
        if self.lookups.get() > MAX_LOOKUPS {
            return Err(format!("the templates exceed {MAX_LOOKUPS} lookups").into());
        }
        let left = LOOKUP_TIMEOUT.saturating_sub(self.wait_time.get());
        let begun = Instant::now();
        let asked = tokio::time::timeout(left, self.read(api_version, kind, namespace, name));
        let found = self.admission.ticket().wait(&self.runtime, async {
            let found = asked.await;
            self.wait_time.set(self.wait_time.get() + begun.elapsed());
            found
        });
        let found = found.map_err(|error| self.admission.fail(error))?;
        let late = format!("lookups of the templates took longer than {} s", LOOKUP_TIMEOUT.as_secs());
        found.map_err(|_| Str::from(late))?
    }
}

impl ClusterLookup<'_> {
    async fn read(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str> {
        let Some(ServedKind { resource, is_namespaced: namespaced }) =
            self.find_kind(api_version, kind).await?
        else {
            return Ok(empty_map());
        };
        // Both become segments of an API path.
        for name in [namespace, name].into_iter().filter(|name| !name.is_empty()) {
            check_name(name).map_err(|why| Str::from(format!("lookup of {kind}: {why}")))?;
        }
        let client = self.cluster.client.clone();
        let api: Api<DynamicObject> = if namespaced && !namespace.is_empty() {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        if name.is_empty() {
            self.list_objects(&api, &resource).await
        } else {
            self.get_object(&api, name).await
        }
    }

    /// Returns `None` if the version is served but the kind is not: Helm then finds no object.
    async fn find_kind(&self, api_version: &str, kind: &str) -> Result<Option<ServedKind>, Str> {
        let LookupTarget { client, discovery, .. } = self.cluster;
        if let Some(known) = discovery.get_cached(api_version, kind) {
            return Ok(Some(known));
        }
        if !self.is_discovery_refreshed.replace(true) {
            match discovery.find(client, api_version, kind).await {
                Ok(found) => return Ok(Some(found)),
                Err(KindLookupError::Read(error)) => return Err(message(error)),
                Err(KindLookupError::Unknown { .. }) => {}
            }
        }
        if discovery.api_versions().iter().any(|served| served == api_version) {
            return Ok(None);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Err(format!(
            "unable to get apiresource from unstructured: {group}/{version}, Kind={kind}: the server could not find the requested resource"
        )
        .into())
    }
}

impl ClusterLookup<'_> {
    async fn get_object(&self, api: &Api<DynamicObject>, name: &str) -> Result<Data, Str> {
        match api.get_opt(name).await.map_err(message)? {
            Some(object) => self.object_data(&object),
            None => Ok(empty_map()),
        }
    }

    async fn list_objects(&self, api: &Api<DynamicObject>, resource: &ApiResource) -> Result<Data, Str> {
        let mut params = ListParams::default().limit(PAGE_SIZE);
        let mut items = Vec::new();
        loop {
            let page = match api.list(&params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(empty_map()),
                page => page.map_err(message)?,
            };
            for mut object in page.items {
                // Items of a list omit `apiVersion` and `kind`; set them, as Go does.
                let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
                object.types.get_or_insert(TypeMeta { api_version, kind });
                items.push(self.object_data(&object)?);
            }
            if items.len() > MAX_LIST_ITEMS {
                return Err(format!("a lookup returned more than {MAX_LIST_ITEMS} objects").into());
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page.metadata.resource_version.unwrap_or_default();
                let metadata = Members::from([("resourceVersion".into(), Data::string(version))]);
                return Ok(Data::Map(Members::from([
                    ("apiVersion".into(), Data::string(page.types.api_version)),
                    ("kind".into(), Data::string(page.types.kind)),
                    ("metadata".into(), Data::Map(metadata)),
                    ("items".into(), Data::List(items)),
                ])));
            }
        }
    }

    fn object_data(&self, object: &DynamicObject) -> Result<Data, Str> {
        let Ok(value) = serde_json::to_value(object) else { return Ok(empty_map()) };
        self.reserve_bytes(&value)?;
        Ok(to_data(&value))
    }
}

fn empty_map() -> Data {
    Data::Map(Members::new())
}

/// The cluster's own message, as Helm reports it.
fn message(error: kube::Error) -> Str {
    match error {
        kube::Error::Api(status) => status.message.as_str().into(),
        error => error.to_string().into(),
    }
}

/// Integers stay integers, as in Go's unstructured objects.
fn to_data(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(truth) => Data::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(n) => Data::Int(n),
            None => Data::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Data::string(text.as_str()),
        Value::Array(items) => Data::List(items.iter().map(to_data).collect()),
        Value::Object(members) => Data::Map(to_members(members)),
    }
}

fn to_members(members: &Map<String, Value>) -> Members {
    members.iter().map(|(key, value)| (key.as_str().into(), to_data(value))).collect()
}
