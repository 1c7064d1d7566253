//! Sources of charts, and charts fetched from them.

use std::sync::Arc;

use bytes::Bytes;
use governor::bytes::ByteReservation;
use governor::work::{WorkContext, WorkError};
use helm_chart::archive::ArchiveLimits;
use helm_chart::{Chart, Loader};
use helm_template::budget::members_size;
use helm_template::profile::Profile;

use crate::digest::Digest;
use crate::error::ChartError;
use crate::work::WorkBudget;

/// Upper bound of memory per byte of parsed YAML, including the parser's.
const PARSED_MEMORY_FACTOR: usize = 32;
/// Server limits when unpacking a chart: bytes of all files, of the files parsed on load, and of templates, which are
/// parsed when it is rendered. All fit into the share of one workspace.
pub const MAX_UNPACKED_LEN: usize = 64 << 20;
pub const MAX_PARSED_LEN: usize = 2 << 20;
pub const MAX_TEMPLATES_LEN: usize = 16 << 20;
/// Memory of a file besides its content: archive header and entries in lists of the chart.
const FILE_OVERHEAD: usize = 1 << 10;
/// Files whose parsed form is kept as well.
const METADATA_FILES: [&str; 4] = ["Chart.yaml", "Chart.lock", "requirements.yaml", "requirements.lock"];
/// Limits tried first: nearly all charts are smaller.
const DEFAULT_UNPACKED_LEN: usize = 1 << 20;
const DEFAULT_PARSED_LEN: usize = 128 << 10;

/// Source of a chart.
#[derive(Clone, PartialEq, Eq)]
pub enum ChartSource {
    /// In a repository, by the name of its `HelmRepo`. The version may be a range; empty selects the newest.
    Repo { repo: String, chart: String, version: String },
    /// In a registry: `oci://HOST/PATH[:TAG][@DIGEST]`. The version may be a range, for references without a tag.
    Oci { reference: String, version: String },
    /// A stored package, by the name of its `HelmPackage`.
    Package(String),
    /// An archive in memory.
    Archive(Bytes),
}

impl std::fmt::Debug for ChartSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repo { repo, chart, version } => write!(f, "{repo}/{chart} {version}"),
            Self::Oci { reference, version } => write!(f, "{reference} {version}"),
            Self::Package(name) => f.write_str(name),
            Self::Archive(bytes) => write!(f, "an archive of {} bytes", bytes.len()),
        }
    }
}

/// A loaded chart and its archive.
#[derive(Clone, Debug)]
pub struct LoadedChart {
    pub bytes: Bytes,
    pub digest: Digest,
    pub chart: Arc<Chart>,
}

impl LoadedChart {
    /// Loads a chart from an archive on a blocking thread, because it can take long.
    pub async fn load(bytes: Bytes, profile: Profile) -> Result<Self, ChartError> {
        let loaded = tokio::task::spawn_blocking(move || {
            let chart = Loader::new(profile).load_archive(&bytes).map_err(ChartError::Load)?;
            Ok(Self { digest: Digest::sha256(&bytes), chart: Arc::new(chart), bytes })
        });
        loaded.await.map_err(|_| ChartError::Work(WorkError::Panicked))?
    }

    /// Loads a chart within a budget: first with usual limits and the size that the archive states, then with the
    /// maximum. `held` is the reservation of the archive's bytes.
    pub async fn load_with_budget(
        bytes: Bytes,
        profile: Profile,
        work: &WorkBudget,
        held: ByteReservation,
    ) -> Result<Self, ChartError> {
        if !work.is_bounded() {
            return Self::load(bytes, profile).await;
        }
        let all = ArchiveLimits { templates: MAX_TEMPLATES_LEN, ..ArchiveLimits::for_profile(profile) };
        let most = ArchiveLimits { unpacked: MAX_UNPACKED_LEN, parsed: MAX_PARSED_LEN, ..all };
        let likely = stated_unpacked_len(&bytes).saturating_mul(2).saturating_add(DEFAULT_UNPACKED_LEN);
        let usual =
            ArchiveLimits { unpacked: likely.min(MAX_UNPACKED_LEN), parsed: DEFAULT_PARSED_LEN, ..all };
        let held = Arc::new(held);
        let loaded = Self::load_limited(bytes.clone(), profile, work, (usual, held.clone())).await;
        let loaded = match loaded {
            Err(ChartError::Load(error)) if error.is_too_large() => {
                Self::load_limited(bytes, profile, work, (most, held)).await
            }
            done => done,
        };
        match loaded {
            Err(ChartError::Load(error)) if error.is_too_large() => Err(ChartError::UnpackedTooLarge {
                unpacked: MAX_UNPACKED_LEN,
                parsed: MAX_PARSED_LEN,
                templates: MAX_TEMPLATES_LEN,
            }),
            done => done,
        }
    }

    async fn load_limited(
        bytes: Bytes,
        profile: Profile,
        work: &WorkBudget,
        (limits, held): (ArchiveLimits, Arc<ByteReservation>),
    ) -> Result<Self, ChartError> {
        let headers = limits.unpacked / 4 + (1 << 20);
        let needed = limits.unpacked + headers + limits.parsed * PARSED_MEMORY_FACTOR;
        let loaded = work.run(needed as u64, Some(held), move |ticket: &WorkContext| {
            let interrupt = ticket.interrupt();
            let interrupt = move || interrupt.check().map_err(|interrupted| interrupted.to_string().into());
            let loaded = Loader::with_limits(profile, limits).with_interrupt(interrupt).load_archive(&bytes);
            let chart = loaded.map_err(|error| match ticket.check() {
                Err(interrupted) => ChartError::Work(interrupted.into()),
                Ok(()) => ChartError::Load(error),
            })?;
            Ok(Self { digest: Digest::sha256(&bytes), chart: Arc::new(chart), bytes })
        });
        loaded.await?
    }

    /// The resolved version.
    pub fn version(&self) -> &str {
        &self.chart.metadata.version
    }

    pub fn name(&self) -> &str {
        &self.chart.metadata.name
    }

    /// Approximate memory in bytes, without data cached for rendering.
    pub fn weight(&self) -> usize {
        fn tree(chart: &Chart) -> usize {
            let weigh = |file: &helm_chart::File| {
                let parsed = if METADATA_FILES.contains(&&*file.name) { PARSED_MEMORY_FACTOR / 2 } else { 0 };
                // The buffer shared by the files may be twice their size.
                file.data.len() * (2 + parsed) + file.name.len() + FILE_OVERHEAD
            };
            let own: usize = chart.raw.iter().map(weigh).sum();
            own + members_size(&chart.values) + chart.dependencies.iter().map(tree).sum::<usize>()
        }
        self.bytes.len() + tree(&self.chart)
    }
}

/// Unpacked size stated at the end of the archive; with several members, that of the last.
fn stated_unpacked_len(archive: &[u8]) -> usize {
    archive.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize)
}
