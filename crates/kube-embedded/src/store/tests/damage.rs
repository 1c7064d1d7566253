//! Damaged store files: flipped bytes after an unclean stop, and a file that is missing, unlinked, replaced or truncated.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

const FLIPS: u64 = 200;

fn open(folder: &TempDir) -> Result<Arc<Store>, OpenError> {
    Store::open(folder.path(), Options::default())
}

fn store_file(folder: &TempDir) -> PathBuf {
    folder.path().join("store.redb")
}

/// Copies the files of an open store, as a killed process would leave them.
fn copy_files(folder: &TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("store."))
        .map(|path| (PathBuf::from(path.file_name().unwrap()), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn byte_flips_after_a_kill_are_refused_or_harmless() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    for n in 0..30 {
        store.commit(vec![create(&format!("a{n}"))]).await.unwrap();
    }
    let before = fs::read(store_file(&folder)).unwrap();
    let last = store.commit(vec![update("a0", 1, "the last acknowledged write")]).await.unwrap();
    let newest = last[0].version;
    let files = copy_files(&folder);
    drop(store);
    let (at_store, _) = files.iter().enumerate().find(|(_, file)| file.0.ends_with("store.redb")).unwrap();
    let after = &files[at_store].1;
    // The bytes that the last commit wrote, and the file header.
    let changed: Vec<usize> =
        (0..after.len()).filter(|at| *at < 512 || before.get(*at) != Some(&after[*at])).collect();
    let mut seed = 7_u64;
    let mut served = 0;
    for flip in 0..FLIPS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = changed[usize::try_from(seed >> 33).unwrap() % changed.len()];
        let bit = 1_u8 << (seed >> 20 & 7);
        let copy = TempDir::new().unwrap();
        for (name, bytes) in &files {
            let mut bytes = bytes.clone();
            if name.ends_with("store.redb") {
                bytes[at] ^= bit;
            }
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        for attempt in 0..2 {
            match open(&copy) {
                Err(OpenError::Damaged { .. } | OpenError::Behind { .. } | OpenError::OtherFormat { .. }) => {
                }
                Err(other) => panic!("flip {flip} of bit {bit} at {at}, attempt {attempt}: {other:?}"),
                Ok(store) => {
                    served += 1;
                    let object = store.get("configmaps", "n", "a0").unwrap();
                    assert_eq!(
                        (store.version(), object.value()["data"].as_str()),
                        (newest, Some("the last acknowledged write")),
                        "flip {flip} of bit {bit} at {at} dropped the last write"
                    );
                    assert_eq!(store.list("configmaps", None).objects.len(), 30);
                }
            }
        }
    }
    assert!(served < 2 * FLIPS, "no flip was noticed");
}

#[tokio::test]
async fn lost_commit_is_refused_until_the_loss_is_accepted_and_no_version_is_reissued() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    store.commit(vec![create("a")]).await.unwrap();
    let older = copy_files(&folder);
    store.commit(vec![create("b")]).await.unwrap();
    store.put_meta("fact", b"1").await.unwrap();
    let newest = store.version();
    drop(store);
    let (_, bytes) = older.iter().find(|file| file.0.ends_with("store.redb")).unwrap();
    fs::write(store_file(&folder), bytes).unwrap();

    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, OpenError::Behind { found: 1, acknowledged: 2, .. }), "{refused:?}");
    assert!(refused.to_string().contains("remove `"), "{refused}");
    assert!(open(&folder).is_err(), "the second attempt");

    fs::remove_file(folder.path().join("store.mark")).unwrap();
    let store = open(&folder).unwrap();
    assert!(store.version() > newest + 1_000_000, "{}", store.version());
    let made = store.commit(vec![create("c")]).await.unwrap();
    let continued = made[0].version;
    drop(store);
    assert_eq!(open(&folder).unwrap().version(), continued, "the gap is made once");
}

#[tokio::test]
async fn loss_of_a_commit_without_objects_is_noticed() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder).unwrap();
    store.commit(vec![create("a")]).await.unwrap();
    let older = fs::read(store_file(&folder)).unwrap();
    store.put_meta("fact", b"1").await.unwrap();
    drop(store);
    fs::write(store_file(&folder), older).unwrap();
    assert!(matches!(open(&folder), Err(OpenError::Behind { .. })));
}

#[tokio::test]
async fn missing_store_file_is_not_replaced_by_an_empty_one() {
    let folder = TempDir::new().unwrap();
    let must_exist = || Store::open(folder.path(), Options { must_exist: true, ..Options::default() });
    assert!(matches!(must_exist(), Err(OpenError::Missing { .. })), "a folder with other files of a cluster");
    let store = open(&folder).unwrap();
    store.commit(vec![create("a")]).await.unwrap();
    drop(store);
    let away = folder.path().join("elsewhere");
    fs::rename(store_file(&folder), &away).unwrap();
    let refused = open(&folder).err().unwrap();
    assert!(matches!(refused, OpenError::Missing { .. }), "{refused:?}");
    assert!(refused.to_string().contains("restore it from a backup, or start with an empty data folder"));
    assert!(!store_file(&folder).exists());
    fs::rename(&away, store_file(&folder)).unwrap();
    assert!(must_exist().unwrap().get("configmaps", "n", "a").is_some());
}

#[test]
fn interrupted_creation_is_repeated() {
    let folder = TempDir::new().unwrap();
    drop(open(&folder).unwrap());
    // The mark is created first: without the store file nothing has been acknowledged.
    fs::remove_file(store_file(&folder)).unwrap();
    assert_eq!(open(&folder).unwrap().version(), 0);
}

#[tokio::test]
async fn writes_stop_when_the_store_file_is_unlinked_replaced_or_truncated() {
    type Fault = fn(&PathBuf);
    let faults: [(&str, Fault); 3] = [
        ("deleted", |file| fs::remove_file(file).unwrap()),
        ("replaced", |file| {
            let copy = file.with_extension("copy");
            fs::copy(file, &copy).unwrap();
            fs::rename(&copy, file).unwrap();
        }),
        ("truncated", |file| fs::File::options().write(true).open(file).unwrap().set_len(4096).unwrap()),
    ];
    for (word, fault) in faults {
        for commits_first in [true, false] {
            let folder = TempDir::new().unwrap();
            let store = open(&folder).unwrap();
            store.commit(vec![create("a")]).await.unwrap();
            fault(&store_file(&folder));
            if commits_first {
                let refused = store.commit(vec![create("b")]).await;
                assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{word}: {refused:?}");
            }
            let begun = Instant::now();
            while store.is_writable() {
                assert!(begun.elapsed() < Duration::from_secs(5), "{word}: not noticed within 5 s");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(store.problem().unwrap().contains(word), "{word}: {:?}", store.problem());
            let refused = store.commit(vec![create("c")]).await;
            assert!(matches!(refused, Err(CommitError::Unavailable(_))), "{word}: {refused:?}");
            assert!(store.get("configmaps", "n", "a").is_some(), "{word}: reads go on");
        }
    }
}

#[tokio::test]
async fn store_survives_a_panic_on_its_thread() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "injected");
        }
    }
    let folder = TempDir::new().unwrap();
    for store in [Store::in_memory(), open(&folder).unwrap()] {
        let lost = store.commit_with_guard(vec![create("a")], Panics).await;
        assert!(matches!(lost, Err(CommitError::OutcomeUnknown(_))), "{lost:?}");
        store.commit(vec![create("b")]).await.unwrap();
        assert!(store.is_writable() && store.get("configmaps", "n", "a").is_some());
    }
}
