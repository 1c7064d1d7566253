//! Timeouts of API requests.
//!
//! A response must be complete within [`REQUEST_TIMEOUT`], or the call fails with [`RequestTimeout`]. A streaming response, such as a
//! watch, must have begun by then. The caller declares whether a call streams ([`crate::verb`]); the URL does not decide it. After a
//! timeout the request may have taken effect: the caller reads the state again.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use crate::errors::ImpersonationError;
use crate::verb;

/// Request timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The API server did not respond in time.
#[derive(Debug, thiserror::Error)]
#[error("the cluster has not answered within {} s", .0.as_secs_f32())]
pub struct RequestTimeout(pub Duration);

/// Whether the error means that the API server did not or could not respond, rather than a decision about the request.
pub fn is_unreachable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 502..=504),
        kube::Error::Service(_) => !is_not_sent(error),
        kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether a retry may succeed. If not, the API server has refused a request of the platform itself, which is a bug.
pub fn is_retriable(error: &kube::Error) -> bool {
    !is_not_sent(error) && !matches!(error, kube::Error::Api(status) if !matches!(status.code, 429 | 500..))
}

/// Whether the request was refused by this client and never sent.
fn is_not_sent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(cause) if cause.is::<ImpersonationError>())
}

/// Sends a request with a timeout for the response.
pub(crate) async fn send(
    client: &kube::Client,
    request: Request<Body>,
    limit: Duration,
) -> kube::Result<Response<Body>> {
    verb::check(&request)
        .map_err(|error| kube::Error::Service(Box::new(ImpersonationError::Invalid(error))))?;
    let streams = verb::is_streaming(&request);
    let answer = async {
        let answer = client.send(request).await?;
        if streams {
            return Ok(answer);
        }
        // The timeout covers the body: a server can stop responding in the middle of it.
        let (head, body) = answer.into_parts();
        Ok(Response::from_parts(head, Body::from(body.collect().await?.to_bytes())))
    };
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(Box::new(RequestTimeout(limit)))),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn client_errors_are_not_retriable() {
        let api = |code: u16| kube::Error::Api(Box::new(Status::failure("no", "No").with_code(code)));
        for (error, expected) in [
            (api(400), false),
            (api(403), false),
            (api(404), false),
            (api(409), false),
            (api(422), false),
            (api(429), true),
            (api(500), true),
            (api(503), true),
            (kube::Error::Service(Box::new(RequestTimeout(REQUEST_TIMEOUT))), true),
        ] {
            assert_eq!(is_retriable(&error), expected, "{error:?}");
        }
    }
}
