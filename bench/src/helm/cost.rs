//! Runs a program once and measures its cost.
//!
//! The kernel reports one peak memory for all children of a process, and a child starts with its parent's peak. Each
//! program therefore gets a small parent of its own: this program, as `bench once`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

#[derive(Args)]
pub struct OnceArgs {
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Cost of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cost {
    pub millis: f64,
    /// Peak resident memory.
    pub peak_mebibytes: f64,
}

/// `bench once -- PROGRAM ...`: discards the program's output.
pub fn run(args: &OnceArgs) -> Result<()> {
    let (program, rest) = args.command.split_first().context("no program is named")?;
    let began = Instant::now();
    let output = Command::new(program).args(rest).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let millis = began.elapsed().as_secs_f64() * 1e3;
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed: {}", command_line(&args.command), said.lines().next().unwrap_or_default());
    }
    let kibibytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    let cost = Cost { millis, peak_mebibytes: kibibytes as f64 / 1024.0 };
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}

/// A command line with its environment.
pub struct MeasuredCommand<'r> {
    pub command: Vec<OsString>,
    pub home: &'r Path,
}

impl MeasuredCommand<'_> {
    /// Runs it and measures the cost.
    pub fn cost(&self) -> Result<Cost> {
        let mut once = Command::new(env::current_exe()?);
        once.args(["once", "--"]).args(&self.command);
        let output = self.with_clean_env(&mut once).output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim_start_matches("error: ").trim_end());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Runs it and returns its output.
    pub fn output(&self) -> Result<Vec<u8>> {
        let (program, rest) = self.command.split_first().context("no program is named")?;
        let output = self.with_clean_env(Command::new(program).args(rest)).output()?;
        if !output.status.success() {
            bail!("{} failed: {}", command_line(&self.command), String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout)
    }

    /// Sets an environment without a cluster and without the user's settings.
    fn with_clean_env<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let home = self.home;
        command.env("KUBECONFIG", home.join("no-cluster")).env("HELM_DATA_HOME", home.join("data"));
        command.env("HELM_CONFIG_HOME", home.join("config")).env("HELM_CACHE_HOME", home.join("cache"));
        command.env("HELM_REPOSITORY_CONFIG", home.join("repositories.yaml"));
        command.env("HELM_REPOSITORY_CACHE", home.join("repository"))
    }
}

fn command_line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| OsStr::to_string_lossy(word)).collect();
    format!("`{}`", words.join(" "))
}
