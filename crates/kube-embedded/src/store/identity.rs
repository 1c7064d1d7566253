//! The identity of the open store file: whether the path still names the open file, at its full length.
//!
//! Writes to an unlinked or replaced file are lost at a restart, and a truncated file has lost pages.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The open file, and the path that must name it.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    file: File,
    device: u64,
    inode: u64,
    /// The length that the database has set. Never above the real length while the file is resized.
    length: Arc<AtomicU64>,
}

impl FileIdentity {
    pub fn new(path: PathBuf, file: File, length: Arc<AtomicU64>) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self { path, device: found.dev(), inode: found.ino(), file, length })
    }

    /// Errors name the cause and the fix.
    pub fn check(&self) -> Result<(), String> {
        let file = self.path.display();
        let copy = "stop the server and restore the file from a backup";
        match fs::metadata(&self.path) {
            Err(error) => Err(format!("`{file}` was deleted while it is open ({error}); {copy}")),
            Ok(found) if (found.dev(), found.ino()) != (self.device, self.inode) => Err(format!(
                "`{file}` was replaced while it is open; stop the server before files are restored"
            )),
            Ok(_) => match self.file.metadata() {
                Err(error) => Err(format!("`{file}` cannot be examined ({error}); {copy}")),
                Ok(open) if open.len() < self.length.load(Ordering::SeqCst) => {
                    Err(format!("`{file}` was truncated to {} bytes while it is open; {copy}", open.len()))
                }
                Ok(_) => Ok(()),
            },
        }
    }
}
