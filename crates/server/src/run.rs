//! Life cycle of the process: start, report readiness, serve, drain, stop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, io};

use api::graceful_shutdown::with_graceful_shutdown;
use api::tenant_directory::TenancyDirectory;
use api::{Api, Metrics, ReadinessChecks};
use chart_store::packages::PackageLimits;
use chart_store::{ChartReader, ChartStore};
use domain::clock::{Clock, SystemClock};
use fleet::Fleet;
use governor::metrics::{GovernorCollector, WorkCollector};
use governor::work::WorkPool;
use kube_access::controller::runtime;
use kube_access::{Clients, LeaseElection, LeaseLost};
use kube_embedded::http::accept::{ConnectionLimits, accept};
use kube_embedded::store::StorageBudget;
use kube_types::SYSTEM_NAMESPACE;
use outbound::{Dialer, EgressPolicy};
use releases::{Releases, Renderer};
use rustls::pki_types::CertificateDer;
use tenancy::Tenancy;
use tenancy::first_admin::PreparedPassword;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::audit::KubernetesAuditSink;
use crate::bootstrap::{self, BootstrapError};
use crate::budgets;
use crate::cluster::{self, ClusterError};
use crate::config::{AccountsConfig, ClusterConfig, Config, StoreConfig};
use crate::endpoints::Endpoints;
use crate::leader::Leadership;
use crate::listener::supervise;
use crate::logs::{AuditLog, LostLinesCollector};
use crate::open_files;
use crate::response_tracking::track_until_sent;
use crate::tls;

/// Lease that serializes the creation of the first administrator.
const FIRST_ADMIN_LEASE: &str = "longshore-first-administrator";

/// Timeout from the stop request to the end of the process, whatever is still open.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error(transparent)]
    Tenancy(#[from] tenancy::StartError),
    #[error(transparent)]
    Releases(#[from] releases::StartError),
    #[error(transparent)]
    Fleet(#[from] fleet::StartError),
    #[error("cannot look for the first administrator")]
    LeaseLost(#[from] LeaseLost),
    #[error("cannot make the first administrator")]
    Administrator(#[source] tenancy::Error),
    #[error("cannot tell the first administrator's password: nothing can be written to standard output")]
    Stdout(#[source] io::Error),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot open the audit log of `logs.audit`")]
    AuditFile(#[source] io::Error),
    #[error("cannot use the certificate in [tls]")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the store has failed ({why}): what it holds is not known; start again to read what is there")]
    StoreFailed { why: String },
    #[error("cannot write the file with the addresses into the data folder")]
    Endpoints(#[source] std::io::Error),
}

/// A line on standard output, in this order.
pub enum StdoutLine {
    /// Printed once, when the first administrator is created.
    AdministratorPassword(String),
    Ready(String),
}

impl fmt::Display for StdoutLine {
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
    say: impl Fn(&StdoutLine) -> io::Result<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let audit = AuditLog::open(config.audit_file.as_deref()).map_err(RunError::AuditFile)?;
    let connections = open_files::connection_limits(config.connections);
    let tls = config.tls.as_ref().map(tls::server_config).transpose().map_err(RunError::Tls)?;
    let failed = |source| RunError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let readiness = ReadinessChecks::default();
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
    readiness.add_check("tasks", || match runtime().failing_tasks() {
        failing if failing.is_empty() => Ok(()),
        failing => Err(failing.join("; ")),
    });
    // Password hashing takes tens of milliseconds: start it early where it is certainly needed.
    let is_first =
        matches!(config.kube, ClusterConfig::Embedded { .. }) && !cluster::has_cluster_data(&config.data);
    let prepared = is_first.then(PreparedPassword::start);
    let (clients, embedded) = match &config.kube {
        ClusterConfig::Embedded { listen, external_url, storage_budget, storage_capacity, simulation } => {
            let (external_url, simulation) = (external_url.as_deref(), simulation.clone());
            let labels = budgets::owner_labels();
            let storage = StorageBudget { labels, limit: *storage_budget, capacity: *storage_capacity };
            let audit = Arc::new(KubernetesAuditSink::new(audit.clone()));
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
            readiness.add_check("store", move || store.problem().map_or(Ok(()), Err));
            let health = embedded.cluster.health().clone();
            readiness.add_check("kube-tasks", move || {
                let names: Vec<String> = health.failing().into_iter().map(|(task, _)| task).collect();
                if names.is_empty() { Ok(()) } else { Err(format!("restarting: {}", names.join(", "))) }
            });
            (bootstrap::bootstrap_embedded(&embedded.cluster).await?, Some(embedded))
        }
        ClusterConfig::Real { kubeconfig, context, .. } => {
            let real = cluster::connect(kubeconfig, context.as_deref()).await?;
            real.watch_health();
            let answers = real.is_healthy.clone();
            let unreachable = format!("the cluster at {} does not answer", real.url);
            readiness.add_check("cluster", move || {
                if answers.load(Ordering::Relaxed) { Ok(()) } else { Err(unreachable.clone()) }
            });
            (bootstrap::bootstrap_real(real.client).await?, None)
        }
    };
    let kube = embedded.as_ref().map(|embedded| format!("https://{}", embedded.address));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // Fetching, unpacking, indexing and rendering share one budget.
    let work = WorkPool::new(&budgets::chart_work_limits());
    let ((tenancy, releases), fleet) =
        start_services(&config, &clients, &clock, kube.as_deref(), address, &work).await?;

    let governor = api::budget::governor();
    let (levels, pool) = (governor.clone(), work.clone());
    let kubernetes = embedded.as_ref().map(|embedded| embedded.cluster.clone());
    readiness.add_check("capacity", move || {
        let levels = levels.starved_levels().into_iter();
        let mut starved: Vec<String> = levels
            .map(|(level, lasting)| format!("level {} for {} s", level.name(), lasting.as_secs()))
            .collect();
        starved.extend(pool.starved().map(|lasting| format!("charts for {} s", lasting.as_secs())));
        starved.extend(kubernetes.iter().flat_map(kube_embedded::cluster::Cluster::starved_levels));
        if starved.is_empty() { Ok(()) } else { Err(format!("starved: {}", starved.join(", "))) }
    });
    let (leadership, alone) = (Leadership::default(), embedded.is_some());
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"), |registry| {
        leadership.register(registry);
        runtime().register(registry);
        let of_port = registry.sub_registry_with_prefix("http");
        of_port.register_collector(Box::new(GovernorCollector::new(governor.clone())));
        LostLinesCollector::register(registry);
        let mut pools =
            vec![("charts", work), ("operations", releases.renderer().operations().pool().clone())];
        pools.extend(releases.charts().store().work(&ChartReader::Platform).queues());
        match &embedded {
            Some(embedded) => embedded.cluster.metrics().register_with_pools(registry, pools),
            None => registry.register_collector(Box::new(WorkCollector::new(pools))),
        }
    });
    // Runs on this task instead of one of its own, while other tasks serve.
    let leading = async {
        let work = || Box::pin(run_leader_tasks(&tenancy, &releases, &fleet));
        let holder = address.to_string();
        let start = async || {
            if alone {
                leadership.clone().run_without_election(work(), stopped()).await;
            } else {
                leadership.clone().run_with_election(clients.platform(), &holder, work, stopped()).await;
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
        audit: Arc::new(audit),
        clock,
        settings: api::HttpSettings {
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
        track_until_sent(with_graceful_shutdown(api::with_peer(routes.clone(), peer), request_end.clone()))
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
        let first = Box::pin(ensure_first_admin(&tenancy, prepared, &say));
        if alone {
            first.await?;
        } else {
            // Of several servers that start together, one at a time checks for an administrator.
            let mut turn = LeaseElection::new(
                clients.platform(),
                SYSTEM_NAMESPACE,
                FIRST_ADMIN_LEASE,
                &address.to_string(),
            );
            turn.run_while_held(|| first).await??;
        }
        if let Some(store) = &store {
            store.set_starting(false);
        }
        let addresses = kube.map_or(url.clone(), |kube| format!("{url} kube {kube}"));
        if let Err(error) = say(&StdoutLine::Ready(addresses)) {
            tracing::warn!(%error, "cannot write to standard output");
        }
        stop.await;
        tracing::info!("stopping");
        Ok(())
    };
    let store_failed = async {
        match &store {
            Some(store) => {
                store.wait_until_failed().await;
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
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
        tracing::warn!("stopped with requests still open");
    }
    served
}

/// Starts all watches. Releases depend on tenancy; fleet depends on neither.
async fn start_services(
    config: &Config,
    clients: &Clients,
    clock: &Arc<dyn Clock>,
    embedded: Option<&str>,
    address: SocketAddr,
    work: &WorkPool,
) -> Result<((Tenancy, Releases), Fleet), RunError> {
    let people = async {
        let settings = tenancy_settings(config, embedded);
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
    let policy = EgressPolicy::with_allowed(config.outbound_allow.iter().copied());
    let outgoing = outbound::FetchClient::new(Dialer::new(policy));
    let StoreConfig { quota, capacity } = config.store;
    let limits = PackageLimits { quota, capacity, ..PackageLimits::default() };
    let charts = ChartStore::with_limits(clients.platform(), outgoing, clock.clone(), limits, work.clone());
    let people = Arc::new(TenancyDirectory(tenancy.clone()));
    let charts = charts.with_accounts(people.clone());
    let renderer = Renderer::with_pool(work.clone());
    Releases::start_with_renderer(renderer, clients.clone(), charts, people, clock.clone(), holder).await
}

/// Work of the leader only.
async fn run_leader_tasks(tenancy: &Tenancy, releases: &Releases, fleet: &Fleet) -> Infallible {
    tokio::select! {
        never = tenancy.run_leader_tasks() => never,
        never = releases.run_as_leader() => never,
        never = fleet.run_pool_controller() => never,
    }
}

/// Creates the first administrator if there is none, and prints the password.
async fn ensure_first_admin(
    tenancy: &Tenancy,
    prepared: Option<PreparedPassword>,
    say: impl Fn(&StdoutLine) -> io::Result<()>,
) -> Result<(), RunError> {
    let Some(first) = tenancy.bootstrap_administrator(prepared).await.map_err(RunError::Administrator)?
    else {
        return Ok(());
    };
    say(&StdoutLine::AdministratorPassword(first.password.expose().to_owned())).map_err(RunError::Stdout)?;
    // Recorded after printing: a password that could not be printed is replaced at the next start.
    tenancy.mark_administrator_disclosed().await.map_err(RunError::Administrator)
}

/// Tenancy settings from the configuration.
fn tenancy_settings(config: &Config, embedded: Option<&str>) -> tenancy::Settings {
    let AccountsConfig { registration_open, valid_days, max_nodes, grace_hours, quota, workspace_quota } =
        config.accounts.clone();
    let (ClusterConfig::Embedded { external_url, .. } | ClusterConfig::Real { external_url, .. }) =
        &config.kube;
    let mut settings = tenancy::Settings {
        is_registration_open: registration_open,
        validity_days: valid_days.into(),
        max_nodes: max_nodes.into(),
        kube_url: external_url.as_deref().or(embedded).map(str::to_owned),
        join_tool: config.join_tool.clone(),
        account_grace_period: Duration::from_hours(grace_hours.into()),
        ..tenancy::Settings::default()
    };
    settings.account_quota.extend(quota);
    settings.quota.extend(workspace_quota);
    settings
}
