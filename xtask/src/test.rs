//! `cargo xtask test`: runs all tests that need no external programs; `--real` adds the others.
//!
//! The plain command runs every test of the workspace and the end-to-end suite (`crates/longshore`) on the embedded
//! cluster, and records which tests were skipped. `--real` runs the skipped tests with real programs, the suite on a
//! real cluster, and the comparison with recorded responses of a real Kubernetes. Without a record of the same build it
//! runs everything.
//!
//! Modules: [`binaries`] builds, [`runner`] runs, [`report`] summarises results.

mod binaries;
mod report;
mod runner;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::devcluster::DevclusterGuard;
use crate::parity::{self, ReplayPrograms};
use crate::project::{Project, in_ci, run};
use crate::tools::{self, ControlPlane, HelmProgram};
use binaries::{Binary, Build};
use report::Report;
use runner::Job;

#[derive(Args)]
pub struct TestArgs {
    /// Run the tests that need real programs or a real cluster, and tests that `cargo xtask test` has not run
    #[arg(long)]
    real: bool,
    /// Without --real: arguments for `cargo test`. With --real: run only tests whose names contain one of these
    #[arg(last = true)]
    rest: Vec<String>,
}

/// The binary of the end-to-end suite.
const SUITE: &str = "longshore::e2e";
/// The suite's tests mostly wait for programs, so more threads than cores are useful.
const SUITE_THREADS_PER_CORE: usize = 2;
/// Number of real clusters that share the suite. Tests that start servers are serialised per cluster, because all
/// servers of a cluster elect one leader.
const DEVCLUSTER_COUNT: usize = 2;
/// Tests of the suite that measure latencies under load: they run after the others, one at a time.
const SERIAL_TESTS: &[&str] = &[
    "security::hostile_load::",
    "security::traffic::tenant_holds_connections_bodies_and_watches_and_starves_another",
];
/// Concurrent binaries: while one waits, the other uses the cores.
const MAX_CONCURRENT_BINARIES: usize = 2;

pub fn test(project: &Project, args: &TestArgs) -> Result<()> {
    if !args.real && !args.rest.is_empty() {
        return run(project.cargo(["test", "--workspace"]).args(&args.rest));
    }
    let began = Instant::now();
    let build = Build::new(project)?;
    println!("built {} test binaries in {} s", build.tests.len(), began.elapsed().as_secs());
    if args.real { run_real(project, &build, &args.rest) } else { run_plain(project, &build) }
}

fn run_plain(project: &Project, build: &Build) -> Result<()> {
    let (together, alone) = split_serial_tests(all_jobs(build)?)?;
    let mut report = runner::run(&together, MAX_CONCURRENT_BINARIES)?;
    report.extend(runner::run(&alone, 1)?);
    run(&mut project.cargo(["test", "--quiet", "--workspace", "--doc"]))?;
    print_result(&report)?;
    PlainRun { build: build.stamp()?, skipped: report.skipped_tests().clone() }.save(project)
}

/// Splits off the tests that run alone.
fn split_serial_tests(jobs: Vec<Job>) -> Result<(Vec<Job>, Vec<Job>)> {
    let (mut concurrent, mut serial) = (Vec::new(), Vec::new());
    for mut job in jobs {
        if job.label == SUITE {
            let names = job.binary.list()?;
            let (measuring, others) = names
                .into_iter()
                .partition(|name| SERIAL_TESTS.iter().any(|prefix| name.starts_with(prefix)));
            serial.push(Job { tests: measuring, threads: 1, ..job.clone() });
            job.tests = others;
        }
        concurrent.push(job);
    }
    Ok((concurrent, serial))
}

fn run_real(project: &Project, build: &Build, filters: &[String]) -> Result<()> {
    let plane = report_missing_tool("a control plane", tools::control_plane(project))?;
    let helms = report_missing_tool("helm", tools::helms(project))?;
    let programs = program_variables(plane.as_ref(), helms.as_deref().unwrap_or_default());

    let mut first = match PlainRun::load(project, &build.stamp()?)? {
        Some(plain) if filters.is_empty() => plain.skipped_jobs(&all_jobs(build)?),
        _ => all_jobs(build)?,
    };
    for job in &mut first {
        job.env.extend(programs.iter().cloned());
        job.filters = filters.to_vec();
    }
    let mut report = runner::run(&first, MAX_CONCURRENT_BINARIES)?;
    if !report.failures().is_empty() {
        return print_result(&report);
    }

    let mut results = Vec::new();
    let corpus = if filters.is_empty() { parity::corpus()? } else { None };
    thread::scope(|scope| -> Result<()> {
        let recordings = match (&plane, &helms, &corpus) {
            (Some(plane), Some(helms), Some(corpus)) => Some(scope.spawn(move || {
                let programs = ReplayPrograms { plane, helms };
                Ok::<_, anyhow::Error>([
                    parity::replay(project, &build.longshore, corpus, &programs)?,
                    parity::replay_on_devcluster(project, corpus, &programs)?,
                ])
            })),
            _ => None,
        };
        if let Some(plane) = &plane {
            report.extend(run_on_devclusters(project, build, plane, &programs, filters)?);
        }
        if let Some(recordings) = recordings {
            results.extend(recordings.join().map_err(|_| anyhow!("the recordings panicked"))??);
        }
        Ok(())
    })?;
    print_result(&report)?;
    println!("target devcluster: {}", report.summary("devcluster "));
    println!("{}", results.join("\n"));
    Ok(())
}

/// Runs the end-to-end suite on new real clusters; each runs every n-th test.
fn run_on_devclusters(
    project: &Project,
    build: &Build,
    plane: &ControlPlane,
    programs: &[(OsString, OsString)],
    filters: &[String],
) -> Result<Report> {
    let suite = build.tests.iter().find(|test| test.name == SUITE).context("there is no end-to-end suite")?;
    let mut names = suite.list()?;
    names.retain(|name| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)));
    let mut clusters = Vec::new();
    let mut jobs = Vec::new();
    for (number, tests) in distribute(names, DEVCLUSTER_COUNT).into_iter().enumerate() {
        let cluster =
            DevclusterGuard::start(plane, &project.target().join(format!("devcluster-{number}")), false)?;
        let mut job = Job::new(suite, thread_count(suite)?)
            .with_env("LONGSHORE_TARGET", "devcluster")
            .with_env("LONGSHORE_TARGET_KUBECONFIG", &cluster.kubeconfig);
        job.env.extend(programs.iter().cloned());
        job.label = format!("devcluster {SUITE}");
        job.tests = tests;
        clusters.push(cluster);
        jobs.push(job);
    }
    runner::run(&jobs, DEVCLUSTER_COUNT)
}

/// Distributes `names` over at most `count` non-empty shares.
fn distribute(names: Vec<String>, count: usize) -> Vec<BTreeSet<String>> {
    let mut shares = vec![BTreeSet::new(); count];
    for (position, name) in names.into_iter().enumerate() {
        shares[position % count].insert(name);
    }
    shares.retain(|share| !share.is_empty());
    shares
}

/// Prints the summary; failures are an error.
fn print_result(report: &Report) -> Result<()> {
    println!("\n{}", report.slowest());
    println!("tests: {}", report.summary(""));
    let failures = report.failures();
    if !failures.is_empty() {
        bail!("{} tests failed:\n  {}", failures.len(), failures.join("\n  "));
    }
    Ok(())
}

/// One job per binary: the suite first, because it takes longest, then the others by size.
fn all_jobs(build: &Build) -> Result<Vec<Job>> {
    let size = |test: &Binary| fs::metadata(&test.executable).map_or(0, |file| file.len());
    let mut tests: Vec<&Binary> = build.tests.iter().collect();
    tests.sort_by_key(|test| (test.name != SUITE, std::cmp::Reverse(size(test))));
    tests.into_iter().map(|test| Ok(Job::new(test, thread_count(test)?))).collect()
}

fn thread_count(test: &Binary) -> Result<usize> {
    let cores = thread::available_parallelism()?.get();
    Ok(if test.name == SUITE { cores * SUITE_THREADS_PER_CORE } else { cores })
}

/// Environment variables with the paths of real programs for tests.
fn program_variables(plane: Option<&ControlPlane>, helms: &[HelmProgram]) -> Vec<(OsString, OsString)> {
    let kubectl = plane.map(|plane| ("LONGSHORE_KUBECTL", &plane.kubectl));
    let programs = kubectl.into_iter().chain(helms.iter().map(|helm| (helm.variable, &helm.path)));
    programs.map(|(name, path)| (name.into(), path.into())).collect()
}

/// Reports a missing tool as skipped. In CI it is an error.
fn report_missing_tool<T>(name: &str, found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if in_ci() => Err(error.context(format!("{name} is missing"))),
        Err(error) => {
            println!("skipped: tests with real {name}: {error:#}");
            Ok(None)
        }
    }
}

/// Record of the last successful plain run: its build, and the tests it skipped.
#[derive(Debug, PartialEq)]
struct PlainRun {
    build: String,
    skipped: BTreeMap<String, BTreeSet<String>>,
}

impl PlainRun {
    fn path(project: &Project) -> PathBuf {
        project.target().join("xtask-plain-run.json")
    }

    fn save(&self, project: &Project) -> Result<()> {
        let text = json!({"build": self.build, "skipped": self.skipped}).to_string();
        fs::write(Self::path(project), text).context("cannot record the run")
    }

    /// Returns `None` if the last run was of another build.
    fn load(project: &Project, build: &str) -> Result<Option<Self>> {
        let Ok(text) = fs::read_to_string(Self::path(project)) else { return Ok(None) };
        let recorded: Value = serde_json::from_str(&text).context("the record of the last run is damaged")?;
        Ok(Self::parse(&recorded).filter(|run| run.build == build))
    }

    fn parse(recorded: &Value) -> Option<Self> {
        let names = |list: &Value| {
            list.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned())).collect::<Option<_>>()
        };
        let skipped = recorded["skipped"].as_object()?.iter();
        Some(Self {
            build: recorded["build"].as_str()?.to_owned(),
            skipped: skipped
                .map(|(label, list)| Some((label.clone(), names(list)?)))
                .collect::<Option<_>>()?,
        })
    }

    /// Jobs that run only the skipped tests.
    fn skipped_jobs(&self, all: &[Job]) -> Vec<Job> {
        let skipped = all.iter().filter_map(|job| {
            let tests = self.skipped.get(&job.label)?.clone();
            Some(Job { tests, ..job.clone() })
        });
        skipped.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribute_covers_all_names_once() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let dealt = distribute(names(&["a", "b", "c"]), 2);
        let expected: Vec<BTreeSet<String>> =
            [names(&["a", "c"]), names(&["b"])].into_iter().map(BTreeSet::from_iter).collect();
        assert_eq!(dealt, expected);
        assert_eq!(distribute(names(&["a"]), 2).len(), 1);
        assert!(distribute(Vec::new(), 2).is_empty());
    }

    #[test]
    fn real_run_repeats_only_skipped_tests() {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            package: name.to_owned(),
            folder: PathBuf::from("/"),
            executable: PathBuf::from("/x"),
        };
        let skipped = json!({"build": "b", "skipped": {"cli::helm": ["a::b"]}});
        let run = PlainRun::parse(&skipped).unwrap();
        let all = [Job::new(&binary("cli"), 1), Job::new(&binary("cli::helm"), 1)];
        let jobs = run.skipped_jobs(&all);
        assert_eq!(jobs.len(), 1);
        assert_eq!(
            (jobs[0].label.as_str(), &jobs[0].tests),
            ("cli::helm", &BTreeSet::from(["a::b".to_owned()]))
        );
        assert_eq!(PlainRun::parse(&json!({"build": "b"})), None);
    }
}
