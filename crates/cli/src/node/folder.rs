//! What a machine keeps, so that whoever joins again from the same folder goes on instead of starting anew.
//!
//! Always true: nobody else can read it, every file is whole, and one process at a time is at work in it. The key is there
//! before anything is asked for with it, and the certificate before anything is done with it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ticket::Server;

const MACHINE: &str = "machine.json";
const KEY: &str = "key.pem";
const REQUEST: &str = "request.pem";
const AUTHORITY: &str = "ca.pem";
const CERTIFICATE: &str = "certificate.pem";
/// What follows key, request and certificate, until it is complete and takes their place.
const NEXT_KEY: &str = "next-key.pem";
const NEXT_REQUEST: &str = "next-request.pem";
const NEXT_CERTIFICATE: &str = "next-certificate.pem";
const LOCK: &str = "lock";

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("cannot use `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("somebody else is at work in `{}`", .0.display())]
    Busy(PathBuf),
    #[error("others can read `{0}`, and it is secret: run `chmod 600 {0}`", path.display())]
    Open { path: PathBuf },
    #[error("`{}` is not as it was written: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "`{}` is of the node `{name}` of {server}: `longshore node reset --dir` leaves that one, or choose another --dir",
        dir.display()
    )]
    Another { dir: PathBuf, name: String, server: String },
    #[error("there is no machine in `{}`", .0.display())]
    Nobody(PathBuf),
}

/// Who the machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub server: String,
    pub name: String,
    /// Made once: by it a machine knows the node that it has registered itself.
    pub id: String,
}

/// All that a machine needs to act as a node.
pub struct Identity {
    pub server: Server,
    pub authority: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// A key, and the request for its certificate.
pub struct Asked {
    pub key: Vec<u8>,
    pub request: Vec<u8>,
}

pub struct Folder {
    dir: PathBuf,
    pub machine: Machine,
    /// Held for as long as this lives.
    _lock: File,
}

impl Folder {
    /// Of this node at this server; made if there is none.
    pub fn enter(dir: &Path, server: &Server, name: &str) -> Result<Self, FolderError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| FolderError::Io { path: dir.to_owned(), source })?;
        let lock = lock(dir)?;
        let wanted = Machine { server: server.to_string(), name: name.to_owned(), id: String::new() };
        let machine = match read_machine(dir)? {
            Some(found) if (&found.server, &found.name) == (&wanted.server, &wanted.name) => found,
            Some(Machine { server, name, .. }) => {
                return Err(FolderError::Another { dir: dir.to_owned(), name, server });
            }
            None => {
                let machine = Machine { id: new_id(dir)?, ..wanted };
                let text = serde_json::to_vec(&machine)
                    .map_err(|error| FolderError::Damaged { path: dir.to_owned(), why: error.to_string() })?;
                write(&dir.join(MACHINE), &text)?;
                machine
            }
        };
        Self::opened(dir, machine, lock)
    }

    /// Whatever node it is of.
    pub fn existing(dir: &Path) -> Result<Self, FolderError> {
        if !dir.join(MACHINE).exists() {
            return Err(FolderError::Nobody(dir.to_owned()));
        }
        let lock = lock(dir)?;
        let machine = read_machine(dir)?.ok_or_else(|| FolderError::Nobody(dir.to_owned()))?;
        Self::opened(dir, machine, lock)
    }

    fn opened(dir: &Path, machine: Machine, lock: File) -> Result<Self, FolderError> {
        let folder = Self { dir: dir.to_owned(), machine, _lock: lock };
        folder.promote()?;
        Ok(folder)
    }

    /// Who the machine has become, if it has its certificate.
    pub fn identity(&self) -> Result<Option<Identity>, FolderError> {
        let parts = (self.read(AUTHORITY)?, self.read(CERTIFICATE)?, self.read(KEY)?);
        let (Some(authority), Some(certificate), Some(key)) = parts else { return Ok(None) };
        let server = self.machine.server.parse().map_err(|why| self.damaged(MACHINE, &why))?;
        Ok(Some(Identity { server, authority, certificate, key }))
    }

    /// What was asked for, or would have been: `make` makes key and request if there are none.
    pub fn asked<E: From<FolderError>>(&self, make: impl FnOnce() -> Result<Asked, E>) -> Result<Asked, E> {
        self.asked_in(KEY, REQUEST, make)
    }

    /// Likewise, for the certificate that is to follow the present one.
    pub fn asked_next<E: From<FolderError>>(
        &self,
        make: impl FnOnce() -> Result<Asked, E>,
    ) -> Result<Asked, E> {
        self.asked_in(NEXT_KEY, NEXT_REQUEST, make)
    }

    fn asked_in<E: From<FolderError>>(
        &self,
        key_file: &str,
        request_file: &str,
        make: impl FnOnce() -> Result<Asked, E>,
    ) -> Result<Asked, E> {
        if let (Some(key), Some(request)) = (self.read(key_file)?, self.read(request_file)?) {
            return Ok(Asked { key, request });
        }
        let asked = make()?;
        // The request last: a key without one is made anew.
        self.write(key_file, &asked.key)?;
        self.write(request_file, &asked.request)?;
        Ok(asked)
    }

    /// The certificate last: with it the identity is complete.
    pub fn certify(&self, authority: &[u8], certificate: &[u8]) -> Result<(), FolderError> {
        self.write(AUTHORITY, authority)?;
        self.write(CERTIFICATE, certificate)
    }

    /// The machine is known by the next certificate from now on, and by its key.
    pub fn certify_next(&self, certificate: &[u8]) -> Result<(), FolderError> {
        self.write(NEXT_CERTIFICATE, certificate)?;
        self.promote()
    }

    /// Puts what is next in the place of what was, once it is complete. Its certificate moves last: for as long as it is there,
    /// whoever opens the folder after a crash ends what was begun.
    fn promote(&self) -> Result<(), FolderError> {
        if !self.dir.join(NEXT_CERTIFICATE).exists() {
            return Ok(());
        }
        for (next, place) in [(NEXT_KEY, KEY), (NEXT_REQUEST, REQUEST), (NEXT_CERTIFICATE, CERTIFICATE)] {
            match put(&self.dir.join(next), &self.dir.join(place)) {
                Err(FolderError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                moved => moved?,
            }
        }
        Ok(())
    }

    /// Forgets what was asked for as the next one, so that it is asked for anew.
    pub fn forget_next(&self) -> Result<(), FolderError> {
        [NEXT_CERTIFICATE, NEXT_REQUEST, NEXT_KEY].into_iter().try_for_each(|name| self.remove(name))
    }

    /// Forgets key and certificate, so that the next to join asks anew.
    pub fn forget(&self) -> Result<(), FolderError> {
        self.forget_next()?;
        [CERTIFICATE, REQUEST, KEY, AUTHORITY].into_iter().try_for_each(|name| self.remove(name))
    }

    /// Forgets who the machine was, too.
    pub fn leave(self) -> Result<(), FolderError> {
        self.forget()?;
        self.remove(MACHINE)?;
        self.remove(LOCK)?;
        // Whatever else somebody keeps there is theirs, and so is the folder then.
        match fs::remove_dir(&self.dir) {
            Err(source) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(FolderError::Io { path: self.dir.clone(), source })
            }
            _ => Ok(()),
        }
    }

    pub fn damaged(&self, name: &str, why: &impl ToString) -> FolderError {
        FolderError::Damaged { path: self.dir.join(name), why: why.to_string() }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FolderError> {
        read(&self.dir.join(name))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        write(&self.dir.join(name), content)
    }

    fn remove(&self, name: &str) -> Result<(), FolderError> {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FolderError::Io { path, source }),
            _ => Ok(()),
        }
    }
}

fn lock(dir: &Path) -> Result<File, FolderError> {
    let path = dir.join(LOCK);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(|source| FolderError::Io { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(FolderError::Busy(dir.to_owned())),
        Err(fs::TryLockError::Error(source)) => Err(FolderError::Io { path, source }),
    }
}

fn read_machine(dir: &Path) -> Result<Option<Machine>, FolderError> {
    let path = dir.join(MACHINE);
    let Some(text) = read(&path)? else { return Ok(None) };
    let machine = serde_json::from_slice(&text);
    machine.map(Some).map_err(|error| FolderError::Damaged { path, why: error.to_string() })
}

fn new_id(dir: &Path) -> Result<String, FolderError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| FolderError::Io {
        path: dir.to_owned(),
        source: io::Error::other(error.to_string()),
    })?;
    Ok(super::hex(&bytes))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(FolderError::Open { path: path.to_owned() });
    }
    fs::read(path).map(Some).map_err(failed)
}

/// A reader sees all of it or nothing, after a crash too.
fn write(path: &Path, content: &[u8]) -> Result<(), FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&beside)
        .map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)?;
    put(&beside, path)
}

/// Gives a file another name in its folder, for good.
fn put(file: &Path, path: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    fs::rename(file, path).map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}
