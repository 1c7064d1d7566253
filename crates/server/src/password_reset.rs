//! `longshore admin reset-password`, authorised by access to the cluster: its kubeconfig or its data folder.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube_embedded::access::User;

use crate::cluster::{self, ClusterError};
use crate::endpoints::Endpoints;

/// Access by which the password is reset.
pub enum ResetAccess {
    /// A kubeconfig of a real cluster.
    Kubeconfig { file: PathBuf, context: Option<String> },
    /// The embedded cluster's data folder, whether its server runs or not.
    Data(PathBuf),
}

#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot read the endpoints file in `{}`", data.display())]
    Endpoints {
        data: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("no cluster in `{}`: start `longshore serve` once", data.display())]
    NoCluster { data: PathBuf },
    #[error("the server of data directory `{}` is not ready yet: retry", data.display())]
    NotReady { data: PathBuf },
    #[error(transparent)]
    Reset(#[from] tenancy::Error),
}

/// Sets a new random password and returns it, to be printed once.
pub async fn reset_password(right: ResetAccess, account: &str) -> Result<String, ResetError> {
    let reset = async |client| -> Result<String, ResetError> {
        let password = tenancy::first_admin::reset_password(&client, account, Timestamp::now()).await?;
        Ok(password.expose().to_owned())
    };
    match right {
        ResetAccess::Kubeconfig { file, context } => {
            reset(cluster::connect(&file, context.as_deref()).await?.client).await
        }
        ResetAccess::Data(data) => reset_in_data_dir(&data, reset).await,
    }
}

/// Opens the store, or connects to the server that has it open. The endpoints file does not show that a server runs: a server that was
/// killed leaves it behind.
async fn reset_in_data_dir(
    data: &Path,
    reset: impl AsyncFnOnce(kube::Client) -> Result<String, ResetError>,
) -> Result<String, ResetError> {
    if !cluster::has_cluster_data(data) {
        return Err(ResetError::NoCluster { data: data.to_owned() });
    }
    let cluster = match cluster::open_offline(data).await {
        Err(error) if error.is_in_use() => return reset(running_client(data).await?).await,
        opened => opened?,
    };
    let password = reset(cluster.client(User::admin())).await;
    cluster.stop();
    cluster.wait_until_idle().await;
    password
}

/// An administrator client for the server that has the data folder open.
async fn running_client(data: &Path) -> Result<kube::Client, ResetError> {
    let endpoints = Endpoints::read(data)
        .map_err(|source| ResetError::Endpoints { data: data.to_owned(), source })?
        .and_then(|endpoints| endpoints.kube);
    let url = endpoints.ok_or_else(|| ResetError::NotReady { data: data.to_owned() })?;
    Ok(cluster::connect_to_running(data, &url).await?)
}
