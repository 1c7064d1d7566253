//! Whoever acts on releases: as whom, where, and by which clock.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures::future::BoxFuture;
use helm_template::profile::Profile;
use kube::Client;
use kube_access::Sightings;
use kube_apply::{Discovery, Reserved, Target};

use crate::error::Error;
use crate::hold::Hold;
use crate::record::Record;
use crate::render::share::Share;
use crate::render::{Cluster, Renderer};
use crate::storage::Storage;
use crate::trust::{Origin, Trust};

/// Does what Helm does. Cheap to make for each act, if renderer and discovery are shared.
#[derive(Clone)]
pub struct Helm {
    /// Writes records and Leases: the platform itself, or whoever acts where there is no platform.
    pub records: Client,
    /// Writes what charts make, as whoever asked for it.
    pub objects: Client,
    pub discovery: Discovery,
    pub renderer: Renderer,
    pub clock: Arc<dyn Clock>,
    /// The Helm that is followed.
    pub profile: Profile,
    /// What others are told while they wait for us.
    pub holder: String,
    /// What is seen of others who are at work on releases.
    pub sightings: Sightings,
    /// How long one waits for somebody else who is at work on a release.
    pub patience: Duration,
    /// How records are judged before anything of them is executed. Without it all of them are trusted, which is right only
    /// where `objects` is the caller's own client, as in the command line.
    pub trust: Option<Trust>,
    /// Objects that are not written with `objects`: another client writes what was rendered of them in this operation, or
    /// they are left alone.
    pub reserved: Reserved,
    /// A record that does not fit into one Secret is refused, because nothing else keeps what would be left out.
    pub whole_records: bool,
    /// The flow whose share of the renderer is used, such as an account's; else the namespace's.
    pub flow: Option<Arc<str>>,
}

impl Helm {
    /// As Helm 4, with no patience.
    pub fn new(
        records: Client,
        objects: Client,
        discovery: Discovery,
        clock: Arc<dyn Clock>,
        holder: &str,
    ) -> Self {
        Self {
            records,
            objects,
            discovery,
            renderer: Renderer::new(),
            clock,
            profile: Profile::Helm4,
            holder: holder.to_owned(),
            sightings: Sightings::default(),
            patience: Duration::ZERO,
            trust: None,
            reserved: Reserved::default(),
            whole_records: false,
            flow: None,
        }
    }

    /// The records of a namespace.
    pub fn storage(&self, namespace: &str) -> Storage {
        let storage = Storage::new(self.records.clone(), namespace, self.clock.clone());
        let storage = storage.sharing(self.share(namespace));
        if self.whole_records { storage.whole_only() } else { storage }
    }

    /// The share of the renderer's pool of the flow, or of a namespace where none is set.
    pub fn share(&self, namespace: &str) -> Share {
        self.renderer.share(self.flow.as_deref().unwrap_or(namespace))
    }

    pub fn target(&self, namespace: &str) -> Target {
        let target = Target::new(self.objects.clone(), self.discovery.clone(), namespace);
        Target { reserved: self.reserved.clone(), ..target }
    }

    /// The target for content that is not trusted.
    pub(crate) fn foreign_target(&self, namespace: &str) -> Target {
        let target = self.target(namespace);
        match &self.trust {
            Some(trust) => {
                Target { client: trust.foreign.clone(), reserved: self.reserved.without_client(), ..target }
            }
            None => target,
        }
    }

    pub(crate) fn origin(&self, record: &Record) -> Origin {
        self.trust.as_ref().map_or(Origin::Own, |trust| trust.ledger.origin(record))
    }

    pub(crate) fn cluster(&self) -> Cluster {
        Cluster { client: self.objects.clone(), discovery: self.discovery.clone(), flow: self.flow.clone() }
    }

    /// Does `work` while nobody else works on the release. It is boxed, because an act holds a lot at once.
    pub(crate) async fn held<T>(
        &self,
        namespace: &str,
        name: &str,
        work: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        let hold = Hold::new(self.records.clone(), namespace, &self.holder).seeing(&self.sightings);
        // In a box: an act is large, and would lie on the stack once for each who passes it on.
        let work = Box::pin(work);
        hold.during(name, self.patience, || work).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::{Install, Rollback, Run, Test, Uninstall, Upgrade};

    /// Nothing is done here: that it compiles is the test.
    #[expect(dead_code, reason = "for the compiler")]
    fn every_act_can_be_done_on_any_thread(
        helm: &Helm,
        asks: (&Install<'_>, &Upgrade<'_>, &Rollback<'_>, &Uninstall<'_>, &Test<'_>, &Run<'_>),
    ) {
        fn is_send(_: impl Send) {}
        let (install, upgrade, rollback, uninstall, test, run) = asks;
        is_send(helm.install(install));
        is_send(helm.upgrade(upgrade));
        is_send(helm.rollback(rollback));
        is_send(helm.uninstall(uninstall));
        is_send(helm.test(test));
        is_send(helm.recover("namespace", "name", run));
    }
}
