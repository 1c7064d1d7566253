//! `longshore pull`: downloads charts.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use helm_chart::Loader;
use helm_template::profile::Profile;

use super::flags::{HelmArg, Switch, go_io_error, switch};
use super::remote::{PulledChart, RemoteArgs, block_on};
use super::{CommandError, CommandResult};

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct PullArgs {
    /// Charts: REPO/CHART, URL or OCI reference
    #[arg(value_name = "CHART", required = true, action = ArgAction::Append)]
    pub charts: Vec<String>,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Directory to write the chart to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub destination: PathBuf,
    /// Unpack the chart
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub untar: Switch,
    /// Subdirectory of the destination to unpack into
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub untardir: PathBuf,
}

pub fn run(args: &PullArgs) -> CommandResult {
    let mut said = String::new();
    for name in &args.charts {
        match pull(args, name) {
            Ok(more) => said.push_str(&more),
            Err(why) => return Err(CommandError::with_output(said, why)),
        }
    }
    Ok(said.into_bytes())
}

fn pull(args: &PullArgs, name: &str) -> Result<String, String> {
    let profile = args.helm.profile;
    let pulled = block_on(args.remote.fetch(name.trim(), profile))??;
    if args.untar.0 {
        // Removes `.` components, because a folder `.` cannot be created.
        let folder: PathBuf = args.destination.join(&args.untardir).components().collect();
        untar(&folder, &pulled, profile)?;
    } else {
        let file = args.destination.join(&pulled.file);
        write(&file, &pulled.fetched.bytes).map_err(|error| io_error_message(&file, &error))?;
    }
    let Some(reference) = &pulled.reference else { return Ok(String::new()) };
    let (host, path, version) = (&reference.host, &reference.path, pulled.fetched.version());
    Ok(format!("Pulled: {host}/{path}:{version}\nDigest: {}\n", pulled.fetched.digest))
}

/// Unpacks a chart atomically into a new folder of its name. Entry names were checked when the archive was read: none
/// is outside the chart, and none is a link.
fn untar(folder: &Path, pulled: &PulledChart, profile: Profile) -> Result<(), String> {
    let name = pulled.fetched.name();
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
        return Err(format!("failed to untar: chart name {name:?} is not allowed"));
    }
    let place = folder.join(name);
    if place.symlink_metadata().is_ok() {
        let place = place.display();
        return Err(format!("failed to untar: a file or directory with the name {place} already exists"));
    }
    let files = Loader::new(profile).unpack(&pulled.fetched.bytes).map_err(|error| error.to_string())?;
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        fs::create_dir_all(folder)?;
        fs::create_dir(&draft)?;
        for file in &files {
            let path = draft.join(&*file.name);
            fs::create_dir_all(path.parent().unwrap_or(&draft))?;
            fs::OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(&file.data)?;
        }
        fs::rename(&draft, &place)
    })();
    written.map_err(|error| {
        // The first error is returned.
        let _ = fs::remove_dir_all(&draft);
        format!("failed to untar: {}", io_error_message(&place, &error))
    })
}

/// Writes an archive atomically, replacing an existing one.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let draft = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn io_error_message(path: &Path, error: &io::Error) -> String {
    format!("open {}: {}", path.display(), go_io_error(error))
}
