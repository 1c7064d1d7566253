//! A release as Helm keeps it: one record for each revision.
//!
//! The JSON is Helm's own, of 3.17, 3.22 and 4.3, which differ in little: what one of them wrote comes out again as it went
//! in, so that an old Helm reads what a new one left and we touched. Modules: times as Go writes them ([`moment`]), the
//! chart inside a record ([`chart`]), hooks ([`hook`]), what a revision can be ([`status`]), and bytes ([`codec`]).
//!
//! Always true: nothing that shows a record for debugging shows values, manifests or notes.
//! Elsewhere: where records lie (`crate::storage`), what is done when one is too large (`crate::storage::fit`).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod chart;
mod codec;
mod hook;
mod moment;
mod status;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};

use helm_template::data::Members;
use serde::{Deserialize, Serialize};

pub use chart::{ChartHead, ChartRecord};
pub use codec::{DecodeError, EncodeError, MAX_UNPACKED};
pub(crate) use codec::{gzip, unpack, unpacked_bytes};
pub use hook::{HookRecord, LastRun, Phase};
pub use moment::Moment;
pub use status::Status;

use wire::nothing;

/// One revision of a release.
#[derive(Clone, Default, PartialEq)]
pub struct Record {
    pub name: String,
    pub namespace: String,
    /// The revision: 1 for the installation.
    pub version: i64,
    pub info: Info,
    pub chart: ChartRecord,
    /// What the user said.
    pub config: Members,
    /// All documents that are not hooks, as a stream of YAML.
    pub manifest: String,
    pub hooks: Vec<HookRecord>,
    /// The user's own labels. They are on the Secret and not in the JSON.
    pub labels: BTreeMap<String, String>,
    /// How it was applied; Helm 3 does not say, and merges on the client.
    pub apply_method: Option<ApplyMethod>,
}

/// What is known of a revision.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    #[serde(skip_serializing_if = "Moment::is_absent", deserialize_with = "nothing")]
    pub first_deployed: Moment,
    #[serde(skip_serializing_if = "Moment::is_absent", deserialize_with = "nothing")]
    pub last_deployed: Moment,
    #[serde(skip_serializing_if = "Moment::is_absent", deserialize_with = "nothing")]
    pub deleted: Moment,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub description: String,
    #[serde(deserialize_with = "nothing")]
    pub status: Status,
    /// Helm 4: the revision that this one went back to, or zero.
    #[serde(skip_serializing_if = "wire::is_zero", deserialize_with = "nothing")]
    pub rollback_revision: i64,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nothing")]
    pub notes: String,
}

/// How the objects of a release are written, since Helm 4.
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

    /// As Helm 4 reads it: what is not server-side is client-side.
    fn read(text: &str) -> Option<Self> {
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
    /// Writes the times that there are none of as Helm 3 does, in a record that is to look like one of Helm 3's.
    pub(crate) fn settle_moments(&mut self) {
        if self.apply_method.is_some() {
            return;
        }
        let info = [&mut self.info.first_deployed, &mut self.info.last_deployed, &mut self.info.deleted];
        let runs = self.hooks.iter_mut().map(|hook| &mut hook.last_run);
        let runs = runs.flat_map(|run| [&mut run.started_at, &mut run.completed_at]);
        for moment in info.into_iter().chain(runs).filter(|moment| moment.is_absent()) {
            *moment = Moment::Empty;
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

impl Debug for Info {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Info")
            .field("status", &self.status)
            .field("last_deployed", &self.last_deployed)
            .finish_non_exhaustive()
    }
}
