//! Writing charts as archives.

use std::fs;
use std::path::{Path, PathBuf};

use helm_chart::{Chart, archive};
use helm_template::env::Clock;
use helm_template::profile::Profile;
use jiff::Timestamp;

use super::flags::go_io_error;

/// Modification time of an archive's entries.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveTime {
    pub timestamp: Timestamp,
    /// Whether the time is fixed, for reproducible archives.
    pub is_fixed: bool,
}

impl ArchiveTime {
    /// The current time, or `SOURCE_DATE_EPOCH`.
    pub fn from_environment(clock: &dyn Clock) -> Result<Self, String> {
        let Some(epoch) = std::env::var("SOURCE_DATE_EPOCH").ok().filter(|epoch| !epoch.is_empty()) else {
            return Ok(Self { timestamp: clock.now(), is_fixed: false });
        };
        let invalid = |why: String| format!("invalid SOURCE_DATE_EPOCH: {why}");
        let seconds: i64 = epoch
            .parse()
            .map_err(|_| invalid(format!("strconv.ParseInt: parsing {epoch:?}: invalid syntax")))?;
        if seconds < 0 {
            return Err(invalid("must not be negative".into()));
        }
        let when = Timestamp::from_second(seconds).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { timestamp: when, is_fixed: true })
    }
}

/// The current time in Go's format.
pub fn go_timestamp(clock: &dyn Clock) -> String {
    let now = clock.now().to_zoned(clock.zone()).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string();
    now.strip_suffix("+00:00").map(|utc| format!("{utc}Z")).unwrap_or(now)
}

/// Packs a chart into a folder, creating it if necessary. Returns the archive's path.
pub fn save_archive(
    chart: &mut Chart,
    folder: &Path,
    profile: Profile,
    archive_time: ArchiveTime,
) -> Result<PathBuf, String> {
    if archive_time.is_fixed && profile == Profile::Helm4 {
        set_lock_times(chart, &archive_time.timestamp.to_string());
    }
    let seconds = u64::try_from(archive_time.timestamp.as_second()).unwrap_or_default();
    let packed = archive::write(chart, profile, seconds).map_err(|error| error.to_string())?;
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => return Err(format!("is not a directory: {}", folder.display())),
        Ok(_) => {}
        Err(_) => fs::create_dir_all(folder)
            .map_err(|error| format!("mkdir {}: {}", folder.display(), go_io_error(&error)))?,
    }
    let file = folder.join(format!("{}-{}.tgz", chart.metadata.name, chart.metadata.version));
    fs::write(&file, packed).map_err(|error| format!("open {}: {}", file.display(), go_io_error(&error)))?;
    Ok(file)
}

/// Sets the generation time in the lock files of a chart and its subcharts.
fn set_lock_times(chart: &mut Chart, when: &str) {
    if let Some(lock) = &mut chart.lock {
        lock.generated = when.into();
    }
    chart.dependencies.iter_mut().for_each(|dependency| set_lock_times(dependency, when));
}
