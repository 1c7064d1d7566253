//! Environment of a command, replaced in tests.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use domain::clock::{Clock, SystemClock};
use jiff::Timestamp;

use super::Failure;
use super::access::{Access, Known, Target};
use super::client::Client;
use super::contexts::{Contexts, ContextsFile};
use super::prompt::{Terminal, Tty};

pub struct World {
    pub environment: BTreeMap<String, String>,
    /// Address of a server running on this machine, if any.
    pub runs_here: Box<dyn Fn() -> Result<Option<String>, String>>,
    /// Host name of this machine.
    pub host: String,
    pub stdin: Box<dyn Read>,
    pub terminal: Box<dyn Terminal>,
    pub clock: Arc<dyn Clock>,
}

impl World {
    /// The environment of this process.
    pub fn of_process(runs_here: impl Fn() -> Result<Option<String>, String> + 'static) -> Self {
        Self {
            environment: crate::environment(),
            runs_here: Box::new(runs_here),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            stdin: Box::new(std::io::stdin()),
            terminal: Box::new(Tty),
            clock: Arc::new(SystemClock),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn contexts_file(&self) -> Result<ContextsFile, Failure> {
        Ok(ContextsFile::of(&self.environment)?)
    }

    pub fn known<'a>(&'a self, contexts: &'a Contexts) -> Known<'a> {
        Known { environment: &self.environment, contexts, runs_here: &*self.runs_here }
    }

    pub fn access(&self, target: &Target) -> Result<Access, Failure> {
        // Without a home directory there is no contexts file, and none is needed.
        let contexts = match ContextsFile::of(&self.environment) {
            Ok(file) => file.read()?,
            Err(_) => Contexts::default(),
        };
        self.known(&contexts).access(target)
    }

    /// A client for the selected platform, which requires credentials.
    pub fn client(&self, target: &Target) -> Result<Client, Failure> {
        Client::new(&self.access(target)?)?.signed_in()
    }
}
