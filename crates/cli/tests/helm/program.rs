//! Running commands: Longshore's in process, Helm's as a program.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use cli::helm::{Refusal, refused};

pub const HELMS: [&str; 2] = ["3", "4"];

/// Output and error of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub output: String,
    pub error: Option<String>,
}

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: cli::helm::Command,
}

/// Runs a Longshore command. Standard error is ignored.
pub fn ours(arguments: &[&str]) -> Printed {
    let done = match Program::try_parse_from(["helm"].iter().chain(arguments)) {
        Ok(Program { command }) => cli::helm::run(&command),
        Err(error) => Err(Refusal::from(refused::words(&error).unwrap_or_else(|| error.to_string()))),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match done {
        Ok(output) => Printed { output: text(output), error: None },
        Err(Refusal { output, why, code: _ }) => Printed { output: text(output), error: Some(why) },
    }
}

/// As [`ours`], following the given Helm version.
pub fn ours_as(helm: &str, arguments: &[&str]) -> Printed {
    ours(&[arguments, &["--helm", helm]].concat())
}

/// The real program, if its variable is set.
pub fn real(helm: &str) -> Option<PathBuf> {
    let variable = if helm == "3" { "LONGSHORE_HELM_3_17" } else { "LONGSHORE_HELM_4_3" };
    let program = std::env::var_os(variable).map(PathBuf::from).filter(|program| program.exists());
    if program.is_none() {
        skipped(&format!("{variable} names no program"));
    }
    program
}

/// Runs the real program without the user's settings.
pub fn theirs(program: &Path, home: &Path, arguments: &[&str]) -> Printed {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("HOME", home).env("TZ", "UTC");
    let done = command.output().expect("helm starts");
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    let error = (!done.status.success()).then(|| {
        let at = errors.find("Error: ").map_or(0, |at| at + "Error: ".len());
        errors[at..].trim_end_matches('\n').to_owned()
    });
    Printed { output: String::from_utf8_lossy(&done.stdout).into_owned(), error }
}

/// Charts of the corpus, if available. In CI they are required.
pub fn corpus() -> Option<Vec<PathBuf>> {
    let folder = std::env::var_os("LONGSHORE_CORPUS").map(|corpus| PathBuf::from(corpus).join("charts/dev"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        skipped("LONGSHORE_CORPUS names no folder with charts");
        return None;
    };
    let entries = fs::read_dir(folder).expect("the corpus can be listed");
    let mut charts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    charts.retain(|path| path.extension().is_some_and(|end| end == "tgz"));
    charts.sort();
    Some(charts)
}

/// Prints past libtest's capture, which hides the output of passing tests.
pub fn said(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn skipped(why: &str) {
    let thread = std::thread::current();
    said(&format!("skipped: {}: {why}", thread.name().unwrap_or_default()));
}

/// Writes files below a folder.
pub fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}
