//! `cargo xtask ci`: all checks that run no tests.

use anyhow::Result;

use crate::project::{Project, run};
use crate::tidy;

pub fn ci(project: &Project) -> Result<()> {
    run(&mut project.cargo(["fmt", "--all", "--check"]))?;
    run(&mut project.cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ]))?;
    tidy::tidy(project)
}
