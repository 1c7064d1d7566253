//! Accounts: the owner of the work and storage budgets that a workspace uses.

/// Maps workspaces to accounts. Implementations answer from memory, without I/O.
pub trait AccountLookup: Send + Sync + 'static {
    /// The id of the account whose budgets the workspace uses; `None` if the workspace has its own.
    fn account_of(&self, workspace: &str) -> Option<String>;
}

/// Every workspace has its own budgets.
pub(crate) struct NoAccounts;

impl AccountLookup for NoAccounts {
    fn account_of(&self, _: &str) -> Option<String> {
        None
    }
}
