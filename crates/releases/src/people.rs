//! Who there is, as far as releases must know: asked of whoever keeps accounts and workspaces.

use domain::actor::{Impersonation, Refusal};
use domain::ids::{UserId, WorkspaceName};

/// Why a release has no identity to act with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the account is closed, expired or gone")]
    NoAccount,
    /// The account's role, or the scope of the token that the release was changed with.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the account is no administrator of the platform any more")]
    NotAdministrator,
    #[error("the scope of the token is not valid: {0}")]
    Scope(String),
}

/// Answers from memory.
pub trait People: Send + Sync + 'static {
    /// The identity of a release of `workspace` that acts for this account, by its UID: the user and exactly one group, by
    /// the role that the account has there now. `scope` is that of the token by which the release was changed; empty
    /// for one that is not limited.
    fn acts_as(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError>;

    /// The identity of this account, by its UID, as an administrator of the platform, if it is one now.
    fn administrator(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError>;

    /// The workspace whose namespace this is.
    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName>;
}
