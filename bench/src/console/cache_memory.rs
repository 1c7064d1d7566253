//! Memory of the caches: growth of a process that only watches the cluster.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use domain::clock::SystemClock;
use fleet::Fleet;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_access::Clients;

const SETTLE_TIME: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct HeldArgs {
    kubeconfig: PathBuf,
}

/// Runs `bench held` and parses its output.
pub fn measure_in_child(kubeconfig: &Path) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?).arg("held").arg(kubeconfig).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "bench held: {}", String::from_utf8_lossy(&output.stderr));
    said.trim().parse().context("bench held did not say a number")
}

/// `bench held KUBECONFIG`: prints its growth in MiB.
#[tokio::main]
pub async fn run(args: &HeldArgs) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = kube::Client::try_from(config)?;
    client.apiserver_version().await?; // opens a connection, which is not measured
    let without = resident()?;
    let fleet = Fleet::start(Clients::new(client), Arc::new(SystemClock), fleet::Settings::default()).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let with = resident()?;
    drop(fleet);
    println!("{}", with - without);
    Ok(())
}

/// Resident memory, in MiB.
fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes / 1024.0)
}
