//! The server process under test: started on free ports with a data folder, stopped or killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::target::{TestTarget, target};

/// The `longshore` binary with these arguments and without inherited `LONGSHORE_*` variables.
pub fn longshore<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    let inherited = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LONGSHORE_"));
    inherited.for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.args(args);
    command
}

/// Runs a command and returns its stdout; panics if it fails.
pub fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout
}

/// The log file next to the data folder.
fn log_path(data: &Path) -> PathBuf {
    data.with_extension("log")
}

/// A running server. Killed when dropped.
pub struct Server {
    child: Child,
    /// URL of the platform's API.
    pub url: String,
    /// URL of the embedded Kubernetes API, if the server runs one.
    kube: Option<String>,
    data: PathBuf,
}

impl Server {
    /// Starts a server on this data folder and waits until it is ready.
    pub fn start(data: &Path) -> Self {
        Self::serve(data, longshore(["serve", "--kube-listen", "127.0.0.1:0"]))
    }

    /// As [`Self::start`], with these environment variables.
    pub fn start_with(data: &Path, environment: &[(&str, &str)]) -> Self {
        let mut serve = longshore(["serve", "--kube-listen", "127.0.0.1:0"]);
        serve.envs(environment.iter().copied());
        Self::serve(data, serve)
    }

    /// Starts a server on the target's cluster. Files that it needs are written to `folder`.
    pub fn start_on_target(folder: &Path) -> Self {
        let data = folder.join("data");
        match target() {
            TestTarget::Embedded => Self::start(&data),
            TestTarget::Real(kubeconfig) => {
                let file = folder.join("cluster");
                fs::write(&file, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
                Self::start_on_cluster(&file, &data)
            }
        }
    }

    /// Starts a server on the cluster of a kubeconfig.
    pub fn start_on_cluster(kubeconfig: &Path, data: &Path) -> Self {
        let mut serve = longshore(["serve", "--kubeconfig"]);
        serve.arg(kubeconfig);
        Self::serve(data, serve)
    }

    fn serve(data: &Path, serve: Command) -> Self {
        let log = fs::File::options().create(true).append(true).open(log_path(data)).unwrap();
        Self::serve_logging_to(data, serve, log.into())
    }

    /// Starts a server with its log redirected to `log`.
    pub fn serve_logging_to(data: &Path, mut serve: Command, log: Stdio) -> Self {
        serve.args(["--listen", "127.0.0.1:0", "--data"]).arg(data);
        let mut child = serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let ready = said.lines().map(Result::unwrap).find(|line| line.starts_with("ready "));
        let Some(ready) = ready else {
            let _ = child.wait();
            panic!("not ready: {}", fs::read_to_string(log_path(data)).unwrap_or_default());
        };
        let words: Vec<&str> = ready.split(' ').collect();
        let (url, kube) = match words[..] {
            ["ready", url] => (url, None),
            ["ready", url, "kube", kube] => (url, Some(kube.to_owned())),
            _ => panic!("an odd line: {ready}"),
        };
        Self { child, url: url.to_owned(), kube, data: data.to_owned() }
    }

    /// Data folder. Another server can start on it after this one has ended.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// URL of the embedded Kubernetes API.
    pub fn kube(&self) -> &str {
        self.kube.as_deref().expect("the server runs on its embedded cluster")
    }

    /// The output of `longshore kubeconfig`.
    pub fn kubeconfig(&self) -> String {
        output(longshore(["kubeconfig", "--data"]).arg(&self.data))
    }

    /// A Kubernetes client with the administrator's certificate.
    pub async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// As [`Self::client`], without automatic retries.
    pub async fn client_without_retries(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// As [`Self::platform`], without automatic retries.
    pub fn platform_without_retries(&self) -> kube::Client {
        let mut config = kube::Config::new(self.url.parse().unwrap());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// A client of the platform's port.
    pub fn platform(&self) -> kube::Client {
        kube::Client::try_from(kube::Config::new(self.url.parse().unwrap())).unwrap()
    }

    /// Resident memory in bytes: current, and the peak since the last call.
    pub fn memory(&self) -> (u64, u64) {
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
        };
        fs::write(format!("{folder}/clear_refs"), "5").unwrap(); // resets the peak
        (bytes("VmRSS"), bytes("VmHWM"))
    }

    /// The server's log, for failure messages.
    pub fn log(&self) -> String {
        fs::read_to_string(log_path(&self.data)).unwrap_or_default()
    }

    pub fn signal(&self, signal: &str) {
        output(Command::new("kill").args([signal, &self.child.id().to_string()]));
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.signal("-TERM");
        (self.wait_for_exit().0, began.elapsed())
    }

    /// Waits until the process exits on its own; returns its status and its log.
    pub fn wait_for_exit(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.log());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("still running after 20 s: {}", self.log());
    }

    /// `kill -9`: no graceful shutdown.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // On a real cluster a graceful exit releases the Lease, so that the next test's server leads immediately.
        if self.kube.is_none() && matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-TERM");
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(5) && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        // Errors are ignored: the process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
