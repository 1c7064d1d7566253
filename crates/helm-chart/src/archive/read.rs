//! Reads the files of a chart from an archive.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::gzip::{GzipError, GzipReader};
use super::tar::{BLOCK_SIZE, ExtendedAttributes, InvalidHeader, TarHeader};
use crate::chart::File;
use crate::path;

/// Size limits of a chart. The defaults are Helm's where Helm has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Packed size of all archives of a chart.
    pub packed: usize,
    /// Unpacked size of all files of a chart, nested archives included.
    pub unpacked: usize,
    /// Size of one file; Helm 4 has no such limit.
    pub file: usize,
    pub entries: usize,
    /// Total size of files parsed on load: metadata, locks, default values.
    pub parsed: usize,
    /// Total size of templates, which are parsed when the chart is rendered.
    pub templates: usize,
    /// Nesting depth of charts.
    pub depth: usize,
}

impl ArchiveLimits {
    pub const fn for_profile(profile: Profile) -> Self {
        Self {
            packed: 100 << 20,
            unpacked: 100 << 20,
            file: match profile {
                Profile::Helm3 => 5 << 20,
                Profile::Helm4 => usize::MAX,
            },
            entries: 100_000,
            parsed: 100 << 20,
            templates: 100 << 20,
            depth: 32,
        }
    }
}

/// Error of an archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("gzip: invalid header")]
    NotGzip,
    #[error("{0}")]
    Corrupt(String),
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    #[error("chart illegally contains content outside the base directory: {}", quote(.0))]
    OutsideBase(Str),
    #[error("chart illegally references parent directory")]
    ParentPath,
    #[error("chart contains illegally named files")]
    DrivePath,
    #[error("chart yaml not in base directory")]
    NoBaseDir,
    #[error("{0}")]
    TooLarge(String),
    #[error("chart archive unpacks to more than 100 times its size")]
    Bomb,
    #[error("no files in chart archive")]
    Empty,
    #[error("chart archive has more than {0} entries")]
    TooManyEntries(usize),
    #[error("chart illegally contains two files named {}", quote(.0))]
    Duplicate(Str),
    #[error("chart file {} is a link to {}, which is outside of the chart", quote(.name), quote(.to))]
    LinkOutside { name: Str, to: Str },
    #[error("chart file {} is {what}", quote(.name))]
    SpecialFile { name: Str, what: &'static str },
    /// Interrupted by the caller.
    #[error("{0}")]
    Interrupted(Str),
}

/// Reads the files of an archive in order, without the name of the base folder. `limits` is reduced by the used
/// amounts.
pub fn read_files(
    archive: &[u8],
    profile: Profile,
    limits: &mut ArchiveLimits,
) -> Result<Vec<File>, ArchiveError> {
    read_files_interruptible(archive, profile, limits, &|| Ok(()))
}

/// Like [`read_files`], but stops with the error of `interrupt`, which is called for each entry.
pub(crate) fn read_files_interruptible(
    archive: &[u8],
    profile: Profile,
    limits: &mut ArchiveLimits,
    interrupt: &dyn Fn() -> Result<(), Str>,
) -> Result<Vec<File>, ArchiveError> {
    limits.packed = limits.packed.checked_sub(archive.len()).ok_or_else(|| {
        ArchiveError::TooLarge("chart archives are larger than the maximum size of archives".to_owned())
    })?;
    let largest = ArchiveLimits::for_profile(profile).unpacked.max(limits.unpacked);
    // Allowance for headers and padding.
    let stream = limits.unpacked.saturating_add(limits.unpacked / 4).saturating_add(1 << 20);
    let zip = GzipReader::new(archive, stream).map_err(|failure| match failure {
        GzipError::Header => ArchiveError::NotGzip,
        other => ArchiveError::Corrupt(other.to_string()),
    })?;
    let mut reader = ArchiveReader {
        gzip: zip,
        header_offset: 0,
        profile,
        limits,
        max_unpacked: largest,
        names: HashSet::new(),
    };
    let mut found = Vec::new();
    loop {
        interrupt().map_err(ArchiveError::Interrupted)?;
        let Some(entry) = reader.next_entry()? else { break };
        if let Some(file) = reader.accept(entry)? {
            found.push(file);
        }
    }
    if found.is_empty() {
        return Err(ArchiveError::Empty);
    }
    let unpacked = reader.gzip.unpacked;
    let used: usize = found.iter().map(|(_, range)| range.len()).sum();
    // Files share the unpack buffer, unless they would keep mostly unused bytes in memory.
    if unpacked.capacity() / 2 > used.saturating_add(SHARED_BUFFER) {
        let copied = |(name, range): (Str, Range<usize>)| {
            let data = unpacked.get(range).map(Bytes::copy_from_slice).unwrap_or_default();
            File { name, data }
        };
        return Ok(found.into_iter().map(copied).collect());
    }
    let unpacked = Bytes::from(unpacked);
    Ok(found.into_iter().map(|(name, range)| File { name, data: unpacked.slice(range) }).collect())
}

/// Buffers up to this size are always shared.
const SHARED_BUFFER: usize = 256 << 10;

struct ArchiveReader<'a, 'l> {
    gzip: GzipReader<'a>,
    /// Offset of the next header.
    header_offset: usize,
    profile: Profile,
    limits: &'l mut ArchiveLimits,
    /// The initial limit, for messages.
    max_unpacked: usize,
    names: HashSet<Str>,
}

struct TarEntry {
    name: String,
    link: String,
    size: u64,
    kind: u8,
    is_dir: bool,
    /// Offset of the content.
    content_offset: usize,
    is_sparse: bool,
}

impl ArchiveReader<'_, '_> {
    /// Reads the next entry and applies extended headers before it.
    fn next_entry(&mut self) -> Result<Option<TarEntry>, ArchiveError> {
        let mut extended = ExtendedAttributes::default();
        loop {
            let Some(block) = self.read_header()? else { return Ok(None) };
            self.limits.entries = self
                .limits
                .entries
                .checked_sub(1)
                .ok_or(ArchiveError::TooManyEntries(ArchiveLimits::for_profile(self.profile).entries))?;
            let header = TarHeader::parse(&block)?;
            self.header_offset += BLOCK_SIZE;
            match header.kind {
                b'x' => {
                    let content = self.read_extension(header.size)?;
                    extended.parse_pax(&self.gzip.unpacked[content])?;
                }
                b'L' | b'K' => {
                    let content = self.read_extension(header.size)?;
                    let long = Some(ExtendedAttributes::parse_gnu_long_name(&self.gzip.unpacked[content]));
                    *(if header.kind == b'L' { &mut extended.name } else { &mut extended.link }) = long;
                }
                _ => {
                    let name = extended.name.unwrap_or_else(|| header.name.to_vec());
                    let link = extended.link.unwrap_or_else(|| header.link.to_vec());
                    return Ok(Some(TarEntry {
                        is_dir: header.is_dir(&name),
                        size: if header.has_no_content() { 0 } else { extended.size.unwrap_or(header.size) },
                        kind: header.kind,
                        name: lossy(name),
                        link: lossy(link),
                        content_offset: self.header_offset,
                        is_sparse: extended.sparse || header.kind == b'S',
                    }));
                }
            }
        }
    }

    /// Reads the next header block. The archive ends at two zero blocks, or at one at the end of the data.
    fn read_header(&mut self) -> Result<Option<[u8; BLOCK_SIZE]>, ArchiveError> {
        for blank in [false, true] {
            self.fill_to(self.header_offset.saturating_add(BLOCK_SIZE))?;
            let rest = self.gzip.unpacked.get(self.header_offset..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            let Some(block) = rest.first_chunk::<BLOCK_SIZE>() else { return Err(truncated()) };
            match (block.iter().all(|b| *b == 0), blank) {
                (true, true) => return Ok(None),
                (true, false) => self.header_offset += BLOCK_SIZE,
                (false, true) => return Err(InvalidHeader.into()),
                (false, false) => return Ok(Some(*block)),
            }
        }
        Ok(None)
    }

    /// Unpacks the content of an extended header and moves past it.
    fn read_extension(&mut self, size: u64) -> Result<Range<usize>, ArchiveError> {
        // Go's limit for an extended header.
        let size = usize::try_from(size).ok().filter(|size| *size <= 1 << 20);
        let size = size.ok_or_else(|| ArchiveError::Corrupt("archive/tar: header field too long".into()))?;
        let range = self.header_offset..self.header_offset + size;
        self.fill_to(range.end)?;
        if self.gzip.unpacked.len() < range.end {
            return Err(truncated());
        }
        self.skip(size);
        Ok(range)
    }

    fn skip(&mut self, size: usize) {
        self.header_offset = self.header_offset.saturating_add(size.next_multiple_of(BLOCK_SIZE));
    }

    fn fill_to(&mut self, length: usize) -> Result<(), ArchiveError> {
        self.gzip.fill_to(length).map_err(|failure| match failure {
            GzipError::Limit => self.too_large(),
            GzipError::Bomb => ArchiveError::Bomb,
            other => ArchiveError::Corrupt(other.to_string()),
        })
    }

    fn too_large(&self) -> ArchiveError {
        let what = if self.profile == Profile::Helm3 { "file size" } else { "size" };
        ArchiveError::TooLarge(format!(
            "decompressed chart is larger than the maximum {what} {}",
            self.max_unpacked
        ))
    }

    /// Validates and unpacks an entry. `None` for entries that are not files.
    fn accept(&mut self, entry: TarEntry) -> Result<Option<(Str, Range<usize>)>, ArchiveError> {
        let size = usize::try_from(entry.size).unwrap_or(usize::MAX);
        if entry.is_dir || entry.kind == b'g' {
            self.skip(size);
            return Ok(None);
        }
        let name = name_in_chart(&entry.name)?;
        if let Some(what) = special_kind(&entry) {
            return Err(ArchiveError::SpecialFile { name, what });
        }
        // A link within the chart is harmless, because nothing is written to disk. Helm reads it as an empty file.
        if matches!(entry.kind, b'1' | b'2') && escapes_base_dir(&entry) {
            return Err(ArchiveError::LinkOutside { name, to: entry.link.into() });
        }
        if size > self.limits.unpacked {
            return Err(self.too_large());
        }
        if size > self.limits.file {
            return Err(ArchiveError::TooLarge(format!(
                "decompressed chart file {} is larger than the maximum file size {}",
                quote(&entry.name),
                self.limits.file
            )));
        }
        let mut range = entry.content_offset..entry.content_offset + size;
        self.fill_to(range.end)?;
        if self.gzip.unpacked.len() < range.end {
            return Err(truncated());
        }
        self.skip(size);
        self.limits.unpacked -= size;
        if self.limits.unpacked == 0 {
            return Err(self.too_large());
        }
        if !self.names.insert(name.clone()) {
            return Err(ArchiveError::Duplicate(name));
        }
        if self.gzip.unpacked[range.clone()].starts_with(crate::load::BYTE_ORDER_MARK) {
            range.start += crate::load::BYTE_ORDER_MARK.len();
        }
        Ok(Some((name, range)))
    }
}

/// Name of an entry below the base folder of its archive.
fn name_in_chart(name: &str) -> Result<Str, ArchiveError> {
    // Archives created on Windows may contain backslashes.
    let slash = if name.contains('\\') { '\\' } else { '/' };
    let (base, inner) = name.split_once(slash).unwrap_or((name, ""));
    let inner = inner.replace(slash, "/");
    // Helm drops the base folder before its checks, and so misses a traversal in it.
    if name.starts_with(slash) || inner.starts_with('/') {
        return Err(ArchiveError::AbsolutePath);
    }
    if base == ".." {
        return Err(ArchiveError::ParentPath);
    }
    let inner = path::clean(&inner);
    if inner == "." {
        return Err(ArchiveError::OutsideBase(name.into()));
    }
    if inner.starts_with("..") {
        return Err(ArchiveError::ParentPath);
    }
    if matches!(inner.as_bytes(), [drive, b':', b'/', ..] if drive.is_ascii_alphabetic()) {
        return Err(ArchiveError::DrivePath);
    }
    if base == "Chart.yaml" {
        return Err(ArchiveError::NoBaseDir);
    }
    Ok(inner.into())
}

fn special_kind(entry: &TarEntry) -> Option<&'static str> {
    match entry.kind {
        b'3' => Some("a character device"),
        b'4' => Some("a block device"),
        b'6' => Some("a named pipe"),
        _ if entry.is_sparse => Some("a sparse file, which is not supported"),
        _ => None,
    }
}

/// Whether a link leaves the base folder. The target of a symbolic link is relative to its own folder, the target of a
/// hard link to the root of the archive.
fn escapes_base_dir(entry: &TarEntry) -> bool {
    let target = if entry.kind == b'1' {
        path::clean(&entry.link)
    } else {
        let folder = entry.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        path::clean(&format!("{folder}/{}", entry.link))
    };
    let base = entry.name.split('/').next().unwrap_or_default();
    let inside = target.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    entry.link.starts_with('/') || !inside
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|not| String::from_utf8_lossy(not.as_bytes()).into_owned())
}

fn truncated() -> ArchiveError {
    ArchiveError::Corrupt("unexpected EOF".to_owned())
}

impl From<InvalidHeader> for ArchiveError {
    fn from(bad: InvalidHeader) -> Self {
        Self::Corrupt(bad.to_string())
    }
}
