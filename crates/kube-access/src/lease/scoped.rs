//! Exclusive operations: a Lease that is created for one operation and deleted after it.
//!
//! Unlike a leader candidate, a caller does not wait for a live holder: it gets an error that names the holder. The Lease of a dead
//! holder must not block it. So it waits until the holder renews, which proves that it is alive, or until the Lease expires, and then
//! takes it over.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::{
    AcquireAttempt, LeaseCallError, LeaseElection, LeaseLost, LeaseTerm, ObservedLease, is_conflict,
    with_timeout,
};
use crate::lease_rules::RENEW_INTERVAL;

/// Why an operation was not started.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    #[error("`{holder}` holds the lease `{lease}`")]
    Held { lease: String, holder: String },
    #[error("cannot acquire the lease `{lease}`")]
    Api { lease: String, source: Box<kube::Error> },
    #[error("the cluster does not answer to requests for the lease `{lease}`")]
    Timeout { lease: String },
}

impl LeaseElection {
    /// Acquires the Lease, runs `work`, and deletes the Lease. If a live holder has the Lease, fails after `patience`, or later if it takes
    /// longer to see that the holder is alive.
    ///
    /// Not cancel-safe: if the future is dropped, the Lease stays held until it expires.
    pub async fn run_scoped<W: Future>(
        &self,
        acquire_timeout: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<Result<W::Output, LeaseLost>, AcquireError> {
        let mut term = self.acquire_within(acquire_timeout).await?;
        let done = match self.run_and_renew(&mut term, work()).await {
            Ok(done) => done,
            Err(lost) => return Ok(Err(lost)),
        };
        self.delete_lease(term).await;
        Ok(Ok(done))
    }

    async fn acquire_within(&self, acquire_timeout: Duration) -> Result<LeaseTerm, AcquireError> {
        let missed = |error| match error {
            LeaseCallError::Api(source) => AcquireError::Api { lease: self.name.clone(), source },
            LeaseCallError::Timeout => AcquireError::Timeout { lease: self.name.clone() },
        };
        // Usually the Lease does not exist, so creating it comes first.
        if let Some(term) = self.write(None).await.map_err(missed)? {
            return Ok(term);
        }
        let begun = Instant::now();
        let cached = self.observer.as_ref().map(|sightings| sightings.observed(&self.namespace, &self.name));
        let mut observed = cached.unwrap_or_else(ObservedLease::absent);
        let mut first: Option<LeaseSpec> = None;
        loop {
            match self.try_acquire(&mut observed).await.map_err(missed)? {
                AcquireAttempt::Acquired(term) => return Ok(term),
                AcquireAttempt::Conflict => {}
                AcquireAttempt::Held { version, left } => {
                    let lives = first.is_some() && first != observed.spec;
                    if lives && begun.elapsed() >= acquire_timeout {
                        let holder = observed.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                        return Err(AcquireError::Held { lease: self.name.clone(), holder });
                    }
                    first = first.or_else(|| observed.spec.clone());
                    self.wait_for_change(&version, left.min(RENEW_INTERVAL)).await;
                }
            }
        }
    }

    async fn delete_lease(&self, term: LeaseTerm) {
        if let Err(error) = self.try_delete_lease(*term.lease).await {
            tracing::warn!(lease = self.name, %error, "cannot delete the lease; it will expire");
        }
    }

    /// Deletes the Lease if this candidate still holds it. A late renewal may have changed it since, so a conflict is followed by another
    /// read.
    async fn try_delete_lease(&self, lease: Lease) -> Result<(), LeaseCallError> {
        let holder = |lease: &Lease| lease.spec.as_ref()?.holder_identity.clone();
        let is_ours = |lease: &Lease| holder(lease).as_ref() == Some(&self.identity);
        let mut ours = Some(lease);
        while let Some(Lease { metadata, .. }) = ours {
            let seen = Preconditions { resource_version: metadata.resource_version, uid: metadata.uid };
            let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
            match with_timeout(self.leases.delete(&self.name, &params)).await {
                Err(LeaseCallError::Api(error)) if is_conflict(&error, true) => {
                    ours = self.read().await?.filter(is_ours);
                }
                gone => return gone.map(|_| ()),
            }
        }
        Ok(())
    }
}
