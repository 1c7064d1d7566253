//! Leader election among several servers on one cluster.
//!
//! All servers handle requests; only the leader runs controllers. On a real cluster a Lease decides. On the embedded cluster the lock on
//! the data folder admits one server only, which is always the leader.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kube::core::{ObjectMeta, Status};
use kube_access::LeaseElection;
use kube_types::SYSTEM_NAMESPACE as NAMESPACE;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const LEADER_LEASE: &str = "longshore-leader";

#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error(
        "namespace `{NAMESPACE}` does not exist or is not accessible, and the server may not create it: ask a cluster administrator to create it"
    )]
    Forbidden(#[source] Box<Status>),
    #[error("cannot read or create namespace `{NAMESPACE}`")]
    Failed(#[source] Box<kube::Error>),
}

/// Creates the platform's namespace if it does not exist.
pub async fn ensure_namespace(client: kube::Client) -> Result<(), NamespaceError> {
    let namespaces: Api<Namespace> = Api::all(client);
    match namespaces.get(NAMESPACE).await {
        Ok(_) => return Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
        Err(error) => return Err(NamespaceError::Failed(Box::new(error))),
    }
    let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
    let made =
        namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await;
    match made {
        Ok(_) => {
            tracing::info!(namespace = NAMESPACE, "created the platform's namespace");
            Ok(())
        }
        // Another server created it concurrently.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(NamespaceError::Forbidden(status)),
        Err(error) => Err(NamespaceError::Failed(Box::new(error))),
    }
}

/// The metric that shows whether this server leads.
#[derive(Clone, Default)]
pub struct Leadership(Gauge);

impl Leadership {
    pub fn register(&self, shown: &mut Registry) {
        shown.register("leader", "Whether this server is the leader", self.0.clone());
    }

    /// Leads until `stop` resolves, without an election, for a server that has the cluster to itself.
    pub async fn run_without_election(
        self,
        work: impl Future<Output = Infallible>,
        stop: impl Future<Output = ()>,
    ) {
        let _leading = LeadershipGuard::acquire(self.0);
        tokio::select! {
            never = work => match never {},
            () = stop => {}
        }
    }

    /// Takes part in the election until `stop` resolves, and runs `work` while elected. `holder` prefixes this server's identity in the
    /// Lease.
    pub async fn run_with_election<W: Future<Output = Infallible>>(
        self,
        client: kube::Client,
        holder: &str,
        work: impl Fn() -> W,
        stop: impl Future<Output = ()>,
    ) {
        let lock = LeaseElection::new(client, NAMESPACE, LEADER_LEASE, holder);
        tracing::info!(leader.identity = lock.identity(), "waiting for leadership");
        let term = || {
            let (leading, work) = (LeadershipGuard::acquire(self.0.clone()), work());
            async move {
                let _leading = leading;
                work.await
            }
        };
        lock.run_as_leader(term, stop).await;
    }
}

/// Sets the metric while this server leads; resets it when dropped.
struct LeadershipGuard(Gauge);

impl LeadershipGuard {
    fn acquire(gauge: Gauge) -> Self {
        gauge.set(1);
        tracing::info!("acquired leadership");
        Self(gauge)
    }
}

impl Drop for LeadershipGuard {
    fn drop(&mut self) {
        self.0.set(0);
        tracing::info!("lost leadership");
    }
}

#[cfg(test)]
mod tests {
    use kube_embedded::access::User;
    use kube_embedded::cluster::Cluster;

    use super::*;

    #[tokio::test]
    async fn ensure_namespace_is_idempotent_and_requires_permission() {
        let cluster = Cluster::in_memory().await;
        let (nobody, admin) = (User::named("nobody", &[]), User::admin());
        let refused = ensure_namespace(cluster.client(nobody)).await.unwrap_err();
        assert!(refused.to_string().contains("ask a cluster administrator"), "{refused}");
        ensure_namespace(cluster.client(admin.clone())).await.unwrap();
        ensure_namespace(cluster.client(admin.clone())).await.unwrap();
        let made = Api::<Namespace>::all(cluster.client(admin)).get(NAMESPACE).await.unwrap();
        assert_eq!(made.metadata.name.as_deref(), Some(NAMESPACE));
    }
}
