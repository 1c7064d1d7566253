//! Quota check of a release, done before anything is written.
//!
//! Quotas are read from the API each time: a stale cache would reject a release that fits by now. Nodes are not checked here, because
//! nodes can be added; a plan reports them (`crate::acts::plan`).

use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::actions::Room;
use kube_access::Clients;
use kube_apply::fit::{self, FitError, Shortage};
use kube_apply::{Object, Target};

/// Reads quotas as the platform, because the identity of a release may not.
pub(crate) struct Quotas<'a>(pub &'a Clients);

impl Quotas<'_> {
    async fn look(
        &self,
        target: &Target,
        before: &[Object],
        after: &[Object],
    ) -> Result<Vec<Shortage>, FitError> {
        let own = Target { client: self.0.own(), ..target.clone() };
        fit::room(&fit::quotas(&own, after).await?, target, before, after).await
    }
}

impl Room for Quotas<'_> {
    fn short<'a>(
        &'a self,
        target: &'a Target,
        before: &'a [Object],
        after: &'a [Object],
    ) -> BoxFuture<'a, Option<String>> {
        async move {
            match self.look(target, before, after).await {
                Ok(short) => (!short.is_empty()).then(|| said(&short)),
                // If the check fails, the write is attempted and the API server decides.
                Err(error) => {
                    tracing::debug!(%error, "cannot tell whether there is room");
                    None
                }
            }
        }
        .boxed()
    }
}

fn said(short: &[Shortage]) -> String {
    let short: Vec<String> = short.iter().map(ToString::to_string).collect();
    short.join("; ")
}
