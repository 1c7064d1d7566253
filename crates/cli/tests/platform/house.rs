//! A complete platform: embedded cluster, tenancy, and the real API on a loopback port.

use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex};

use api::peer::Peer;
use api::people::Directory;
use api::{Api, Metrics, Readiness, Settings};
use axum::extract::Request;
use axum::middleware::map_request;
use domain::clock::{Clock, SystemClock};
use domain::ids::WorkspaceName;
use events::audit::{Record, Sink};
use fleet::Fleet;
use kube_access::Clients;
use outbound::{Dialer, Policy};
use releases::Releases;
use tenancy::Tenancy;
use testkit::World;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Audit log as text.
#[derive(Default)]
struct Trail(Mutex<String>);

impl Sink for Trail {
    fn write(&self, record: &Record) -> io::Result<()> {
        writeln!(self.0.lock().unwrap(), "{record:?}").unwrap();
        Ok(())
    }
}

pub struct House {
    pub url: String,
    /// Password of `admin`.
    pub password: String,
    tenancy: Tenancy,
    trail: Arc<Trail>,
    world: World,
    tasks: Vec<JoinHandle<()>>,
}

impl House {
    pub async fn new() -> Self {
        let world = World::new().await;
        // Grants the platform's permissions in Kubernetes.
        world.apply(tenancy::manifests::manifests()).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let settings = tenancy::Settings {
            registration_open: true,
            kube_url: Some("https://kube.example.com".to_owned()),
            ..tenancy::Settings::default()
        };
        let clients = Clients::new(world.platform());
        let tenancy = Tenancy::start(clients.clone(), settings, clock.clone()).await.unwrap();
        let outgoing = outbound::Client::new(Dialer::new(Policy::default()));
        let charts = chart_store::Charts::new(clients.own(), outgoing, clock.clone());
        let people = Arc::new(Directory(tenancy.clone()));
        let fleet = Fleet::start(clients.clone(), clock.clone(), fleet::Settings::default()).await.unwrap();
        let releases = Releases::start(clients, charts, people, clock.clone(), "test").await.unwrap();
        let first = tenancy.first_administrator(None).await.unwrap().unwrap();
        let trail = Arc::new(Trail::default());
        let api = Api {
            readiness: Readiness::default(),
            metrics: Metrics::new("test", |_| {}),
            tenancy: tenancy.clone(),
            releases: releases.clone(),
            fleet,
            audit: trail.clone(),
            clock,
            settings: Settings {
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
            request.extensions_mut().insert(Peer(address));
            request
        }));
        let leader = tenancy.clone();
        let tasks = vec![
            tokio::spawn(async move {
                Box::pin(leader.lead()).await;
            }),
            tokio::spawn(async move {
                releases.lead().await;
            }),
            tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }),
        ];
        let password = first.password.expose().to_owned();
        Self { url: format!("http://{address}"), password, tenancy, trail, world, tasks }
    }

    /// Waits until the workspace is ready.
    pub async fn until_ready(&self, workspace: &str) {
        let name: WorkspaceName = workspace.parse().unwrap();
        let is_ready =
            |directory: &tenancy::Directory| directory.workspace(&name).is_some_and(|found| found.ready);
        let limit = std::time::Duration::from_mins(1);
        tokio::time::timeout(limit, self.tenancy.directory().until(is_ready)).await.unwrap();
    }

    pub fn trail(&self) -> String {
        self.trail.0.lock().unwrap().clone()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.world.cluster.stop();
    }
}
