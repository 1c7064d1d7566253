//! Fixture: an embedded cluster, the services, the router, and users with accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use api::peer::Peer;
use api::people::Directory;
use api::{Api, Metrics, Readiness, Settings};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use domain::Actor;
use domain::actor::{Via, Who};
use domain::clock::{Clock, SystemClock};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::{PlatformRole, WorkspaceRole};
use events::audit::{Record, Sink};
use fleet::Fleet;
use kube_access::Clients;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use outbound::{Dialer, Policy};
use releases::Releases;
use serde_json::{Value, json};
use tenancy::Tenancy;
use tenancy::register::Registration;
use tenancy::users::UserPatch;
use testkit::{Fault, World};
use tokio::sync::oneshot;
use tower::ServiceExt;

pub const ROOT: &str = "/api/longshore/v1";
/// A user's password, which must not appear in any output.
pub const PASSWORD: &str = "canary-password-4711";
/// Far longer than any step takes.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Collects audit records.
#[derive(Default)]
pub struct Collected(Mutex<Vec<Record>>);

impl Sink for Collected {
    fn write(&self, record: &Record) -> io::Result<()> {
        self.0.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl Collected {
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

pub struct House {
    pub world: World,
    /// Faults on the platform's connection to the cluster.
    pub fault: Fault,
    pub api: Api,
    pub audit: Arc<Collected>,
    leading: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.world.cluster.stop();
    }
}

/// A user with an account.
#[derive(Clone, Debug)]
pub struct Person {
    pub id: UserId,
    /// The login token.
    pub token: String,
}

/// Credentials of a request.
#[derive(Clone, Debug)]
pub enum Key {
    Nothing,
    Bearer(String),
    Session { cookie: String, csrf: String },
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn code(&self) -> u16 {
        self.status.as_u16()
    }
}

impl House {
    pub async fn new() -> Self {
        Self::with(Settings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        })
        .await
    }

    pub async fn with(settings: Settings) -> Self {
        let open = tenancy::Settings { registration_open: true, ..tenancy::Settings::default() };
        Self::made(settings, open).await
    }

    /// Registration does not wait until the new account is ready (`visitor_patience` is zero).
    pub async fn impatient() -> Self {
        let settings = Settings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        let at_once = tenancy::Settings {
            registration_open: true,
            visitor_patience: Duration::ZERO,
            ..tenancy::Settings::default()
        };
        Self::made(settings, at_once).await
    }

    /// With the default configuration of a server that listens beyond loopback.
    pub async fn closed() -> Self {
        let settings = Settings {
            trusted_proxy: false,
            tls: true,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        Self::made(settings, tenancy::Settings::default()).await
    }

    /// On a cluster with a simulated node, where the platform has only the rights of its manifests.
    pub async fn running() -> Self {
        let simulation = Some(Simulation { nodes: 1, ..Simulation::default() });
        let config = Config { simulation, ..Config::default() };
        let world = World { cluster: Cluster::open(config).await.unwrap() };
        world.apply(tenancy::manifests::manifests()).await;
        let settings = Settings {
            trusted_proxy: false,
            tls: false,
            embedded: true,
            token_parameter: true,
            hosts: Vec::new(),
            version: "test",
        };
        let open = tenancy::Settings { registration_open: true, ..tenancy::Settings::default() };
        Self::on(world, settings, open).await
    }

    async fn made(settings: Settings, of_tenancy: tenancy::Settings) -> Self {
        Self::on(World::new().await, settings, of_tenancy).await
    }

    async fn on(world: World, settings: Settings, of_tenancy: tenancy::Settings) -> Self {
        let fault = Fault::none();
        let clients = Clients::with_limit(fault.over(world.platform()), Duration::from_secs(2));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tenancy = Tenancy::start(clients.clone(), of_tenancy, clock.clone()).await.unwrap();
        let outgoing = outbound::Client::new(Dialer::new(Policy::default()));
        let charts = chart_store::Charts::new(clients.own(), outgoing, clock.clone());
        let people = Arc::new(Directory(tenancy.clone()));
        let fleet = Fleet::start(clients.clone(), clock.clone(), fleet::Settings::default()).await.unwrap();
        let releases = Releases::start(clients, charts, people, clock.clone(), "test").await.unwrap();
        let audit = Arc::new(Collected::default());
        let api = Api {
            readiness: Readiness::default(),
            metrics: Metrics::new("test", |_| {}),
            tenancy,
            releases,
            fleet,
            audit: audit.clone(),
            clock,
            settings,
            governor: api::budget::governor(),
        };
        let house = Self { world, fault, api, audit, leading: Mutex::default() };
        house.lead();
        house
    }

    /// Starts the controllers.
    pub fn lead(&self) {
        // Runs on a thread of its own, because these futures are not `Send`.
        let (leading, stopped) = oneshot::channel();
        let Api { tenancy, releases, fleet, .. } = self.api.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = tenancy.lead() => {}
                    _ = releases.lead() => {}
                    _ = fleet.lead() => {}
                    _ = stopped => {}
                }
            });
        });
        *self.leading.lock().unwrap() = Some((leading, thread));
    }

    pub fn router(&self) -> Router {
        api::router(&self.api)
    }

    /// Stops the controllers.
    pub fn stop_leading(&self) {
        if let Some((leading, thread)) = self.leading.lock().unwrap().take() {
            drop(leading);
            thread.join().unwrap();
        }
    }

    /// Registers user number `number` with these platform roles.
    pub async fn person(&self, number: u32, roles: &[PlatformRole]) -> Person {
        let (email, phone) = (format!("p{number}@example.com"), format!("1830000{number:04}"));
        let registration = Registration::parse(&email, &phone, "Acme", Some(PASSWORD)).unwrap();
        let tenancy = &self.api.tenancy;
        let made = tenancy.create_user(&root(), registration).await.unwrap();
        assert!(made.ready, "{email} is not ready");
        if !roles.is_empty() {
            let patch = UserPatch {
                platform: Some(roles.iter().copied().collect()),
                valid_days: Some(0),
                ..UserPatch::default()
            };
            tenancy.patch_user(&root(), &made.id, patch, None).await.unwrap();
        }
        Person { id: made.id, token: made.token.expose().to_owned() }
    }

    /// A workspace created by `owner` with these members, once it is ready.
    pub async fn workspace(
        &self,
        name: &str,
        owner: &Person,
        members: &[(&Person, WorkspaceRole)],
    ) -> WorkspaceName {
        let tenancy = &self.api.tenancy;
        let whole = Via::Session { id: "prepared".to_owned() };
        let maker = tenancy.directory().actor(&owner.id, whole).unwrap();
        let made = tenancy.create_workspace(&maker, name, name).await.unwrap().name;
        for (person, role) in members {
            tenancy.set_role(&root(), &made, &person.id, *role).await.unwrap();
        }
        let is_ready = |_: &tenancy::Directory| tenancy.workspace(&root(), &made).unwrap().ready;
        tokio::time::timeout(LIMIT, tenancy.directory().until(is_ready)).await.unwrap();
        made
    }

    /// Sends a request to the router.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        read(self.router().oneshot(request).await.unwrap()).await
    }

    /// Sends a request to a path below [`ROOT`].
    pub async fn ask(&self, method: Method, path: &str, key: &Key, body: Option<Value>) -> Answer {
        self.send(request(method, &format!("{ROOT}/{path}"), key, body)).await
    }

    pub async fn get(&self, path: &str, key: &Key) -> Answer {
        self.ask(Method::GET, path, key, None).await
    }

    pub async fn post(&self, path: &str, key: &Key, body: Value) -> Answer {
        self.ask(Method::POST, path, key, Some(body)).await
    }

    pub async fn sign_in(&self, login: &str, secret: &str) -> Key {
        let answer = self.post("session", &Key::Nothing, json!({"login": login, "secret": secret})).await;
        assert_eq!(answer.code(), 200, "{}", answer.text);
        session_of(&answer)
    }
}

/// An actor with all rights, to prepare tests.
pub fn root() -> Actor {
    Actor {
        who: Who::Person {
            id: UserId::from_random([0; 10]),
            account: "user-root".to_owned(),
            uid: "0".to_owned(),
        },
        platform: BTreeSet::from([PlatformRole::Admin]),
        memberships: BTreeMap::new(),
        via: Via::Session { id: "prepared".to_owned() },
    }
}

/// The session created by a sign-in response.
pub fn session_of(answer: &Answer) -> Key {
    let cookie = answer.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    Key::Session { cookie, csrf: answer.json()["csrf"].as_str().unwrap().to_owned() }
}

impl Person {
    pub fn key(&self) -> Key {
        Key::Bearer(self.token.clone())
    }
}

/// A request from a remote address.
pub fn request(method: Method, path: &str, key: &Key, body: Option<Value>) -> Request<Body> {
    let peer: SocketAddr = "203.0.113.7:40000".parse().unwrap();
    let mut builder = Request::builder().method(method).uri(path).extension(Peer(peer));
    builder = match key {
        Key::Nothing => builder,
        Key::Bearer(token) => builder.header(AUTHORIZATION, format!("Bearer {token}")),
        Key::Session { cookie, csrf } => builder.header(COOKIE, cookie).header("x-csrf-token", csrf),
    };
    match body {
        Some(body) => builder.header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
        None => builder.body(Body::empty()),
    }
    .unwrap()
}

pub async fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(LIMIT, to_bytes(body, 16 << 20)).await.unwrap().unwrap();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(body.to_vec()).unwrap() }
}
