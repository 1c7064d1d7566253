//! Real command-line clients of the test's cluster: kubectl from `LONGSHORE_KUBECTL`, helm from `LONGSHORE_HELM_4_3`
//! and similar variables. `cargo xtask test --real` sets all of them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::target::{Cluster, report_skipped};

/// A client program and the cluster that it is configured for.
pub struct CliClient {
    program: PathBuf,
    pub cluster: Arc<Cluster>,
    /// Overrides the test's namespace.
    namespace: Option<String>,
}

/// Output of a command and whether it succeeded.
pub struct CliOutput {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl CliClient {
    /// kubectl with a new cluster. `None`, after reporting the test as skipped, if no kubectl is configured.
    pub fn kubectl() -> Option<Self> {
        let program = program_from_env("LONGSHORE_KUBECTL")?;
        Some(Self { program, cluster: Arc::new(Cluster::start()), namespace: None })
    }

    /// kubectl on an existing cluster.
    pub fn kubectl_on(cluster: &Arc<Cluster>) -> Option<Self> {
        let program = program_from_env("LONGSHORE_KUBECTL")?;
        Some(Self { program, cluster: Arc::clone(cluster), namespace: None })
    }

    /// Helm on the same cluster. `None`, after reporting the test as skipped, if the variable is unset.
    pub fn helm(&self, variable: &str) -> Option<Self> {
        Some(self.with_program(program_from_env(variable)?))
    }

    /// The `longshore` binary on the same cluster, without a server.
    pub fn longshore(&self) -> Self {
        self.with_program(env!("CARGO_BIN_EXE_longshore").into())
    }

    fn with_program(&self, program: PathBuf) -> Self {
        Self { program, cluster: Arc::clone(&self.cluster), namespace: self.namespace.clone() }
    }

    /// The same client with another default namespace.
    pub fn on_namespace(&self, namespace: &str) -> Self {
        let program = self.program.clone();
        Self { program, cluster: Arc::clone(&self.cluster), namespace: Some(namespace.to_owned()) }
    }

    /// Replaces `{ns}` by the namespace of the test; used for commands and expected output.
    fn expand_namespace(&self, text: &str) -> String {
        text.replace("{ns}", &self.cluster.namespace)
    }

    pub fn command(&self, line: &str) -> Command {
        let folder = self.cluster.folder.path();
        let mut command = Command::new(&self.program);
        command.args(split_line(&self.expand_namespace(line))).current_dir(folder);
        command.args(self.namespace.iter().flat_map(|name| ["--namespace", name]));
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", folder);
        command.env("LONGSHORE_KUBE_KUBECONFIG", self.cluster.kubeconfig());
        command.env("KUBE_EDITOR", folder.join("editor"));
        // Helm's cache, configuration and data stay within the test's folder (`HOME`).
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command
    }

    pub fn try_run(&self, line: &str, stdin: &str) -> CliOutput {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(self.expand_namespace(stdin).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CliOutput {
            success: output.status.success(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Runs a command and returns its stdout; panics if it fails.
    pub fn run_with_stdin(&self, line: &str, stdin: &str) -> String {
        let said = self.try_run(line, stdin);
        assert!(said.success, "{} {line}\n{}{}", self.program.display(), said.stdout, said.stderr);
        said.stdout
    }

    pub fn run(&self, line: &str) -> String {
        self.run_with_stdin(line, "")
    }

    /// Asserts the exact stdout.
    pub fn assert_prints(&self, line: &str, expected: &str) {
        assert_eq!(self.run(line).trim_end(), self.expand_namespace(expected), "kubectl {line}");
    }

    /// Waits up to a minute for the exact stdout.
    pub fn wait_until_prints(&self, line: &str, expected: &str) {
        let began = Instant::now();
        while self.run(line).trim_end() != self.expand_namespace(expected)
            && began.elapsed() < Duration::from_mins(1)
        {
            thread::sleep(Duration::from_millis(100));
        }
        self.assert_prints(line, expected);
    }

    /// Asserts that stdout contains all parts.
    pub fn assert_mentions(&self, line: &str, parts: &[&str]) {
        let text = self.run(line);
        for part in parts {
            assert!(text.contains(&self.expand_namespace(part)), "kubectl {line}: no `{part}` in\n{text}");
        }
    }

    /// Asserts that the command fails with `part` in stderr.
    pub fn assert_refused(&self, line: &str, stdin: &str, part: &str) {
        let said = self.try_run(line, stdin);
        assert!(!said.success, "kubectl {line} succeeded:\n{}", said.stdout);
        assert!(
            said.stderr.contains(&self.expand_namespace(part)),
            "kubectl {line}: no `{part}` in\n{}",
            said.stderr
        );
    }

    /// Registers a namespace that the test will create for removal at the end.
    pub fn remove_namespace_at_end(&self, name: &str) {
        self.cluster.remove_at_end(format!("/api/v1/namespaces/{}", self.expand_namespace(name)));
    }

    pub fn run_json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line)).unwrap()
    }
}

/// The program in an environment variable.
fn program_from_env(variable: &str) -> Option<PathBuf> {
    let Some(program) = std::env::var_os(variable).map(PathBuf::from) else {
        report_skipped(&format!("{variable} names no program"));
        return None;
    };
    assert!(program.exists(), "{variable} names {}, which is not there", program.display());
    Some(program)
}

/// Splits a command line into arguments; single quotes group an argument.
fn split_line(line: &str) -> Vec<String> {
    let quoted = line.split('\'').enumerate();
    let (mut words, mut open) = (Vec::new(), false);
    for (number, part) in quoted {
        let pieces: Vec<&str> = if number % 2 == 1 { vec![part] } else { part.split(' ').collect() };
        for (place, piece) in pieces.iter().enumerate() {
            if open && place == 0 {
                let word: &mut String = words.last_mut().unwrap();
                word.push_str(piece);
            } else {
                words.push((*piece).to_owned());
            }
        }
        open = true;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn split_line_keeps_quoted_arguments() {
    assert_eq!(
        split_line("get cm -o jsonpath='{.a b}'  -p '{\"x\": 1}'"),
        ["get", "cm", "-o", "jsonpath={.a b}", "-p", "{\"x\": 1}"]
    );
}
