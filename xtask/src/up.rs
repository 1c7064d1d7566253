//! `cargo xtask up`: runs the platform on this machine.
//!
//! Its data are in `target/longshore` and survive restarts. With `--demo` it installs example releases ([`demo`]). On a terminal the
//! line `ready` stays below the log ([`terminal`]); audit lines are in a file.

mod demo;
pub mod terminal;

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};
use clap::Args;

use crate::project::Project;

#[derive(Args)]
pub struct UpArgs {
    /// Build with optimisations
    #[arg(long)]
    release: bool,
    /// With somebody on it who has three releases, and one that fails on purpose
    #[arg(long)]
    demo: bool,
    /// Further arguments for `longshore serve`
    #[arg(last = true)]
    serve: Vec<String>,
}

pub fn up(project: &Project, args: &UpArgs) -> Result<()> {
    let program = project.build_longshore(args.release)?;
    let data = project.target().join("longshore");
    // Paths are printed relative to the project where possible.
    let short =
        |path: &std::path::Path| path.strip_prefix(&project.root).unwrap_or(path).display().to_string();
    println!(
        "Longshore on its embedded cluster. After the line `ready`:\n\n\
         \x20 open      http://127.0.0.1:8080/\n\
         \x20 kubectl   {program} kubeconfig --data {data} > {data}/kubeconfig\n\
         \x20           kubectl --kubeconfig {data}/kubeconfig get namespaces\n\
         \x20 audit     {data}/audit.log\n\n\
         Ctrl-C stops it; what you made stays in {data}.\n",
        program = short(&program),
        data = short(&data),
    );
    let mut serve = project.command(&program.to_string_lossy(), ["serve", "--data"]);
    serve.arg(&data).args(&args.serve);
    serve.env("LONGSHORE_LOGS_AUDIT", data.join("audit.log"));
    if args.demo {
        std::fs::create_dir_all(&data).with_context(|| format!("cannot make `{}`", data.display()))?;
    }
    terminal::connect_output(&mut serve, &program, &data, args.demo)?;
    // exec: the server replaces this process, so that signals of the terminal reach it directly.
    Err(serve.exec()).context("cannot start longshore")
}
