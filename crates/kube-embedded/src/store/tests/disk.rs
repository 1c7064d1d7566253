//! Tests of the store file: what survives a restart, and the errors of damaged or unavailable files.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use redb::{Database, StorageBackend};
use tempfile::TempDir;

use super::super::file;
use super::*;

fn open(folder: &TempDir) -> Result<Arc<Store>, OpenError> {
    Store::open(folder.path(), Options::default())
}

#[tokio::test]
async fn acknowledged_writes_survive_reopening_and_history_restarts() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    let long = "long ".repeat(2000);
    store.commit(vec![create("a"), create("b")]).await.unwrap();
    store.commit(vec![update("b", 2, &long), delete("a", 1)]).await.unwrap();
    store.put_meta("ca", b"pem").await.unwrap();
    let before = store.get("configmaps", "n", "b").unwrap();
    drop(store);

    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.path().to_owned()), 0o700);
    assert_eq!(mode(folder.path().join("store.redb")), 0o600);

    let store = open(&folder).unwrap();
    let after = store.get("configmaps", "n", "b").unwrap();
    assert_eq!((after.version, &after.bytes), (3, &before.bytes));
    assert_eq!(names(&store.list("configmaps", None)), [("b".to_owned(), 3)]);
    assert_eq!((store.version(), store.get_meta("ca").as_deref()), (4, Some(&b"pem"[..])));
    assert_eq!(store.watch("configmaps", 3).err(), Some(TooOld { oldest: 4 }));
    assert!(store.list_at("configmaps", None, 3).is_err());
    let mut watch = store.watch("configmaps", 4).unwrap();
    store.commit(vec![create("c")]).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].version, 5);
}

#[tokio::test]
async fn relaxed_durability_loses_nothing_when_the_store_is_closed() {
    let folder = TempDir::new().unwrap();
    let options = || Options { durability: Durability::Relaxed, ..Options::default() };
    let store = Store::open(folder.path(), options()).unwrap();
    for n in 0..50 {
        store.commit(vec![create(&format!("a{n}"))]).await.unwrap();
    }
    drop(store);
    assert_eq!(Store::open(folder.path(), options()).unwrap().list("configmaps", None).objects.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_a_commit() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    let names: Vec<_> = (0..300).map(|n| format!("a{n}")).collect();
    let results = join_all(names.iter().map(|name| store.commit(vec![create(name)]))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(store.version(), 300);
    assert!(store.groups() <= 30, "300 transactions took {} commits", store.groups());

    // One write of each pair conflicts; the others succeed.
    let twice = names[..50].iter().chain(&names[..50]);
    let results = join_all(twice.enumerate().map(|(at, name)| {
        let version = store.get("configmaps", "n", name).unwrap().version;
        store.commit(vec![update(name, version, &at.to_string())])
    }))
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 50);
    assert_eq!(store.version(), 350);
}

#[tokio::test]
async fn a_file_that_is_mostly_empty_shrinks_when_it_is_opened() {
    let folder = TempDir::new().unwrap();
    let length = || fs::metadata(folder.path().join("store.redb")).unwrap().len();
    let store = open(&folder).unwrap();
    store.commit((0..12).map(|n| create(&format!("a{n}"))).collect()).await.unwrap();
    for n in 1..12 {
        // Non-repeating digits, which do not compress.
        let long: String =
            (0..60_000_u64).map(|i| (i * n).wrapping_mul(6_364_136_223_846_793_005).to_string()).collect();
        let name = format!("a{n}");
        let made = store.commit(vec![update(&name, n + 1, &long)]).await.unwrap();
        store.commit(vec![delete(&name, made[0].version)]).await.unwrap();
    }
    let version = store.version();
    drop(store);
    let before = length();
    let store = open(&folder).unwrap();
    assert_eq!(
        (names(&store.list("configmaps", None)), store.version()),
        (vec![("a0".to_owned(), 1)], version)
    );
    drop(store);
    assert!(length() < before / 2, "{before} bytes became {}", length());
}

#[test]
fn second_open_fails_with_folder_in_use() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, OpenError::InUse { .. }));
    assert!(refused.to_string().contains(folder.path().to_str().unwrap()));
    drop(store);
    assert!(open(&folder).is_ok());
}

/// A function that damages the closed file of a small store.
type Damage = fn(&mut Vec<u8>);

#[tokio::test]
async fn damaged_file_is_reported_and_never_replaced() {
    let damages: [(&str, Damage); 6] = [
        ("emptied", Vec::clear),
        ("cut in half", |bytes| bytes.truncate(bytes.len() / 2)),
        ("cut to its head", |bytes| bytes.truncate(100)),
        ("something else", |bytes| *bytes = b"not a database at all".repeat(100)),
        ("zeroed", |bytes| bytes.fill(0)),
        ("with a changed letter", |bytes| {
            let wanted = b"needle in the hay";
            let places: Vec<_> =
                (0..bytes.len() - wanted.len()).filter(|at| bytes[*at..].starts_with(wanted)).collect();
            assert!(!places.is_empty());
            for at in places {
                bytes[at] = b'N';
            }
            // redb verifies only files that were not closed; this byte of its header marks that.
            bytes[9] = (bytes[9] | 2) & !4;
        }),
    ];
    for (how, damage) in damages {
        let folder = TempDir::new().unwrap();
        let store = open(&folder).unwrap();
        for n in 0..20 {
            store.commit(vec![create(&format!("a{n}"))]).await.unwrap();
        }
        store.commit(vec![update("a0", 1, "needle in the hay")]).await.unwrap();
        drop(store);
        let file = folder.path().join("store.redb");
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        let Err(refused) = open(&folder) else { panic!("a file {how} was opened") };
        assert!(matches!(refused, OpenError::Damaged { .. }), "{how}: {refused:?}");
        assert!(refused.to_string().contains(file.to_str().unwrap()), "{how}: {refused}");
        assert_eq!(fs::read(&file).unwrap().len(), bytes.len(), "{how}: the file was touched");
        let Err(again) = open(&folder) else { panic!("a file {how} was opened the second time") };
        assert!(matches!(again, OpenError::Damaged { .. }), "{how}: {again:?}");
    }
}

#[tokio::test]
async fn a_file_of_another_format_is_refused() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    store.put_meta("format", b"7").await.unwrap();
    drop(store);
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, OpenError::OtherFormat { .. }));
    assert!(refused.to_string().contains("format 7"), "{refused}");

    let folder = TempDir::new().unwrap();
    drop(Database::create(folder.path().join("store.redb")).unwrap());
    assert!(matches!(open(&folder), Err(OpenError::Damaged { .. })), "a redb file of somebody else");
}

/// An in-memory disk with faults on demand: failing writes, or only failing syncs.
#[derive(Clone, Debug, Default)]
struct FaultyDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    no_writes: Arc<AtomicBool>,
    no_sync: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
}

impl FaultyDisk {
    fn check(flag: &AtomicBool) -> io::Result<()> {
        if flag.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes.lock()[offset..offset + out.len()]);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::check(&self.no_writes)?;
        self.bytes.lock().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Self::check(&self.no_sync)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Self::check(&self.no_writes)?;
        self.writes.fetch_add(1, Ordering::SeqCst);
        let offset = usize::try_from(offset).unwrap();
        self.bytes.lock()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn initialise_disk(disk: impl StorageBackend) {
    let database = Database::builder().create_with_backend(disk).unwrap();
    file::initialise(&database).unwrap();
}

fn open_disk<B: StorageBackend + Clone>(disk: &B) -> (file::Disk, file::StoreContents) {
    let disk = disk.clone();
    file::Disk::with_backend(move || Ok(disk.clone()), Path::new("disk")).unwrap()
}

#[tokio::test]
async fn failed_write_changes_nothing_and_is_retried() {
    let disk = FaultyDisk::default();
    initialise_disk(disk.clone());
    let (file, contents) = open_disk(&disk);
    let store = Store::start(Some(file), contents, Options::default());
    store.commit(vec![create("a"), create("b")]).await.unwrap();

    disk.no_writes.store(true, Ordering::SeqCst);
    let mut watch = store.watch("configmaps", 2).unwrap();
    for change in [create("c"), update("a", 1, "new"), delete("b", 2)] {
        let refused = store.commit(vec![change]).await;
        assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
    }
    assert!(!store.is_writable());
    assert_eq!(names(&store.list("configmaps", None)), [("a".to_owned(), 1), ("b".to_owned(), 2)]);

    disk.no_writes.store(false, Ordering::SeqCst);
    store.commit(vec![create("d")]).await.unwrap();
    assert!(store.is_writable());
    let seen = watch.next().await.unwrap();
    assert_eq!((seen.len(), seen[0].object.name.as_ref(), seen[0].version), (1, "d", 3));
    let expected = names(&store.list("configmaps", None));
    // Fails once more and is closed before another write: the refused write does not come back.
    disk.no_writes.store(true, Ordering::SeqCst);
    assert!(store.commit(vec![create("e")]).await.is_err());
    disk.no_writes.store(false, Ordering::SeqCst);
    drop((store, watch));
    let (_, contents) = open_disk(&disk);
    let state = StoreState::from_contents(contents, None);
    assert_eq!((state.version, names(&state.list("configmaps", None))), (3, expected));
}

#[tokio::test]
async fn failed_fsync_stops_all_writes_and_is_reported() {
    let disk = FaultyDisk::default();
    initialise_disk(disk.clone());
    let (file, contents) = open_disk(&disk);
    let store = Store::start(Some(file), contents, Options::default());
    store.commit(vec![create("a")]).await.unwrap();
    let failed = store.wait_until_failed();
    disk.no_sync.store(true, Ordering::SeqCst);
    let outcome = store.commit(vec![create("b")]).await;
    assert!(matches!(outcome, Err(CommitError::OutcomeUnknown(_))), "{outcome:?}");
    failed.await;
    // The disk seems to work again, but the lost content is unknown.
    disk.no_sync.store(false, Ordering::SeqCst);
    let refused = store.commit(vec![create("c")]).await;
    assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{refused:?}");
    assert!(!store.is_writable());
    let written = disk.writes.load(Ordering::SeqCst);
    drop(store);
    assert_eq!(disk.writes.load(Ordering::SeqCst), written, "closing wrote once more");
    let (_, contents) = open_disk(&disk);
    assert!(StoreState::from_contents(contents, None).get("configmaps", "n", "a").is_some());
}

#[tokio::test]
async fn document_above_write_limit_stays_readable() {
    // A store of an earlier release may hold documents above today's limit.
    let text: Vec<u8> =
        [br#"{"metadata":{"resourceVersion":""},"data":""#.as_slice(), &vec![b'x'; 70 << 20], br#""}"#]
            .concat();
    let record = file::Record::encode(&text, 32);
    let object = file::Record::read(record.bytes()).unwrap();
    assert_eq!(object.bytes.len(), text.len() + 1);
    assert!(
        file::Record::read(&[record.bytes()[..12].to_vec(), vec![0xff; 8]].concat()).is_err(),
        "damage is found"
    );
}

/// A disk with a volatile cache: reads see every write, but unsynced writes may be lost, in any order.
#[derive(Clone, Debug, Default)]
struct VolatileDisk(Arc<Mutex<VolatileBytes>>);

#[derive(Debug, Default)]
struct VolatileBytes {
    visible: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl VolatileDisk {
    /// Returns the disk after a power cut: `seed` decides for each write since the last sync whether it was persisted.
    fn after_power_cut(&self, mut seed: u64) -> Self {
        let cached = self.0.lock();
        let mut durable = cached.durable.clone();
        for (offset, data) in &cached.unsynced {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if seed >> 63 == 1 {
                let end = offset + data.len();
                if durable.len() < end {
                    durable.resize(end, 0);
                }
                durable[*offset..end].copy_from_slice(data);
            }
        }
        Self(Arc::new(Mutex::new(VolatileBytes { visible: durable.clone(), durable, unsynced: Vec::new() })))
    }
}

impl StorageBackend for VolatileDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().visible.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.lock().visible[offset..offset + out.len()]);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        // The file system's journal preserves the length.
        let (mut cached, len) = (self.0.lock(), usize::try_from(len).unwrap());
        cached.visible.resize(len, 0);
        cached.durable.resize(len, 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let mut cached = self.0.lock();
        let seen = cached.visible.clone();
        cached.durable = seen;
        cached.unsynced.clear();
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (mut cached, offset) = (self.0.lock(), usize::try_from(offset).unwrap());
        cached.visible[offset..offset + data.len()].copy_from_slice(data);
        cached.unsynced.push((offset, data.to_vec()));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_power_cut() {
    let mut disk = VolatileDisk::default();
    initialise_disk(disk.clone());
    let mut acknowledged: Vec<String> = Vec::new();
    let mut newest = 0;
    for round in 0..25_u64 {
        let (file, contents) = open_disk(&disk);
        let store = Store::start(Some(file), contents, Options::default());
        assert!(store.version() >= newest, "the store went back from {newest} to {}", store.version());
        for name in &acknowledged {
            assert!(store.get("configmaps", "n", name).is_some(), "round {round} lost {name}");
            let twin = format!("{name}-twin");
            assert!(store.get("configmaps", "n", &twin).is_some(), "round {round} kept half of {name}");
        }
        for n in 0..4 {
            let name = format!("r{round}-{n}");
            let made = store.commit(vec![create(&name), create(&format!("{name}-twin"))]).await.unwrap();
            newest = made[1].version;
            acknowledged.push(name);
        }
        // The power fails during further writes.
        let unanswered = (0..8).map(|n| store.commit(vec![create(&format!("r{round}-late-{n}"))]));
        let (_, cut) = tokio::join!(join_all(unanswered), async {
            tokio::time::sleep(std::time::Duration::from_micros(round * 200)).await;
            disk.after_power_cut(round)
        });
        drop(store);
        disk = cut;
    }
}
