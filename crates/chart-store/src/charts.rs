//! Chart service of the server: fetches charts from any source and stores them in the cluster.
//!
//! Every call names a [`RepoScope`]. A workspace may read its own and shared repositories, and packages that it uploaded or fetched itself.
//! If an index or a registry names the digest of a stored package that the workspace may not read, the bytes are fetched from that source
//! and verified as if the package did not exist.
//!
//! Invariant: the `HelmRepo` is read for each call, and cache entries of it are keyed by its UID and resourceVersion.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::clock::Clock;
use domain::names::check_subdomain;
use futures::TryStreamExt;
use governor::work::WorkPool;
use helm_chart::index::Index;
use helm_template::profile::Profile;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use kube_types::package::PackageOrigin;
use kube_types::well_known::WORKSPACE_UID;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE, Workspace};
use outbound::{Access, FetchClient};

use crate::accounts::{AccountLookup, NoAccounts};
use crate::cache::RefreshingCache;
use crate::credentials;
use crate::digest::Digest;
use crate::error::ChartError;
use crate::fetcher::Fetcher;
use crate::oci::OciReference;
use crate::packages::{PackageLimits, PackageStore, Subject, WorkspaceIdentities};
use crate::repository::{self, ChartRepository, IndexFetchError};
use crate::source::{ChartSource, LoadedChart};
use crate::work::{WorkBudget, pool_limits};

/// TTL of the cached credentials of a `HelmRepo`, and capacity of that cache.
const CREDENTIALS_TTL: Duration = Duration::from_secs(5);
const CREDENTIALS_CACHE_CAPACITY: usize = 8 << 20;

/// Caller of a chart operation. Determines which repositories and packages are readable, and whose budget pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartReader {
    /// The platform itself, which may read everything.
    Platform,
    /// The platform acting for a workspace. Only for objects that tenants cannot write.
    PlatformFor(String),
    /// A workspace, which may read its own and shared repositories.
    Workspace(String),
    /// No specific workspace: packages that an administrator shares with all workspaces.
    Everyone,
}

impl ChartReader {
    fn may_read(&self, workspace: &str) -> bool {
        match self {
            Self::Platform | Self::PlatformFor(_) => true,
            Self::Workspace(own) => workspace.is_empty() || workspace == own,
            Self::Everyone => workspace.is_empty(),
        }
    }

    /// The workspace that is charged; empty for the platform.
    fn charged_workspace(&self) -> &str {
        match self {
            Self::Platform | Self::Everyone => "",
            Self::PlatformFor(workspace) | Self::Workspace(workspace) => workspace,
        }
    }
}

/// UID and resourceVersion of a `HelmRepo` that was read.
type RepoVersion = (String, String);

#[derive(Clone)]
enum RepoEndpoint {
    Remote(ChartRepository),
    /// The index is inline in the `HelmRepo`.
    Inline(ChartRepository, Arc<Index>),
    Registry {
        base: OciReference,
        access: Access,
        plain_http: bool,
    },
}

/// Access to all charts, stored or remote.
pub struct ChartStore {
    fetcher: Fetcher,
    packages: PackageStore,
    repos: Api<HelmRepo>,
    secrets: Api<Secret>,
    workspaces: Api<Workspace>,
    endpoints: RefreshingCache<RepoVersion, Result<RepoEndpoint, String>, Arc<kube::Error>>,
    accounts: Arc<dyn AccountLookup>,
}

impl ChartStore {
    /// `client` is the platform's own; `outgoing` enforces the configured egress policy.
    pub fn new(client: kube::Client, outgoing: FetchClient, clock: Arc<dyn Clock>) -> Self {
        let pool = WorkPool::new(&pool_limits());
        Self::with_limits(client, outgoing, clock, PackageLimits::default(), pool)
    }

    /// `pool` is shared with other heavy work of the server.
    pub fn with_limits(
        client: kube::Client,
        outgoing: FetchClient,
        clock: Arc<dyn Clock>,
        limits: PackageLimits,
        pool: WorkPool,
    ) -> Self {
        Self {
            fetcher: Fetcher::multi_tenant(outgoing, Profile::Helm4, limits.package, WorkBudget::new(pool)),
            packages: PackageStore::with_limits(client.clone(), clock, limits),
            repos: Api::all(client.clone()),
            workspaces: Api::all(client.clone()),
            secrets: Api::namespaced(client, SYSTEM_NAMESPACE),
            endpoints: RefreshingCache::new(
                CREDENTIALS_CACHE_CAPACITY,
                CREDENTIALS_TTL,
                Duration::ZERO,
                |_| true,
            ),
            accounts: Arc::new(NoAccounts),
        }
    }

    /// Uses budgets per account, shared by the account's workspaces.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Arc<dyn AccountLookup>) -> Self {
        self.packages = self.packages.with_accounts(accounts.clone());
        self.accounts = accounts;
        self
    }

    pub fn packages(&self) -> &PackageStore {
        &self.packages
    }

    /// Returns the reader's work budget in the shared pool.
    pub fn work(&self, reader: &ChartReader) -> WorkBudget {
        self.fetcher.work().for_flow(self.flow_key(reader.charged_workspace()))
    }

    /// The flow key of a workspace: its account, or itself if it has its own budgets.
    fn flow_key(&self, workspace: &str) -> String {
        self.accounts.account_of(workspace).unwrap_or_else(|| workspace.to_owned())
    }

    /// The fetcher that is charged to the budgets of a workspace.
    fn fetcher_for(&self, workspace: &str) -> Fetcher {
        self.fetcher.for_flow(self.flow_key(workspace))
    }

    /// Fetches the chart at a source, without storing it.
    pub async fn fetch(&self, source: &ChartSource, reader: &ChartReader) -> Result<LoadedChart, ChartError> {
        let subject = self.subject(reader).await?;
        let fetcher = self.fetcher_for(reader.charged_workspace());
        match source {
            ChartSource::Repo { repo, chart, version } => {
                let endpoint = self.resolve_repo(repo, reader).await?;
                self.fetch_from_endpoint(endpoint, chart, version, (&fetcher, &subject)).await
            }
            ChartSource::Oci { reference, version } => {
                let find_stored =
                    async |digest: &Digest| self.stored_chart(digest, (&fetcher, &subject)).await;
                let reference = reference.parse()?;
                fetcher
                    .from_registry_or_stored(&reference, version, &Access::anonymous(), false, find_stored)
                    .await
            }
            ChartSource::Package(name) => {
                let digest = self.packages.extend_grace(name, &subject).await?;
                match fetcher.cached(&digest) {
                    Some(known) => Ok(known),
                    None => self.load_package(name, (&fetcher, &subject)).await,
                }
            }
            ChartSource::Archive(bytes) => {
                let (size, limit) = (bytes.len(), self.packages.limits().package);
                if size > limit {
                    return Err(ChartError::TooLarge { size, limit });
                }
                let reservation = fetcher.work().reserve(size as u64)?;
                LoadedChart::load_with_budget(bytes.clone(), fetcher.profile(), fetcher.work(), reservation)
                    .await
            }
        }
    }

    /// Stores a fetched chart for a reader. It is kept for a grace period, then as long as an object references it. Returns the package's
    /// name.
    pub async fn store(
        &self,
        fetched: &LoadedChart,
        origin: PackageOrigin,
        reader: &ChartReader,
    ) -> Result<String, ChartError> {
        let subject = self.subject(reader).await?;
        self.fetcher.insert_cached(fetched);
        self.packages.store(fetched, origin, &subject).await
    }

    /// The index of a repository. OCI registries have none.
    pub async fn index(&self, repo: &str, reader: &ChartReader) -> Result<Arc<Index>, ChartError> {
        match self.resolve_repo(repo, reader).await? {
            RepoEndpoint::Remote(repository) => {
                self.fetcher_for(reader.charged_workspace()).index(&repository).await
            }
            RepoEndpoint::Inline(_, index) => Ok(index),
            RepoEndpoint::Registry { .. } => Err(ChartError::BadRepo {
                repo: repo.to_owned(),
                why: "registries do not list their charts".to_owned(),
            }),
        }
    }

    /// Checks that a repository serves an index now, before it is saved. OCI registries have no index and are not checked.
    pub async fn check_index(&self, repo: &HelmRepo) -> Result<(), ChartError> {
        let name = repo.name_any();
        let to_lookup_error = |error| ChartError::Lookup { repo: name.clone(), source: Arc::new(error) };
        let secret = match &repo.spec.credential_ref {
            Some(named) if check_subdomain(&named.name).is_ok() => {
                self.secrets.get_opt(&named.name).await.map_err(to_lookup_error)?
            }
            _ => None,
        };
        let fetcher = self.fetcher_for(&repo.spec.workspace);
        match resolve_endpoint(&name, repo, secret.as_ref(), fetcher.work()).await {
            Ok(RepoEndpoint::Remote(repository)) => fetcher.check(&repository).await,
            Ok(RepoEndpoint::Inline(..) | RepoEndpoint::Registry { .. }) => Ok(()),
            Err(why) => Err(ChartError::BadRepo { repo: name, why }),
        }
    }

    async fn fetch_from_endpoint(
        &self,
        endpoint: RepoEndpoint,
        chart: &str,
        version: &str,
        (fetcher, subject): (&Fetcher, &Subject),
    ) -> Result<LoadedChart, ChartError> {
        let find_stored = async |digest: &Digest| self.stored_chart(digest, (fetcher, subject)).await;
        let (repository, index) = match endpoint {
            RepoEndpoint::Registry { base, access, plain_http: plain } => {
                let reference = base.child(chart)?;
                return fetcher
                    .from_registry_or_stored(&reference, version, &access, plain, find_stored)
                    .await;
            }
            RepoEndpoint::Remote(repository) => {
                let index = fetcher.index(&repository).await?;
                (repository, index)
            }
            RepoEndpoint::Inline(repository, index) => (repository, index),
        };
        let listed = repository.find(&index, chart, version)?;
        let stored = match &listed.digest {
            Some(digest) => find_stored(digest).await?.filter(|kept| kept.name() == chart),
            None => None,
        };
        match stored {
            Some(kept) => Ok(kept),
            None => fetcher.fetch_listed(&repository, &listed).await,
        }
    }

    /// The stored chart with this digest, if the subject may read it.
    async fn stored_chart(
        &self,
        digest: &Digest,
        (fetcher, subject): (&Fetcher, &Subject),
    ) -> Result<Option<LoadedChart>, ChartError> {
        if !self.packages.is_reader(digest, subject).await? {
            return Ok(None);
        }
        if let Some(known) = fetcher.cached(digest) {
            return Ok(Some(known));
        }
        match self.load_package(&digest.package_name(), (fetcher, subject)).await {
            Ok(chart) => Ok((chart.digest == *digest).then_some(chart)),
            // Not stored, or damaged: the caller fetches it from the source.
            Err(ChartError::NoPackage(_) | ChartError::Incomplete(_) | ChartError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn load_package(
        &self,
        name: &str,
        (fetcher, subject): (&Fetcher, &Subject),
    ) -> Result<LoadedChart, ChartError> {
        let size = self.packages.size(name, subject).await?;
        let reservation = fetcher.work().reserve(size.saturating_mul(READ_MEMORY_FACTOR))?;
        let bytes = self.packages.get(name, subject).await?;
        let chart =
            LoadedChart::load_with_budget(bytes, fetcher.profile(), fetcher.work(), reservation).await?;
        fetcher.insert_cached(&chart);
        Ok(chart)
    }

    /// Resolves the reader's workspace to its current UID.
    async fn subject(&self, reader: &ChartReader) -> Result<Subject, ChartError> {
        match reader {
            ChartReader::Platform | ChartReader::PlatformFor(_) => Ok(Subject::Platform),
            ChartReader::Everyone => Ok(Subject::Everyone),
            ChartReader::Workspace(name) => {
                Ok(Subject::Workspace { name: name.clone(), uid: self.workspace_uid(name).await? })
            }
        }
    }

    /// The UID of a workspace, if it exists.
    pub async fn workspace_uid(&self, name: &str) -> Result<Option<String>, ChartError> {
        Ok(self.workspaces.get_metadata_opt(name).await?.and_then(|workspace| workspace.metadata.uid))
    }

    /// Whether a workspace is terminating. Its cleanup may miss objects created now.
    pub async fn is_terminating(&self, name: &str) -> Result<bool, ChartError> {
        let workspace = self.workspaces.get_metadata_opt(name).await?;
        Ok(workspace.is_some_and(|workspace| workspace.metadata.deletion_timestamp.is_some()))
    }

    /// Names, UIDs and creation times of the workspaces that exist.
    pub async fn list_workspace_identities(&self) -> Result<WorkspaceIdentities, ChartError> {
        let pages = futures::stream::try_unfold(Some(String::new()), async |next| {
            let Some(token) = next else { return Ok(None) };
            let params = ListParams::default().limit(500);
            let params = if token.is_empty() { params } else { params.continue_token(&token) };
            let page = self.workspaces.list_metadata(&params).await?;
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            Ok::<_, ChartError>(Some((page.items, next)))
        });
        let pages: Vec<Vec<_>> = pages.try_collect().await?;
        let identities = pages.into_iter().flatten().filter_map(|workspace| {
            let created_at = creation_time(&workspace);
            Some((workspace.metadata.name?, (workspace.metadata.uid?, created_at)))
        });
        Ok(identities.collect())
    }

    /// Resolves a repository. Repositories of other workspaces, including a deleted one of the same name, are reported as not found.
    async fn resolve_repo(&self, name: &str, reader: &ChartReader) -> Result<RepoEndpoint, ChartError> {
        let to_lookup_error = |source: Arc<kube::Error>| ChartError::Lookup { repo: name.to_owned(), source };
        let not_found = || ChartError::NoRepo(domain::ids::truncate_for_error(name));
        let repo = if is_repo_name(name) {
            self.repos.get_opt(name).await.map_err(|error| to_lookup_error(Arc::new(error)))?
        } else {
            None
        };
        let repo = repo.filter(|repo| reader.may_read(&repo.spec.workspace)).ok_or_else(not_found)?;
        if !self.is_owned_by_existing_workspace(&repo).await? {
            return Err(not_found());
        }
        if repo.spec.suspend {
            return Err(ChartError::Suspended(name.to_owned()));
        }
        let version = (repo.uid().unwrap_or_default(), repo.resource_version().unwrap_or_default());
        let work = self.work(reader);
        let load_endpoint = async |_| {
            let secret = match &repo.spec.credential_ref {
                Some(named) if check_subdomain(&named.name).is_ok() => {
                    self.secrets.get_opt(&named.name).await.map_err(Arc::new)?
                }
                _ => None,
            };
            Ok(resolve_endpoint(name, &repo, secret.as_ref(), &work).await)
        };
        let cache_weight = |endpoint: &Result<RepoEndpoint, String>| match endpoint {
            Ok(RepoEndpoint::Inline(_, index)) => 4096 + 2 * index.text_len(),
            _ => 4096,
        };
        let endpoint =
            self.endpoints.get(&version, cache_weight, load_endpoint).await.map_err(to_lookup_error)?;
        endpoint.map_err(|why| ChartError::BadRepo { repo: name.to_owned(), why })
    }

    /// Whether a repository belongs to the current workspace of that name: by the recorded UID or, without one, because it is not older
    /// than the workspace.
    pub async fn is_owned_by_existing_workspace(&self, repo: &HelmRepo) -> Result<bool, ChartError> {
        if repo.spec.workspace.is_empty() {
            return Ok(true);
        }
        let workspace = self.workspaces.get_metadata_opt(&repo.spec.workspace).await?;
        let current = workspace
            .and_then(|workspace| Some((workspace.metadata.uid.clone()?, creation_time(&workspace))));
        Ok(is_owned_by_workspace(repo, current.as_ref()))
    }
}

/// Whether a repository belongs to this workspace (UID and creation time), rather than to a deleted one of the same name.
pub fn is_owned_by_workspace(repo: &HelmRepo, workspace: Option<&(String, Timestamp)>) -> bool {
    match (workspace, repo.annotations().get(WORKSPACE_UID)) {
        (Some((uid, _)), Some(recorded)) => recorded == uid,
        (Some((_, began)), None) => creation_time(repo) >= *began,
        // A workspace that does not exist has no members.
        (None, _) => true,
    }
}

/// Copies of a package's bytes in memory while it is read: as JSON, in base64, and decoded.
const READ_MEMORY_FACTOR: u64 = 3;

fn creation_time(object: &impl Resource) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// Whether `name` is valid for a `HelmRepo`.
fn is_repo_name(name: &str) -> bool {
    let is_allowed_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_allowed_byte) && !name.starts_with('.')
}

/// The endpoint that a `HelmRepo` describes.
async fn resolve_endpoint(
    name: &str,
    repo: &HelmRepo,
    secret: Option<&Secret>,
    work: &WorkBudget,
) -> Result<RepoEndpoint, String> {
    let spec = &repo.spec;
    let access = credentials::resolve_access(repo, secret)?;
    if spec.url.starts_with("oci://") {
        let base = spec.url.trim_end_matches('/').parse();
        let base = base.map_err(|why: crate::oci::ParseReferenceError| why.to_string())?;
        return Ok(RepoEndpoint::Registry { base, access, plain_http: spec.insecure });
    }
    let address = spec.url.parse().map_err(|why: outbound::ParseAddressError| why.to_string())?;
    let pass_credentials = spec.pass_credentials;
    let repository = ChartRepository { name: name.to_owned(), address, access, pass_credentials };
    if spec.data.is_empty() {
        return Ok(RepoEndpoint::Remote(repository));
    }
    let text = STANDARD.decode(spec.data.trim()).map_err(|_| "its `data` is not valid base64".to_owned())?;
    let reservation = work
        .reserve(text.len() as u64)
        .map_err(|rejected| format!("cannot parse its `data` now: {rejected}"))?;
    let index = repository::parse_index(Bytes::from(text), Profile::Helm4, work, Arc::new(reservation)).await;
    let index = index.map_err(|why: IndexFetchError| format!("its `data` is not a valid index: {why}"))?;
    Ok(RepoEndpoint::Inline(repository, Arc::new(index)))
}
