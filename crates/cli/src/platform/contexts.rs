//! Contexts file: known platforms with tokens, similar to a kubeconfig.
//!
//! Invariants:
//! - Only the owner can read the file.
//! - Writes are atomic: a reader sees the old or the new file.
//! - Concurrent commands do not lose each other's changes.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::secret::Secret;

#[derive(Debug, thiserror::Error)]
pub enum ContextsError {
    #[error("no directory for the contexts file: set XDG_CONFIG_HOME or HOME")]
    NoConfigFolder,
    #[error("cannot read the contexts in `{}`: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write the contexts to `{}`: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("`{0}` contains tokens but is readable by other users: run `chmod 600 {0}`", file.display())]
    InsecurePermissions { file: PathBuf },
    /// Names the line but not its content, which may be a token.
    #[error("`{}` is not a valid contexts file: error in line {line}", file.display())]
    Malformed { file: PathBuf, line: usize },
    #[error("context `{0}` not found: see `longshore context list`")]
    UnknownContext(String),
}

/// A platform, with the account and token used there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub name: String,
    pub server: Address,
    /// PEM file with the CA of the server's certificate. Without it, the system's CAs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The account that signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_context: Option<String>,
    pub contexts: Vec<Context>,
}

impl Contexts {
    pub fn get(&self, name: &str) -> Option<&Context> {
        self.contexts.iter().find(|context| context.name == name)
    }

    pub fn require(&self, name: &str) -> Result<&Context, ContextsError> {
        self.get(name).ok_or_else(|| ContextsError::UnknownContext(name.to_owned()))
    }

    pub fn current(&self) -> Option<&Context> {
        self.get(self.current_context.as_deref()?)
    }

    /// The context of this server. The current context is preferred if there are several.
    pub fn for_server(&self, server: &Address) -> Option<&Context> {
        let current = self.current().into_iter();
        current.chain(&self.contexts).find(|context| context.server == *server)
    }

    /// Adds or replaces the context and makes it the current one.
    pub fn upsert_current(&mut self, context: Context) {
        self.current_context = Some(context.name.clone());
        match self.contexts.iter_mut().find(|other| other.name == context.name) {
            Some(other) => *other = context,
            None => self.contexts.push(context),
        }
    }

    pub fn set_current(&mut self, name: &str) -> Result<(), ContextsError> {
        self.require(name)?;
        self.current_context = Some(name.to_owned());
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> Result<Context, ContextsError> {
        let place = self.contexts.iter().position(|context| context.name == name);
        let place = place.ok_or_else(|| ContextsError::UnknownContext(name.to_owned()))?;
        if self.current_context.as_deref() == Some(name) {
            self.current_context = None;
        }
        Ok(self.contexts.remove(place))
    }

    /// Removes account and token, but keeps the server.
    pub fn sign_out(&mut self, name: &str) {
        if let Some(context) = self.contexts.iter_mut().find(|context| context.name == name) {
            (context.account, context.token) = (None, None);
        }
    }
}

/// Path of the contexts file.
#[derive(Clone, Debug)]
pub struct ContextsFile(PathBuf);

impl ContextsFile {
    /// `longshore/contexts.yaml` in the user's configuration folder.
    pub fn from_environment(environment: &BTreeMap<String, String>) -> Result<Self, ContextsError> {
        let folder =
            |name: &str| environment.get(name).filter(|value| value.starts_with('/')).map(PathBuf::from);
        let base = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
        Ok(Self(base.ok_or(ContextsError::NoConfigFolder)?.join("longshore").join("contexts.yaml")))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the file. A missing file is empty.
    pub fn read(&self) -> Result<Contexts, ContextsError> {
        let failed = |source| ContextsError::Read { file: self.0.clone(), source };
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(failed(error)),
        };
        if file.metadata().map_err(failed)?.permissions().mode() & 0o077 != 0 {
            return Err(ContextsError::InsecurePermissions { file: self.0.clone() });
        }
        let text = io::read_to_string(file).map_err(failed)?;
        if text.trim().is_empty() {
            return Ok(Contexts::default());
        }
        serde_norway::from_str(&text).map_err(|error| ContextsError::Malformed {
            file: self.0.clone(),
            line: error.location().map_or(1, |place| place.line()),
        })
    }

    /// Reads, changes and writes the file under a lock.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut Contexts) -> Result<T, ContextsError>,
    ) -> Result<T, ContextsError> {
        let failed = |source| ContextsError::Write { file: self.0.clone(), source };
        let folder = self.0.parent().expect("the file is in a folder");
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        // The lock is held until it is dropped. The contexts file itself cannot be locked, because it is replaced.
        let lock = open_private(OpenOptions::new().write(true).create(true), &self.0.with_extension("lock"));
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut contexts = self.read()?;
        let done = change(&mut contexts)?;
        let text = serde_norway::to_string(&contexts).map_err(|error| failed(io::Error::other(error)))?;
        write_private(&self.0, text.as_bytes()).map_err(failed)?;
        Ok(done)
    }
}

fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(0o600).open(path)
}

/// Writes a file atomically with mode 0600, replacing one with wider permissions.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let draft = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = (|| {
        // A draft left by a killed command is deleted, not reused: another user might have created it.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = open_private(OpenOptions::new().write(true).create_new(true), &draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    })();
    if written.is_err() {
        // The first error is returned.
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests;
