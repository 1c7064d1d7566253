//! A DaemonSet as its controller reads it.

#![warn(clippy::arithmetic_side_effects)]

use serde::Deserialize;
use serde_json::Value;

use crate::control::view::Meta;
use crate::control::workloads::deployment::view::resolve_amount;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Meta,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetSpec {
    pub selector: Value,
    pub template: Value,
    pub update_strategy: DaemonSetUpdateStrategy,
    pub revision_history_limit: usize,
    pub min_ready_seconds: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetUpdateStrategy {
    pub r#type: String,
    pub rolling_update: RollingUpdateDaemonSet,
}

/// Numbers or percentages.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateDaemonSet {
    pub max_unavailable: Value,
    pub max_surge: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    pub collision_count: i64,
}

impl DaemonSet {
    /// Whether the strategy is `RollingUpdate`.
    pub fn is_rolling(&self) -> bool {
        self.spec.update_strategy.r#type == "RollingUpdate"
    }

    /// Returns `maxUnavailable` and `maxSurge` as numbers for `nodes` nodes. If both are zero, one pod may be unavailable;
    /// otherwise an update could not progress.
    pub fn allowance(&self, nodes: usize) -> (usize, usize) {
        let rolling = &self.spec.update_strategy.rolling_update;
        let of = i64::try_from(nodes).unwrap_or(i64::MAX);
        let rounded_up = |percent: i64| percent.saturating_mul(of).saturating_add(99) / 100;
        let count = |value| usize::try_from(resolve_amount(value, rounded_up)).unwrap_or_default();
        match (count(&rolling.max_unavailable), count(&rolling.max_surge)) {
            (0, 0) if nodes > 0 => (1, 0),
            allowance => allowance,
        }
    }

    /// Whether a node may have an old and a new pod for a while.
    pub fn has_surge(&self) -> bool {
        self.is_rolling() && self.allowance(1).1 > 0
    }

    /// The annotation that counts template changes, from before there were revisions.
    pub fn template_generation(&self) -> Option<&str> {
        let number = self.metadata.annotations.get(TEMPLATE_GENERATION)?;
        number.parse::<i64>().is_ok().then_some(number)
    }
}
