//! A StatefulSet as its controller reads it.

#![warn(clippy::arithmetic_side_effects)]

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;

use crate::control::view::Meta;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: Meta,
    pub spec: StatefulSetSpec,
    pub status: StatefulSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    pub replicas: i64,
    pub selector: Value,
    pub template: Value,
    pub service_name: String,
    pub volume_claim_templates: Vec<Value>,
    pub pod_management_policy: String,
    pub update_strategy: StatefulSetUpdateStrategy,
    pub revision_history_limit: usize,
    pub min_ready_seconds: i64,
    pub ordinals: Ordinals,
    pub persistent_volume_claim_retention_policy: ClaimRetentionPolicy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetUpdateStrategy {
    pub r#type: String,
    pub rolling_update: Option<RollingUpdateStatefulSet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RollingUpdateStatefulSet {
    pub partition: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    pub start: i64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRetentionPolicy {
    pub when_deleted: RetentionPolicy,
    pub when_scaled: RetentionPolicy,
}

/// Retention policy of claims.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum RetentionPolicy {
    #[default]
    Retain,
    Delete,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetStatus {
    pub current_revision: String,
    pub current_replicas: i64,
    pub collision_count: i64,
}

impl StatefulSet {
    /// The ordinals of the desired pods.
    pub fn ordinals(&self) -> Range<i64> {
        let start = self.spec.ordinals.start;
        start..start.saturating_add(self.spec.replicas)
    }

    /// Whether pods are managed one at a time, in order.
    pub fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy != "Parallel"
    }

    /// Whether the controller replaces pods of an old revision.
    pub fn is_rolling(&self) -> bool {
        self.spec.update_strategy.r#type != "OnDelete"
    }

    /// The lowest ordinal whose pod is replaced.
    pub fn first_updated(&self) -> i64 {
        let partition =
            self.spec.update_strategy.rolling_update.as_ref().map_or(0, |rolling| rolling.partition);
        self.spec.ordinals.start.saturating_add(partition)
    }

    /// Pods below this ordinal are created from the current revision. Without a partition that is the number of pods of the current
    /// revision, so that a pod lost during an update is created again from its old revision.
    pub fn first_created_from_update(&self) -> i64 {
        let strategy = &self.spec.update_strategy;
        match &strategy.rolling_update {
            None if strategy.r#type == "RollingUpdate" => {
                self.spec.ordinals.start.saturating_add(self.status.current_replicas)
            }
            _ => self.first_updated(),
        }
    }
}

/// Maximum ordinal: both start and replicas are 32-bit numbers.
const MAX_ORDINAL: i64 = 2 * 0x7fff_ffff;

/// Returns the ordinal in the name of a pod of `set`; `None` for other names.
pub fn ordinal_of(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let number = digits.parse::<i64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
    (number <= MAX_ORDINAL).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_belongs_to_a_set_by_its_name() {
        let cases = [
            ("db-0", Some(0)),
            ("db-12", Some(12)),
            ("db-2147483648", Some(1 << 31)),
            ("db-x-1", None),
            ("db", None),
            ("db-+1", None),
        ];
        for (pod, ordinal) in cases {
            assert_eq!(ordinal_of("db", pod), ordinal, "{pod}");
        }
        assert_eq!(ordinal_of("db", "db-9999999999"), None);
    }
}
