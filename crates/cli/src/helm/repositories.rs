//! Repositories file and index cache, in Helm's format.
//!
//! Invariant: written files are complete and readable by the owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use chart_store::ChartRepository;
use clap::Args;
use helm_chart::index::Index;
use helm_template::profile::Profile;
use serde::{Deserialize, Serialize};

use super::flags::go_io_error;
use super::remote::access;
use crate::platform::contexts::write_private;
use crate::platform::secret::Secret;

/// Paths of the repositories file and of the cache.
#[derive(Clone, Debug, Default, Args)]
pub struct RepoPathsArgs {
    /// File with the repository names [default: `repositories.yaml` in the user's configuration directory]
    #[arg(long, value_name = "FILE")]
    pub repository_config: Option<PathBuf>,
    /// Directory for cached indexes and charts [default: in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    pub repository_cache: Option<PathBuf>,
}

impl RepoPathsArgs {
    /// Whether a path was given.
    pub fn is_set(&self) -> bool {
        self.repository_config.is_some() || self.repository_cache.is_some()
    }

    pub fn resolve(&self) -> Result<RepoPaths, String> {
        let file = self.repository_config.clone();
        let cache = self.repository_cache.clone();
        Ok(RepoPaths {
            file: file.map_or_else(
                || Ok(xdg_path("XDG_CONFIG_HOME", ".config")?.join("repositories.yaml")),
                Ok::<_, String>,
            )?,
            cache: cache.map_or_else(
                || Ok(xdg_path("XDG_CACHE_HOME", ".cache")?.join("repository")),
                Ok::<_, String>,
            )?,
        })
    }
}

/// Longshore's folder in one of the user's XDG folders.
fn xdg_path(variable: &str, at_home: &str) -> Result<PathBuf, String> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder(variable).or_else(|| folder("HOME").map(|home| home.join(at_home)));
    let base = base.ok_or_else(|| format!("no directory for repositories: set {variable} or HOME"))?;
    Ok(base.join("longshore"))
}

/// Paths of the repositories file and of the cache.
#[derive(Clone, Debug)]
pub struct RepoPaths {
    file: PathBuf,
    cache: PathBuf,
}

/// Content of the repositories file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Repositories {
    api_version: String,
    generated: String,
    pub repositories: Vec<RepositoryEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepositoryEntry {
    #[serde(rename = "caFile")]
    pub ca_file: String,
    #[serde(rename = "certFile")]
    pub cert_file: String,
    pub insecure_skip_tls_verify: bool,
    #[serde(rename = "keyFile")]
    pub key_file: String,
    pub name: String,
    pub pass_credentials_all: bool,
    #[serde(with = "plain")]
    pub password: Option<Secret>,
    pub url: String,
    pub username: String,
}

/// Helm writes an empty string for no password.
mod plain {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Secret;

    #[expect(clippy::ref_option, reason = "serde requires a reference")]
    pub fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.as_ref().map_or("", Secret::expose))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.filter(|text| !text.is_empty()).map(Secret::new))
    }
}

impl Repositories {
    pub fn get(&self, name: &str) -> Option<&RepositoryEntry> {
        self.repositories.iter().find(|entry| entry.name == name)
    }

    /// Adds or replaces a repository.
    pub fn upsert(&mut self, entry: RepositoryEntry) {
        match self.repositories.iter_mut().find(|other| other.name == entry.name) {
            Some(other) => *other = entry,
            None => self.repositories.push(entry),
        }
    }
}

impl RepositoryEntry {
    /// Access to the repository.
    pub fn repository(&self) -> Result<ChartRepository, String> {
        let files = [&*self.ca_file, &self.cert_file, &self.key_file];
        let access = access(&self.username, self.password.as_ref(), files, self.insecure_skip_tls_verify)?;
        Ok(ChartRepository {
            name: self.name.clone(),
            address: self.url.parse().map_err(|why| format!("{why}"))?,
            access,
            pass_credentials: self.pass_credentials_all,
        })
    }
}

impl RepoPaths {
    /// Reads the file. A missing file is empty.
    pub fn read(&self) -> Result<Repositories, String> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Repositories::default()),
            Err(error) => return Err(io_error_message(&self.file, &error)),
        };
        if text.trim().is_empty() {
            return Ok(Repositories::default());
        }
        // The line is not repeated, because it may contain a password.
        serde_norway::from_str(&text).map_err(|error| {
            let line = error.location().map_or(1, |place| place.line());
            format!("{} is not a valid repositories file: error in line {line}", self.file.display())
        })
    }

    /// Reads, changes and writes the file under a lock.
    pub fn update(&self, change: impl FnOnce(&mut Repositories) -> Result<(), String>) -> Result<(), String> {
        let wrong = |error: io::Error| io_error_message(&self.file, &error);
        create_private_folder(self.file.parent().unwrap_or(Path::new("."))).map_err(wrong)?;
        // The lock is held until it is dropped. The repositories file itself cannot be locked, because it is replaced.
        let lock = self.file.with_extension("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock);
        let lock = lock.map_err(wrong)?;
        lock.lock().map_err(wrong)?;
        let mut repositories = self.read()?;
        change(&mut repositories)?;
        if repositories.generated.is_empty() {
            // Go's zero time, which Helm writes when no time is set.
            "0001-01-01T00:00:00Z".clone_into(&mut repositories.generated);
        }
        let text = serde_norway::to_string(&repositories).map_err(|error| error.to_string())?;
        write_private(&self.file, text.as_bytes()).map_err(wrong)
    }

    /// The cached index of a repository.
    pub fn index(&self, name: &str, profile: Profile) -> Result<Index, String> {
        let file = self.index_file(name);
        let text = fs::read(&file).map_err(|error| io_error_message(&file, &error))?;
        let index = Index::parse(&Bytes::from(text), profile);
        index.map_err(|error| format!("error loading {}: {error}", file.display()))
    }

    pub fn save_index(&self, name: &str, text: &Bytes, index: &Index) -> Result<(), String> {
        self.save_file(&format!("{name}-index.yaml"), text)?;
        let names: String = index.names().flat_map(|name| [name, "\n"]).collect();
        self.save_file(&format!("{name}-charts.txt"), names.as_bytes())?;
        Ok(())
    }

    pub fn remove_index(&self, name: &str) -> Result<(), String> {
        for file in [self.cache.join(format!("{name}-charts.txt")), self.index_file(name)] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error_message(&file, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a file into the cache and returns its path.
    pub fn save_file(&self, name: &str, content: &[u8]) -> Result<PathBuf, String> {
        let file = self.cache.join(name);
        create_private_folder(&self.cache).map_err(|error| io_error_message(&self.cache, &error))?;
        write_private(&file, content).map_err(|error| io_error_message(&file, &error))?;
        Ok(file)
    }

    fn index_file(&self, name: &str) -> PathBuf {
        self.cache.join(format!("{name}-index.yaml"))
    }
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn io_error_message(file: &Path, error: &io::Error) -> String {
    format!("open {}: {}", file.display(), go_io_error(error))
}
