//! Errors of a storage budget: the embedded cluster's limit on bytes for all objects of a workspace.
//!
//! Such an error is a `Forbidden` with a cause of its own. Clients distinguish it by the cause, because a full workspace needs another
//! remedy than a missing permission.

/// The reason of the cause.
const REASON: &str = "StorageBudgetExceeded";

/// The message with the budget's name, usage and limit, if the error is of this kind.
pub fn exceeded_message(error: &kube::Error) -> Option<&str> {
    let kube::Error::Api(status) = error else { return None };
    let causes = &status.details.as_ref()?.causes;
    causes.iter().find(|cause| cause.reason == REASON).map(|cause| cause.message.as_str())
}
