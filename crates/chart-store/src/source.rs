//! Where a chart is, and what comes of it.

use std::sync::Arc;

use bytes::Bytes;
use helm_chart::{Chart, Loader};
use helm_template::profile::Profile;

use crate::digest::Digest;
use crate::failure::ChartError;

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
        loaded.await.map_err(|_| ChartError::Interrupted)?
    }

    /// The version that a range came to.
    pub fn version(&self) -> &str {
        &self.chart.metadata.version
    }

    pub fn name(&self) -> &str {
        &self.chart.metadata.name
    }

    /// About how many bytes of memory it holds.
    pub(crate) fn weight(&self) -> usize {
        fn files(chart: &Chart) -> usize {
            let own: usize = chart.raw.iter().map(|file| file.data.len() + file.name.len() + 64).sum();
            own + chart.dependencies.iter().map(files).sum::<usize>()
        }
        self.bytes.len() + files(&self.chart)
    }
}
