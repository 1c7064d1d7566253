//! Release lock: at most one operation per release, by a Lease in the namespace of its records.
//!
//! When the Lease is lost, the running operation is dropped. Writes already sent are safe: every write of a record
//! carries the `resourceVersion` that was read.

use std::time::Duration;

use domain::failure::Kind;
use kube::Client;
use kube_access::{Lock, Missed, Sightings};

/// Why an operation under the release lock was not started or not finished.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("another operation on release `{name}` is in progress, by {holder}")]
    Busy { name: String, holder: String },
    /// The next operation on the release finishes the work.
    #[error("the work on release `{name}` was given up: its lease was lost")]
    Lost { name: String },
    #[error("cannot ask whether somebody works on release `{name}`")]
    Refused { name: String, source: Box<kube::Error> },
    #[error("the cluster does not say whether somebody works on release `{name}`")]
    Silent { name: String },
}

impl HoldError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Busy { .. } => Kind::Conflict,
            Self::Lost { .. } | Self::Silent { .. } => Kind::Unavailable,
            Self::Refused { source, .. } => match &**source {
                kube::Error::Api(status) => Kind::of_http_status(status.code),
                _ => Kind::Unavailable,
            },
        }
    }
}

/// Takes release locks in one namespace.
#[derive(Clone)]
pub struct Hold {
    client: Client,
    namespace: String,
    holder: String,
    sightings: Sightings,
}

/// Name of the Lease of a release.
pub fn lease_name(release: &str) -> String {
    format!("helm-{release}")
}

impl Hold {
    /// `holder` is the identity that waiting clients see.
    pub fn new(client: Client, namespace: &str, holder: &str) -> Self {
        let (namespace, holder) = (namespace.to_owned(), holder.to_owned());
        Self { client, namespace, holder, sightings: Sightings::default() }
    }

    /// Shares observed Leases between locks, which shortens the wait for a holder that was observed before.
    #[must_use]
    pub fn seeing(self, sightings: &Sightings) -> Self {
        Self { sightings: sightings.clone(), ..self }
    }

    /// Runs `work` while holding the lock. A dead holder is waited for at most twice ten seconds; a live holder at
    /// most `patience` plus a few seconds to confirm it is alive.
    pub async fn during<W: Future>(
        &self,
        release: &str,
        patience: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<W::Output, HoldError> {
        let name = || release.to_owned();
        let (client, seen) = (self.client.clone(), self.sightings.clone());
        let lock = Lock::for_errand(client, &self.namespace, &lease_name(release), &self.holder, seen);
        match lock.errand(patience, work).await {
            Ok(done) => done.map_err(|_| HoldError::Lost { name: name() }),
            Err(Missed::Busy { holder, .. }) => {
                Err(HoldError::Busy { name: name(), holder: person(&holder) })
            }
            Err(Missed::Refused { source, .. }) => Err(HoldError::Refused { name: name(), source }),
            Err(Missed::Silent { .. }) => Err(HoldError::Silent { name: name() }),
        }
    }
}

/// The holder name without the suffix that distinguishes its candidates.
fn person(identity: &str) -> String {
    identity.rsplit_once('_').map_or(identity, |(holder, _)| holder).to_owned()
}
