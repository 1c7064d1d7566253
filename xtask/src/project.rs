//! The project's paths, and helpers to run programs.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

pub struct Project {
    pub root: PathBuf,
}

impl Project {
    /// The checkout that this binary was built from.
    pub fn current() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the project");
        Self { root: root.to_owned() }
    }

    /// Cargo's target folder.
    pub fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |dir| self.root.join(dir))
    }

    /// A command that runs in the project's folder.
    pub fn command<S: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root);
        command
    }

    /// The cargo that started xtask, run in the project's folder.
    pub fn cargo<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.command(&env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), args)
    }

    /// Builds `longshore` and returns its path.
    pub fn build_longshore(&self, release: bool) -> Result<PathBuf> {
        let mut build = self.cargo(["build", "--package", "longshore", "--bin", "longshore"]);
        if release {
            build.arg("--release");
        }
        run(&mut build)?;
        Ok(self.target().join(if release { "release" } else { "debug" }).join("longshore"))
    }
}

/// Runs a command with inherited stdin and stdout. Any exit status but success is an error that names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", command_line(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", command_line(command));
    }
    Ok(())
}

/// Runs a command and returns its stdout. Its stderr is inherited.
pub fn output(command: &mut Command) -> Result<String> {
    command.stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {}", command_line(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", command_line(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", command_line(command)))
}

/// Cache folder: `$XDG_CACHE_HOME/longshore`.
pub fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(base.join("longshore"))
}

/// Whether this runs in CI, where missing tools are errors.
pub fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

pub fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    format!("`{}`", words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" "))
}
