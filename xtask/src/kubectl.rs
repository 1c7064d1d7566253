//! The real kubectl, built from its Go modules by `tools/kubectl` and kept in the user's cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::project::{Project, cache, output, run};

/// The version that the recordings were made with; `tools/kubectl/go.mod` names the same as v0.36.3.
const VERSION: &str = "1.36.3";

pub struct Kubectl {
    pub path: PathBuf,
    pub version: String,
}

pub fn find_or_build(project: &Project) -> Result<Kubectl> {
    let path = cache()?.join(format!("kubectl-{VERSION}"));
    if !path.exists() {
        println!("building kubectl {VERSION} into {}", path.display());
        build(project, &path)?;
    }
    let said = output(Command::new(&path).args(["version", "--client"]))?;
    let version = said.lines().find_map(|line| line.strip_prefix("Client Version: v")).unwrap_or_default();
    if version != VERSION {
        bail!("{} is kubectl `{version}`, not {VERSION}: remove it to have it built again", path.display());
    }
    Ok(Kubectl { path, version: format!("kubectl {version}") })
}

/// Whole or not at all: a build that is cut off leaves nothing under the final name.
fn build(project: &Project, path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let set = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let flags =
        [set("gitVersion", &format!("v{VERSION}")), set("gitMajor", "1"), set("gitMinor", "36")].join(" ");
    let mut go = project.command("go", ["build", "-trimpath", "-ldflags", &format!("-s -w {flags}"), "-o"]);
    run(go.arg(&draft).arg(".").current_dir(project.root.join("tools/kubectl")))?;
    fs::rename(&draft, path).with_context(|| format!("cannot keep {}", path.display()))
}
