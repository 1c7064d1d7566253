//! `cargo xtask tidy`: automated checks of project rules.
//!
//! A check takes its input as data and returns complaints, one line each, so that its tests can use small inputs.
//!
//! Modules:
//! - [`sources`]: Rust files, read through [`masking`]
//! - [`layers`]: dependencies between crates
//! - [`cycles`]: imports between the modules of a crate
//! - [`purity`]: crates without I/O
//! - [`glossary`]: defining items of the glossary
//! - [`licences`], [`banned`]: third-party crates

mod banned;
mod cycles;
mod glossary;
mod layers;
mod licences;
mod masking;
mod purity;
mod sources;

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::project::{Project, output};
use crate::{codegen, stamp};

pub fn tidy(project: &Project) -> Result<()> {
    let metadata = output(&mut project.cargo(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
    let tree =
        ["tree", "--workspace", "--target", "all", "--edges", "all", "--prefix", "none", "--format", "{p}"];
    let built = output(&mut project.cargo(tree))?;
    let files = sources::read(&project.root)?;

    let mut complaints: Vec<String> = files.iter().flat_map(sources::check).collect();
    complaints.extend(files.iter().flat_map(purity::check_source));
    complaints.extend(purity::check_dependencies(&metadata));
    complaints.extend(layers::check(&metadata));
    complaints.extend(cycles::check(&files));
    complaints.extend(licences::check(&metadata));
    complaints.extend(banned::check(&built));
    let terms =
        fs::read_to_string(project.root.join("docs/glossary.md")).context("cannot read the glossary")?;
    complaints.extend(glossary::check(&terms, &files));
    complaints.extend(check_generated(project)?);
    if complaints.is_empty() {
        println!("tidy: {} files, all well", files.len());
        return Ok(());
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    bail!("tidy found {} complaints", complaints.len())
}

fn check_generated(project: &Project) -> Result<Vec<String>> {
    // A missing stamp counts as a difference in every file.
    let committed = fs::read_to_string(codegen::stamp_path(project)).unwrap_or_default();
    let stale = stamp::differences(&committed, &codegen::current_stamp(project)?);
    Ok(stale
        .into_iter()
        .map(|name| format!("{name}: changed since `cargo xtask codegen` last ran"))
        .collect())
}
