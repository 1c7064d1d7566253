//! What is to be done for a release, in which situation. Pure: what was seen goes in, one step comes out.
//!
//! Two tables: [`next`] chooses by what the release asks for and what became of it so far, [`BY_RECORD`] by what Helm's record says
//! when something must be done.

use Record::*;
use Step::*;

/// What Helm's records say of a release, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// There is none, or what there was is uninstalled.
    None,
    Deployed,
    /// The newest failed, and none before it was ever deployed.
    FailedFirst,
    /// The newest failed, and one before it was deployed.
    FailedLater,
    /// An operation was begun by us and has not ended: whoever ran it died.
    Pending,
    /// An operation was begun by somebody else, such as the helm command line, and may still run.
    PendingElsewhere,
    Uninstalling,
    /// Neither: superseded without a successor, or a word that we do not know.
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Install,
    Upgrade,
    /// Take off what the failed first installation left, and install.
    Reinstall,
    /// End what somebody else left unended, then look again.
    Recover,
    /// End the uninstallation, then look again.
    FinishUninstall,
}

/// What is done when nothing keeps us and a release is not as it is wanted, by what its records say.
#[rustfmt::skip]
pub const BY_RECORD: &[(Record, Step)] = &[
    (Record::None,  Install),
    (Deployed,      Upgrade),
    (FailedFirst,   Reinstall),
    (FailedLater,   Upgrade),
    (Pending,       Recover),
    (PendingElsewhere, Recover),
    (Uninstalling,  FinishUninstall),
    (Unclear,       Upgrade),
];

impl Record {
    pub fn step(self) -> Step {
        BY_RECORD.iter().find(|row| row.0 == self).expect("every record has a row").1
    }
}

/// What a pass over a release saw that is neither deleted nor suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was seen")]
pub struct Seen {
    /// A release that it depends on is not ready.
    pub blocked: bool,
    pub record: Record,
    /// The hash of what is wanted is that of what was deployed last.
    pub same_hash: bool,
    /// The newest record was made of just what is wanted.
    pub record_is_wanted: bool,
    /// `spec.version` is that of what was deployed last, or lower.
    pub same_version: bool,
    /// Helm's newest revision is the one that we made.
    pub own_revision: bool,
    /// What others did is to be undone.
    pub enforce: bool,
    pub attempt: Attempt,
}

/// What became of the attempts at what is wanted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// None, or all succeeded.
    Free,
    /// One failed, and the next is due later.
    Later,
    /// No more will be made.
    GivenUp,
}

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Until what it depends on is ready.
    WaitForOthers,
    Do(Step),
    /// The same was asked for once more: the version is entered, and nothing is done.
    EnterVersion,
    /// It was done, and nobody came to enter it.
    EnterDeployed,
    WaitToRetry,
    /// Until somebody else has ended what they do with it.
    WaitForEnd,
    /// It stays as it is until the spec changes.
    StayFailed,
    /// See how its objects stand.
    Watch,
}

/// Chooses what is to be done.
pub fn next(seen: &Seen) -> Choice {
    let undone = matches!(seen.record, FailedFirst | FailedLater);
    let changed = !seen.same_hash || undone || (seen.enforce && !seen.own_revision);
    match seen {
        // What was left unended is ended, whatever is wanted.
        Seen { record: Pending, .. } => Choice::Do(Recover),
        Seen { record: PendingElsewhere, .. } => Choice::WaitForEnd,
        Seen { record: Deployed, record_is_wanted: true, same_hash: false, .. } => Choice::EnterDeployed,
        Seen { attempt: Attempt::GivenUp, .. } => Choice::StayFailed,
        Seen { attempt: Attempt::Later, .. } => Choice::WaitToRetry,
        Seen { blocked: true, .. } if changed => Choice::WaitForOthers,
        Seen { record, .. } if changed => Choice::Do(record.step()),
        // It was deployed, and somebody took it off.
        Seen { record: record @ (Record::None | Uninstalling), .. } => Choice::Do(record.step()),
        Seen { same_version: false, .. } => Choice::EnterVersion,
        _ => Choice::Watch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Seen = Seen {
        blocked: false,
        record: Deployed,
        same_hash: true,
        record_is_wanted: true,
        same_version: true,
        own_revision: true,
        enforce: false,
        attempt: Attempt::Free,
    };

    #[test]
    fn what_is_done_in_which_situation() {
        let changed = Seen { same_hash: false, record_is_wanted: false, ..QUIET };
        let new = Seen { same_version: false, record: Record::None, ..changed };
        #[rustfmt::skip]
        let table = [
            ("nothing to do",                      QUIET,                                                        Choice::Watch),
            ("new",                                new,                                                          Choice::Do(Install)),
            ("changed",                            changed,                                                      Choice::Do(Upgrade)),
            ("killed before it was entered",       Seen { record_is_wanted: true, ..changed },                   Choice::EnterDeployed),
            ("back to what it was, after a failure", Seen { record: FailedLater, ..QUIET },                      Choice::Do(Upgrade)),
            ("asked for again",                    Seen { same_version: false, ..QUIET },                        Choice::EnterVersion),
            ("new, and waits for others",          Seen { blocked: true, ..new },                                Choice::WaitForOthers),
            ("deployed, and others are not ready", Seen { blocked: true, ..QUIET },                              Choice::Watch),
            ("interrupted",                        Seen { record: Pending, ..QUIET },                            Choice::Do(Recover)),
            ("somebody else is at it",             Seen { record: PendingElsewhere, ..changed },                 Choice::WaitForEnd),
            ("interrupted while it waits",         Seen { record: Pending, attempt: Attempt::Later, ..changed }, Choice::Do(Recover)),
            ("first installation failed",          Seen { record: FailedFirst, ..new },                          Choice::Do(Reinstall)),
            ("upgrade failed",                     Seen { record: FailedLater, ..changed },                      Choice::Do(Upgrade)),
            ("failed, later again",                Seen { attempt: Attempt::Later, ..changed },                  Choice::WaitToRetry),
            ("failed for good",                    Seen { attempt: Attempt::GivenUp, ..changed },                Choice::StayFailed),
            ("taken off by somebody",              Seen { record: Record::None, own_revision: false, ..QUIET },  Choice::Do(Install)),
            ("changed by somebody",                Seen { own_revision: false, ..QUIET },                        Choice::Watch),
            ("changed by somebody, and enforced",  Seen { own_revision: false, enforce: true, ..QUIET },         Choice::Do(Upgrade)),
            ("half uninstalled",                   Seen { record: Uninstalling, ..changed },                     Choice::Do(FinishUninstall)),
        ];
        for (situation, seen, choice) in table {
            assert_eq!(next(&seen), choice, "{situation}");
        }
    }

    #[test]
    fn every_record_has_one_row() {
        for (place, (record, _)) in BY_RECORD.iter().enumerate() {
            assert_eq!(BY_RECORD.iter().position(|row| row.0 == *record), Some(place));
        }
        assert_eq!(BY_RECORD.len(), Unclear as usize + 1);
    }
}
