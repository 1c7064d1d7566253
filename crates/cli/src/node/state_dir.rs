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

use super::join_args::ServerAddress;

const MACHINE_FILE: &str = "machine.json";
const KEY_FILE: &str = "key.pem";
const REQUEST_FILE: &str = "request.pem";
const CA_FILE: &str = "ca.pem";
const CERTIFICATE_FILE: &str = "certificate.pem";
/// Files of the next certificate. They replace the current ones when it is complete.
const NEXT_KEY_FILE: &str = "next-key.pem";
const NEXT_REQUEST_FILE: &str = "next-request.pem";
const NEXT_CERTIFICATE_FILE: &str = "next-certificate.pem";
const LOCK_FILE: &str = "lock";

#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    #[error("cannot use `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{}` is in use by another process", .0.display())]
    Locked(PathBuf),
    #[error("`{0}` is secret but readable by other users: run `chmod 600 {0}`", path.display())]
    InsecurePermissions { path: PathBuf },
    #[error("`{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "`{}` belongs to node `{name}` of {server}: remove that node with `longshore node reset --dir`, or choose another --dir",
        dir.display()
    )]
    OtherNode { dir: PathBuf, name: String, server: String },
    #[error("`{}` has no node: nothing to reset", .0.display())]
    NoMachine(PathBuf),
}

/// Identity of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRecord {
    pub server: String,
    pub name: String,
    /// Generated once. By this id a machine recognises the Node that it registered.
    pub id: String,
}

/// Everything a machine needs to act as a node.
pub struct NodeIdentity {
    pub server: ServerAddress,
    pub authority: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// A key and its certificate signing request.
pub struct KeyAndRequest {
    pub key: Vec<u8>,
    pub request: Vec<u8>,
}

pub struct StateDir {
    dir: PathBuf,
    pub machine: MachineRecord,
    /// File lock, held until this is dropped.
    _lock: File,
}

impl StateDir {
    /// Opens the folder of this node at this server, creating it if necessary.
    pub fn open_or_create(dir: &Path, server: &ServerAddress, name: &str) -> Result<Self, StateDirError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| StateDirError::Io { path: dir.to_owned(), source })?;
        let lock = lock(dir)?;
        let expected = MachineRecord { server: server.to_string(), name: name.to_owned(), id: String::new() };
        let machine = match read_machine(dir)? {
            Some(found) if (&found.server, &found.name) == (&expected.server, &expected.name) => found,
            Some(MachineRecord { server, name, .. }) => {
                return Err(StateDirError::OtherNode { dir: dir.to_owned(), name, server });
            }
            None => {
                let machine = MachineRecord { id: new_id(dir)?, ..expected };
                let text = serde_json::to_vec(&machine).map_err(|error| StateDirError::Damaged {
                    path: dir.to_owned(),
                    why: error.to_string(),
                })?;
                write(&dir.join(MACHINE_FILE), &text)?;
                machine
            }
        };
        Self::finish_open(dir, machine, lock)
    }

    /// Opens the folder of any node.
    pub fn open(dir: &Path) -> Result<Self, StateDirError> {
        if !dir.join(MACHINE_FILE).exists() {
            return Err(StateDirError::NoMachine(dir.to_owned()));
        }
        let lock = lock(dir)?;
        let machine = read_machine(dir)?.ok_or_else(|| StateDirError::NoMachine(dir.to_owned()))?;
        Self::finish_open(dir, machine, lock)
    }

    fn finish_open(dir: &Path, machine: MachineRecord, lock: File) -> Result<Self, StateDirError> {
        let folder = Self { dir: dir.to_owned(), machine, _lock: lock };
        folder.finish_replacement()?;
        Ok(folder)
    }

    /// The node's identity, or `None` while it has no certificate.
    pub fn identity(&self) -> Result<Option<NodeIdentity>, StateDirError> {
        let parts =
            (self.read_entry(CA_FILE)?, self.read_entry(CERTIFICATE_FILE)?, self.read_entry(KEY_FILE)?);
        let (Some(authority), Some(certificate), Some(key)) = parts else { return Ok(None) };
        let server = self.machine.server.parse().map_err(|why| self.damaged_error(MACHINE_FILE, &why))?;
        Ok(Some(NodeIdentity { server, authority, certificate, key }))
    }

    /// Returns the stored key and request; `make` creates them if there are none.
    pub fn load_or_create_request<E: From<StateDirError>>(
        &self,
        make: impl FnOnce() -> Result<KeyAndRequest, E>,
    ) -> Result<KeyAndRequest, E> {
        self.load_or_create_in(KEY_FILE, REQUEST_FILE, make)
    }

    /// As [`StateDir::load_or_create_request`], for the next certificate.
    pub fn load_or_create_next_request<E: From<StateDirError>>(
        &self,
        make: impl FnOnce() -> Result<KeyAndRequest, E>,
    ) -> Result<KeyAndRequest, E> {
        self.load_or_create_in(NEXT_KEY_FILE, NEXT_REQUEST_FILE, make)
    }

    fn load_or_create_in<E: From<StateDirError>>(
        &self,
        key_file: &str,
        request_file: &str,
        make: impl FnOnce() -> Result<KeyAndRequest, E>,
    ) -> Result<KeyAndRequest, E> {
        if let (Some(key), Some(request)) = (self.read_entry(key_file)?, self.read_entry(request_file)?) {
            return Ok(KeyAndRequest { key, request });
        }
        let asked = make()?;
        // The request is written last: a key without a request is replaced.
        self.write_entry(key_file, &asked.key)?;
        self.write_entry(request_file, &asked.request)?;
        Ok(asked)
    }

    /// Stores the certificate last, because it completes the identity.
    pub fn save_certificate(&self, authority: &[u8], certificate: &[u8]) -> Result<(), StateDirError> {
        self.write_entry(CA_FILE, authority)?;
        self.write_entry(CERTIFICATE_FILE, certificate)
    }

    /// Replaces the certificate and key by the next ones.
    pub fn replace_certificate(&self, certificate: &[u8]) -> Result<(), StateDirError> {
        self.write_entry(NEXT_CERTIFICATE_FILE, certificate)?;
        self.finish_replacement()
    }

    /// Moves the next files into place once they are complete. The certificate moves last: while it exists, opening the
    /// folder after a crash completes the replacement.
    fn finish_replacement(&self) -> Result<(), StateDirError> {
        if !self.dir.join(NEXT_CERTIFICATE_FILE).exists() {
            return Ok(());
        }
        for (next, place) in [
            (NEXT_KEY_FILE, KEY_FILE),
            (NEXT_REQUEST_FILE, REQUEST_FILE),
            (NEXT_CERTIFICATE_FILE, CERTIFICATE_FILE),
        ] {
            match rename_durably(&self.dir.join(next), &self.dir.join(place)) {
                Err(StateDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                moved => moved?,
            }
        }
        Ok(())
    }

    /// Deletes the next request, so that a new one is made.
    pub fn remove_next_request(&self) -> Result<(), StateDirError> {
        [NEXT_CERTIFICATE_FILE, NEXT_REQUEST_FILE, NEXT_KEY_FILE]
            .into_iter()
            .try_for_each(|name| self.remove_entry(name))
    }

    /// Deletes key and certificate, so that the next join requests new ones.
    pub fn remove_credentials(&self) -> Result<(), StateDirError> {
        self.remove_next_request()?;
        [CERTIFICATE_FILE, REQUEST_FILE, KEY_FILE, CA_FILE]
            .into_iter()
            .try_for_each(|name| self.remove_entry(name))
    }

    /// Deletes the identity too.
    pub fn remove_all(self) -> Result<(), StateDirError> {
        self.remove_credentials()?;
        self.remove_entry(MACHINE_FILE)?;
        self.remove_entry(LOCK_FILE)?;
        // The folder stays if it contains other files.
        match fs::remove_dir(&self.dir) {
            Err(source) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(StateDirError::Io { path: self.dir.clone(), source })
            }
            _ => Ok(()),
        }
    }

    pub fn damaged_error(&self, name: &str, why: &impl ToString) -> StateDirError {
        StateDirError::Damaged { path: self.dir.join(name), why: why.to_string() }
    }

    fn read_entry(&self, name: &str) -> Result<Option<Vec<u8>>, StateDirError> {
        read(&self.dir.join(name))
    }

    fn write_entry(&self, name: &str, content: &[u8]) -> Result<(), StateDirError> {
        write(&self.dir.join(name), content)
    }

    fn remove_entry(&self, name: &str) -> Result<(), StateDirError> {
        let path = self.dir.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StateDirError::Io { path, source })
            }
            _ => Ok(()),
        }
    }
}

fn lock(dir: &Path) -> Result<File, StateDirError> {
    let path = dir.join(LOCK_FILE);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(|source| StateDirError::Io { path: path.clone(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(StateDirError::Locked(dir.to_owned())),
        Err(fs::TryLockError::Error(source)) => Err(StateDirError::Io { path, source }),
    }
}

fn read_machine(dir: &Path) -> Result<Option<MachineRecord>, StateDirError> {
    let path = dir.join(MACHINE_FILE);
    let Some(text) = read(&path)? else { return Ok(None) };
    let machine = serde_json::from_slice(&text);
    machine.map(Some).map_err(|error| StateDirError::Damaged { path, why: error.to_string() })
}

fn new_id(dir: &Path) -> Result<String, StateDirError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| StateDirError::Io {
        path: dir.to_owned(),
        source: io::Error::other(error.to_string()),
    })?;
    Ok(super::hex(&bytes))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StateDirError> {
    let failed = |source| StateDirError::Io { path: path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(StateDirError::InsecurePermissions { path: path.to_owned() });
    }
    fs::read(path).map(Some).map_err(failed)
}

/// Writes a file atomically and durably.
fn write(path: &Path, content: &[u8]) -> Result<(), StateDirError> {
    let failed = |source| StateDirError::Io { path: path.to_owned(), source };
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)?;
    rename_durably(&temporary, path)
}

/// Renames a file within its folder, durably.
fn rename_durably(file: &Path, path: &Path) -> Result<(), StateDirError> {
    let failed = |source| StateDirError::Io { path: path.to_owned(), source };
    fs::rename(file, path).map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}
