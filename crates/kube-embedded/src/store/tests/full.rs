//! Tests of a full disk, on a small tmpfs.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A tmpfs that is unmounted on drop.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None` if this process may not mount.
    fn mount(mib: u32) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let size = format!("size={mib}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            // Not `eprintln!`: the test harness captures its output.
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "skipped: {test}: mounting a tmpfs is not permitted");
            return None;
        }
        Some(Self(folder))
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Fills all free space with a file.
    fn fill(&self) -> PathBuf {
        self.fill_with("filler")
    }

    /// Fills the space that others have released since.
    fn fill_released(&self) {
        self.fill_with("rest");
    }

    fn fill_with(&self, name: &str) -> PathBuf {
        let file = self.0.path().join(name);
        let mut size = 1 << 20;
        let mut bytes = Vec::new();
        while size >= 4096 {
            bytes.resize(bytes.len() + size, 1);
            if fs::write(&file, &bytes).is_err() {
                bytes.truncate(bytes.len() - size);
                size /= 2;
            }
        }
        let _ = fs::write(&file, &bytes);
        file
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Returns text that does not compress.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state >> 59).unwrap() % 26)
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn put(name: &str, seed: u64, length: usize) -> Change {
    Change { key: key(name), expect: Expect::Absent, op: Op::Put(document(name, &noise(seed, length))) }
}

#[tokio::test]
async fn full_disk_still_opens_serves_reads_and_accepts_deletions() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let open = || Store::open(&disk.data(), Options::default()).unwrap();
    let store = open();
    let (mut made, mut filler) = (Vec::new(), None);
    let refused = loop {
        let (name, n) = (format!("a{}", made.len()), made.len() as u64);
        match store.commit(vec![put(&name, n, 200_000)]).await {
            Ok(done) => made.push((name, done[0].version)),
            Err(refused) => break refused,
        }
        if made.len() == 20 {
            filler = Some(disk.fill());
        }
    };
    assert!(matches!(refused, CommitError::Unavailable(_)), "{refused:?}");
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    assert!(!store.is_writable());
    drop(store);
    let filler = filler.unwrap();
    disk.fill_released();

    let store = open();
    assert_eq!(store.list("configmaps", None).objects.len(), made.len(), "reads are served");
    for (name, version) in made.drain(..6) {
        store.commit(vec![delete(&name, version)]).await.unwrap();
    }
    // A finalizer delays the removal: the object is marked first.
    let (name, version) = made.pop().unwrap();
    let mut marked = document(&name, "");
    marked["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let change = Change { key: key(&name), expect: Expect::Version(version), op: Op::Put(marked) };
    store.commit(vec![change]).await.unwrap();
    // A removal admits less than half of its bytes.
    store.commit(vec![put("small", 99, 1_000)]).await.unwrap();
    drop(store);

    let store = open();
    assert_eq!(store.list("configmaps", None).objects.len(), made.len() + 2);
    fs::remove_file(filler).unwrap();
    let begun = std::time::Instant::now();
    while !store.is_writable() {
        assert!(begun.elapsed().as_secs() < 10, "{:?}", store.problem());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    store.commit(vec![put("large", 100, 300_000)]).await.unwrap();
}

#[tokio::test]
async fn starting_server_may_write_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let open = || Store::open(&disk.data(), Options::default()).unwrap();
    let store = open();
    store.commit(vec![create("a")]).await.unwrap();
    drop(store);
    let _filler = disk.fill();
    let store = open();
    store.set_starting(true);
    for n in 0..20 {
        store.commit(vec![put(&format!("b{n}"), n, 10_000)]).await.unwrap();
    }
    store.set_starting(false);
    let mut refused = None;
    for n in 0..1_000 {
        refused = store.commit(vec![put(&format!("c{n}"), n, 10_000)]).await.err();
        if refused.is_some() {
            break;
        }
    }
    assert!(matches!(refused, Some(CommitError::Unavailable(_))), "{refused:?}");
    let found = store.get("configmaps", "n", "b0").unwrap();
    store.commit(vec![delete("b0", found.version)]).await.unwrap();
}
