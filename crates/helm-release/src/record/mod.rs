//! The release record: one per revision, in Helm's format.
//!
//! The JSON format matches Helm 3.17, 3.22 and 4.3, which differ slightly. A record written by one of them is written
//! back with the same fields, so that an older Helm can read a newer record that we updated.
//!
//! Modules:
//!
//! - [`time`]: times as Go writes them
//! - [`chart`]: the chart inside a record
//! - [`hook`], hooks
//! - [`status`]: status of a revision
//! - [`codec`]: encoding and decoding
//!
//! Invariant: `Debug` output never shows values, manifests or notes. See also: `crate::storage` (Secrets),
//! `crate::storage::encode` (records that are too large).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod chart;
mod codec;
mod hook;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod wire;

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};

use helm_template::data::Members;
use serde::{Deserialize, Serialize};

pub use chart::{ChartMetadata, ChartRecord};
pub use codec::{DecodeError, EncodeError, MAX_UNPACKED};
pub(crate) use codec::{decompress, decompressed_bytes, gzip};
pub use hook::{HookPhase, HookRecord, LastRun};
pub use status::Status;
pub use time::HelmTime;

use wire::nothing;

/// One revision of a release.
#[derive(Clone, Default, PartialEq)]
pub struct Record {
    pub name: String,
    pub namespace: String,
    /// Revision number; the installation is 1.
    pub version: i64,
    pub info: RevisionInfo,
    pub chart: ChartRecord,
    /// Values given by the user.
    pub config: Members,
    /// All manifests that are not hooks, as a YAML stream.
    pub manifest: String,
    pub hooks: Vec<HookRecord>,
    /// User labels, stored on the Secret and not in the JSON.
    pub labels: BTreeMap<String, String>,
    /// How the objects were applied. `None` in records of Helm 3, which merges on the client.
    pub apply_method: Option<ApplyMethod>,
}

/// Status and times of a revision.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RevisionInfo {
    #[serde(skip_serializing_if = "HelmTime::is_absent", deserialize_with = "nothing")]
    pub first_deployed: HelmTime,
    #[serde(skip_serializing_if = "HelmTime::is_absent", deserialize_with = "nothing")]
    pub last_deployed: HelmTime,
    #[serde(skip_serializing_if = "HelmTime::is_absent", deserialize_with = "nothing")]
    pub deleted: HelmTime,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub description: String,
    #[serde(deserialize_with = "nothing")]
    pub status: Status,
    /// Helm 4: the revision that this rollback restored, or zero.
    #[serde(skip_serializing_if = "wire::is_zero", deserialize_with = "nothing")]
    pub rollback_revision: i64,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub notes: String,
}

/// How the objects of a revision were applied. Recorded since Helm 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMethod {
    /// Helm 3's three-way merge.
    ClientSide,
    ServerSide,
}

impl ApplyMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientSide => "csa",
            Self::ServerSide => "ssa",
        }
    }

    /// Parses as Helm 4 does: anything but server-side is client-side.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "ssa" => Some(Self::ServerSide),
            _ => Some(Self::ClientSide),
        }
    }
}

impl Record {
    pub fn set_status(&mut self, status: Status, description: impl Into<String>) {
        self.info.status = status;
        self.info.description = description.into();
    }
}

impl Record {
    /// Writes absent times as Helm 3 does, in a record in Helm 3's format.
    pub(crate) fn normalize_times(&mut self) {
        if self.apply_method.is_some() {
            return;
        }
        let info = [&mut self.info.first_deployed, &mut self.info.last_deployed, &mut self.info.deleted];
        let runs = self.hooks.iter_mut().map(|hook| &mut hook.last_run);
        let runs = runs.flat_map(|run| [&mut run.started_at, &mut run.completed_at]);
        for moment in info.into_iter().chain(runs).filter(|moment| moment.is_absent()) {
            *moment = HelmTime::Empty;
        }
    }
}

impl Debug for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("version", &self.version)
            .field("info", &self.info)
            .field("chart", &self.chart)
            .finish_non_exhaustive()
    }
}

impl Debug for RevisionInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Info")
            .field("status", &self.status)
            .field("last_deployed", &self.last_deployed)
            .finish_non_exhaustive()
    }
}
