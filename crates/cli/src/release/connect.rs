//! Connection to the cluster of a given kubeconfig. Neither `KUBECONFIG` nor the default kubeconfig is read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use helm_release::{Helm, Storage};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_access::Clients;
use kube_apply::Discovery;

/// Timeout for another client's lock on a release: long enough to detect that the holder died.
const LOCK_TIMEOUT: Duration = Duration::from_secs(12);

/// The cluster and the namespace to use.
#[derive(Clone, Debug)]
pub struct ClusterTarget {
    pub kubeconfig: PathBuf,
    /// Context of the kubeconfig.
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// Connection to a cluster.
pub struct ClusterConnection {
    pub client: Client,
    pub namespace: String,
    pub clock: Arc<dyn Clock>,
}

pub async fn connect(at: &ClusterTarget) -> Result<ClusterConnection, String> {
    let file = &at.kubeconfig;
    let wrong =
        |why: &dyn std::fmt::Display| format!("cannot use the kubeconfig `{}`: {why}", file.display());
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
    let options = KubeConfigOptions { context: at.context.clone(), ..KubeConfigOptions::default() };
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| wrong(&error))?;
    kube_access::clients::reject_impersonation(&config).map_err(|error| wrong(&error))?;
    let namespace = at.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| wrong(&error))?;
    // A client with request timeouts.
    Ok(ClusterConnection { client: Clients::new(client).platform(), namespace, clock: Arc::new(SystemClock) })
}

impl ClusterConnection {
    pub fn storage(&self) -> Storage {
        Storage::new(self.client.clone(), &self.namespace, self.clock.clone())
    }

    /// Helm client for actions. Reads the API groups of the cluster.
    pub async fn helm(&self) -> Result<Helm, String> {
        let discovery = Discovery::read(&self.client)
            .await
            .map_err(|error| format!("Kubernetes cluster unreachable: {error}"))?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let holder = format!("longshore on {host}, process {}", std::process::id());
        let mut helm =
            Helm::new(self.client.clone(), self.client.clone(), discovery, self.clock.clone(), &holder);
        helm.lock_timeout = LOCK_TIMEOUT;
        // Records are stored complete, because without a server nothing else stores the omitted parts.
        helm.single_secret_records = true;
        Ok(helm)
    }
}
