//! Whether there is room for a release in the quotas of its namespaces, asked before anything of it is written.
//!
//! The quotas are in memory, fed by a watch, so that what plainly fits costs no call. Nodes are not looked at here: others can
//! come, and a plan tells of them (`crate::acts::plan`).

use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::actions::Room;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::runtime::watcher::Config;
use kube_access::{Clients, Feed};
use kube_apply::fit::{self, Quota, Shortage};
use kube_apply::{Object, Target};
use parking_lot::Mutex;

/// So many are asked for at a time.
const PAGE: u32 = 100;

/// What is left of every quota of the cluster.
#[derive(Clone)]
pub(crate) struct Quotas(pub Feed<Option<Quota>>);

impl Quotas {
    pub fn watch(clients: &Clients) -> Self {
        let quotas: Api<ResourceQuota> = Api::all(clients.own());
        // Most workspaces have the same quota, and use nothing of it.
        let last: Mutex<Option<Quota>> = Mutex::default();
        Self(Feed::keeping(quotas, Config::default().page_size(PAGE), move |quota| {
            let quota = Quota::of(&serde_json::to_value(quota).ok()?)?;
            let mut last = last.lock();
            let quota = match &*last {
                Some(last) => quota.sharing(last),
                None => quota,
            };
            *last = Some(quota.clone());
            Some(quota)
        }))
    }
}

impl Room for Quotas {
    fn short<'a>(
        &'a self,
        target: &'a Target,
        before: &'a [Object],
        after: &'a [Object],
    ) -> BoxFuture<'a, Option<String>> {
        async move {
            // What is not known keeps nobody from trying: the cluster has the last word.
            if self.0.stale_for().is_some() {
                return None;
            }
            let all = self.0.all();
            let quotas = all.iter().filter_map(|quota| quota.as_ref().as_ref());
            let quotas: Vec<Quota> = quotas.filter(|quota| quota.holds_for(target, after)).cloned().collect();
            match fit::room(&quotas, target, before, after).await {
                Ok(short) if short.is_empty() => None,
                Ok(short) => Some(said(&short)),
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
