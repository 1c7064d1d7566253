//! `cargo xtask devcluster`: a real Kubernetes on this machine, also used by tests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::project::{Project, run};
use crate::tools::{self, ControlPlane};

#[derive(Subcommand)]
pub enum DevclusterCommand {
    /// Start the cluster, building its programs if necessary
    Up {
        /// Use the settings of the recordings: no `ServiceAccount` admission, node addresses, storage class or
        /// bootstrap tokens
        #[arg(long)]
        bare: bool,
    },
    /// Stop the cluster and delete its data
    Down,
    /// Print the administrator's kubeconfig
    Kubeconfig,
}

pub fn devcluster(project: &Project, command: &DevclusterCommand) -> Result<()> {
    let plane = tools::control_plane(project)?;
    let mut program = Command::new(&plane.devcluster);
    match command {
        DevclusterCommand::Up { bare } => {
            program.arg("up").arg("--kwok").arg(&plane.kwok);
            if *bare {
                program.arg("--bare");
            }
            run(&mut program)?;
            println!(
                "\n  kubectl   cargo --quiet xtask devcluster kubeconfig > kubeconfig\n\
                 \x20           {} --kubeconfig kubeconfig get nodes\n\
                 \x20 tests     LONGSHORE_TARGET=devcluster cargo xtask test -- --package longshore",
                plane.kubectl.display()
            );
            Ok(())
        }
        DevclusterCommand::Down => run(program.arg("down")),
        DevclusterCommand::Kubeconfig => run(program.arg("kubeconfig")),
    }
}

/// A cluster that stops when this process ends in any way: the program stops it when its stdin is closed.
pub struct DevclusterGuard {
    child: Child,
    pub kubeconfig: PathBuf,
}

impl DevclusterGuard {
    /// Starts a new cluster in `folder` and returns when it is ready.
    pub fn start(plane: &ControlPlane, folder: &Path, bare: bool) -> Result<Self> {
        run(Command::new(&plane.devcluster).arg("down").arg("--dir").arg(folder))?;
        let mut program = Command::new(&plane.devcluster);
        program.arg("hold").arg("--kwok").arg(&plane.kwok).arg("--dir").arg(folder);
        if bare {
            program.arg("--bare");
        }
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start devcluster")?;
        let said = BufReader::new(child.stdout.take().expect("its output is piped to us"));
        let held = Self { child, kubeconfig: folder.join("kubeconfig") };
        for line in said.lines() {
            let line = line?;
            println!("devcluster: {line}");
            if line.starts_with("ready ") {
                return Ok(held);
            }
        }
        bail!("devcluster did not become ready");
    }
}

impl Drop for DevclusterGuard {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The program prints its own errors, and there is nothing left to do about them.
        let _ = self.child.wait();
    }
}
