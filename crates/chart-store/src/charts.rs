//! Charts for the server: from wherever they are, and kept in the cluster.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use domain::clock::Clock;
use domain::ids::shortened;
use domain::names::check_subdomain;
use helm_chart::index::Index;
use helm_template::profile::Profile;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::Api;
use kube_types::package::Origin;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE};
use outbound::{Access, Client};

use crate::credentials;
use crate::digest::Digest;
use crate::failure::ChartError;
use crate::fetcher::Fetcher;
use crate::memory::Hearsay;
use crate::oci::Reference;
use crate::packages::{Limits, Packages};
use crate::repository::{self, IndexFailure, Repository};
use crate::source::{Fetched, Source};

/// How long what a `HelmRepo` says is believed, and how many are remembered.
const FRESH: Duration = Duration::from_secs(5);
const REPOS: usize = 8 << 20;

/// For whom a chart is fetched: a workspace reads its own repositories and everybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    Platform,
    Workspace(String),
}

impl Reader {
    fn may_read(&self, workspace: &str) -> bool {
        match self {
            Self::Platform => true,
            Self::Workspace(own) => workspace.is_empty() || workspace == own,
        }
    }
}

/// A `HelmRepo` that can be used.
#[derive(Clone)]
struct Known {
    workspace: String,
    suspended: bool,
    place: Result<Place, String>,
}

#[derive(Clone)]
enum Place {
    Served(Repository),
    /// Its index was written by hand.
    Given(Repository, Arc<Index>),
    Registry {
        base: Reference,
        access: Access,
        plain: bool,
    },
}

/// All charts that the server can have.
pub struct Charts {
    fetcher: Fetcher,
    packages: Packages,
    repos: Api<HelmRepo>,
    secrets: Api<Secret>,
    known: Hearsay<String, Option<Known>, Arc<kube::Error>>,
}

impl Charts {
    /// `client` is the platform's own; `outgoing` has the policy of configuration.
    pub fn new(client: kube::Client, outgoing: Client, clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(client, outgoing, clock, Limits::default())
    }

    pub fn with_limits(
        client: kube::Client,
        outgoing: Client,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        Self {
            fetcher: Fetcher::new(outgoing, Profile::Helm4, limits.package),
            packages: Packages::with_limits(client.clone(), clock, limits),
            repos: Api::all(client.clone()),
            secrets: Api::namespaced(client, SYSTEM_NAMESPACE),
            known: Hearsay::new(REPOS, FRESH, Duration::ZERO),
        }
    }

    pub fn packages(&self) -> &Packages {
        &self.packages
    }

    /// The chart at a source. Nothing is kept by it.
    pub async fn fetch(&self, source: &Source, reader: &Reader) -> Result<Fetched, ChartError> {
        match source {
            Source::Repo { repo, chart, version } => self.of_repo(repo, chart, version, reader).await,
            Source::Oci { reference, version } => {
                self.fetcher.from_registry(&reference.parse()?, version, &Access::none(), false).await
            }
            Source::Package(name) => {
                let digest = self.packages.keep(name).await?;
                match self.fetcher.remembered(&digest) {
                    Some(known) => Ok(known),
                    None => self.of_package(name).await,
                }
            }
            Source::Archive(bytes) => {
                let (size, limit) = (bytes.len(), self.packages.limits().package);
                if size > limit {
                    return Err(ChartError::TooLarge { size, limit });
                }
                Fetched::load(bytes.clone(), self.fetcher.profile()).await
            }
        }
    }

    /// Keeps a chart for as long as somebody refers to it, and at least for a while. Says what its package is called.
    pub async fn keep(&self, fetched: &Fetched, origin: Origin) -> Result<String, ChartError> {
        self.fetcher.remember(fetched);
        self.packages.put(fetched, origin).await
    }

    /// What a repository has. A registry does not tell.
    pub async fn index(&self, repo: &str, reader: &Reader) -> Result<Arc<Index>, ChartError> {
        match self.place(repo, reader).await? {
            Place::Served(repository) => self.fetcher.index(&repository).await,
            Place::Given(_, index) => Ok(index),
            Place::Registry { .. } => Err(ChartError::BadRepo {
                repo: repo.to_owned(),
                why: "a registry does not say which charts it has".to_owned(),
            }),
        }
    }

    /// Whether a repository that is about to be told of answers with an index, as it is now. What does not tell which charts it
    /// has, a registry, is not asked.
    pub async fn check(&self, repo: &HelmRepo) -> Result<(), ChartError> {
        let name = repo.name_any();
        let lookup = |error| ChartError::Lookup { repo: name.clone(), source: Arc::new(error) };
        let secret = match &repo.spec.credential_ref {
            Some(named) if check_subdomain(&named.name).is_ok() => {
                self.secrets.get_opt(&named.name).await.map_err(lookup)?
            }
            _ => None,
        };
        match place(&name, repo, secret.as_ref()).await {
            Ok(Place::Served(repository)) => self.fetcher.check(&repository).await,
            Ok(Place::Given(..) | Place::Registry { .. }) => Ok(()),
            Err(why) => Err(ChartError::BadRepo { repo: name, why }),
        }
    }

    async fn of_repo(
        &self,
        repo: &str,
        chart: &str,
        version: &str,
        reader: &Reader,
    ) -> Result<Fetched, ChartError> {
        let (repository, index) = match self.place(repo, reader).await? {
            Place::Registry { base, access, plain } => {
                let reference = base.child(chart)?;
                return self.fetcher.from_registry(&reference, version, &access, plain).await;
            }
            Place::Served(repository) => {
                let index = self.fetcher.index(&repository).await?;
                (repository, index)
            }
            Place::Given(repository, index) => (repository, index),
        };
        let listed = repository.find(&index, chart, version)?;
        if let Some(kept) = self.kept(listed.digest, chart).await? {
            return Ok(kept);
        }
        self.fetcher.listed(&repository, &listed).await
    }

    /// What an index promises, if it is kept here already.
    async fn kept(&self, digest: Option<Digest>, chart: &str) -> Result<Option<Fetched>, ChartError> {
        let Some(digest) = digest else { return Ok(None) };
        if self.fetcher.remembered(&digest).is_some() {
            return Ok(None);
        }
        match self.of_package(&digest.package()).await {
            Ok(fetched) if fetched.digest == digest && fetched.name() == chart => Ok(Some(fetched)),
            // What is missing here is still where the index says.
            Ok(_) | Err(ChartError::NoPackage(_) | ChartError::Incomplete(_) | ChartError::Corrupt(_)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn of_package(&self, name: &str) -> Result<Fetched, ChartError> {
        let bytes = self.packages.get(name).await?;
        let fetched = Fetched::load(bytes, self.fetcher.profile()).await?;
        self.fetcher.remember(&fetched);
        Ok(fetched)
    }

    /// Where a repository is. One of another workspace is not there.
    async fn place(&self, name: &str, reader: &Reader) -> Result<Place, ChartError> {
        check_subdomain(name).map_err(|_| ChartError::NoRepo(shortened(name)))?;
        let asked = self.known.get(&name.to_owned(), |_| 4096, async |_| self.look(name).await).await;
        let known = asked.map_err(|error| ChartError::Lookup { repo: name.to_owned(), source: error })?;
        let known = known.filter(|known| reader.may_read(&known.workspace));
        let known = known.ok_or_else(|| ChartError::NoRepo(name.to_owned()))?;
        if known.suspended {
            return Err(ChartError::Suspended(name.to_owned()));
        }
        known.place.map_err(|why| ChartError::BadRepo { repo: name.to_owned(), why })
    }

    async fn look(&self, name: &str) -> Result<Option<Known>, Arc<kube::Error>> {
        let Some(repo) = self.repos.get_opt(name).await.map_err(Arc::new)? else { return Ok(None) };
        let secret = match &repo.spec.credential_ref {
            Some(named) if check_subdomain(&named.name).is_ok() => {
                self.secrets.get_opt(&named.name).await.map_err(Arc::new)?
            }
            _ => None,
        };
        let place = place(name, &repo, secret.as_ref()).await;
        Ok(Some(Known { workspace: repo.spec.workspace, suspended: repo.spec.suspend, place }))
    }
}

/// Where a `HelmRepo` says that it is.
async fn place(name: &str, repo: &HelmRepo, secret: Option<&Secret>) -> Result<Place, String> {
    let spec = &repo.spec;
    let access = credentials::access(repo, secret)?;
    if spec.url.starts_with("oci://") {
        let base = spec.url.trim_end_matches('/').parse();
        let base = base.map_err(|why: crate::oci::BadReference| why.to_string())?;
        return Ok(Place::Registry { base, access, plain: spec.insecure });
    }
    let address = spec.url.parse().map_err(|why: outbound::BadAddress| why.to_string())?;
    let pass_credentials = spec.pass_credentials;
    let repository = Repository { name: name.to_owned(), address, access, pass_credentials };
    if spec.data.is_empty() {
        return Ok(Place::Served(repository));
    }
    let text = STANDARD.decode(spec.data.trim()).map_err(|_| "its `data` is no base64".to_owned())?;
    let index = repository::parse(Bytes::from(text), Profile::Helm4).await;
    let index = index.map_err(|why: IndexFailure| format!("its `data` is no index: {why}"))?;
    Ok(Place::Given(repository, Arc::new(index)))
}
