//! The objects of a release and their readiness. Their content is not shown.

use domain::Actor;
use domain::roles::Capability;
use futures::StreamExt;
use futures::stream;
use kube_apply::readiness::{evaluate, last_warnings};
use kube_apply::{Object, ObjectId, Readiness, Target, WaitStrategy, read_live};
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::get::{record_mask, record_objects};
use crate::Releases;
use crate::values::SensitiveValues;

/// Maximum number of concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Resources")]
pub struct ResourcesView {
    pub revision: i64,
    pub total: usize,
    pub ready: usize,
    pub objects: Vec<ObjectView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Resource")]
pub struct ObjectView {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// State: ready, progressing, failed, absent, terminating, or unknown if the caller may not read the object.
    pub state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Last warning event of an object that is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub event: String,
}

impl Releases {
    /// Returns the last deployed objects with their live state, as the caller may read it.
    pub async fn resources(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
    ) -> Result<ResourcesView, Error> {
        let (record, release) = self.load_record(actor, namespace, name, None).await?;
        let reader = self.impersonation_in(actor, Capability::ReadReleases, namespace)?;
        let client = self.inner().clients.impersonating(&reader);
        let target = Target::new(client, self.inner().helm_factory.discovery.clone(), namespace);
        let revision = record.version;
        // Only names and the mask stay in memory during the API calls.
        let read = self.run_on_pool(namespace, record.bytes(), move || {
            let named: Vec<Object> = record_objects(&record)?.iter().map(Object::without_content).collect();
            Ok((named, record_mask(&record, release.as_deref())?))
        });
        let (named, mask) = read.await?;
        let looks = named.into_iter().map(|object| observe_object(&target, object));
        let mut objects: Vec<ObjectView> = stream::iter(looks).buffered(MAX_CONCURRENT_READS).collect().await;
        if objects.iter().any(|object| object.state != "ready") {
            add_warning_events(&target, &mut objects, &mask).await;
        }
        let ready = objects.iter().filter(|object| object.state == "ready").count();
        Ok(ResourcesView { revision, total: objects.len(), ready, objects })
    }
}

/// Adds the last warning event to objects that are not ready.
async fn add_warning_events(target: &Target, objects: &mut [ObjectView], mask: &SensitiveValues) {
    let id = |object: &ObjectView| ObjectId {
        group: object.api_version.rsplit_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
        kind: object.kind.clone(),
        namespace: Some(match object.namespace.as_str() {
            "" => target.namespace.clone(),
            said => said.to_owned(),
        }),
        name: object.name.clone(),
    };
    let meant: Vec<ObjectId> = objects.iter().filter(|object| object.state != "ready").map(id).collect();
    let said = last_warnings(&target.client, &meant).await;
    for object in objects.iter_mut().filter(|object| object.state != "ready") {
        object.event = said.get(&id(object)).map(|text| mask.mask_text(text)).unwrap_or_default();
    }
}

async fn observe_object(target: &Target, object: Object) -> ObjectView {
    let found = read_live(target, std::slice::from_ref(&object)).await;
    let (state, reason) = match found.as_deref() {
        Ok([found]) => {
            match found.value.as_ref().map_or(Readiness::Absent, |live| evaluate(live, WaitStrategy::Watcher))
            {
                Readiness::Ready => ("ready", String::new()),
                Readiness::Progressing(reason) => ("progressing", reason),
                Readiness::Failed(reason) => ("failed", reason),
                Readiness::Absent => ("absent", String::new()),
                Readiness::Terminating => ("terminating", String::new()),
            }
        }
        Ok(_) => ("absent", String::new()),
        Err(failure) => ("unknown", failure.to_string()),
    };
    ObjectView {
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().unwrap_or_default().to_owned(),
        name: object.name().to_owned(),
        state,
        reason,
        event: String::new(),
    }
}
