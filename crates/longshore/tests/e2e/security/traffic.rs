//! Connections, slow bodies and watches of a hostile client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{AsyncBufReadExt, AsyncReadExt as _};
use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::hostile_load::on_own_thread;
use crate::platform::{PlatformUser, until};
use crate::program::{Server, output};
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{get, send, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";

/// Connects from an address of the loopback network, so that a test can act as many hosts.
async fn connect_from(host: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, host), 0).into())?;
    socket.connect(to).await
}

fn address_of(url: &str) -> SocketAddr {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

/// A raw client of the Kubernetes port, without a client certificate.
pub struct RawClient {
    tls: TlsConnector,
    address: SocketAddr,
}

impl RawClient {
    pub fn new(server: &Server) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
        let authority = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        let authority = authority.certificate_authority_data.as_ref().unwrap();
        let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { tls: TlsConnector::from(Arc::new(config)), address: address_of(server.kube()) }
    }

    pub async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.tls.connect(ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)), stream).await
    }

    /// Sends the head of a request and never finishes its body.
    async fn slow_body(&self, method: &str, path: &str, token: Option<&str>) -> TlsStream<TcpStream> {
        self.try_slow_body(method, path, token).await.unwrap()
    }

    async fn try_slow_body(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut stream = self.connect().await?;
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\n{token}content-type: {JSON}\r\ncontent-length: 100000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        Ok(stream)
    }

    /// Opens many at once.
    async fn slow_bodies(
        &self,
        count: usize,
        method: &str,
        path: &str,
        token: Option<&str>,
    ) -> Vec<TlsStream<TcpStream>> {
        join_all((0..count).map(|_| self.slow_body(method, path, token))).await
    }
}

/// Raises this process's limit of open files.
pub fn raise_open_files() {
    let pid = std::process::id().to_string();
    output(std::process::Command::new("prlimit").args(["--pid", &pid, "--nofile=16384:"]));
}

async fn client_from_kubeconfig(kubeconfig: &std::path::Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// The bearer token in a kubeconfig file.
pub fn token_in(kubeconfig: &std::path::Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let document: Value = serde_norway::from_str(&text).unwrap();
    document["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}

fn config_map(name: &str, bytes: usize) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"x": "x".repeat(bytes)}})).unwrap()
}

/// The 99th percentile of reads and writes of one ConfigMap. Every request must succeed.
async fn p99(maps: &Api<ConfigMap>, rounds: usize) -> Duration {
    let mut took = Vec::new();
    for round in 0..rounds {
        let began = Instant::now();
        let mut map = maps.get("canary").await.unwrap();
        took.push(began.elapsed());
        let began = Instant::now();
        map.data.get_or_insert_default().insert("round".to_owned(), round.to_string());
        maps.replace("canary", &PostParams::default(), &map).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    took[took.len() * 99 / 100]
}

/// Number of connections, bodies and watches that a hostile client holds open.
#[derive(Clone, Default)]
struct HeldCount(Arc<AtomicUsize>);

impl HeldCount {
    /// Counts one until the guard is dropped.
    fn acquire(&self) -> HeldCountGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        HeldCountGuard(self.0.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct HeldCountGuard(Arc<AtomicUsize>);

impl Drop for HeldCountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Completes one request, so that the connection may be idle, and waits until the server closes it.
async fn hold_idle<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    held: &HeldCount,
) -> std::io::Result<()> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await?;
    stream.flush().await?;
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer).await?;
    if !answer[..read].starts_with(b"HTTP/1.1 200") {
        return Ok(());
    }
    let _open = held.acquire();
    while stream.read(&mut answer).await? > 0 {}
    Ok(())
}

/// The attack of one tenant, which reopens closed connections until it is dropped.
struct ConnectionAttack {
    idle: HeldCount,
    slow: HeldCount,
    watches: HeldCount,
    tasks: JoinSet<()>,
}

impl ConnectionAttack {
    /// Starts the attack and returns when the intended number is held.
    async fn start(server: &Server, cluster: &Cluster) -> Self {
        let attacker = PlatformUser::register(server, cluster).await;
        let kubeconfig = attacker.kubeconfig(cluster).await;
        let (hostile, token) = (client_from_kubeconfig(&kubeconfig).await, token_in(&kubeconfig));
        let large: Api<ConfigMap> = Api::namespaced(hostile.clone(), &attacker.id);
        for n in 0..40 {
            large.create(&PostParams::default(), &config_map(&format!("m{n}"), 500_000)).await.unwrap();
        }
        let version = large.list_metadata(&ListParams::default()).await.unwrap().metadata.resource_version;
        let path = format!("/api/v1/namespaces/{}/configmaps", attacker.id);
        let (idle, slow, watches) = (HeldCount::default(), HeldCount::default(), HeldCount::default());
        let mut siege = Self { idle, slow, watches, tasks: JoinSet::new() };
        siege.hold_watches(&hostile, WATCHES, &path, version.as_deref());
        siege.hold_watches(&hostile, 50, &path, None);
        siege.hold_slow_bodies(server, SLOW_BODIES, &path, &token);
        siege.hold_connections(server, IDLE_CONNECTIONS);
        let began = Instant::now();
        while !siege.is_established() {
            assert!(began.elapsed() < Duration::from_mins(2), "{}", siege.counts());
            sleep(Duration::from_millis(200)).await;
        }
        siege
    }

    /// True at 90 %, because some are being reopened at any time.
    fn is_established(&self) -> bool {
        self.idle.count() >= IDLE_CONNECTIONS * 9 / 10
            && self.slow.count() >= SLOW_BODIES * 9 / 10
            && self.watches.count() >= WATCHES * 9 / 10
    }

    fn counts(&self) -> String {
        let (idle, slow, watches) = (self.idle.count(), self.slow.count(), self.watches.count());
        format!("{idle} idle connections, {slow} slow bodies, {watches} watches")
    }

    /// Idle connections from five hosts, half of them to each port.
    fn hold_connections(&mut self, server: &Server, count: usize) {
        let (kube, platform) = (address_of(server.kube()), address_of(&server.url));
        let connecting = Arc::new(Semaphore::new(32));
        let tls = RawClient::new(server).tls;
        for n in 0..count {
            let host = 10 + u8::try_from(n % 5).unwrap();
            let (idle, connecting, tls) = (self.idle.clone(), connecting.clone(), tls.clone());
            self.tasks.spawn(async move {
                loop {
                    let turn = connecting.acquire().await.unwrap();
                    if n % 2 == 0 {
                        if let Ok(stream) = connect_from(host, platform).await {
                            drop(turn);
                            let _ = hold_idle(stream, &idle).await; // closed or reset
                        }
                    } else if let Ok(stream) = connect_from(host, kube).await {
                        let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
                        if let Ok(stream) = tls.connect(name, stream).await {
                            drop(turn);
                            let _ = hold_idle(stream, &idle).await;
                        }
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            });
        }
    }

    /// Bodies that arrive just fast enough: 1 KiB in each 5 s.
    fn hold_slow_bodies(&mut self, server: &Server, count: usize, path: &str, token: &str) {
        let client = Arc::new(RawClient::new(server));
        for _ in 0..count {
            let (slow, client) = (self.slow.clone(), client.clone());
            let (path, token) = (path.to_owned(), token.to_owned());
            self.tasks.spawn(async move {
                loop {
                    let Ok(mut stream) = client.try_slow_body("POST", &path, Some(&token)).await else {
                        sleep(Duration::from_secs(1)).await;
                        continue;
                    };
                    let open = slow.acquire();
                    let mut answer = [0; 1024];
                    // A response or the end of the connection ends this body.
                    while timeout(Duration::from_secs(5), stream.read(&mut answer)).await.is_err() {
                        let sent = stream.write_all(&[b' '; 1100]).await.and(stream.flush().await);
                        if sent.is_err() {
                            break;
                        }
                    }
                    drop(open);
                    sleep(Duration::from_millis(200)).await;
                }
            });
        }
    }

    /// Opens watches. Without a version a watch begins with all objects, of which the client reads none; with a
    /// version the client reads the events.
    fn hold_watches(&mut self, client: &kube::Client, count: usize, path: &str, version: Option<&str>) {
        let version = version.map(str::to_owned);
        let query = version.as_ref().map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
        for _ in 0..count {
            let (watches, client) = (self.watches.clone(), client.clone());
            let (path, is_read) = (format!("{path}?watch=1{query}"), version.is_some());
            self.tasks.spawn(async move {
                loop {
                    let request = Request::get(&path).body(kube::client::Body::empty()).unwrap();
                    let answer = client.send(request).await;
                    if let Ok(mut answer) = answer.map(http::Response::into_body)
                        && is_read
                    {
                        let _open = watches.acquire();
                        while let Some(Ok(_)) = answer.frame().await {}
                    } else {
                        // Longer than the server waits for a client that does not read.
                        sleep(Duration::from_secs(35)).await;
                    }
                    sleep(Duration::from_secs(1)).await;
                }
            });
        }
    }
}

/// Number of each kind held while another tenant is measured. The tenant's byte budget may reject some.
const IDLE_CONNECTIONS: usize = 5_000;
const SLOW_BODIES: usize = 400;
const WATCHES: usize = 200;
/// Rounds of a measurement, two samples each.
const ROUNDS: usize = 400;
/// Accepted in addition to twice the control.
const LATENCY_TOLERANCE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 30 } else { 5 });

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_holds_connections_bodies_and_watches_and_starves_another() {
    if !only_on_embedded() {
        return;
    }
    raise_open_files();
    let (cluster, server) = Cluster::with_platform().await;
    let victim = PlatformUser::register(&server, &cluster).await;
    let kubeconfig = victim.kubeconfig(&cluster).await;
    let maps: Api<ConfigMap> = Api::namespaced(client_from_kubeconfig(&kubeconfig).await, &victim.id);
    maps.create(&PostParams::default(), &config_map("canary", 100)).await.unwrap();
    let package = upload_chart(&server, &victim, &victim.id, GREETING).await;
    let body = release_body(&victim.id, "web", &package, &json!({"greeting": "before"}));
    let made = victim.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    wait_for_state(&server, &victim.token, &release_path(&victim.id, "web"), "active").await;
    let measured = async || {
        let (kubeconfig, namespace) = (kubeconfig.clone(), victim.id.clone());
        // With a new connection.
        let measured = on_own_thread(async move || {
            p99(&Api::namespaced(client_from_kubeconfig(&kubeconfig).await, &namespace), ROUNDS).await
        });
        measured.await.unwrap()
    };
    let before = measured().await;
    // Control measurement: the same attack on another server puts the same load on the machine.
    let control = {
        let other = Server::start(&cluster.folder.path().join("other"));
        let mut siege = ConnectionAttack::start(&other, &cluster).await;
        let control = measured().await;
        assert!(siege.is_established(), "{} after the control", siege.counts());
        siege.tasks.shutdown().await;
        control
    };
    server.memory();

    let mut siege = ConnectionAttack::start(&server, &cluster).await;
    let during = measured().await;
    // The platform still works: a release is upgraded, and an account is registered and provisioned.
    let change = json!({"values": {"greeting": "under attack"}});
    let upgraded = victim.call(Method::PATCH, &release_path(&victim.id, "web"), Some(&change)).await;
    assert_eq!(upgraded.code, 200, "{}", upgraded.text);
    until("the release is upgraded", async || {
        let data = maps.get("web").await.unwrap().data.unwrap_or_default();
        (data["greeting"] == "under attack").then_some(())
    })
    .await;
    PlatformUser::register(&server, &cluster).await;
    assert_eq!(get(&server.platform(), "/readyz").await.code, 200);
    assert!(siege.is_established(), "{} after the measurement", siege.counts());
    let peak = server.memory().1;
    println!("p99 {before:?}, control {control:?}, then {during:?}; {}; {} MiB", siege.counts(), peak >> 20);
    assert!(during <= control * 2 + LATENCY_TOLERANCE, "p99 is {during:?} under attack, control {control:?}");
    assert!(peak < 1_500 << 20, "{} MiB", peak >> 20);
    siege.tasks.shutdown().await;
}

#[tokio::test]
async fn unauthenticated_slow_bodies_stop_the_api() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let admin = server.client().await;
    let path = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    let _slow = RawClient::new(&server).slow_bodies(400, "GET", path, None).await;
    // By now the server is handling all of them.
    sleep(Duration::from_millis(500)).await;
    for _ in 0..20 {
        assert_eq!(get(&admin, "/api/v1/namespaces/default").await.code, 200);
    }
    assert_eq!(get(&server.platform(), "/readyz").await.code, 200);
}

#[tokio::test]
async fn slow_body_of_a_tenant_is_given_up() {
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = PlatformUser::register(&server, &cluster).await;
    let token = token_in(&attacker.kubeconfig(&cluster).await);
    let path = format!("/api/v1/namespaces/{}/configmaps", attacker.id);
    let mut slow = RawClient::new(&server).slow_body("POST", &path, Some(&token)).await;
    let mut answer = vec![0; 12];
    let read = timeout(Duration::from_secs(30), slow.read_exact(&mut answer)).await;
    read.expect("the server gives up within 30 s").unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
}

#[tokio::test]
async fn silent_connections_are_held_for_ever() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let limit = [("LONGSHORE_LIMITS_CONNECTIONS_PER_ADDRESS", "50")];
    let server = Server::start_with(&folder.path().join("data"), &limit);
    for (host, url) in [(21, server.kube()), (22, server.url.as_str())] {
        let connect = (0..60).map(|_| connect_from(host, address_of(url)));
        let connections: Vec<TcpStream> = join_all(connect).await.into_iter().map(Result::unwrap).collect();
        let began = Instant::now();
        let ended = connections.into_iter().map(|mut stream| async move {
            let mut rest = Vec::new();
            // Closed or reset.
            let _ = timeout(Duration::from_mins(1), stream.read_to_end(&mut rest)).await;
            began.elapsed()
        });
        let ended = join_all(ended).await;
        let at_once = ended.iter().filter(|after| **after < Duration::from_secs(5)).count();
        assert_eq!(at_once, 10, "an address has at most 50 connections to {url}");
        assert!(ended.iter().all(|after| *after < Duration::from_secs(40)), "{url}: {ended:?}");
    }
}

/// A ServiceAccount that may watch ConfigMaps, and a client with its token.
async fn watcher_client(cluster: &Cluster, admin: &kube::Client, name: &str) -> kube::Client {
    let (namespace, params) = (&cluster.namespace, PostParams::default());
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&params, &account).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), namespace);
    let binding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }))
    .unwrap();
    bindings.create(&params, &binding).await.unwrap();
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let token = accounts.create_token_request(name, &params, &request).await.unwrap();
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let user =
        json!([{"name": kubeconfig.auth_infos[0].name, "user": {"token": token.status.unwrap().token}}]);
    kubeconfig.auth_infos = serde_json::from_value(user).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Time until a watch ends after its rights are removed: five seconds, and two for the removal on a busy machine.
const WATCH_END_TIMEOUT: Duration = Duration::from_secs(5 + 2);

#[tokio::test]
async fn removed_member_keeps_reading_through_an_open_watch() {
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let bob = PlatformUser::register(&server, &cluster).await;
    let space = format!("watch{}", &ana.id[1..9]);
    ana.workspace(&cluster, &space).await;
    ana.add_member(&space, &bob, "developer").await;
    let path = format!("/api/v1/namespaces/{space}/configmaps");
    let mut streams = Vec::new();
    for person in [&ana, &bob] {
        let client = client_from_kubeconfig(&person.kubeconfig(&cluster).await).await;
        until("the member may read", async || (get(&client, &path).await.code == 200).then_some(())).await;
        let watch = Request::get(format!("{path}?watch=1")).body(Vec::new()).unwrap();
        streams.push(Box::pin(client.request_stream(watch).await.unwrap()));
    }
    let mut removed = streams.pop().unwrap();
    let mut stays = streams.pop().unwrap();
    // They are open for some time before the rights are lost.
    sleep(Duration::from_secs(1)).await;
    let answer = ana.call(Method::DELETE, &format!("workspaces/{space}/members/{}", bob.id), None).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    let mut events = Vec::new();
    let ended = timeout(WATCH_END_TIMEOUT, removed.read_to_end(&mut events)).await;
    assert!(ended.is_ok(), "the watch is open {WATCH_END_TIMEOUT:?} after the removal");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await, &space);
    maps.create(&PostParams::default(), &config_map("later", 1)).await.unwrap();
    let is_seen = async {
        let mut line = String::new();
        while !line.contains("later") {
            line.clear();
            assert!(stays.read_line(&mut line).await.unwrap() > 0, "the watch of a member ended");
        }
    };
    timeout(Duration::from_secs(10), is_seen).await.expect("the watch of a member goes on");
}

#[tokio::test]
async fn deleted_service_account_keeps_reading_through_an_open_watch() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    let admin = cluster.client().await;
    let mut streams = Vec::new();
    for name in ["loses-role", "loses-account"] {
        let client = watcher_client(&cluster, &admin, name).await;
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=1", cluster.namespace);
        let stream = client.request_stream(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        streams.push(Box::pin(stream));
    }
    sleep(Duration::from_secs(1)).await;
    let params = DeleteParams::default();
    let bindings: Api<RoleBinding> = Api::namespaced(admin.clone(), &cluster.namespace);
    bindings.delete("loses-role", &params).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), &cluster.namespace);
    accounts.delete("loses-account", &params).await.unwrap();
    let ended = join_all(streams.into_iter().map(|mut stream| async move {
        let mut events = Vec::new();
        timeout(WATCH_END_TIMEOUT, stream.read_to_end(&mut events)).await.is_ok()
    }));
    assert_eq!(ended.await, [true, true], "watches of an account without its role, and of one that is gone");
}

#[tokio::test]
async fn bearer_token_overrides_a_client_certificate() {
    let cluster = Cluster::start();
    let admin = cluster.client().await;
    let review = |token: &str| {
        Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", JSON)
            .header("authorization", format!("Bearer {token}"))
            .body(b"{}".to_vec())
            .unwrap()
    };
    let own =
        send_body(&admin, Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", JSON, "{}")
            .await;
    let expected = own.json()["status"]["userInfo"]["username"].clone();
    let answer = send(&admin, review("nonsense")).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(answer.json()["status"]["userInfo"]["username"], expected);
}

#[tokio::test]
async fn tenant_writes_through_the_kubernetes_api_without_a_trace() {
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    let client = client_from_kubeconfig(&person.kubeconfig(&cluster).await).await;
    let maps = format!("/api/v1/namespaces/{}/configmaps", person.id);
    let body = json!({"metadata": {"name": "traced"}, "data": {"secret": "hunter2"}}).to_string();
    let made = send_body(&client, Method::POST, &maps, JSON, body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(get(&client, &format!("{maps}/traced")).await.code, 200);
    assert_eq!(get(&client, "/api/v1/namespaces/kube-system/secrets").await.code, 403);
    let deleted = send_body(&client, Method::DELETE, &format!("{maps}/traced"), JSON, "").await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let log = server.log();
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("\"log\":\"audit\"") && line.contains("\"act\":\"kubernetes."))
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| {
            line["who"].as_str().is_some_and(|who| who.ends_with(&format!(":{}", person.id)))
        })
        .filter(|line| line["via"] == "kubernetes")
        .collect();
    let told: Vec<String> = lines
        .iter()
        .map(|line| format!("{} {} {}", line["act"], line["object"], line["status"]).replace('"', ""))
        .collect();
    let id = &person.id;
    assert_eq!(
        told,
        [
            format!("kubernetes.create configmaps/{id} 201"),
            "kubernetes.list secrets/kube-system 403".to_owned(),
            format!("kubernetes.delete configmaps/{id}/traced 200"),
        ],
        "{log}"
    );
    assert_eq!(lines[0]["requestID"], made.header("audit-id"));
    assert!(lines.iter().all(|line| line["from"] == "127.0.0.1"), "{lines:?}");
    assert!(!log.contains("hunter2"));
}
