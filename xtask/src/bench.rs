//! `cargo xtask bench NAME`: measures Longshore against a peer program.
//!
//! A benchmark prints the workload, both figures, their ratio, the goal and whether it is met, and writes the same to
//! `target/bench/NAME.json`. A missed goal is a result, not a failure. The program `bench` measures; it is built with
//! optimisations here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::devcluster::DevclusterGuard;
use crate::parity;
use crate::project::{Project, run};
use crate::tools;

/// Every benchmark: name and description.
const BENCHMARKS: &[(&str, &str)] = &[
    ("kube", "the embedded Kubernetes API beside etcd and kube-apiserver"),
    ("helm", "the Helm engine beside Helm 4 and Helm 3"),
    ("releases", "many releases beside `helm install`"),
    ("tenancy", "many people and workspaces on one server"),
    ("console", "the OpenYurt console's routes over a large cluster"),
];

#[derive(Args)]
pub struct BenchArgs {
    /// Name of the benchmark [default: list all]
    name: Option<String>,
    /// Row to measure; may be repeated [default: all]
    #[arg(long)]
    only: Vec<String>,
    /// Number of runs of each side in each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn bench(project: &Project, args: &BenchArgs) -> Result<()> {
    match args.name.as_deref() {
        Some("kube") => kube(project, args),
        Some("helm") => helm(project, args),
        Some("releases") => releases(project, args),
        Some(name @ ("tenancy" | "console")) => run(&mut bench_command(project, args, name)?),
        Some(name) => bail!("there is no benchmark `{name}`\n{}", benchmark_list()),
        None => {
            println!("{}", benchmark_list());
            Ok(())
        }
    }
}

fn kube(project: &Project, args: &BenchArgs) -> Result<()> {
    let mut bench = bench_command(project, args, "kube")?;
    match tools::control_plane(project) {
        Ok(plane) => {
            bench.arg("--control-plane").arg(plane.devcluster);
        }
        Err(error) => println!("skipped: the peer's column: {error:#}"),
    }
    run(&mut bench)
}

fn helm(project: &Project, args: &BenchArgs) -> Result<()> {
    let Some(corpus) = parity::corpus()? else { return Ok(()) };
    let mut bench = bench_command(project, args, "helm")?;
    bench.arg("--corpus").arg(corpus);
    match tools::helms(project) {
        Ok(helms) => {
            for (flag, version) in [("--helm4", "4.3.1"), ("--helm3", "3.17.3")] {
                let helm = helms.iter().find(|helm| helm.version == version);
                bench.arg(flag).arg(&helm.with_context(|| format!("there is no helm {version}"))?.path);
            }
        }
        Err(error) => println!("skipped: the peers' columns: {error:#}"),
    }
    run(&mut bench)
}

fn releases(project: &Project, args: &BenchArgs) -> Result<()> {
    let mut bench = bench_command(project, args, "releases")?;
    // The cluster stops with this process.
    let cluster = match tools::control_plane(project) {
        Ok(plane) => Some(DevclusterGuard::start(&plane, &project.target().join("bench/devcluster"), false)?),
        Err(error) => {
            println!("skipped: what is measured on a real cluster: {error:#}");
            None
        }
    };
    if let Some(cluster) = &cluster {
        bench.arg("--kubeconfig").arg(&cluster.kubeconfig);
    }
    match find_helm_4(project) {
        Ok(helm) => {
            bench.arg("--helm").arg(helm);
        }
        Err(error) => println!("skipped: the peer's column: {error:#}"),
    }
    run(&mut bench)
}

fn find_helm_4(project: &Project) -> Result<PathBuf> {
    let helm = tools::helms(project)?.into_iter().find(|helm| helm.version == "4.3.1");
    Ok(helm.context("there is no helm 4.3.1")?.path)
}

/// Builds everything and returns the `bench` command with the arguments that every benchmark needs.
fn bench_command(project: &Project, args: &BenchArgs, name: &str) -> Result<Command> {
    let longshore = project.build_longshore(true)?;
    run(&mut project.cargo(["build", "--package", "bench", "--release"]))?;
    let folder = project.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut bench = project.command(&project.target().join("release/bench").to_string_lossy(), [name]);
    bench.arg("--longshore").arg(longshore);
    bench.arg("--folder").arg(folder.join(format!("{name}-work")));
    bench.arg("--output").arg(folder.join(format!("{name}.json")));
    bench.args(["--rounds", &args.rounds.to_string()]);
    args.only.iter().for_each(|row| {
        bench.args(["--only", row]);
    });
    Ok(bench)
}

fn benchmark_list() -> String {
    let lines = BENCHMARKS.iter().map(|(name, what)| format!("  {name:<16}{what}"));
    format!("known benchmarks:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_rejects_unknown_name() {
        let args = BenchArgs { name: Some("nothing".to_owned()), only: Vec::new(), rounds: 1 };
        let refused = bench(&Project::current(), &args).unwrap_err().to_string();
        assert!(refused.contains("there is no benchmark `nothing`"), "{refused}");
        assert!(refused.contains("  kube            the embedded"), "{refused}");
    }
}
