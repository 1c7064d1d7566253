//! Running commands: Longshore's in process, Helm's as a program.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use cli::helm::{CommandError, usage_errors};

pub const HELMS: [&str; 2] = ["3", "4"];

/// Output and error of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub output: String,
    pub error: Option<String>,
}

#[derive(Parser)]
struct HelmCli {
    #[command(subcommand)]
    command: cli::helm::Command,
}

/// Runs a Longshore command. Standard error is ignored.
pub fn run_longshore(arguments: &[&str]) -> Printed {
    let done = match HelmCli::try_parse_from(["helm"].iter().chain(arguments)) {
        Ok(HelmCli { command }) => cli::helm::run(&command),
        Err(error) => {
            Err(CommandError::from(usage_errors::helm_message(&error).unwrap_or_else(|| error.to_string())))
        }
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match done {
        Ok(output) => Printed { output: text(output), error: None },
        Err(CommandError { output, message: why, code: _ }) => {
            Printed { output: text(output), error: Some(why) }
        }
    }
}

/// As [`run_longshore`], following the given Helm version.
pub fn run_longshore_as(helm: &str, arguments: &[&str]) -> Printed {
    run_longshore(&[arguments, &["--helm", helm]].concat())
}

/// The real program, if its variable is set.
pub fn helm_program(helm: &str) -> Option<PathBuf> {
    let variable = if helm == "3" { "LONGSHORE_HELM_3_17" } else { "LONGSHORE_HELM_4_3" };
    let program = std::env::var_os(variable).map(PathBuf::from).filter(|program| program.exists());
    if program.is_none() {
        report_skipped(&format!("{variable} names no program"));
    }
    program
}

/// Runs the real program without the user's settings.
pub fn run_helm(program: &Path, home: &Path, arguments: &[&str]) -> Printed {
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
        report_skipped("LONGSHORE_CORPUS names no folder with charts");
        return None;
    };
    let entries = fs::read_dir(folder).expect("the corpus can be listed");
    let mut charts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    charts.retain(|path| path.extension().is_some_and(|end| end == "tgz"));
    charts.sort();
    Some(charts)
}

/// Prints past libtest's capture, which hides the output of passing tests.
pub fn print_uncaptured(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn report_skipped(why: &str) {
    let thread = std::thread::current();
    print_uncaptured(&format!("skipped: {}: {why}", thread.name().unwrap_or_default()));
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
