//! Failures on demand for demos and tests: an annotation on a pod selects how the simulated kubelet runs it. Pure: no I/O, no clock.
//!
//! The annotation `sim.longshore.dev/behaviour` on a pod or pod template is a comma-separated list of directives for all its
//! containers except init containers. `sim.longshore.dev/behaviour.<container>` replaces that list for one container.

use jiff::SignedDuration;

use crate::control::view::Pod;

const ANNOTATION: &str = "sim.longshore.dev/behaviour";

/// One directive of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    SlowReady(SignedDuration),
    NeverReady,
    /// The container exits with this code right after each start.
    CrashLoop(i64),
    ImagePullFail,
    ConfigError,
    OutOfMemory(SignedDuration),
    Exit(i64, SignedDuration),
    Unschedulable,
    StuckTerminating,
}

/// Parses a list into directives; the second part holds the entries that are not valid.
pub(super) fn parse_directives(list: &str) -> (Vec<Directive>, Vec<&str>) {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for word in words {
        match parse_directive(word) {
            Some(word) => known.push(word),
            None => unknown.push(word),
        }
    }
    (known, unknown)
}

fn parse_directive(word: &str) -> Option<Directive> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    Some(match (name, value) {
        ("slow-ready", Some(time)) => Directive::SlowReady(duration(time)?),
        ("never-ready", None) => Directive::NeverReady,
        ("crash-loop", None) => Directive::CrashLoop(1),
        ("crash-loop", Some(code)) => Directive::CrashLoop(code.parse().ok()?),
        ("image-pull-fail", None) => Directive::ImagePullFail,
        ("config-error", None) => Directive::ConfigError,
        ("oom", Some(time)) => Directive::OutOfMemory(duration(time)?),
        ("exit", Some(value)) => {
            let (code, time) = value.split_once('@').unwrap_or((value, "0s"));
            Directive::Exit(code.parse().ok()?, duration(time)?)
        }
        ("unschedulable", None) => Directive::Unschedulable,
        ("stuck-terminating", None) => Directive::StuckTerminating,
        _ => return None,
    })
}

/// Parses a duration such as `20s`, `1m30s` or `500ms`.
fn duration(text: &str) -> Option<SignedDuration> {
    text.parse().ok().filter(|time: &SignedDuration| !time.is_negative())
}

fn pod_directives(pod: &Pod) -> Vec<Directive> {
    pod.metadata.annotations.get(ANNOTATION).map(|list| parse_directives(list).0).unwrap_or_default()
}

/// Returns the directives for one container. The pod's list does not apply to init containers.
pub(super) fn container_directives(pod: &Pod, container: &str, is_init: bool) -> Vec<Directive> {
    match pod.metadata.annotations.get(&format!("{ANNOTATION}.{container}")) {
        Some(list) => parse_directives(list).0,
        None if is_init => Vec::new(),
        None => pod_directives(pod),
    }
}

/// Whether the pod has a behaviour annotation.
pub(super) fn has_behaviour(pod: &Pod) -> bool {
    pod.metadata.annotations.keys().any(|key| key.starts_with(ANNOTATION))
}

/// Returns the entries that are not valid directives.
pub(super) fn invalid_directives(pod: &Pod) -> Vec<&str> {
    let lists = pod.metadata.annotations.iter().filter(|(key, _)| key.starts_with(ANNOTATION));
    lists.flat_map(|(_, list)| parse_directives(list).1).collect()
}

pub(in crate::sim) fn is_unschedulable(pod: &Pod) -> bool {
    pod_directives(pod).contains(&Directive::Unschedulable)
}

pub(super) fn is_stuck(pod: &Pod) -> bool {
    pod_directives(pod).contains(&Directive::StuckTerminating)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_parsed_and_invalid_ones_reported() {
        use Directive::*;
        let seconds = SignedDuration::from_secs;
        let list = "slow-ready=20s, never-ready,crash-loop,crash-loop=3,image-pull-fail,config-error,oom=5s,\
                    exit=1@1m5s,exit=0,unschedulable,stuck-terminating,,bogus,slow-ready,exit=x,oom=soon";
        let (known, unknown) = parse_directives(list);
        let expected = [
            SlowReady(seconds(20)),
            NeverReady,
            CrashLoop(1),
            CrashLoop(3),
            ImagePullFail,
            ConfigError,
            OutOfMemory(seconds(5)),
            Exit(1, seconds(65)),
            Exit(0, seconds(0)),
            Unschedulable,
            StuckTerminating,
        ];
        assert_eq!(known, expected);
        assert_eq!(unknown, ["bogus", "slow-ready", "exit=x", "oom=soon"]);
    }
}
