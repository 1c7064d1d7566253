//! `lookup` in templates: reads from the cluster with the caller's identity.
//!
//! Templates are not asynchronous. Rendering runs on its own thread, which blocks here until the cluster answers.
//! During that time its pool slot is free for other work; its memory stays reserved.

use std::cell::Cell;
use std::time::{Duration, Instant};

use domain::names::check_name;
use helm_template::budget::Admission as _;
use helm_template::data::{Data, Members};
use helm_template::outside;
use helm_template::value::Str;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, TypeMeta};
use kube_apply::Discovery;
use kube_apply::discovery::{FindError, Kind};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::Cluster;
use super::admission::PoolAdmission;

/// Maximum lookups per rendering.
const MOST: usize = 1_000;
/// Total time a rendering may wait for lookups.
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum objects in one list.
const ITEMS: usize = 10_000;
/// Objects per page of a list.
const PAGE: u32 = 100;
/// Maximum bytes of JSON read by all lookups of a rendering.
const MOST_BYTES: usize = 16 << 20;
/// Memory per byte of JSON: an object is parsed twice, and each string is stored in both structures.
const BYTES_PER_BYTE: u64 = 4;

pub(super) struct Lookup<'c> {
    runtime: Handle,
    cluster: &'c Cluster,
    asked: Cell<usize>,
    waited: Cell<Duration>,
    admission: &'c PoolAdmission<'c>,
    read: Cell<usize>,
    /// Whether discovery was already refreshed in this rendering.
    refreshed: Cell<bool>,
}

impl<'c> Lookup<'c> {
    pub(super) fn new(runtime: Handle, cluster: &'c Cluster, admission: &'c PoolAdmission<'c>) -> Self {
        let (asked, waited, refreshed) = (Cell::new(0), Cell::new(Duration::ZERO), Cell::new(false));
        Self { runtime, cluster, asked, waited, admission, read: Cell::new(0), refreshed }
    }

    /// Counts bytes read from the cluster and reserves memory for them.
    fn count(&self, object: &Value) -> Result<(), Str> {
        let bytes = serde_json::to_string(object).map_or(0, |text| text.len());
        self.read.set(self.read.get().saturating_add(bytes));
        if self.read.get() > MOST_BYTES {
            return Err(format!("the templates look up more than {MOST_BYTES} bytes of the cluster").into());
        }
        self.admission.reserve(bytes as u64 * BYTES_PER_BYTE)
    }

    pub(super) fn discovery(&self) -> &Discovery {
        &self.cluster.discovery
    }
}

impl outside::Cluster for Lookup<'_> {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str> {
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() > MOST {
            return Err(format!("the templates ask the cluster more than {MOST} times").into());
        }
        let left = PATIENCE.saturating_sub(self.waited.get());
        let begun = Instant::now();
        let asked = tokio::time::timeout(left, self.ask(api_version, kind, namespace, name));
        let found = self.admission.ticket().wait(&self.runtime, async {
            let found = asked.await;
            self.waited.set(self.waited.get() + begun.elapsed());
            found
        });
        let found = found.map_err(|error| self.admission.fail(error))?;
        let late = format!("the cluster kept the templates waiting for more than {} s", PATIENCE.as_secs());
        found.map_err(|_| Str::from(late))?
    }
}

impl Lookup<'_> {
    async fn ask(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, Str> {
        let Some(Kind { resource, namespaced }) = self.kind(api_version, kind).await? else {
            return Ok(none());
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
        if name.is_empty() { self.list(&api, &resource).await } else { self.one(&api, name).await }
    }

    /// Returns `None` if the version is served but the kind is not: Helm then finds no object.
    async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, Str> {
        let Cluster { client, discovery, .. } = self.cluster;
        if let Some(known) = discovery.known(api_version, kind) {
            return Ok(Some(known));
        }
        if !self.refreshed.replace(true) {
            match discovery.find(client, api_version, kind).await {
                Ok(found) => return Ok(Some(found)),
                Err(FindError::Read(error)) => return Err(told(error)),
                Err(FindError::Unknown { .. }) => {}
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

impl Lookup<'_> {
    async fn one(&self, api: &Api<DynamicObject>, name: &str) -> Result<Data, Str> {
        match api.get_opt(name).await.map_err(told)? {
            Some(object) => self.data_of(&object),
            None => Ok(none()),
        }
    }

    async fn list(&self, api: &Api<DynamicObject>, resource: &ApiResource) -> Result<Data, Str> {
        let mut params = ListParams::default().limit(PAGE);
        let mut items = Vec::new();
        loop {
            let page = match api.list(&params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(none()),
                page => page.map_err(told)?,
            };
            for mut object in page.items {
                // Items of a list omit `apiVersion` and `kind`; set them, as Go does.
                let (api_version, kind) = (resource.api_version.clone(), resource.kind.clone());
                object.types.get_or_insert(TypeMeta { api_version, kind });
                items.push(self.data_of(&object)?);
            }
            if items.len() > ITEMS {
                return Err(format!("a list of the cluster has more than {ITEMS} objects").into());
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

    fn data_of(&self, object: &DynamicObject) -> Result<Data, Str> {
        let Ok(value) = serde_json::to_value(object) else { return Ok(none()) };
        self.count(&value)?;
        Ok(data(&value))
    }
}

fn none() -> Data {
    Data::Map(Members::new())
}

/// The cluster's own message, as Helm reports it.
fn told(error: kube::Error) -> Str {
    match error {
        kube::Error::Api(status) => status.message.as_str().into(),
        error => error.to_string().into(),
    }
}

/// Integers stay integers, as in Go's unstructured objects.
fn data(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(truth) => Data::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(n) => Data::Int(n),
            None => Data::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Data::string(text.as_str()),
        Value::Array(items) => Data::List(items.iter().map(data).collect()),
        Value::Object(members) => Data::Map(members_of(members)),
    }
}

fn members_of(members: &Map<String, Value>) -> Members {
    members.iter().map(|(key, value)| (key.as_str().into(), data(value))).collect()
}
