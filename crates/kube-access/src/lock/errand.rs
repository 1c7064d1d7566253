//! Exclusive operations: a Lease that is created for one operation and deleted after it.
//!
//! Unlike a leader candidate, a caller does not wait for a live holder: it gets an error that names the holder. The Lease of a dead
//! holder must not block it. So it waits until the holder renews, which proves that it is alive, or until the Lease expires, and then
//! takes it over.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::{Attempt, CallError, Lock, Lost, Seen, Term, is_beaten, within};
use crate::judge::RENEW;

/// Why an operation was not started.
#[derive(Debug, thiserror::Error)]
pub enum Missed {
    #[error("`{holder}` holds the lease `{lease}`")]
    Busy { lease: String, holder: String },
    #[error("cannot ask for the lease `{lease}`")]
    Refused { lease: String, source: Box<kube::Error> },
    #[error("the cluster does not answer for the lease `{lease}`")]
    Silent { lease: String },
}

impl Lock {
    /// Acquires the Lease, runs `work`, and deletes the Lease. If a live holder has the Lease, fails after `patience`, or later if it takes
    /// longer to see that the holder is alive.
    ///
    /// Not cancel-safe: if the future is dropped, the Lease stays held until it expires.
    pub async fn errand<W: Future>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<Result<W::Output, Lost>, Missed> {
        let mut term = self.begin(patience).await?;
        let done = match self.keep(&mut term, work()).await {
            Ok(done) => done,
            Err(lost) => return Ok(Err(lost)),
        };
        self.remove(term).await;
        Ok(Ok(done))
    }

    async fn begin(&self, patience: Duration) -> Result<Term, Missed> {
        let missed = |error| match error {
            CallError::Refused(source) => Missed::Refused { lease: self.name.clone(), source },
            CallError::Silent => Missed::Silent { lease: self.name.clone() },
        };
        // Usually the Lease does not exist, so creating it comes first.
        if let Some(term) = self.write(None).await.map_err(missed)? {
            return Ok(term);
        }
        let begun = Instant::now();
        let seen = self.errand.as_ref().map(|sightings| sightings.of(&self.namespace, &self.name));
        let mut seen = seen.unwrap_or_else(Seen::nothing);
        let mut first: Option<LeaseSpec> = None;
        loop {
            match self.attempt(&mut seen).await.map_err(missed)? {
                Attempt::Won(term) => return Ok(term),
                Attempt::Beaten => {}
                Attempt::Held { version, left } => {
                    let lives = first.is_some() && first != seen.spec;
                    if lives && begun.elapsed() >= patience {
                        let holder = seen.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                        return Err(Missed::Busy { lease: self.name.clone(), holder });
                    }
                    first = first.or_else(|| seen.spec.clone());
                    self.change(&version, left.min(RENEW)).await;
                }
            }
        }
    }

    async fn remove(&self, term: Term) {
        if let Err(error) = self.try_remove(*term.lease).await {
            tracing::warn!(lease = self.name, %error, "cannot remove the lease; it runs out by itself");
        }
    }

    /// Deletes the Lease if this candidate still holds it. A late renewal may have changed it since, so a conflict is followed by another
    /// read.
    async fn try_remove(&self, lease: Lease) -> Result<(), CallError> {
        let holder = |lease: &Lease| lease.spec.as_ref()?.holder_identity.clone();
        let is_ours = |lease: &Lease| holder(lease).as_ref() == Some(&self.identity);
        let mut ours = Some(lease);
        while let Some(Lease { metadata, .. }) = ours {
            let seen = Preconditions { resource_version: metadata.resource_version, uid: metadata.uid };
            let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
            match within(self.leases.delete(&self.name, &params)).await {
                Err(CallError::Refused(error)) if is_beaten(&error, true) => {
                    ours = self.read().await?.filter(is_ours);
                }
                gone => return gone.map(|_| ()),
            }
        }
        Ok(())
    }
}
