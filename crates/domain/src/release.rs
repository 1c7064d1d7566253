//! States of a release.
//!
//! [`STATE_TABLE`] describes every state; controllers, HTTP handlers and the console read it. A request has the same states
//! as its release. Before the release exists it is `pending` or `dispatching`; while its cluster does not respond it is
//! `unknown`.
//!
//! See also: [`operation`] decides the next action, [`retry`] when a failed one is retried.

pub mod operation;
pub mod retry;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::status::{ExpectedStatus, RealtimeStatus, StatusCategory, StatusView};
use LegacyState::*;
use ReleaseState::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseState {
    Pending,
    Dispatching,
    Creating,
    Created,
    Upgrading,
    Rollbacking,
    Upgraded,
    Active,
    Degraded,
    Failed,
    Suspended,
    Paused,
    Deleting,
    Unknown,
}

/// Mapping to the eight states of KubeSphere 3, for clients that know only these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyState {
    Fixed(ReleaseState),
    /// The state in which the last operation ended: `created` or `upgraded`.
    LastOperation,
    /// The previous state.
    PreviousState,
}

/// State, description, KubeSphere 3 state, and realtime status of the application.
pub type StateRow = (ReleaseState, &'static str, LegacyState, RealtimeStatus);

#[rustfmt::skip]
pub const STATE_TABLE: &[StateRow] = &[
    (Pending,     "accepted, not yet dispatched to the cluster",                      Fixed(Creating),    RealtimeStatus::NotInstalled),
    (Dispatching, "being dispatched to the cluster",                                  Fixed(Creating),    RealtimeStatus::Installing),
    (Creating,    "installation in progress",                                  Fixed(Creating),    RealtimeStatus::Installing),
    (Created,     "installed, not all objects are ready yet",                       Fixed(Created), RealtimeStatus::Starting),
    (Upgrading,   "upgrade in progress",                                                Fixed(Upgrading),   RealtimeStatus::Restarting),
    (Rollbacking, "rollback in progress",                      Fixed(Rollbacking), RealtimeStatus::Restarting),
    (Upgraded,    "upgraded, not all objects are ready yet",                         Fixed(Upgraded), RealtimeStatus::Starting),
    (Active,      "deployed and ready",                                           Fixed(Active), RealtimeStatus::Running),
    (Degraded,    "deployed, not ready in time or no longer ready",               LastOperation, RealtimeStatus::Failed),
    (Failed,      "the last operation failed; see condition Stalled for retries", Fixed(Failed), RealtimeStatus::Failed),
    (Suspended,   "reconciliation is suspended",                            PreviousState, RealtimeStatus::Unknown),
    (Paused,      "deployed, workloads scaled to zero by request",                   Fixed(Active),      RealtimeStatus::Stopped),
    (Deleting,    "being uninstalled; see condition UninstallBlocked for obstacles",       Fixed(Deleting),    RealtimeStatus::Stopping),
    (Unknown,     "the cluster does not answer",                                  PreviousState, RealtimeStatus::Unknown),
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown release state `{}`", crate::ids::truncate_for_error(.0))]
pub struct UnknownState(pub String);

impl ReleaseState {
    fn row(self) -> &'static StateRow {
        STATE_TABLE.iter().find(|row| row.0 == self).expect("every state has a row")
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Pending => "pending",
            Dispatching => "dispatching",
            Creating => "creating",
            Created => "created",
            Upgrading => "upgrading",
            Rollbacking => "rollbacking",
            Upgraded => "upgraded",
            Active => "active",
            Degraded => "degraded",
            Failed => "failed",
            Suspended => "suspended",
            Paused => "paused",
            Deleting => "deleting",
            Unknown => "unknown",
        }
    }

    pub fn description(self) -> &'static str {
        self.row().1
    }

    /// Whether an operation is running.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Dispatching | Creating | Upgrading | Rollbacking | Deleting)
    }

    /// The state to show while the latest spec has not been reconciled: the operation that it will cause. `deployed`
    /// means that the release is installed, `is_rollback` that the new spec is a rollback.
    #[must_use]
    pub fn with_unobserved_spec(self, deployed: bool, is_rollback: bool) -> Self {
        match self {
            Pending => self,
            _ if self.is_in_progress() => self,
            _ if !deployed => Creating,
            _ if is_rollback => Rollbacking,
            _ => Upgrading,
        }
    }

    /// The KubeSphere 3 name. `last` is the previous state; `first` means that only the first installation was ever
    /// done.
    pub fn legacy_name(self, last: Option<Self>, first: bool) -> &'static str {
        match self.row().2 {
            Fixed(state) => state.as_str(),
            LastOperation if first => Created.as_str(),
            LastOperation => Upgraded.as_str(),
            PreviousState => last
                .filter(|last| *last != self)
                .map_or(Creating.as_str(), |last| last.legacy_name(None, first)),
        }
    }

    /// The status category shared with other kinds of objects.
    pub fn category(self) -> StatusCategory {
        match self {
            Active => StatusCategory::Good,
            Pending | Dispatching | Creating | Created | Upgrading | Rollbacking | Upgraded | Deleting => {
                StatusCategory::Moving
            }
            Degraded => StatusCategory::Attention,
            Failed => StatusCategory::Bad,
            Suspended | Paused => StatusCategory::Resting,
            Unknown => StatusCategory::Unknown,
        }
    }

    /// Expected and realtime status.
    pub fn status_view(self, paused: bool) -> StatusView {
        let expect = match self {
            Deleting => ExpectedStatus::NotInstalled,
            _ if paused => ExpectedStatus::Stopped,
            _ => ExpectedStatus::Running,
        };
        StatusView { expect, realtime: self.row().3 }
    }
}

impl fmt::Display for ReleaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ReleaseState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let row = STATE_TABLE.iter().find(|row| row.0.as_str() == text);
        row.map(|row| row.0).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn the_table_of_states() {
        let mut picture = String::new();
        for (state, means, ..) in STATE_TABLE {
            let StatusView { expect, realtime } = state.status_view(*state == Paused);
            let word = |word: &dyn erased::SerializedText| word.text();
            let (first, later) =
                (state.legacy_name(Some(Active), true), state.legacy_name(Some(Active), false));
            let old = if first == later { first.to_owned() } else { format!("{first} or {later}") };
            writeln!(picture, "{state}: {means}").unwrap();
            writeln!(picture, "  view   expect {}, realtime {}", word(&expect), word(&realtime)).unwrap();
            writeln!(picture, "  old    {old}").unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    /// Serialised form of values of different types.
    mod erased {
        pub trait SerializedText {
            fn text(&self) -> String;
        }

        impl<T: serde::Serialize> SerializedText for T {
            fn text(&self) -> String {
                serde_json::to_value(self).unwrap().as_str().unwrap().to_owned()
            }
        }
    }

    #[test]
    fn state_table_has_one_row_per_state_and_round_trips_names() {
        for (place, row) in STATE_TABLE.iter().enumerate() {
            assert_eq!(STATE_TABLE.iter().position(|other| other.0 == row.0), Some(place));
            assert_eq!(row.0.as_str().parse(), Ok(row.0));
            assert_eq!(erased::SerializedText::text(&row.0), row.0.as_str());
        }
        assert_eq!(STATE_TABLE.len(), Unknown as usize + 1);
        assert!("Active".parse::<ReleaseState>().is_err());
    }

    #[test]
    fn legacy_name_is_one_of_the_eight_kubesphere_states() {
        let legacy_names =
            ["active", "created", "creating", "deleting", "failed", "rollbacking", "upgraded", "upgrading"];
        for (state, ..) in STATE_TABLE {
            for (last, ..) in STATE_TABLE {
                for first in [true, false] {
                    assert!(
                        legacy_names.contains(&state.legacy_name(Some(*last), first)),
                        "{state} after {last}"
                    );
                }
            }
        }
    }

    #[test]
    fn with_unobserved_spec_returns_pending_or_in_progress_state() {
        for (state, ..) in STATE_TABLE {
            for (deployed, back) in [(true, true), (true, false), (false, false)] {
                let told = state.with_unobserved_spec(deployed, back);
                assert!(told == Pending || told.is_in_progress(), "{told} has come to rest");
            }
        }
    }
}
