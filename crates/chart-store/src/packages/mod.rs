//! Packages: chart archives stored in the cluster as a `HelmPackage` and immutable ConfigMaps with its bytes.
//!
//! The package is written first, then the chunks that it owns, then its ready status; an interrupted write is
//! completed by the next one. Bytes are accepted only if they match the digest of the package.
//!
//! A package is read by its recorded readers ([`readers`]), and charged once to each of their accounts: an account
//! has a quota, and all packages together a capacity. A workspace without an account has a quota of its own.
//! Unreferenced packages are collected after a grace period ([`gc`]); [`PackageStore::extend_grace`] extends it.

mod chunks;
pub mod gc;
pub mod readers;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::clock::Clock;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};
use kube_types::package::{
    HelmPackage, HelmPackageSpec, PACKAGE_NAME_PREFIX, PackageOrigin, PackagedChart, phase,
};
use kube_types::well_known::MANAGED_BY;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

pub use gc::{CollectResult, PackageReferences, WorkspaceIdentities};
pub use readers::Subject;

use crate::accounts::{AccountLookup, NoAccounts};
use crate::digest::{Digest, PACKAGE_NAME_LEN};
use crate::error::ChartError;
use crate::source::LoadedChart;
use readers::ReaderEntry;

/// Budgets of packages in bytes, and the grace period of unreferenced packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageLimits {
    /// Size of one archive.
    pub package: usize,
    /// All packages readable by the workspaces of an account (`[store] quota`).
    pub quota: u64,
    /// All packages (`[store] capacity`).
    pub capacity: u64,
    pub grace: Duration,
}

impl Default for PackageLimits {
    fn default() -> Self {
        Self { package: 10 << 20, quota: 32 << 20, capacity: 512 << 20, grace: Duration::from_hours(1) }
    }
}

/// Minimum charge of a package for its objects; it also bounds the number of packages.
pub const MIN_CHARGE: u64 = 32 << 10;

/// How long an extension of the grace period is cached; far less than the grace period.
const DIGEST_CACHE_TTL: Duration = Duration::from_mins(1);

/// Packages of a cluster. Uses the platform's own client.
pub struct PackageStore {
    package_api: Api<HelmPackage>,
    chunk_api: Api<ConfigMap>,
    clock: Arc<dyn Clock>,
    limits: PackageLimits,
    accounts: Arc<dyn AccountLookup>,
    digest_cache: Mutex<HashMap<(String, Subject), (Instant, Digest)>>,
    /// Serializes new packages and readers, so that two do not use the same part of a budget.
    write_lock: tokio::sync::Mutex<()>,
}

impl PackageStore {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(client, clock, PackageLimits::default())
    }

    pub fn with_limits(client: Client, clock: Arc<dyn Clock>, limits: PackageLimits) -> Self {
        Self {
            package_api: Api::all(client.clone()),
            chunk_api: Api::namespaced(client, SYSTEM_NAMESPACE),
            clock,
            limits,
            accounts: Arc::new(NoAccounts),
            digest_cache: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the accounts. The quota of an account replaces the quotas of its workspaces.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Arc<dyn AccountLookup>) -> Self {
        self.accounts = accounts;
        self
    }

    pub fn limits(&self) -> PackageLimits {
        self.limits
    }

    /// Stores a chart for a reader and returns the name of its package. Idempotent. The caller has the bytes, so the
    /// subject becomes a reader.
    pub async fn store(
        &self,
        fetched: &LoadedChart,
        origin: PackageOrigin,
        subject: &Subject,
    ) -> Result<String, ChartError> {
        let (size, limit) = (fetched.bytes.len(), self.limits.package);
        if size > limit {
            return Err(ChartError::TooLarge { size, limit });
        }
        let name = fetched.digest.package_name();
        if self.cached_digest(&name, subject) == Some(fetched.digest) {
            return Ok(name);
        }
        let package = match self.package_api.get_opt(&name).await? {
            Some(package) => package,
            None => self.create(&name, fetched, origin, subject).await?,
        };
        if package.spec.digest != fetched.digest.to_string() {
            return Err(ChartError::PackageConflict(name));
        }
        let package = self.add_reader(package, subject).await?;
        if is_ready(&package) {
            self.touch(&package, subject).await?;
        } else {
            chunks::write(&self.chunk_api, &package, &fetched.bytes).await?;
            self.set_phase(&name, phase::READY).await?;
        }
        self.cache_digest(&name, subject, fetched.digest);
        Ok(name)
    }

    /// Extends the grace period of a package, so that the subject can refer to it. Returns the digest of its bytes.
    pub async fn extend_grace(&self, name: &str, subject: &Subject) -> Result<Digest, ChartError> {
        if let Some(digest) = self.cached_digest(name, subject) {
            return Ok(digest);
        }
        let package = self.read(name, subject).await?;
        let digest = digest(&package)?;
        self.touch(&package, subject).await?;
        self.cache_digest(name, subject, digest);
        Ok(digest)
    }

    /// Whether a package with these bytes exists and the subject may read it.
    pub async fn is_reader(&self, digest: &Digest, subject: &Subject) -> Result<bool, ChartError> {
        let name = digest.package_name();
        if self.cached_digest(&name, subject) == Some(*digest) {
            return Ok(true);
        }
        let package = self.package_api.get_opt(&name).await?;
        Ok(package
            .is_some_and(|package| package.spec.digest == digest.to_string() && subject.may_read(&package)))
    }

    /// Size of a package that the subject may read.
    pub async fn size(&self, name: &str, subject: &Subject) -> Result<u64, ChartError> {
        Ok(size(&self.read(name, subject).await?))
    }

    /// Reads the bytes of a package.
    pub async fn get(&self, name: &str, subject: &Subject) -> Result<Bytes, ChartError> {
        let package = self.read(name, subject).await?;
        let digest = digest(&package)?;
        let whole = match chunks::read(&self.chunk_api, &package).await? {
            Some(bytes) if Digest::sha256(&bytes) == digest => Ok(bytes),
            Some(_) => Err(ChartError::Corrupt(name.to_owned())),
            None => Err(ChartError::Incomplete(name.to_owned())),
        };
        // The next upload or fetch of these bytes completes it.
        if whole.is_err() && is_ready(&package) {
            self.invalidate_digest(name);
            self.set_phase(name, phase::MISSING).await?;
        }
        whole
    }

    /// Reads a package. Reports it as missing if the subject may not read it.
    async fn read(&self, name: &str, subject: &Subject) -> Result<HelmPackage, ChartError> {
        let found = if is_package_name(name) { self.package_api.get_opt(name).await? } else { None };
        let found = found.filter(|package| subject.may_read(package));
        found.ok_or_else(|| ChartError::NoPackage(domain::ids::truncate_for_error(name)))
    }

    async fn create(
        &self,
        name: &str,
        fetched: &LoadedChart,
        origin: PackageOrigin,
        subject: &Subject,
    ) -> Result<HelmPackage, ChartError> {
        let _one_at_a_time = self.write_lock.lock().await;
        let package = HelmPackage {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
                annotations: Some(readers::initial_annotations(subject, self.clock.now())),
                ..ObjectMeta::default()
            },
            spec: spec(fetched, origin),
            status: None,
        };
        self.check_budgets(charge(&package), subject, true).await?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.package_api.create(&params, &package).await {
            // A concurrent request created it.
            Err(kube::Error::Api(status)) if status.code == 409 => self.read(name, &Subject::Platform).await,
            made => Ok(made?),
        }
    }

    /// Records a reader that has the bytes, and charges it.
    async fn add_reader(&self, package: HelmPackage, subject: &Subject) -> Result<HelmPackage, ChartError> {
        let Some(key) = subject.annotation_key() else { return Ok(package) };
        if readers::entry(&package, subject).is_some() {
            return Ok(package);
        }
        let _one_at_a_time = self.write_lock.lock().await;
        // Another workspace of the account may have been charged already.
        if !PackageQuota::new(&*self.accounts, subject).is_charged(&package) {
            self.check_budgets(charge(&package), subject, false).await?;
        }
        let dropped = readers::surplus_keys(&package).into_iter().map(|key| (key, serde_json::Value::Null));
        let value = ReaderEntry::annotation_value(subject.workspace(), self.clock.now());
        let annotations: serde_json::Map<_, _> = dropped.chain([(key, value.into())]).collect();
        let patch = json!({"metadata": {"uid": package.uid(), "annotations": annotations}});
        let patch = Patch::Merge(patch);
        Ok(self.package_api.patch(&package.name_any(), &PatchParams::default(), &patch).await?)
    }

    /// Rejects a package that would exceed the quota of the account or workspace or, if new, the capacity.
    async fn check_budgets(&self, wanted: u64, subject: &Subject, new: bool) -> Result<(), ChartError> {
        let mut quota = PackageQuota::new(&*self.accounts, subject);
        let (mut all, mut own) = (0_u64, 0_u64);
        let mut packages = std::pin::pin!(self.list_all());
        while let Some(package) = packages.try_next().await? {
            let charge = charge(&package);
            all = all.saturating_add(charge);
            if quota.is_charged(&package) {
                own = own.saturating_add(charge);
            }
        }
        let is_workspace = matches!(subject, Subject::Workspace { .. });
        if is_workspace && own.saturating_add(wanted) > self.limits.quota {
            let limit = self.limits.quota;
            return Err(ChartError::OverQuota { owner: quota.owner(), wanted, used: own, limit });
        }
        if new && all.saturating_add(wanted) > self.limits.capacity {
            // The usage of others is not disclosed.
            return Err(ChartError::StoreFull { wanted, limit: self.limits.capacity });
        }
        Ok(())
    }

    fn list_all(&self) -> impl futures::Stream<Item = Result<HelmPackage, ChartError>> {
        let pages = futures::stream::try_unfold(Some(String::new()), async |next| {
            let Some(token) = next else { return Ok(None) };
            let params = ListParams::default().limit(500);
            let params = if token.is_empty() { params } else { params.continue_token(&token) };
            let page = self.package_api.list(&params).await?;
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            Ok::<_, ChartError>(Some((page.items, next)))
        });
        pages.map_ok(|page| futures::stream::iter(page.into_iter().map(Ok))).try_flatten()
    }

    /// Records a use by the subject, unless one was recorded recently.
    async fn touch(&self, package: &HelmPackage, subject: &Subject) -> Result<(), ChartError> {
        let own = readers::entry(package, subject);
        let last = own.as_ref().map_or_else(|| last_platform_use(package), |entry| entry.last_use);
        let half = jiff::SignedDuration::try_from(self.limits.grace / 2).unwrap_or(jiff::SignedDuration::MAX);
        if self.clock.now().duration_since(last) < half {
            return Ok(());
        }
        let Some(own) = own else {
            return self.patch_status(&package.name_any(), json!({"lastUse": Time(self.clock.now())})).await;
        };
        let value = ReaderEntry::annotation_value(&own.workspace, self.clock.now());
        let metadata = json!({"uid": package.uid(), "annotations": {own.key: value}});
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.package_api.patch(&package.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn set_phase(&self, name: &str, phase: &str) -> Result<(), ChartError> {
        self.patch_status(name, json!({"phase": phase, "lastUse": Time(self.clock.now())})).await
    }

    async fn patch_status(&self, name: &str, status: serde_json::Value) -> Result<(), ChartError> {
        let patch = Patch::Merge(json!({"status": status}));
        self.package_api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Cached digest of a package whose use by the subject was recorded recently.
    fn cached_digest(&self, name: &str, subject: &Subject) -> Option<Digest> {
        let window = DIGEST_CACHE_TTL.min(self.limits.grace / 4);
        let kept = self.digest_cache.lock();
        let known = kept.get(&(name.to_owned(), subject.clone()));
        known.filter(|(at, _)| at.elapsed() < window).map(|(_, digest)| *digest)
    }

    fn cache_digest(&self, name: &str, subject: &Subject, digest: Digest) {
        let mut kept = self.digest_cache.lock();
        kept.retain(|_, (at, _)| at.elapsed() < DIGEST_CACHE_TTL);
        kept.insert((name.to_owned(), subject.clone()), (Instant::now(), digest));
    }

    fn invalidate_digest(&self, name: &str) {
        self.digest_cache.lock().retain(|(kept, _), _| kept != name);
    }
}

/// Quota of a subject: that of its account or, without one, its own.
struct PackageQuota<'a> {
    accounts: &'a dyn AccountLookup,
    subject: &'a Subject,
    account: Option<String>,
    /// Cache: whether a workspace belongs to the account.
    membership_cache: HashMap<String, bool>,
}

impl<'a> PackageQuota<'a> {
    fn new(accounts: &'a dyn AccountLookup, subject: &'a Subject) -> Self {
        let account = accounts.account_of(subject.workspace());
        Self { accounts, subject, account, membership_cache: HashMap::new() }
    }

    /// Whether the subject or another workspace of its account is a reader.
    fn is_charged(&mut self, package: &HelmPackage) -> bool {
        if readers::entry(package, self.subject).is_some() {
            return true;
        }
        let Some(account) = &self.account else { return false };
        readers::entries(package).any(|ReaderEntry { workspace, .. }| {
            if let Some(is_own) = self.membership_cache.get(&workspace) {
                return *is_own;
            }
            let is_own = self.accounts.account_of(&workspace).as_ref() == Some(account);
            self.membership_cache.insert(workspace, is_own);
            is_own
        })
    }

    fn owner(&self) -> String {
        match &self.account {
            Some(account) => format!("account `{account}`"),
            None => format!("workspace `{}`", self.subject.workspace()),
        }
    }
}

/// Whether the text is a valid package name.
fn is_package_name(name: &str) -> bool {
    name.strip_prefix(PACKAGE_NAME_PREFIX).is_some_and(|rest| {
        rest.len() == PACKAGE_NAME_LEN && rest.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
    })
}

fn size(package: &HelmPackage) -> u64 {
    u64::try_from(package.spec.size).unwrap_or_default()
}

fn charge(package: &HelmPackage) -> u64 {
    size(package).max(MIN_CHARGE)
}

fn spec(fetched: &LoadedChart, origin: PackageOrigin) -> HelmPackageSpec {
    let metadata = &fetched.chart.metadata;
    let count = fetched.bytes.len().div_ceil(chunks::CHUNK_LEN);
    HelmPackageSpec {
        digest: fetched.digest.to_string(),
        size: i64::try_from(fetched.bytes.len()).expect("the limit is far below"),
        chunks: i64::try_from(count).expect("there are fewer than bytes"),
        chart: PackagedChart {
            name: truncate(&metadata.name, 253),
            version: truncate(&metadata.version, 253),
            app_version: truncate(&metadata.app_version, 253),
            kind: truncate(&metadata.chart_type, 63),
        },
        origin,
    }
}

/// Truncates a text for lists; the archive has all of it.
fn truncate(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn digest(package: &HelmPackage) -> Result<Digest, ChartError> {
    package.spec.digest.parse().map_err(|_| ChartError::Corrupt(package.name_any()))
}

fn is_ready(package: &HelmPackage) -> bool {
    package.status.as_ref().is_some_and(|status| status.phase == phase::READY)
}

/// Time of creation or of the last use by the platform.
fn last_platform_use(package: &HelmPackage) -> jiff::Timestamp {
    let made = package.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let used = package.status.as_ref().and_then(|status| status.last_use.as_ref()).map(|time| time.0);
    made.max(used).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
