//! Recovers releases whose operation was interrupted.

use helm_engine::names;

use super::history::{self, HistoryDecision};
use super::operation::Operation;
use super::options::{ActionOptions, RecoveryOutcome};
use crate::error::Error;
use crate::helm::Helm;
use crate::record::Status;

impl Helm {
    /// Brings a release into a stable state: no pending revision and at most one deployed. Running operations are not
    /// touched.
    pub async fn recover(
        &self,
        namespace: &str,
        name: &str,
        run: &ActionOptions<'_>,
    ) -> Result<RecoveryOutcome, Error> {
        names::check(name).map_err(Error::InvalidName)?;
        let operation = Operation::new(self, namespace, name, run);
        // Usually there is nothing to recover; check before taking the lock.
        let view = operation.history().await?.revisions();
        if is_stable(&view) {
            return Ok(RecoveryOutcome::Nothing);
        }
        self.with_lock(namespace, name, Box::pin(operation.recover())).await
    }
}

fn is_stable(view: &[history::RevisionStatus]) -> bool {
    let deployed = view.iter().filter(|(_, status)| *status == Status::Deployed).count();
    deployed <= 1
        && matches!(history::decide(view), HistoryDecision::Install { .. } | HistoryDecision::Upgrade { .. })
}

impl Operation<'_> {
    async fn recover(&self) -> Result<RecoveryOutcome, Error> {
        let history = self.history().await?;
        let view = history.revisions();
        let found = match history::decide(&view) {
            HistoryDecision::Interrupted { revision } => {
                let pending = history.load(self, revision).await?;
                self.fail_interrupted(pending).await?;
                RecoveryOutcome::Interrupted(revision)
            }
            HistoryDecision::FinishUninstall { revision } => {
                Box::pin(self.finish_uninstall()).await?;
                return Ok(RecoveryOutcome::Uninstalled(revision));
            }
            HistoryDecision::Install { .. } | HistoryDecision::Upgrade { .. } => RecoveryOutcome::Nothing,
        };
        let Some(newest) = history::newest_deployed(&view) else { return Ok(found) };
        if view.iter().filter(|(_, status)| *status == Status::Deployed).count() < 2 {
            return Ok(found);
        }
        self.supersede(&history, newest).await?;
        Ok(if found == RecoveryOutcome::Nothing { RecoveryOutcome::Superseded(newest) } else { found })
    }
}
