//! The subresource `log` of simulated containers: a note that they are simulated, the text of a pod annotation, start and end.
//!
//! Errors match kube-apiserver and kubelet. A followed log ends with the container.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{ResourceRequest, ResourceResponse};
use crate::access::{items, text};
use crate::clock::rfc3339;
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::query::{Query, parse_bool, parse_number};
use crate::store::{Key, Object, Watch};

/// Prefix of the annotation with a container's output; the container name follows.
const TEXT_ANNOTATION_PREFIX: &str = "sim.longshore.dev/log.";

/// Options of a log request.
#[derive(Clone, Debug, Default)]
struct PodLogOptions {
    container: String,
    follow: bool,
    previous: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl PodLogOptions {
    fn read(query: &Query, pod: &str, now: Timestamp) -> Result<Self> {
        let given = |key: &str| query.get(key).filter(|value| !value.is_empty());
        let number = |key: &str| given(key).map(parse_number).transpose().map_err(ApiError::bad_request);
        let is = |key: &str| given(key).is_some_and(parse_bool);
        let (tail, limit, seconds) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
        let time: Option<Timestamp> = given("sinceTime").and_then(|time| time.parse().ok());
        let mut errors = Vec::new();
        let mut at_least = |key: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(&Path::new(key), value, why));
            }
        };
        at_least("tailLines", tail, 0, "must be greater than or equal to 0");
        at_least("limitBytes", limit, 1, "must be greater than 0");
        if seconds.is_some() && given("sinceTime").is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&Path::new("[]"), why));
        } else {
            at_least("sinceSeconds", seconds, 1, "must be greater than 0");
        }
        if given("stream").is_some() {
            errors.push(FieldError::forbidden(&Path::new("stream"), "may not be specified"));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("", "PodLogOptions", pod, &errors));
        }
        let ago = seconds.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
        let size = |number: Option<i64>| number.and_then(|number| usize::try_from(number).ok());
        Ok(Self {
            container: given("container").unwrap_or_default().to_owned(),
            follow: is("follow"),
            previous: is("previous"),
            timestamps: is("timestamps"),
            since: time.or(ago),
            tail: size(tail),
            limit: size(limit),
        })
    }
}

/// Handles `GET .../pods/NAME/log`.
pub fn get_log(call: &ResourceRequest) -> Result<ResourceResponse> {
    let object = call.get_live()?;
    let mut options = PodLogOptions::read(&call.query, &call.name, call.cluster.clock().now())?;
    let pod = object.value();
    options.container = choose_container(&pod, &options.container)?;
    if text(&pod["spec"], "nodeName").is_empty() {
        return Ok(ResourceResponse::NoContent);
    }
    let instance = find_instance(&pod, &options)?;
    let mut lines = log_lines(&pod, &options.container, &instance);
    let known = lines.len();
    lines.retain(|(at, _)| options.since.is_none_or(|since| *at >= since));
    let skipped = options.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut printed = format_lines(&lines[skipped..], &options);
    if let Some(limit) = options.limit {
        printed.truncate(floor_char_boundary(&printed, limit));
    }
    if !options.follow || options.previous || options.limit.is_some_and(|limit| printed.len() >= limit) {
        return Ok(ResourceResponse::Text(printed));
    }
    let left = options.limit.map(|limit| limit - printed.len());
    // Changes after this version are not yet in the response.
    let watch = call.cluster.store().watch(&call.resource.storage, object.version);
    let Ok(watch) = watch else { return Ok(ResourceResponse::Text(printed)) };
    let options = PodLogOptions { limit: left, ..options };
    let key = call.key(&call.name);
    let (cluster, ended) = (call.cluster.clone(), is_terminated(&instance));
    let follower = PodLogFollower {
        cluster,
        key,
        uid: object.uid.clone(),
        watch,
        options,
        instance,
        lines_sent: known,
        is_terminated: ended,
    };
    let first = Some(Bytes::from(printed));
    Ok(ResourceResponse::Stream(Box::pin(stream::unfold(
        (first, follower),
        |(first, mut follower)| async move {
            let part = match first {
                Some(first) => first,
                None => follower.next().await?,
            };
            Some((part, (None, follower)))
        },
    ))))
}

/// Chooses the container.
fn choose_container(pod: &Value, asked: &str) -> Result<String> {
    let spec = &pod["spec"];
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let names: Vec<&str> =
        lists.iter().flat_map(|list| items(spec, list)).map(|container| text(container, "name")).collect();
    let pod = text(&pod["metadata"], "name");
    if !asked.is_empty() {
        return if names.contains(&asked) {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {pod}")))
        };
    }
    match items(spec, "containers") {
        [only] => Ok(text(only, "name").to_owned()),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            names.join(" ")
        ))),
    }
}

fn container_status(pod: &Value, container: &str) -> Option<Value> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| items(&pod["status"], list));
    statuses.find(|status| text(status, "name") == container).cloned()
}

/// State of the requested container instance, `running` or `terminated`, and its restart count.
struct ContainerInstance {
    state: Value,
    restarts: i64,
}

fn is_terminated(instance: &ContainerInstance) -> bool {
    instance.state["running"].is_null()
}

/// Finds the instance, or returns the error why there is no log.
fn find_instance(pod: &Value, options: &PodLogOptions) -> Result<ContainerInstance> {
    let (container, name) = (&options.container, text(&pod["metadata"], "name"));
    let refuse = |why: String| Err(ApiError::bad_request(why));
    let Some(status) = container_status(pod, container) else {
        return refuse(format!("container \"{container}\" in pod \"{name}\" is not available"));
    };
    let restarts = status["restartCount"].as_i64().unwrap_or(0);
    let (state, last) = (&status["state"], &status["lastState"]);
    let waits = !state["waiting"].is_null();
    if options.previous || (waits && !last["terminated"].is_null()) {
        if last["terminated"].is_null() {
            return refuse(format!(
                "previous terminated container \"{container}\" in pod \"{name}\" not found"
            ));
        }
        return Ok(ContainerInstance { state: last.clone(), restarts: restarts - i64::from(!waits) });
    }
    if !waits {
        return Ok(ContainerInstance { state: state.clone(), restarts });
    }
    let why = match text(&state["waiting"], "reason") {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    refuse(format!("container \"{container}\" in pod \"{name}\" is waiting to start: {why}"))
}

/// Returns the output with timestamps.
fn log_lines(pod: &Value, container: &str, instance: &ContainerInstance) -> Vec<(Timestamp, String)> {
    let time =
        |value: &Value| value.as_str().and_then(|time| time.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    let ended = &instance.state["terminated"];
    let running = &instance.state["running"];
    let begun = time(if ended.is_null() { &running["startedAt"] } else { &ended["startedAt"] });
    let ours = |line: String| format!("[kube-embedded] {line}");
    let mut lines = vec![(begun, ours(format!("container \"{container}\" is simulated: no process runs")))];
    lines.push((
        begun,
        ours(match instance.restarts {
            0 => "it started".to_owned(),
            times => format!("it started (restart {times})"),
        }),
    ));
    let printed = pod["metadata"]["annotations"][format!("{TEXT_ANNOTATION_PREFIX}{container}")].as_str();
    lines.extend(printed.into_iter().flat_map(str::lines).map(|line| (begun, line.to_owned())));
    if !ended.is_null() {
        let (code, reason) = (&ended["exitCode"], text(ended, "reason"));
        lines.push((time(&ended["finishedAt"]), ours(format!("it ended with code {code} ({reason})"))));
    }
    lines
}

fn format_lines(lines: &[(Timestamp, String)], options: &PodLogOptions) -> String {
    let print = |(at, line): &(Timestamp, String)| {
        if options.timestamps { format!("{} {line}\n", rfc3339(*at)) } else { format!("{line}\n") }
    };
    lines.iter().map(print).collect()
}

/// Returns the last char boundary at or before `limit`.
fn floor_char_boundary(text: &str, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// State of a followed log.
struct PodLogFollower {
    cluster: Cluster,
    key: Key,
    uid: Box<str>,
    watch: Watch,
    options: PodLogOptions,
    instance: ContainerInstance,
    /// Number of lines already sent.
    lines_sent: usize,
    is_terminated: bool,
}

impl PodLogFollower {
    /// Returns the next part; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_terminated && self.options.limit != Some(0) {
            let changes = tokio::select! {
                changes = self.watch.next() => changes.ok()?,
                () = self.cluster.wait_until_stopped() => return None,
            };
            let store = self.cluster.store();
            let is_ours = |pod: &Object| pod.name == self.key.name && pod.namespace == self.key.namespace;
            if !changes.iter().any(|change| is_ours(&change.object)) {
                continue;
            }
            let pod = store.get(&self.key.storage, &self.key.namespace, &self.key.name);
            let pod = pod.filter(|pod| pod.uid == self.uid)?;
            let part = self.new_lines(&pod);
            if !part.is_empty() {
                return Some(part);
            }
        }
        None
    }

    /// Returns new lines of the followed container.
    fn new_lines(&mut self, pod: &Arc<Object>) -> Bytes {
        let value = pod.value();
        let now = find_instance(&value, &self.options).ok();
        let previous = PodLogOptions { previous: true, ..self.options.clone() };
        let same = |found: &ContainerInstance| found.restarts == self.instance.restarts;
        let current = now.filter(same).or_else(|| find_instance(&value, &previous).ok().filter(same));
        let Some(current) = current else {
            // The container has restarted more than once since the last read.
            self.is_terminated = true;
            return Bytes::new();
        };
        let lines = log_lines(&value, &self.options.container, &current);
        let mut printed = format_lines(lines.get(self.lines_sent..).unwrap_or_default(), &self.options);
        self.lines_sent = self.lines_sent.max(lines.len());
        self.is_terminated = is_terminated(&current);
        if let Some(limit) = &mut self.options.limit {
            printed.truncate(floor_char_boundary(&printed, *limit));
            *limit -= printed.len();
        }
        printed.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "what is passed is written in place")]
    fn pod(statuses: Value) -> Value {
        json!({"metadata": {"name": "p", "annotations": {"sim.longshore.dev/log.c": "one\ntwo"}},
            "spec": {"containers": [{"name": "c"}]}, "status": {"containerStatuses": statuses}})
    }

    fn shown(pod: &Value, query: &str) -> String {
        let now = "2026-01-02T03:04:10Z".parse().unwrap();
        let read = || {
            let mut options = PodLogOptions::read(&Query::parse(query), "p", now)?;
            options.container = choose_container(pod, &options.container)?;
            let found = find_instance(pod, &options)?;
            Ok(format_lines(&log_lines(pod, &options.container, &found), &options))
        };
        read().unwrap_or_else(|error: ApiError| error.message)
    }

    #[test]
    fn log_shows_start_output_and_end_of_container() {
        let crashed = json!({"terminated": {"exitCode": 3, "reason": "Error",
            "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z"}});
        let running = json!({"running": {"startedAt": "2026-01-02T03:04:07Z"}});
        let again = pod(json!([{"name": "c", "restartCount": 1, "state": running, "lastState": crashed}]));
        let simulated = "[kube-embedded] container \"c\" is simulated: no process runs\n";
        assert_eq!(
            shown(&again, ""),
            format!("{simulated}[kube-embedded] it started (restart 1)\none\ntwo\n")
        );
        let previous = shown(&again, "previous=true&timestamps=true");
        assert!(previous.starts_with("2026-01-02T03:04:05Z [kube-embedded] container"), "{previous}");
        assert!(previous.ends_with("2026-01-02T03:04:06Z [kube-embedded] it ended with code 3 (Error)\n"));
        let waiting = |reason: &str| {
            pod(json!([{"name": "c", "state": {"waiting": {"reason": reason}}, "lastState": {}}]))
        };
        let table = [
            (
                waiting("ContainerCreating"),
                "",
                "container \"c\" in pod \"p\" is waiting to start: ContainerCreating",
            ),
            (
                waiting("ErrImagePull"),
                "",
                "container \"c\" in pod \"p\" is waiting to start: image can't be pulled",
            ),
            (waiting("x"), "previous=1", "previous terminated container \"c\" in pod \"p\" not found"),
            (waiting("x"), "container=d", "container d is not valid for pod p"),
            (pod(json!([])), "", "container \"c\" in pod \"p\" is not available"),
            (pod(json!([])), "tailLines=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            (
                pod(json!([])),
                "sinceSeconds=0&limitBytes=0",
                "PodLogOptions \"p\" is invalid: [limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]",
            ),
        ];
        for (pod, query, message) in table {
            assert_eq!(shown(&pod, query), message, "{query}");
        }
    }
}
