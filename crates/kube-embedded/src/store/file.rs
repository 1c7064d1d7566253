//! The store file: one redb database in the data folder.
//!
//! Only the sequencer writes it, one transaction per group of changes. JSON is parsed only when the file is opened.
//! Invariant: the newest version and the objects that carry it are in one transaction, so a torn last group disappears as a whole.
//!
//! After a failed write redb requires the database to be reopened, and the failed write may still have reached the disk.
//! So the next write reopens the database and first restores those keys from memory.
//!
//! After a failed sync nothing more is written: the kernel may have dropped pages that it still shows as written, and
//! only a new process reads the real content of the disk.
//!
//! A cleanly closed file is not verified when it is opened. After a crash redb verifies it, and falls back to
//! the previous commit if the newest is damaged. Each commit has a number, and [`Watermark`] holds the last acknowledged
//! one: a file that ends before it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageBackend, StorageError,
    TableDefinition,
};

use super::Key;
use super::identity::FileIdentity;
use super::object::{Draft, Object};
use super::reserve::Reserve;
use super::watermark::{self, Commit, Watermark};

/// Maps storage, namespace and name to a [`Record`].
const OBJECTS: TableDefinition<(&str, &str, &str), &[u8]> = TableDefinition::new("objects");
/// Metadata of the store itself.
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");

const FORMAT: &str = "1";
const FORMAT_KEY: &str = "format";
const VERSION_KEY: &str = "version";
/// The number of the commit.
const COMMIT_KEY: &str = "commit";
/// Added to the version when the mark is missing, because higher versions may have been issued: the same as
/// `etcdutl snapshot restore --bump-revision`.
const VERSION_GAP: u64 = 1_000_000_000;

/// Longer documents are compressed.
const COMPRESSION_THRESHOLD: usize = 1024;
/// The largest ratio of LZ4: a longer length in a record means damage. Reading has no other limit,
/// because acknowledged objects must stay readable.
const MAX_COMPRESSION_RATIO: usize = 255;

/// Half a second in total before a folder counts as in use.
const MAX_LOCK_ATTEMPTS: usize = 10;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A file above this size is compacted when it is opened, if less than a third of it is in use, or less than three quarters on a
/// full disk.
const COMPACTION_THRESHOLD: u64 = 4 << 20;

/// Error of opening a data folder.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("data folder `{folder}` is in use by another process; stop that one, or choose another folder")]
    InUse { folder: PathBuf },
    #[error("cannot prepare data folder `{folder}`")]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "`{file}` is damaged or is not a store ({detail}); restore it from a backup, or move it away to begin with an empty store"
    )]
    Damaged { file: PathBuf, detail: String },
    #[error(
        "`{file}` has format {found}, and this program reads format {FORMAT}; open it with the version that wrote it, or move it away to begin with an empty store"
    )]
    OtherFormat { file: PathBuf, found: String },
    #[error(
        "`{file}` is missing, but the data folder belongs to a cluster that had one; restore it from a backup, or start with an empty data folder"
    )]
    Missing { file: PathBuf },
    #[error(
        "`{file}` has lost acknowledged writes: it ends at resourceVersion {found}, and {acknowledged} was acknowledged; restore the newest backup of the data folder, or remove `{mark}` to accept the loss (resourceVersions then continue after a gap)"
    )]
    Behind { file: PathBuf, mark: PathBuf, found: u64, acknowledged: u64 },
    #[error("cannot read or write `{file}`")]
    Io { file: PathBuf, source: io::Error },
}

/// The encoding of one object in the file: version, offset of the version's digits, length of the text if it is
/// compressed (else 0), text. The writer's task encodes it; the sequencer fills in the version.
#[derive(Debug)]
pub(super) struct Record(Vec<u8>);

const RECORD_HEADER_LEN: usize = 16;

impl Record {
    pub fn encode(text: &[u8], gap: usize) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&number(gap));
        if text.len() > COMPRESSION_THRESHOLD {
            bytes.extend_from_slice(&number(text.len()));
            bytes.extend_from_slice(&lz4_flex::block::compress(text));
        } else {
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(text);
        }
        Self(bytes)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn set_version(&mut self, version: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&version.to_le_bytes());
        &self.0
    }

    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn read(bytes: &[u8]) -> Result<Object, String> {
        let (head, body) = bytes.split_at_checked(RECORD_HEADER_LEN).ok_or("it is cut off")?;
        let version = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        let number =
            |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")) as usize;
        let (gap, length) = (number(8), number(12));
        let text = match length {
            0 => body.to_vec(),
            _ if length > body.len().saturating_mul(MAX_COMPRESSION_RATIO) => {
                return Err(format!("it claims {length} bytes"));
            }
            _ => lz4_flex::block::decompress(body, length).map_err(|error| error.to_string())?,
        };
        Ok(Draft::from_text(text, gap)?.finish(version))
    }
}

/// One write of a transaction.
pub(super) enum WriteOp<'a> {
    Put(&'a Key, u64, &'a mut Record),
    Remove(&'a Key),
    Meta(&'a str, &'a [u8]),
}

impl WriteOp<'_> {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::Put(key, ..) | Self::Remove(key) => Some(key),
            Self::Meta(..) => None,
        }
    }
}

/// The content of a file.
#[derive(Default)]
pub(super) struct StoreContents {
    pub version: u64,
    pub objects: Vec<(Key, Object)>,
    pub meta: BTreeMap<String, Box<[u8]>>,
    /// The number of the last commit; `None` in a file of an older release that did not count commits.
    commit: Option<u64>,
    /// The bytes of the file that objects take.
    object_bytes: u64,
}

/// Page cache of redb. Nothing is read from the file once it is open, so it needs to hold only the inner pages
/// that each write traverses.
const PAGE_CACHE: usize = 4 << 20;

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(PAGE_CACHE);
    builder
}

/// Reopens the database after a failure.
type Reopen = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

/// State of the backend that outlives its reopening.
#[derive(Debug, Default)]
struct BackendState {
    sync_failed: AtomicBool,
    disk_full: AtomicBool,
    length: Arc<AtomicU64>,
}

/// A backend that records sync failures, a full disk and the length.
#[derive(Debug)]
struct ObservedBackend<B> {
    backend: B,
    observed: Arc<BackendState>,
}

impl<B> ObservedBackend<B> {
    fn inspect(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.observed.disk_full.store(true, Ordering::SeqCst);
        }
    }
}

impl<B: StorageBackend> StorageBackend for ObservedBackend<B> {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.observed.length.fetch_min(len, Ordering::SeqCst);
        self.backend.set_len(len).inspect_err(|error| self.inspect(error))?;
        self.observed.length.store(len, Ordering::SeqCst);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data().inspect_err(|_| self.observed.sync_failed.store(true, Ordering::SeqCst))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.backend.write(offset, data).inspect_err(|error| self.inspect(error))
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

pub(super) struct Disk {
    database: Option<Database>,
    reopen: Reopen,
    observed: Arc<BackendState>,
    /// The number of the last commit.
    commit: u64,
    /// `None` for a backend without a file.
    identity: Option<Arc<FileIdentity>>,
    /// Keys of failed writes: their content in the file is unknown.
    unconfirmed: BTreeSet<Key>,
    /// Locks that are held while the store is open.
    locks: Vec<File>,
}

/// An opened data folder.
pub(super) struct OpenedStore {
    pub disk: Disk,
    pub contents: StoreContents,
    pub watermark: Watermark,
    pub reserve: Reserve,
}

impl Disk {
    /// Opens the data folder, or creates it. Retries a locked folder for a short time: a lock can outlive its holder while a
    /// server ends, or in a forked child that has not executed its own program yet.
    pub fn open(folder: &Path, must_exist: bool) -> Result<OpenedStore, OpenError> {
        for _ in 0..MAX_LOCK_ATTEMPTS {
            match Self::try_open(folder, must_exist) {
                Err(OpenError::InUse { .. }) => std::thread::sleep(LOCK_RETRY_INTERVAL),
                other => return other,
            }
        }
        Self::try_open(folder, must_exist)
    }

    fn try_open(folder: &Path, must_exist: bool) -> Result<OpenedStore, OpenError> {
        let lock = lock(folder)?;
        let (file, mark_file) = (folder.join("store.redb"), watermark::path(folder));
        let io = |source| OpenError::Io { file: file.clone(), source };
        let mark_io = |source: io::Error| OpenError::Io { file: mark_file.clone(), source };
        let marked = match Watermark::open(&mark_file) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let detail = error.to_string();
                return Err(OpenError::Damaged { file: mark_file, detail });
            }
            marked => marked.map_err(mark_io)?,
        };
        let mut reserve = Reserve::open(folder).map_err(io)?;
        let marked = if file.try_exists().map_err(io)? {
            marked
        } else {
            // A mark without a commit is left over from a creation that did not finish.
            if must_exist || marked.is_some_and(|(_, acknowledged)| acknowledged != Commit::default()) {
                return Err(OpenError::Missing { file });
            }
            let mark = Watermark::create(&mark_file, Commit::default()).map_err(mark_io)?;
            create(folder, &file)?;
            Some((mark, Commit::default()))
        };
        let (mut disk, mut contents) = match Self::open_file(&file) {
            // redb writes when it repairs or first opens a file.
            Err(OpenError::Io { source, .. })
                if source.kind() == io::ErrorKind::StorageFull && reserve.release().map_err(io)? =>
            {
                Self::open_file(&file)?
            }
            opened => opened?,
        };
        disk.keep_lock(lock);
        let found = Commit { number: disk.commit, version: contents.version };
        let mark = match marked {
            Some((_, acknowledged)) if found.number < acknowledged.number => {
                let (found, acknowledged) = (found.version, acknowledged.version);
                return Err(OpenError::Behind { file, mark: mark_file, found, acknowledged });
            }
            Some((mark, _)) => mark,
            None => {
                if contents.commit.is_some() {
                    contents.version = contents.version.saturating_add(VERSION_GAP);
                    disk.write(contents.version, &mut [], Durability::Immediate, &|_| None)
                        .map_err(|detail| io(io::Error::other(detail)))?;
                }
                let acknowledged = Commit { number: disk.commit, version: contents.version };
                Watermark::create(&mark_file, acknowledged).map_err(mark_io)?
            }
        };
        let length = fs::metadata(&file).map_err(io)?.len();
        let is_disk_full = !reserve.is_full() && reserve.fill().is_err();
        let is_sparse =
            length / 3 > contents.object_bytes || is_disk_full && length - length / 4 > contents.object_bytes;
        if length > COMPACTION_THRESHOLD
            && is_sparse
            && let Some(database) = &mut disk.database
            && let Err(error) = database.compact()
        {
            // Compaction is optional; the next write reopens the file.
            tracing::warn!(%error, file = %file.display(), "cannot compact the store");
            disk.database = None;
            reserve.release().map_err(io)?;
        }
        Ok(OpenedStore { disk, contents, watermark: mark, reserve })
    }

    fn open_file(file: &Path) -> Result<(Self, StoreContents), OpenError> {
        let io = |source| OpenError::Io { file: file.to_owned(), source };
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let observed = Arc::new(BackendState::default());
        let opened = open(file).map_err(io)?;
        let identity = FileIdentity::new(file.to_owned(), opened, observed.length.clone()).map_err(io)?;
        let (identity, path) = (Arc::new(identity), file.to_owned());
        let same = identity.clone();
        let backend = move || {
            // After a failed write the path may name another file.
            same.check().map_err(|why| StorageError::Io(io::Error::other(why)))?;
            FileBackend::new(open(&path)?)
        };
        let (mut disk, contents) = Self::with_observed_backend(backend, file, observed)?;
        disk.identity = Some(identity);
        Ok((disk, contents))
    }

    /// Holds the folder's lock while the store is open.
    fn keep_lock(&mut self, lock: File) {
        self.locks.push(lock);
    }

    /// Returns the identity of the open file.
    pub fn identity(&self) -> Option<Arc<FileIdentity>> {
        self.identity.clone()
    }

    /// Returns the number of the last commit.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// Whether the last write failed because the disk is full.
    pub fn is_full(&self) -> bool {
        self.observed.disk_full.load(Ordering::SeqCst)
    }

    /// Whether a failed write may have reached the file and has not been corrected yet.
    pub fn has_unconfirmed_writes(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Whether a sync failed. This process must not write again.
    pub fn has_failed_sync(&self) -> bool {
        self.observed.sync_failed.load(Ordering::SeqCst)
    }

    #[cfg(test)]
    pub fn with_backend<B: StorageBackend>(
        backend: impl Fn() -> Result<B, DatabaseError> + Send + 'static,
        file: &Path,
    ) -> Result<(Self, StoreContents), OpenError> {
        Self::with_observed_backend(backend, file, Arc::default())
    }

    fn with_observed_backend<B: StorageBackend>(
        backend: impl Fn() -> Result<B, DatabaseError> + Send + 'static,
        file: &Path,
        observed: Arc<BackendState>,
    ) -> Result<(Self, StoreContents), OpenError> {
        let damaged = |detail: String| OpenError::Damaged { file: file.to_owned(), detail };
        let observing = observed.clone();
        let reopen = move || {
            let backend = backend()?;
            let length = backend.len()?;
            if length == 0 {
                return Err(DatabaseError::Storage(StorageError::Corrupted("it is empty".to_owned())));
            }
            observing.length.store(length, Ordering::SeqCst);
            builder().create_with_backend(ObservedBackend { backend, observed: observing.clone() })
        };
        // redb trusts parts of the file without checks and panics where they are damaged.
        let read = catch_unwind(AssertUnwindSafe(|| {
            let database = reopen().map_err(|error| open_error(error, file))?;
            let contents = read(&database).map_err(|error| match error {
                ReadError::Format(found) => OpenError::OtherFormat { file: file.to_owned(), found },
                ReadError::Damaged(detail) => damaged(detail),
            })?;
            Ok((database, contents))
        }));
        let (database, contents) =
            read.map_err(|_| damaged("its pages contradict each other".to_owned()))??;
        let reopen: Reopen = Box::new(reopen);
        let (unsure, commit) = (BTreeSet::new(), contents.commit.unwrap_or_default());
        let database = Some(database);
        Ok((
            Self {
                database,
                reopen,
                observed,
                commit,
                identity: None,
                unconfirmed: unsure,
                locks: Vec::new(),
            },
            contents,
        ))
    }

    /// Writes a group durably, with `version` as the newest. After an error none of it counts, and
    /// `newest` supplies the content to restore.
    pub fn write(
        &mut self,
        version: u64,
        writes: &mut [WriteOp<'_>],
        durability: Durability,
        newest: &dyn Fn(&Key) -> Option<Arc<Object>>,
    ) -> Result<(), String> {
        self.observed.disk_full.store(false, Ordering::SeqCst);
        // A panic of redb must not end the sequencer.
        let done = catch_unwind(AssertUnwindSafe(|| self.try_write(version, writes, durability, newest)));
        let done = done.unwrap_or_else(|_| Err("the database gave up".to_owned()));
        if done.is_err() {
            self.unconfirmed.extend(writes.iter().filter_map(WriteOp::key).cloned());
            self.database = None;
        } else {
            self.commit = self.commit.saturating_add(1);
            self.unconfirmed.clear();
        }
        done
    }

    fn try_write(
        &mut self,
        version: u64,
        writes: &mut [WriteOp<'_>],
        durability: Durability,
        newest: &dyn Fn(&Key) -> Option<Arc<Object>>,
    ) -> Result<(), String> {
        let database = if let Some(database) = self.database.take() {
            self.database.insert(database)
        } else {
            let database = (self.reopen)().map_err(text)?;
            let found = commit_number(&database).map_err(text)?;
            if found < self.commit {
                return Err(format!("commit {} was acknowledged, and the file ends at {found}", self.commit));
            }
            self.database.insert(database)
        };
        let commit = self.commit.saturating_add(1);
        let mut transaction = database.begin_write().map_err(text)?;
        transaction.set_durability(durability).map_err(text)?;
        {
            let mut objects = transaction.open_table(OBJECTS).map_err(text)?;
            for key in &self.unconfirmed {
                let at = table_key(key);
                match newest(key) {
                    None => objects.remove(at).map(drop).map_err(text)?,
                    Some(object) => {
                        let (text_only, gap) = object.without_version();
                        let mut record = Record::encode(&text_only, gap);
                        objects.insert(at, record.set_version(object.version)).map(drop).map_err(text)?;
                    }
                }
            }
            let mut meta = transaction.open_table(META).map_err(text)?;
            for write in writes {
                match write {
                    WriteOp::Put(key, version, record) => {
                        objects
                            .insert(table_key(key), record.set_version(*version))
                            .map(drop)
                            .map_err(text)?;
                    }
                    WriteOp::Remove(key) => objects.remove(table_key(key)).map(drop).map_err(text)?,
                    WriteOp::Meta(key, value) => meta.insert(*key, *value).map(drop).map_err(text)?,
                }
            }
            meta.insert(VERSION_KEY, version.to_le_bytes().as_slice()).map_err(text)?;
            meta.insert(COMMIT_KEY, commit.to_le_bytes().as_slice()).map_err(text)?;
        }
        transaction.commit().map_err(text)
    }
}

/// Returns the number of the last commit in a file; 0 if commits were not counted.
fn commit_number(database: &Database) -> Result<u64, Box<dyn std::error::Error>> {
    let found = database.begin_read()?.open_table(META)?.get(COMMIT_KEY)?;
    let bytes = found.and_then(|found| found.value().try_into().ok());
    Ok(bytes.map_or(0, u64::from_le_bytes))
}

fn table_key(key: &Key) -> (&str, &str, &str) {
    (&key.storage, &key.namespace, &key.name)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Creates and locks the folder.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(folder.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::InUse { folder: folder.to_owned() }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Creates an empty store under a temporary name and renames it, so that an existing file is either complete or damaged.
fn create(folder: &Path, file: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { file: file.to_owned(), source };
    let fresh = folder.join("store.redb.new");
    let opened =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&fresh);
    let database = builder().create_file(opened.map_err(io)?).map_err(|error| open_error(error, file))?;
    initialise(&database).map_err(|detail| io(io::Error::other(detail)))?;
    drop(database);
    fs::rename(&fresh, file).map_err(io)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

pub(super) fn initialise(database: &Database) -> Result<(), String> {
    let transaction = database.begin_write().map_err(text)?;
    transaction.open_table(OBJECTS).map(drop).map_err(text)?;
    {
        let mut meta = transaction.open_table(META).map_err(text)?;
        meta.insert(FORMAT_KEY, FORMAT.as_bytes()).map_err(text)?;
        meta.insert(VERSION_KEY, 0_u64.to_le_bytes().as_slice()).map_err(text)?;
    }
    transaction.commit().map_err(text)
}

fn open_error(error: DatabaseError, file: &Path) -> OpenError {
    let file = file.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            let folder = file.parent().map(Path::to_owned).unwrap_or_default();
            OpenError::InUse { folder }
        }
        DatabaseError::UpgradeRequired(found) => {
            OpenError::OtherFormat { file, found: format!("redb {found}") }
        }
        DatabaseError::Storage(StorageError::Io(source))
            if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            OpenError::Io { file, source }
        }
        other => OpenError::Damaged { file, detail: other.to_string() },
    }
}

enum ReadError {
    Format(String),
    Damaged(String),
}

impl<E: std::error::Error> From<E> for ReadError {
    fn from(error: E) -> Self {
        Self::Damaged(error.to_string())
    }
}

fn read(database: &Database) -> Result<StoreContents, ReadError> {
    let transaction = database.begin_read()?;
    let mut contents = StoreContents::default();
    for row in transaction.open_table(META)?.iter()? {
        let (key, value) = row?;
        contents.meta.insert(key.value().to_owned(), value.value().into());
    }
    let format = contents.meta.get(FORMAT_KEY).map(|found| String::from_utf8_lossy(found).into_owned());
    if format.as_deref() != Some(FORMAT) {
        return Err(ReadError::Format(format.unwrap_or_else(|| "unknown".to_owned())));
    }
    let version = contents.meta.remove(VERSION_KEY).and_then(|bytes| bytes.as_ref().try_into().ok());
    let version = version.ok_or_else(|| ReadError::Damaged("its version is lost".to_owned()))?;
    contents.version = u64::from_le_bytes(version);
    let commit = contents.meta.remove(COMMIT_KEY).map(|bytes| bytes.as_ref().try_into());
    let commit =
        commit.transpose().map_err(|_| ReadError::Damaged("its commit number is lost".to_owned()))?;
    contents.commit = commit.map(u64::from_le_bytes);
    let mut storages = BTreeMap::<String, Arc<str>>::new();
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        let (storage, namespace, name) = key.value();
        let object = Record::read(value.value()).map_err(|why| {
            ReadError::Damaged(format!("{storage} \"{namespace}/{name}\" is unreadable: {why}"))
        })?;
        if object.version > contents.version {
            return Err(ReadError::Damaged(format!(
                "{storage} \"{namespace}/{name}\" is newer than the store"
            )));
        }
        let storage = storages.entry(storage.to_owned()).or_insert_with(|| storage.into());
        contents.object_bytes += value.value().len() as u64;
        contents.objects.push((Key::new(storage, namespace, name), object));
    }
    Ok(contents)
}
