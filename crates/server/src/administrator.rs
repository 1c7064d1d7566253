//! `longshore admin reset-password`: for whoever holds the cluster itself, by its kubeconfig or by the data folder.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_embedded::access::User;

use crate::cluster::{self, ClusterError, kubeconfig};
use crate::endpoints::Endpoints;

/// By what right the password is reset.
pub enum Right {
    /// The rights that a kubeconfig gives on a real cluster.
    Kubeconfig { file: PathBuf, context: Option<String> },
    /// The embedded cluster's data folder, whether its server runs or not.
    Data(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot read the addresses in `{}`", data.display())]
    Endpoints {
        data: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("there is no cluster in `{}` yet: start `longshore serve` once", data.display())]
    NoCluster { data: PathBuf },
    #[error("cannot reach the server that runs on `{}`", data.display())]
    Client {
        data: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Reset(#[from] tenancy::Error),
}

/// Gives the account a new password, which is returned to be printed once.
pub async fn reset_password(right: Right, account: &str) -> Result<String, ResetError> {
    let reset = async |client| -> Result<String, ResetError> {
        let password = tenancy::administrator::reset_password(&client, account, Timestamp::now()).await?;
        Ok(password.expose().to_owned())
    };
    match right {
        Right::Kubeconfig { file, context } => {
            reset(cluster::reach(&file, context.as_deref()).await?.client).await
        }
        Right::Data(data) => {
            let running = Endpoints::read(&data)
                .map_err(|source| ResetError::Endpoints { data: data.clone(), source })?
                .and_then(|endpoints| endpoints.kube);
            match running {
                Some(url) => reset(running_client(&data, &url).await?).await,
                None => reset_at_rest(&data, reset).await,
            }
        }
    }
}

/// The administrator's client of a server that runs.
async fn running_client(data: &Path, url: &str) -> Result<kube::Client, ResetError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| ResetError::Client {
        data: data.to_owned(),
        source,
    };
    let text = kubeconfig(&data.join("pki"), url).map_err(|error| failed(error.into()))?;
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| failed(error.into()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(error.into()))?;
    kube::Client::try_from(config).map_err(|error| failed(error.into()))
}

/// Opens the store that no server has open. A server that was killed leaves its addresses behind and is taken for a running
/// one: it has to be started again first.
async fn reset_at_rest(
    data: &Path,
    reset: impl AsyncFnOnce(kube::Client) -> Result<String, ResetError>,
) -> Result<String, ResetError> {
    if !data.join("store.redb").exists() {
        return Err(ResetError::NoCluster { data: data.to_owned() });
    }
    let cluster = cluster::open_at_rest(data).await?;
    let password = reset(cluster.client(User::admin())).await;
    cluster.stop();
    cluster.rest().await;
    password
}
