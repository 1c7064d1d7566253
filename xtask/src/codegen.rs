//! `cargo xtask codegen`: regenerates the generated files.
//!
//! Generated files are committed, so that a build needs no Go. The stamp beside them lets `tidy` detect that the
//! generator or one of its outputs changed without the other.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::project::{Project, run};
use crate::stamp;

/// The generator of [`TABLES`]. Its `go.mod` pins its inputs.
const GENERATOR: &str = "tools/kube-schema";
const TABLES: &str = "crates/kube-embedded/data";
/// File in [`TABLES`] with the hashes of the generator and of the tables.
const STAMP: &str = "SOURCES";

pub fn codegen(project: &Project) -> Result<()> {
    let mut go = project.command("go", ["run", ".", "--out"]);
    run(go.arg(project.root.join(TABLES)).current_dir(project.root.join(GENERATOR)))?;
    let stamp = current_stamp(project)?;
    let path = stamp_path(project);
    fs::write(&path, stamp).with_context(|| format!("cannot write {}", path.display()))
}

/// Computes the stamp of the current files.
pub fn current_stamp(project: &Project) -> Result<String> {
    let mut files = stamp::files_below(&project.root, GENERATOR)?;
    let tables = stamp::files_below(&project.root, TABLES)?;
    files.extend(tables.into_iter().filter(|(name, _)| !name.ends_with(STAMP)));
    Ok(stamp::from_files(&files))
}

pub fn stamp_path(project: &Project) -> PathBuf {
    project.root.join(TABLES).join(STAMP)
}
