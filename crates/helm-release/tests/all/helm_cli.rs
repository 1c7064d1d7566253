//! The real Helm programs, and an embedded cluster that they can reach.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// Environment variables that name the programs.
pub const HELM_VARIABLES: [&str; 3] = ["LONGSHORE_HELM_3_17", "LONGSHORE_HELM_3_22", "LONGSHORE_HELM_4_3"];

/// An in-memory cluster that listens on loopback.
pub struct ServedCluster {
    pub cluster: Cluster,
    folder: TempDir,
}

/// A Helm program with a kubeconfig for the cluster.
#[derive(Clone)]
pub struct HelmCli {
    program: PathBuf,
    folder: PathBuf,
}

/// Output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub is_success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl ServedCluster {
    pub async fn new() -> Self {
        let cluster = Cluster::in_memory().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), cluster.pki().kubeconfig(&url)).unwrap();
        let serving = cluster.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { cluster, folder }
    }

    pub fn client(&self) -> kube::Client {
        self.cluster.client(User::admin())
    }

    /// Returns the program; prints that the test is skipped and returns `None` if the variable is unset.
    pub fn helm(&self, variable: &str) -> Option<HelmCli> {
        let program = std::env::var_os(variable).map(PathBuf::from).filter(|program| program.exists());
        if program.is_none() {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            // Bypasses the captured output, which is hidden for passing tests.
            let _ = writeln!(std::io::stderr(), "skipped: {name}: {variable} names no program");
        }
        Some(HelmCli { program: program?, folder: self.folder.path().to_owned() })
    }
}

impl Drop for ServedCluster {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

impl HelmCli {
    pub async fn run(&self, line: &str) -> CommandOutput {
        let mut command = Command::new(&self.program);
        command.args(line.split_whitespace()).current_dir(charts_dir()).env_clear();
        command.env("HOME", &self.folder).env("KUBECONFIG", self.folder.join("kubeconfig"));
        command.env("TZ", "UTC");
        let done = spawn_blocking(move || command.output().expect("helm starts")).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        CommandOutput {
            is_success: done.status.success(),
            stdout: text(done.stdout),
            stderr: text(done.stderr),
        }
    }

    /// Runs a command and returns its output. Panics if it fails.
    pub async fn run_ok(&self, line: &str) -> String {
        let said = self.run(line).await;
        assert!(said.is_success, "{} {line}: {said:#?}", self.program.display());
        said.stdout
    }
}

/// Directory of our small test charts.
pub fn charts_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts")
}
