//! Target of writes: client, discovery and namespace, and the resolution of objects in it.

use std::collections::HashMap;

use domain::names::{check_label, check_subdomain};
use kube::Client;
use kube::core::{ApiResource, DynamicObject, Request, Resource};
use serde_json::Value;

use crate::compute::Compute;
use crate::discovery::{Discovery, KindLookupError, ServedKind};
use crate::error::ObjectError;
use crate::object::{Object, ObjectId, group};
use crate::reserved::ReservedObjects;

/// Target of writes.
#[derive(Clone)]
pub struct Target {
    /// Client with the identity of the requester.
    pub client: Client,
    pub discovery: Discovery,
    /// Default namespace.
    pub namespace: String,
    /// Objects that `client` does not write.
    pub reserved: ReservedObjects,
    /// Executor of work on large objects.
    pub compute: Compute,
}

/// An object with its API resource. Its namespace is set exactly if the kind is namespaced.
#[derive(Clone, Debug)]
pub struct ResolvedObject {
    pub object: Object,
    pub kind: ServedKind,
}

impl AsRef<Object> for ResolvedObject {
    fn as_ref(&self) -> &Object {
        &self.object
    }
}

impl ResolvedObject {
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    pub(crate) fn request(&self) -> Request {
        request(&self.kind.resource, self.object.namespace())
    }
}

pub(crate) fn request(resource: &ApiResource, namespace: Option<&str>) -> Request {
    Request::new(DynamicObject::url_path(resource, namespace))
}

impl Target {
    /// A target without reserved objects, with blocking threads for work on large ones.
    pub fn new(client: Client, discovery: Discovery, namespace: impl Into<String>) -> Self {
        Self {
            client,
            discovery,
            namespace: namespace.into(),
            reserved: ReservedObjects::default(),
            compute: Compute::default(),
        }
    }

    pub(crate) fn is_reserved(&self, placed: &ResolvedObject) -> bool {
        self.reserved.contains(&placed.id(), &self.namespace)
    }

    /// The client that reads and writes an object.
    pub(crate) fn client_for(&self, placed: &ResolvedObject) -> &Client {
        match self.reserved.client() {
            Some(client) if self.is_reserved(placed) => client,
            _ => &self.client,
        }
    }

    /// Whether the object is reserved and no client writes it.
    pub(crate) fn skips(&self, placed: &ResolvedObject) -> bool {
        self.reserved.client().is_none() && self.is_reserved(placed)
    }

    /// Resolves all objects except those left alone. A kind that the cluster does not serve is a failure, unless a
    /// CRD among the objects defines it.
    pub async fn resolve(&self, objects: &[Object]) -> Result<Vec<ResolvedObject>, Vec<ObjectError>> {
        let made = crd_kinds(objects);
        let mut placed = Vec::with_capacity(objects.len());
        let mut failures = Vec::new();
        for object in objects {
            match self.find_kind(object, &made).await {
                Ok(kind) => placed.push(self.with_kind(object, kind)),
                Err(error) => failures.push(ObjectError::new(object, object.id(), error)),
            }
        }
        placed.retain(|placed| !self.skips(placed));
        if failures.is_empty() { Ok(placed) } else { Err(failures) }
    }

    async fn find_kind(
        &self,
        object: &Object,
        made: &HashMap<(String, String), ServedKind>,
    ) -> Result<ServedKind, KindLookupError> {
        let (api_version, kind) = (object.api_version(), object.kind());
        if let Some(known) = self.discovery.get_cached(api_version, kind) {
            return Ok(known);
        }
        match made.get(&(api_version.to_owned(), kind.to_owned())) {
            Some(kind) => Ok(kind.clone()),
            None => self.discovery.find(&self.client, api_version, kind).await,
        }
    }

    /// Resolves previous objects whose kinds are still served in any version, except those left alone.
    pub(crate) fn resolve_previous(&self, objects: &[Object]) -> Vec<ResolvedObject> {
        let place = |object: &Object| {
            let kind = self.discovery.find_any_version(object.api_version(), object.kind())?;
            Some(self.with_kind(object, kind)).filter(|placed| !self.skips(placed))
        };
        objects.iter().filter(|object| !object.name().is_empty()).filter_map(place).collect()
    }

    /// Ids of cluster-scoped objects, to reject them for identities that may not write them.
    pub async fn cluster_scoped(&self, objects: &[Object]) -> Result<Vec<ObjectId>, Vec<ObjectError>> {
        let placed = self.resolve(objects).await?;
        Ok(placed.iter().filter(|placed| !placed.kind.is_namespaced).map(ResolvedObject::id).collect())
    }

    /// Id of an object in this target. An unknown kind counts as namespaced.
    pub fn id(&self, object: &Object) -> ObjectId {
        let kind = self.discovery.find_any_version(object.api_version(), object.kind());
        let namespaced = kind.is_none_or(|kind| kind.is_namespaced);
        let namespace = namespaced.then(|| object.namespace().unwrap_or(&self.namespace).to_owned());
        ObjectId { namespace, ..object.id() }
    }

    pub(crate) fn with_kind(&self, object: &Object, kind: ServedKind) -> ResolvedObject {
        let wanted = kind.is_namespaced.then(|| object.namespace().unwrap_or(&self.namespace).to_owned());
        if object.namespace() == wanted.as_deref() {
            return ResolvedObject { object: object.clone(), kind };
        }
        let mut value = object.value().clone();
        match (wanted, value["metadata"].as_object_mut()) {
            (Some(namespace), Some(metadata)) => {
                _ = metadata.insert("namespace".to_owned(), namespace.into());
            }
            (None, Some(metadata)) => _ = metadata.remove("namespace"),
            (_, None) => {}
        }
        let object = object.with_value(value).expect("a namespace makes no difference to what it is");
        ResolvedObject { object, kind }
    }
}

/// Kinds defined by CRDs among the objects, by `apiVersion` and kind.
pub(crate) fn crd_kinds(objects: &[Object]) -> HashMap<(String, String), ServedKind> {
    let definitions = objects.iter().filter(|object| is_crd(object));
    definitions.flat_map(|object| kinds_of_crd(object.value())).collect()
}

/// Whether the object is a CRD.
pub(crate) fn is_crd(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition" && group(object.api_version()) == "apiextensions.k8s.io"
}

fn kinds_of_crd(definition: &Value) -> Vec<((String, String), ServedKind)> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let names = &spec["names"];
    let (Some(group), Some(kind), Some(plural)) =
        (text(&spec["group"]), text(&names["kind"]), text(&names["plural"]))
    else {
        return Vec::new();
    };
    // They become segments of API paths; the API server rejects the CRD.
    if check_subdomain(&group).and(check_label(&plural)).is_err() {
        return Vec::new();
    }
    let namespaced = spec["scope"] == "Namespaced";
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] == true);
    let versions = served.filter_map(|version| text(&version["name"]));
    let versions = versions.filter(|version| check_label(version).is_ok());
    let made = versions.map(|version| {
        let api_version = format!("{group}/{version}");
        let resource = ApiResource {
            group: group.clone(),
            version,
            api_version: api_version.clone(),
            kind: kind.clone(),
            plural: plural.clone(),
        };
        ((api_version, kind.clone()), ServedKind { resource, is_namespaced: namespaced })
    });
    made.collect()
}
