//! The whole life of the process: start, say that it is ready, serve, drain, stop.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{Api, Metrics, Readiness};
use kube_embedded::http::accept::accept;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cluster::{self, ClusterError};
use crate::config::{Config, Kube};
use crate::endpoints::Endpoints;
use crate::leader::{self, Leadership, NamespaceError};
use crate::tls;

/// From the request to stop to the end, whatever is still open.
const STOP_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use the certificate in [tls]")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot write the file with the addresses into the data folder")]
    Endpoints(#[source] std::io::Error),
}

/// Serves until `stop` resolves. `ready` hears the one line of standard output.
pub async fn run(
    config: Config,
    ready: impl FnOnce(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let tls = config.tls.as_ref().map(tls::tls).transpose().map_err(RunError::Tls)?;
    let failed = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let readiness = Readiness::default();
    let stopping = watch::Sender::new(false);
    let stopped = |mut stopping: watch::Receiver<bool>| async move {
        let _ = stopping.wait_for(|stopping| *stopping).await; // an error means that everything is gone
    };
    let leadership = Leadership::default();
    let mut election = None;
    let embedded = match &config.kube {
        Kube::Embedded { listen, external_url, simulation } => {
            let (external_url, simulation) = (external_url.as_deref(), simulation.clone());
            let embedded = cluster::open_embedded(&config.data, *listen, external_url, simulation).await?;
            let store = embedded.cluster.store().clone();
            readiness.require("store", move || {
                if store.writable() { Ok(()) } else { Err("the store cannot be written".to_owned()) }
            });
            leadership.alone();
            Some(embedded)
        }
        Kube::Real { kubeconfig, context, .. } => {
            let real = cluster::reach(kubeconfig, context.as_deref()).await?;
            real.watch_health();
            let answers = real.answers.clone();
            let unreachable = format!("the cluster at {} does not answer", real.url);
            readiness.require("cluster", move || {
                if answers.load(Ordering::Relaxed) { Ok(()) } else { Err(unreachable.clone()) }
            });
            leader::ensure_namespace(real.client.clone()).await?;
            let (leadership, stop) = (leadership.clone(), stopped(stopping.subscribe()));
            election = Some(tokio::spawn(async move {
                leadership.stand(real.client, &address.to_string(), stop).await;
            }));
            None
        }
    };
    let kube = embedded.as_ref().map(|embedded| format!("https://{}", embedded.address));
    let endpoints = Endpoints { url: url.clone(), kube: kube.clone() };
    if embedded.is_some() {
        endpoints.write(&config.data).map_err(RunError::Endpoints)?;
    }
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"), |registry| {
        leadership.register(registry);
        if let Some(embedded) = &embedded {
            embedded.cluster.metrics().register(registry);
        }
    });
    let api = Api { readiness, metrics };
    let routes = api::router(&api);
    let stop_platform = stopped(stopping.subscribe());
    let platform = tokio::spawn(accept(listener, tls, move |_, _| routes.clone(), stop_platform));
    let kubernetes = embedded.map(|embedded| {
        let cluster = embedded.cluster.clone();
        (embedded.cluster, tokio::spawn(async move { cluster.serve(embedded.listener).await }))
    });
    ready(&match &kube {
        Some(kube) => format!("ready {url} kube {kube}"),
        None => format!("ready {url}"),
    });
    stop.await;
    tracing::info!("stopping");
    stopping.send_replace(true);
    let ended = async {
        if let Some((cluster, task)) = kubernetes {
            cluster.stop();
            let _ = task.await; // a panic in it has been logged
            Endpoints::remove(&config.data);
        }
        if let Some(task) = election {
            let _ = task.await;
        }
        let _ = platform.await;
    };
    if tokio::time::timeout(STOP_WITHIN, ended).await.is_err() {
        tracing::warn!("stopped with requests still open");
    }
    Ok(())
}
