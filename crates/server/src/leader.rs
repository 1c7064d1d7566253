//! Which of several servers on one cluster does what only one may do.
//!
//! They all answer requests; the leader alone acts by itself. On a real cluster they agree by a Lease. On the embedded
//! one the lock on the data folder has decided already: who runs, leads.

use std::convert::Infallible;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kube::core::{ObjectMeta, Status};
use kube_access::Lock;
use kube_types::SYSTEM_NAMESPACE as NAMESPACE;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const LEASE: &str = "longshore-leader";

#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error(
        "the namespace `{NAMESPACE}` is not there for us, and we may not make it: ask an administrator of the cluster to create it"
    )]
    Forbidden(#[source] Box<Status>),
    #[error("cannot make sure that there is a namespace `{NAMESPACE}`")]
    Failed(#[source] Box<kube::Error>),
}

/// Makes the platform's namespace where it is missing.
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
            tracing::info!(namespace = NAMESPACE, "made the platform's namespace");
            Ok(())
        }
        // Another server was faster.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 => Err(NamespaceError::Forbidden(status)),
        Err(error) => Err(NamespaceError::Failed(Box::new(error))),
    }
}

/// Whether this server leads, for those who watch it.
#[derive(Clone, Default)]
pub struct Leadership(Gauge);

impl Leadership {
    pub fn register(&self, shown: &mut Registry) {
        shown.register("leader", "Whether this server leads", self.0.clone());
    }

    /// Leads until `stop`, for a server that has nobody beside it.
    pub async fn alone(self, work: impl Future<Output = Infallible>, stop: impl Future<Output = ()>) {
        let _leading = Leading::begin(self.0);
        tokio::select! {
            never = work => match never {},
            () = stop => {}
        }
    }

    /// Stands for election until `stop`, and does `work` in each term. `holder` is how people recognise this server in the
    /// Lease.
    pub async fn stand<W: Future<Output = Infallible>>(
        self,
        client: kube::Client,
        holder: &str,
        work: impl Fn() -> W,
        stop: impl Future<Output = ()>,
    ) {
        let lock = Lock::new(client, NAMESPACE, LEASE, holder);
        tracing::info!(leader.identity = lock.identity(), "standing for election");
        let term = || {
            let (leading, work) = (Leading::begin(self.0.clone()), work());
            async move {
                let _leading = leading;
                work.await
            }
        };
        lock.lead(term, stop).await;
    }
}

/// A term, from its beginning until it is dropped.
struct Leading(Gauge);

impl Leading {
    fn begin(gauge: Gauge) -> Self {
        gauge.set(1);
        tracing::info!("this server leads");
        Self(gauge)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.set(0);
        tracing::info!("this server no longer leads");
    }
}

#[cfg(test)]
mod tests {
    use kube_embedded::access::User;
    use kube_embedded::cluster::Cluster;

    use super::*;

    #[tokio::test]
    async fn the_namespace_is_made_once_and_by_those_who_may() {
        let cluster = Cluster::in_memory().await;
        let (nobody, admin) = (User::named("nobody", &[]), User::admin());
        let refused = ensure_namespace(cluster.client(nobody)).await.unwrap_err();
        assert!(refused.to_string().contains("ask an administrator"), "{refused}");
        ensure_namespace(cluster.client(admin.clone())).await.unwrap();
        ensure_namespace(cluster.client(admin.clone())).await.unwrap();
        let made = Api::<Namespace>::all(cluster.client(admin)).get(NAMESPACE).await.unwrap();
        assert_eq!(made.metadata.name.as_deref(), Some(NAMESPACE));
    }
}
