//! A user's environment: home folder, clock, no terminal.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use cli::platform::prompt::Terminal;
use cli::platform::secret::Secret;
use cli::platform::{self, CommandEnv, PlatformError};
use cli::{Cli, Command};
use domain::clock::{Clock, SystemClock};
use tempfile::{TempDir, tempdir};

pub struct CliUser {
    home: TempDir,
    pub environment: BTreeMap<String, String>,
    /// Address of a server on this machine.
    pub local_server: Option<String>,
    clock: Arc<dyn Clock>,
    /// All output of this environment.
    transcript: RefCell<String>,
}

/// A terminal without a user: every prompt fails.
struct NoTerminal;

impl Terminal for NoTerminal {
    fn prompt(&self, question: &str) -> Result<String, PlatformError> {
        Err(PlatformError::Usage(format!("asked for {question}")))
    }

    fn prompt_secret(&self, question: &str) -> Result<Secret, PlatformError> {
        Err(PlatformError::Usage(format!("asked for {question}")))
    }
}

impl CliUser {
    pub fn new() -> Self {
        let home = tempdir().unwrap();
        let environment = BTreeMap::from([("HOME".to_owned(), home.path().to_string_lossy().into_owned())]);
        Self {
            home,
            environment,
            local_server: None,
            clock: Arc::new(SystemClock),
            transcript: RefCell::default(),
        }
    }

    pub fn set_env(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    fn command_env(&self, input: &str) -> CommandEnv {
        let runs_here = self.local_server.clone();
        CommandEnv {
            environment: self.environment.clone(),
            local_server: Box::new(move || Ok(runs_here.clone())),
            host: "desk".to_owned(),
            stdin: Box::new(Cursor::new(input.as_bytes().to_vec())),
            terminal: Box::new(NoTerminal),
            clock: self.clock.clone(),
        }
    }

    /// Runs a command with standard input. Returns its standard output or its error.
    pub async fn run_with_stdin(&self, line: &str, input: &str) -> Result<String, String> {
        let words = std::iter::once("longshore").chain(line.split_whitespace());
        let command = Cli::try_parse_from(words).map_err(|error| error.to_string())?.command;
        let mut world = self.command_env(input);
        if let Command::Release(command) = &command {
            let result = cli::release::run(command, &world).await;
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let came = result.map(text).map_err(|refusal| format!("Error: {}", refusal.message));
            let shown = came.as_ref().map_or_else(Clone::clone, Clone::clone);
            writeln!(self.transcript.borrow_mut(), "$ longshore {line}\n{shown}").unwrap();
            return came;
        }
        let came = match &command {
            Command::Platform(command) => platform::run(command, &mut world).await,
            Command::Kubeconfig(args) => platform::kubeconfig::run(&args.personal, &mut world).await,
            other => panic!("not of the platform: {other:?}"),
        };
        let came = came.map_err(|failure| format!("error: {failure}"));
        let shown = came
            .as_ref()
            .map_or_else(Clone::clone, |said| format!("{}{}", said.stdout, said.notes.join("\n")));
        writeln!(self.transcript.borrow_mut(), "$ longshore {line}\n{shown}").unwrap();
        came.map(|said| said.stdout)
    }

    pub async fn run(&self, line: &str) -> Result<String, String> {
        self.run_with_stdin(line, "").await
    }

    pub fn transcript(&self) -> String {
        self.transcript.borrow().clone()
    }

    pub fn contexts_file(&self) -> PathBuf {
        self.home.path().join(".config/longshore/contexts.yaml")
    }

    pub fn folder(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    /// Complete tokens stored in the contexts file.
    pub fn tokens(&self) -> Vec<String> {
        let text = fs::read_to_string(self.contexts_file()).unwrap_or_default();
        let tokens = text.lines().filter_map(|line| line.trim().strip_prefix("token: "));
        tokens.map(str::to_owned).collect()
    }
}
