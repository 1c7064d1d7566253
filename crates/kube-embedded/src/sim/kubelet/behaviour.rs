//! Failures on demand for demos and tests: an annotation on a pod selects how the simulated kubelet runs it. Pure: no I/O, no clock.
//!
//! The annotation `sim.longshore.dev/behaviour` on a pod or pod template is a comma-separated list of directives for all its
//! containers except init containers. `sim.longshore.dev/behaviour.<container>` replaces that list for one container.

use jiff::SignedDuration;

use crate::control::view::Pod;

const ANNOTATION: &str = "sim.longshore.dev/behaviour";

/// One directive of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
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
pub(super) fn read(list: &str) -> (Vec<Word>, Vec<&str>) {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for word in words {
        match read_word(word) {
            Some(word) => known.push(word),
            None => unknown.push(word),
        }
    }
    (known, unknown)
}

fn read_word(word: &str) -> Option<Word> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    Some(match (name, value) {
        ("slow-ready", Some(time)) => Word::SlowReady(duration(time)?),
        ("never-ready", None) => Word::NeverReady,
        ("crash-loop", None) => Word::CrashLoop(1),
        ("crash-loop", Some(code)) => Word::CrashLoop(code.parse().ok()?),
        ("image-pull-fail", None) => Word::ImagePullFail,
        ("config-error", None) => Word::ConfigError,
        ("oom", Some(time)) => Word::OutOfMemory(duration(time)?),
        ("exit", Some(value)) => {
            let (code, time) = value.split_once('@').unwrap_or((value, "0s"));
            Word::Exit(code.parse().ok()?, duration(time)?)
        }
        ("unschedulable", None) => Word::Unschedulable,
        ("stuck-terminating", None) => Word::StuckTerminating,
        _ => return None,
    })
}

/// Parses a duration such as `20s`, `1m30s` or `500ms`.
fn duration(text: &str) -> Option<SignedDuration> {
    text.parse().ok().filter(|time: &SignedDuration| !time.is_negative())
}

fn of_pod(pod: &Pod) -> Vec<Word> {
    pod.metadata.annotations.get(ANNOTATION).map(|list| read(list).0).unwrap_or_default()
}

/// Returns the directives for one container. The pod's list does not apply to init containers.
pub(super) fn of_container(pod: &Pod, container: &str, is_init: bool) -> Vec<Word> {
    match pod.metadata.annotations.get(&format!("{ANNOTATION}.{container}")) {
        Some(list) => read(list).0,
        None if is_init => Vec::new(),
        None => of_pod(pod),
    }
}

/// Whether the pod has a behaviour annotation.
pub(super) fn is_asked(pod: &Pod) -> bool {
    pod.metadata.annotations.keys().any(|key| key.starts_with(ANNOTATION))
}

/// Returns the entries that are not valid directives.
pub(super) fn unknown(pod: &Pod) -> Vec<&str> {
    let lists = pod.metadata.annotations.iter().filter(|(key, _)| key.starts_with(ANNOTATION));
    lists.flat_map(|(_, list)| read(list).1).collect()
}

pub(in crate::sim) fn is_unschedulable(pod: &Pod) -> bool {
    of_pod(pod).contains(&Word::Unschedulable)
}

pub(super) fn is_stuck(pod: &Pod) -> bool {
    of_pod(pod).contains(&Word::StuckTerminating)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_and_others_are_named() {
        use Word::*;
        let seconds = SignedDuration::from_secs;
        let list = "slow-ready=20s, never-ready,crash-loop,crash-loop=3,image-pull-fail,config-error,oom=5s,\
                    exit=1@1m5s,exit=0,unschedulable,stuck-terminating,,bogus,slow-ready,exit=x,oom=soon";
        let (known, unknown) = read(list);
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
