//! Charts on disk: directories and archives.

use std::fs::{self, FileType};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use helm_chart::ignore::HelmIgnoreRules;
use helm_chart::{Chart, File, LoadError, Loader};
use helm_template::go::quote;
use helm_template::profile::Profile;

use crate::sniff;

/// A chart, and warnings for its author.
#[derive(Debug)]
pub struct ChartWithWarnings {
    pub chart: Chart,
    pub warnings: Vec<String>,
}

/// Why a chart cannot be loaded from disk. Messages match Helm.
#[derive(Debug, thiserror::Error)]
pub enum DiskLoadError {
    #[error("{0}")]
    Read(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("cannot load irregular file {} as it has file mode type bits set", .0.display())]
    Irregular(PathBuf),
    #[error("folder {} lies more than {MAX_DEPTH} deep in its chart", .0.display())]
    TooDeep(PathBuf),
    #[error("chart has more than {0} files")]
    TooManyFiles(usize),
    #[error(transparent)]
    IgnoreRules(#[from] helm_chart::ignore::IgnoreError),
    #[error("file '{path}' seems to be a YAML file, but expected a gzipped archive", path = .0.display())]
    YamlFile(PathBuf),
    #[error("file '{path}' does not appear to be a gzipped archive; got '{kind}'", path = .path.display())]
    NotArchive { path: PathBuf, kind: &'static str },
    #[error("file '{path}' does not appear to be a valid chart file (details: gzip: invalid header)", path = .0.display())]
    NotGzip(PathBuf),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Maximum depth of directories. A deeper tree most likely contains a symlink cycle.
const MAX_DEPTH: usize = 64;

/// Loads a chart from a directory or an archive.
pub fn load(path: &Path, profile: Profile) -> Result<ChartWithWarnings, DiskLoadError> {
    if is_dir(path)? {
        if profile == Profile::Helm4 {
            let name = absolute(path)?.join("Chart.yaml");
            let text = fs::read(&name).map_err(|error| {
                let error = go_io_error("open", &name, &error);
                DiskLoadError::Read(format!("unable to detect chart at {}: {error}", name.display()))
            })?;
            Loader::new(profile).check_api_version(&text)?;
        }
        return load_dir(path, profile);
    }
    load_archive(path, profile, Loader::load_archive)
}

/// Loads a chart without detecting its API version first. Helm has both ways to load a chart, and its commands differ in which they
/// use.
pub fn load_without_detection(path: &Path, profile: Profile) -> Result<ChartWithWarnings, DiskLoadError> {
    if is_dir(path)? {
        return load_dir(path, profile);
    }
    load_archive(path, profile, |loader, archive| {
        let files = loader.unpack(archive)?;
        loader.load_files(files)
    })
}

fn is_dir(path: &Path) -> Result<bool, DiskLoadError> {
    Ok(fs::metadata(path).map_err(|error| go_io_error("stat", path, &error))?.is_dir())
}

fn load_dir(path: &Path, profile: Profile) -> Result<ChartWithWarnings, DiskLoadError> {
    let mut loader = Loader::new(profile);
    let mut warnings = Vec::new();
    let files = read_chart_dir(path, profile, &loader, &mut warnings)?;
    let chart = loader.load_files(files)?;
    warnings.extend(loader.warnings.iter().map(|warning| (*warning).to_owned()));
    Ok(ChartWithWarnings { chart, warnings })
}

fn load_archive(
    path: &Path,
    profile: Profile,
    load: impl FnOnce(&mut Loader, &[u8]) -> Result<Chart, LoadError>,
) -> Result<ChartWithWarnings, DiskLoadError> {
    let mut loader = Loader::new(profile);
    let archive = read_archive(path, loader.limits().packed)?;
    let chart = load(&mut loader, &archive).map_err(|error| match error {
        LoadError::Archive(helm_chart::archive::ArchiveError::NotGzip) => {
            DiskLoadError::NotGzip(path.to_owned())
        }
        other => other.into(),
    })?;
    let warnings = loader.warnings.iter().map(|warning| (*warning).to_owned()).collect();
    Ok(ChartWithWarnings { chart, warnings })
}

/// An archive, and the chart that it would be when unpacked into a directory.
pub struct UnpackedChart {
    /// All packed files in archive order, including ignored ones.
    pub files: Vec<File>,
    /// The chart without the files that `.helmignore` excludes, with files sorted by name.
    pub chart: Result<Chart, LoadError>,
}

/// Loads an archive as if it were unpacked into a directory.
pub fn load_unpacked(archive: &[u8], profile: Profile) -> Result<UnpackedChart, DiskLoadError> {
    let mut loader = Loader::new(profile);
    let files = loader.unpack(archive).map_err(LoadError::from)?;
    let ignore = files.iter().find(|file| &*file.name == ".helmignore");
    let rules =
        ignore.map_or_else(|| Ok(HelmIgnoreRules::defaults()), |file| HelmIgnoreRules::parse(&file.data))?;
    let mut kept: Vec<File> = files.iter().filter(|file| !is_ignored(&rules, &file.name)).cloned().collect();
    // The order of a directory walk.
    kept.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
    let chart = loader.load_files(kept);
    Ok(UnpackedChart { files, chart })
}

/// Whether the rules exclude the file or one of its parent directories.
fn is_ignored(rules: &HelmIgnoreRules, name: &str) -> bool {
    let folders = name.match_indices('/').map(|(at, _)| (&name[..at], true));
    folders.chain([(name, false)]).any(|(path, is_folder)| rules.is_ignored(path, is_folder))
}

/// Reads an archive. Fails if the file is not a gzip archive. The result is truncated one byte after `limit`.
pub fn read_archive(path: &Path, limit: usize) -> Result<Vec<u8>, DiskLoadError> {
    let file = fs::File::open(path).map_err(|error| go_io_error("open", path, &error))?;
    let length = file.metadata().map_or(0, |data| usize::try_from(data.len()).unwrap_or(usize::MAX));
    let mut archive = Vec::with_capacity(length.min(limit) + 1);
    file.take(limit as u64 + 1).read_to_end(&mut archive).map_err(|error| {
        DiskLoadError::Read(format!("file '{}' cannot be read: {}", path.display(), io_reason(&error)))
    })?;
    if archive.starts_with(b"\x1f\x8b\x08") {
        return Ok(archive);
    }
    if matches!(path.extension().and_then(|end| end.to_str()), Some("yaml" | "yml")) {
        return Err(DiskLoadError::YamlFile(path.to_owned()));
    }
    // Helm examines a zero-filled buffer of 512 bytes.
    archive.resize(512, 0);
    Err(DiskLoadError::NotArchive { path: path.to_owned(), kind: sniff::content_type(&archive) })
}

/// Reads the files of a chart directory that are not ignored, sorted by name. Symlinks are followed.
fn read_chart_dir(
    path: &Path,
    profile: Profile,
    loader: &Loader,
    warnings: &mut Vec<String>,
) -> Result<Vec<File>, DiskLoadError> {
    let root = absolute(path)?;
    let ignore = root.join(".helmignore");
    let rules = if ignore.exists() {
        let text = fs::read(&ignore).map_err(|error| go_io_error("open", &ignore, &error))?;
        HelmIgnoreRules::parse(&text)?
    } else {
        HelmIgnoreRules::defaults()
    };
    let limits = loader.limits();
    let mut walk = DirWalk {
        rules,
        profile,
        max_file_size: limits.file,
        max_total_size: limits.unpacked,
        remaining_bytes: limits.unpacked,
        max_files: limits.entries,
        files: Vec::new(),
        warnings,
    };
    walk.visit_dir(&root, "", 0)?;
    Ok(walk.files)
}

/// A walk over a chart directory, with its limits and results.
struct DirWalk<'a> {
    rules: HelmIgnoreRules,
    profile: Profile,
    max_file_size: usize,
    max_total_size: usize,
    remaining_bytes: usize,
    max_files: usize,
    files: Vec<File>,
    warnings: &'a mut Vec<String>,
}

impl DirWalk<'_> {
    fn visit_dir(&mut self, path: &Path, name: &str, depth: usize) -> Result<(), DiskLoadError> {
        if depth > MAX_DEPTH {
            return Err(DiskLoadError::TooDeep(path.to_owned()));
        }
        let listed = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = listed.map_err(|error| go_io_error("open", path, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let part = entry.file_name();
            let part = part.to_string_lossy();
            let name = if name.is_empty() { part.into_owned() } else { format!("{name}/{part}") };
            let mut kind = entry.file_type().map_err(|error| go_io_error("lstat", &path, &error))?;
            if kind.is_symlink() {
                let target = fs::canonicalize(&path).map_err(|error| {
                    let error = go_io_error("lstat", &path, &error);
                    DiskLoadError::Read(format!("error evaluating symlink {}: {error}", path.display()))
                })?;
                self.warnings.push(format!(
                    "found symbolic link in path: {} resolves to {}. Contents of linked file included and used",
                    path.display(),
                    target.display()
                ));
                kind =
                    fs::metadata(&target).map_err(|error| go_io_error("lstat", &target, &error))?.file_type();
            }
            if self.rules.is_ignored(&name, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.visit_dir(&path, &name, depth + 1)?;
            } else {
                self.visit_file(&path, name, kind)?;
            }
        }
        Ok(())
    }

    fn visit_file(&mut self, path: &Path, name: String, kind: FileType) -> Result<(), DiskLoadError> {
        if !kind.is_file() {
            return Err(DiskLoadError::Irregular(path.to_owned()));
        }
        if self.files.len() >= self.max_files {
            return Err(DiskLoadError::TooManyFiles(self.max_files));
        }
        let file = fs::File::open(path).map_err(|error| {
            DiskLoadError::Read(format!("error reading {name}: {}", go_io_error("open", path, &error)))
        })?;
        let length = file.metadata().map_or(0, |data| usize::try_from(data.len()).unwrap_or(usize::MAX));
        if self.profile == Profile::Helm3 && length > self.max_file_size {
            let name = quote(name.rsplit('/').next().unwrap_or(&name));
            return Err(DiskLoadError::TooLarge(format!(
                "chart file {name} is larger than the maximum file size {}",
                self.max_file_size
            )));
        }
        let too_large = |name: &str, largest: usize| {
            DiskLoadError::TooLarge(format!(
                "error reading {name}: chart exceeds maximum decompressed size of {largest} bytes"
            ))
        };
        if length > self.remaining_bytes {
            return Err(too_large(&name, self.max_total_size));
        }
        // Limited, because the file may have grown since its length was read.
        let mut data = Vec::with_capacity(length + 1);
        file.take(self.remaining_bytes as u64 + 1).read_to_end(&mut data).map_err(|error| {
            DiskLoadError::Read(format!("error reading {name}: {}", go_io_error("read", path, &error)))
        })?;
        self.remaining_bytes = self
            .remaining_bytes
            .checked_sub(data.len())
            .ok_or_else(|| too_large(&name, self.max_total_size))?;
        let data = Bytes::from(data);
        let data = if data.starts_with(b"\xef\xbb\xbf") { data.slice(3..) } else { data };
        self.files.push(File { name: name.into(), data });
        Ok(())
    }
}

/// The absolute path without `.` and `..`, as Go's `filepath.Abs` returns it.
fn absolute(path: &Path) -> Result<PathBuf, DiskLoadError> {
    let whole = std::path::absolute(path).map_err(|error| go_io_error("getwd", path, &error))?;
    let mut clean = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    Ok(clean)
}

/// An operating system error with Go's message.
fn go_io_error(what: &str, path: &Path, error: &io::Error) -> DiskLoadError {
    DiskLoadError::Read(format!("{what} {}: {}", path.display(), io_reason(error)))
}

fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const CHART: (&str, &str) = ("Chart.yaml", "\u{feff}apiVersion: v2\nname: c\nversion: 1.0.0\n");

    fn load_error(path: &Path, profile: Profile) -> String {
        load(path, profile).unwrap_err().to_string()
    }

    #[test]
    fn load_dir_sorts_files_and_skips_ignored() {
        let folder = folder(&[
            CHART,
            (".helmignore", "*.bak\nskipped/\n"),
            ("b.txt", ""),
            ("a.txt", ""),
            ("a.bak", ""),
            ("skipped/x", ""),
            ("templates/.hidden", ""),
            ("templates/b.yaml", ""),
            ("templates/a/z.yaml", ""),
        ]);
        let loaded = load(folder.path(), Profile::Helm4).unwrap();
        let names = |files: &[File]| files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&loaded.chart.files), [".helmignore", "a.txt", "b.txt"]);
        assert_eq!(names(&loaded.chart.templates), ["templates/a/z.yaml", "templates/b.yaml"]);
        assert_eq!(loaded.warnings, [""; 0]);
    }

    #[test]
    fn load_dir_follows_symlinks_with_warning_and_rejects_cycles() {
        let elsewhere = folder(&[("x.yaml", "linked")]);
        let folder = folder(&[CHART]);
        symlink(elsewhere.path(), folder.path().join("templates")).unwrap();
        let loaded = load(folder.path(), Profile::Helm3).unwrap();
        assert_eq!(&loaded.chart.templates[0].data[..], b"linked");
        assert!(loaded.warnings[0].starts_with("found symbolic link in path: "), "{:?}", loaded.warnings);
        symlink(folder.path(), folder.path().join("loop")).unwrap();
        let said = load_error(folder.path(), Profile::Helm3);
        assert!(
            said.contains("too many levels of symbolic links") || said.contains("deep in its chart"),
            "{said}"
        );
    }

    #[test]
    fn load_rejects_non_charts_with_helm_messages() {
        let folder = folder(&[
            ("values.yaml", "a: b\n"),
            ("text", "hello"),
            ("page.html", "<html>"),
            ("zip", "PK\u{3}\u{4}"),
        ]);
        let path = folder.path().canonicalize().unwrap();
        let shown = path.display();
        assert_eq!(load_error(&path, Profile::Helm3), "Chart.yaml file is missing");
        assert_eq!(
            load_error(&path, Profile::Helm4),
            format!(
                "unable to detect chart at {shown}/Chart.yaml: open {shown}/Chart.yaml: no such file or directory"
            )
        );
        assert_eq!(
            load_error(&path.join("none"), Profile::Helm3),
            format!("stat {shown}/none: no such file or directory")
        );
        assert_eq!(
            load_error(&path.join("values.yaml"), Profile::Helm3),
            format!("file '{shown}/values.yaml' seems to be a YAML file, but expected a gzipped archive")
        );
        for (name, kind) in [
            ("text", "application/octet-stream"),
            ("page.html", "text/html; charset=utf-8"),
            ("zip", "application/zip"),
        ] {
            assert_eq!(
                load_error(&path.join(name), Profile::Helm3),
                format!("file '{shown}/{name}' does not appear to be a gzipped archive; got '{kind}'")
            );
        }
    }

    #[test]
    fn load_dir_rejects_socket() {
        let folder = folder(&[CHART]);
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let said = load_error(folder.path(), Profile::Helm3);
        assert!(
            said.starts_with("cannot load irregular file ")
                && said.ends_with(" as it has file mode type bits set")
        );
    }

    #[test]
    fn load_dir_rejects_large_files_only_for_helm3() {
        let folder = folder(&[CHART, ("large", &"x".repeat((5 << 20) + 1))]);
        assert_eq!(
            load_error(folder.path(), Profile::Helm3),
            "chart file \"large\" is larger than the maximum file size 5242880"
        );
        assert!(load(folder.path(), Profile::Helm4).is_ok());
    }
}
