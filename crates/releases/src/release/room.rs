//! Whether there is room for a release in the quotas of its namespaces, asked before anything of it is written.
//!
//! The quotas are read anew each time: what a watch said a moment ago would refuse what has room by now. Nodes are not looked
//! at here: others can come, and a plan tells of them (`crate::acts::plan`).

use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::actions::Room;
use kube_access::Clients;
use kube_apply::fit::{self, FitError, Shortage};
use kube_apply::{Object, Target};

/// The quotas of the cluster, as the platform may read them: whoever a release acts as may not.
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
                // What is not known keeps nobody from trying: the cluster has the last word.
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
