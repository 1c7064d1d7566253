//! Who there is, as far as releases must know: asked of whoever keeps accounts and workspaces.

use domain::actor::Impersonation;
use domain::ids::{UserId, WorkspaceName};

/// Answers from memory.
pub trait People: Send + Sync + 'static {
    /// As whom the person of that account, by its UID, acts in Kubernetes, with the groups that they have now; nobody if it is
    /// closed, expired or gone.
    fn acts_as(&self, user: &UserId, uid: &str) -> Option<Impersonation>;

    /// The workspace whose namespace this is.
    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName>;
}
