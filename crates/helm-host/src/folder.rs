//! Charts on disk: directories and archives.

use std::fs::{self, FileType};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use helm_chart::ignore::Rules;
use helm_chart::{Chart, File, LoadError, Loader};
use helm_template::go::quote;
use helm_template::profile::Profile;

use crate::sniff;

/// A chart, and warnings for its author.
#[derive(Debug)]
pub struct Loaded {
    pub chart: Chart,
    pub warnings: Vec<String>,
}

/// Why a chart cannot be loaded from disk. Messages are those of Helm.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
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
    Ignore(#[from] helm_chart::ignore::IgnoreError),
    #[error("file '{path}' seems to be a YAML file, but expected a gzipped archive", path = .0.display())]
    Yaml(PathBuf),
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
pub fn load(path: &Path, profile: Profile) -> Result<Loaded, FolderError> {
    if is_folder(path)? {
        if profile == Profile::Helm4 {
            let name = absolute(path)?.join("Chart.yaml");
            let text = fs::read(&name).map_err(|error| {
                let error = failed("open", &name, &error);
                FolderError::Read(format!("unable to detect chart at {}: {error}", name.display()))
            })?;
            Loader::new(profile).check_kind(&text)?;
        }
        return load_folder(path, profile);
    }
    load_archive(path, profile, Loader::archive)
}

/// Loads a chart without detecting its API version first. Helm has both ways to load a chart, and its commands differ in which they
/// use.
pub fn load_unasked(path: &Path, profile: Profile) -> Result<Loaded, FolderError> {
    if is_folder(path)? {
        return load_folder(path, profile);
    }
    load_archive(path, profile, |loader, archive| {
        let files = loader.unpack(archive)?;
        loader.files(files)
    })
}

fn is_folder(path: &Path) -> Result<bool, FolderError> {
    Ok(fs::metadata(path).map_err(|error| failed("stat", path, &error))?.is_dir())
}

fn load_folder(path: &Path, profile: Profile) -> Result<Loaded, FolderError> {
    let mut loader = Loader::new(profile);
    let mut warnings = Vec::new();
    let files = read(path, profile, &loader, &mut warnings)?;
    let chart = loader.files(files)?;
    warnings.extend(loader.warnings.iter().map(|warning| (*warning).to_owned()));
    Ok(Loaded { chart, warnings })
}

fn load_archive(
    path: &Path,
    profile: Profile,
    load: impl FnOnce(&mut Loader, &[u8]) -> Result<Chart, LoadError>,
) -> Result<Loaded, FolderError> {
    let mut loader = Loader::new(profile);
    let archive = read_archive(path, loader.limits().packed)?;
    let chart = load(&mut loader, &archive).map_err(|error| match error {
        LoadError::Archive(helm_chart::archive::ArchiveError::NotGzip) => {
            FolderError::NotGzip(path.to_owned())
        }
        other => other.into(),
    })?;
    let warnings = loader.warnings.iter().map(|warning| (*warning).to_owned()).collect();
    Ok(Loaded { chart, warnings })
}

/// An archive, and the chart that it would be when unpacked into a directory.
pub struct Unpacked {
    /// All packed files in archive order, including ignored ones.
    pub files: Vec<File>,
    /// The chart without the files that `.helmignore` excludes, with files sorted by name.
    pub chart: Result<Chart, LoadError>,
}

/// Loads an archive as if it were unpacked into a directory.
pub fn load_unpacked(archive: &[u8], profile: Profile) -> Result<Unpacked, FolderError> {
    let mut loader = Loader::new(profile);
    let files = loader.unpack(archive).map_err(LoadError::from)?;
    let ignore = files.iter().find(|file| &*file.name == ".helmignore");
    let rules = ignore.map_or_else(|| Ok(Rules::defaults()), |file| Rules::parse(&file.data))?;
    let mut kept: Vec<File> = files.iter().filter(|file| !is_ignored(&rules, &file.name)).cloned().collect();
    // The order of a directory walk.
    kept.sort_by(|a, b| a.name.split('/').cmp(b.name.split('/')));
    let chart = loader.files(kept);
    Ok(Unpacked { files, chart })
}

/// Whether the rules exclude the file or one of its parent directories.
fn is_ignored(rules: &Rules, name: &str) -> bool {
    let folders = name.match_indices('/').map(|(at, _)| (&name[..at], true));
    folders.chain([(name, false)]).any(|(path, is_folder)| rules.ignore(path, is_folder))
}

/// Reads an archive. Fails if the file is not a gzip archive. The result is truncated one byte after `limit`.
pub fn read_archive(path: &Path, limit: usize) -> Result<Vec<u8>, FolderError> {
    let file = fs::File::open(path).map_err(|error| failed("open", path, &error))?;
    let length = file.metadata().map_or(0, |data| usize::try_from(data.len()).unwrap_or(usize::MAX));
    let mut archive = Vec::with_capacity(length.min(limit) + 1);
    file.take(limit as u64 + 1).read_to_end(&mut archive).map_err(|error| {
        FolderError::Read(format!("file '{}' cannot be read: {}", path.display(), reason(&error)))
    })?;
    if archive.starts_with(b"\x1f\x8b\x08") {
        return Ok(archive);
    }
    if matches!(path.extension().and_then(|end| end.to_str()), Some("yaml" | "yml")) {
        return Err(FolderError::Yaml(path.to_owned()));
    }
    // Helm examines a zero-filled buffer of 512 bytes.
    archive.resize(512, 0);
    Err(FolderError::NotArchive { path: path.to_owned(), kind: sniff::content_type(&archive) })
}

/// Reads the files of a chart directory that are not ignored, sorted by name. Symlinks are followed.
fn read(
    path: &Path,
    profile: Profile,
    loader: &Loader,
    warnings: &mut Vec<String>,
) -> Result<Vec<File>, FolderError> {
    let root = absolute(path)?;
    let ignore = root.join(".helmignore");
    let rules = if ignore.exists() {
        let text = fs::read(&ignore).map_err(|error| failed("open", &ignore, &error))?;
        Rules::parse(&text)?
    } else {
        Rules::defaults()
    };
    let limits = loader.limits();
    let mut walk = Walk {
        rules,
        profile,
        largest_file: limits.file,
        largest: limits.unpacked,
        left: limits.unpacked,
        most_files: limits.entries,
        files: Vec::new(),
        warnings,
    };
    walk.folder(&root, "", 0)?;
    Ok(walk.files)
}

/// A walk over a chart directory, with its limits and results.
struct Walk<'a> {
    rules: Rules,
    profile: Profile,
    largest_file: usize,
    largest: usize,
    left: usize,
    most_files: usize,
    files: Vec<File>,
    warnings: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, name: &str, depth: usize) -> Result<(), FolderError> {
        if depth > MAX_DEPTH {
            return Err(FolderError::TooDeep(path.to_owned()));
        }
        let listed = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = listed.map_err(|error| failed("open", path, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let part = entry.file_name();
            let part = part.to_string_lossy();
            let name = if name.is_empty() { part.into_owned() } else { format!("{name}/{part}") };
            let mut kind = entry.file_type().map_err(|error| failed("lstat", &path, &error))?;
            if kind.is_symlink() {
                let target = fs::canonicalize(&path).map_err(|error| {
                    let error = failed("lstat", &path, &error);
                    FolderError::Read(format!("error evaluating symlink {}: {error}", path.display()))
                })?;
                self.warnings.push(format!(
                    "found symbolic link in path: {} resolves to {}. Contents of linked file included and used",
                    path.display(),
                    target.display()
                ));
                kind = fs::metadata(&target).map_err(|error| failed("lstat", &target, &error))?.file_type();
            }
            if self.rules.ignore(&name, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.folder(&path, &name, depth + 1)?;
            } else {
                self.file(&path, name, kind)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, kind: FileType) -> Result<(), FolderError> {
        if !kind.is_file() {
            return Err(FolderError::Irregular(path.to_owned()));
        }
        if self.files.len() >= self.most_files {
            return Err(FolderError::TooManyFiles(self.most_files));
        }
        let file = fs::File::open(path).map_err(|error| {
            FolderError::Read(format!("error reading {name}: {}", failed("open", path, &error)))
        })?;
        let length = file.metadata().map_or(0, |data| usize::try_from(data.len()).unwrap_or(usize::MAX));
        if self.profile == Profile::Helm3 && length > self.largest_file {
            let name = quote(name.rsplit('/').next().unwrap_or(&name));
            return Err(FolderError::TooLarge(format!(
                "chart file {name} is larger than the maximum file size {}",
                self.largest_file
            )));
        }
        let too_large = |name: &str, largest: usize| {
            FolderError::TooLarge(format!(
                "error reading {name}: chart exceeds maximum decompressed size of {largest} bytes"
            ))
        };
        if length > self.left {
            return Err(too_large(&name, self.largest));
        }
        // Limited, because the file may have grown since its length was read.
        let mut data = Vec::with_capacity(length + 1);
        file.take(self.left as u64 + 1).read_to_end(&mut data).map_err(|error| {
            FolderError::Read(format!("error reading {name}: {}", failed("read", path, &error)))
        })?;
        self.left = self.left.checked_sub(data.len()).ok_or_else(|| too_large(&name, self.largest))?;
        let data = Bytes::from(data);
        let data = if data.starts_with(b"\xef\xbb\xbf") { data.slice(3..) } else { data };
        self.files.push(File { name: name.into(), data });
        Ok(())
    }
}

/// The absolute path without `.` and `..`, as Go's `filepath.Abs` returns it.
fn absolute(path: &Path) -> Result<PathBuf, FolderError> {
    let whole = std::path::absolute(path).map_err(|error| failed("getwd", path, &error))?;
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
fn failed(what: &str, path: &Path, error: &io::Error) -> FolderError {
    FolderError::Read(format!("{what} {}: {}", path.display(), reason(error)))
}

fn reason(error: &io::Error) -> String {
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

    fn said(path: &Path, profile: Profile) -> String {
        load(path, profile).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_is_read_in_order_but_for_what_is_ignored() {
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
    fn links_are_followed_with_a_warning_and_not_for_ever() {
        let elsewhere = folder(&[("x.yaml", "linked")]);
        let folder = folder(&[CHART]);
        symlink(elsewhere.path(), folder.path().join("templates")).unwrap();
        let loaded = load(folder.path(), Profile::Helm3).unwrap();
        assert_eq!(&loaded.chart.templates[0].data[..], b"linked");
        assert!(loaded.warnings[0].starts_with("found symbolic link in path: "), "{:?}", loaded.warnings);
        symlink(folder.path(), folder.path().join("loop")).unwrap();
        let said = said(folder.path(), Profile::Helm3);
        assert!(
            said.contains("too many levels of symbolic links") || said.contains("deep in its chart"),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_chart_is_refused_in_helms_words() {
        let folder = folder(&[
            ("values.yaml", "a: b\n"),
            ("text", "hello"),
            ("page.html", "<html>"),
            ("zip", "PK\u{3}\u{4}"),
        ]);
        let path = folder.path().canonicalize().unwrap();
        let shown = path.display();
        assert_eq!(said(&path, Profile::Helm3), "Chart.yaml file is missing");
        assert_eq!(
            said(&path, Profile::Helm4),
            format!(
                "unable to detect chart at {shown}/Chart.yaml: open {shown}/Chart.yaml: no such file or directory"
            )
        );
        assert_eq!(
            said(&path.join("none"), Profile::Helm3),
            format!("stat {shown}/none: no such file or directory")
        );
        assert_eq!(
            said(&path.join("values.yaml"), Profile::Helm3),
            format!("file '{shown}/values.yaml' seems to be a YAML file, but expected a gzipped archive")
        );
        for (name, kind) in [
            ("text", "application/octet-stream"),
            ("page.html", "text/html; charset=utf-8"),
            ("zip", "application/zip"),
        ] {
            assert_eq!(
                said(&path.join(name), Profile::Helm3),
                format!("file '{shown}/{name}' does not appear to be a gzipped archive; got '{kind}'")
            );
        }
    }

    #[test]
    fn a_socket_is_no_part_of_a_chart() {
        let folder = folder(&[CHART]);
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
        let said = said(folder.path(), Profile::Helm3);
        assert!(
            said.starts_with("cannot load irregular file ")
                && said.ends_with(" as it has file mode type bits set")
        );
    }

    #[test]
    fn large_files_are_refused_by_helm_3_alone() {
        let folder = folder(&[CHART, ("large", &"x".repeat((5 << 20) + 1))]);
        assert_eq!(
            said(folder.path(), Profile::Helm3),
            "chart file \"large\" is larger than the maximum file size 5242880"
        );
        assert!(load(folder.path(), Profile::Helm4).is_ok());
    }
}
