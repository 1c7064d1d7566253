//! Readiness of the objects of a deployed release, from watches.

use std::sync::Arc;

use domain::actor::Impersonation;
use domain::clock::after;
use domain::release::operation::Step;
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_access::queue::Next;
use kube_apply::{Id, Object};
use kube_types::release::status::{NotReady, Resources};

use helm_release::storage::Stored;
use helm_release::{Origin, Record};

use super::identity::Identity;
use super::ledger::{entry, origin};
use super::operate::{self, inventory};
use super::wanted::Wanted;
use super::{Pass, is_own};
use crate::error::PassError;
use crate::lead::Controller;
use crate::records::Newest;
use crate::requests::until;
use crate::tell::{Deployment, Standing};
use crate::workloads::customs::{Again, Stands, is_custom};
use crate::workloads::is_watched;

impl Controller {
    /// Updates the readiness in the status if it changed. `whole` also checks drift.
    pub(super) async fn watch(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        newest: Option<Newest>,
        whole: bool,
    ) -> Result<Next, PassError> {
        let status = pass.status();
        let revision = status.helm.as_ref().map_or(0, |helm| helm.revision);
        let (objects, reader) = self.objects_of(pass, identity, revision).await?;
        let again = if whole { Again::Served } else { Again::Never };
        self.customs.follow(pass.key, &objects, reader, again).await;
        let foreign = newest.filter(|newest| !is_own(newest, &status)).map(|newest| newest.revision);
        let mut standing = self.standing(pass, &objects, pass.now, foreign);
        if whole {
            standing.drift = self.drift(pass, identity, revision).await?;
        }
        let waits = !standing.late && standing.resources.ready < standing.resources.total && !standing.paused;
        // An operation that is still in the status was interrupted.
        let told = pass.telling().interrupted().stands(standing).done();
        if !whole
            && told != status
            && let Some(wait) = self.soon.wait(pass.key, &told.state)
        {
            return Ok(Next::After(wait));
        }
        self.tell(pass, told).await?;
        Ok(match due(status.last_deployed.as_ref(), pass).filter(|_| waits) {
            Some(due) => Next::After(until(pass.now, due)),
            None => self.interval_from(pass),
        })
    }

    /// The desired revision exists, but its success is missing in the status, e.g. after a crash.
    pub(super) async fn enter_deployed(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        wanted: Wanted,
    ) -> Result<Next, PassError> {
        let Some(newest) = self.records.newest(pass.key) else { return Ok(Next::Rest) };
        let storage = self.helm.storage(&self.clients, &pass.key.namespace);
        // If another client replaced the release since, the watch delivers it.
        let stored = storage.get(&pass.key.name, newest.revision).await?.filter(|stored| stored.held);
        let Some(Stored { record, .. }) = stored else { return Ok(Next::Rest) };
        // Tenants can write the labels that mark a record as ours. A record that is not in the ledger was not deployed by us.
        if entry(&pass.release, &record).is_none() {
            return self.operate(pass, identity, Step::Upgrade, wanted).boxed().await;
        }
        let objects = self.objects(&pass.key.namespace, &record).await?;
        self.known.learn_objects(pass.key, record.version, objects.clone());
        self.customs.follow(pass.key, &objects, &identity.acts_as, Again::Never).await;
        let standing = self.standing(pass, &objects, pass.now, None);
        let first = pass.status().version == 0;
        let administered = self.settle_administered(pass, identity, &record).await;
        let inventory = inventory(pass, &objects);
        let deployment = Deployment {
            administered,
            ..operate::deployment(pass, identity, wanted, &record, inventory, first)
        };
        self.tell(pass, pass.telling().deployed(deployment).stands(standing).done()).await?;
        Ok(Next::After(pass.timeout()))
    }

    pub(super) fn standing(
        &self,
        pass: &Pass<'_>,
        objects: &[Id],
        now: Timestamp,
        foreign: Option<i64>,
    ) -> Standing {
        let stand = self.workloads.of(pass.key);
        let (mut not_ready, mut unknown) = (Vec::new(), Vec::new());
        for id in objects {
            let stands = if is_watched(id) {
                match stand.get(id) {
                    Some(None) => Stands::Ready,
                    Some(Some(reason)) => Stands::NotReady(reason.clone()),
                    None => Stands::NotReady("not there".into()),
                }
            } else if is_custom(id) {
                self.customs.stands(pass.key, id)
            } else {
                Stands::Ready
            };
            let reason = match stands {
                Stands::Ready => continue,
                Stands::NotReady(reason) => reason.to_string(),
                Stands::Unknown(why) => {
                    unknown.push(format!("{} {}: {why}", id.kind, id.name));
                    continue;
                }
            };
            not_ready.push(NotReady {
                kind: id.kind.clone(),
                namespace: id
                    .namespace
                    .clone()
                    .filter(|other| **other != *pass.key.namespace)
                    .unwrap_or_default(),
                name: id.name.clone(),
                reason,
            });
        }
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let late = due(pass.status().last_deployed.as_ref(), pass).is_some_and(|due| now >= due);
        let resources = Resources {
            total: count(objects.len()),
            ready: count(objects.len().saturating_sub(not_ready.len())),
            not_ready,
        };
        Standing { resources, unknown, late, paused: pass.release.spec.paused, foreign, drift: None }
    }

    /// The objects that the record of a revision names, and the identity that may read them. Only objects of trusted records are cached.
    async fn objects_of<'i>(
        &self,
        pass: &Pass<'_>,
        identity: &'i Identity,
        revision: i64,
    ) -> Result<(Arc<[Id]>, &'i Impersonation), PassError> {
        if let Some(objects) = self.known.objects(pass.key, revision) {
            return Ok((objects, &identity.acts_as));
        }
        let storage = self.helm.storage(&self.clients, &pass.key.namespace);
        let Some(Stored { record, .. }) = storage.get(&pass.key.name, revision).await? else {
            return Ok((Arc::default(), &identity.foreign));
        };
        let objects = self.objects(&pass.key.namespace, &record).await?;
        if origin(Some(&pass.release), &record, &identity.by) == Origin::Foreign {
            return Ok((objects, &identity.foreign));
        }
        self.known.learn_objects(pass.key, revision, objects.clone());
        Ok((objects, &identity.acts_as))
    }

    /// The objects of a record, each with its namespace if its kind is namespaced. An unreadable manifest has been rejected earlier.
    /// Large manifests are parsed on the pool, which does not reject them, because they are deployed already.
    pub(crate) async fn objects(&self, namespace: &str, record: &Record) -> Result<Arc<[Id]>, PassError> {
        let (manifest, discovery) = (record.manifest.clone(), self.helm.discovery.clone());
        let home = namespace.to_owned();
        let place = move |object: &Object| {
            let mut id = object.id();
            let kind = discovery.in_any_version(object.api_version(), object.kind());
            if kind.is_none_or(|kind| kind.namespaced) {
                id.namespace.get_or_insert_with(|| home.clone());
            } else {
                id.namespace = None;
            }
            id
        };
        let read = move || Object::parse_all(&manifest).unwrap_or_default().iter().map(place).collect();
        let share = self.helm.share(namespace);
        share.finish(record.manifest.len(), read).await.map_err(|error| PassError::Helm(error.to_string()))
    }
}

/// The deadline for readiness after a deployment.
fn due(deployed: Option<&Time>, pass: &Pass<'_>) -> Option<Timestamp> {
    Some(after(deployed?.0, pass.timeout()))
}
