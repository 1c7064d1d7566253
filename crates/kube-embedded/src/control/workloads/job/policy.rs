//! Pod failure policy and success policy of a Job.

#![warn(clippy::arithmetic_side_effects)]

use super::indexes::CompletionIndexes;
use super::view::{FailurePolicy, OnExitCodes, OnPodCondition, SuccessPolicy};
use crate::control::view::{Condition, ContainerStatus, Meta, Pod};

/// The effect of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureEffect {
    /// It counts towards the backoff limit.
    Count,
    Ignore,
    FailIndex,
    /// The whole Job fails, with this message.
    FailJob(String),
}

/// The first matching rule applies; without one a failure counts.
pub fn failure_effect(policy: Option<&FailurePolicy>, pod: &Pod) -> FailureEffect {
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    for (at, rule) in rules.iter().enumerate() {
        let fits = match &rule.on_exit_codes {
            Some(codes) => matching_exit_code(pod, codes),
            None => matching_condition(pod, &rule.on_pod_conditions),
        };
        if let Some(what) = fits {
            return match rule.action.as_str() {
                "Ignore" => FailureEffect::Ignore,
                "FailIndex" => FailureEffect::FailIndex,
                "FailJob" => FailureEffect::FailJob(format!("{what} matching FailJob rule at index {at}")),
                _ => FailureEffect::Count,
            };
        }
    }
    FailureEffect::Count
}

/// The message for the first container that failed with one of the exit codes.
fn matching_exit_code(pod: &Pod, codes: &OnExitCodes) -> Option<String> {
    let code = |container: &ContainerStatus| container.state["terminated"]["exitCode"].as_i64();
    let containers = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let mut failed = containers.filter_map(|container| Some((container.name.as_str(), code(container)?)));
    let (container, code) = failed.find(|(name, code)| {
        *code != 0
            && codes.container_name.as_deref().is_none_or(|asked| asked == *name)
            && match codes.operator.as_str() {
                "In" => codes.values.contains(code),
                "NotIn" => !codes.values.contains(code),
                _ => false,
            }
    })?;
    let Meta { namespace, name, .. } = &pod.metadata;
    Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"))
}

/// The message for the first condition that matches a pattern.
fn matching_condition(pod: &Pod, patterns: &[OnPodCondition]) -> Option<String> {
    let asked = |condition: &&Condition| {
        patterns.iter().any(|p| (&p.r#type, &p.status) == (&condition.r#type, &condition.status))
    };
    let found = pod.status.conditions.iter().find(asked)?;
    let Meta { namespace, name, .. } = &pod.metadata;
    Some(format!("Pod {namespace}/{name} has condition {}", found.r#type))
}

/// The message if the success policy is met.
pub fn success_message(
    policy: Option<&SuccessPolicy>,
    succeeded: &CompletionIndexes,
    completions: i64,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let at = policy?.rules.iter().position(|rule| match &rule.succeeded_indexes {
        Some(text) => {
            let asked = CompletionIndexes::parse(text, completions);
            let shared = asked.intersection_len(succeeded);
            !asked.is_empty()
                && (shared == asked.len() || rule.succeeded_count.is_some_and(|count| shared >= count))
        }
        None => rule.succeeded_count.is_some_and(|count| succeeded.len() >= count),
    })?;
    Some(format!("Matched rules at index {at}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        let metadata = json!({"namespace": "n", "name": "p"});
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn ended(name: &str, code: i64) -> Value {
        json!({"name": name, "state": {"terminated": {"exitCode": code}}})
    }

    #[test]
    fn first_matching_failure_rule_applies() {
        let policy: FailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42, 43]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0, 9]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},
        ]}))
        .unwrap();
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let misconfigured = json!([{"type": "ConfigIssue", "status": "True"}]);
        let codes = "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        let condition = "Pod n/p has condition ConfigIssue matching FailJob rule at index 4";
        for (status, expected) in [
            (json!({"conditions": disrupted, "containerStatuses": [ended("c", 42)]}), FailureEffect::Ignore),
            (json!({"containerStatuses": [ended("c", 42)]}), FailureEffect::FailJob(codes.to_owned())),
            (json!({"containerStatuses": [ended("d", 42)]}), FailureEffect::Count),
            (
                json!({"containerStatuses": [ended("c", 0)], "initContainerStatuses": [ended("i", 7)]}),
                FailureEffect::FailIndex,
            ),
            (
                json!({"conditions": misconfigured, "containerStatuses": [ended("c", 9)]}),
                FailureEffect::FailJob(condition.to_owned()),
            ),
            (json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}), FailureEffect::Count),
        ] {
            assert_eq!(failure_effect(Some(&policy), &pod(&status)), expected, "{status}");
        }
    }

    #[test]
    fn success_policy_is_met_by_enough_indexes() {
        let policy =
            |rules: Value| -> SuccessPolicy { serde_json::from_value(json!({"rules": rules})).unwrap() };
        let two = policy(json!([
            {"succeededIndexes": "9-11"}, {"succeededIndexes": "0,2-4", "succeededCount": 2}, {"succeededCount": 4}]));
        let some = |text: &str| Some(format!("Matched rules at index {text}"));
        for (succeeded, expected) in [
            ("", None),
            ("1,5,6", None),
            ("0", None),
            ("0,3", some("1")),
            ("1,5-7", some("2")),
            ("0-8", some("1")),
        ] {
            assert_eq!(
                success_message(Some(&two), &CompletionIndexes::parse(succeeded, 9), 9),
                expected,
                "{succeeded}"
            );
        }
        let all = policy(json!([{"succeededIndexes": "0-2"}]));
        assert_eq!(success_message(Some(&all), &CompletionIndexes::parse("0,1,3", 9), 9), None);
        assert_eq!(success_message(Some(&all), &CompletionIndexes::parse("0-2", 9), 9), some("0"));
        assert_eq!(success_message(None, &CompletionIndexes::parse("0-2", 9), 9), None);
    }
}
