//! State of a node on disk, so that joining again from the same folder resumes.
//!
//! Invariants:
//! - Only the owner can read the folder, every file is complete, and one process at a time uses it.
//! - The key is stored before a certificate is requested for it, and the certificate before it is used.

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
/// Files of the next certificate. They replace the current ones when it is complete.
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

/// Identity of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub server: String,
    pub name: String,
    /// Generated once. By this id a machine recognises the Node that it registered.
    pub id: String,
}

/// Everything a machine needs to act as a node.
pub struct Identity {
    pub server: Server,
    pub authority: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// A key and its certificate signing request.
pub struct Asked {
    pub key: Vec<u8>,
    pub request: Vec<u8>,
}

pub struct Folder {
    dir: PathBuf,
    pub machine: Machine,
    /// File lock, held until this is dropped.
    _lock: File,
}

impl Folder {
    /// Opens the folder of this node at this server, creating it if necessary.
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

    /// Opens the folder of any node.
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

    /// The node's identity, or `None` while it has no certificate.
    pub fn identity(&self) -> Result<Option<Identity>, FolderError> {
        let parts = (self.read(AUTHORITY)?, self.read(CERTIFICATE)?, self.read(KEY)?);
        let (Some(authority), Some(certificate), Some(key)) = parts else { return Ok(None) };
        let server = self.machine.server.parse().map_err(|why| self.damaged(MACHINE, &why))?;
        Ok(Some(Identity { server, authority, certificate, key }))
    }

    /// Returns the stored key and request; `make` creates them if there are none.
    pub fn asked<E: From<FolderError>>(&self, make: impl FnOnce() -> Result<Asked, E>) -> Result<Asked, E> {
        self.asked_in(KEY, REQUEST, make)
    }

    /// As [`Folder::asked`], for the next certificate.
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
        // The request is written last: a key without a request is replaced.
        self.write(key_file, &asked.key)?;
        self.write(request_file, &asked.request)?;
        Ok(asked)
    }

    /// Stores the certificate last, because it completes the identity.
    pub fn certify(&self, authority: &[u8], certificate: &[u8]) -> Result<(), FolderError> {
        self.write(AUTHORITY, authority)?;
        self.write(CERTIFICATE, certificate)
    }

    /// Replaces the certificate and key by the next ones.
    pub fn certify_next(&self, certificate: &[u8]) -> Result<(), FolderError> {
        self.write(NEXT_CERTIFICATE, certificate)?;
        self.promote()
    }

    /// Moves the next files into place once they are complete. The certificate moves last: while it exists, opening the
    /// folder after a crash completes the replacement.
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

    /// Deletes the next request, so that a new one is made.
    pub fn forget_next(&self) -> Result<(), FolderError> {
        [NEXT_CERTIFICATE, NEXT_REQUEST, NEXT_KEY].into_iter().try_for_each(|name| self.remove(name))
    }

    /// Deletes key and certificate, so that the next join requests new ones.
    pub fn forget(&self) -> Result<(), FolderError> {
        self.forget_next()?;
        [CERTIFICATE, REQUEST, KEY, AUTHORITY].into_iter().try_for_each(|name| self.remove(name))
    }

    /// Deletes the identity too.
    pub fn leave(self) -> Result<(), FolderError> {
        self.forget()?;
        self.remove(MACHINE)?;
        self.remove(LOCK)?;
        // The folder stays if it contains other files.
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

/// Writes a file atomically and durably.
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

/// Renames a file within its folder, durably.
fn put(file: &Path, path: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Io { path: path.to_owned(), source };
    fs::rename(file, path).map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}
