//! Log lines of several containers, one at a time: existing lines, and new ones when following.
//!
//! A watch lists the pods. Each run of a container is read once; when one ends, the next waiting one is opened. A log
//! stream that breaks while its container runs is resumed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll};
use futures::{AsyncBufRead, StreamExt};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{ListParams, LogParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};

use super::Pods;
use super::lines::{self, Line};

/// Delay before a broken log stream is reopened.
const AGAIN: Duration = Duration::from_secs(2);
/// A resumed stream starts this many seconds earlier: duplicate lines are better than lost ones.
const BACK: i64 = 3;

/// Options of reading logs.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Only this pod.
    pub pod: Option<String>,
    /// Only containers of this name.
    pub container: Option<String>,
    /// Only pods with these labels.
    pub selector: Option<String>,
    /// Last lines of the existing log.
    pub tail: Option<i64>,
    /// Maximum age of existing lines in seconds.
    pub since: Option<i64>,
    pub timestamps: bool,
    /// Logs of the previous run of each container; cannot be followed.
    pub previous: bool,
    /// Maximum concurrent streams.
    pub at_once: usize,
}

/// Container that wrote a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Log event.
#[derive(Debug)]
pub enum Heard {
    /// Lines of this container follow; none was read yet.
    Begun(Arc<Source>),
    Line(Arc<Source>, Line),
    /// The log cannot be read, with the reason. Retried while that may help.
    Silent(Arc<Source>, String),
    /// The limit of concurrent streams is reached; further containers wait until one ends.
    Full,
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    uid: String,
    restarts: i32,
}

/// State of a container.
struct Known {
    start: Start,
    /// It may write more lines.
    running: bool,
    /// Last reported error.
    told: String,
}

/// A run that waits to be read.
struct Turn {
    source: Arc<Source>,
    start: Start,
    from: From,
}

#[derive(Clone, Copy)]
enum From {
    /// With the options' limits on existing lines.
    Wished,
    Beginning,
    /// Shortly before the point where it broke off.
    Lately,
}

type Reader = Box<dyn AsyncBufRead + Send + Unpin>;

/// Event of one log stream.
enum Part {
    Line(Line),
    /// Fully read, or broken off.
    End,
    /// The request was rejected; the start position it asked for.
    Refused(kube::Error, From),
    /// The retry delay has passed.
    Due(From),
}

type Parts = BoxStream<'static, (Arc<Source>, Start, Part)>;
type Events = BoxStream<'static, (bool, Result<Event<Pod>, watcher::Error>)>;

/// Log lines as they arrive. [`Following::next`] is cancel-safe.
pub struct Following {
    client: Client,
    wish: Wish,
    follow: bool,
    watched: BTreeSet<Pods>,
    watches: SelectAll<Events>,
    known: BTreeMap<Source, Known>,
    waiting: VecDeque<Turn>,
    reading: SelectAll<Parts>,
    /// Streams being read or waiting for a retry. A finished stream stays in `reading` until polled again.
    busy: usize,
    told_full: bool,
}

impl Following {
    fn new(client: Client, wish: Wish, follow: bool) -> Self {
        Self {
            client,
            wish,
            follow,
            watched: BTreeSet::new(),
            watches: SelectAll::new(),
            known: BTreeMap::new(),
            waiting: VecDeque::new(),
            reading: SelectAll::new(),
            busy: 0,
            told_full: false,
        }
    }

    /// Reads the existing logs of these pods, one container after the other.
    pub async fn once(client: Client, pods: BTreeSet<Pods>, wish: Wish) -> Result<Self, kube::Error> {
        let mut once = Self::new(client, Wish { at_once: 1, ..wish }, false);
        for pods in pods {
            for pod in once.list(&pods, None).await? {
                once.see(&pod, From::Wished);
            }
        }
        once.told_full = true;
        Ok(once)
    }

    /// Follows the logs of these pods and of pods created later. Fails if the pods cannot be listed.
    pub async fn follow(client: Client, pods: BTreeSet<Pods>, wish: Wish) -> Result<Self, kube::Error> {
        let mut following = Self::new(client, Wish { previous: false, ..wish }, true);
        for pods in &pods {
            following.list(pods, Some(1)).await?;
        }
        following.watch(pods, true);
        Ok(following)
    }

    /// Also follows these pods. Pods already followed are not affected.
    pub fn also(&mut self, pods: BTreeSet<Pods>) {
        self.watch(pods, false);
    }

    fn watch(&mut self, pods: BTreeSet<Pods>, first: bool) {
        for pods in pods {
            if self.watched.insert(pods.clone()) {
                let mut config = watcher::Config::default().labels(&self.labels(&pods));
                if let Some(name) = &pods.name {
                    config = config.fields(&format!("metadata.name={name}"));
                }
                let events = watcher(self.pods(&pods.namespace), config).default_backoff();
                let mut listing = first;
                let events = events.map(move |event| {
                    let is_old = listing;
                    listing &= !matches!(event, Ok(Event::InitDone));
                    (is_old, event)
                });
                self.watches.push(events.boxed());
            }
        }
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn labels(&self, pods: &Pods) -> String {
        let wished = self.wish.selector.as_deref().unwrap_or_default();
        [pods.labels.as_str(), wished]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The future borrows nothing: `Following` is not `Sync`.
    fn list(
        &self,
        pods: &Pods,
        limit: Option<u32>,
    ) -> impl Future<Output = Result<Vec<Pod>, kube::Error>> + Send + use<> {
        let mut params = ListParams { limit, ..ListParams::default() }.labels(&self.labels(pods));
        if let Some(name) = &pods.name {
            params = params.fields(&format!("metadata.name={name}"));
        }
        let api = self.pods(&pods.namespace);
        async move { Ok(api.list(&params).await?.items) }
    }

    /// The next event; `None` when there are no more.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            if let Some(heard) = self.turn() {
                return Some(heard);
            }
            tokio::select! {
                Some((is_old, event)) = self.watches.next() => self.hear(is_old, event),
                Some((source, start, part)) = self.reading.next() => {
                    if let Some(heard) = self.read(source, start, part) {
                        return Some(heard);
                    }
                }
                else => return None,
            }
        }
    }

    /// Opens the next waiting stream if the limit permits.
    fn turn(&mut self) -> Option<Heard> {
        if self.waiting.is_empty() {
            return None;
        }
        if self.busy >= self.wish.at_once.max(1) {
            return (!std::mem::replace(&mut self.told_full, true)).then_some(Heard::Full);
        }
        let Turn { source, start, from } = self.waiting.pop_front()?;
        self.open(&source, start, from);
        Some(Heard::Begun(source))
    }

    fn hear(&mut self, is_old: bool, event: Result<Event<Pod>, watcher::Error>) {
        match event {
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                self.see(&pod, if is_old { From::Wished } else { From::Beginning });
            }
            Ok(Event::Delete(pod)) => {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                let is_other = |source: &Source| source.namespace != namespace || source.pod != name;
                self.known.retain(|source, _| is_other(source));
                self.waiting.retain(|turn| is_other(&turn.source));
            }
            Ok(Event::Init | Event::InitDone) => {}
            // The watcher retries.
            Err(error) => tracing::debug!(%error, "a watch of pods broke off"),
        }
    }

    /// Records the container states of a pod.
    fn see(&mut self, pod: &Pod, from: From) {
        let name = pod.name_any();
        if self.wish.pod.as_ref().is_some_and(|wanted| *wanted != name) {
            return;
        }
        let status = pod.status.clone().unwrap_or_default();
        // Init containers are read only if named.
        let first = status.init_container_statuses.unwrap_or_default().into_iter();
        let first = first.filter(|status| self.wish.container.as_ref() == Some(&status.name));
        let statuses: Vec<ContainerStatus> =
            first.chain(status.container_statuses.unwrap_or_default()).collect();
        for status in statuses {
            if self.wish.container.as_ref().is_some_and(|wanted| *wanted != status.name) {
                continue;
            }
            let Some(running) = has_begun(&status) else { continue };
            let source = Source {
                namespace: pod.namespace().unwrap_or_default(),
                pod: name.clone(),
                container: status.name,
            };
            let start = Start { uid: pod.uid().unwrap_or_default(), restarts: status.restart_count };
            match self.known.get_mut(&source) {
                Some(known) if known.start == start => known.running = running,
                _ => {
                    let known = Known { start: start.clone(), running, told: String::new() };
                    self.known.insert(source.clone(), known);
                    self.waiting.push_back(Turn { source: Arc::new(source), start, from });
                }
            }
        }
    }

    fn read(&mut self, source: Arc<Source>, start: Start, part: Part) -> Option<Heard> {
        let (error, from) = match part {
            Part::Line(line) => return Some(Heard::Line(source, line)),
            Part::Due(from) => {
                self.busy -= 1;
                if self.is_open(&source, &start) {
                    self.open(&source, start, from);
                }
                return None;
            }
            Part::End => (None, From::Lately),
            // No line was read.
            Part::Refused(error, from) => (Some(error), from),
        };
        self.busy -= 1;
        let refused = matches!(&error, Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403));
        if self.follow && !refused && self.is_open(&source, &start) {
            let (of, start) = (source.clone(), start.clone());
            let due = async move {
                tokio::time::sleep(AGAIN).await;
                (of, start, Part::Due(from))
            };
            self.busy += 1;
            self.reading.push(stream::once(due).boxed());
        }
        let why = error.map(|error| words(&error))?;
        let known = self.known.get_mut(&*source).filter(|known| known.start == start)?;
        // Report a repeated error once.
        if known.told == why {
            return None;
        }
        known.told.clone_from(&why);
        Some(Heard::Silent(source, why))
    }

    /// Whether this run may write more lines.
    fn is_open(&self, source: &Source, start: &Start) -> bool {
        self.known.get(source).is_some_and(|known| known.start == *start && known.running)
    }

    fn open(&mut self, source: &Arc<Source>, start: Start, from: From) {
        let Wish { tail, since, timestamps, previous, .. } = self.wish;
        let mut params = LogParams {
            container: Some(source.container.clone()),
            follow: self.follow,
            previous,
            timestamps,
            ..LogParams::default()
        };
        match from {
            From::Wished => (params.tail_lines, params.since_seconds) = (tail, since),
            From::Beginning => {}
            From::Lately => params.since_seconds = Some(BACK),
        }
        let (api, pod) = (self.pods(&source.namespace), source.pod.clone());
        let opened = async move {
            match api.log_stream(&pod, &params).await {
                Ok(reader) => parts(Box::new(reader) as Reader),
                Err(error) => stream::iter([Part::Refused(error, from)]).boxed(),
            }
        };
        self.busy += 1;
        let source = source.clone();
        let parts = stream::once(opened).flatten();
        self.reading.push(parts.map(move |part| (source.clone(), start.clone(), part)).boxed());
    }
}

/// All lines, then the end.
fn parts(reader: Reader) -> BoxStream<'static, Part> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match lines::next(&mut reader).await {
            Ok(Some(line)) => Some((Part::Line(line), Some(reader))),
            // A broken stream is treated as ended; the watch shows whether the container ended.
            Ok(None) | Err(_) => Some((Part::End, None)),
        }
    })
    .boxed()
}

/// Whether the container runs; `None` if it has not started.
fn has_begun(status: &ContainerStatus) -> Option<bool> {
    let state = status.state.clone().unwrap_or_default();
    let ended = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    if state.running.is_some() {
        Some(true)
    } else if state.terminated.is_some() || ended(&status.last_state) {
        Some(false)
    } else {
        None
    }
}

/// The API server's own message.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => "the cluster does not answer".to_owned(),
    }
}
