//! One operation per release: a Lease in its namespace, beside its records, while somebody works on it.
//!
//! Work whose Lease is lost is dropped where it stands. What it may have sent by then is judged by the cluster: every
//! write of a record carries the version that was read.

use std::time::Duration;

use domain::failure::Kind;
use kube::Client;
use kube_access::{Lock, Missed, Sightings};

/// Why work on a release was not done, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    #[error("another operation on release `{name}` is in progress, by {holder}")]
    Busy { name: String, holder: String },
    /// What was done so far is for whoever comes next to bring to an end.
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

/// Who works on releases of a namespace, and by which client the Leases are written.
#[derive(Clone)]
pub struct Hold {
    client: Client,
    namespace: String,
    holder: String,
    sightings: Sightings,
}

/// The Lease of a release.
pub fn lease_name(release: &str) -> String {
    format!("helm-{release}")
}

impl Hold {
    /// `holder` is what others are told of us while they wait.
    pub fn new(client: Client, namespace: &str, holder: &str) -> Self {
        let (namespace, holder) = (namespace.to_owned(), holder.to_owned());
        Self { client, namespace, holder, sightings: Sightings::default() }
    }

    /// Nobody is waited for longer than needed who was seen before.
    #[must_use]
    pub fn seeing(self, sightings: &Sightings) -> Self {
        Self { sightings: sightings.clone(), ..self }
    }

    /// Does `work` while nobody else works on the release. Somebody who has died is waited for, at most twice ten
    /// seconds; for somebody who lives one waits no longer than `patience`, and a few seconds to be sure.
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

/// Without what tells two candidates of one holder apart.
fn person(identity: &str) -> String {
    identity.rsplit_once('_').map_or(identity, |(holder, _)| holder).to_owned()
}
