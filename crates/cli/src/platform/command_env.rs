//! Environment of a command, replaced in tests.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use domain::clock::{Clock, SystemClock};
use jiff::Timestamp;

use super::PlatformError;
use super::access::{ConnectionSources, PlatformAccess, PlatformArgs};
use super::client::Client;
use super::contexts::{Contexts, ContextsFile};
use super::prompt::{Terminal, Tty};

pub struct CommandEnv {
    pub environment: BTreeMap<String, String>,
    /// Address of a server running on this machine, if any.
    pub local_server: Box<dyn Fn() -> Result<Option<String>, String>>,
    /// Host name of this machine.
    pub host: String,
    pub stdin: Box<dyn Read>,
    pub terminal: Box<dyn Terminal>,
    pub clock: Arc<dyn Clock>,
}

impl CommandEnv {
    /// The environment of this process.
    pub fn from_process(runs_here: impl Fn() -> Result<Option<String>, String> + 'static) -> Self {
        Self {
            environment: crate::environment(),
            local_server: Box::new(runs_here),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            stdin: Box::new(std::io::stdin()),
            terminal: Box::new(Tty),
            clock: Arc::new(SystemClock),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn contexts_file(&self) -> Result<ContextsFile, PlatformError> {
        Ok(ContextsFile::from_environment(&self.environment)?)
    }

    pub fn connection_sources<'a>(&'a self, contexts: &'a Contexts) -> ConnectionSources<'a> {
        ConnectionSources { environment: &self.environment, contexts, local_server: &*self.local_server }
    }

    pub fn access(&self, target: &PlatformArgs) -> Result<PlatformAccess, PlatformError> {
        // Without a home directory there is no contexts file, and none is needed.
        let contexts = match ContextsFile::from_environment(&self.environment) {
            Ok(file) => file.read()?,
            Err(_) => Contexts::default(),
        };
        self.connection_sources(&contexts).access(target)
    }

    /// A client for the selected platform, which requires credentials.
    pub fn client(&self, target: &PlatformArgs) -> Result<Client, PlatformError> {
        Client::new(&self.access(target)?)?.require_credentials()
    }
}
