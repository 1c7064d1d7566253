//! Deletion of a workspace after a grace period.
//!
//! A deletion first records the time after which the workspace will be removed. Until then members have no access, nothing is lost, and
//! the workspace can be restored.

use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube_types::{Workspace, well_known};

use super::{WorkspaceInfo, is_personal};
use crate::{Error, Tenancy};

/// When it will be removed. `None` if the annotation cannot be parsed: nothing is removed by mistake.
pub(crate) fn removal_time(workspace: &Workspace) -> Option<Timestamp> {
    workspace.annotations().get(well_known::REMOVE_AFTER)?.parse().ok()
}

impl Tenancy {
    /// Schedules the removal of a workspace: after the grace period of the settings, or immediately with `now`.
    pub async fn delete_workspace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        now: bool,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::DeleteWorkspace, AccessScope::Workspace(name))?;
        let grace = if now { SignedDuration::ZERO } else { self.removal_grace_period() };
        let end = self.0.clock.now().checked_add(grace).unwrap_or(Timestamp::MAX);
        self.update_workspace(actor, name, expected, |workspace| {
            if is_personal(workspace) {
                let message =
                    format!("workspace `{name}` is a personal workspace and is deleted with its account");
                return Err(Error::Conflict(message));
            }
            // A repeated request does not postpone the removal; `now` brings it forward.
            let end = removal_time(workspace).map_or(end, |before| before.min(end));
            workspace.annotations_mut().insert(well_known::REMOVE_AFTER.to_owned(), end.to_string());
            Ok(())
        })
        .await
    }

    /// Cancels the scheduled removal of a workspace.
    pub async fn restore_workspace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::DeleteWorkspace, AccessScope::Workspace(name))?;
        self.update_workspace(actor, name, expected, |workspace| {
            workspace.annotations_mut().remove(well_known::REMOVE_AFTER);
            Ok(())
        })
        .await
    }

    /// The grace period of the settings.
    fn removal_grace_period(&self) -> SignedDuration {
        SignedDuration::try_from(self.0.settings.removal_grace_period).unwrap_or(SignedDuration::MAX)
    }
}
