//! Test binaries: one `cargo test --no-run` for the whole workspace, so that every later step uses the same build.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::project::{Project, command_line};

/// A test executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// `package` for unit tests, `package::target` for integration tests.
    pub name: String,
    pub package: String,
    /// The package's folder, which is the working directory of its tests.
    pub folder: PathBuf,
    pub executable: PathBuf,
}

impl Binary {
    /// Names of all its tests, sorted.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut command = Command::new(&self.executable);
        let output = command.args(["--list", "--format=terse"]).current_dir(&self.folder).output();
        let output = output.with_context(|| format!("cannot start {}", self.executable.display()))?;
        if !output.status.success() {
            bail!("{} failed: {}", command_line(&command), output.status);
        }
        let text = String::from_utf8(output.stdout).context("names of tests are not UTF-8")?;
        Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
    }
}

/// Result of the build.
pub struct Build {
    pub tests: Vec<Binary>,
    /// The program `longshore`.
    pub longshore: PathBuf,
}

impl Build {
    /// Builds all tests and programs of the workspace.
    pub fn new(project: &Project) -> Result<Self> {
        let mut cargo =
            project.cargo(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
        let artifacts = build_artifacts(&mut cargo)?;
        let longshore = artifacts
            .iter()
            .find(|artifact| is_program_artifact(artifact, "longshore"))
            .and_then(|artifact| artifact["executable"].as_str())
            .context("cargo built no `longshore`")?;
        let tests: Vec<Binary> = artifacts.iter().filter_map(parse_binary).collect();
        if tests.is_empty() {
            bail!("cargo built no tests");
        }
        Ok(Self { longshore: longshore.into(), tests })
    }

    /// Identifies the build: paths (which contain cargo's hash), sizes and times of the executables.
    pub fn stamp(&self) -> Result<String> {
        let mut lines = Vec::new();
        for path in self.tests.iter().map(|test| &test.executable).chain([&self.longshore]) {
            let file = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
            lines.push(format!("{} {} {:?}", path.display(), file.len(), file.modified()?));
        }
        lines.sort();
        Ok(lines.join("\n"))
    }
}

/// Runs cargo and returns the artifacts that it reports.
fn build_artifacts(cargo: &mut Command) -> Result<Vec<Value>> {
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut artifacts = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match serde_json::from_str::<Value>(&line) {
            Ok(message) if message["reason"] == "compiler-artifact" => artifacts.push(message),
            Ok(_) => {}
            Err(_) => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} failed: {status}", command_line(cargo));
    }
    Ok(artifacts)
}

fn is_program_artifact(artifact: &Value, name: &str) -> bool {
    artifact["target"]["name"] == name
        && artifact["target"]["kind"][0] == "bin"
        && artifact["profile"]["test"] == false
}

fn parse_binary(artifact: &Value) -> Option<Binary> {
    if artifact["profile"]["test"] != true {
        return None;
    }
    let executable = artifact["executable"].as_str()?;
    let manifest = PathBuf::from(artifact["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    let target = artifact["target"]["name"].as_str()?;
    let is_integration = artifact["target"]["kind"][0] == "test";
    let name = if is_integration { format!("{package}::{target}") } else { package.clone() };
    Some(Binary { name, package, folder, executable: executable.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parse_binary_accepts_test_artifacts_only() {
        let artifact = |kind: &str, name: &str, test: bool| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": "/w/crates/longshore/Cargo.toml",
                "target": {"kind": [kind], "name": name},
                "profile": {"test": test},
                "executable": "/w/target/debug/deps/x-1",
            })
        };
        let integration = parse_binary(&artifact("test", "e2e", true)).unwrap();
        assert_eq!(integration.name, "longshore::e2e");
        assert_eq!(integration.folder, PathBuf::from("/w/crates/longshore"));
        assert_eq!(parse_binary(&artifact("lib", "longshore", true)).unwrap().name, "longshore");
        assert_eq!(parse_binary(&artifact("bin", "longshore", false)), None);
        assert!(is_program_artifact(&artifact("bin", "longshore", false), "longshore"));
        assert!(!is_program_artifact(&artifact("bin", "longshore", true), "longshore"));
    }
}
