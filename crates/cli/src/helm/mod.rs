//! Helm's commands, on our own engine: same flags, same words, same exit codes.
//!
//! Nothing here needs a server, a cluster or a runtime.

pub mod flags;
mod locate;
pub mod refused;
pub mod template;

use std::io::{self, Write};
use std::process::ExitCode;

/// The names of these commands.
pub const COMMANDS: &[&str] = &["template"];

/// What came of a command: text for standard output, or Helm's words for why not.
pub type Outcome = Result<Vec<u8>, Refusal>;

/// A command that failed.
#[derive(Debug)]
pub struct Refusal {
    /// What is printed all the same.
    pub output: Vec<u8>,
    pub why: String,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(why: T) -> Self {
        Self { output: Vec::new(), why: why.into() }
    }
}

/// Prints what came of a command, as Helm does.
pub fn finish(outcome: Outcome) -> ExitCode {
    let (output, why) = match outcome {
        Ok(output) => (output, None),
        Err(Refusal { output, why }) => (output, Some(why)),
    };
    let written = match io::stdout().lock().write_all(&output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    };
    let why = why.or_else(|| written.err().map(|error| error.to_string()));
    match why {
        None => ExitCode::SUCCESS,
        Some(why) => {
            eprintln!("Error: {why}");
            ExitCode::FAILURE
        }
    }
}
