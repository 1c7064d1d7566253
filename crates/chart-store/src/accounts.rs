//! Accounts: whose budgets a workspace uses.

/// Tells the account of each workspace, from memory.
pub trait Accounts: Send + Sync + 'static {
    /// The id of the account whose budgets the workspace uses; none where it has budgets of its own.
    fn account_of(&self, workspace: &str) -> Option<String>;
}

/// Every workspace has budgets of its own.
pub(crate) struct NoAccounts;

impl Accounts for NoAccounts {
    fn account_of(&self, _: &str) -> Option<String> {
        None
    }
}
