//! Registry client.
//!
//! A small implementation: existing crates bring their own HTTP stack, which would bypass the dialler of `outbound`.

use bytes::Bytes;
use domain::Kind;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use http::StatusCode;
use http::header::{LINK, WWW_AUTHENTICATE};
use outbound::{Access, Address, Answer, Ask, Budget, Client, Failure, Login, Secret};
use serde::Deserialize;

use super::challenge::{self, Challenge};
use super::manifest::{self, Layer};
use super::reference::Reference;
use crate::digest::Digest;

const LARGEST_MANIFEST: usize = 4 << 20;
const LARGEST_TOKEN: usize = 1 << 20;
/// Maximum size of a page of tags, and maximum number of pages.
const LARGEST_PAGE: usize = 4 << 20;
const PAGES: usize = 50;
/// Maximum memory of a decoded page, in bytes per byte of its text.
const TAG_FACTOR: usize = 12;

/// Why a chart could not be fetched from a registry.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Fetch(#[from] Failure),
    #[error("{at} is no chart: {why}")]
    NoChart { at: String, why: String },
    #[error("{at} is not what it should be: it has the digest {found}, and not {expected}")]
    Digest { at: String, expected: Digest, found: Digest },
    #[error("{at} has no version that `{version}` allows")]
    NoVersion { at: String, version: String },
    #[error("`{version}` is neither a version nor a range of versions: {why}")]
    Range { version: String, why: String },
    #[error("{at} says tag `{tag}`, and version `{version}` was asked for")]
    TwoVersions { at: String, tag: String, version: String },
    #[error("the registry of {at} cannot be understood: {why}")]
    Strange { at: String, why: &'static str },
}

impl RegistryError {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::NoChart { .. } | Self::Range { .. } | Self::TwoVersions { .. } => Kind::Invalid,
            Self::NoVersion { .. } => Kind::NotFound,
            Self::Digest { .. } | Self::Strange { .. } => Kind::Unavailable,
        }
    }
}

/// A registry client for fetching one chart.
pub struct Registry<'a> {
    client: &'a Client,
    /// Memory budget of the responses.
    budget: &'a dyn Budget,
    reference: &'a Reference,
    root: Address,
    access: Access,
    /// The credential for requests: a token from the token service, or the login itself.
    token: Option<Login>,
}

impl<'a> Registry<'a> {
    /// `plain`: without TLS.
    pub fn new(
        client: &'a Client,
        reference: &'a Reference,
        access: &Access,
        plain: bool,
        budget: &'a dyn Budget,
    ) -> Result<Self, RegistryError> {
        let scheme = if plain { "http" } else { "https" };
        let root: Address =
            format!("{scheme}://{}/v2/", reference.authority()).parse().map_err(Failure::from)?;
        Ok(Self { client, budget, reference, root, access: access.clone(), token: None })
    }

    /// Resolves a version or range to a reference with a tag.
    pub async fn resolve(&mut self, version: &str, profile: Profile) -> Result<Reference, RegistryError> {
        let mut found = self.reference.clone();
        let at = || self.reference.to_string();
        match &self.reference.tag {
            Some(tag) if version.is_empty() || tag == version => return Ok(found),
            Some(tag) => {
                let (tag, version) = (tag.clone(), version.to_owned());
                return Err(RegistryError::TwoVersions { at: at(), tag, version });
            }
            None if self.reference.digest.is_some() && version.is_empty() => return Ok(found),
            None => {}
        }
        found.tag = if Version::parse(version, profile).is_ok() && version.split('.').count() > 2 {
            Some(version.to_owned())
        } else {
            let wanted = if version.is_empty() { "*" } else { version };
            let range = Constraints::parse(wanted, profile)
                .map_err(|why| RegistryError::Range { version: version.to_owned(), why: why.to_string() })?;
            Some(
                self.newest(&range, profile)
                    .await?
                    .ok_or_else(|| RegistryError::NoVersion { at: at(), version: wanted.to_owned() })?,
            )
        };
        Ok(found)
    }

    /// The newest tag that a range permits.
    async fn newest(
        &mut self,
        range: &Constraints,
        profile: Profile,
    ) -> Result<Option<String>, RegistryError> {
        let mut newest: Option<(Version, String)> = None;
        self.each_tag(|tag| {
            // Tags cannot contain `+`; Helm writes `_` instead.
            let tag = tag.replace('_', "+");
            let Ok(version) = Version::parse(&tag, profile) else { return };
            if range.check(&version) && newest.as_ref().is_none_or(|(best, _)| best.compare(&version).is_lt())
            {
                newest = Some((version, tag));
            }
        })
        .await?;
        Ok(newest.map(|(_, tag)| tag))
    }

    /// Calls `visit` for all tags, one page at a time, so that only one page is in memory.
    async fn each_tag(&mut self, mut visit: impl FnMut(&str)) -> Result<(), RegistryError> {
        #[derive(Deserialize)]
        struct Page<'a> {
            #[serde(borrow)]
            tags: Option<Vec<std::borrow::Cow<'a, str>>>,
        }
        let mut next = Some(self.place("tags", "list")?);
        for _ in 0..PAGES {
            let Some(at) = next.take() else { break };
            let answer = self.get(&at, "application/json", LARGEST_PAGE).await?.ok()?;
            let decoded = answer.body.len() * TAG_FACTOR;
            let over = |why| Failure::OverBudget { at: at.clone(), why };
            self.budget.reserve(decoded).map_err(over)?;
            let page: Page<'_> =
                serde_json::from_slice(&answer.body).map_err(|_| self.strange("its list of tags is none"))?;
            page.tags.unwrap_or_default().iter().for_each(|tag| visit(tag));
            next = match answer.header(&LINK).as_deref().and_then(next_page) {
                Some(more) => {
                    let more = answer.address.join(more).map_err(Failure::from)?;
                    // A link to another origin is not followed.
                    (more.origin() == self.root.origin()).then_some(more)
                }
                None => None,
            };
        }
        Ok(())
    }

    /// The layer with the chart's archive, for a tag or digest.
    pub async fn layer(&mut self, reference: &Reference) -> Result<Layer, RegistryError> {
        let named = match (&reference.digest, &reference.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.replace('+', "_"),
            (None, None) => return Err(self.strange("neither a tag nor a digest is known")),
        };
        let at = self.place("manifests", &named)?;
        let answer = self.get(&at, manifest::ACCEPT, LARGEST_MANIFEST).await?.ok()?;
        if let Some(digest) = reference.digest {
            same(reference, digest, &answer.body)?;
        }
        manifest::chart(&answer.body, reference)
    }

    /// The bytes of the archive.
    pub async fn archive(
        &mut self,
        reference: &Reference,
        layer: &Layer,
        at_most: usize,
    ) -> Result<Bytes, RegistryError> {
        let at = self.place("blobs", &layer.digest.to_string())?;
        if layer.size > at_most as u64 {
            return Err(Failure::TooLarge { at, limit: at_most }.into());
        }
        let limit = usize::try_from(layer.size).unwrap_or(at_most);
        let bytes = self.get(&at, "*/*", limit).await?.ok()?.body;
        same(reference, layer.digest, &bytes)?;
        Ok(bytes)
    }

    fn place(&self, what: &str, name: &str) -> Result<Address, RegistryError> {
        let path = format!("{}/{what}/{name}", self.reference.path);
        Ok(self.root.join(&path).map_err(Failure::from)?)
    }

    /// Sends a request, and authenticates and retries once if challenged.
    async fn get(
        &mut self,
        at: &Address,
        accept: &'static str,
        at_most: usize,
    ) -> Result<Answer, RegistryError> {
        let answer = self.ask(at, accept, at_most).await?;
        if answer.status != StatusCode::UNAUTHORIZED || answer.address.origin() != self.root.origin() {
            return Ok(answer);
        }
        let headers = answer.headers.get_all(WWW_AUTHENTICATE);
        let challenge = headers.iter().find_map(|header| challenge::read(header.to_str().ok()?));
        self.token = match challenge {
            Some(Challenge::Bearer { realm, service, scope }) => {
                Some(self.fetch_token(&realm, service.as_deref(), scope.as_deref()).await?)
            }
            Some(Challenge::Basic) if self.access.login.is_some() && self.token.is_none() => {
                self.access.login.clone()
            }
            _ => return Ok(answer),
        };
        self.ask(at, accept, at_most).await
    }

    async fn ask(&self, at: &Address, accept: &'static str, at_most: usize) -> Result<Answer, RegistryError> {
        let access = Access { login: self.token.clone(), trust: self.access.trust.clone() };
        let ask = Ask { accept, budget: Some(self.budget), ..Ask::new(at, &access, at_most) };
        Ok(self.client.get(&ask).await?)
    }

    /// Fetches a token from the token service of the challenge. Credentials are sent only to the registry's own service.
    async fn fetch_token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<Login, RegistryError> {
        #[derive(Deserialize)]
        struct Given {
            token: Option<String>,
            access_token: Option<String>,
        }
        let realm: Address =
            realm.parse().map_err(|_| self.strange("where it gives tokens is no address"))?;
        let own = challenge::is_its_own(&self.root, &realm);
        let access = if own { self.access.clone() } else { self.access.elsewhere() };
        let pull = format!("repository:{}:pull", self.reference.path);
        let mut at = realm;
        if let Some(service) = service {
            at = at.with_query("service", service);
        }
        at = at.with_query("scope", scope.unwrap_or(&pull));
        let ask = Ask { accept: "application/json", ..Ask::new(&at, &access, LARGEST_TOKEN) };
        let answer = self.client.get(&ask).await?.ok()?;
        let given: Option<Given> = serde_json::from_slice(&answer.body).ok();
        let token =
            given.and_then(|given| given.token.or(given.access_token)).filter(|token| !token.is_empty());
        Ok(Login::Bearer(Secret::new(token.ok_or_else(|| self.strange("it gives no token"))?)))
    }

    fn strange(&self, why: &'static str) -> RegistryError {
        RegistryError::Strange { at: self.reference.to_string(), why }
    }
}

fn same(reference: &Reference, expected: Digest, bytes: &[u8]) -> Result<(), RegistryError> {
    let found = Digest::of(bytes);
    if found == expected {
        return Ok(());
    }
    Err(RegistryError::Digest { at: reference.to_string(), expected, found })
}

/// Parses `</v2/web/tags/list?last=x>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (address, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then_some(address)
}
