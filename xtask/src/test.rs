//! `cargo xtask test`: all tests that need only this machine; `--real` adds real programs and a real cluster.
//!
//! The end-to-end suite (`crates/longshore`) runs on a target by name, see `docs/testing.md`. With `--real` it runs on
//! the embedded cluster and on a real one, and the recorded answers of a real Kubernetes are asked of both.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::devcluster::Held;
use crate::parity::{self, Programs};
use crate::project::{Project, in_ci, run};
use crate::tools;

#[derive(Args)]
pub struct TestArgs {
    /// Also against real programs, which are built where they are missing
    #[arg(long)]
    real: bool,
    /// Further arguments for `cargo test`
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// The package whose tests are the end-to-end suite.
const SUITE: &str = "longshore";
/// Its tests mostly wait, for programs that wait for a cluster.
const TESTS_PER_CORE: usize = 2;

pub fn test(project: &Project, args: &TestArgs) -> Result<()> {
    if !args.real {
        return run(project.cargo(["test", "--workspace"]).args(&args.cargo));
    }
    let plane = or_skipped("a control plane", tools::control_plane(project))?;
    let helms = or_skipped("helm", tools::helms(project))?;
    let mut variables: Vec<(&str, PathBuf)> = Vec::new();
    variables.extend(plane.iter().map(|plane| ("LONGSHORE_KUBECTL", plane.kubectl.clone())));
    variables.extend(helms.iter().flatten().map(|helm| (helm.variable, helm.path.clone())));
    let at_once = thread::available_parallelism()?.get() * TESTS_PER_CORE;
    let suite = |target: &str| {
        let mut tests = project.cargo(["test", "--package", SUITE]);
        tests.args(&args.cargo).env("LONGSHORE_TARGET", target).envs(variables.iter().cloned());
        if env::var_os("RUST_TEST_THREADS").is_none() {
            tests.env("RUST_TEST_THREADS", at_once.to_string());
        }
        tests
    };

    let mut others = project.cargo(["test", "--workspace", "--exclude", SUITE]);
    run(others.args(&args.cargo).envs(variables.iter().cloned()))?;
    // First with progress on the terminal, which is then no longer the terminal's.
    run(suite("embedded").arg("--no-run"))?;
    let mut results = vec![format!("target embedded: {}", counted(&mut suite("embedded"))?)];
    if let Some(plane) = &plane {
        let cluster = Held::start(plane, &project.target().join("devcluster"), false)?;
        let mut tests = suite("devcluster");
        tests.env("LONGSHORE_TARGET_KUBECONFIG", &cluster.kubeconfig);
        results.push(format!("target devcluster: {}", counted(&mut tests)?));
    }
    if let (Some(plane), Some(helms), Some(corpus)) = (&plane, &helms, parity::corpus()?) {
        let programs = Programs { plane, helms };
        results.push(parity::replay(project, &corpus, &programs)?);
        results.push(parity::control(project, &corpus, &programs)?);
    }
    println!("\n{}", results.join("\n"));
    Ok(())
}

/// What cannot be had is left out with one line; on a build machine it is a failure.
fn or_skipped<T>(name: &str, found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if in_ci() => Err(error.context(format!("{name} is missing"))),
        Err(error) => {
            println!("skipped: tests with real {name}: {error:#}");
            Ok(None)
        }
    }
}

/// Runs tests to their end, passes on what they print, and counts them.
fn counted(tests: &mut Command) -> Result<String> {
    let mut running =
        tests.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start cargo")?;
    let stdout = running.stdout.take().expect("its output is piped to us");
    let stderr = running.stderr.take().expect("its output is piped to us");
    let skipped = thread::spawn(move || summed(stderr, |line| eprintln!("{line}"), skips));
    let passed = summed(stdout, |line| println!("{line}"), passes)?;
    let skipped = skipped.join().expect("counting does not panic")?;
    let status = running.wait()?;
    // A test that says that it was skipped has passed, as far as cargo knows.
    let counts = format!("{} passed, {skipped} skipped", passed.saturating_sub(skipped));
    if !status.success() {
        bail!("tests failed: {counts}");
    }
    Ok(counts)
}

fn summed(said: impl Read, pass_on: impl Fn(&str), count: impl Fn(&str) -> usize) -> Result<usize> {
    let mut sum = 0;
    for line in BufReader::new(said).lines() {
        let line = line?;
        pass_on(&line);
        sum += count(&line);
    }
    Ok(sum)
}

/// `test result: ok. 12 passed; 0 failed; ...`
fn passes(line: &str) -> usize {
    let words = line.strip_prefix("test result: ").and_then(|result| result.split_once(". "));
    words.and_then(|(_, counts)| counts.split_once(" passed;")?.0.parse().ok()).unwrap_or_default()
}

/// `skipped: test: why`
fn skips(line: &str) -> usize {
    usize::from(line.starts_with("skipped: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_passed_and_tests_that_were_skipped_are_counted() {
        let said = "running 3 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored\nskipped: a: b\n\
                    test result: FAILED. 3 passed; 1 failed;\n";
        assert_eq!(summed(said.as_bytes(), |_| {}, passes).unwrap(), 15);
        assert_eq!(summed(said.as_bytes(), |_| {}, skips).unwrap(), 1);
    }
}
