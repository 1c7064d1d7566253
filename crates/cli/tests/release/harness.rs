//! A user's environment: a cluster, a chart, Longshore's commands in process and the real Helm.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use cli::helm::CommandError;
use cli::platform::CommandEnv;
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// Output and error of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub output: String,
    pub error: Option<String>,
}

impl Printed {
    /// The output. Panics if the command failed.
    pub fn expect_output(self) -> String {
        assert_eq!(self.error, None, "{}", self.output);
        self.output
    }

    pub fn expect_error(self) -> String {
        self.error.expect("it was refused")
    }
}

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: cli::release::Command,
}

pub struct ClusterHarness {
    pub cluster: Cluster,
    folder: TempDir,
}

impl ClusterHarness {
    pub async fn new() -> Self {
        let config = Config { simulation: Some(Simulation::default()), ..Config::default() };
        let cluster = Cluster::open(config).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("kubeconfig"), cluster.pki().kubeconfig(&url)).unwrap();
        for (file, text) in CHART {
            let file = folder.path().join("shop").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let serving = cluster.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { cluster, folder }
    }

    pub fn client(&self) -> kube::Client {
        self.cluster.client(User::admin())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Words of a command line; `CHART` is replaced by the test chart.
    fn split_line(&self, line: &str) -> Vec<String> {
        let word = |word: &str| match word {
            "CHART" => self.path("shop").to_string_lossy().into_owned(),
            word => word.to_owned(),
        };
        line.split_whitespace().map(word).collect()
    }

    /// Runs a Longshore command.
    pub async fn run_longshore(&self, line: &str) -> Printed {
        let mut words = vec!["longshore".to_owned()];
        words.extend(self.split_line(line));
        words.push(format!("--kubeconfig={}", self.path("kubeconfig").display()));
        let done = match Program::try_parse_from(words) {
            Ok(Program { command }) => {
                cli::release::run(&command, &CommandEnv::from_process(|| Ok(None))).await
            }
            Err(error) => Err(error.to_string().into()),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match done {
            Ok(output) => Printed { output: text(output), error: None },
            Err(CommandError { output, message: why, code: _ }) => {
                Printed { output: text(output), error: Some(why) }
            }
        }
    }

    /// The real Helm. Without it, reports the test as skipped.
    pub fn real_helm(&self) -> Option<RealHelm<'_>> {
        const VARIABLE: &str = "LONGSHORE_HELM_4_3";
        let program = std::env::var_os(VARIABLE).map(PathBuf::from).filter(|program| program.exists());
        if program.is_none() {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "skipped: {name}: {VARIABLE} names no program");
        }
        Some(RealHelm { desk: self, program: program? })
    }
}

impl Drop for ClusterHarness {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

pub struct RealHelm<'d> {
    desk: &'d ClusterHarness,
    program: PathBuf,
}

impl RealHelm<'_> {
    pub async fn run(&self, line: &str) -> Printed {
        let mut command = Command::new(&self.program);
        command.args(self.desk.split_line(line)).env_clear();
        command
            .env("HOME", self.desk.folder.path())
            .env("KUBECONFIG", self.desk.path("kubeconfig"))
            .env("TZ", "UTC");
        let done = spawn_blocking(move || command.output().expect("helm starts")).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let errors = text(done.stderr);
        let error =
            errors.lines().skip_while(|line| !line.starts_with("Error: ")).collect::<Vec<_>>().join("\n");
        let error = error.strip_prefix("Error: ").map(str::to_owned);
        Printed { output: text(done.stdout), error: error.filter(|_| !done.status.success()) }
    }
}

/// A chart with various kinds of objects.
const CHART: &[(&str, &str)] = &[
    (
        "Chart.yaml",
        "apiVersion: v2\nname: shop\nversion: 1.2.3\nappVersion: '4.5'\nannotations: {team: sales, area: web}\n",
    ),
    ("values.yaml", "replicas: 1\npassword: correct-horse\ngreeting: hello\nbroken: false\n"),
    (
        "templates/deployment.yaml",
        r"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers:
      - name: main
        image: nginx
        env: [{name: GREETING, value: {{ .Values.greeting | quote }}}]
",
    ),
    (
        "templates/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}}\nstringData: {password: {{ .Values.password }}}\n",
    ),
    (
        "templates/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n  annotations: {helm.sh/resource-policy: keep}\ndata: {greeting: {{ .Values.greeting }}}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-before\n  annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}\n",
    ),
    (
        "templates/tests/ping.yaml",
        r"apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-ping
  annotations:
    helm.sh/hook: test
    {{- if .Values.broken }}
    sim.longshore.dev/behaviour: exit=1@0s
    {{- end }}
spec:
  restartPolicy: Never
  containers: [{name: ping, image: busybox}]
",
    ),
    ("templates/NOTES.txt", "Thank you for {{ .Chart.Name }} in {{ .Release.Name }}.\n"),
];
