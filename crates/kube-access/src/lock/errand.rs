//! A Lease for one errand: made for it, and removed after it.
//!
//! Leadership is waited for; an errand is not. Whoever finds somebody else at it wants to be told so, and by whom, but not
//! be sent away by the Lease of somebody who has died. So one waits until the holder has renewed it, which proves that it
//! lives, or until it has been silent for too long, and takes its place.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::{Attempt, CallError, Lock, Lost, Seen, Term, is_beaten, within};
use crate::judge::RENEW;

/// Why an errand was not begun.
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
    /// Does `work` while the Lease is held, and then removes it. If somebody else holds it and lives, one waits no
    /// longer than `patience`, and for as long as it takes to be sure of that.
    ///
    /// Whoever drops this future keeps the Lease until it runs out.
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
        // Mostly there is no Lease, and it is made without looking first.
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

    /// A renewal that was on its way when the work ended may arrive first. So what was written into the Lease meanwhile is
    /// looked at, and only one that is no longer ours stays.
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
