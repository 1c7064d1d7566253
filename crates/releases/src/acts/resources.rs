//! The objects of a release and their readiness. Their content is not shown.

use domain::Actor;
use domain::roles::Capability;
use futures::StreamExt;
use futures::stream;
use kube_apply::ready::{judge, last_warnings};
use kube_apply::{Id, Object, State, Strategy, Target, live};
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::look::{objects, sensitive};
use crate::Releases;
use crate::values::Sensitive;

/// Maximum number of concurrent reads.
const AT_ONCE: usize = 8;

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
    /// ready, progressing, failed, absent, terminating, or unknown where the caller may not read it.
    pub state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The last that the cluster complained of, where it is not ready.
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
        let (record, release) = self.record(actor, namespace, name, None).await?;
        let reader = self.acts_in(actor, Capability::ReadReleases, namespace)?;
        let client = self.parts().clients.acting_as(&reader);
        let target = Target::new(client, self.parts().helms.discovery.clone(), namespace);
        let revision = record.version;
        // Only names and the mask stay in memory during the API calls.
        let read = self.examine(namespace, record.bytes(), move || {
            let named: Vec<Object> = objects(&record)?.iter().map(Object::without_content).collect();
            Ok((named, sensitive(&record, release.as_deref())?))
        });
        let (named, mask) = read.await?;
        let looks = named.into_iter().map(|object| look(&target, object));
        let mut objects: Vec<ObjectView> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        if objects.iter().any(|object| object.state != "ready") {
            complain(&target, &mut objects, &mask).await;
        }
        let ready = objects.iter().filter(|object| object.state == "ready").count();
        Ok(ResourcesView { revision, total: objects.len(), ready, objects })
    }
}

/// Adds the last warning event to objects that are not ready.
async fn complain(target: &Target, objects: &mut [ObjectView], mask: &Sensitive) {
    let id = |object: &ObjectView| Id {
        group: object.api_version.rsplit_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
        kind: object.kind.clone(),
        namespace: Some(match object.namespace.as_str() {
            "" => target.namespace.clone(),
            said => said.to_owned(),
        }),
        name: object.name.clone(),
    };
    let meant: Vec<Id> = objects.iter().filter(|object| object.state != "ready").map(id).collect();
    let said = last_warnings(&target.client, &meant).await;
    for object in objects.iter_mut().filter(|object| object.state != "ready") {
        object.event = said.get(&id(object)).map(|text| mask.mask_text(text)).unwrap_or_default();
    }
}

async fn look(target: &Target, object: Object) -> ObjectView {
    let found = live(target, std::slice::from_ref(&object)).await;
    let (state, reason) = match found.as_deref() {
        Ok([found]) => {
            match found.value.as_ref().map_or(State::Absent, |live| judge(live, Strategy::Watcher)) {
                State::Ready => ("ready", String::new()),
                State::Progressing(reason) => ("progressing", reason),
                State::Failed(reason) => ("failed", reason),
                State::Absent => ("absent", String::new()),
                State::Terminating => ("terminating", String::new()),
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
