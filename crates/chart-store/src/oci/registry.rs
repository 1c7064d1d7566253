//! Registry client.
//!
//! A small implementation: existing crates bring their own HTTP stack, which would bypass the dialler of `outbound`.

use bytes::Bytes;
use domain::ErrorKind;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use http::StatusCode;
use http::header::{LINK, WWW_AUTHENTICATE};
use outbound::{
    Access, Address, FetchClient, FetchError, FetchRequest, FetchResponse, HttpAuth, MemoryBudget,
    SecretString,
};
use serde::Deserialize;

use super::challenge::{self, Challenge};
use super::manifest::{self, ChartLayer};
use super::reference::OciReference;
use crate::digest::Digest;

const MAX_MANIFEST_LEN: usize = 4 << 20;
const MAX_TOKEN_RESPONSE_LEN: usize = 1 << 20;
/// Maximum size of a page of tags, and maximum number of pages.
const MAX_TAG_PAGE_LEN: usize = 4 << 20;
const MAX_TAG_PAGES: usize = 50;
/// Maximum memory of a decoded page, in bytes per byte of its text.
const TAG_MEMORY_FACTOR: usize = 12;

/// Why a chart could not be fetched from a registry.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{at} is not a chart: {why}")]
    NoChart { at: String, why: String },
    #[error("{at} has digest {found}, expected {expected}")]
    DigestMismatch { at: String, expected: Digest, found: Digest },
    #[error("{at} has no version that matches `{version}`")]
    NoVersion { at: String, version: String },
    #[error("`{version}` is not a version or version range: {why}")]
    InvalidRange { version: String, why: String },
    #[error("{at} has tag `{tag}`, but version `{version}` was requested")]
    VersionMismatch { at: String, tag: String, version: String },
    #[error("unexpected response from the registry of {at}: {why}")]
    UnexpectedResponse { at: String, why: &'static str },
}

impl RegistryError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fetch(failure) => failure.kind(),
            Self::NoChart { .. } | Self::InvalidRange { .. } | Self::VersionMismatch { .. } => {
                ErrorKind::Invalid
            }
            Self::NoVersion { .. } => ErrorKind::NotFound,
            Self::DigestMismatch { .. } | Self::UnexpectedResponse { .. } => ErrorKind::Unavailable,
        }
    }
}

/// A registry client for fetching one chart.
pub struct RegistryClient<'a> {
    client: &'a FetchClient,
    /// Memory budget of the responses.
    budget: &'a dyn MemoryBudget,
    reference: &'a OciReference,
    root: Address,
    access: Access,
    /// The credential for requests: a token from the token service, or the login itself.
    token: Option<HttpAuth>,
}

impl<'a> RegistryClient<'a> {
    /// `plain`: without TLS.
    pub fn new(
        client: &'a FetchClient,
        reference: &'a OciReference,
        access: &Access,
        plain: bool,
        budget: &'a dyn MemoryBudget,
    ) -> Result<Self, RegistryError> {
        let scheme = if plain { "http" } else { "https" };
        let root: Address =
            format!("{scheme}://{}/v2/", reference.authority()).parse().map_err(FetchError::from)?;
        Ok(Self { client, budget, reference, root, access: access.clone(), token: None })
    }

    /// Resolves a version or range to a reference with a tag.
    pub async fn resolve(&mut self, version: &str, profile: Profile) -> Result<OciReference, RegistryError> {
        let mut found = self.reference.clone();
        let at = || self.reference.to_string();
        match &self.reference.tag {
            Some(tag) if version.is_empty() || tag == version => return Ok(found),
            Some(tag) => {
                let (tag, version) = (tag.clone(), version.to_owned());
                return Err(RegistryError::VersionMismatch { at: at(), tag, version });
            }
            None if self.reference.digest.is_some() && version.is_empty() => return Ok(found),
            None => {}
        }
        found.tag = if Version::parse(version, profile).is_ok() && version.split('.').count() > 2 {
            Some(version.to_owned())
        } else {
            let wanted = if version.is_empty() { "*" } else { version };
            let range = Constraints::parse(wanted, profile).map_err(|why| RegistryError::InvalidRange {
                version: version.to_owned(),
                why: why.to_string(),
            })?;
            Some(
                self.newest_tag(&range, profile)
                    .await?
                    .ok_or_else(|| RegistryError::NoVersion { at: at(), version: wanted.to_owned() })?,
            )
        };
        Ok(found)
    }

    /// The newest tag that a range permits.
    async fn newest_tag(
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
        struct TagPage<'a> {
            #[serde(borrow)]
            tags: Option<Vec<std::borrow::Cow<'a, str>>>,
        }
        let mut next = Some(self.url("tags", "list")?);
        for _ in 0..MAX_TAG_PAGES {
            let Some(at) = next.take() else { break };
            let answer = self.get(&at, "application/json", MAX_TAG_PAGE_LEN).await?.ok()?;
            let decoded = answer.body.len() * TAG_MEMORY_FACTOR;
            let over = |why| FetchError::OverBudget { at: at.clone(), why };
            self.budget.reserve(decoded).map_err(over)?;
            let page: TagPage<'_> = serde_json::from_slice(&answer.body)
                .map_err(|_| self.unexpected_response("its list of tags is invalid"))?;
            page.tags.unwrap_or_default().iter().for_each(|tag| visit(tag));
            next = match answer.header(&LINK).as_deref().and_then(next_page) {
                Some(more) => {
                    let more = answer.address.join(more).map_err(FetchError::from)?;
                    // A link to another origin is not followed.
                    (more.origin() == self.root.origin()).then_some(more)
                }
                None => None,
            };
        }
        Ok(())
    }

    /// The layer with the chart's archive, for a tag or digest.
    pub async fn layer(&mut self, reference: &OciReference) -> Result<ChartLayer, RegistryError> {
        let named = match (&reference.digest, &reference.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.replace('+', "_"),
            (None, None) => return Err(self.unexpected_response("it has neither a tag nor a digest")),
        };
        let at = self.url("manifests", &named)?;
        let answer = self.get(&at, manifest::ACCEPTED_MEDIA_TYPES, MAX_MANIFEST_LEN).await?.ok()?;
        if let Some(digest) = reference.digest {
            verify_digest(reference, digest, &answer.body)?;
        }
        manifest::chart_layer(&answer.body, reference)
    }

    /// The bytes of the archive.
    pub async fn archive(
        &mut self,
        reference: &OciReference,
        layer: &ChartLayer,
        at_most: usize,
    ) -> Result<Bytes, RegistryError> {
        let at = self.url("blobs", &layer.digest.to_string())?;
        if layer.size > at_most as u64 {
            return Err(FetchError::TooLarge { at, limit: at_most }.into());
        }
        let limit = usize::try_from(layer.size).unwrap_or(at_most);
        let bytes = self.get(&at, "*/*", limit).await?.ok()?.body;
        verify_digest(reference, layer.digest, &bytes)?;
        Ok(bytes)
    }

    fn url(&self, what: &str, name: &str) -> Result<Address, RegistryError> {
        let path = format!("{}/{what}/{name}", self.reference.path);
        Ok(self.root.join(&path).map_err(FetchError::from)?)
    }

    /// Sends a request, and authenticates and retries once if challenged.
    async fn get(
        &mut self,
        at: &Address,
        accept: &'static str,
        at_most: usize,
    ) -> Result<FetchResponse, RegistryError> {
        let answer = self.send(at, accept, at_most).await?;
        if answer.status != StatusCode::UNAUTHORIZED || answer.address.origin() != self.root.origin() {
            return Ok(answer);
        }
        let headers = answer.headers.get_all(WWW_AUTHENTICATE);
        let challenge = headers.iter().find_map(|header| challenge::parse_challenge(header.to_str().ok()?));
        self.token = match challenge {
            Some(Challenge::Bearer { realm, service, scope }) => {
                Some(self.fetch_token(&realm, service.as_deref(), scope.as_deref()).await?)
            }
            Some(Challenge::Basic) if self.access.auth.is_some() && self.token.is_none() => {
                self.access.auth.clone()
            }
            _ => return Ok(answer),
        };
        self.send(at, accept, at_most).await
    }

    async fn send(
        &self,
        at: &Address,
        accept: &'static str,
        at_most: usize,
    ) -> Result<FetchResponse, RegistryError> {
        let access = Access { auth: self.token.clone(), trust: self.access.trust.clone() };
        let ask =
            FetchRequest { accept, budget: Some(self.budget), ..FetchRequest::new(at, &access, at_most) };
        Ok(self.client.get(&ask).await?)
    }

    /// Fetches a token from the token service of the challenge. Credentials are sent only to the registry's own service.
    async fn fetch_token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<HttpAuth, RegistryError> {
        #[derive(Deserialize)]
        struct TokenResponse {
            token: Option<String>,
            access_token: Option<String>,
        }
        let realm: Address =
            realm.parse().map_err(|_| self.unexpected_response("the realm for tokens is not a URL"))?;
        let own = challenge::is_trusted_realm(&self.root, &realm);
        let access = if own { self.access.clone() } else { self.access.for_other_origin() };
        let pull = format!("repository:{}:pull", self.reference.path);
        let mut at = realm;
        if let Some(service) = service {
            at = at.with_query("service", service);
        }
        at = at.with_query("scope", scope.unwrap_or(&pull));
        let ask = FetchRequest {
            accept: "application/json",
            ..FetchRequest::new(&at, &access, MAX_TOKEN_RESPONSE_LEN)
        };
        let answer = self.client.get(&ask).await?.ok()?;
        let given: Option<TokenResponse> = serde_json::from_slice(&answer.body).ok();
        let token =
            given.and_then(|given| given.token.or(given.access_token)).filter(|token| !token.is_empty());
        Ok(HttpAuth::Bearer(SecretString::new(
            token.ok_or_else(|| self.unexpected_response("the token response has no token"))?,
        )))
    }

    fn unexpected_response(&self, why: &'static str) -> RegistryError {
        RegistryError::UnexpectedResponse { at: self.reference.to_string(), why }
    }
}

fn verify_digest(reference: &OciReference, expected: Digest, bytes: &[u8]) -> Result<(), RegistryError> {
    let found = Digest::sha256(bytes);
    if found == expected {
        return Ok(());
    }
    Err(RegistryError::DigestMismatch { at: reference.to_string(), expected, found })
}

/// Parses `</v2/web/tags/list?last=x>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    let (address, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then_some(address)
}
