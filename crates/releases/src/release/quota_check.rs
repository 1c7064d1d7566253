//! Quota check of a release, done before anything is written.
//!
//! Quotas are read from the API each time: a stale cache would reject a release that fits by now. Nodes are not checked here, because
//! nodes can be added; a plan reports them (`crate::service::plan`).

use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::actions::CapacityCheck;
use kube_access::Clients;
use kube_apply::capacity::{self, CapacityError, Shortage};
use kube_apply::{Object, Target};

/// Reads quotas as the platform, because the identity of a release may not.
pub(crate) struct QuotaCheck<'a>(pub &'a Clients);

impl QuotaCheck<'_> {
    async fn shortages(
        &self,
        target: &Target,
        before: &[Object],
        after: &[Object],
    ) -> Result<Vec<Shortage>, CapacityError> {
        let own = Target { client: self.0.platform(), ..target.clone() };
        capacity::quota_shortages(&capacity::quotas(&own, after).await?, target, before, after).await
    }
}

impl CapacityCheck for QuotaCheck<'_> {
    fn shortage<'a>(
        &'a self,
        target: &'a Target,
        before: &'a [Object],
        after: &'a [Object],
    ) -> BoxFuture<'a, Option<String>> {
        async move {
            match self.shortages(target, before, after).await {
                Ok(short) => (!short.is_empty()).then(|| shortage_message(&short)),
                // If the check fails, the write is attempted and the API server decides.
                Err(error) => {
                    tracing::debug!(%error, "cannot check quotas");
                    None
                }
            }
        }
        .boxed()
    }
}

fn shortage_message(short: &[Shortage]) -> String {
    let short: Vec<String> = short.iter().map(ToString::to_string).collect();
    short.join("; ")
}
