//! The cluster that a kubeconfig names, and nothing else: neither `KUBECONFIG` nor the file in the home folder is read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::{Clock, SystemClock};
use helm_release::{Helm, Storage};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_access::Clients;
use kube_apply::Discovery;

/// How long one waits for somebody else who is at work on a release: long enough to find out that they died.
const PATIENCE: Duration = Duration::from_secs(12);

/// Which cluster, and where in it.
#[derive(Clone, Debug)]
pub struct At {
    pub kubeconfig: PathBuf,
    /// Which of its contexts.
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// A cluster that can be asked.
pub struct Reached {
    pub client: Client,
    pub namespace: String,
    pub clock: Arc<dyn Clock>,
}

pub async fn reach(at: &At) -> Result<Reached, String> {
    let file = &at.kubeconfig;
    let wrong =
        |why: &dyn std::fmt::Display| format!("cannot use the kubeconfig `{}`: {why}", file.display());
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
    let options = KubeConfigOptions { context: at.context.clone(), ..KubeConfigOptions::default() };
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| wrong(&error))?;
    kube_access::clients::check(&config).map_err(|error| wrong(&error))?;
    let namespace = at.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| wrong(&error))?;
    // One that gives up on a cluster that does not answer.
    Ok(Reached { client: Clients::new(client).own(), namespace, clock: Arc::new(SystemClock) })
}

impl Reached {
    pub fn storage(&self) -> Storage {
        Storage::new(self.client.clone(), &self.namespace, self.clock.clone())
    }

    /// Somebody who can act. Asks the cluster what it serves.
    pub async fn helm(&self) -> Result<Helm, String> {
        let discovery = Discovery::read(&self.client)
            .await
            .map_err(|error| format!("Kubernetes cluster unreachable: {error}"))?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let holder = format!("longshore on {host}, process {}", std::process::id());
        let mut helm =
            Helm::new(self.client.clone(), self.client.clone(), discovery, self.clock.clone(), &holder);
        helm.patience = PATIENCE;
        // Without a server nothing keeps what a record would leave out.
        helm.whole_records = true;
        Ok(helm)
    }
}
