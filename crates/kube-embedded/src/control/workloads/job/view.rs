//! A Job as its controller reads it, and its status.

#![warn(clippy::arithmetic_side_effects)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::view::Meta;

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const SUSPENDED: &str = "Suspended";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    pub metadata: Meta,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    pub parallelism: i64,
    pub completions: Option<i64>,
    pub completion_mode: String,
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub ttl_seconds_after_finished: Option<i64>,
    pub suspend: bool,
    pub pod_failure_policy: Option<FailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    pub pod_replacement_policy: String,
    pub managed_by: Option<String>,
    pub selector: Value,
    pub template: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct FailurePolicy {
    pub rules: Vec<FailureRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureRule {
    pub action: String,
    pub on_exit_codes: Option<OnExitCodes>,
    pub on_pod_conditions: Vec<OnPodCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnExitCodes {
    pub container_name: Option<String>,
    pub operator: String,
    pub values: Vec<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OnPodCondition {
    pub r#type: String,
    pub status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    pub rules: Vec<SuccessRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessRule {
    pub succeeded_indexes: Option<String>,
    pub succeeded_count: Option<i64>,
}

/// Fields are absent or zero as Kubernetes writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
}

/// Pods (by uid) that have terminated and are not counted yet: each is recorded here before its finalizer is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct UncountedTerminatedPods {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCondition {
    pub r#type: String,
    pub status: String,
    pub last_probe_time: Option<Timestamp>,
    pub last_transition_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Job {
    /// The condition `Complete` or `Failed`, if it is true.
    pub fn finished_condition(&self) -> Option<&JobCondition> {
        let ended = |c: &&JobCondition| matches!(c.r#type.as_str(), COMPLETE | FAILED) && c.status == "True";
        self.status.conditions.iter().find(ended)
    }

    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }

    /// Whether a pod is replaced only after it has terminated, not when its deletion begins.
    pub fn replaces_only_finished(&self) -> bool {
        self.spec.pod_replacement_policy == "Failed" || self.spec.pod_failure_policy.is_some()
    }

    /// Whether another controller manages the Job (`managedBy`).
    pub fn is_managed_externally(&self) -> bool {
        self.spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller")
    }
}

impl JobStatus {
    /// The condition of a type, if it is true.
    pub fn true_condition(&self, kind: &str) -> Option<&JobCondition> {
        self.conditions.iter().find(|condition| condition.r#type == kind && condition.status == "True")
    }

    /// Sets a condition; a condition that does not exist is not set to `False`. Returns whether anything changed.
    pub fn set_condition(
        &mut self,
        kind: &str,
        holds: bool,
        (reason, message): (&str, &str),
        now: Timestamp,
    ) -> bool {
        let wanted = JobCondition {
            r#type: kind.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            last_probe_time: Some(now),
            last_transition_time: Some(now),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match self.conditions.iter_mut().find(|condition| condition.r#type == kind) {
            Some(found) => {
                let same = (&found.status, &found.reason, &found.message)
                    == (&wanted.status, &wanted.reason, &wanted.message);
                if !same {
                    *found = wanted;
                }
                !same
            }
            None if holds => {
                self.conditions.push(wanted);
                true
            }
            None => false,
        }
    }

    pub fn uncounted(&mut self) -> &mut UncountedTerminatedPods {
        self.uncounted_terminated_pods.get_or_insert_default()
    }
}

/// Times of objects have whole seconds.
pub fn truncate_to_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
