//! The reserve: disk space that is released when the disk is full, so that a store still opens and accepts deletions.
//!
//! While the reserve is not complete the store is *low*: a transaction is admitted only if it removes something, or if earlier
//! removals freed enough space inside the store file ([`SpaceAdmission`]). The reserve is refilled when the disk has space again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::{Event, EventKind};

/// A deletion writes a few pages of the store file; redb reuses released pages two commits later.
const RESERVE_SIZE: u64 = 4 << 20;
const RELEASE_STEP: u64 = 512 << 10;
/// Free space required beyond the reserve before the store stops being low.
const HEADROOM: u64 = RELEASE_STEP;
/// Growth that a removal may cause: conditions, a deletion timestamp, a quota's usage.
const MAX_GROWTH_OF_REMOVAL: u64 = 4096;

/// The reserve file.
#[derive(Debug)]
pub(super) struct Reserve {
    file: File,
    length: u64,
}

impl Reserve {
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let file = options.open(folder.join("store.reserve"))?;
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    pub fn is_full(&self) -> bool {
        self.length == RESERVE_SIZE
    }

    /// Allocates the missing space. On an error the reserve is as before.
    pub fn fill(&mut self) -> io::Result<()> {
        let filled = self.extend(RESERVE_SIZE + HEADROOM);
        let length = if filled.is_ok() { RESERVE_SIZE } else { self.length.min(RESERVE_SIZE) };
        self.file.set_len(length)?;
        self.length = length;
        filled
    }

    fn extend(&self, end: u64) -> io::Result<()> {
        // Bytes that neither compress nor repeat, so that the file system allocates real blocks.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut block = [0; 4096];
        for bytes in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes());
        }
        let mut at = self.length.min(end) / 4096 * 4096;
        while at < end {
            block[..8].copy_from_slice(&at.to_le_bytes());
            self.file.write_all_at(&block, at)?;
            at += 4096;
        }
        Ok(())
    }

    /// Releases a part to the disk; `false` if nothing is left.
    pub fn release(&mut self) -> io::Result<bool> {
        if self.length == 0 {
            return Ok(false);
        }
        let length = self.length.saturating_sub(RELEASE_STEP);
        self.file.set_len(length)?;
        self.length = length;
        Ok(true)
    }
}

/// Admission of transactions on a full disk. Pure: no I/O, no clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpaceAdmission {
    pub is_low: bool,
    /// While low: half of the bytes that removals have freed, minus the bytes written since.
    credit: u64,
}

impl SpaceAdmission {
    pub fn set_low(&mut self) {
        *self = Self { is_low: true, credit: 0 };
    }

    /// Whether a transaction of these events may be written. If so, it is counted.
    pub fn admit<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> bool {
        if !self.is_low {
            return true;
        }
        let (mut freed, mut grown, mut removes) = (0_u64, 0_u64, false);
        for event in events {
            let before = event.previous.as_ref().map_or(0, |object| object.bytes.len() as u64);
            if event.kind == EventKind::Deleted {
                (freed, removes) = (freed.saturating_add(before), true);
                continue;
            }
            let after = event.object.bytes.len() as u64;
            removes |= event.object.is_deleting;
            freed = freed.saturating_add(before.saturating_sub(after));
            grown = grown.saturating_add(after.saturating_sub(before));
        }
        let admitted = (removes && grown <= MAX_GROWTH_OF_REMOVAL) || grown < self.credit;
        if admitted {
            self.credit = self.credit.saturating_add(freed / 2).saturating_sub(grown);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::Object;
    use super::*;

    fn event(kind: EventKind, before: usize, after: usize) -> Event {
        let object =
            |length: usize| Arc::new(Object::new(json!({"metadata": {}, "data": "x".repeat(length)}), 1));
        let previous = (kind != EventKind::Added).then(|| object(before));
        Event { version: 1, kind, object: object(after), previous }
    }

    #[test]
    fn low_space_admits_removals_and_writes_within_freed_bytes() {
        let mut space = SpaceAdmission::default();
        let create = event(EventKind::Added, 0, 10_000);
        let delete = event(EventKind::Deleted, 100_000, 0);
        assert!(space.admit([&create].into_iter()));
        space.set_low();
        assert!(!space.admit([&create].into_iter()));
        assert!(!space.admit([&event(EventKind::Modified, 10, 5_000)].into_iter()));
        assert!(!space.admit([&delete, &create].into_iter()), "a removal as a pretext");
        assert!(space.admit([&delete].into_iter()));
        assert!(space.admit([&create].into_iter()), "50 kB were freed");
        assert_eq!((0..10).filter(|_| space.admit([&create].into_iter())).count(), 3);
    }

    #[test]
    fn reserve_is_released_in_steps_and_refilled() {
        let folder = tempfile::TempDir::new().unwrap();
        let mut reserve = Reserve::open(folder.path()).unwrap();
        reserve.fill().unwrap();
        assert!(reserve.is_full());
        let steps = std::iter::from_fn(|| reserve.release().unwrap().then_some(())).count();
        assert_eq!(steps as u64, RESERVE_SIZE / RELEASE_STEP);
        assert_eq!(folder.path().join("store.reserve").metadata().unwrap().len(), 0);
        reserve.fill().unwrap();
        assert!(Reserve::open(folder.path()).unwrap().is_full());
    }
}
