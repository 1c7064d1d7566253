//! Runs test binaries, several at once, and collects the result of each test.
//!
//! Cargo runs one binary after the other, and libtest reports times to nightly toolchains only. Binaries are therefore started
//! here, with `RUSTC_BOOTSTRAP` in their own environment, which libtest reads at run time and which recompiles nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::binaries::Binary;
use super::report::{self, Report, TestResult};

/// One run of a test binary.
#[derive(Clone, Debug)]
pub struct Job {
    pub binary: Binary,
    /// Precedes the names of tests in reports.
    pub label: String,
    /// Run exactly these tests; empty means all.
    pub tests: BTreeSet<String>,
    /// Substrings of test names, as for `cargo test`.
    pub filters: Vec<String>,
    pub threads: usize,
    pub env: Vec<(OsString, OsString)>,
}

impl Job {
    /// Runs all tests of a binary.
    pub fn new(binary: &Binary, threads: usize) -> Self {
        Self {
            binary: binary.clone(),
            label: binary.name.clone(),
            tests: BTreeSet::new(),
            filters: Vec::new(),
            threads,
            env: Vec::new(),
        }
    }

    pub fn with_env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    fn command(&self, cargo: &str) -> Command {
        let mut command = Command::new(&self.binary.executable);
        command.args(["-Z", "unstable-options", "--report-time"]);
        command.arg(format!("--test-threads={}", self.threads));
        command.args(&self.filters).args(&self.tests);
        if !self.tests.is_empty() {
            command.arg("--exact");
        }
        command.current_dir(&self.binary.folder).envs(self.env.iter().cloned());
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_MANIFEST_DIR", &self.binary.folder)
            .env("CARGO", cargo);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs `jobs`, at most `max_concurrent` at a time, in order. Prints one line per binary, and all output of one that failed.
pub fn run(jobs: &[Job], max_concurrent: usize) -> Result<Report> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let next = AtomicUsize::new(0);
    let collected = Mutex::new(Report::default());
    let worker = || -> Result<()> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let finished = run_job(job, &cargo)?;
            print_result(job, &finished);
            let mut report = collected.lock().expect("a worker that panicked ends the run");
            report.add(&job.label, finished.results, finished.skipped);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..max_concurrent.max(1)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    Ok(collected.into_inner().expect("all workers have ended"))
}

struct JobResult {
    results: Vec<TestResult>,
    skipped: Vec<String>,
    output: String,
    duration: Duration,
}

fn run_job(job: &Job, cargo: &str) -> Result<JobResult> {
    let began = Instant::now();
    let mut command = job.command(cargo);
    let child =
        command.spawn().with_context(|| format!("cannot start {}", executable_path(job).display()))?;
    let output = child.wait_with_output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut results = report::parse_results(&stdout);
    // A binary that aborts reports no failed test, so the binary itself is reported.
    if !output.status.success() && results.iter().all(|result| result.passed) {
        let name = format!("(binary ended with {})", output.status);
        results.push(TestResult { name, passed: false, duration: began.elapsed() });
    }
    let skipped = report::skipped(&stderr);
    Ok(JobResult { results, skipped, output: format!("{stdout}\n{stderr}"), duration: began.elapsed() })
}

fn executable_path(job: &Job) -> &PathBuf {
    &job.binary.executable
}

fn print_result(job: &Job, finished: &JobResult) {
    let failed = finished.results.iter().filter(|result| !result.passed).count();
    let passed = finished.results.len() - failed;
    let mut out = std::io::stdout().lock();
    let line =
        format!("{}: {passed} passed, {failed} failed in {} s", job.label, finished.duration.as_secs());
    // Stdout may be closed.
    let _ = if failed == 0 { writeln!(out, "{line}") } else { writeln!(out, "{}\n{line}", finished.output) };
}
