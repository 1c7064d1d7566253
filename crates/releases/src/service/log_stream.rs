//! Log streams of a release's containers, read with the caller's identity.
//!
//! Pods that start later are included, and so are workloads that an upgrade adds. The stream ends when the release is deleted.
//!
//! Invariants: the latest record is read before the first line of a container is shown, so that its values are masked. Nothing is read
//! without a consumer, and each user has a limited number of streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use domain::Actor;
use domain::roles::Capability;
use futures::{Stream, stream};
use helm_release::Record;
use kube_apply::logs::{LogEvent, LogFollower, LogOptions, LogSource, PodSelector, pod_selectors};
use kube_types::HelmRelease;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::Error;
use super::get::{record_mask, record_objects};
use super::logs::{LogQuery, MAX_LOG_LINES};
use crate::Releases;
use crate::values::SensitiveValues;

/// The default and the maximum number of containers that are followed concurrently.
pub const DEFAULT_FOLLOWED_CONTAINERS: usize = 20;
pub const MAX_FOLLOWED_CONTAINERS: usize = 50;
/// Maximum number of streams per user.
const MAX_STREAMS_PER_USER: usize = 10;
/// The number of recent revisions whose values are masked. Pods of older ones are gone.
const MAX_MASKED_REVISIONS: usize = 20;

/// Log line of a container, or the reason why none can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogLine {
    /// Name of the pod; empty if the entry concerns all pods.
    pub pod: String,
    pub container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Reason why no logs can be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Releases {
    /// Streams the logs of a release's containers, starting with the requested number of past lines. Follows at most `at_once`
    /// containers concurrently.
    pub async fn stream_logs(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        query: &LogQuery,
        at_once: usize,
    ) -> Result<impl Stream<Item = LogLine> + Send + use<>, Error> {
        if query.previous {
            return Err(Error::Invalid("`previous` and `follow` are mutually exclusive".to_owned()));
        }
        if at_once == 0 || at_once > MAX_FOLLOWED_CONTAINERS {
            return Err(Error::Invalid(format!("`max` must be 1 to {MAX_FOLLOWED_CONTAINERS}")));
        }
        let (record, release) = self.load_record(actor, namespace, name, None).await?;
        let was_there = release.is_some();
        let seat = self.inner().log_streams.acquire(actor)?;
        let options = LogOptions {
            pod: query.pod.clone(),
            container: query.container.clone(),
            selector: query.selector.clone(),
            tail: Some(query.tail_lines.unwrap_or(MAX_LOG_LINES).clamp(0, MAX_LOG_LINES)),
            since: query.since_seconds,
            timestamps: query.timestamps,
            previous: false,
            max_concurrent: at_once,
        };
        let client = self.inner().clients.impersonating(&self.impersonation_in(
            actor,
            Capability::ReadReleases,
            namespace,
        )?);
        let read = self.stream_record(namespace, record, release).await?;
        let ear = LogSubscription {
            releases: self.clone(),
            actor: actor.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            max_containers: at_once,
            had_release: was_there,
            masks: VecDeque::from([(read.record_id, read.mask)]),
            changes: self.watch_changes(),
            follower: LogFollower::follow(client, read.pods, options)
                .await
                .map_err(Error::from_impersonated_call)?,
            is_ended: false,
            _permit: seat,
        };
        Ok(stream::unfold(ear, |mut ear| async move { Some((ear.next().await?, ear)) }))
    }
}

/// The parts of a record that a log stream needs.
struct StreamRecord {
    record_id: (i64, String),
    pods: BTreeSet<PodSelector>,
    mask: SensitiveValues,
}

impl Releases {
    async fn stream_record(
        &self,
        namespace: &str,
        record: Record,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<StreamRecord, Error> {
        let home = namespace.to_owned();
        self.run_on_pool(namespace, record.bytes(), move || {
            let pods = pod_selectors(&record_objects(&record)?, &home);
            Ok(StreamRecord {
                record_id: record_id(&record),
                pods,
                mask: record_mask(&record, release.as_deref())?,
            })
        })
        .await
    }
}

/// Identifies a record. The time is included because revision numbers restart after a purge.
fn record_id(record: &Record) -> (i64, String) {
    (record.version, record.info.last_deployed.timestamp().map(|at| at.to_string()).unwrap_or_default())
}

/// State of one log stream.
struct LogSubscription {
    releases: Releases,
    actor: Actor,
    namespace: String,
    name: String,
    max_containers: usize,
    /// Whether the `HelmRelease` has existed, not only Helm records.
    had_release: bool,
    /// Masks of the records read so far.
    masks: VecDeque<((i64, String), SensitiveValues)>,
    changes: watch::Receiver<u64>,
    follower: LogFollower,
    is_ended: bool,
    _permit: StreamPermit,
}

impl LogSubscription {
    async fn next(&mut self) -> Option<LogLine> {
        loop {
            if self.is_ended {
                return None;
            }
            tokio::select! {
                Some(heard) = self.follower.next() => {
                    if let Some(line) = self.masked_line(heard).await {
                        return Some(line);
                    }
                }
                changed = self.changes.changed() => {
                    changed.ok()?;
                    if let Some(line) = self.on_release_change().await {
                        return Some(line);
                    }
                }
            }
        }
    }

    async fn masked_line(&mut self, heard: LogEvent) -> Option<LogLine> {
        let of = |source: &LogSource| LogLine {
            pod: source.pod.clone(),
            container: source.container.clone(),
            ..LogLine::default()
        };
        match heard {
            // The container may belong to a new revision.
            LogEvent::Started(_) => self.refresh().await,
            LogEvent::Line(source, line) => {
                let mask = |text: &str| {
                    self.masks.iter().fold(text.to_owned(), |text, (_, mask)| mask.mask_text(&text))
                };
                Some(LogLine { line: Some(line.masked(mask)), ..of(&source) })
            }
            LogEvent::Unreadable(source, why) => Some(LogLine { why, ..of(&source) }),
            LogEvent::LimitReached => {
                let why = format!(
                    "more than {} containers match; the others are followed when one of these ends",
                    self.max_containers
                );
                Some(LogLine { why, ..LogLine::default() })
            }
        }
    }

    /// Handles a change of any release: ends the stream if this release is gone, and reads the record of a new revision.
    async fn on_release_change(&mut self) -> Option<LogLine> {
        let release = self.releases.inner().releases.get_namespaced(&self.namespace, &self.name);
        match release {
            None if self.had_release => {
                self.is_ended = true;
                None
            }
            None => None,
            Some(release) => {
                self.had_release = true;
                let helm = release.status.as_ref().and_then(|status| status.helm.as_ref());
                let newest = self.masks.back().map(|((revision, _), _)| *revision);
                if helm.is_some_and(|helm| Some(helm.revision) != newest) {
                    self.refresh().await
                } else {
                    None
                }
            }
        }
    }

    /// Reads the latest record: its pods and its mask. The stream ends if that fails.
    async fn refresh(&mut self) -> Option<LogLine> {
        match self.read_latest_record().await {
            Ok(()) => None,
            Err(error) => {
                self.is_ended = true;
                Some(LogLine { why: error.to_string(), ..LogLine::default() })
            }
        }
    }

    async fn read_latest_record(&mut self) -> Result<(), Error> {
        let (record, release) =
            self.releases.load_record(&self.actor, &self.namespace, &self.name, None).await?;
        let made = record_id(&record);
        if self.masks.iter().any(|(known, _)| *known == made) {
            return Ok(());
        }
        let read = self.releases.stream_record(&self.namespace, record, release).await?;
        self.masks.push_back((read.record_id, read.mask));
        while self.masks.len() > MAX_MASKED_REVISIONS {
            self.masks.pop_front();
        }
        self.follower.add(read.pods);
        Ok(())
    }
}

/// Number of streams per user. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub(crate) struct StreamLimiter(Arc<Mutex<BTreeMap<String, usize>>>);

impl StreamLimiter {
    fn acquire(&self, actor: &Actor) -> Result<StreamPermit, Error> {
        let who = actor.impersonation().user().to_owned();
        let mut listening = self.0.lock();
        let taken = listening.entry(who.clone()).or_default();
        if *taken >= MAX_STREAMS_PER_USER {
            return Err(Error::TooManyLogStreams(MAX_STREAMS_PER_USER));
        }
        *taken = taken.saturating_add(1);
        Ok(StreamPermit { user: who, limiter: self.clone() })
    }
}

/// Permit of one stream.
struct StreamPermit {
    user: String,
    limiter: StreamLimiter,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut listening = self.limiter.0.lock();
        if let Some(taken) = listening.get_mut(&self.user) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                listening.remove(&self.user);
            }
        }
    }
}
