//! `cargo xtask test`: all tests that need only this machine; `--real` adds real programs.

use anyhow::Result;
use clap::Args;

use crate::project::{Project, in_ci, run};
use crate::{kubectl, parity};

#[derive(Args)]
pub struct TestArgs {
    /// Also against real programs, which are built where they are missing
    #[arg(long)]
    real: bool,
    /// Further arguments for `cargo test`
    #[arg(last = true)]
    cargo: Vec<String>,
}

pub fn test(project: &Project, args: &TestArgs) -> Result<()> {
    let mut tests = project.cargo(["test", "--workspace"]);
    tests.args(&args.cargo);
    if !args.real {
        return run(&mut tests);
    }
    let mut met = Vec::new();
    if let Some(kubectl) = or_skipped("kubectl", kubectl::find_or_build(project))? {
        tests.env("LONGSHORE_KUBECTL", &kubectl.path);
        met.push(kubectl.version);
    }
    run(&mut tests)?;
    if let Some(recorded) = parity::replay(project)? {
        met.push(recorded);
    }
    println!("\nreal components: {}", if met.is_empty() { "none".to_owned() } else { met.join("; ") });
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
