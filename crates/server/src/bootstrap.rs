//! Bootstrap of the cluster: namespace, CRDs and RBAC roles.

use kube_access::Clients;
use kube_access::crds::CrdInstallError;
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use kube_types::{SYSTEM_NAMESPACE, definitions};
use tenancy::manifests::{self, ApplyError, PLATFORM_SERVICE_ACCOUNT};

use crate::leader::{NamespaceError, ensure_namespace};

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error(transparent)]
    Install(#[from] CrdInstallError),
    #[error(transparent)]
    Manifests(#[from] ApplyError),
    #[error("cannot read the platform's own ServiceAccount")]
    Account(#[source] Box<kube::Error>),
}

/// Prepares the embedded cluster as its administrator, with the manifests that `longshore manifests` prints. The returned clients use the
/// platform's ServiceAccount, with the same rights as on a real cluster.
pub async fn bootstrap_embedded(cluster: &Cluster) -> Result<Clients, BootstrapError> {
    let administrator = cluster.client(User::admin());
    let (applied, installed) = tokio::join!(
        manifests::apply(&administrator),
        kube_access::install_crds(&administrator, definitions::all()),
    );
    applied?;
    installed?;
    let accounts: kube::Api<k8s_openapi::api::core::v1::ServiceAccount> =
        kube::Api::namespaced(administrator, SYSTEM_NAMESPACE);
    let account = accounts
        .get(PLATFORM_SERVICE_ACCOUNT)
        .await
        .map_err(|error| BootstrapError::Account(Box::new(error)))?;
    let uid = account.metadata.uid.unwrap_or_default();
    let own = cluster.client(User::service_account(SYSTEM_NAMESPACE, PLATFORM_SERVICE_ACCOUNT, &uid));
    Ok(Clients::new(own))
}

/// Prepares a real cluster: creates the namespace and installs the CRDs, as far as the platform is permitted to.
pub async fn bootstrap_real(own: kube::Client) -> Result<Clients, BootstrapError> {
    ensure_namespace(own.clone()).await?;
    kube_access::install_crds(&own, definitions::all()).await?;
    Ok(Clients::new(own))
}
