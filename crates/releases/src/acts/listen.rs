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
use kube_apply::logs::{Following, Heard, Pods, Source, Wish, pods_of};
use kube_types::HelmRelease;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;

use super::Error;
use super::logs::{LINES, Which};
use super::look::{objects, sensitive};
use crate::Releases;
use crate::values::Sensitive;

/// The default and the maximum number of containers that are followed concurrently.
pub const AT_ONCE: usize = 20;
pub const MOST_AT_ONCE: usize = 50;
/// Maximum number of streams per user.
const STREAMS: usize = 10;
/// The number of recent revisions whose values are masked. Pods of older ones are gone.
const REVISIONS: usize = 20;

/// A line of a container, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogLine {
    /// Empty where it is said of all.
    pub pod: String,
    pub container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Why nothing is heard.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Releases {
    /// Streams the logs of a release's containers, starting with the requested number of past lines. Follows at most `at_once` containers
    /// concurrently.
    pub async fn listen(
        &self,
        actor: &Actor,
        namespace: &str,
        name: &str,
        which: &Which,
        at_once: usize,
    ) -> Result<impl Stream<Item = LogLine> + Send + use<>, Error> {
        if which.previous {
            return Err(Error::Invalid("what ran before cannot be followed".to_owned()));
        }
        if at_once == 0 || at_once > MOST_AT_ONCE {
            return Err(Error::Invalid(format!("from 1 to {MOST_AT_ONCE} containers are followed at once")));
        }
        let (record, release) = self.record(actor, namespace, name, None).await?;
        let was_there = release.is_some();
        let seat = self.parts().listening.take(actor)?;
        let wish = Wish {
            pod: which.pod.clone(),
            container: which.container.clone(),
            selector: which.selector.clone(),
            tail: Some(which.tail.unwrap_or(LINES).clamp(0, LINES)),
            since: which.since,
            timestamps: which.timestamps,
            previous: false,
            at_once,
        };
        let client =
            self.parts().clients.acting_as(&self.acts_in(actor, Capability::ReadReleases, namespace)?);
        let read = self.heard(namespace, record, release).await?;
        let ear = Ear {
            releases: self.clone(),
            actor: actor.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            at_once,
            was_there,
            masks: VecDeque::from([(read.made, read.mask)]),
            changes: self.changes(),
            following: Following::follow(client, read.pods, wish).await.map_err(Error::of_caller)?,
            ended: false,
            _seat: seat,
        };
        Ok(stream::unfold(ear, |mut ear| async move { Some((ear.next().await?, ear)) }))
    }
}

/// The parts of a record that a log stream needs.
struct RecordRead {
    made: (i64, String),
    pods: BTreeSet<Pods>,
    mask: Sensitive,
}

impl Releases {
    async fn heard(
        &self,
        namespace: &str,
        record: Record,
        release: Option<Arc<HelmRelease>>,
    ) -> Result<RecordRead, Error> {
        let home = namespace.to_owned();
        self.examine(namespace, record.bytes(), move || {
            let pods = pods_of(&objects(&record)?, &home);
            Ok(RecordRead { made: made(&record), pods, mask: sensitive(&record, release.as_deref())? })
        })
        .await
    }
}

/// Identifies a record. The time is included because revision numbers restart after a purge.
fn made(record: &Record) -> (i64, String) {
    (record.version, record.info.last_deployed.at().map(|at| at.to_string()).unwrap_or_default())
}

/// State of one log stream.
struct Ear {
    releases: Releases,
    actor: Actor,
    namespace: String,
    name: String,
    at_once: usize,
    /// Whether the `HelmRelease` has existed, not only Helm records.
    was_there: bool,
    /// Masks of the records read so far.
    masks: VecDeque<((i64, String), Sensitive)>,
    changes: watch::Receiver<u64>,
    following: Following,
    ended: bool,
    _seat: Seat,
}

impl Ear {
    async fn next(&mut self) -> Option<LogLine> {
        loop {
            if self.ended {
                return None;
            }
            tokio::select! {
                Some(heard) = self.following.next() => {
                    if let Some(line) = self.shown(heard).await {
                        return Some(line);
                    }
                }
                changed = self.changes.changed() => {
                    changed.ok()?;
                    if let Some(line) = self.look().await {
                        return Some(line);
                    }
                }
            }
        }
    }

    async fn shown(&mut self, heard: Heard) -> Option<LogLine> {
        let of = |source: &Source| LogLine {
            pod: source.pod.clone(),
            container: source.container.clone(),
            ..LogLine::default()
        };
        match heard {
            // The container may belong to a new revision.
            Heard::Begun(_) => self.read().await,
            Heard::Line(source, line) => {
                let mask = |text: &str| {
                    self.masks.iter().fold(text.to_owned(), |text, (_, mask)| mask.mask_text(&text))
                };
                Some(LogLine { line: Some(line.shown(mask)), ..of(&source) })
            }
            Heard::Silent(source, why) => Some(LogLine { why, ..of(&source) }),
            Heard::Full => {
                let why = format!(
                    "there are more than the {} containers that are followed at once; the others follow when one of these ends",
                    self.at_once
                );
                Some(LogLine { why, ..LogLine::default() })
            }
        }
    }

    /// Handles a change of any release: ends the stream if this release is gone, and reads the record of a new revision.
    async fn look(&mut self) -> Option<LogLine> {
        let release = self.releases.parts().releases.get_in(&self.namespace, &self.name);
        match release {
            None if self.was_there => {
                self.ended = true;
                None
            }
            None => None,
            Some(release) => {
                self.was_there = true;
                let helm = release.status.as_ref().and_then(|status| status.helm.as_ref());
                let newest = self.masks.back().map(|((revision, _), _)| *revision);
                if helm.is_some_and(|helm| Some(helm.revision) != newest) { self.read().await } else { None }
            }
        }
    }

    /// Reads the latest record: its pods and its mask. The stream ends if that fails.
    async fn read(&mut self) -> Option<LogLine> {
        match self.learn().await {
            Ok(()) => None,
            Err(error) => {
                self.ended = true;
                Some(LogLine { why: error.to_string(), ..LogLine::default() })
            }
        }
    }

    async fn learn(&mut self) -> Result<(), Error> {
        let (record, release) = self.releases.record(&self.actor, &self.namespace, &self.name, None).await?;
        let made = made(&record);
        if self.masks.iter().any(|(known, _)| *known == made) {
            return Ok(());
        }
        let read = self.releases.heard(&self.namespace, record, release).await?;
        self.masks.push_back((read.made, read.mask));
        while self.masks.len() > REVISIONS {
            self.masks.pop_front();
        }
        self.following.also(read.pods);
        Ok(())
    }
}

/// Number of streams per user. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub(crate) struct Listening(Arc<Mutex<BTreeMap<String, usize>>>);

impl Listening {
    fn take(&self, actor: &Actor) -> Result<Seat, Error> {
        let who = actor.impersonation().user().to_owned();
        let mut listening = self.0.lock();
        let taken = listening.entry(who.clone()).or_default();
        if *taken >= STREAMS {
            return Err(Error::Listening(STREAMS));
        }
        *taken = taken.saturating_add(1);
        Ok(Seat { who, among: self.clone() })
    }
}

/// Permit of one stream.
struct Seat {
    who: String,
    among: Listening,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut listening = self.among.0.lock();
        if let Some(taken) = listening.get_mut(&self.who) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                listening.remove(&self.who);
            }
        }
    }
}
