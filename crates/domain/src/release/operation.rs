//! Decides the next action for a release. Pure: no I/O, no clock.
//!
//! Two tables: [`next`] decides by the desired state and the outcome of earlier attempts; [`BY_RECORD`] maps the state
//! of the Helm history to the operation, when one is needed.

use Record::*;
use Step::*;

/// State of a release's Helm history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// No record, or the release was uninstalled.
    None,
    Deployed,
    /// The latest revision failed, and none before it was deployed.
    FailedFirst,
    /// The latest revision failed, and an earlier one was deployed.
    FailedLater,
    /// The platform started an operation that has not finished: the process that ran it died.
    Pending,
    /// Another client, such as the helm command, started an operation that may still run.
    PendingElsewhere,
    Uninstalling,
    /// Any other state: superseded without a successor, or an unknown status.
    Unclear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Install,
    Upgrade,
    /// Removes what the failed first installation left, then installs.
    Reinstall,
    /// Finishes an interrupted operation, then observes again.
    Recover,
    /// Finishes the uninstallation, then observes again.
    FinishUninstall,
}

/// The operation for a release that is out of date, by its Helm history.
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

/// Observed state of a release that is neither deleted nor suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was seen")]
pub struct Seen {
    /// A release that this one depends on is not ready.
    pub blocked: bool,
    pub record: Record,
    /// The hash of the desired state equals that of the last deployment.
    pub same_hash: bool,
    /// The latest record was made from exactly the desired state.
    pub record_is_wanted: bool,
    /// `spec.version` is at most the version of the last deployment.
    pub same_version: bool,
    /// The latest Helm revision was made by the platform.
    pub own_revision: bool,
    /// Changes made by other clients are to be reverted.
    pub enforce: bool,
    pub attempt: Attempt,
}

/// Retry state of the current desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// No attempt failed.
    Free,
    /// An attempt failed, and the backoff has not elapsed.
    Later,
    /// Retries are exhausted.
    GivenUp,
}

/// The decision of one reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Wait until its dependencies are ready.
    WaitForOthers,
    Do(Step),
    /// Record the new version in status: the same state was requested again.
    EnterVersion,
    /// Record a deployment that finished but was not written to status.
    EnterDeployed,
    WaitToRetry,
    /// Wait until another client has finished its operation.
    WaitForEnd,
    /// Stay failed until the spec changes.
    StayFailed,
    /// Observe the readiness of its objects.
    Watch,
}

/// Decides what to do.
pub fn next(seen: &Seen) -> Choice {
    let undone = matches!(seen.record, FailedFirst | FailedLater);
    let changed = !seen.same_hash || undone || (seen.enforce && !seen.own_revision);
    match seen {
        // An interrupted operation is recovered first, whatever the desired state.
        Seen { record: Pending, .. } => Choice::Do(Recover),
        Seen { record: PendingElsewhere, .. } => Choice::WaitForEnd,
        Seen { record: Deployed, record_is_wanted: true, same_hash: false, .. } => Choice::EnterDeployed,
        Seen { attempt: Attempt::GivenUp, .. } => Choice::StayFailed,
        Seen { attempt: Attempt::Later, .. } => Choice::WaitToRetry,
        Seen { blocked: true, .. } if changed => Choice::WaitForOthers,
        Seen { record, .. } if changed => Choice::Do(record.step()),
        // The release was deployed and then uninstalled by another client.
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
