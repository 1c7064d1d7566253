//! Who there is, as far as releases must know: asked of whoever keeps accounts and workspaces.

use domain::actor::Impersonation;
use domain::ids::{UserId, WorkspaceName};

/// A person as they may act now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// As whom they act in Kubernetes, with the groups that they have now.
    pub acts_as: Impersonation,
    /// Administrators of the platform may install what belongs to the whole cluster.
    pub administrates: bool,
}

/// Answers from memory.
pub trait People: Send + Sync + 'static {
    /// The person of that account, by its UID; nobody if it is closed, expired or gone.
    fn person(&self, user: &UserId, uid: &str) -> Option<Person>;

    /// The workspace whose namespace this is.
    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName>;
}
