//! Errors of API calls: requests that are not sent, and messages for tenants.
//!
//! The message of a Kubernetes Status can name the platform's ServiceAccount and objects of other tenants. Tenants get a
//! [`tenant_message`]; the full error goes to the log.

use crate::verb::InvalidCall;

/// Why a request was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ImpersonationError {
    #[error("user `{user}` or one of its groups is not a valid header value")]
    InvalidName { user: String },
    #[error("the client that impersonates `{user}` cannot impersonate another user")]
    AlreadyImpersonated { user: String },
    #[error(transparent)]
    Invalid(InvalidCall),
}

/// The reason of a failed API call of the platform, without internal details.
pub fn tenant_message(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => "the platform is not permitted to",
            404 => "it was not found",
            409 => "it was changed at the same time",
            413 => "it is too large",
            422 => "it is not valid",
            429 => "the cluster is busy",
            _ => "the cluster failed",
        },
        kube::Error::Service(_) | kube::Error::HyperError(_) => "the cluster does not answer",
        _ => "unexpected response from the cluster",
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn tenant_message_discloses_nothing_of_the_status() {
        let message =
            "secrets is forbidden: User \"system:serviceaccount:longshore-system:longshore\" cannot list";
        let status = Status::failure(message, "Forbidden").with_code(403);
        let error = kube::Error::Api(Box::new(status));
        assert!(error.to_string().contains("serviceaccount"), "{error}");
        assert_eq!(tenant_message(&error), "the platform is not permitted to");
    }
}
