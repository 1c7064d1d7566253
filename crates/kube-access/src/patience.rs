//! How long we wait for a cluster to answer.
//!
//! A call is answered whole within [`LIMIT`], or fails with [`Silent`]. A stream, such as a watch, must have begun by then.
//! Whether a call streams is declared by its caller ([`crate::verb`]) and not read from its URL. Whether a call that had no answer was done is not known: whoever made it looks again.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use crate::clients::Unsent;
use crate::verb;

/// How long a cluster may take to answer.
pub const LIMIT: Duration = Duration::from_secs(15);

/// The cluster did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the cluster has not answered within {} s", .0.as_secs_f32())]
pub struct Silent(pub Duration);

/// Whether the failure is that the cluster did not answer, or could not: not a word about what was asked.
pub fn is_out_of_reach(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 502..=504),
        kube::Error::Service(_) => !is_unsent(error),
        kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether the same call may be answered otherwise later. Where not, the cluster has refused what we asked of it in our own name, and that is
/// our mistake.
pub fn may_pass(error: &kube::Error) -> bool {
    !is_unsent(error) && !matches!(error, kube::Error::Api(status) if !matches!(status.code, 429 | 500..))
}

/// Whether the request was refused here and never reached the cluster.
fn is_unsent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(cause) if cause.is::<Unsent>())
}

/// Sends the request, and waits no longer than `limit` for its answer.
pub(crate) async fn send(
    client: &kube::Client,
    request: Request<Body>,
    limit: Duration,
) -> kube::Result<Response<Body>> {
    verb::check(&request).map_err(|error| kube::Error::Service(Box::new(Unsent::Invalid(error))))?;
    let streams = verb::streams(&request);
    let answer = async {
        let answer = client.send(request).await?;
        if streams {
            return Ok(answer);
        }
        // With its body: a server can fall silent in the middle of it.
        let (head, body) = answer.into_parts();
        Ok(Response::from_parts(head, Body::from(body.collect().await?.to_bytes())))
    };
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service(Box::new(Silent(limit)))),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_cluster_has_refused_stays_refused_and_the_rest_may_pass() {
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
            (kube::Error::Service(Box::new(Silent(LIMIT))), true),
        ] {
            assert_eq!(may_pass(&error), expected, "{error:?}");
        }
    }
}
