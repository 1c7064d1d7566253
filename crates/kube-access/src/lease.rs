//! Leader election and exclusive work by Lease.
//!
//! Callers pass in the work instead of asking whether they hold the Lease. The work starts when the Lease is acquired and is dropped
//! when it is lost. It is never polled after [`RENEW_DEADLINE`], even if the whole process was stopped and resumes late. Each
//! [`LeaseElection`] has an identity of its own, so two locks of one process exclude each other too.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::core::ObjectMeta;
use kube_types::well_known::OPERATION_LEASE;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::lease_rules::{self, LeaseDecision, RENEW_DEADLINE, RENEW_INTERVAL, RETRY_PERIOD};

mod observer;
mod scoped;
#[cfg(test)]
mod tests;

pub use observer::LeaseObserver;
pub use scoped::AcquireError;

/// The Lease could not be renewed in time, or another candidate holds it.
#[derive(Debug, thiserror::Error)]
#[error("the lease `{lease}` was lost")]
pub struct LeaseLost {
    pub lease: String,
}

/// Why an API call failed.
#[derive(Debug, thiserror::Error)]
enum LeaseCallError {
    #[error(transparent)]
    Api(Box<kube::Error>),
    #[error("no answer in {RENEW_INTERVAL:?}")]
    Timeout,
}

/// A candidate for one Lease.
pub struct LeaseElection {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    /// Observed Leases of other holders, if this is an operation Lease.
    observer: Option<LeaseObserver>,
    /// Source of the informational timestamps in the Lease; no decision uses it.
    wall_clock: fn() -> Timestamp,
}

/// The Lease as last written by this candidate, and when that request was started.
struct LeaseTerm {
    lease: Box<Lease>,
    renewed_at: Instant,
}

/// Observed spec of a Lease, and since when it is unchanged.
#[derive(Clone)]
struct ObservedLease {
    spec: Option<LeaseSpec>,
    unchanged_since: Instant,
}

impl ObservedLease {
    fn absent() -> Self {
        Self { spec: None, unchanged_since: Instant::now() }
    }
}

impl LeaseElection {
    /// A candidate for the Lease `name`. `holder` prefixes the identity for readability and need not be unique.
    pub fn new(client: kube::Client, namespace: &str, name: &str, holder: &str) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{holder}_{}", Uuid::new_v4()),
            observer: None,
            wall_clock: Timestamp::now,
        }
    }

    /// A candidate for the Lease of one operation, which is labelled so that [`LeaseObserver`] observes it.
    pub fn for_operation(
        client: kube::Client,
        namespace: &str,
        name: &str,
        holder: &str,
        observer: LeaseObserver,
    ) -> Self {
        Self { observer: Some(observer), ..Self::new(client, namespace, name, holder) }
    }

    /// The holder identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Runs `work` from the start whenever this candidate is elected, until `stop` resolves; then releases the Lease.
    pub async fn run_as_leader<W>(mut self, mut work: impl FnMut() -> W, stop: impl Future<Output = ()>)
    where
        W: Future<Output = Infallible>,
    {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Err(lost) = self.run_while_held(&mut work) => tracing::warn!("{lost}"),
            }
        }
        self.release().await;
    }

    /// Acquires the Lease, runs `work` while it is held, and releases it.
    ///
    /// Not cancel-safe: if the future is dropped, the Lease stays held until it expires.
    pub async fn run_while_held<W: Future>(
        &mut self,
        work: impl FnOnce() -> W,
    ) -> Result<W::Output, LeaseLost> {
        let mut term = self.acquire().await;
        let done = self.run_and_renew(&mut term, work()).await?;
        self.release().await;
        Ok(done)
    }

    async fn acquire(&self) -> LeaseTerm {
        let mut seen = ObservedLease::absent();
        loop {
            match self.try_acquire(&mut seen).await {
                Ok(AcquireAttempt::Acquired(term)) => return term,
                Ok(AcquireAttempt::Conflict) => {}
                Ok(AcquireAttempt::Held { version, left }) => {
                    self.wait_for_change(&version, left.min(RENEW_INTERVAL)).await;
                }
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot acquire the lease");
                    sleep(RETRY_PERIOD).await;
                }
            }
        }
    }

    /// Reads the Lease once and takes it if it is free.
    async fn try_acquire(&self, observed: &mut ObservedLease) -> Result<AcquireAttempt, LeaseCallError> {
        let found = self.read().await?;
        let spec = found.as_ref().and_then(|lease| lease.spec.clone());
        if observed.spec != spec {
            let holder = |spec: &Option<LeaseSpec>| spec.as_ref()?.holder_identity.clone();
            if let Some(other) = holder(&spec).filter(|_| holder(&spec) != holder(&observed.spec)) {
                tracing::info!(lease = self.name, holder = other, "the lease is held by another candidate");
            }
            *observed = ObservedLease { spec, unchanged_since: Instant::now() };
        }
        let step =
            lease_rules::decide(observed.spec.as_ref(), &self.identity, observed.unchanged_since.elapsed());
        if let LeaseDecision::Wait(left) = step {
            let version = found.and_then(|lease| lease.metadata.resource_version).unwrap_or_default();
            return Ok(AcquireAttempt::Held { version, left });
        }
        Ok(self.write(found).await?.map_or(AcquireAttempt::Conflict, AcquireAttempt::Acquired))
    }

    /// Waits until the Lease changes, for at most `at_most`. If the watch fails, waits for the whole time.
    async fn wait_for_change(&self, version: &str, at_most: Duration) {
        let one = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let changed = async {
            if let Ok(events) = self.leases.watch(&one, version).await {
                let mut events = pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if !matches!(event, WatchEvent::Bookmark(_) | WatchEvent::Error(_)) {
                        return;
                    }
                }
            }
            pending::<()>().await;
        };
        // The caller reads the Lease again after a change or a timeout.
        let _ = timeout(at_most, changed).await;
    }

    /// Runs `work` while the Lease can be renewed.
    async fn run_and_renew<T>(
        &self,
        term: &mut LeaseTerm,
        work: impl Future<Output = T>,
    ) -> Result<T, LeaseLost> {
        let mut work = pin!(work);
        let lost = || LeaseLost { lease: self.name.clone() };
        loop {
            // The deadline is polled first: after a late wake-up the work must not be polled again.
            tokio::select! {
                biased;
                () = wait_until(term.renewed_at + RENEW_DEADLINE) => return Err(lost()),
                renewed = self.renew_when_due(term) => *term = renewed.ok_or_else(lost)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until the renewal is due and renews, with retries. `None` if another candidate holds the Lease.
    async fn renew_when_due(&self, term: &LeaseTerm) -> Option<LeaseTerm> {
        sleep_until(term.renewed_at + RENEW_INTERVAL).await;
        loop {
            match self.renew(term).await {
                Ok(RenewResult::Renewed(next)) => return Some(next),
                Ok(RenewResult::Conflict) => {}
                Ok(RenewResult::Lost) => return None,
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot renew the lease");
                    sleep(RETRY_PERIOD).await;
                }
            }
        }
    }

    async fn renew(&self, term: &LeaseTerm) -> Result<RenewResult, LeaseCallError> {
        if let Some(next) = self.write(Some(Lease::clone(&term.lease))).await? {
            return Ok(RenewResult::Renewed(next));
        }
        // It was changed or deleted since, perhaps by an administrator. This candidate may still be the holder.
        let found = self.read().await?;
        match lease_rules::decide(
            found.as_ref().and_then(|lease| lease.spec.as_ref()),
            &self.identity,
            Duration::ZERO,
        ) {
            LeaseDecision::Create | LeaseDecision::Renew => {
                Ok(self.write(found).await?.map_or(RenewResult::Conflict, RenewResult::Renewed))
            }
            LeaseDecision::Take | LeaseDecision::Wait(_) => Ok(RenewResult::Lost),
        }
    }

    /// Releases the Lease if this candidate holds it.
    async fn release(&self) {
        if let Err(error) = self.try_release().await {
            tracing::warn!(lease = self.name, %error, "cannot release the lease; it will expire");
        }
    }

    async fn try_release(&self) -> Result<(), LeaseCallError> {
        let Some(mut lease) = self.read().await? else { return Ok(()) };
        let ours = |spec: &&mut LeaseSpec| spec.holder_identity.as_ref() == Some(&self.identity);
        if let Some(spec) = lease.spec.as_mut().filter(ours) {
            *spec = lease_rules::released_spec(spec, (self.wall_clock)());
            with_timeout(self.leases.replace(&self.name, &PostParams::default(), &lease)).await?;
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<Lease>, LeaseCallError> {
        with_timeout(self.leases.get_opt(&self.name)).await
    }

    /// Creates the Lease or replaces `found`, with this candidate as the holder. `None` if another write came first.
    async fn write(&self, found: Option<Lease>) -> Result<Option<LeaseTerm>, LeaseCallError> {
        let begun = Instant::now();
        let exists = found.is_some();
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: self
                    .observer
                    .as_ref()
                    .map(|_| [(OPERATION_LEASE.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.spec = Some(lease_rules::held_spec(lease.spec.as_ref(), &self.identity, (self.wall_clock)()));
        let params = PostParams::default();
        let written = if exists {
            // The object carries the resourceVersion that was read, so a concurrent change is a conflict.
            with_timeout(self.leases.replace(&self.name, &params, &lease)).await
        } else {
            with_timeout(self.leases.create(&params, &lease)).await
        };
        match written {
            Ok(lease) => Ok(Some(LeaseTerm { lease: Box::new(lease), renewed_at: begun })),
            Err(LeaseCallError::Api(error)) if is_conflict(&error, exists) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

enum AcquireAttempt {
    Acquired(LeaseTerm),
    Conflict,
    Held { version: String, left: Duration },
}

enum RenewResult {
    Renewed(LeaseTerm),
    Conflict,
    Lost,
}

/// Whether the Lease was changed, created or deleted since it was read.
fn is_conflict(error: &kube::Error, existed: bool) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || (existed && status.code == 404))
}

/// Limits a call to the renewal interval.
async fn with_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseCallError> {
    match timeout(RENEW_INTERVAL, call).await {
        Ok(answer) => answer.map_err(|error| LeaseCallError::Api(Box::new(error))),
        Err(_) => Err(LeaseCallError::Timeout),
    }
}

/// Resolves at `deadline`. Also checks the clock, since a late timer may not have fired yet.
async fn wait_until(deadline: Instant) {
    let mut timer = pin!(sleep_until(deadline));
    let resolve = |context: &mut Context<'_>| {
        if Instant::now() >= deadline { Poll::Ready(()) } else { timer.as_mut().poll(context) }
    };
    poll_fn(resolve).await;
}
