//! The real Helm programs and recordings of their output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use helm_template::profile::Profile;

pub const PROFILES: [Profile; 2] = [Profile::Helm3, Profile::Helm4];

/// Output of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Folder of the recordings, if present; required in CI.
pub fn corpus() -> Option<PathBuf> {
    let corpus = std::env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    if corpus.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        report_skipped("LONGSHORE_CORPUS names no folder with charts");
    }
    corpus
}

/// The program that this profile follows.
pub fn helm(profile: Profile) -> Option<PathBuf> {
    let variable = match profile {
        Profile::Helm3 => "LONGSHORE_HELM_3_17",
        Profile::Helm4 => "LONGSHORE_HELM_4_3",
    };
    let program = std::env::var_os(variable).map(PathBuf::from).filter(|program| program.exists());
    if program.is_none() {
        report_skipped(&format!("{variable} names no program"));
    }
    program
}

/// Runs `helm template` in this folder, without the user's settings.
pub fn template(helm: &Path, folder: &Path, arguments: &[String]) -> ProgramOutput {
    let mut command = Command::new(helm);
    command.arg("template").args(arguments).current_dir(folder).env_clear();
    command.env("HOME", folder).env("KUBECONFIG", folder.join("no-cluster")).env("TZ", "UTC");
    let done = command.output().expect("helm starts");
    ProgramOutput { stdout: done.stdout, stderr: String::from_utf8_lossy(&done.stderr).into_owned() }
}

/// Bypasses the captured output, which is hidden for passing tests.
pub fn print_uncaptured(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn report_skipped(why: &str) {
    let thread = std::thread::current();
    print_uncaptured(&format!("skipped: {}: {why}", thread.name().unwrap_or_default()));
}
