//! Refusals by a storage budget: the embedded cluster's limit of bytes for all objects of a workspace.
//!
//! They are a `Forbidden` with a cause of their own. Clients tell them apart by the cause, because a missing permission is another
//! matter for users than a workspace that is full.

/// The reason of the cause.
const REASON: &str = "StorageBudgetExceeded";

/// The name of the budget, what is used, and its limit, if the error is such a refusal.
pub fn exceeded(error: &kube::Error) -> Option<&str> {
    let kube::Error::Api(status) = error else { return None };
    let causes = &status.details.as_ref()?.causes;
    causes.iter().find(|cause| cause.reason == REASON).map(|cause| cause.message.as_str())
}
