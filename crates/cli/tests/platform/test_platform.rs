//! A complete platform: embedded cluster, tenancy, and the real API on a loopback port.

use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex};

use api::peer::PeerAddr;
use api::tenant_directory::TenancyDirectory;
use api::{Api, HttpSettings, Metrics, ReadinessChecks};
use axum::extract::Request;
use axum::middleware::map_request;
use domain::clock::{Clock, SystemClock};
use domain::ids::WorkspaceName;
use events::audit::{AuditRecord, AuditRecordSink};
use fleet::Fleet;
use kube_access::Clients;
use outbound::{Dialer, EgressPolicy};
use releases::Releases;
use tenancy::Tenancy;
use testkit::TestCluster;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Audit log as text.
#[derive(Default)]
struct AuditLog(Mutex<String>);

impl AuditRecordSink for AuditLog {
    fn write(&self, record: &AuditRecord) -> io::Result<()> {
        writeln!(self.0.lock().unwrap(), "{record:?}").unwrap();
        Ok(())
    }
}

pub struct TestPlatform {
    pub url: String,
    /// Password of `admin`.
    pub password: String,
    tenancy: Tenancy,
    audit_log: Arc<AuditLog>,
    world: TestCluster,
    tasks: Vec<JoinHandle<()>>,
}

impl TestPlatform {
    pub async fn new() -> Self {
        let world = TestCluster::new().await;
        // Grants the platform's permissions in Kubernetes.
        world.apply(tenancy::manifests::manifests()).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = tenancy::Settings {
            is_registration_open: true,
            kube_url: Some("https://kube.example.com".to_owned()),
            ..tenancy::Settings::default()
        };
        let clients = Clients::new(world.platform_client());
        let tenancy = Tenancy::start(clients.clone(), settings, clock.clone()).await.unwrap();
        let outgoing = outbound::FetchClient::new(Dialer::new(EgressPolicy::default()));
        let charts = chart_store::ChartStore::new(clients.platform(), outgoing, clock.clone());
        let people = Arc::new(TenancyDirectory(tenancy.clone()));
        let fleet = Fleet::start(clients.clone(), clock.clone(), fleet::Settings::default()).await.unwrap();
        let releases = Releases::start(clients, charts, people, clock.clone(), "test").await.unwrap();
        let first = tenancy.bootstrap_administrator(None).await.unwrap().unwrap();
        let trail = Arc::new(AuditLog::default());
        let api = Api {
            readiness: ReadinessChecks::default(),
            metrics: Metrics::new("test", |_| {}),
            tenancy: tenancy.clone(),
            releases: releases.clone(),
            fleet,
            audit: trail.clone(),
            clock,
            settings: HttpSettings {
                trusted_proxy: false,
                tls: false,
                embedded: true,
                version: "test",
                token_parameter: true,
                hosts: Vec::new(),
            },
            governor: api::budget::governor(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = api::router(&api).layer(map_request(move |mut request: Request| async move {
            request.extensions_mut().insert(PeerAddr(address));
            request
        }));
        let leader = tenancy.clone();
        let tasks = vec![
            tokio::spawn(async move {
                Box::pin(leader.run_leader_tasks()).await;
            }),
            tokio::spawn(async move {
                releases.run_as_leader().await;
            }),
            tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }),
        ];
        let password = first.password.expose().to_owned();
        Self { url: format!("http://{address}"), password, tenancy, audit_log: trail, world, tasks }
    }

    /// Waits until the condition `Ready` of a workspace is `ready`.
    pub async fn wait_until_ready_is(&self, ready: bool, workspace: &str) {
        let name: WorkspaceName = workspace.parse().unwrap();
        let is_reached = |directory: &tenancy::Directory| {
            directory.workspace(&name).is_some_and(|found| found.is_ready == ready)
        };
        let limit = std::time::Duration::from_mins(1);
        tokio::time::timeout(limit, self.tenancy.directory().wait_until(is_reached)).await.unwrap();
    }

    pub fn audit_log(&self) -> String {
        self.audit_log.0.lock().unwrap().clone()
    }
}

impl Drop for TestPlatform {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.world.cluster.stop();
    }
}
