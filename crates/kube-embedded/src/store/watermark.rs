//! The high-water mark: the last acknowledged commit, in a separate file next to the store.
//!
//! After an unclean stop redb opens the previous root if the newest is damaged, and its header decides which root
//! is the newest. The store file alone cannot reveal either loss. The mark is synced after each commit and before the commit
//! is acknowledged, so a store file that ends before its mark has lost acknowledged writes.
//!
//! The file has two slots that are written alternately, each in its own block. A torn write damages only the slot of a
//! commit that was not acknowledged yet.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const SLOT: usize = 4096;
const SLOTS: u64 = 2;
const MAGIC: u64 = u64::from_le_bytes(*b"lsmark01");
const WORDS: usize = 5;

/// A commit of the store and the newest resourceVersion that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Commit {
    /// Counts all commits of the store, including commits of metadata, which has no resourceVersion.
    pub number: u64,
    pub version: u64,
}

impl Commit {
    fn to_slot(self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        let words = [MAGIC, self.number, self.version, !self.number, !self.version];
        for (bytes, word) in slot.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        slot
    }

    /// `None` if the slot was never written or is damaged.
    fn from_slot(slot: &[u8]) -> Option<Self> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(slot.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [magic, number, version, not_number, not_version] = words;
        (magic == MAGIC && number == !not_number && version == !not_version)
            .then_some(Self { number, version })
    }
}

/// The open watermark file.
#[derive(Debug)]
pub(super) struct Watermark {
    file: File,
}

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("store.mark")
}

impl Watermark {
    /// Reads the mark; `None` if there is no file. A file without a readable slot is an error.
    pub fn open(path: &Path) -> io::Result<Option<(Self, Commit)>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = fs::read(path)?;
        let newest = bytes.chunks(SLOT).filter_map(Commit::from_slot).max();
        let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "neither slot is readable");
        Ok(Some((Self { file }, newest.ok_or_else(unreadable)?)))
    }

    /// Creates the file with its final length under a temporary name and renames it, so that an existing mark is readable.
    pub fn create(path: &Path, commit: Commit) -> io::Result<Self> {
        let fresh = path.with_extension("mark.new");
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&fresh)?;
        for slot in 0..SLOTS {
            file.write_all_at(&commit.to_slot(), slot * SLOT as u64)?;
        }
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(Self { file })
    }

    /// Records a commit as acknowledged. Durable when it returns.
    pub fn advance(&self, commit: Commit) -> io::Result<()> {
        self.file.write_all_at(&commit.to_slot(), commit.number % SLOTS * SLOT as u64)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermark_survives_a_torn_write_of_one_slot() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = path(folder.path());
        assert!(Watermark::open(&path).unwrap().is_none());
        let mark = Watermark::create(&path, Commit::default()).unwrap();
        for number in 1..=5 {
            mark.advance(Commit { number, version: number * 10 }).unwrap();
        }
        let read = || Watermark::open(&path).map(|found| found.unwrap().1);
        assert_eq!(read().unwrap(), Commit { number: 5, version: 50 });
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 2 * SLOT);
        bytes[SLOT + 9] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read().unwrap(), Commit { number: 4, version: 40 });
        bytes[9] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
