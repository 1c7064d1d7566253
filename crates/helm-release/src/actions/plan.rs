//! What the history of a release allows. Pure.
//!
//! An upgrade starts from any state that a record can be in; [`plan`] is the table of where each leads. The order of revisions is
//! the order of the history, oldest first.

use crate::record::Status;

/// One revision.
pub type Entry = (i64, Status);

/// What is done next to make a release what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing, or nothing but history.
    Install { revision: i64 },
    /// Against what `base` left behind.
    Upgrade { revision: i64, base: i64 },
    /// Somebody died over it: it has failed, and the plan is made again.
    Interrupted { revision: i64 },
    /// Somebody died over it, or a hook failed: it is finished first, and the plan made again.
    FinishUninstall { revision: i64 },
}

pub fn plan(history: &[Entry]) -> Step {
    use Status::*;
    let Some(&(last, status)) = history.last() else { return Step::Install { revision: 1 } };
    let next = next(last);
    match status {
        Deployed => Step::Upgrade { revision: next, base: last },
        Failed | Superseded | Unknown => {
            Step::Upgrade { revision: next, base: deployed(history).unwrap_or(last) }
        }
        PendingInstall | PendingUpgrade | PendingRollback => Step::Interrupted { revision: last },
        Uninstalling => Step::FinishUninstall { revision: last },
        Uninstalled => Step::Install { revision: next },
    }
}

/// The revision after this one. One after the highest is refused when its record is written.
pub fn next(last: i64) -> i64 {
    last.saturating_add(1)
}

/// The newest revision that is deployed.
pub fn deployed(history: &[Entry]) -> Option<i64> {
    newest(history, Status::Deployed)
}

/// The revision that somebody can go back to after a failure: there is no telling of an older one whether it ever succeeded, but
/// one that failed is superseded only by one that succeeded.
pub fn succeeded(history: &[Entry]) -> Option<i64> {
    let good = |&&(_, status): &&Entry| matches!(status, Status::Deployed | Status::Superseded);
    history.iter().rev().find(good).map(|&(revision, _)| revision)
}

fn newest(history: &[Entry], wanted: Status) -> Option<i64> {
    history.iter().rev().find(|(_, status)| *status == wanted).map(|&(revision, _)| revision)
}

/// The revisions whose objects may be in the cluster: the one that is deployed and all that came after it and failed. Helm
/// looks at the first only, and forgets what the others made.
pub fn footprint(history: &[Entry]) -> &[Entry] {
    let since_gone = history
        .iter()
        .rposition(|(_, status)| *status == Status::Uninstalled)
        .map_or(0, |gone| gone.saturating_add(1));
    let recent = &history[since_gone..];
    let at = |wanted| recent.iter().rposition(|(_, status)| *status == wanted);
    let from = at(Status::Deployed).or_else(|| at(Status::Superseded)).unwrap_or(0);
    &recent[from..]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_last_status_after_every_other() {
        let mut picture = format!("{:<33} {:?}\n", "nothing", plan(&[]));
        for last in Status::ALL {
            writeln!(picture, "{:<33} {:?}", format!("{last:?}"), plan(&[(1, last)])).unwrap();
        }
        for (before, last) in
            Status::ALL.into_iter().flat_map(|before| Status::ALL.map(|last| (before, last)))
        {
            let history = [(1, before), (2, last)];
            let standing: Vec<_> = footprint(&history).iter().map(|(revision, _)| revision).collect();
            writeln!(picture, "{:<33} {:?} {standing:?}", format!("{before:?}, {last:?}"), plan(&history))
                .unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn what_failed_after_the_deployed_one_may_have_left_objects() {
        use Status::*;
        let revisions = |history: &[Status]| {
            let history: Vec<Entry> = (1..).zip(history.iter().copied()).collect();
            footprint(&history).iter().map(|(revision, _)| *revision).collect::<Vec<_>>()
        };
        assert_eq!(revisions(&[Superseded, Superseded, Deployed, Failed, Failed]), [3, 4, 5]);
        assert_eq!(revisions(&[Failed, Failed]), [1, 2]);
        // Killed between the last two writes of an upgrade.
        assert_eq!(revisions(&[Superseded, Superseded, Failed]), [2, 3]);
        assert_eq!(revisions(&[Superseded, Uninstalled, Failed]), [3]);
        assert_eq!(revisions(&[Deployed, Uninstalled]), [0; 0]);
    }
}
