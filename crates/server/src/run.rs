//! Life cycle of the process: start, report readiness, serve, drain, stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, io};

use api::people::Directory;
use api::until_stopped::until_stopped;
use api::{Api, Metrics, Readiness};
use chart_store::packages::Limits;
use chart_store::{Charts, Reader};
use domain::clock::{Clock, SystemClock};
use fleet::Fleet;
use governor::metrics::{GovernorCollector, WorkCollector};
use governor::work::WorkPool;
use kube_access::controller::runtime;
use kube_access::{Clients, Lock, Lost};
use kube_embedded::http::accept::{ConnectionLimits, accept};
use kube_embedded::store::StorageBudget;
use kube_types::SYSTEM_NAMESPACE;
use outbound::{Dialer, Policy};
use releases::{Releases, Renderer};
use rustls::pki_types::CertificateDer;
use tenancy::Tenancy;
use tenancy::administrator::Prepared;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::audit::KubernetesAudit;
use crate::budgets;
use crate::cluster::{self, ClusterError};
use crate::config::{Accounts, Config, Kube, Store};
use crate::endpoints::Endpoints;
use crate::files;
use crate::ground::{self, GroundError};
use crate::leader::Leadership;
use crate::listener::supervise;
use crate::logs::{AuditLog, LostLines};
use crate::sending::until_sent;
use crate::tls;

/// Lease that serializes the creation of the first administrator.
const FIRST: &str = "longshore-first-administrator";

/// Timeout from the stop request to the end of the process, whatever is still open.
const STOP_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Ground(#[from] GroundError),
    #[error(transparent)]
    Tenancy(#[from] tenancy::StartError),
    #[error(transparent)]
    Releases(#[from] releases::StartError),
    #[error(transparent)]
    Fleet(#[from] fleet::StartError),
    #[error("cannot look for the first administrator")]
    Turn(#[from] Lost),
    #[error("cannot make the first administrator")]
    Administrator(#[source] tenancy::Error),
    #[error("cannot tell the first administrator's password: nothing can be written to standard output")]
    Say(#[source] io::Error),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use the certificate in [tls]")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the store has failed ({why}): what it holds is not known; start again to read what is there")]
    StoreFailed { why: String },
    #[error("cannot write the file with the addresses into the data folder")]
    Endpoints(#[source] std::io::Error),
}

/// A line on standard output, in this order.
pub enum Said {
    /// Printed once, when the first administrator is created.
    AdministratorPassword(String),
    Ready(String),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AdministratorPassword(password) => write!(f, "admin password {password}"),
            Self::Ready(addresses) => write!(f, "ready {addresses}"),
        }
    }
}

/// Serves until `stop` resolves. `say` writes to standard output.
pub async fn run(
    config: Config,
    say: impl Fn(&Said) -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let connections = files::connection_limits(config.connections);
    let tls = config.tls.as_ref().map(tls::tls).transpose().map_err(RunError::Tls)?;
    let failed = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let readiness = Readiness::default();
    let stopping = watch::Sender::new(false);
    let stopped = || {
        let mut stopping = stopping.subscribe();
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await; // an error means that everything is gone
        }
    };
    let is_stopping = || {
        let stopping = stopping.subscribe();
        move || *stopping.borrow()
    };
    readiness.require("tasks", || match runtime().failing() {
        failing if failing.is_empty() => Ok(()),
        failing => Err(failing.join("; ")),
    });
    // Password hashing takes tens of milliseconds: start it early where it is certainly needed.
    let is_first = matches!(config.kube, Kube::Embedded { .. }) && !cluster::exists(&config.data);
    let prepared = is_first.then(Prepared::begin);
    let (clients, embedded) = match &config.kube {
        Kube::Embedded { listen, external_url, storage_budget, storage_capacity, simulation } => {
            let (external_url, simulation) = (external_url.as_deref(), simulation.clone());
            let labels = budgets::owner_labels();
            let storage = StorageBudget { labels, limit: *storage_budget, capacity: *storage_capacity };
            let audit = Arc::new(KubernetesAudit::new(AuditLog));
            let embedded = cluster::open_embedded(
                &config.data,
                *listen,
                external_url,
                simulation,
                connections,
                storage,
                audit,
            )
            .await?;
            let store = embedded.cluster.store().clone();
            readiness.require("store", move || store.problem().map_or(Ok(()), Err));
            let health = embedded.cluster.health().clone();
            readiness.require("kube-tasks", move || {
                let names: Vec<String> = health.failing().into_iter().map(|(task, _)| task).collect();
                if names.is_empty() { Ok(()) } else { Err(format!("restarting: {}", names.join(", "))) }
            });
            (ground::on_embedded(&embedded.cluster).await?, Some(embedded))
        }
        Kube::Real { kubeconfig, context, .. } => {
            let real = cluster::reach(kubeconfig, context.as_deref()).await?;
            real.watch_health();
            let answers = real.answers.clone();
            let unreachable = format!("the cluster at {} does not answer", real.url);
            readiness.require("cluster", move || {
                if answers.load(Ordering::Relaxed) { Ok(()) } else { Err(unreachable.clone()) }
            });
            (ground::on_real(real.client).await?, None)
        }
    };
    let kube = embedded.as_ref().map(|embedded| format!("https://{}", embedded.address));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // Fetching, unpacking, indexing and rendering share one budget.
    let work = WorkPool::new(&budgets::charts());
    let ((tenancy, releases), fleet) =
        start(&config, &clients, &clock, kube.as_deref(), address, &work).await?;

    let governor = api::budget::governor();
    let (levels, pool) = (governor.clone(), work.clone());
    let kubernetes = embedded.as_ref().map(|embedded| embedded.cluster.clone());
    readiness.require("capacity", move || {
        let levels = levels.starved().into_iter();
        let mut starved: Vec<String> = levels
            .map(|(level, lasting)| format!("level {} for {} s", level.name(), lasting.as_secs()))
            .collect();
        starved.extend(pool.starved().map(|lasting| format!("charts for {} s", lasting.as_secs())));
        starved.extend(kubernetes.iter().flat_map(kube_embedded::cluster::Cluster::starved));
        if starved.is_empty() { Ok(()) } else { Err(format!("starved: {}", starved.join(", "))) }
    });
    let (leadership, alone) = (Leadership::default(), embedded.is_some());
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"), |registry| {
        leadership.register(registry);
        runtime().register(registry);
        let of_port = registry.sub_registry_with_prefix("http");
        of_port.register_collector(Box::new(GovernorCollector::new(governor.clone())));
        LostLines::register(registry);
        let mut pools =
            vec![("charts", work), ("operations", releases.renderer().operations().pool().clone())];
        pools.extend(releases.charts().store().work(&Reader::Platform).queues());
        match &embedded {
            Some(embedded) => embedded.cluster.metrics().register_with_pools(registry, pools),
            None => registry.register_collector(Box::new(WorkCollector::new(pools))),
        }
    });
    // Runs on this task instead of one of its own, while other tasks serve.
    let leading = async {
        let work = || Box::pin(lead(&tenancy, &releases, &fleet));
        let holder = address.to_string();
        let start = async || {
            if alone {
                leadership.clone().alone(work(), stopped()).await;
            } else {
                leadership.clone().stand(clients.own(), &holder, work, stopped()).await;
            }
        };
        runtime().run_until("leadership", "", start, is_stopping()).await;
    };
    let api = Api {
        readiness,
        metrics,
        tenancy: tenancy.clone(),
        releases: releases.clone(),
        fleet: fleet.clone(),
        audit: Arc::new(AuditLog),
        clock,
        settings: api::Settings {
            trusted_proxy: config.trusted_proxy,
            tls: tls.is_some(),
            embedded: embedded.is_some(),
            token_parameter: config.token_parameter,
            hosts: config.hosts.clone(),
            version: env!("CARGO_PKG_VERSION"),
        },
        governor,
    };
    let routes = api::router(&api);
    let until_requests_end = stopping.subscribe();
    let request_end = move || {
        let mut stopping = until_requests_end.clone();
        async move {
            let _ = stopping.wait_for(|stopping| *stopping).await; // an error means that everything is gone
        }
    };
    let service = move |peer, _: Option<&CertificateDer<'_>>| {
        until_sent(until_stopped(api::of_peer(routes.clone(), peer), request_end.clone()))
    };
    // Behind a proxy all connections come from its address.
    let per_address = if config.trusted_proxy { connections.total } else { connections.per_address };
    let limits = ConnectionLimits { per_address, ..connections };
    let until_stopped = stopping.subscribe();
    let serve = move |listener| {
        let mut stop = until_stopped.clone();
        accept(listener, tls.clone(), limits, service.clone(), async move {
            let _ = stop.wait_for(|stopping| *stopping).await; // an error means that everything is gone
        })
    };
    let platform = tokio::spawn(supervise("http-listener", listener, serve, is_stopping()));
    let kubernetes = embedded.map(|embedded| {
        let (cluster, is_stopping) = (embedded.cluster.clone(), is_stopping());
        let serve = move |listener| {
            let cluster = cluster.clone();
            async move { cluster.serve(listener).await }
        };
        let served = supervise("kubernetes-listener", embedded.listener, serve, is_stopping);
        (embedded.cluster, tokio::spawn(served))
    });
    if kubernetes.is_some() {
        let endpoints = Endpoints { url: url.clone(), kube: kube.clone() };
        match endpoints.write(&config.data) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                Endpoints::remove(&config.data);
                tracing::warn!(%error, "the disk is full: commands need --url to find this server");
            }
            written => written.map_err(RunError::Endpoints)?,
        }
    }
    let store = kubernetes.as_ref().map(|(cluster, _)| cluster.store().clone());
    let serving = async {
        let first = Box::pin(first_administrator(&tenancy, prepared, &say));
        if alone {
            first.await?;
        } else {
            // Of several servers that start together, one at a time checks for an administrator.
            let mut turn = Lock::new(clients.own(), SYSTEM_NAMESPACE, FIRST, &address.to_string());
            turn.hold(|| first).await??;
        }
        if let Some(store) = &store {
            store.set_starting(false);
        }
        let addresses = kube.map_or(url.clone(), |kube| format!("{url} kube {kube}"));
        if let Err(error) = say(&Said::Ready(addresses)) {
            tracing::warn!(%error, "cannot write to standard output");
        }
        stop.await;
        tracing::info!("stopping");
        Ok(())
    };
    let store_failed = async {
        match &store {
            Some(store) => {
                store.failed().await;
                RunError::StoreFailed { why: store.problem().unwrap_or_default() }
            }
            None => std::future::pending().await,
        }
    };
    let mut leading = pin!(leading);
    let served = tokio::select! {
        served = serving => served,
        failed = store_failed => Err(failed),
        () = &mut leading => Ok(()), // only after `stopping`, which comes later
    };
    stopping.send_replace(true);
    let ended = async {
        // The leader stops its controllers while the cluster still answers.
        leading.await;
        if let Some((cluster, task)) = kubernetes {
            cluster.stop();
            let _ = task.await; // a panic in it has been logged
            Endpoints::remove(&config.data);
        }
        let _ = platform.await;
    };
    if tokio::time::timeout(STOP_WITHIN, ended).await.is_err() {
        tracing::warn!("stopped with requests still open");
    }
    served
}

/// Starts all watches. Releases depend on tenancy; fleet depends on neither.
async fn start(
    config: &Config,
    clients: &Clients,
    clock: &Arc<dyn Clock>,
    embedded: Option<&str>,
    address: SocketAddr,
    work: &WorkPool,
) -> Result<((Tenancy, Releases), Fleet), RunError> {
    let people = async {
        let settings = settings(config, embedded);
        let tenancy = Tenancy::start(clients.clone(), settings, clock.clone()).await?;
        let releases = start_releases(config, clients, &tenancy, clock, &address.to_string(), work).await?;
        Ok((tenancy, releases))
    };
    let nodes = async {
        let settings = fleet::Settings { manage_pools: config.manage_pools, ..fleet::Settings::default() };
        Ok(Fleet::start(clients.clone(), clock.clone(), settings).await?)
    };
    tokio::try_join!(people, nodes)
}

/// Starts the watches of requests and releases. `holder` identifies this server in release locks.
async fn start_releases(
    config: &Config,
    clients: &Clients,
    tenancy: &Tenancy,
    clock: &Arc<dyn Clock>,
    holder: &str,
    work: &WorkPool,
) -> Result<Releases, releases::StartError> {
    let policy = Policy::allowing(config.outbound_allow.iter().copied());
    let outgoing = outbound::Client::new(Dialer::new(policy));
    let Store { quota, capacity } = config.store;
    let limits = Limits { quota, capacity, ..Limits::default() };
    let charts = Charts::with_limits(clients.own(), outgoing, clock.clone(), limits, work.clone());
    let people = Arc::new(Directory(tenancy.clone()));
    let charts = charts.with_accounts(people.clone());
    let renderer = Renderer::with_pool(work.clone());
    Releases::start_with(renderer, clients.clone(), charts, people, clock.clone(), holder).await
}

/// Work of the leader only.
async fn lead(tenancy: &Tenancy, releases: &Releases, fleet: &Fleet) -> Infallible {
    tokio::select! {
        never = tenancy.lead() => never,
        never = releases.lead() => never,
        never = fleet.lead() => never,
    }
}

/// Creates the first administrator if there is none, and prints the password.
async fn first_administrator(
    tenancy: &Tenancy,
    prepared: Option<Prepared>,
    say: impl Fn(&Said) -> io::Result<()>,
) -> Result<(), RunError> {
    let Some(first) = tenancy.first_administrator(prepared).await.map_err(RunError::Administrator)? else {
        return Ok(());
    };
    say(&Said::AdministratorPassword(first.password.expose().to_owned())).map_err(RunError::Say)?;
    // Recorded after printing: a password that could not be printed is replaced at the next start.
    tenancy.administrator_was_told().await.map_err(RunError::Administrator)
}

/// Tenancy settings from the configuration.
fn settings(config: &Config, embedded: Option<&str>) -> tenancy::Settings {
    let Accounts { registration_open, valid_days, max_nodes, grace_hours, quota, workspace_quota } =
        config.accounts.clone();
    let (Kube::Embedded { external_url, .. } | Kube::Real { external_url, .. }) = &config.kube;
    let mut settings = tenancy::Settings {
        registration_open,
        valid_days: valid_days.into(),
        max_nodes: max_nodes.into(),
        kube_url: external_url.as_deref().or(embedded).map(str::to_owned),
        join_tool: config.join_tool.clone(),
        account_grace: Duration::from_hours(grace_hours.into()),
        ..tenancy::Settings::default()
    };
    settings.person_quota.extend(quota);
    settings.quota.extend(workspace_quota);
    settings
}
