//! Leader election and exclusive work by Lease.
//!
//! Callers pass in the work instead of asking whether they hold the Lease. The work starts when the Lease is acquired and is dropped
//! when it is lost. It is never polled after [`STEP_DOWN`], even if the whole process was stopped and resumes late. Each
//! [`Lock`] has an identity of its own, so two locks of one process exclude each other too.

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
use kube_types::marks::ERRAND;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::judge::{self, RENEW, RETRY, STEP_DOWN, Step};

mod errand;
mod sightings;
#[cfg(test)]
mod tests;

pub use errand::Missed;
pub use sightings::Sightings;

/// The Lease could not be renewed in time, or another candidate holds it.
#[derive(Debug, thiserror::Error)]
#[error("the lease `{lease}` was lost")]
pub struct Lost {
    pub lease: String,
}

/// Why an API call failed.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Refused(Box<kube::Error>),
    #[error("no answer in {RENEW:?}")]
    Silent,
}

/// A candidate for one Lease.
pub struct Lock {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    /// Observed Leases of other holders, if this is an operation Lease.
    errand: Option<Sightings>,
    /// Source of the informational timestamps in the Lease; no decision uses it.
    wall_clock: fn() -> Timestamp,
}

/// The Lease as last written by this candidate, and when that request was started.
struct Term {
    lease: Box<Lease>,
    begun: Instant,
}

/// Observed spec of a Lease, and since when it is unchanged.
#[derive(Clone)]
struct Seen {
    spec: Option<LeaseSpec>,
    since: Instant,
}

impl Seen {
    fn nothing() -> Self {
        Self { spec: None, since: Instant::now() }
    }
}

impl Lock {
    /// A candidate for the Lease `name`. `holder` prefixes the identity for readability and need not be unique.
    pub fn new(client: kube::Client, namespace: &str, name: &str, holder: &str) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{holder}_{}", Uuid::new_v4()),
            errand: None,
            wall_clock: Timestamp::now,
        }
    }

    /// A candidate for the Lease of one operation, which is labelled so that [`Sightings`] observes it.
    pub fn for_errand(
        client: kube::Client,
        namespace: &str,
        name: &str,
        holder: &str,
        sightings: Sightings,
    ) -> Self {
        Self { errand: Some(sightings), ..Self::new(client, namespace, name, holder) }
    }

    /// The holder identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Runs `work` from the start whenever this candidate is elected, until `stop` resolves; then releases the Lease.
    pub async fn lead<W>(mut self, mut work: impl FnMut() -> W, stop: impl Future<Output = ()>)
    where
        W: Future<Output = Infallible>,
    {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Err(lost) = self.hold(&mut work) => tracing::warn!("{lost}"),
            }
        }
        self.release().await;
    }

    /// Acquires the Lease, runs `work` while it is held, and releases it.
    ///
    /// Not cancel-safe: if the future is dropped, the Lease stays held until it expires.
    pub async fn hold<W: Future>(&mut self, work: impl FnOnce() -> W) -> Result<W::Output, Lost> {
        let mut term = self.acquire().await;
        let done = self.keep(&mut term, work()).await?;
        self.release().await;
        Ok(done)
    }

    async fn acquire(&self) -> Term {
        let mut seen = Seen::nothing();
        loop {
            match self.attempt(&mut seen).await {
                Ok(Attempt::Won(term)) => return term,
                Ok(Attempt::Beaten) => {}
                Ok(Attempt::Held { version, left }) => self.change(&version, left.min(RENEW)).await,
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot ask for the lease");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Reads the Lease once and takes it if it is free.
    async fn attempt(&self, seen: &mut Seen) -> Result<Attempt, CallError> {
        let found = self.read().await?;
        let spec = found.as_ref().and_then(|lease| lease.spec.clone());
        if seen.spec != spec {
            let holder = |spec: &Option<LeaseSpec>| spec.as_ref()?.holder_identity.clone();
            if let Some(other) = holder(&spec).filter(|_| holder(&spec) != holder(&seen.spec)) {
                tracing::info!(lease = self.name, holder = other, "the lease is held");
            }
            *seen = Seen { spec, since: Instant::now() };
        }
        let step = judge::next(seen.spec.as_ref(), &self.identity, seen.since.elapsed());
        if let Step::Wait(left) = step {
            let version = found.and_then(|lease| lease.metadata.resource_version).unwrap_or_default();
            return Ok(Attempt::Held { version, left });
        }
        Ok(self.write(found).await?.map_or(Attempt::Beaten, Attempt::Won))
    }

    /// Waits until the Lease changes, for at most `at_most`. If the watch fails, waits for the whole time.
    async fn change(&self, version: &str, at_most: Duration) {
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
    async fn keep<T>(&self, term: &mut Term, work: impl Future<Output = T>) -> Result<T, Lost> {
        let mut work = pin!(work);
        let lost = || Lost { lease: self.name.clone() };
        loop {
            // The deadline is polled first: after a late wake-up the work must not be polled again.
            tokio::select! {
                biased;
                () = until(term.begun + STEP_DOWN) => return Err(lost()),
                renewed = self.renewal(term) => *term = renewed.ok_or_else(lost)?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until the renewal is due and renews, with retries. `None` if another candidate holds the Lease.
    async fn renewal(&self, term: &Term) -> Option<Term> {
        sleep_until(term.begun + RENEW).await;
        loop {
            match self.renew(term).await {
                Ok(Renewal::Done(next)) => return Some(next),
                Ok(Renewal::Beaten) => {}
                Ok(Renewal::Over) => return None,
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot renew the lease");
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn renew(&self, term: &Term) -> Result<Renewal, CallError> {
        if let Some(next) = self.write(Some(Lease::clone(&term.lease))).await? {
            return Ok(Renewal::Done(next));
        }
        // It was changed or deleted since, perhaps by an administrator. This candidate may still be the holder.
        let found = self.read().await?;
        match judge::next(
            found.as_ref().and_then(|lease| lease.spec.as_ref()),
            &self.identity,
            Duration::ZERO,
        ) {
            Step::Create | Step::Renew => Ok(self.write(found).await?.map_or(Renewal::Beaten, Renewal::Done)),
            Step::Take | Step::Wait(_) => Ok(Renewal::Over),
        }
    }

    /// Releases the Lease if this candidate holds it.
    async fn release(&self) {
        if let Err(error) = self.try_release().await {
            tracing::warn!(lease = self.name, %error, "cannot give the lease back; it runs out by itself");
        }
    }

    async fn try_release(&self) -> Result<(), CallError> {
        let Some(mut lease) = self.read().await? else { return Ok(()) };
        let ours = |spec: &&mut LeaseSpec| spec.holder_identity.as_ref() == Some(&self.identity);
        if let Some(spec) = lease.spec.as_mut().filter(ours) {
            *spec = judge::released(spec, (self.wall_clock)());
            within(self.leases.replace(&self.name, &PostParams::default(), &lease)).await?;
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<Lease>, CallError> {
        within(self.leases.get_opt(&self.name)).await
    }

    /// Creates the Lease or replaces `found`, with this candidate as the holder. `None` if another write came first.
    async fn write(&self, found: Option<Lease>) -> Result<Option<Term>, CallError> {
        let begun = Instant::now();
        let exists = found.is_some();
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: self.errand.as_ref().map(|_| [(ERRAND.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.spec = Some(judge::held(lease.spec.as_ref(), &self.identity, (self.wall_clock)()));
        let params = PostParams::default();
        let written = if exists {
            // The object carries the resourceVersion that was read, so a concurrent change is a conflict.
            within(self.leases.replace(&self.name, &params, &lease)).await
        } else {
            within(self.leases.create(&params, &lease)).await
        };
        match written {
            Ok(lease) => Ok(Some(Term { lease: Box::new(lease), begun })),
            Err(CallError::Refused(error)) if is_beaten(&error, exists) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

enum Attempt {
    Won(Term),
    Beaten,
    Held { version: String, left: Duration },
}

enum Renewal {
    Done(Term),
    Beaten,
    Over,
}

/// Whether the Lease was changed, created or deleted since it was read.
fn is_beaten(error: &kube::Error, existed: bool) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || (existed && status.code == 404))
}

/// Limits a call to the renewal interval.
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(RENEW, call).await {
        Ok(answer) => answer.map_err(|error| CallError::Refused(Box::new(error))),
        Err(_) => Err(CallError::Silent),
    }
}

/// Resolves at `moment`. Also checks the clock, since a late timer may not have fired yet.
async fn until(moment: Instant) {
    let mut timer = pin!(sleep_until(moment));
    let resolve = |context: &mut Context<'_>| {
        if Instant::now() >= moment { Poll::Ready(()) } else { timer.as_mut().poll(context) }
    };
    poll_fn(resolve).await;
}
