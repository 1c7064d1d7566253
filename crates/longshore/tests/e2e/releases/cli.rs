//! The command line for releases, with a platform and directly on a cluster: same commands, same chart, same results.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use http::Method;
use serde_json::json;

use crate::platform::PlatformUser;
use crate::program::{Server, longshore};
use crate::request::get;
use crate::target::{Cluster, only_on_embedded};

/// A user at a terminal.
struct CliUser {
    folder: PathBuf,
    /// Arguments appended to each command line.
    extra_args: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// The exit code, standard output, and standard error.
type ExitAndOutput = (Option<i32>, String, String);

impl CliUser {
    fn on_platform(cluster: &Cluster, server: &Server, person: &PlatformUser) -> Self {
        let environment =
            vec![("LONGSHORE_SERVER", server.url.clone()), ("LONGSHORE_TOKEN", person.token.clone())];
        Self { folder: write_chart(cluster), extra_args: Vec::new(), environment }
    }

    fn on_cluster(cluster: &Cluster) -> Self {
        let words = vec!["--kubeconfig".to_owned(), cluster.kubeconfig().to_string_lossy().into_owned()];
        Self { folder: write_chart(cluster), extra_args: words, environment: Vec::new() }
    }

    /// `CHART` in the command line is replaced by the folder of the chart.
    fn command(&self, line: &str) -> Command {
        let word = |word: &str| word.replace("CHART", &self.folder.to_string_lossy());
        let mut command = longshore(line.split_whitespace().map(word).chain(self.extra_args.clone()));
        command
            .env("HOME", self.folder.parent().unwrap())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn run(&self, line: &str) -> ExitAndOutput {
        let came = self.command(line).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (came.status.code(), text(came.stdout), text(came.stderr))
    }

    /// Runs a command that must succeed. Returns stdout and stderr.
    fn run_ok(&self, line: &str) -> (String, String) {
        let (code, out, notes) = self.run(line);
        assert_eq!(code, Some(0), "{line}\n{out}{notes}");
        (out, notes)
    }
}

/// A workload that becomes ready after a short time, or never if the value `broken` is set.
fn write_chart(cluster: &Cluster) -> PathBuf {
    let folder = cluster.folder.path().join("shop");
    fs::create_dir_all(folder.join("templates")).unwrap();
    fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 1.0.0\nappVersion: '1.27'\n")
        .unwrap();
    fs::write(
        folder.join("values.yaml"),
        "replicas: 1\ngreeting: hello\nbroken: false\nholds: false\nwide: {}\n",
    )
    .unwrap();
    let objects = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {greeting: {{ .Values.greeting }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations: {sim.longshore.dev/log.main: greets with {{ .Values.greeting }}}
    spec:
      {{- if .Values.broken }}
      nodeSelector: {no-such: node}
      {{- end }}
      containers:
      - name: main
        image: nginx
        resources:
          requests: {cpu: 10m, memory: 16Mi}
          limits: {cpu: 20m, memory: 32Mi}
";
    fs::write(folder.join("templates/all.yaml"), objects).unwrap();
    let test = r"
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test, sim.longshore.dev/log.main: all is well}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: nginx
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {cpu: 20m, memory: 32Mi}
";
    fs::write(folder.join("templates/test.yaml"), test).unwrap();
    let hook = r"
{{- if .Values.holds }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: pre-delete, sim.longshore.dev/behaviour: exit=4}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: nginx
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {cpu: 20m, memory: 32Mi}
{{- end }}
";
    fs::write(folder.join("templates/hook.yaml"), hook).unwrap();
    let wide = r#"
{{- range $name, $verb := .Values.wide }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ $.Release.Namespace }}-{{ $name }}}
rules: [{apiGroups: [""], resources: [nodes], verbs: [{{ $verb }}]}]
{{- end }}
"#;
    fs::write(folder.join("templates/wide.yaml"), wide).unwrap();
    fs::write(folder.join("templates/NOTES.txt"), "Thank you for {{ .Release.Name }}.\n").unwrap();
    folder
}

/// Commands that behave the same with a platform and without one.
fn run_lifecycle(typist: &CliUser) {
    let (out, _) = typist.run_ok("install web CHART --wait --timeout 60s");
    assert!(out.contains("NAME: web\n") && out.contains("REVISION: 1\n"), "{out}");
    assert!(out.ends_with("NOTES:\nThank you for web.\n"), "{out}");
    let (status, _) = typist.run_ok("status web");
    assert!(status.contains("Deployment") && status.contains("ConfigMap"), "{status}");
    let (planned, _) = typist.run_ok("diff web --with CHART --set greeting=bye,replicas=2");
    typist.run_ok("upgrade web CHART --set greeting=bye,replicas=2 --wait --timeout 60s");
    let (made, _) = typist.run_ok("diff web 1 2");
    assert_eq!(planned, made);
    assert!(made.contains("-  replicas: 1\n+  replicas: 2\n"), "{made}");
    typist.run_ok("rollback web 1 --wait");
    let (history, _) = typist.run_ok("history web");
    assert_eq!(history.lines().count(), 4, "{history}");
    let (values, _) = typist.run_ok("get values web");
    assert!(!values.contains("bye"), "{values}");
    assert_eq!(typist.run_ok("diff web --live").0, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_cli_lifecycle_on_platform() {
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    let typist = CliUser::on_platform(&cluster, &server, &person);
    run_lifecycle(&typist);
    let (paused, _) = typist.run_ok("pause web --wait");
    assert!(paused.contains("STATE: paused\n"), "{paused}");
    let (list, _) = typist.run_ok("list");
    assert!(list.lines().nth(1).is_some_and(|line| line.contains("paused")), "{list}");
    let (back, _) = typist.run_ok("recover web --wait");
    assert!(back.contains("STATE: active\n"), "{back}");
    let (restarted, _) = typist.run_ok("restart web --rolling");
    assert_eq!(restarted, "Deployment web restarted\n");
    assert_eq!(typist.run_ok("uninstall web").0, "release \"web\" uninstalled\n");
    assert_eq!(typist.run_ok("list -q").0, "");
}

#[test]
fn release_cli_lifecycle_on_cluster() {
    let cluster = Cluster::start();
    let typist = CliUser::on_cluster(&cluster);
    run_lifecycle(&typist);
    assert_eq!(typist.run_ok("uninstall web --wait").0, "release \"web\" uninstalled\n");
    assert_eq!(typist.run_ok("list -q").0, "");
    for command in ["pause", "recover", "suspend", "resume", "retry", "restart", "adopt"] {
        let (code, _, why) = typist.run(&format!("{command} web"));
        assert_eq!(code, Some(1));
        assert!(why.starts_with(&format!("Error: `longshore {command}` requires a platform")), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_cli_uses_administrator_rights_for_one_version() {
    let (cluster, server) = Cluster::with_platform().await;
    let tenant = PlatformUser::register(&server, &cluster).await;
    let administrator = PlatformUser::administrator(&server, &cluster).await;
    let (space, client) = (&tenant.id, cluster.client().await);
    let role_path = |name: &str| format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{space}-{name}");
    for name in ["role", "more"] {
        cluster.remove_at_end(role_path(name));
    }
    // The verb of a ClusterRole of the release.
    let verb = async |name: &str| {
        let role = get(&client, &role_path(name)).await;
        (role.code == 200).then(|| role.json()["rules"][0]["verbs"][0].as_str().unwrap().to_owned())
    };

    // Only an administrator with an unscoped credential can use it; the message says which of the two is missing.
    let body = json!({"name": "scoped", "scopes": ["releases", "store"]});
    let scoped = administrator.call(Method::POST, "tokens", Some(&body)).await;
    assert_eq!(scoped.code, 201, "{}", scoped.text);
    let scoped = administrator.with_token(scoped.json()["token"].as_str().unwrap().to_owned());
    let install = format!("install web CHART -n {space} --set wide.role=get --as-administrator");
    for (user, reason) in [(&tenant, "can use asAdministrator"), (&scoped, " token")] {
        let (code, out, why) = CliUser::on_platform(&cluster, &server, user).run(&install);
        assert_eq!(code, Some(1), "{out}{why}");
        assert!(why.contains(reason), "{why}");
    }
    assert_eq!(verb("role").await, None);

    let typist = CliUser::on_platform(&cluster, &server, &administrator);
    // The rights are not used by default.
    let (code, _, why) = typist.run(&install.replace(" --as-administrator", "").replace(" web ", " plain "));
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("cluster-scoped objects require permissions"), "{why}");
    typist.run_ok(&install);
    assert_eq!(verb("role").await.as_deref(), Some("get"));
    // The next upgrade does not have these rights: the object is unchanged, and a new one is refused.
    typist.run_ok(&format!("upgrade web CHART -n {space} --set wide.role=delete"));
    assert_eq!(verb("role").await.as_deref(), Some("get"));
    let (code, _, why) = typist.run(&format!("upgrade web CHART -n {space} --set wide.more=get"));
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("cluster-scoped objects require permissions"), "{why}");
    assert_eq!(verb("more").await, None);
    typist.run_ok(&format!("upgrade web CHART -n {space} --set wide.role=list --as-administrator"));
    assert_eq!(verb("role").await.as_deref(), Some("list"));
    typist.run_ok(&format!("uninstall web -n {space} --as-administrator"));
    assert_eq!(verb("role").await, None);
    typist.run_ok(&format!("uninstall plain -n {space}"));
}

/// Without a platform there is no administrator whose rights could be used.
#[test]
fn release_cli_administrator_rights_need_a_platform() {
    let cluster = Cluster::start();
    let typist = CliUser::on_cluster(&cluster);
    for line in ["install web CHART", "upgrade web CHART", "rollback web 1", "uninstall web"] {
        let (code, _, why) = typist.run(&format!("{line} --as-administrator"));
        assert_eq!(code, Some(1), "{line}: {why}");
        assert!(why.contains("--as-administrator` requires a platform"), "{line}: {why}");
    }
}

/// Logs are simulated, so only the embedded cluster has predictable lines.
fn logs(typist: &CliUser) {
    typist.run_ok("install web CHART --wait --timeout 60s");
    let (out, _) = typist.run_ok("logs web --tail 1");
    assert_eq!(out, "greets with hello\n");
    let (out, _) = typist.run_ok("logs web --tail 1 --prefix");
    assert!(out.starts_with("[web-") && out.ends_with("/main] greets with hello\n"), "{out}");
    let (out, told) = typist.run_ok("logs web -l app=other");
    assert_eq!((out.as_str(), told.as_str()), ("", "release \"web\" has no matching containers\n"));
    let mut command = typist.command("logs web -f --tail 1 -c main");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    assert!(first.starts_with("[web-") && first.ends_with("/main] greets with hello"), "{first}");
    // Logs of new pods are followed from their start.
    typist.run_ok("upgrade web CHART --set greeting=bye,replicas=2 --wait --timeout 60s");
    let greets: Vec<String> =
        lines.by_ref().filter(|line| line.ends_with("/main] greets with bye")).take(2).collect();
    assert_ne!(greets[0], greets[1]);
    // SIGTERM instead of the SIGINT of Ctrl-C, which background processes ignore.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());
    let (code, _, why) = typist.run("logs web -f --previous");
    assert_eq!(code, Some(2), "{why}");
    let (code, _, why) = typist.run("logs none -f");
    assert_eq!(code, Some(1), "{why}");
    typist.run_ok("uninstall web");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_cli_platform_only_commands() {
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    let typist = CliUser::on_platform(&cluster, &server, &person);
    typist.run_ok("install web CHART --set holds=true --wait --timeout 60s");
    let (out, _) = typist.run_ok("test web --filter name=web-test --logs");
    assert!(out.starts_with("TEST SUITE:     web-test\nPhase:          Succeeded\n"), "{out}");
    assert!(out.contains("\nPOD LOGS: web-test\n") && out.contains("\nall is well\n"), "{out}");
    let (out, _) = typist.run_ok("test web --filter !name=web-test --logs");
    assert!(!out.contains("POD LOGS"), "{out}");

    typist.run_ok("suspend web");
    let (code, _, why) = typist.run("retry web");
    assert_eq!(code, Some(1));
    assert!(why.contains("release `web` has not failed"), "{why}");
    let (out, _) = typist.run_ok("resume web --wait");
    assert!(out.contains("STATE: active\n"), "{out}");

    // Its uninstall hook fails: without `--force` it would be retried forever.
    let (out, _) = typist.run_ok("uninstall web --force");
    assert_eq!(out, "release \"web\" uninstalled forcibly\n");
    assert_eq!(typist.run_ok("list -q").0, "");

    let (code, _, why) = typist.run("repo add near http://127.0.0.1:1/charts");
    assert_eq!(code, Some(1));
    assert!(why.contains("not a valid chart repository or cannot be reached"), "{why}");
    assert_eq!(typist.run_ok("repo list -o json").0.trim(), "[]");
    typist.run_ok("repo add near http://127.0.0.1:1/charts --no-check");
    assert!(typist.run_ok("repo list").0.contains("near"));
    typist.run_ok("repo remove near");
}

#[tokio::test(flavor = "multi_thread")]
async fn release_cli_follows_logs_on_platform() {
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    logs(&CliUser::on_platform(&cluster, &server, &person));
}

#[test]
fn release_cli_follows_logs_on_cluster() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    logs(&CliUser::on_cluster(&cluster));
}

#[tokio::test(flavor = "multi_thread")]
async fn release_cli_reports_wait_progress_and_can_be_interrupted() {
    let (cluster, server) = Cluster::with_platform().await;
    let person = PlatformUser::register(&server, &cluster).await;
    let typist = CliUser::on_platform(&cluster, &server, &person);
    // No node fits the pod: the reason comes from the scheduler.
    let (code, _, told) = typist.run("install web CHART --set broken=true --wait --timeout 5s");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("web waits: "), "{told}");
    assert!(told.contains("FailedScheduling"), "{told}");
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("Error: INSTALLATION FAILED: ") && last.contains("web"), "{told}");
    let (status, _) = typist.run_ok("status web");
    assert!(status.contains("FailedScheduling"), "{status}");
    // Ctrl-C leaves the operation running and prints how to check it later.
    let mut waiting = typist.command("upgrade web CHART --set broken=true,replicas=2 --wait --timeout 60s");
    let mut child =
        waiting.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waits: ")));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let told: String = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.contains(&format!("see `longshore status web -n {}`", person.id)), "{told}");
    assert_eq!(typist.run_ok("uninstall web").0, "release \"web\" uninstalled\n");
}
