//! A Deployment as its controller reads it, and its status.

#![warn(clippy::arithmetic_side_effects)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::view::Meta;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentSpec {
    pub replicas: i64,
    pub paused: bool,
    pub min_ready_seconds: i64,
    pub revision_history_limit: Option<i64>,
    pub progress_deadline_seconds: Option<i64>,
    pub strategy: DeploymentStrategy,
    pub selector: Value,
    pub template: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStrategy {
    pub r#type: String,
    pub rolling_update: RollingUpdateDeployment,
}

/// Numbers or percentages.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateDeployment {
    pub max_surge: Value,
    pub max_unavailable: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub replicas: i64,
    pub updated_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub unavailable_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<DeploymentCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentCondition {
    pub r#type: String,
    pub status: String,
    pub last_update_time: Option<Timestamp>,
    pub last_transition_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The largest `int32`; as a deadline or a limit it means none.
const NO_LIMIT: i64 = i32::MAX as i64;

impl Deployment {
    pub fn is_rolling(&self) -> bool {
        self.spec.strategy.r#type == "RollingUpdate"
    }

    /// `progressDeadlineSeconds`, if it limits.
    pub fn progress_deadline(&self) -> Option<i64> {
        self.spec.progress_deadline_seconds.filter(|seconds| *seconds != NO_LIMIT)
    }

    /// `revisionHistoryLimit`, if it limits.
    pub fn history_limit(&self) -> Option<i64> {
        self.spec.revision_history_limit.filter(|sets| *sets != NO_LIMIT)
    }

    /// How many pods may exist beyond the desired ones.
    pub fn max_surge(&self) -> i64 {
        if self.is_rolling() { self.fenceposts().0 } else { 0 }
    }

    /// How many of the desired pods may be unavailable.
    pub fn max_unavailable(&self) -> i64 {
        if self.is_rolling() { self.fenceposts().1.min(self.spec.replicas) } else { 0 }
    }

    /// Rounds a percentage of surge up and one of unavailability down. If both are zero, one pod may be unavailable,
    /// because a rollout must be able to start.
    fn fenceposts(&self) -> (i64, i64) {
        let RollingUpdateDeployment { max_surge, max_unavailable } = &self.spec.strategy.rolling_update;
        let surge = resolve_amount(max_surge, |percent| {
            percent.saturating_mul(self.spec.replicas).saturating_add(99) / 100
        });
        let unavailable =
            resolve_amount(max_unavailable, |percent| percent.saturating_mul(self.spec.replicas) / 100);
        if (surge, unavailable) == (0, 0) { (0, 1) } else { (surge, unavailable) }
    }

    /// The maximum number of pods.
    pub fn max_replicas(&self) -> i64 {
        self.spec.replicas.saturating_add(self.max_surge())
    }

    /// Whether all desired pods are updated and available, and no others exist.
    pub fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let DeploymentStatus { replicas, updated_replicas, available_replicas, observed_generation, .. } =
            status;
        [replicas, updated_replicas, available_replicas].iter().all(|count| **count == self.spec.replicas)
            && *observed_generation >= self.metadata.generation
    }
}

/// An integer, or the result of `of_percent` for a percentage.
pub fn resolve_amount(value: &Value, of_percent: impl Fn(i64) -> i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse().ok());
    percent.map(of_percent).or_else(|| value.as_i64()).unwrap_or_default()
}

impl DeploymentStatus {
    pub fn condition(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.conditions.iter().find(|condition| condition.r#type == kind)
    }

    /// Sets `condition`, unless its status and reason are unchanged. A changed condition moves to the end.
    pub fn set_condition(&mut self, mut condition: DeploymentCondition) {
        if let Some(before) = self.condition(&condition.r#type)
            && before.status == condition.status
        {
            if before.reason == condition.reason {
                return;
            }
            condition.last_transition_time = before.last_transition_time;
        }
        self.remove_condition(&condition.r#type);
        self.conditions.push(condition);
    }

    pub fn remove_condition(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.r#type != kind);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fenceposts_round_surge_up_and_unavailability_down_but_not_both_to_zero() {
        let posts = |surge: Value, unavailable: Value, replicas: i64| {
            let strategy = json!({"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
            let deployment: Deployment =
                serde_json::from_value(json!({"spec": {"replicas": replicas, "strategy": strategy}}))
                    .unwrap();
            (deployment.max_surge(), deployment.max_unavailable())
        };
        assert_eq!(posts(json!("25%"), json!("25%"), 10), (3, 2));
        assert_eq!(posts(json!("25%"), json!("25%"), 2), (1, 0));
        assert_eq!(posts(json!("0%"), json!("1%"), 2), (0, 1));
        assert_eq!(posts(json!(0), json!(5), 3), (0, 3));
        assert_eq!(posts(json!("100%"), json!(0), 4), (4, 0));
        assert_eq!(posts(json!("25%"), json!("25%"), 0), (0, 0));
    }
}
