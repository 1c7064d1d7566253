//! Decides the next step from the history of a release. Pure: no I/O, no clock.
//!
//! An upgrade can start from any status; [`decide`] is the decision table. Revisions are ordered oldest first.

use crate::record::Status;

/// Revision number and status.
pub type RevisionStatus = (i64, Status);

/// Next step towards the desired release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryDecision {
    /// No release, or one that was uninstalled with `--keep-history`.
    Install { revision: i64 },
    /// Upgrade from the objects of revision `base`.
    Upgrade { revision: i64, base: i64 },
    /// The revision is pending and its operation no longer runs. Mark it as failed, then decide again.
    Interrupted { revision: i64 },
    /// An uninstall was interrupted or a hook failed. Finish it, then decide again.
    FinishUninstall { revision: i64 },
}

pub fn decide(history: &[RevisionStatus]) -> HistoryDecision {
    use Status::*;
    let Some(&(last, status)) = history.last() else { return HistoryDecision::Install { revision: 1 } };
    let next = next_revision(last);
    match status {
        Deployed => HistoryDecision::Upgrade { revision: next, base: last },
        Failed | Superseded | Unknown => {
            HistoryDecision::Upgrade { revision: next, base: newest_deployed(history).unwrap_or(last) }
        }
        PendingInstall | PendingUpgrade | PendingRollback => HistoryDecision::Interrupted { revision: last },
        Uninstalling => HistoryDecision::FinishUninstall { revision: last },
        Uninstalled => HistoryDecision::Install { revision: next },
    }
}

/// The next revision number. A number above the maximum is rejected when its record is written.
pub fn next_revision(last: i64) -> i64 {
    last.saturating_add(1)
}

/// The newest deployed revision.
pub fn newest_deployed(history: &[RevisionStatus]) -> Option<i64> {
    newest_with_status(history, Status::Deployed)
}

/// The revision to roll back to after a failure: the newest deployed or superseded one. A superseded revision may
/// have failed once, but only a successful revision supersedes it.
pub fn newest_successful(history: &[RevisionStatus]) -> Option<i64> {
    let is_successful =
        |&&(_, status): &&RevisionStatus| matches!(status, Status::Deployed | Status::Superseded);
    history.iter().rev().find(is_successful).map(|&(revision, _)| revision)
}

fn newest_with_status(history: &[RevisionStatus], expected: Status) -> Option<i64> {
    history.iter().rev().find(|(_, status)| *status == expected).map(|&(revision, _)| revision)
}

/// Revisions whose objects may be in the cluster: the deployed one and all later failed ones. Helm considers the
/// deployed one only and loses the objects of the others.
pub fn revisions_with_objects(history: &[RevisionStatus]) -> &[RevisionStatus] {
    let after_uninstall = history
        .iter()
        .rposition(|(_, status)| *status == Status::Uninstalled)
        .map_or(0, |gone| gone.saturating_add(1));
    let recent = &history[after_uninstall..];
    let newest_index = |wanted| recent.iter().rposition(|(_, status)| *status == wanted);
    let start = newest_index(Status::Deployed).or_else(|| newest_index(Status::Superseded)).unwrap_or(0);
    &recent[start..]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_last_status_after_every_other() {
        let mut picture = format!("{:<33} {:?}\n", "nothing", decide(&[]));
        for last in Status::ALL {
            writeln!(picture, "{:<33} {:?}", format!("{last:?}"), decide(&[(1, last)])).unwrap();
        }
        for (before, last) in
            Status::ALL.into_iter().flat_map(|before| Status::ALL.map(|last| (before, last)))
        {
            let history = [(1, before), (2, last)];
            let standing: Vec<_> =
                revisions_with_objects(&history).iter().map(|(revision, _)| revision).collect();
            writeln!(picture, "{:<33} {:?} {standing:?}", format!("{before:?}, {last:?}"), decide(&history))
                .unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn failed_revisions_after_the_deployed_one_may_have_objects() {
        use Status::*;
        let revisions = |history: &[Status]| {
            let history: Vec<RevisionStatus> = (1..).zip(history.iter().copied()).collect();
            revisions_with_objects(&history).iter().map(|(revision, _)| *revision).collect::<Vec<_>>()
        };
        assert_eq!(revisions(&[Superseded, Superseded, Deployed, Failed, Failed]), [3, 4, 5]);
        assert_eq!(revisions(&[Failed, Failed]), [1, 2]);
        // The process died between the last two writes of an upgrade.
        assert_eq!(revisions(&[Superseded, Superseded, Failed]), [2, 3]);
        assert_eq!(revisions(&[Superseded, Uninstalled, Failed]), [3]);
        assert_eq!(revisions(&[Deployed, Uninstalled]), [0; 0]);
    }
}
