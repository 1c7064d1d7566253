//! Real programs as clients of the test's cluster: kubectl, if `LONGSHORE_KUBECTL` names one (`cargo xtask test --real`
//! does).

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::target::{Cluster, skipped};

/// kubectl, and the cluster that it is pointed at.
pub struct Kubectl {
    program: PathBuf,
    pub cluster: Cluster,
}

/// What a command said and whether it succeeded.
pub struct Said {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    /// `None`, with a line that says so, where there is no kubectl.
    pub fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("LONGSHORE_KUBECTL").map(PathBuf::from) else {
            skipped("LONGSHORE_KUBECTL names no kubectl");
            return None;
        };
        assert!(program.exists(), "LONGSHORE_KUBECTL names {}, which is not there", program.display());
        Some(Self { program, cluster: Cluster::start() })
    }

    /// `{ns}` in what is typed or expected is the namespace of the test.
    fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.cluster.namespace)
    }

    pub fn command(&self, line: &str) -> Command {
        let folder = self.cluster.folder.path();
        let mut command = Command::new(&self.program);
        command.args(words(&self.fill(line))).current_dir(folder);
        command.env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", folder);
        command.env("KUBE_EDITOR", folder.join("editor"));
        command
    }

    pub fn try_with(&self, line: &str, stdin: &str) -> Said {
        let piped = || (Stdio::piped(), Stdio::piped(), Stdio::piped());
        let (input, output, errors) = piped();
        let mut child = self.command(line).stdin(input).stdout(output).stderr(errors).spawn().unwrap();
        child.stdin.take().unwrap().write_all(self.fill(stdin).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { ok: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What it prints; a failure is a failed test.
    pub fn with(&self, line: &str, stdin: &str) -> String {
        let said = self.try_with(line, stdin);
        assert!(said.ok, "kubectl {line}\n{}{}", said.stdout, said.stderr);
        said.stdout
    }

    pub fn ok(&self, line: &str) -> String {
        self.with(line, "")
    }

    /// Prints exactly this.
    pub fn prints(&self, line: &str, expected: &str) {
        assert_eq!(self.ok(line).trim_end(), self.fill(expected), "kubectl {line}");
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
