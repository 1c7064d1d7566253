//! The output of `cargo xtask up` on a terminal: log lines, and below them the line `ready`, which stays the last.
//!
//! A separate process reads the output of the server. On a terminal both outputs of the server are one pipe, so that their lines keep
//! their order. It also creates the demo of `--demo` when the server is ready.

use std::io::{self, BufRead as _, IsTerminal as _, Write, stderr, stdin, stdout};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result};
use clap::Args;

use super::demo;
use crate::project::{Project, command_line};

/// Returns the cursor to the start of the line and clears the line.
const CLEAR_LINE: &str = "\r\x1b[2K";

/// Arguments of the process that reads the output of the server.
#[derive(Args)]
pub struct ForwardArgs {
    program: PathBuf,
    data: PathBuf,
    /// Create the demo when the server is ready
    #[arg(long)]
    demo: bool,
    /// Keep the line `ready` as the last one
    #[arg(long)]
    terminal: bool,
}

/// Lines on a terminal, with one that stays the last.
struct Terminal<W> {
    out: W,
    last: Option<String>,
}

impl<W: Write> Terminal<W> {
    /// Prints a line above the last one.
    fn print(&mut self, line: &str) -> io::Result<()> {
        let text = match &self.last {
            Some(last) => format!("{CLEAR_LINE}{line}\n{last}"),
            None => format!("{line}\n"),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints a line that stays the last.
    fn set_last(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.last = Some(line.to_owned());
        self.out.flush()
    }

    /// Leaves the cursor below the last line.
    fn end(&mut self) -> io::Result<()> {
        if self.last.take().is_some() { self.out.write_all(b"\n") } else { Ok(()) }
    }
}

/// Forwards the server's output until the server ends, and creates the demo when it is ready.
pub fn forward_output(project: &Project, args: &ForwardArgs) -> Result<()> {
    let terminal = Mutex::new(Terminal { out: stdout(), last: None });
    let locked = || terminal.lock().expect("no thread panics while it prints");
    let forwarded = std::thread::scope(|scope| -> Result<()> {
        for line in stdin().lock().split(b'\n') {
            let line = line.context("cannot read the output of the server")?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let server =
                line.strip_prefix("ready ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
            match server {
                Some(server) if args.demo => {
                    locked().print(&line)?;
                    // On a separate thread: the server blocks while its log is not read.
                    scope.spawn(move || {
                        // The server keeps running if the demo fails.
                        if let Err(error) = demo::create(project, &args.program, &args.data, &server) {
                            eprintln!("error: cannot create the demo: {error:#}");
                        }
                        if args.terminal {
                            // The terminal may be closed. Then the error cannot be reported either.
                            let _ = locked().set_last(&line);
                        }
                    });
                }
                Some(_) if args.terminal => locked().set_last(&line)?,
                _ => locked().print(&line)?,
            }
        }
        Ok(())
    });
    locked().end()?;
    forwarded
}

/// Starts this program again as the process that reads the output of `serve`, where one is needed.
pub fn connect_output(serve: &mut Command, program: &Path, data: &Path, demo: bool) -> Result<()> {
    let is_terminal = stdout().is_terminal() && stderr().is_terminal();
    if !is_terminal && !demo {
        return Ok(());
    }
    let mut forward = Command::new(std::env::current_exe().context("cannot find out which program this is")?);
    forward.arg("forward-output").arg(program).arg(data).stdin(Stdio::piped());
    if demo {
        forward.arg("--demo");
    }
    if is_terminal {
        // Ctrl-C stops the server only; its last lines are still printed.
        forward.arg("--terminal").process_group(0);
    }
    let child = forward.spawn().with_context(|| format!("cannot start {}", command_line(&forward)))?;
    let pipe = OwnedFd::from(child.stdin.context("the process has no standard input")?);
    if is_terminal {
        serve.stderr(pipe.try_clone().context("cannot duplicate a pipe")?);
    }
    serve.stdout(pipe);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that a terminal shows after this output.
    fn shown(output: &[u8]) -> Vec<String> {
        let text = std::str::from_utf8(output).unwrap();
        text.split('\n').map(|line| line.rsplit(CLEAR_LINE).next().unwrap().to_owned()).collect()
    }

    #[test]
    fn ready_line_stays_the_last_below_log_lines() {
        let mut terminal = Terminal { out: Vec::new(), last: None };
        terminal.print("INFO starting").unwrap();
        terminal.set_last("ready http://127.0.0.1:8080").unwrap();
        assert_eq!(shown(&terminal.out), ["INFO starting", "ready http://127.0.0.1:8080"]);
        for line in ["INFO GET /docs", "WARN slow"] {
            terminal.print(line).unwrap();
            assert_eq!(
                &shown(&terminal.out)[shown(&terminal.out).len() - 2..],
                [line, "ready http://127.0.0.1:8080"]
            );
        }
        terminal.end().unwrap();
        let lines = ["INFO starting", "INFO GET /docs", "WARN slow", "ready http://127.0.0.1:8080", ""];
        assert_eq!(shown(&terminal.out), lines);
    }
}
