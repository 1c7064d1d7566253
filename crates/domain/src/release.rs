//! States of a release.
//!
//! [`TABLE`] describes every state; controllers, HTTP handlers and the console read it. A request has the same states
//! as its release. Before the release exists it is `pending` or `dispatching`; while its cluster does not respond it is
//! `unknown`.
//!
//! See also: [`operation`] decides the next action, [`retry`] when a failed one is retried.

pub mod operation;
pub mod retry;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::status::{Expect, Family, Realtime, View};
use Old::*;
use State::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
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
pub enum Old {
    Is(State),
    /// The state in which the last operation ended: `created` or `upgraded`.
    AsDeployed,
    /// The previous state.
    LastKnown,
}

/// State, description, KubeSphere 3 state, and realtime status of the application.
pub type Row = (State, &'static str, Old, Realtime);

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    (Pending,     "accepted, not yet handed to its cluster",                      Is(Creating),    Realtime::NotInstalled),
    (Dispatching, "being handed to its cluster",                                  Is(Creating),    Realtime::Installing),
    (Creating,    "the first installation runs",                                  Is(Creating),    Realtime::Installing),
    (Created,     "installed, not everything is ready yet",                       Is(Created), Realtime::Starting),
    (Upgrading,   "a change runs",                                                Is(Upgrading),   Realtime::Restarting),
    (Rollbacking, "the way back to an earlier version runs",                      Is(Rollbacking), Realtime::Restarting),
    (Upgraded,    "changed, not everything is ready yet",                         Is(Upgraded), Realtime::Starting),
    (Active,      "deployed and ready",                                           Is(Active), Realtime::Running),
    (Degraded,    "deployed, not ready in time or no longer ready",               AsDeployed, Realtime::Failed),
    (Failed,      "the last operation failed; Stalled says whether it is tried again", Is(Failed), Realtime::Failed),
    (Suspended,   "nobody looks after it, by request",                            LastKnown, Realtime::Unknown),
    (Paused,      "deployed, its workloads at zero by request",                   Is(Active),      Realtime::Stopped),
    (Deleting,    "being uninstalled; a condition says what is in the way",       Is(Deleting),    Realtime::Stopping),
    (Unknown,     "its cluster does not answer",                                  LastKnown, Realtime::Unknown),
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a release has no state `{}`", crate::ids::shortened(.0))]
pub struct NoState(pub String);

impl State {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).expect("every state has a row")
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

    pub fn means(self) -> &'static str {
        self.row().1
    }

    /// Whether an operation is running.
    pub fn is_under_way(self) -> bool {
        matches!(self, Dispatching | Creating | Upgrading | Rollbacking | Deleting)
    }

    /// The state to show while the latest spec has not been reconciled: the operation that it will cause. `deployed`
    /// means that the release is installed, `back` that the new spec is a rollback.
    #[must_use]
    pub fn of_older_wish(self, deployed: bool, back: bool) -> Self {
        match self {
            Pending => self,
            _ if self.is_under_way() => self,
            _ if !deployed => Creating,
            _ if back => Rollbacking,
            _ => Upgrading,
        }
    }

    /// The KubeSphere 3 name. `last` is the previous state; `first` means that only the first installation was ever
    /// done.
    pub fn old(self, last: Option<Self>, first: bool) -> &'static str {
        match self.row().2 {
            Is(state) => state.as_str(),
            AsDeployed if first => Created.as_str(),
            AsDeployed => Upgraded.as_str(),
            LastKnown => {
                last.filter(|last| *last != self).map_or(Creating.as_str(), |last| last.old(None, first))
            }
        }
    }

    /// The status category shared with other kinds of objects.
    pub fn family(self) -> Family {
        match self {
            Active => Family::Good,
            Pending | Dispatching | Creating | Created | Upgrading | Rollbacking | Upgraded | Deleting => {
                Family::Moving
            }
            Degraded => Family::Attention,
            Failed => Family::Bad,
            Suspended | Paused => Family::Resting,
            Unknown => Family::Unknown,
        }
    }

    /// Expected and realtime status.
    pub fn view(self, paused: bool) -> View {
        let expect = match self {
            Deleting => Expect::NotInstalled,
            _ if paused => Expect::Stopped,
            _ => Expect::Running,
        };
        View { expect, realtime: self.row().3 }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = NoState;

    fn from_str(text: &str) -> Result<Self, NoState> {
        let row = TABLE.iter().find(|row| row.0.as_str() == text);
        row.map(|row| row.0).ok_or_else(|| NoState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn the_table_of_states() {
        let mut picture = String::new();
        for (state, means, ..) in TABLE {
            let View { expect, realtime } = state.view(*state == Paused);
            let word = |word: &dyn erased::Word| word.text();
            let (first, later) = (state.old(Some(Active), true), state.old(Some(Active), false));
            let old = if first == later { first.to_owned() } else { format!("{first} or {later}") };
            writeln!(picture, "{state}: {means}").unwrap();
            writeln!(picture, "  view   expect {}, realtime {}", word(&expect), word(&realtime)).unwrap();
            writeln!(picture, "  old    {old}").unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    /// Serialised form of values of different types.
    mod erased {
        pub trait Word {
            fn text(&self) -> String;
        }

        impl<T: serde::Serialize> Word for T {
            fn text(&self) -> String {
                serde_json::to_value(self).unwrap().as_str().unwrap().to_owned()
            }
        }
    }

    #[test]
    fn every_state_has_one_row_and_comes_back_from_its_word() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(TABLE.iter().position(|other| other.0 == row.0), Some(place));
            assert_eq!(row.0.as_str().parse(), Ok(row.0));
            assert_eq!(erased::Word::text(&row.0), row.0.as_str());
        }
        assert_eq!(TABLE.len(), Unknown as usize + 1);
        assert!("Active".parse::<State>().is_err());
    }

    #[test]
    fn those_who_know_eight_states_hear_no_other() {
        let eight =
            ["active", "created", "creating", "deleting", "failed", "rollbacking", "upgraded", "upgrading"];
        for (state, ..) in TABLE {
            for (last, ..) in TABLE {
                for first in [true, false] {
                    assert!(eight.contains(&state.old(Some(*last), first)), "{state} after {last}");
                }
            }
        }
    }

    #[test]
    fn what_is_told_before_a_wish_is_looked_at_can_follow() {
        for (state, ..) in TABLE {
            for (deployed, back) in [(true, true), (true, false), (false, false)] {
                let told = state.of_older_wish(deployed, back);
                assert!(told == Pending || told.is_under_way(), "{told} has come to rest");
            }
        }
    }
}
