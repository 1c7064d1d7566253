//! `longshore repo index`: builds a repository index from a folder of archives.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use helm_chart::index::{Index, IndexBuilder, join_url};
use helm_host::Host;
use helm_template::profile::Profile;

use super::super::flags::{HelmArg, go_io_error};
use super::super::save;

#[derive(Clone, Debug, Args)]
pub struct RepoIndexArgs {
    /// Directory with chart archives; its subdirectories are included
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    pub helm: HelmArg,
    /// URL at which the directory will be served
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub url: String,
    /// Existing index to merge; entries of the directory take precedence
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
}

/// `longshore repo index`
pub fn index(args: &RepoIndexArgs) -> Result<(), String> {
    let profile = args.helm.profile;
    let host = Host::new();
    let now = || save::go_timestamp(&host);
    let mut builder = IndexBuilder::new(profile);
    for archive in find_archives(&args.folder)? {
        add(&mut builder, args, &archive, &now())?;
    }
    if let Some(other) = args.merge.as_deref().filter(|path| !path.as_os_str().is_empty()) {
        if other.exists() {
            let other = read(other, profile).map_err(|why| format!("merge failed: {why}"))?;
            other.warnings.iter().for_each(|line| eprintln!("{line}"));
            builder.merge(&other).map_err(|error| format!("merge failed: {error}"))?;
        } else {
            write(other, IndexBuilder::new(profile), &now())?;
        }
    }
    write(&args.folder.join("index.yaml"), builder, &now())
}

/// Archives in the folder, then those in its subfolders.
fn find_archives(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    for path in list_folder(folder)? {
        if path.is_dir() {
            folders.push(path.clone());
        }
        found.push(path);
    }
    for inner in folders {
        // Unreadable folders are skipped.
        found.extend(list_folder(&inner).unwrap_or_default());
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "tgz"));
    Ok(found)
}

/// Entries of a folder, sorted by name; empty if there is no folder.
fn list_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(
            entry.map_err(|error| format!("open {}: {}", folder.display(), go_io_error(&error)))?.path(),
        );
    }
    paths.sort();
    Ok(paths)
}

fn add(builder: &mut IndexBuilder, args: &RepoIndexArgs, archive: &Path, now: &str) -> Result<(), String> {
    // Archives that are not charts are skipped.
    let Ok(loaded) = helm_host::load_without_detection(archive, args.helm.profile) else { return Ok(()) };
    let bytes =
        fs::read(archive).map_err(|error| format!("open {}: {}", archive.display(), go_io_error(&error)))?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let parent = archive.parent().and_then(|parent| parent.strip_prefix(&args.folder).ok());
    let parent = parent.map(|parent| parent.to_string_lossy()).unwrap_or_default();
    let url = join_url(&args.url, &parent);
    builder
        .add(loaded.chart.metadata, &name, &url, &helm_host::sha256(&bytes), now)
        .map_err(|why| format!("failed adding to {name} to index: validate failed for {name}: {why}"))
}

fn read(path: &Path, profile: Profile) -> Result<Index, String> {
    let text = fs::read(path).map_err(|error| format!("open {}: {}", path.display(), go_io_error(&error)))?;
    Index::parse(&Bytes::from(text), profile)
        .map_err(|error| format!("error loading {}: {error}", path.display()))
}

fn write(path: &Path, builder: IndexBuilder, now: &str) -> Result<(), String> {
    let text = builder.write(now).map_err(|error| error.to_string())?;
    fs::write(path, text).map_err(|error| format!("open {}: {}", path.display(), go_io_error(&error)))
}
