//! Readiness of the objects of releases, kept up to date by watches: one for each built-in kind that can be unready after creation, for
//! all releases together.
//!
//! Objects are assigned to releases by Helm's annotations. These do not prove ownership: callers only look up the objects that the
//! record of a release names.
//!
//! See also: custom resources ([`custom_resources`]).

pub(crate) mod custom_resources;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::stream::{self, Stream};
use futures::{StreamExt, future};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use kube_access::{CacheEvent, WatchCache};
use kube_apply::ObjectId;
use kube_apply::readiness::{Readiness, WaitStrategy, evaluate};
use parking_lot::Mutex;

use crate::key::ReleaseKey;
use crate::tenant_directory::TenantDirectory;

/// Group, version, kind, plural and label selector of the watch.
const WATCHED_KINDS: &[(&str, &str, &str, &str, &str)] = &[
    ("apps", "v1", "Deployment", "deployments", HELM_SELECTOR),
    ("apps", "v1", "StatefulSet", "statefulsets", HELM_SELECTOR),
    ("apps", "v1", "DaemonSet", "daemonsets", HELM_SELECTOR),
    ("batch", "v1", "Job", "jobs", HELM_SELECTOR),
    ("", "v1", "Pod", "pods", STANDALONE_POD_SELECTOR),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", HELM_SELECTOR),
];

/// The label that Helm sets on all objects.
const HELM_SELECTOR: &str = "app.kubernetes.io/managed-by=Helm";
/// Selects pods that a chart creates directly. Most charts put Helm's label on their pod templates as well. Pods of a controller are
/// excluded by the controller's label: they are by far the most, and the controller's status covers them.
const STANDALONE_POD_SELECTOR: &str = "app.kubernetes.io/managed-by=Helm,\
    !pod-template-hash,!controller-revision-hash,!batch.kubernetes.io/job-name";
const RELEASE_NAME_ANNOTATION: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE_ANNOTATION: &str = "meta.helm.sh/release-namespace";

/// Cheap to clone; clones share state.
#[derive(Clone)]
pub(crate) struct WorkloadReadiness {
    objects: Arc<Mutex<HashMap<ReleaseKey, UnreadyReasons>>>,
    tenants: Arc<dyn TenantDirectory>,
}

/// Why each object of a release is not ready; `None` if it is ready.
type UnreadyReasons = BTreeMap<ObjectId, Option<Arc<str>>>;

/// Whether objects of this kind are watched.
pub(crate) fn is_watched(id: &ObjectId) -> bool {
    WATCHED_KINDS.iter().any(|(group, _, kind, ..)| *group == id.group && *kind == id.kind)
}

impl WorkloadReadiness {
    /// `people` maps namespaces to workspaces.
    pub fn new(people: Arc<dyn TenantDirectory>) -> Self {
        Self { objects: Arc::default(), tenants: people }
    }

    /// Starts the watches and returns the keys of releases whose readiness changed. Existing objects are entered before the first key.
    pub fn start(&self, client: &kube::Client) -> impl Stream<Item = ReleaseKey> + Send + 'static {
        let caches: Vec<(WatchCache<DynamicObject>, ApiResource)> = WATCHED_KINDS
            .iter()
            .map(|row| {
                let (.., wanted) = row;
                let resource = api_resource(row);
                let api = Api::all_with(client.clone(), &resource);
                (WatchCache::start(api, Config::default().labels(wanted), strip_unused_fields), resource)
            })
            .collect();
        let workloads = self.clone();
        let known = {
            let (feeds, workloads) = (caches.clone(), workloads.clone());
            async move {
                future::join_all(feeds.iter().map(|(feed, _)| feed.wait_until_synced())).await;
                for (feed, kind) in &feeds {
                    feed.list()
                        .into_iter()
                        .for_each(|object| drop(workloads.apply_event(kind, &CacheEvent::Applied(object))));
                }
                None
            }
        };
        let changes = caches.into_iter().map(move |(feed, kind)| {
            let workloads = workloads.clone();
            // The cache lives as long as its stream.
            feed.subscribe().map(move |change| {
                let _ = &feed;
                workloads.apply_event(&kind, &change)
            })
        });
        stream::once(known).chain(stream::select_all(changes.map(StreamExt::boxed))).filter_map(future::ready)
    }

    /// Why each watched object of a release is not ready; `None` if it is ready.
    pub fn unready_reasons(&self, key: &ReleaseKey) -> UnreadyReasons {
        self.objects.lock().get(key).cloned().unwrap_or_default()
    }

    /// Applies a watch event. Returns the key of the object's release if its readiness changed.
    fn apply_event(&self, kind: &ApiResource, change: &CacheEvent<DynamicObject>) -> Option<ReleaseKey> {
        let (object, gone) = match change {
            CacheEvent::Applied(object) => (object, false),
            CacheEvent::Deleted(object) => (object, true),
        };
        let key = owning_release(object)?;
        if !gone && !self.can_belong_to(object, &key) {
            return None;
        }
        let id = object_id(kind, object);
        let mut all = self.objects.lock();
        let objects = all.entry(key.clone()).or_default();
        let changed = if gone {
            objects.remove(&id).is_some()
        } else {
            let stands = unready_reason(kind, object);
            objects.insert(id, stands.clone()).as_ref() != Some(&stands)
        };
        if objects.is_empty() {
            all.remove(&key);
        }
        changed.then_some(key)
    }

    /// Whether an object can belong to a release. Its annotations may name any release, but objects in a workspace belong only to
    /// releases of that workspace. Only administrators write into namespaces without a workspace.
    fn can_belong_to(&self, object: &DynamicObject, release: &ReleaseKey) -> bool {
        let owner = object.namespace().and_then(|namespace| self.tenants.workspace_of(&namespace));
        owner.is_none_or(|owner| self.tenants.workspace_of(&release.namespace) == Some(owner))
    }
}

fn api_resource((group, version, kind, plural, _): &(&str, &str, &str, &str, &str)) -> ApiResource {
    ApiResource {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        api_version: if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") },
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
    }
}

/// The release that the annotations of an object name.
fn owning_release(object: &DynamicObject) -> Option<ReleaseKey> {
    let mark = |name: &str| object.annotations().get(name);
    Some(ReleaseKey::new(mark(RELEASE_NAMESPACE_ANNOTATION)?, mark(RELEASE_NAME_ANNOTATION)?))
}

fn object_id(kind: &ApiResource, object: &DynamicObject) -> ObjectId {
    ObjectId {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: object.namespace(),
        name: object.name_any(),
    }
}

/// Why an object is not ready.
fn unready_reason(kind: &ApiResource, object: &DynamicObject) -> Option<Arc<str>> {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Items of a list have no `apiVersion` and `kind`.
    value["apiVersion"] = kind.api_version.as_str().into();
    value["kind"] = kind.kind.as_str().into();
    match evaluate(&value, WaitStrategy::Watcher) {
        Readiness::Ready => None,
        Readiness::Progressing(why) | Readiness::Failed(why) => Some(why.into()),
        Readiness::Absent => Some("not found".into()),
        Readiness::Terminating => Some("being deleted".into()),
    }
}

/// Removes fields that readiness does not depend on.
fn strip_unused_fields(object: &mut DynamicObject) {
    if let Some(spec) = object.data.get_mut("spec").and_then(|spec| spec.as_object_mut()) {
        for field in ["template", "volumeClaimTemplates", "containers", "initContainers", "volumes"] {
            spec.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tenant_directory::tests::AccountDirectory;

    #[test]
    fn object_of_another_workspace_is_not_assigned_to_the_release() {
        let accounts = AccountDirectory::new(&[("shop", "uaaaaaaaaaa"), ("blog", "ubbbbbbbbbb")]);
        let workloads = WorkloadReadiness::new(Arc::new(accounts));
        let kind = api_resource(&WATCHED_KINDS[0]);
        let deployment = |namespace: &str| -> DynamicObject {
            let annotations = json!({RELEASE_NAMESPACE_ANNOTATION: "shop", RELEASE_NAME_ANNOTATION: "web"});
            serde_json::from_value(json!({
                "metadata": {"name": "web", "namespace": namespace, "annotations": annotations},
                "spec": {"replicas": 1}, "status": {},
            }))
            .unwrap()
        };
        let key = ReleaseKey::new("shop", "web");
        assert_eq!(workloads.apply_event(&kind, &CacheEvent::Applied(deployment("blog").into())), None);
        assert!(
            workloads.unready_reasons(&key).is_empty(),
            "another tenant's object is not held for the release"
        );
        assert_eq!(
            workloads.apply_event(&kind, &CacheEvent::Applied(deployment("shop").into())),
            Some(key.clone())
        );
        let of_platform =
            workloads.apply_event(&kind, &CacheEvent::Applied(deployment("kube-system").into()));
        assert_eq!(of_platform, Some(key.clone()), "administrators' releases have objects anywhere");
        assert_eq!(workloads.apply_event(&kind, &CacheEvent::Deleted(deployment("blog").into())), None);
        assert_eq!(workloads.unready_reasons(&key).len(), 2);
    }
}
