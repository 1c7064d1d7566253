//! Where a chart is, and what comes of it.

use std::sync::Arc;

use bytes::Bytes;
use governor::bytes::Reserved;
use governor::work::WorkError;
use helm_chart::archive::Limits;
use helm_chart::{Chart, Loader};
use helm_template::profile::Profile;

use crate::digest::Digest;
use crate::failure::ChartError;
use crate::work::Work;

/// Bytes of memory that a byte of parsed YAML takes at most, as data and while it is parsed.
const PARSED_FACTOR: usize = 32;
/// The most that the files of a chart may have when the server unpacks it, and those of them that are parsed. Both fit into the
/// share of one workspace.
pub const LARGEST_UNPACKED: usize = 64 << 20;
pub const LARGEST_PARSED: usize = 2 << 20;
/// Sizes that are tried first: nearly all charts are smaller.
const USUAL_UNPACKED: usize = 1 << 20;
const USUAL_PARSED: usize = 128 << 10;

/// Where a chart is.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// In a repository, by the name of its `HelmRepo`. The version may be a range; empty: the newest.
    Repo { repo: String, chart: String, version: String },
    /// In a registry: `oci://HOST/PATH[:TAG][@DIGEST]`. The version may be a range, where the reference says none.
    Oci { reference: String, version: String },
    /// Kept here already, by the name of its `HelmPackage`.
    Package(String),
    /// In somebody's hands.
    Archive(Bytes),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repo { repo, chart, version } => write!(f, "{repo}/{chart} {version}"),
            Self::Oci { reference, version } => write!(f, "{reference} {version}"),
            Self::Package(name) => f.write_str(name),
            Self::Archive(bytes) => write!(f, "an archive of {} bytes", bytes.len()),
        }
    }
}

/// A chart, with the bytes that it was loaded from.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub bytes: Bytes,
    pub digest: Digest,
    pub chart: Arc<Chart>,
}

impl Fetched {
    /// Loads a chart from the bytes of its archive, beside the runtime: it can take a while.
    pub async fn load(bytes: Bytes, profile: Profile) -> Result<Self, ChartError> {
        let loaded = tokio::task::spawn_blocking(move || {
            let chart = Loader::new(profile).archive(&bytes).map_err(ChartError::Load)?;
            Ok(Self { digest: Digest::of(&bytes), chart: Arc::new(chart), bytes })
        });
        loaded.await.map_err(|_| ChartError::Work(WorkError::Panicked))?
    }

    /// Loads a chart within a budget: first with what the archive says of its size and what is usual, then with the most that is
    /// allowed. `held` is the reservation of the archive's bytes.
    pub async fn load_within(
        bytes: Bytes,
        profile: Profile,
        work: &Work,
        held: Reserved,
    ) -> Result<Self, ChartError> {
        if !work.is_bounded() {
            return Self::load(bytes, profile).await;
        }
        let all = Limits::of(profile);
        let most = Limits { unpacked: LARGEST_UNPACKED, parsed: LARGEST_PARSED, ..all };
        let likely = promised(&bytes).saturating_mul(2).saturating_add(USUAL_UNPACKED);
        let usual = Limits { unpacked: likely.min(LARGEST_UNPACKED), parsed: USUAL_PARSED, ..all };
        let held = Arc::new(held);
        let loaded = Self::load_limited(bytes.clone(), profile, work, (usual, held.clone())).await;
        let loaded = match loaded {
            Err(ChartError::Load(error)) if error.is_too_large() => {
                Self::load_limited(bytes, profile, work, (most, held)).await
            }
            done => done,
        };
        match loaded {
            Err(ChartError::Load(error)) if error.is_too_large() => {
                Err(ChartError::Unpacked { unpacked: LARGEST_UNPACKED, parsed: LARGEST_PARSED })
            }
            done => done,
        }
    }

    async fn load_limited(
        bytes: Bytes,
        profile: Profile,
        work: &Work,
        (limits, held): (Limits, Arc<Reserved>),
    ) -> Result<Self, ChartError> {
        let headers = limits.unpacked / 4 + (1 << 20);
        let needed = limits.unpacked + headers + limits.parsed * PARSED_FACTOR;
        let loaded = work.run(needed as u64, Some(held), move |_| {
            let chart = Loader::with_limits(profile, limits).archive(&bytes).map_err(ChartError::Load)?;
            Ok(Self { digest: Digest::of(&bytes), chart: Arc::new(chart), bytes })
        });
        loaded.await?
    }

    /// The version that a range came to.
    pub fn version(&self) -> &str {
        &self.chart.metadata.version
    }

    pub fn name(&self) -> &str {
        &self.chart.metadata.name
    }

    /// About how many bytes of memory it holds.
    pub fn weight(&self) -> usize {
        fn files(chart: &Chart) -> usize {
            let weigh = |file: &helm_chart::File| {
                let parsed = if &*file.name == "values.yaml" { PARSED_FACTOR / 2 } else { 1 };
                file.data.len() * parsed + file.name.len() + 64
            };
            let own: usize = chart.raw.iter().map(weigh).sum();
            own + chart.dependencies.iter().map(files).sum::<usize>()
        }
        self.bytes.len() + files(&self.chart)
    }
}

/// The size before packing that the end of an archive names; of several members the last one's.
fn promised(archive: &[u8]) -> usize {
    archive.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize)
}
