//! Archives of charts in the cluster: a `HelmPackage`, and immutable ConfigMaps with its bytes.
//!
//! The package is written first, then its pieces, which belong to it, then that it is ready; who is killed in between leaves
//! what the next one completes. Bytes are only believed if they have the digest that the package says. What nobody refers to is
//! collected after a while; whoever wants to refer to a package keeps it first, and has half of that while to do so.

mod chunks;
mod collect;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::clock::Clock;
use domain::ids::shortened;
use domain::names::check_subdomain;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};
use kube_types::marks::MANAGED_BY;
use kube_types::package::{HelmPackage, HelmPackageSpec, Origin, PackagedChart, phase};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

pub use collect::Collected;

use crate::digest::Digest;
use crate::failure::ChartError;
use crate::source::Fetched;

/// What packages may take, and how long one is kept that nobody refers to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub package: usize,
    pub total: usize,
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { package: 10 << 20, total: 256 << 20, grace: Duration::from_hours(1) }
    }
}

/// How long we remember that a package was kept; far less than the grace.
const REMEMBERED: Duration = Duration::from_mins(1);

/// The packages of a cluster. The client is the platform's own.
pub struct Packages {
    entries: Api<HelmPackage>,
    chunks: Api<ConfigMap>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    kept: Mutex<HashMap<String, (Instant, Digest)>>,
    /// One new package at a time, so that two cannot fill the same room.
    making: tokio::sync::Mutex<()>,
}

impl Packages {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(client, clock, Limits::default())
    }

    pub fn with_limits(client: Client, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        Self {
            entries: Api::all(client.clone()),
            chunks: Api::namespaced(client, SYSTEM_NAMESPACE),
            clock,
            limits,
            kept: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Keeps a chart, and says what its package is called. Done twice it is done once.
    pub async fn put(&self, fetched: &Fetched, origin: Origin) -> Result<String, ChartError> {
        let (size, limit) = (fetched.bytes.len(), self.limits.package);
        if size > limit {
            return Err(ChartError::TooLarge { size, limit });
        }
        let name = fetched.digest.package();
        if self.was_kept(&name) == Some(fetched.digest) {
            return Ok(name);
        }
        let package = match self.entries.get_opt(&name).await? {
            Some(package) => package,
            None => self.make(&name, fetched, origin).await?,
        };
        if package.spec.digest != fetched.digest.to_string() {
            return Err(ChartError::Taken(name));
        }
        if is_ready(&package) {
            self.touch(&package).await?;
        } else {
            chunks::write(&self.chunks, &package, &fetched.bytes).await?;
            self.mark(&name, phase::READY).await?;
        }
        self.remember(&name, fetched.digest);
        Ok(name)
    }

    /// Sees to it that a package stays for a while, so that somebody can refer to it. Says which bytes it has.
    pub async fn keep(&self, name: &str) -> Result<Digest, ChartError> {
        if let Some(digest) = self.was_kept(name) {
            return Ok(digest);
        }
        let package = self.read(name).await?;
        let digest = digest(&package)?;
        self.touch(&package).await?;
        self.remember(name, digest);
        Ok(digest)
    }

    /// The bytes of a package.
    pub async fn get(&self, name: &str) -> Result<Bytes, ChartError> {
        let package = self.read(name).await?;
        let digest = digest(&package)?;
        let whole = match chunks::read(&self.chunks, &package).await? {
            Some(bytes) if Digest::of(&bytes) == digest => Ok(bytes),
            Some(_) => Err(ChartError::Corrupt(name.to_owned())),
            None => Err(ChartError::Incomplete(name.to_owned())),
        };
        // Whoever next has these bytes completes it.
        if whole.is_err() && is_ready(&package) {
            self.forget(name);
            self.mark(name, phase::MISSING).await?;
        }
        whole
    }

    async fn read(&self, name: &str) -> Result<HelmPackage, ChartError> {
        check_subdomain(name).map_err(|_| ChartError::NoPackage(shortened(name)))?;
        self.entries.get_opt(name).await?.ok_or_else(|| ChartError::NoPackage(name.to_owned()))
    }

    async fn make(&self, name: &str, fetched: &Fetched, origin: Origin) -> Result<HelmPackage, ChartError> {
        let _one_at_a_time = self.making.lock().await;
        let held = self.size().await?;
        let wanted = held + fetched.bytes.len();
        if wanted > self.limits.total {
            return Err(ChartError::Full { wanted, limit: self.limits.total });
        }
        let package = HelmPackage {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: spec(fetched, origin),
            status: None,
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.entries.create(&params, &package).await {
            // Somebody was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => self.read(name).await,
            made => Ok(made?),
        }
    }

    /// How many bytes all packages have.
    async fn size(&self) -> Result<usize, ChartError> {
        let sizes = self.all().map_ok(|package| usize::try_from(package.spec.size).unwrap_or_default());
        sizes.try_fold(0, async |sum, size| Ok(sum + size)).await
    }

    fn all(&self) -> impl futures::Stream<Item = Result<HelmPackage, ChartError>> {
        let pages = futures::stream::try_unfold(Some(String::new()), async |next| {
            let Some(token) = next else { return Ok(None) };
            let params = ListParams::default().limit(500);
            let params = if token.is_empty() { params } else { params.continue_token(&token) };
            let page = self.entries.list(&params).await?;
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            Ok::<_, ChartError>(Some((page.items, next)))
        });
        pages.map_ok(|page| futures::stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    /// Says that somebody wants it, if that was not said lately.
    async fn touch(&self, package: &HelmPackage) -> Result<(), ChartError> {
        let age = self.clock.now().duration_since(last_use(package));
        let half = jiff::SignedDuration::try_from(self.limits.grace / 2).unwrap_or(jiff::SignedDuration::MAX);
        if age < half {
            return Ok(());
        }
        self.patch(&package.name_any(), json!({"lastUse": Time(self.clock.now())})).await
    }

    async fn mark(&self, name: &str, phase: &str) -> Result<(), ChartError> {
        self.patch(name, json!({"phase": phase, "lastUse": Time(self.clock.now())})).await
    }

    async fn patch(&self, name: &str, status: serde_json::Value) -> Result<(), ChartError> {
        let patch = Patch::Merge(json!({"status": status}));
        self.entries.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The bytes of a package that was kept lately.
    fn was_kept(&self, name: &str) -> Option<Digest> {
        let window = REMEMBERED.min(self.limits.grace / 4);
        self.kept.lock().get(name).filter(|(at, _)| at.elapsed() < window).map(|(_, digest)| *digest)
    }

    fn remember(&self, name: &str, digest: Digest) {
        let mut kept = self.kept.lock();
        kept.retain(|_, (at, _)| at.elapsed() < REMEMBERED);
        kept.insert(name.to_owned(), (Instant::now(), digest));
    }

    fn forget(&self, name: &str) {
        self.kept.lock().remove(name);
    }
}

fn spec(fetched: &Fetched, origin: Origin) -> HelmPackageSpec {
    let metadata = &fetched.chart.metadata;
    let count = fetched.bytes.len().div_ceil(chunks::SIZE);
    HelmPackageSpec {
        digest: fetched.digest.to_string(),
        size: i64::try_from(fetched.bytes.len()).expect("the limit is far below"),
        chunks: i64::try_from(count).expect("there are fewer than bytes"),
        chart: PackagedChart {
            name: short(&metadata.name, 253),
            version: short(&metadata.version, 253),
            app_version: short(&metadata.app_version, 253),
            kind: short(&metadata.chart_type, 63),
        },
        origin,
    }
}

/// What a list shows of a text: the archive has the rest.
fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn digest(package: &HelmPackage) -> Result<Digest, ChartError> {
    package.spec.digest.parse().map_err(|_| ChartError::Corrupt(package.name_any()))
}

fn is_ready(package: &HelmPackage) -> bool {
    package.status.as_ref().is_some_and(|status| status.phase == phase::READY)
}

/// When somebody last wanted it.
fn last_use(package: &HelmPackage) -> jiff::Timestamp {
    let made = package.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let used = package.status.as_ref().and_then(|status| status.last_use.as_ref()).map(|time| time.0);
    made.max(used).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
