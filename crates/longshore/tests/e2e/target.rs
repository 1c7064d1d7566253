//! The target cluster of the suite: `LONGSHORE_TARGET` is `embedded` (the default), `devcluster` or `kubeconfig`.
//!
//! A test of the Kubernetes API or its clients uses a [`Cluster`]: a namespace of its own on any target, with the
//! same behaviour everywhere. A test of the embedded cluster itself calls [`only_on_embedded`] first.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::Discovery;
use serde_json::json;
use tempfile::{TempDir, tempdir};

use crate::program::{Server, longshore, output};
use crate::request::send_body;

/// The embedded cluster, or an existing one by its kubeconfig.
pub enum TestTarget {
    Embedded,
    Real(Box<Kubeconfig>),
}

/// The target in the environment. Panics on an unknown value.
pub fn target() -> TestTarget {
    let named = env::var("LONGSHORE_TARGET").unwrap_or_else(|_| "embedded".to_owned());
    let kubeconfig = match named.as_str() {
        "embedded" => return TestTarget::Embedded,
        "devcluster" => Kubeconfig::read_from(devcluster_kubeconfig()),
        "kubeconfig" => match Kubeconfig::from_env() {
            Ok(None) => Kubeconfig::read(),
            Ok(Some(found)) => Ok(found),
            Err(error) => Err(error),
        },
        other => panic!("LONGSHORE_TARGET is `{other}`, not embedded, devcluster or kubeconfig"),
    };
    let kubeconfig = kubeconfig.unwrap_or_else(|error| panic!("no cluster for the target {named}: {error}"));
    TestTarget::Real(Box::new(kubeconfig))
}

/// The kubeconfig set by `cargo xtask test --real`, or the kubeconfig of a running `cargo xtask devcluster up`.
fn devcluster_kubeconfig() -> PathBuf {
    let named = env::var_os("LONGSHORE_TARGET_KUBECONFIG").map(PathBuf::from);
    named.unwrap_or_else(|| {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| PathBuf::from(env::var_os("HOME").unwrap()).join(".cache"));
        cache.join("longshore/devcluster-state/kubeconfig")
    })
}

/// Returns true on the embedded target; otherwise reports the test as skipped.
pub fn only_on_embedded() -> bool {
    let embedded = matches!(target(), TestTarget::Embedded);
    if !embedded {
        report_skipped("only on embedded");
    }
    embedded
}

/// Returns true on a real cluster; otherwise reports the test as skipped.
pub fn only_on_a_real_cluster() -> bool {
    let real = !matches!(target(), TestTarget::Embedded);
    if !real {
        report_skipped("only on a real cluster");
    }
    real
}

/// A lock per real cluster for tests that run servers: all servers of a cluster elect one leader, so these tests run one after the
/// other. On embedded each test has its own cluster and needs no lock. Released when dropped.
pub fn server_lock() -> Option<fs::File> {
    let TestTarget::Real(kubeconfig) = target() else { return None };
    let server = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref()?.server.clone());
    let key: String = server.unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
    let file = fs::File::create(env::temp_dir().join(format!("longshore-e2e-turn-{key}"))).unwrap();
    file.lock().unwrap();
    Some(file)
}

/// Reports a skipped test. Writes to stderr directly, because the captured output of a passing test is not shown.
pub fn report_skipped(why: &str) {
    let mut terminal = std::io::stderr();
    writeln!(terminal, "skipped: {}: {why}", test_name()).unwrap();
}

/// Each test runs in a thread of its name, unless there is only one thread.
fn test_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// A cluster for one test. When it is dropped, the test's namespace and all objects registered with
/// [`Cluster::remove_at_end`] are deleted.
pub struct Cluster {
    /// The test's namespace, and the default namespace of its clients.
    pub namespace: String,
    /// Folder for the test's files.
    pub folder: TempDir,
    /// True on embedded: nothing needs to be deleted, because the cluster ends with its server.
    embedded: bool,
    server: Option<Server>,
    registered_paths: Mutex<Vec<String>>,
    /// Lock of a test that runs servers.
    server_lock: Option<fs::File>,
}

impl Cluster {
    pub fn start() -> Self {
        let folder = tempdir().unwrap();
        let (server, kubeconfig) = match target() {
            TestTarget::Embedded => {
                let server = Server::start(&folder.path().join("data"));
                let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
                (Some(server), kubeconfig)
            }
            TestTarget::Real(kubeconfig) => (None, *kubeconfig),
        };
        let embedded = server.is_some();
        let announced = Mutex::default();
        let cluster = Self {
            namespace: unused_name(),
            folder,
            embedded,
            server,
            registered_paths: announced,
            server_lock: None,
        };
        let kubeconfig = minify_kubeconfig(kubeconfig, &cluster.namespace);
        // JSON is YAML.
        fs::write(cluster.kubeconfig(), serde_json::to_string(&kubeconfig).unwrap()).unwrap();
        let namespace =
            json!({"metadata": {"name": cluster.namespace, "labels": {"longshore.dev/e2e": "true"}}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        cluster.block_on(async |client| {
            Api::all(client).create(&PostParams::default(), &namespace).await.unwrap();
        });
        cluster
    }

    /// A cluster for a test that runs servers on it.
    pub fn for_servers() -> Self {
        let mut cluster = Self::start();
        cluster.server_lock = server_lock();
        cluster
    }

    /// A cluster with a platform server. On a real cluster the manifests are applied first, so that the roles exist.
    pub async fn with_platform() -> (Self, Server) {
        let mut cluster = Self::for_servers();
        if let Some(server) = cluster.server.take() {
            return (cluster, server);
        }
        cluster.apply_manifests().await;
        let server = Server::start_on_cluster(&cluster.kubeconfig(), &cluster.folder.path().join("data"));
        (cluster, server)
    }

    /// Applies the output of `longshore manifests` as cluster administrator.
    pub async fn apply_manifests(&self) {
        let manifests = output(&mut longshore(["manifests"]));
        let client = self.client().await;
        let discovery = Discovery::new(client.clone()).run().await.unwrap();
        for text in manifests.split("---\n").filter(|text| !text.is_empty()) {
            let object: DynamicObject = serde_norway::from_str(text).unwrap();
            let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
            let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
            let objects: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let name = object.metadata.name.clone().unwrap();
            objects.patch(&name, &PatchParams::apply("e2e").force(), &Patch::Apply(&object)).await.unwrap();
        }
    }

    /// The kubeconfig file for command-line clients.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A client with the administrator's credentials.
    pub async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// Registers an object outside the namespace by its API path. It is deleted at the end, also if the test fails.
    pub fn remove_at_end(&self, path: impl Into<String>) {
        self.registered_paths.lock().unwrap().push(path.into());
    }

    /// Runs `work` to completion on a thread and runtime of its own; works in sync and async tests.
    pub fn block_on<T: Send>(&self, work: impl AsyncFnOnce(kube::Client) -> T + Send) -> T {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { work(self.client().await).await })
        };
        thread::scope(|scope| scope.spawn(run).join()).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.embedded {
            return;
        }
        let mut paths = std::mem::take(&mut *self.registered_paths.lock().unwrap());
        paths.push(format!("/api/v1/namespaces/{}", self.namespace));
        self.block_on(async |client| {
            for path in paths {
                // Errors are ignored: the test may have deleted the object.
                send_body(&client, Method::DELETE, &path, "application/json", "").await;
            }
        });
    }
}

/// `kubeconfig` reduced to its current context, with this default namespace.
fn minify_kubeconfig(mut kubeconfig: Kubeconfig, namespace: &str) -> Kubeconfig {
    let current = kubeconfig.current_context.clone().expect("the kubeconfig has a current context");
    kubeconfig.contexts.retain(|named| named.name == current);
    for named in &mut kubeconfig.contexts {
        named.context.as_mut().expect("a context is not empty").namespace = Some(namespace.to_owned());
    }
    kubeconfig
}

/// A name that no other test of this or another run uses.
fn unused_name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("e2e-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}
