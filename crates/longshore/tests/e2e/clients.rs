//! Real programs as clients of the test's cluster: kubectl, if `LONGSHORE_KUBECTL` names one, and helms, if
//! `LONGSHORE_HELM_4_3` and its like do (`cargo xtask test --real` names all of them).

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::target::{Cluster, skipped};

/// A program, and the cluster that it is pointed at.
pub struct Client {
    program: PathBuf,
    pub cluster: Arc<Cluster>,
    /// Another than the test's.
    namespace: Option<String>,
}

/// What a command said and whether it succeeded.
pub struct Said {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Client {
    /// With a cluster of its own; `None`, with a line that says so, where there is no kubectl.
    pub fn kubectl() -> Option<Self> {
        let program = named_by("LONGSHORE_KUBECTL")?;
        Some(Self { program, cluster: Arc::new(Cluster::start()), namespace: None })
    }

    /// The same on a cluster that is there.
    pub fn kubectl_on(cluster: &Arc<Cluster>) -> Option<Self> {
        let program = named_by("LONGSHORE_KUBECTL")?;
        Some(Self { program, cluster: Arc::clone(cluster), namespace: None })
    }

    /// On the same cluster; `None`, with a line that says so, where the variable names no helm.
    pub fn helm(&self, variable: &str) -> Option<Self> {
        Some(self.with_program(named_by(variable)?))
    }

    /// Our own program on the same cluster, without a server.
    pub fn longshore(&self) -> Self {
        self.with_program(env!("CARGO_BIN_EXE_longshore").into())
    }

    fn with_program(&self, program: PathBuf) -> Self {
        Self { program, cluster: Arc::clone(&self.cluster), namespace: self.namespace.clone() }
    }

    /// The same in another namespace than the test's.
    pub fn on_namespace(&self, namespace: &str) -> Self {
        let program = self.program.clone();
        Self { program, cluster: Arc::clone(&self.cluster), namespace: Some(namespace.to_owned()) }
    }

    /// `{ns}` in what is typed or expected is the namespace of the test.
    fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.cluster.namespace)
    }

    pub fn command(&self, line: &str) -> Command {
        let folder = self.cluster.folder.path();
        let mut command = Command::new(&self.program);
        command.args(words(&self.fill(line))).current_dir(folder);
        command.args(self.namespace.iter().flat_map(|name| ["--namespace", name]));
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", folder);
        command.env("LONGSHORE_KUBE_KUBECONFIG", self.cluster.kubeconfig());
        command.env("KUBE_EDITOR", folder.join("editor"));
        // What helm keeps belongs to the test, too.
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        command
    }

    pub fn try_with(&self, line: &str, stdin: &str) -> Said {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(self.fill(stdin).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { ok: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What it prints; a failure is a failed test.
    pub fn with(&self, line: &str, stdin: &str) -> String {
        let said = self.try_with(line, stdin);
        assert!(said.ok, "{} {line}\n{}{}", self.program.display(), said.stdout, said.stderr);
        said.stdout
    }

    pub fn ok(&self, line: &str) -> String {
        self.with(line, "")
    }

    /// Prints exactly this.
    pub fn prints(&self, line: &str, expected: &str) {
        assert_eq!(self.ok(line).trim_end(), self.fill(expected), "kubectl {line}");
    }

    /// Prints exactly this after a while.
    pub fn eventually(&self, line: &str, expected: &str) {
        let began = Instant::now();
        while self.ok(line).trim_end() != self.fill(expected) && began.elapsed() < Duration::from_mins(1) {
            thread::sleep(Duration::from_millis(100));
        }
        self.prints(line, expected);
    }

    /// Prints all of these somewhere.
    pub fn mentions(&self, line: &str, parts: &[&str]) {
        let text = self.ok(line);
        for part in parts {
            assert!(text.contains(&self.fill(part)), "kubectl {line}: no `{part}` in\n{text}");
        }
    }

    /// Fails, and says why.
    pub fn refuses(&self, line: &str, stdin: &str, part: &str) {
        let said = self.try_with(line, stdin);
        assert!(!said.ok, "kubectl {line} succeeded:\n{}", said.stdout);
        assert!(said.stderr.contains(&self.fill(part)), "kubectl {line}: no `{part}` in\n{}", said.stderr);
    }

    /// Announces a namespace that the test will make.
    pub fn removes_namespace(&self, name: &str) {
        self.cluster.removes(format!("/api/v1/namespaces/{}", self.fill(name)));
    }

    pub fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(line)).unwrap()
    }
}

/// The program that a variable names.
fn named_by(variable: &str) -> Option<PathBuf> {
    let Some(program) = std::env::var_os(variable).map(PathBuf::from) else {
        skipped(&format!("{variable} names no program"));
        return None;
    };
    assert!(program.exists(), "{variable} names {}, which is not there", program.display());
    Some(program)
}

/// Words of a command line; single quotes hold one together.
fn words(line: &str) -> Vec<String> {
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
fn words_hold_together_in_quotes() {
    assert_eq!(
        words("get cm -o jsonpath='{.a b}'  -p '{\"x\": 1}'"),
        ["get", "cm", "-o", "jsonpath={.a b}", "-p", "{\"x\": 1}"]
    );
}
