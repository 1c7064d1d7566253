//! Connection to the cluster that the platform runs on: embedded or real.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_access::Clients;
use kube_access::controller::runtime;
use kube_embedded::access::pki::{Pki, PkiError};
use kube_embedded::cluster as embedded;
use kube_embedded::http::accept::ConnectionLimits;
use kube_embedded::http::audit::AuditSink;
use kube_embedded::http::flow::ServiceAccountFlows;
use kube_embedded::sim::Simulation;
use kube_embedded::store::{OpenError, StorageBudget};
use tokio::net::TcpListener;

use crate::budgets;

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot open the embedded cluster in `{}`", data.display())]
    Open {
        data: PathBuf,
        #[source]
        source: embedded::OpenError,
    },
    #[error("cannot listen on {address} for the Kubernetes API")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use the kubeconfig `{}`", file.display())]
    Kubeconfig {
        file: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot reach the server of data directory `{}`", data.display())]
    Running {
        data: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the cluster at {url} does not answer")]
    Unreachable {
        url: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// The embedded cluster with its bound listener.
pub struct EmbeddedCluster {
    pub cluster: embedded::Cluster,
    pub listener: TcpListener,
    pub address: SocketAddr,
}

/// Opens the data folder and binds the Kubernetes port.
pub async fn open_embedded(
    data: &Path,
    listen: SocketAddr,
    external_url: Option<&str>,
    simulation: Option<Simulation>,
    connections: ConnectionLimits,
    storage: StorageBudget,
    audit: Arc<dyn AuditSink>,
) -> Result<EmbeddedCluster, ClusterError> {
    let host = external_url.and_then(|url| url.strip_prefix("https://")).map(parse_host);
    let mut names: Vec<String> = host.into_iter().map(str::to_owned).collect();
    if !listen.ip().is_unspecified() {
        names.push(listen.ip().to_string());
    }
    let mut flows = ServiceAccountFlows::default();
    // Each user has a ServiceAccount in this namespace and thus a flow of its own. ServiceAccounts in tenant namespaces share the flow of
    // their account.
    flows.separate_in.push(kube_types::SYSTEM_NAMESPACE.to_owned());
    flows.group_labels = budgets::owner_labels();
    let config = embedded::Config {
        data_dir: Some(data.to_owned()),
        extra_names: names,
        flows,
        simulation,
        connection_limits: connections,
        storage_budget: Some(storage),
        level_limits: budgets::kubernetes_limits(),
        work_limits: budgets::kubernetes_work_limits(),
        audit_sink: Some(audit),
        ..embedded::Config::default()
    };
    let cluster = embedded::Cluster::open(config)
        .await
        .map_err(|source| ClusterError::Open { data: data.to_owned(), source })?;
    let listener =
        TcpListener::bind(listen).await.map_err(|source| ClusterError::Listen { address: listen, source })?;
    let address = listener.local_addr().map_err(|source| ClusterError::Listen { address: listen, source })?;
    // The announced URL is the one that joining machines connect to.
    let here = if address.ip().is_unspecified() {
        format!("127.0.0.1:{}", address.port())
    } else {
        address.to_string()
    };
    let url = external_url.map_or_else(|| format!("https://{here}"), str::to_owned);
    cluster.publish_url(&url).await.map_err(|source| ClusterError::Open {
        data: data.to_owned(),
        source: embedded::OpenError::Bootstrap(source),
    })?;
    Ok(EmbeddedCluster { cluster, listener, address })
}

impl ClusterError {
    /// Whether a server has the data folder open.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Open { source: embedded::OpenError::Store(OpenError::InUse { .. }), .. })
    }
}

/// Whether the data folder contains a cluster.
pub fn has_cluster_data(data: &Path) -> bool {
    data.join("store.redb").exists()
}

/// Opens the data folder without a listener and without simulation.
pub async fn open_offline(data: &Path) -> Result<embedded::Cluster, ClusterError> {
    let config = embedded::Config { data_dir: Some(data.to_owned()), ..embedded::Config::default() };
    embedded::Cluster::open(config)
        .await
        .map_err(|source| ClusterError::Open { data: data.to_owned(), source })
}

/// The administrator's kubeconfig, from the files in the folder `pki`.
pub fn kubeconfig(pki: &Path, url: &str) -> Result<String, PkiError> {
    Pki::read(pki).map(|pki| pki.kubeconfig(url))
}

/// An administrator client for the server that runs on this data folder and serves the Kubernetes API at `url`.
pub async fn connect_to_running(data: &Path, url: &str) -> Result<kube::Client, ClusterError> {
    let failed = |source| ClusterError::Running { data: data.to_owned(), source };
    let text = kubeconfig(&data.join("pki"), url).map_err(|error| failed(error.into()))?;
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| failed(error.into()))?;
    client_from_kubeconfig(kubeconfig, None).await.map(|(_, client)| client).map_err(failed)
}

/// A client with request timeouts, and the cluster's URL.
async fn client_from_kubeconfig(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<(String, kube::Client), Box<dyn std::error::Error + Send + Sync>> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    kube_access::clients::reject_impersonation(&config)?;
    let url = config.cluster_url.to_string();
    Ok((url, Clients::new(kube::Client::try_from(config)?).platform()))
}

/// `kube.example.com` of `kube.example.com:6443/path`, `::1` of `[::1]:6443`.
fn parse_host(rest: &str) -> &str {
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or(authority),
    }
}

/// A real cluster, and whether its last health check succeeded.
pub struct RealCluster {
    pub url: String,
    pub client: kube::Client,
    pub is_healthy: Arc<AtomicBool>,
}

/// Connects by a kubeconfig file. Environment and in-cluster configuration are ignored.
pub async fn connect(file: &Path, context: Option<&str>) -> Result<RealCluster, ClusterError> {
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Kubeconfig {
        file: file.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| wrong(error.into()))?;
    let (url, client) = client_from_kubeconfig(kubeconfig, context).await.map_err(wrong)?;
    let version = client
        .apiserver_version()
        .await
        .map_err(|source| ClusterError::Unreachable { url: url.clone(), source: Box::new(source) })?;
    tracing::info!(kube.url = url, kube.version = version.git_version, "running on an existing cluster");
    Ok(RealCluster { url, client, is_healthy: Arc::new(AtomicBool::new(true)) })
}

impl RealCluster {
    /// Starts the periodic health check for `/readyz`.
    pub fn watch_health(&self) {
        let (client, answers) = (self.client.clone(), self.is_healthy.clone());
        let start = move || watch_health(client.clone(), answers.clone());
        tokio::spawn(async move { match runtime().run("cluster-health", "", start).await {} });
    }
}

async fn watch_health(client: kube::Client, answers: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let well = client.apiserver_version().await.is_ok();
        if answers.swap(well, Ordering::Relaxed) != well {
            tracing::warn!(answers = well, "the cluster's health changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_host;

    #[test]
    fn parse_host_drops_port_and_path() {
        assert_eq!(parse_host("kube.example.com:6443/x"), "kube.example.com");
        assert_eq!(parse_host("[::1]:6443"), "::1");
        assert_eq!(parse_host("10.0.0.1"), "10.0.0.1");
    }
}
