//! Release lock: at most one operation per release, by a Lease in the namespace of its records.
//!
//! When the Lease is lost, the running operation is dropped. Writes already sent are safe: every write of a record
//! carries the `resourceVersion` that was read.

use std::time::Duration;

use domain::error::ErrorKind;
use kube::Client;
use kube_access::{AcquireError, LeaseElection, LeaseObserver};

/// Why an operation under the release lock was not started or not finished.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another operation on release `{name}` is in progress, by {holder}")]
    Held { name: String, holder: String },
    /// The next operation on the release finishes the work.
    #[error("the operation on release `{name}` was aborted: its lease was lost")]
    Lost { name: String },
    #[error("cannot acquire the lock of release `{name}`")]
    Api { name: String, source: Box<kube::Error> },
    #[error("the cluster does not answer to requests for the lock of release `{name}`")]
    Timeout { name: String },
}

impl LockError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Held { .. } => ErrorKind::Conflict,
            Self::Lost { .. } | Self::Timeout { .. } => ErrorKind::Unavailable,
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) => ErrorKind::from_http_status(status.code),
                _ => ErrorKind::Unavailable,
            },
        }
    }
}

/// Takes release locks in one namespace.
#[derive(Clone)]
pub struct ReleaseLock {
    client: Client,
    namespace: String,
    holder: String,
    observer: LeaseObserver,
}

/// Name of the Lease of a release.
pub fn lease_name(release: &str) -> String {
    format!("helm-{release}")
}

impl ReleaseLock {
    /// `holder` is the identity that waiting clients see.
    pub fn new(client: Client, namespace: &str, holder: &str) -> Self {
        let (namespace, holder) = (namespace.to_owned(), holder.to_owned());
        Self { client, namespace, holder, observer: LeaseObserver::default() }
    }

    /// Shares observed Leases between locks, which shortens the wait for a holder that was observed before.
    #[must_use]
    pub fn with_observer(self, sightings: &LeaseObserver) -> Self {
        Self { observer: sightings.clone(), ..self }
    }

    /// Runs `work` while holding the lock. Waiting for a dead holder takes at most twice ten seconds; a live holder at
    /// most `timeout` plus a few seconds to confirm it is alive.
    pub async fn with_lock<W: Future>(
        &self,
        release: &str,
        timeout: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<W::Output, LockError> {
        let name = || release.to_owned();
        let (client, seen) = (self.client.clone(), self.observer.clone());
        let lock =
            LeaseElection::for_operation(client, &self.namespace, &lease_name(release), &self.holder, seen);
        match lock.run_scoped(timeout, work).await {
            Ok(done) => done.map_err(|_| LockError::Lost { name: name() }),
            Err(AcquireError::Held { holder, .. }) => {
                Err(LockError::Held { name: name(), holder: holder_name(&holder) })
            }
            Err(AcquireError::Api { source, .. }) => Err(LockError::Api { name: name(), source }),
            Err(AcquireError::Timeout { .. }) => Err(LockError::Timeout { name: name() }),
        }
    }
}

/// The holder name without the suffix that distinguishes its candidates.
fn holder_name(identity: &str) -> String {
    identity.rsplit_once('_').map_or(identity, |(holder, _)| holder).to_owned()
}
