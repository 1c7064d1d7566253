//! `cargo xtask codegen`: writes the generated files anew.
//!
//! What is generated is committed, so that building needs no Go. The stamp beside it tells `tidy` when the
//! generator or one of its files changed without the other.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::project::{Project, run};
use crate::stamp;

/// The program that writes [`TABLES`]; its `go.mod` pins everything it reads.
const GENERATOR: &str = "tools/kube-schema";
const TABLES: &str = "crates/kube-embedded/data";
/// In [`TABLES`]: what the tables were made from, and what they were.
const STAMP: &str = "SOURCES";

pub fn codegen(project: &Project) -> Result<()> {
    let mut go = project.command("go", ["run", ".", "--out"]);
    run(go.arg(project.root.join(TABLES)).current_dir(project.root.join(GENERATOR)))?;
    let stamp = current_stamp(project)?;
    let path = stamp_path(project);
    fs::write(&path, stamp).with_context(|| format!("cannot write {}", path.display()))
}

/// What the stamp should say now.
pub fn current_stamp(project: &Project) -> Result<String> {
    let mut files = stamp::files_below(&project.root, GENERATOR)?;
    let tables = stamp::files_below(&project.root, TABLES)?;
    files.extend(tables.into_iter().filter(|(name, _)| !name.ends_with(STAMP)));
    Ok(stamp::of(&files))
}

pub fn stamp_path(project: &Project) -> PathBuf {
    project.root.join(TABLES).join(STAMP)
}
