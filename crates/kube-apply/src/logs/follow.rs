//! The lines of several containers, one at a time: those that there are, or, followed, also those that come.
//!
//! A watch tells which pods there are. Each container that has begun is read once for each of its starts; whoever ends makes
//! room for one that waits. A log that breaks off while its container goes on is read on from there.

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

/// How long one waits before a log that broke off is asked for again.
const AGAIN: Duration = Duration::from_secs(2);
/// From so many seconds before it is read on: rather a line twice than none of it.
const BACK: i64 = 3;

/// What of them is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Of this pod only.
    pub pod: Option<String>,
    /// Of containers of this name only.
    pub container: Option<String>,
    /// Of pods with these labels only.
    pub selector: Option<String>,
    /// Of what is there already the last lines.
    pub tail: Option<i64>,
    /// Of what is there already not what is older than so many seconds.
    pub since: Option<i64>,
    pub timestamps: bool,
    /// Of the containers before their last restart; these cannot be followed.
    pub previous: bool,
    /// So many are read at the same time.
    pub at_once: usize,
}

/// Whose line it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// What is heard.
#[derive(Debug)]
pub enum Heard {
    /// The lines of this one follow. It has not been read yet.
    Begun(Arc<Source>),
    Line(Arc<Source>, Line),
    /// Why nothing is heard of it. It is tried again while that may help.
    Silent(Arc<Source>, String),
    /// There are more than are read at the same time; the others wait until one of these ends.
    Full,
}

/// One start of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Start {
    uid: String,
    restarts: i32,
}

/// What is known of a container.
struct Known {
    start: Start,
    /// It may print more.
    running: bool,
    /// What was said of it last instead of lines.
    told: String,
}

/// A start that is to be read.
struct Turn {
    source: Arc<Source>,
    start: Start,
    from: From,
}

#[derive(Clone, Copy)]
enum From {
    /// As much of what is there already as was wished.
    Wished,
    Beginning,
    /// Where it broke off.
    Lately,
}

type Reader = Box<dyn AsyncBufRead + Send + Unpin>;

/// What comes of reading.
enum Part {
    Line(Line),
    /// All is read, or it broke off.
    End,
    /// The cluster does not let it be read; it was to be read from there.
    Refused(kube::Error, From),
    /// It is time to try again.
    Due(From),
}

type Parts = BoxStream<'static, (Arc<Source>, Start, Part)>;
type Events = BoxStream<'static, (bool, Result<Event<Pod>, watcher::Error>)>;

/// Lines, as they come. It may be asked for the next, and the asking given up, at any time.
pub struct Following {
    client: Client,
    wish: Wish,
    follow: bool,
    watched: BTreeSet<Pods>,
    watches: SelectAll<Events>,
    known: BTreeMap<Source, Known>,
    waiting: VecDeque<Turn>,
    reading: SelectAll<Parts>,
    /// How many are read, or about to be tried again: a stream that has ended is among the others until it is asked once more.
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

    /// What these pods have printed, one container after the other.
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

    /// What these pods print, and those that come later. Fails where the cluster does not let their names be read.
    pub async fn follow(client: Client, pods: BTreeSet<Pods>, wish: Wish) -> Result<Self, kube::Error> {
        let mut following = Self::new(client, Wish { previous: false, ..wish }, true);
        for pods in &pods {
            following.list(pods, Some(1)).await?;
        }
        following.watch(pods, true);
        Ok(following)
    }

    /// Those pods, too. Of those whom it has heard already, nothing changes.
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

    /// Borrows nothing: what is followed is not shared between threads.
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

    /// The next, or nothing where there is nothing more to come.
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

    /// Lets the next one begin, where there is room.
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
            // It is tried again by itself.
            Err(error) => tracing::debug!(%error, "a watch of pods broke off"),
        }
    }

    /// Notes what a pod says of its containers.
    fn see(&mut self, pod: &Pod, from: From) {
        let name = pod.name_any();
        if self.wish.pod.as_ref().is_some_and(|wanted| *wanted != name) {
            return;
        }
        let status = pod.status.clone().unwrap_or_default();
        // What comes before the containers is heard only by its name.
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
            // Nothing of it has been heard.
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
        // Once is enough.
        if known.told == why {
            return None;
        }
        known.told.clone_from(&why);
        Some(Heard::Silent(source, why))
    }

    /// Whether this start of it may print more.
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

/// All lines, and then that it is over.
fn parts(reader: Reader) -> BoxStream<'static, Part> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match lines::next(&mut reader).await {
            Ok(Some(line)) => Some((Part::Line(line), Some(reader))),
            // One that breaks off is like one that ends: whether its container does, the watch says.
            Ok(None) | Err(_) => Some((Part::End, None)),
        }
    })
    .boxed()
}

/// Whether the container runs; `None` if it has never begun.
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

/// What the cluster says for itself.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => "the cluster does not answer".to_owned(),
    }
}
