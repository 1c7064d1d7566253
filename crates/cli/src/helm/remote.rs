//! Remote charts: from an added repository, a repository URL, an OCI registry or a chart URL.
//!
//! Private addresses are allowed, because the user of the command line can reach them anyway. Credentials are still
//! sent only to their own origin.

use std::io::Read;

use bytes::Bytes;
use chart_store::oci::OciReference;
use chart_store::work::WorkBudget;
use chart_store::{ChartRepository, Fetcher, LoadedChart, repository};
use clap::Args;
use helm_chart::archive::ArchiveLimits;
use helm_chart::index::Index;
use helm_template::go::quote;
use helm_template::profile::Profile;
use outbound::access::ClientCertificate;
use outbound::{Access, Address, Dialer, EgressPolicy, FetchClient, HttpAuth, TlsTrust};

use super::flags::{Switch, read_text_file, switch};
use super::repositories::{RepoPaths, RepoPathsArgs};
use crate::platform::secret::Secret;

/// Credentials and trusted certificates of a repository or registry.
#[derive(Clone, Debug, Default, Args)]
pub struct RepoAuthArgs {
    /// User name for the repository or registry
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub username: String,
    /// Password for the repository or registry; visible to other users of this machine
    #[arg(long, value_name = "PASSWORD", value_parser = secret)]
    pub password: Option<Secret>,
    /// PEM file with the CA certificates to trust
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub ca_file: String,
    /// PEM file with the client certificate
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub cert_file: String,
    /// PEM file with the key of the client certificate
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub key_file: String,
    /// Skip verification of server certificates (insecure)
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub insecure_skip_tls_verify: Switch,
    /// Send the credentials to other hosts that the repository index refers to
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub pass_credentials: Switch,
}

/// Version and source of a chart.
#[derive(Clone, Debug, Default, Args)]
pub struct RemoteArgs {
    /// Chart version or version range [default: the latest]
    #[arg(
        long = "version",
        id = "chart-version",
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true
    )]
    pub version: String,
    /// Include development versions
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub devel: Switch,
    /// URL of the repository, used instead of a repository name
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub repo: String,
    /// Use plain HTTP for the registry
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub plain_http: Switch,
    #[command(flatten)]
    pub login: RepoAuthArgs,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

#[expect(clippy::unnecessary_wraps, reason = "clap requires a Result")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl RepoAuthArgs {
    /// Reads the password from standard input if requested.
    pub fn with_password_from_stdin(mut self, stdin: bool) -> Result<Self, String> {
        if stdin && self.password.is_none() {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map_err(|error| error.to_string())?;
            self.password = Some(Secret::new(text.trim_end_matches(['\r', '\n'])));
        }
        if !self.username.is_empty() && self.password.is_none() {
            return Err("--username requires --password or --password-stdin".to_owned());
        }
        Ok(self)
    }

    fn access(&self) -> Result<Access, String> {
        let files = [&*self.ca_file, &self.cert_file, &self.key_file];
        access(&self.username, self.password.as_ref(), files, self.insecure_skip_tls_verify.0)
    }
}

/// Credentials and trust from command-line arguments.
pub fn access(
    username: &str,
    password: Option<&Secret>,
    [authorities, certificate, key]: [&str; 3],
    blindly: bool,
) -> Result<Access, String> {
    let read = |name: &str| match name {
        "" => Ok(None),
        name => read_text_file(name).map(|text| Some(text.to_string())).map_err(|why| why.to_string()),
    };
    let identity = match (read(certificate)?, read(key)?) {
        (Some(certificate), Some(key)) => {
            Some(ClientCertificate { certificate, key: outbound::SecretString::new(key) })
        }
        (None, None) => None,
        _ => return Err("--cert-file and --key-file require each other".to_owned()),
    };
    let login = password.map(|password| HttpAuth::Basic {
        username: username.to_owned(),
        password: outbound::SecretString::new(password.expose()),
    });
    let trust = TlsTrust {
        authorities: read(authorities)?,
        include_system_roots: false,
        client_certificate: identity,
        insecure_skip_verify: blindly,
    };
    Ok(Access { auth: login, trust })
}

/// A fetched chart.
pub struct PulledChart {
    pub fetched: LoadedChart,
    /// File name of the archive, by Helm's rules.
    pub file: String,
    /// Its reference in a registry.
    pub reference: Option<OciReference>,
}

impl RemoteArgs {
    /// Whether an argument requires local access: a repository URL, credentials or certificates.
    pub fn requires_local_access(&self) -> bool {
        let RepoAuthArgs {
            username,
            password,
            ca_file,
            cert_file,
            key_file,
            insecure_skip_tls_verify,
            pass_credentials,
        } = &self.login;
        let texts = [&self.repo, username, ca_file, cert_file, key_file];
        texts.iter().any(|text| !text.is_empty())
            || password.is_some()
            || insecure_skip_tls_verify.0
            || pass_credentials.0
            || self.plain_http.0
            || self.places.repository_config.is_some()
    }

    /// The requested version or range.
    pub fn version_range(&self) -> &str {
        if self.version.is_empty() && self.devel.0 { ">0.0.0-0" } else { self.version.trim() }
    }

    /// Fetches a chart by name.
    pub async fn fetch(&self, name: &str, profile: Profile) -> Result<PulledChart, String> {
        let charts = Fetcher::new(client(), profile, ArchiveLimits::for_profile(profile).packed);
        let said = |error: chart_store::ChartError| error.to_string();
        if name.starts_with("oci://") {
            let reference: OciReference = name.parse().map_err(|why| format!("{why}"))?;
            let access = self.login.access()?;
            let fetched = charts.from_registry(&reference, self.version_range(), &access, self.plain_http.0);
            let fetched = fetched.await.map_err(said)?;
            let file = format!("{}-{}.tgz", reference.name(), fetched.version());
            return Ok(PulledChart { fetched, file, reference: Some(reference) });
        }
        if !self.repo.is_empty() {
            let repository = ChartRepository {
                name: self.repo.clone(),
                address: self.repo.parse().map_err(|why| format!("{why}"))?,
                access: self.login.access()?,
                pass_credentials: self.login.pass_credentials.0,
            };
            let index = charts.index(&repository).await.map_err(said)?;
            return self.fetch_from_index(&charts, &repository, &index, name).await;
        }
        let places = self.places.resolve()?;
        if name.contains("://") {
            let address: Address = name.parse().map_err(|why| format!("{why}"))?;
            let access = self.access_for(&places, &address)?;
            let fetched = charts.from_address(&address, &access).await.map_err(said)?;
            let file = file_name(&address, &fetched);
            return Ok(PulledChart { fetched, file, reference: None });
        }
        let Some((repo, chart)) = name.split_once('/') else {
            return Err(format!(
                "non-absolute URLs should be in form of repo_name/path_to_chart, got: {name}"
            ));
        };
        let known = places.read()?;
        let entry = known.get(repo).ok_or_else(|| format!("repo {repo} not found"))?;
        let mut repository = entry.repository()?;
        if self.login.password.is_some() {
            repository.access.auth = self.login.access()?.auth;
        }
        repository.pass_credentials |= self.login.pass_credentials.0;
        let index = places.index(repo, profile);
        let index =
            index.map_err(|why| format!("no cached repo found. (try 'longshore repo update'): {why}"))?;
        self.fetch_from_index(&charts, &repository, &index, chart).await
    }

    async fn fetch_from_index(
        &self,
        charts: &Fetcher,
        repository: &ChartRepository,
        index: &Index,
        chart: &str,
    ) -> Result<PulledChart, String> {
        let listed = repository.find(index, chart, self.version_range()).map_err(|error| {
            let (chart, version, name) = (quote(chart), self.version_range(), &repository.name);
            format!("chart {chart} matching {version} not found in {name} index. (try 'longshore repo update'): {error}")
        })?;
        let fetched = charts.fetch_listed(repository, &listed).await.map_err(|error| error.to_string())?;
        Ok(PulledChart { file: file_name(&listed.address, &fetched), fetched, reference: None })
    }

    /// Credentials for an address: the given ones, or the credentials of the added repository that contains it.
    fn access_for(&self, places: &RepoPaths, address: &Address) -> Result<Access, String> {
        let said = self.login.access()?;
        if said != Access::anonymous() {
            return Ok(said);
        }
        for entry in places.read()?.repositories {
            let Ok(folder) = entry.url.parse::<Address>() else { continue };
            let base = folder.path().trim_end_matches('/');
            let inside = address.path().strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
            if folder.origin() == address.origin() && inside {
                return Ok(entry.repository()?.access);
            }
        }
        Ok(Access::anonymous())
    }
}

/// File name of an archive: the last segment of its URL if it is a valid name, otherwise name and version.
fn file_name(address: &Address, fetched: &LoadedChart) -> String {
    let last = address.path().rsplit('/').next().unwrap_or_default();
    let plain = !last.is_empty() && !last.starts_with('.') && !last.contains(['%', '\\']);
    if plain { last.to_owned() } else { format!("{}-{}.tgz", fetched.name(), fetched.version()) }
}

/// Downloads the index of a repository. Returns its text and the parsed index.
pub fn download(repository: &ChartRepository, profile: Profile) -> Result<(Bytes, Index), String> {
    block_on(repository::download_index(&client(), repository, profile, &WorkBudget::unbounded()))?
        .map_err(|error| error.to_string())
}

fn client() -> FetchClient {
    FetchClient::new(Dialer::new(EgressPolicy::allow_all()))
}

/// Blocks on network I/O, for commands without a runtime.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| error.to_string())?.block_on(work))
}
