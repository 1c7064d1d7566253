//! A hook inside a record.

use std::fmt::{Debug, Formatter};

use helm_engine::{Hook, HookEvent};
use serde::{Deserialize, Serialize};

use super::time::HelmTime;
use super::wire::{self, nothing};

/// A hook and the result of its last run.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRecord {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub kind: String,
    /// Path of the template.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub path: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub manifest: String,
    /// Helm's event names; query with [`HookRecord::runs_at`].
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nothing")]
    pub events: Vec<String>,
    #[serde(deserialize_with = "nothing")]
    pub last_run: LastRun,
    #[serde(skip_serializing_if = "wire::is_zero", deserialize_with = "nothing")]
    pub weight: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nothing")]
    pub delete_policies: Vec<String>,
    /// Since Helm 3.18.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nothing")]
    pub output_log_policies: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRun {
    #[serde(skip_serializing_if = "HelmTime::is_absent", deserialize_with = "nothing")]
    pub started_at: HelmTime,
    #[serde(skip_serializing_if = "HelmTime::is_absent", deserialize_with = "nothing")]
    pub completed_at: HelmTime,
    #[serde(deserialize_with = "nothing")]
    pub phase: HookPhase,
}

/// Result of a hook's last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookPhase {
    /// Never ran.
    #[default]
    #[serde(rename = "")]
    Never,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

impl HookRecord {
    pub fn runs_at(&self, event: HookEvent) -> bool {
        self.events.iter().any(|name| name == event.name())
    }
}

impl From<&Hook> for HookRecord {
    fn from(hook: &Hook) -> Self {
        let texts = |texts: &[helm_template::value::Str]| texts.iter().map(ToString::to_string).collect();
        Self {
            name: hook.name.to_string(),
            kind: hook.kind.to_string(),
            path: hook.source.to_string(),
            manifest: String::from_utf8_lossy(&hook.content).into_owned(),
            events: hook.events.iter().map(|event| event.name().to_owned()).collect(),
            last_run: LastRun::default(),
            weight: hook.weight,
            delete_policies: texts(&hook.delete_policies),
            output_log_policies: texts(&hook.output_log_policies),
        }
    }
}

/// Omits the manifest, which may contain secrets.
impl Debug for HookRecord {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookRecord")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("events", &self.events)
            .field("last_run", &self.last_run)
            .finish_non_exhaustive()
    }
}
