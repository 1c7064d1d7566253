//! Fixture: an embedded cluster, the services, the router, and users with accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use api::peer::PeerAddr;
use api::tenant_directory::TenancyDirectory;
use api::{Api, HttpSettings, Metrics, ReadinessChecks};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use domain::Actor;
use domain::actor::{AuthMethod, Principal};
use domain::clock::{Clock, SystemClock};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::{PlatformRole, WorkspaceRole};
use events::audit::{AuditRecord, AuditRecordSink};
use fleet::Fleet;
use kube_access::Clients;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use outbound::{Dialer, EgressPolicy};
use releases::Releases;
use serde_json::{Value, json};
use tenancy::Tenancy;
use tenancy::register::Registration;
use tenancy::users::UserPatch;
use testkit::{FaultInjector, TestCluster};
use tokio::sync::oneshot;
use tower::ServiceExt;

pub const ROOT: &str = "/api/longshore/v1";
/// A user's password, which must not appear in any output.
pub const PASSWORD: &str = "canary-password-4711";
/// Far longer than any step takes.
pub const STEP_TIMEOUT: Duration = Duration::from_mins(1);

/// Collects audit records.
#[derive(Default)]
pub struct RecordedAudit(Mutex<Vec<AuditRecord>>);

impl AuditRecordSink for RecordedAudit {
    fn write(&self, record: &AuditRecord) -> io::Result<()> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl RecordedAudit {
    pub fn take(&self) -> Vec<AuditRecord> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

pub struct TestServer {
    pub world: TestCluster,
    /// Faults on the platform's connection to the cluster.
    pub fault: FaultInjector,
    pub api: Api,
    pub audit: Arc<RecordedAudit>,
    controllers: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.world.cluster.stop();
    }
}

/// A user with an account.
#[derive(Clone, Debug)]
pub struct TestUser {
    pub id: UserId,
    /// The login token.
    pub token: String,
}

/// Credentials of a request.
#[derive(Clone, Debug)]
pub enum TestCredential {
    Anonymous,
    Bearer(String),
    Session { cookie: String, csrf: String },
}

/// A complete response.
#[derive(Debug)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl TestResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn code(&self) -> u16 {
        self.status.as_u16()
    }
}

impl TestServer {
    pub async fn new() -> Self {
        Self::with_settings(HttpSettings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        })
        .await
    }

    pub async fn with_settings(settings: HttpSettings) -> Self {
        let open = tenancy::Settings { is_registration_open: true, ..tenancy::Settings::default() };
        Self::start(settings, open).await
    }

    /// Registration does not wait until the new account is ready (`registration_timeout` is zero).
    pub async fn without_registration_wait() -> Self {
        let settings = HttpSettings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        let at_once = tenancy::Settings {
            is_registration_open: true,
            registration_timeout: Duration::ZERO,
            ..tenancy::Settings::default()
        };
        Self::start(settings, at_once).await
    }

    /// With the default configuration of a server that listens beyond loopback.
    pub async fn with_registration_closed() -> Self {
        let settings = HttpSettings {
            trusted_proxy: false,
            tls: true,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        Self::start(settings, tenancy::Settings::default()).await
    }

    /// On a cluster with a simulated node, where the platform has only the rights of its manifests.
    pub async fn with_simulated_node() -> Self {
        let simulation = Some(Simulation { nodes: 1, ..Simulation::default() });
        let config = Config { simulation, ..Config::default() };
        let world = TestCluster { cluster: Cluster::open(config).await.unwrap() };
        world.apply(tenancy::manifests::manifests()).await;
        let settings = HttpSettings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        let open = tenancy::Settings { is_registration_open: true, ..tenancy::Settings::default() };
        Self::start_on(world, settings, open).await
    }

    async fn start(settings: HttpSettings, of_tenancy: tenancy::Settings) -> Self {
        Self::start_on(TestCluster::new().await, settings, of_tenancy).await
    }

    async fn start_on(world: TestCluster, settings: HttpSettings, of_tenancy: tenancy::Settings) -> Self {
        let fault = FaultInjector::healthy();
        let clients = Clients::with_timeout(fault.wrap(world.platform_client()), Duration::from_secs(2));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tenancy = Tenancy::start(clients.clone(), of_tenancy, clock.clone()).await.unwrap();
        let outgoing = outbound::FetchClient::new(Dialer::new(EgressPolicy::default()));
        let charts = chart_store::ChartStore::new(clients.platform(), outgoing, clock.clone());
        let people = Arc::new(TenancyDirectory(tenancy.clone()));
        let fleet = Fleet::start(clients.clone(), clock.clone(), fleet::Settings::default()).await.unwrap();
        let releases = Releases::start(clients, charts, people, clock.clone(), "test").await.unwrap();
        let audit = Arc::new(RecordedAudit::default());
        let api = Api {
            readiness: ReadinessChecks::default(),
            metrics: Metrics::new("test", |_| {}),
            tenancy,
            releases,
            fleet,
            audit: audit.clone(),
            clock,
            settings,
            governor: api::budget::governor(),
        };
        let house = Self { world, fault, api, audit, controllers: Mutex::default() };
        house.start_controllers();
        house
    }

    /// Starts the controllers.
    pub fn start_controllers(&self) {
        // Runs on a thread of its own, because these futures are not `Send`.
        let (leading, stopped) = oneshot::channel();
        let Api { tenancy, releases, fleet, .. } = self.api.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = tenancy.run_leader_tasks() => {}
                    _ = releases.run_as_leader() => {}
                    _ = fleet.run_pool_controller() => {}
                    _ = stopped => {}
                }
            });
        });
        *self.controllers.lock().unwrap() = Some((leading, thread));
    }

    pub fn router(&self) -> Router {
        api::router(&self.api)
    }

    /// Stops the controllers.
    pub fn stop_controllers(&self) {
        if let Some((leading, thread)) = self.controllers.lock().unwrap().take() {
            drop(leading);
            thread.join().unwrap();
        }
    }

    /// Registers user number `number` with these platform roles.
    pub async fn create_user(&self, number: u32, roles: &[PlatformRole]) -> TestUser {
        let (email, phone) = (format!("p{number}@example.com"), format!("1830000{number:04}"));
        let registration = Registration::parse(&email, &phone, "Acme", Some(PASSWORD)).unwrap();
        let tenancy = &self.api.tenancy;
        let made = tenancy.create_user(&root_actor(), registration).await.unwrap();
        assert!(made.is_ready, "{email} is not ready");
        if !roles.is_empty() {
            let patch = UserPatch {
                platform_roles: Some(roles.iter().copied().collect()),
                valid_days: Some(0),
                ..UserPatch::default()
            };
            tenancy.patch_user(&root_actor(), &made.id, patch, None).await.unwrap();
        }
        TestUser { id: made.id, token: made.token.expose().to_owned() }
    }

    /// A workspace created by `owner` with these members, once it is ready.
    pub async fn create_workspace(
        &self,
        name: &str,
        owner: &TestUser,
        members: &[(&TestUser, WorkspaceRole)],
    ) -> WorkspaceName {
        let tenancy = &self.api.tenancy;
        let whole = AuthMethod::Session { id: "prepared".to_owned() };
        let maker = tenancy.directory().actor(&owner.id, whole).unwrap();
        let made = tenancy.create_workspace(&maker, name, name).await.unwrap().name;
        for (person, role) in members {
            tenancy.set_role(&root_actor(), &made, &person.id, *role).await.unwrap();
        }
        let is_ready = |_: &tenancy::Directory| tenancy.workspace(&root_actor(), &made).unwrap().is_ready;
        tokio::time::timeout(STEP_TIMEOUT, tenancy.directory().wait_until(is_ready)).await.unwrap();
        made
    }

    /// Sends a request to the router.
    pub async fn send(&self, request: Request<Body>) -> TestResponse {
        read_response(self.router().oneshot(request).await.unwrap()).await
    }

    /// Sends a request to a path below [`ROOT`].
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        key: &TestCredential,
        body: Option<Value>,
    ) -> TestResponse {
        self.send(request(method, &format!("{ROOT}/{path}"), key, body)).await
    }

    pub async fn get(&self, path: &str, key: &TestCredential) -> TestResponse {
        self.call(Method::GET, path, key, None).await
    }

    pub async fn post(&self, path: &str, key: &TestCredential, body: Value) -> TestResponse {
        self.call(Method::POST, path, key, Some(body)).await
    }

    pub async fn sign_in(&self, login: &str, secret: &str) -> TestCredential {
        let answer =
            self.post("session", &TestCredential::Anonymous, json!({"login": login, "secret": secret})).await;
        assert_eq!(answer.code(), 200, "{}", answer.text);
        session_credential(&answer)
    }
}

/// An actor with all rights, to prepare tests.
pub fn root_actor() -> Actor {
    Actor {
        principal: Principal::User {
            id: UserId::from_random([0; 10]),
            account: "user-root".to_owned(),
            uid: "0".to_owned(),
        },
        platform_roles: BTreeSet::from([PlatformRole::Admin]),
        memberships: BTreeMap::new(),
        auth_method: AuthMethod::Session { id: "prepared".to_owned() },
    }
}

/// The session created by a sign-in response.
pub fn session_credential(answer: &TestResponse) -> TestCredential {
    let cookie = answer.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    TestCredential::Session { cookie, csrf: answer.json()["csrf"].as_str().unwrap().to_owned() }
}

impl TestUser {
    pub fn credential(&self) -> TestCredential {
        TestCredential::Bearer(self.token.clone())
    }
}

/// A request from a remote address.
pub fn request(method: Method, path: &str, key: &TestCredential, body: Option<Value>) -> Request<Body> {
    let peer: SocketAddr = "203.0.113.7:40000".parse().unwrap();
    let mut builder = Request::builder().method(method).uri(path).extension(PeerAddr(peer));
    builder = match key {
        TestCredential::Anonymous => builder,
        TestCredential::Bearer(token) => builder.header(AUTHORIZATION, format!("Bearer {token}")),
        TestCredential::Session { cookie, csrf } => {
            builder.header(COOKIE, cookie).header("x-csrf-token", csrf)
        }
    };
    match body {
        Some(body) => builder.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
        None => builder.body(Body::empty()),
    }
    .unwrap()
}

pub async fn read_response(response: Response<Body>) -> TestResponse {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(STEP_TIMEOUT, to_bytes(body, 16 << 20)).await.unwrap().unwrap();
    TestResponse {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(body.to_vec()).unwrap(),
    }
}
