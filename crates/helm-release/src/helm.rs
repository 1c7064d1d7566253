//! Entry point of all actions: clients, renderer, clock and trust settings.

use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use futures::future::BoxFuture;
use helm_template::profile::Profile;
use kube::Client;
use kube_access::LeaseObserver;
use kube_apply::{Discovery, ReservedObjects, Target};

use crate::error::Error;
use crate::lock::ReleaseLock;
use crate::record::Record;
use crate::render::share::PoolShare;
use crate::render::{LookupTarget, Renderer};
use crate::storage::Storage;
use crate::trust::{Origin, Trust};

/// Runs Helm's actions. Cheap to create per action if renderer and discovery are shared.
#[derive(Clone)]
pub struct Helm {
    /// Writes records and Leases: the platform's own client, or the caller's if there is no platform.
    pub records: Client,
    /// Writes the objects of charts, as the identity that requested the action.
    pub objects: Client,
    pub discovery: Discovery,
    pub renderer: Renderer,
    pub clock: Arc<dyn Clock>,
    /// The Helm version whose behaviour is followed.
    pub profile: Profile,
    /// Holder identity in the Lease, shown to other clients that wait.
    pub holder: String,
    /// Observed Leases of other holders.
    pub lease_observer: LeaseObserver,
    /// How long to wait for another live holder of the release lock.
    pub lock_timeout: Duration,
    /// Trust in stored records, checked before their content is executed. `None` trusts all records; that is safe
    /// only where `objects` is the caller's own client, as in the command line.
    pub trust: Option<Trust>,
    /// Objects that are not written with `objects`: another client writes them if they were rendered in this
    /// operation, else they are left alone.
    pub reserved: ReservedObjects,
    /// Rejects records that do not fit into one Secret, because the omitted parts would be stored nowhere.
    pub single_secret_records: bool,
    /// Flow (such as an account) whose share of the renderer is used; defaults to the namespace.
    pub flow: Option<Arc<str>>,
}

impl Helm {
    /// Helm 4's behaviour, without waiting for other lock holders.
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
            lease_observer: LeaseObserver::default(),
            lock_timeout: Duration::ZERO,
            trust: None,
            reserved: ReservedObjects::default(),
            single_secret_records: false,
            flow: None,
        }
    }

    /// Storage for the records of a namespace.
    pub fn storage(&self, namespace: &str) -> Storage {
        let storage = Storage::new(self.records.clone(), namespace, self.clock.clone());
        let storage = storage.with_share(self.share(namespace));
        if self.single_secret_records { storage.single_secret_only() } else { storage }
    }

    /// Share of the worker pool for the flow, or for the namespace if no flow is set.
    pub fn share(&self, namespace: &str) -> PoolShare {
        self.renderer.share(self.flow.as_deref().unwrap_or(namespace))
    }

    pub fn target(&self, namespace: &str) -> Target {
        let target = Target::new(self.objects.clone(), self.discovery.clone(), namespace);
        let compute = self.share(namespace).compute();
        Target { reserved: self.reserved.clone(), compute, ..target }
    }

    /// Target for untrusted content.
    pub(crate) fn untrusted_target(&self, namespace: &str) -> Target {
        let target = self.target(namespace);
        match &self.trust {
            Some(trust) => Target {
                client: trust.untrusted_client.clone(),
                reserved: self.reserved.without_client(),
                ..target
            },
            None => target,
        }
    }

    pub(crate) fn origin(&self, record: &Record) -> Origin {
        self.trust.as_ref().map_or(Origin::Own, |trust| trust.ledger.origin(record))
    }

    pub(crate) fn lookup_target(&self) -> LookupTarget {
        LookupTarget {
            client: self.objects.clone(),
            discovery: self.discovery.clone(),
            flow: self.flow.clone(),
        }
    }

    /// Runs `work` while holding the lock of the release. Boxed, because the futures of actions are large.
    pub(crate) async fn with_lock<T>(
        &self,
        namespace: &str,
        name: &str,
        work: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        let hold = ReleaseLock::new(self.records.clone(), namespace, &self.holder)
            .with_observer(&self.lease_observer);
        // Boxed again: the future would otherwise be copied onto the stack by every caller that passes it on.
        let work = Box::pin(work);
        hold.with_lock(name, self.lock_timeout, || work).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::{ActionOptions, Install, Rollback, Test, Uninstall, Upgrade};

    /// Compile-time check only.
    #[expect(dead_code, reason = "for the compiler")]
    fn action_futures_are_send(
        helm: &Helm,
        asks: (&Install<'_>, &Upgrade<'_>, &Rollback<'_>, &Uninstall<'_>, &Test<'_>, &ActionOptions<'_>),
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
