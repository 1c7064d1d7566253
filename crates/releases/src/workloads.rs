//! Readiness of the objects of releases, kept up to date by watches: one for each built-in kind that can be unready after creation, for
//! all releases together.
//!
//! Objects are assigned to releases by Helm's annotations. These are no proof of ownership: callers only look up the objects that the
//! record of a release names.
//!
//! See also: custom resources ([`customs`]).

pub(crate) mod customs;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::stream::{self, Stream};
use futures::{StreamExt, future};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use kube_access::{Change, Feed};
use kube_apply::Id;
use kube_apply::ready::{State, Strategy, judge};
use parking_lot::Mutex;

use crate::key::Key;
use crate::people::People;

/// Group, version, kind, plural and label selector of the watch.
const KINDS: &[(&str, &str, &str, &str, &str)] = &[
    ("apps", "v1", "Deployment", "deployments", OF_HELM),
    ("apps", "v1", "StatefulSet", "statefulsets", OF_HELM),
    ("apps", "v1", "DaemonSet", "daemonsets", OF_HELM),
    ("batch", "v1", "Job", "jobs", OF_HELM),
    ("", "v1", "Pod", "pods", OF_A_CHART_ITSELF),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", OF_HELM),
];

/// The label that Helm sets on all objects.
const OF_HELM: &str = "app.kubernetes.io/managed-by=Helm";
/// Selects pods that a chart creates directly. Most charts put Helm's label on their pod templates as well. Pods of a controller are
/// excluded by the controller's label: they are by far the most, and the controller's status covers them.
const OF_A_CHART_ITSELF: &str = "app.kubernetes.io/managed-by=Helm,\
    !pod-template-hash,!controller-revision-hash,!batch.kubernetes.io/job-name";
const RELEASE: &str = "meta.helm.sh/release-name";
const NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Cheap to clone; clones share state.
#[derive(Clone)]
pub(crate) struct Workloads {
    objects: Arc<Mutex<HashMap<Key, Objects>>>,
    people: Arc<dyn People>,
}

/// Why each object of a release is not ready; `None` if it is ready.
type Objects = BTreeMap<Id, Option<Arc<str>>>;

/// Whether objects of this kind are watched.
pub(crate) fn is_watched(id: &Id) -> bool {
    KINDS.iter().any(|(group, _, kind, ..)| *group == id.group && *kind == id.kind)
}

impl Workloads {
    /// `people` maps namespaces to workspaces.
    pub fn new(people: Arc<dyn People>) -> Self {
        Self { objects: Arc::default(), people }
    }

    /// Starts the watches and returns the keys of releases whose readiness changed. Existing objects are entered before the first key.
    pub fn follow(&self, client: &kube::Client) -> impl Stream<Item = Key> + Send + 'static {
        let feeds: Vec<(Feed<DynamicObject>, ApiResource)> = KINDS
            .iter()
            .map(|row| {
                let (.., wanted) = row;
                let resource = resource(row);
                let api = Api::all_with(client.clone(), &resource);
                (Feed::start(api, Config::default().labels(wanted), slim), resource)
            })
            .collect();
        let workloads = self.clone();
        let known = {
            let (feeds, workloads) = (feeds.clone(), workloads.clone());
            async move {
                future::join_all(feeds.iter().map(|(feed, _)| feed.synced())).await;
                for (feed, kind) in &feeds {
                    feed.all()
                        .into_iter()
                        .for_each(|object| drop(workloads.enter(kind, &Change::Applied(object))));
                }
                None
            }
        };
        let changes = feeds.into_iter().map(move |(feed, kind)| {
            let workloads = workloads.clone();
            // The cache lives as long as its stream.
            feed.changes().map(move |change| {
                let _ = &feed;
                workloads.enter(&kind, &change)
            })
        });
        stream::once(known).chain(stream::select_all(changes.map(StreamExt::boxed))).filter_map(future::ready)
    }

    /// Why each watched object of a release is not ready; `None` if it is ready.
    pub fn of(&self, key: &Key) -> Objects {
        self.objects.lock().get(key).cloned().unwrap_or_default()
    }

    /// Applies a watch event. Returns the key of the object's release if its readiness changed.
    fn enter(&self, kind: &ApiResource, change: &Change<DynamicObject>) -> Option<Key> {
        let (object, gone) = match change {
            Change::Applied(object) => (object, false),
            Change::Deleted(object) => (object, true),
        };
        let key = release_of(object)?;
        if !gone && !self.may_be_of(object, &key) {
            return None;
        }
        let id = id_of(kind, object);
        let mut all = self.objects.lock();
        let objects = all.entry(key.clone()).or_default();
        let changed = if gone {
            objects.remove(&id).is_some()
        } else {
            let stands = stands(kind, object);
            objects.insert(id, stands.clone()).as_ref() != Some(&stands)
        };
        if objects.is_empty() {
            all.remove(&key);
        }
        changed.then_some(key)
    }

    /// Whether an object can belong to a release. Its annotations may name any release, but objects in a workspace belong only to
    /// releases of that workspace. Only administrators write into namespaces without a workspace.
    fn may_be_of(&self, object: &DynamicObject, release: &Key) -> bool {
        let owner = object.namespace().and_then(|namespace| self.people.workspace_of(&namespace));
        owner.is_none_or(|owner| self.people.workspace_of(&release.namespace) == Some(owner))
    }
}

fn resource((group, version, kind, plural, _): &(&str, &str, &str, &str, &str)) -> ApiResource {
    ApiResource {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        api_version: if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") },
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
    }
}

/// The release that the annotations of an object name.
fn release_of(object: &DynamicObject) -> Option<Key> {
    let mark = |name: &str| object.annotations().get(name);
    Some(Key::new(mark(NAMESPACE)?, mark(RELEASE)?))
}

fn id_of(kind: &ApiResource, object: &DynamicObject) -> Id {
    Id {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: object.namespace(),
        name: object.name_any(),
    }
}

/// Why an object is not ready.
fn stands(kind: &ApiResource, object: &DynamicObject) -> Option<Arc<str>> {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Items of a list have no `apiVersion` and `kind`.
    value["apiVersion"] = kind.api_version.as_str().into();
    value["kind"] = kind.kind.as_str().into();
    match judge(&value, Strategy::Watcher) {
        State::Ready => None,
        State::Progressing(why) | State::Failed(why) => Some(why.into()),
        State::Absent => Some("not there".into()),
        State::Terminating => Some("being deleted".into()),
    }
}

/// Removes fields that readiness does not depend on.
fn slim(object: &mut DynamicObject) {
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
    use crate::people::tests::Accounts;

    #[test]
    fn object_of_another_workspace_is_not_of_the_release_that_it_names() {
        let accounts = Accounts::new(&[("shop", "uaaaaaaaaaa"), ("blog", "ubbbbbbbbbb")]);
        let workloads = Workloads::new(Arc::new(accounts));
        let kind = resource(&KINDS[0]);
        let deployment = |namespace: &str| -> DynamicObject {
            let annotations = json!({NAMESPACE: "shop", RELEASE: "web"});
            serde_json::from_value(json!({
                "metadata": {"name": "web", "namespace": namespace, "annotations": annotations},
                "spec": {"replicas": 1}, "status": {},
            }))
            .unwrap()
        };
        let key = Key::new("shop", "web");
        assert_eq!(workloads.enter(&kind, &Change::Applied(deployment("blog").into())), None);
        assert!(workloads.of(&key).is_empty(), "another tenant's object is not held for the release");
        assert_eq!(workloads.enter(&kind, &Change::Applied(deployment("shop").into())), Some(key.clone()));
        let of_platform = workloads.enter(&kind, &Change::Applied(deployment("kube-system").into()));
        assert_eq!(of_platform, Some(key.clone()), "administrators' releases have objects anywhere");
        assert_eq!(workloads.enter(&kind, &Change::Deleted(deployment("blog").into())), None);
        assert_eq!(workloads.of(&key).len(), 2);
    }
}
