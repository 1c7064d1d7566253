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
use cli::platform::{self, Failure, World};
use cli::{Cli, Command};
use domain::clock::{Clock, SystemClock};
use tempfile::{TempDir, tempdir};

pub struct Desk {
    home: TempDir,
    pub environment: BTreeMap<String, String>,
    /// Address of a server on this machine.
    pub runs_here: Option<String>,
    clock: Arc<dyn Clock>,
    /// All output of this environment.
    screen: RefCell<String>,
}

/// A terminal without a user: every prompt fails.
struct Deserted;

impl Terminal for Deserted {
    fn ask(&self, question: &str) -> Result<String, Failure> {
        Err(Failure::Usage(format!("asked for {question}")))
    }

    fn ask_secret(&self, question: &str) -> Result<Secret, Failure> {
        Err(Failure::Usage(format!("asked for {question}")))
    }
}

impl Desk {
    pub fn new() -> Self {
        let home = tempdir().unwrap();
        let environment = BTreeMap::from([("HOME".to_owned(), home.path().to_string_lossy().into_owned())]);
        Self { home, environment, runs_here: None, clock: Arc::new(SystemClock), screen: RefCell::default() }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    fn world(&self, input: &str) -> World {
        let runs_here = self.runs_here.clone();
        World {
            environment: self.environment.clone(),
            runs_here: Box::new(move || Ok(runs_here.clone())),
            host: "desk".to_owned(),
            stdin: Box::new(Cursor::new(input.as_bytes().to_vec())),
            terminal: Box::new(Deserted),
            clock: self.clock.clone(),
        }
    }

    /// Runs a command with standard input. Returns its standard output or its error.
    pub async fn type_with(&self, line: &str, input: &str) -> Result<String, String> {
        let words = std::iter::once("longshore").chain(line.split_whitespace());
        let command = Cli::try_parse_from(words).map_err(|error| error.to_string())?.command;
        let mut world = self.world(input);
        if let Command::Release(command) = &command {
            let came = cli::release::run(command, &world).await;
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let came = came.map(text).map_err(|refusal| format!("Error: {}", refusal.why));
            let shown = came.as_ref().map_or_else(Clone::clone, Clone::clone);
            writeln!(self.screen.borrow_mut(), "$ longshore {line}\n{shown}").unwrap();
            return came;
        }
        let came = match &command {
            Command::Platform(command) => platform::run(command, &mut world).await,
            Command::Kubeconfig(args) => platform::kubeconfig::run(&args.personal, &mut world).await,
            other => panic!("not of the platform: {other:?}"),
        };
        let came = came.map_err(|failure| format!("error: {failure}"));
        let shown =
            came.as_ref().map_or_else(Clone::clone, |said| format!("{}{}", said.out, said.notes.join("\n")));
        writeln!(self.screen.borrow_mut(), "$ longshore {line}\n{shown}").unwrap();
        came.map(|said| said.out)
    }

    pub async fn type_in(&self, line: &str) -> Result<String, String> {
        self.type_with(line, "").await
    }

    pub fn screen(&self) -> String {
        self.screen.borrow().clone()
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
