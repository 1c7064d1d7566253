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

use super::PodSelector;
use super::lines::{self, RawLogLine};

/// Delay before a broken log stream is reopened.
const REOPEN_DELAY: Duration = Duration::from_secs(2);
/// A resumed stream starts this many seconds earlier: duplicate lines are better than lost ones.
const RESUME_OVERLAP_SECS: i64 = 3;

/// Options of reading logs.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
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
    pub max_concurrent: usize,
}

/// Container that wrote a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogSource {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Log event.
#[derive(Debug)]
pub enum LogEvent {
    /// Lines of this container follow; none was read yet.
    Started(Arc<LogSource>),
    Line(Arc<LogSource>, RawLogLine),
    /// The log cannot be read, with the reason. Retried while that may help.
    Unreadable(Arc<LogSource>, String),
    /// The limit of concurrent streams is reached; further containers wait until one ends.
    LimitReached,
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContainerRun {
    uid: String,
    restarts: i32,
}

/// State of a container.
struct ContainerState {
    run: ContainerRun,
    /// It may write more lines.
    is_running: bool,
    /// Last reported error.
    last_error: String,
}

/// A run that waits to be read.
struct PendingRead {
    source: Arc<LogSource>,
    run: ContainerRun,
    from: StartPosition,
}

#[derive(Clone, Copy)]
enum StartPosition {
    /// With the options' limits on existing lines.
    Configured,
    Beginning,
    /// Shortly before the point where it broke off.
    Resumed,
}

type LogReader = Box<dyn AsyncBufRead + Send + Unpin>;

/// Event of one log stream.
enum ReadEvent {
    Line(RawLogLine),
    /// Fully read, or broken off.
    End,
    /// The request was rejected; the start position it asked for.
    Rejected(kube::Error, StartPosition),
    /// The retry delay has passed.
    RetryDue(StartPosition),
}

type ReadEvents = BoxStream<'static, (Arc<LogSource>, ContainerRun, ReadEvent)>;
type PodEvents = BoxStream<'static, (bool, Result<Event<Pod>, watcher::Error>)>;

/// Log lines as they arrive. [`LogFollower::next`] is cancel-safe.
pub struct LogFollower {
    client: Client,
    options: LogOptions,
    follow: bool,
    selectors: BTreeSet<PodSelector>,
    watches: SelectAll<PodEvents>,
    containers: BTreeMap<LogSource, ContainerState>,
    pending: VecDeque<PendingRead>,
    streams: SelectAll<ReadEvents>,
    /// Streams being read or waiting for a retry. A finished stream is counted until it is polled again.
    active_streams: usize,
    is_limit_reported: bool,
}

impl LogFollower {
    fn new(client: Client, options: LogOptions, follow: bool) -> Self {
        Self {
            client,
            options,
            follow,
            selectors: BTreeSet::new(),
            watches: SelectAll::new(),
            containers: BTreeMap::new(),
            pending: VecDeque::new(),
            streams: SelectAll::new(),
            active_streams: 0,
            is_limit_reported: false,
        }
    }

    /// Reads the existing logs of these pods, one container after the other.
    pub async fn read_existing(
        client: Client,
        pods: BTreeSet<PodSelector>,
        options: LogOptions,
    ) -> Result<Self, kube::Error> {
        let mut once = Self::new(client, LogOptions { max_concurrent: 1, ..options }, false);
        for pods in pods {
            for pod in once.list_pods(&pods, None).await? {
                once.record_pod(&pod, StartPosition::Configured);
            }
        }
        once.is_limit_reported = true;
        Ok(once)
    }

    /// Follows the logs of these pods and of pods created later. Fails if the pods cannot be listed.
    pub async fn follow(
        client: Client,
        pods: BTreeSet<PodSelector>,
        options: LogOptions,
    ) -> Result<Self, kube::Error> {
        let mut following = Self::new(client, LogOptions { previous: false, ..options }, true);
        for pods in &pods {
            following.list_pods(pods, Some(1)).await?;
        }
        following.watch(pods, true);
        Ok(following)
    }

    /// Also follows these pods. Pods already followed are not affected.
    pub fn add(&mut self, pods: BTreeSet<PodSelector>) {
        self.watch(pods, false);
    }

    fn watch(&mut self, pods: BTreeSet<PodSelector>, first: bool) {
        for pods in pods {
            if self.selectors.insert(pods.clone()) {
                let mut config = watcher::Config::default().labels(&self.label_selector(&pods));
                if let Some(name) = &pods.name {
                    config = config.fields(&format!("metadata.name={name}"));
                }
                let events = watcher(self.pod_api(&pods.namespace), config).default_backoff();
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

    fn pod_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn label_selector(&self, pods: &PodSelector) -> String {
        let wished = self.options.selector.as_deref().unwrap_or_default();
        [pods.labels.as_str(), wished]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// The future borrows nothing: `LogFollower` is not `Sync`.
    fn list_pods(
        &self,
        pods: &PodSelector,
        limit: Option<u32>,
    ) -> impl Future<Output = Result<Vec<Pod>, kube::Error>> + Send + use<> {
        let mut params = ListParams { limit, ..ListParams::default() }.labels(&self.label_selector(pods));
        if let Some(name) = &pods.name {
            params = params.fields(&format!("metadata.name={name}"));
        }
        let api = self.pod_api(&pods.namespace);
        async move { Ok(api.list(&params).await?.items) }
    }

    /// The next event; `None` when there are no more.
    pub async fn next(&mut self) -> Option<LogEvent> {
        loop {
            if let Some(heard) = self.open_next() {
                return Some(heard);
            }
            tokio::select! {
                Some((is_old, event)) = self.watches.next() => self.handle_pod_event(is_old, event),
                Some((source, start, part)) = self.streams.next() => {
                    if let Some(heard) = self.handle_read_event(source, start, part) {
                        return Some(heard);
                    }
                }
                else => return None,
            }
        }
    }

    /// Opens the next waiting stream if the limit permits.
    fn open_next(&mut self) -> Option<LogEvent> {
        if self.pending.is_empty() {
            return None;
        }
        if self.active_streams >= self.options.max_concurrent.max(1) {
            return (!std::mem::replace(&mut self.is_limit_reported, true)).then_some(LogEvent::LimitReached);
        }
        let PendingRead { source, run: start, from } = self.pending.pop_front()?;
        self.open(&source, start, from);
        Some(LogEvent::Started(source))
    }

    fn handle_pod_event(&mut self, is_old: bool, event: Result<Event<Pod>, watcher::Error>) {
        match event {
            Ok(Event::InitApply(pod) | Event::Apply(pod)) => {
                self.record_pod(
                    &pod,
                    if is_old { StartPosition::Configured } else { StartPosition::Beginning },
                );
            }
            Ok(Event::Delete(pod)) => {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                let is_other = |source: &LogSource| source.namespace != namespace || source.pod != name;
                self.containers.retain(|source, _| is_other(source));
                self.pending.retain(|turn| is_other(&turn.source));
            }
            Ok(Event::Init | Event::InitDone) => {}
            // The watcher retries.
            Err(error) => tracing::debug!(%error, "watch of pods interrupted"),
        }
    }

    /// Records the container states of a pod.
    fn record_pod(&mut self, pod: &Pod, from: StartPosition) {
        let name = pod.name_any();
        if self.options.pod.as_ref().is_some_and(|wanted| *wanted != name) {
            return;
        }
        let status = pod.status.clone().unwrap_or_default();
        // Init containers are read only if named.
        let first = status.init_container_statuses.unwrap_or_default().into_iter();
        let first = first.filter(|status| self.options.container.as_ref() == Some(&status.name));
        let statuses: Vec<ContainerStatus> =
            first.chain(status.container_statuses.unwrap_or_default()).collect();
        for status in statuses {
            if self.options.container.as_ref().is_some_and(|wanted| *wanted != status.name) {
                continue;
            }
            let Some(running) = is_running(&status) else { continue };
            let source = LogSource {
                namespace: pod.namespace().unwrap_or_default(),
                pod: name.clone(),
                container: status.name,
            };
            let start = ContainerRun { uid: pod.uid().unwrap_or_default(), restarts: status.restart_count };
            match self.containers.get_mut(&source) {
                Some(known) if known.run == start => known.is_running = running,
                _ => {
                    let known =
                        ContainerState { run: start.clone(), is_running: running, last_error: String::new() };
                    self.containers.insert(source.clone(), known);
                    self.pending.push_back(PendingRead { source: Arc::new(source), run: start, from });
                }
            }
        }
    }

    fn handle_read_event(
        &mut self,
        source: Arc<LogSource>,
        start: ContainerRun,
        part: ReadEvent,
    ) -> Option<LogEvent> {
        let (error, from) = match part {
            ReadEvent::Line(line) => return Some(LogEvent::Line(source, line)),
            ReadEvent::RetryDue(from) => {
                self.active_streams -= 1;
                if self.may_write_more(&source, &start) {
                    self.open(&source, start, from);
                }
                return None;
            }
            ReadEvent::End => (None, StartPosition::Resumed),
            // No line was read.
            ReadEvent::Rejected(error, from) => (Some(error), from),
        };
        self.active_streams -= 1;
        let refused = matches!(&error, Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403));
        if self.follow && !refused && self.may_write_more(&source, &start) {
            let (of, start) = (source.clone(), start.clone());
            let due = async move {
                tokio::time::sleep(REOPEN_DELAY).await;
                (of, start, ReadEvent::RetryDue(from))
            };
            self.active_streams += 1;
            self.streams.push(stream::once(due).boxed());
        }
        let why = error.map(|error| message(&error))?;
        let known = self.containers.get_mut(&*source).filter(|known| known.run == start)?;
        // Report a repeated error once.
        if known.last_error == why {
            return None;
        }
        known.last_error.clone_from(&why);
        Some(LogEvent::Unreadable(source, why))
    }

    /// Whether this run may write more lines.
    fn may_write_more(&self, source: &LogSource, start: &ContainerRun) -> bool {
        self.containers.get(source).is_some_and(|known| known.run == *start && known.is_running)
    }

    fn open(&mut self, source: &Arc<LogSource>, start: ContainerRun, from: StartPosition) {
        let LogOptions { tail, since, timestamps, previous, .. } = self.options;
        let mut params = LogParams {
            container: Some(source.container.clone()),
            follow: self.follow,
            previous,
            timestamps,
            ..LogParams::default()
        };
        match from {
            StartPosition::Configured => (params.tail_lines, params.since_seconds) = (tail, since),
            StartPosition::Beginning => {}
            StartPosition::Resumed => params.since_seconds = Some(RESUME_OVERLAP_SECS),
        }
        let (api, pod) = (self.pod_api(&source.namespace), source.pod.clone());
        let opened = async move {
            match api.log_stream(&pod, &params).await {
                Ok(reader) => read_events(Box::new(reader) as LogReader),
                Err(error) => stream::iter([ReadEvent::Rejected(error, from)]).boxed(),
            }
        };
        self.active_streams += 1;
        let source = source.clone();
        let parts = stream::once(opened).flatten();
        self.streams.push(parts.map(move |part| (source.clone(), start.clone(), part)).boxed());
    }
}

/// All lines, then the end.
fn read_events(reader: LogReader) -> BoxStream<'static, ReadEvent> {
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match lines::read_line(&mut reader).await {
            Ok(Some(line)) => Some((ReadEvent::Line(line), Some(reader))),
            // A broken stream is treated as ended; the watch shows whether the container ended.
            Ok(None) | Err(_) => Some((ReadEvent::End, None)),
        }
    })
    .boxed()
}

/// Whether the container runs; `None` if it has not started.
fn is_running(status: &ContainerStatus) -> Option<bool> {
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
fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => "the cluster does not answer".to_owned(),
    }
}
