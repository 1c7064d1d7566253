//! `cargo xtask bench NAME`: measures one thing beside its peer.
//!
//! A benchmark prints its work, our figure, the peer's, their ratio, the goal and whether it is met, and writes the
//! same to `target/bench/NAME.json`. A missed goal is a result, not a failure. The measuring itself is done by the
//! program `bench`, which is built with optimisations here and nowhere else.

use std::fs;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::{Project, run};
use crate::tools;

/// Every benchmark: its name, and what it measures.
const BENCHMARKS: &[(&str, &str)] = &[("kube", "the embedded Kubernetes API beside etcd and kube-apiserver")];

#[derive(Args)]
pub struct BenchArgs {
    /// Which one; without a name the known ones are listed
    name: Option<String>,
    /// Measure this row only; may be given several times
    #[arg(long)]
    only: Vec<String>,
    /// How many turns each side has in each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn bench(project: &Project, args: &BenchArgs) -> Result<()> {
    match args.name.as_deref() {
        Some("kube") => kube(project, args),
        Some(name) => bail!("there is no benchmark `{name}`\n{}", known()),
        None => {
            println!("{}", known());
            Ok(())
        }
    }
}

fn kube(project: &Project, args: &BenchArgs) -> Result<()> {
    let longshore = project.build_longshore(true)?;
    run(&mut project.cargo(["build", "--package", "bench", "--release"]))?;
    let folder = project.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut bench =
        project.command(&project.target().join("release/bench").to_string_lossy(), ["--longshore"]);
    bench.arg(longshore);
    match tools::control_plane(project) {
        Ok(plane) => {
            bench.arg("--control-plane").arg(plane.devcluster);
        }
        Err(error) => println!("skipped: the peer's column: {error:#}"),
    }
    bench.arg("--folder").arg(folder.join("work")).arg("--output").arg(folder.join("kube.json"));
    bench.args(["--rounds", &args.rounds.to_string()]);
    args.only.iter().for_each(|row| {
        bench.args(["--only", row]);
    });
    run(&mut bench)
}

fn known() -> String {
    let lines = BENCHMARKS.iter().map(|(name, what)| format!("  {name:<16}{what}"));
    format!("known benchmarks:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused() {
        let args = BenchArgs { name: Some("nothing".to_owned()), only: Vec::new(), rounds: 1 };
        let refused = bench(&Project::here(), &args).unwrap_err().to_string();
        assert!(refused.contains("there is no benchmark `nothing`"), "{refused}");
        assert!(refused.contains("  kube            the embedded"), "{refused}");
    }
}
