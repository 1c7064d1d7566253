//! Recovers releases whose operation was interrupted.

use helm_engine::names;

use super::ask::{Recovered, Run};
use super::operation::Operation;
use super::plan::{self, Step};
use crate::error::Error;
use crate::helm::Helm;
use crate::record::Status;

impl Helm {
    /// Brings a release into a stable state: no pending revision and at most one deployed. Running operations are not
    /// touched.
    pub async fn recover(&self, namespace: &str, name: &str, run: &Run<'_>) -> Result<Recovered, Error> {
        names::check(name).map_err(Error::Name)?;
        let operation = Operation::new(self, namespace, name, run);
        // Usually there is nothing to recover; check before taking the lock.
        let view = operation.history().await?.view();
        if is_sound(&view) {
            return Ok(Recovered::Nothing);
        }
        self.held(namespace, name, Box::pin(operation.recover())).await
    }
}

fn is_sound(view: &[plan::Entry]) -> bool {
    let deployed = view.iter().filter(|(_, status)| *status == Status::Deployed).count();
    deployed <= 1 && matches!(plan::plan(view), Step::Install { .. } | Step::Upgrade { .. })
}

impl Operation<'_> {
    async fn recover(&self) -> Result<Recovered, Error> {
        let history = self.history().await?;
        let view = history.view();
        let found = match plan::plan(&view) {
            Step::Interrupted { revision } => {
                let pending = history.open(self, revision).await?;
                self.interrupt(pending).await?;
                Recovered::Interrupted(revision)
            }
            Step::FinishUninstall { revision } => {
                Box::pin(self.finish_uninstall()).await?;
                return Ok(Recovered::Uninstalled(revision));
            }
            Step::Install { .. } | Step::Upgrade { .. } => Recovered::Nothing,
        };
        let Some(newest) = plan::deployed(&view) else { return Ok(found) };
        if view.iter().filter(|(_, status)| *status == Status::Deployed).count() < 2 {
            return Ok(found);
        }
        self.supersede(&history, newest).await?;
        Ok(if found == Recovered::Nothing { Recovered::Superseded(newest) } else { found })
    }
}
