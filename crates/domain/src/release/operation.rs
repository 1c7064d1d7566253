//! Decides the next action for a release. Pure: no I/O, no clock.
//!
//! Two tables: [`decide`] decides by the desired state and the outcome of earlier attempts; [`ACTION_BY_HISTORY`] maps the state
//! of the Helm history to the operation, when one is needed.

use HistoryState::*;
use ReleaseAction::*;

/// State of a release's Helm history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistoryState {
    /// No record, or the release was uninstalled.
    NotInstalled,
    Deployed,
    /// The latest revision failed, and none before it was deployed.
    FailedInstall,
    /// The latest revision failed, and an earlier one was deployed.
    FailedUpgrade,
    /// The platform started an operation that has not finished: the process that ran it ended.
    Pending,
    /// Another client, such as the helm command, started an operation that may still run.
    PendingExternal,
    Uninstalling,
    /// Any other state: superseded without a successor, or an unknown status.
    Unrecognized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    Install,
    Upgrade,
    /// Removes the objects of the failed first installation, then installs.
    Reinstall,
    /// Finishes an interrupted operation, then observes again.
    Recover,
    /// Finishes the uninstallation, then observes again.
    FinishUninstall,
}

/// The operation for a release that is out of date, by its Helm history.
#[rustfmt::skip]
pub const ACTION_BY_HISTORY: &[(HistoryState, ReleaseAction)] = &[
    (HistoryState::NotInstalled,  Install),
    (Deployed,      Upgrade),
    (FailedInstall,   Reinstall),
    (FailedUpgrade,   Upgrade),
    (Pending,       Recover),
    (PendingExternal, Recover),
    (Uninstalling,  FinishUninstall),
    (Unrecognized,       Upgrade),
];

impl HistoryState {
    pub fn action(self) -> ReleaseAction {
        ACTION_BY_HISTORY.iter().find(|row| row.0 == self).expect("every record has a row").1
    }
}

/// Observed state of a release that is neither deleted nor suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was seen")]
pub struct Observation {
    /// A release that this one depends on is not ready.
    pub is_blocked: bool,
    pub history: HistoryState,
    /// The hash of the desired state equals the hash of the last deployment.
    pub is_hash_unchanged: bool,
    /// The latest record was made from exactly the desired state.
    pub is_record_desired: bool,
    /// `spec.version` is at most the version of the last deployment.
    pub is_version_unchanged: bool,
    /// The latest Helm revision was made by the platform.
    pub is_own_revision: bool,
    /// Changes made by other clients are to be reverted.
    pub enforce: bool,
    pub retry: RetryState,
}

/// Retry state of the current desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryState {
    /// No attempt failed.
    Ready,
    /// An attempt failed, and the backoff has not elapsed.
    BackingOff,
    /// Retries are exhausted.
    Exhausted,
}

/// The decision of one reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Wait until its dependencies are ready.
    WaitForDependencies,
    Run(ReleaseAction),
    /// Record the new version in status: the same state was requested again.
    RecordVersion,
    /// Record a deployment that finished but was not written to status.
    RecordDeployed,
    WaitToRetry,
    /// Wait until another client has finished its operation.
    WaitForExternalOperation,
    /// Stay failed until the spec changes.
    StayFailed,
    /// Observe the readiness of its objects.
    ObserveReadiness,
}

/// Decides what to do.
pub fn decide(seen: &Observation) -> Decision {
    let is_failed = matches!(seen.history, FailedInstall | FailedUpgrade);
    let changed = !seen.is_hash_unchanged || is_failed || (seen.enforce && !seen.is_own_revision);
    match seen {
        // An interrupted operation is recovered first, whatever the desired state.
        Observation { history: Pending, .. } => Decision::Run(Recover),
        Observation { history: PendingExternal, .. } => Decision::WaitForExternalOperation,
        Observation { history: Deployed, is_record_desired: true, is_hash_unchanged: false, .. } => {
            Decision::RecordDeployed
        }
        Observation { retry: RetryState::Exhausted, .. } => Decision::StayFailed,
        Observation { retry: RetryState::BackingOff, .. } => Decision::WaitToRetry,
        Observation { is_blocked: true, .. } if changed => Decision::WaitForDependencies,
        Observation { history: record, .. } if changed => Decision::Run(record.action()),
        // The release was deployed and then uninstalled by another client.
        Observation { history: record @ (HistoryState::NotInstalled | Uninstalling), .. } => {
            Decision::Run(record.action())
        }
        Observation { is_version_unchanged: false, .. } => Decision::RecordVersion,
        _ => Decision::ObserveReadiness,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP_TO_DATE: Observation = Observation {
        is_blocked: false,
        history: Deployed,
        is_hash_unchanged: true,
        is_record_desired: true,
        is_version_unchanged: true,
        is_own_revision: true,
        enforce: false,
        retry: RetryState::Ready,
    };

    #[test]
    fn decide_covers_every_situation() {
        let changed = Observation { is_hash_unchanged: false, is_record_desired: false, ..UP_TO_DATE };
        let new = Observation { is_version_unchanged: false, history: HistoryState::NotInstalled, ..changed };
        #[rustfmt::skip]
        let table = [
            ("nothing to do",                      UP_TO_DATE,                                                        Decision::ObserveReadiness),
            ("new",                                new,                                                          Decision::Run(Install)),
            ("changed",                            changed,                                                      Decision::Run(Upgrade)),
            ("killed before it was entered",       Observation { is_record_desired: true, ..changed },                   Decision::RecordDeployed),
            ("back to what it was, after a failure", Observation { history: FailedUpgrade, ..UP_TO_DATE },                      Decision::Run(Upgrade)),
            ("asked for again",                    Observation { is_version_unchanged: false, ..UP_TO_DATE },                        Decision::RecordVersion),
            ("new, and waits for others",          Observation { is_blocked: true, ..new },                                Decision::WaitForDependencies),
            ("deployed, and others are not ready", Observation { is_blocked: true, ..UP_TO_DATE },                              Decision::ObserveReadiness),
            ("interrupted",                        Observation { history: Pending, ..UP_TO_DATE },                            Decision::Run(Recover)),
            ("somebody else is at it",             Observation { history: PendingExternal, ..changed },                 Decision::WaitForExternalOperation),
            ("interrupted while it waits",         Observation { history: Pending, retry: RetryState::BackingOff, ..changed }, Decision::Run(Recover)),
            ("first installation failed",          Observation { history: FailedInstall, ..new },                          Decision::Run(Reinstall)),
            ("upgrade failed",                     Observation { history: FailedUpgrade, ..changed },                      Decision::Run(Upgrade)),
            ("failed, later again",                Observation { retry: RetryState::BackingOff, ..changed },                  Decision::WaitToRetry),
            ("failed for good",                    Observation { retry: RetryState::Exhausted, ..changed },                Decision::StayFailed),
            ("taken off by somebody",              Observation { history: HistoryState::NotInstalled, is_own_revision: false, ..UP_TO_DATE },  Decision::Run(Install)),
            ("changed by somebody",                Observation { is_own_revision: false, ..UP_TO_DATE },                        Decision::ObserveReadiness),
            ("changed by somebody, and enforced",  Observation { is_own_revision: false, enforce: true, ..UP_TO_DATE },         Decision::Run(Upgrade)),
            ("half uninstalled",                   Observation { history: Uninstalling, ..changed },                     Decision::Run(FinishUninstall)),
        ];
        for (situation, seen, choice) in table {
            assert_eq!(decide(&seen), choice, "{situation}");
        }
    }

    #[test]
    fn history_table_has_one_row_per_state() {
        for (place, (record, _)) in ACTION_BY_HISTORY.iter().enumerate() {
            assert_eq!(ACTION_BY_HISTORY.iter().position(|row| row.0 == *record), Some(place));
        }
        assert_eq!(ACTION_BY_HISTORY.len(), Unrecognized as usize + 1);
    }
}
