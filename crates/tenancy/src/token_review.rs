//! Authentication of programs inside the cluster by ServiceAccount tokens, which Kubernetes reviews.
//!
//! Only tokens with the audience `longshore` are accepted: a token for Kubernetes or for another service is not. The
//! ServiceAccount `longshore-deployer` of a workspace's namespace is a developer of that workspace. Any other ServiceAccount is
//! authenticated and has no role. A user's own ServiceAccount exists for kubectl and is not accepted here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use domain::Actor;
use domain::actor::{AuthMethod, Principal};
use domain::clock::Clock;
use domain::ids::UserId;
use domain::roles::WorkspaceRole;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Api;
use kube_types::SYSTEM_NAMESPACE;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::controller::DEPLOYER;
use crate::credential_store::post_params;
use crate::{Directory, Error, Tenancy};

/// The audience of accepted tokens.
pub const AUDIENCE: &str = "longshore";

/// The length limit of a token. Kubernetes issues no longer ones.
const MAX_TOKEN_LEN: usize = 8 * 1024;
/// How long a positive review result is cached.
const POSITIVE_TTL: SignedDuration = SignedDuration::from_mins(1);
/// How long a negative review result is cached.
const NEGATIVE_TTL: SignedDuration = SignedDuration::from_secs(10);
/// The capacity of the cache.
const CACHE_CAPACITY: usize = 1000;
/// The limit of concurrent `TokenReview` requests. Further callers get [`Error::Throttled`].
const MAX_CONCURRENT_REVIEWS: usize = 16;

/// A ServiceAccount: namespace and name.
type ServiceAccountKey = (String, String);
/// Review results by token digest: the ServiceAccount, if the token is valid, and the expiry of the cache entry.
type ReviewResults = HashMap<[u8; 32], (Option<ServiceAccountKey>, Timestamp)>;

/// Token reviews with a cache and a concurrency limit.
pub(crate) struct TokenReviewCache {
    client: kube::Client,
    clock: Arc<dyn Clock>,
    results: Mutex<ReviewResults>,
    permits: Semaphore,
}

impl TokenReviewCache {
    pub fn new(client: kube::Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, results: Mutex::default(), permits: Semaphore::new(MAX_CONCURRENT_REVIEWS) }
    }

    /// Returns the ServiceAccount of a token, from the cache or by a `TokenReview`.
    async fn review(&self, token: &str) -> Result<Option<ServiceAccountKey>, Error> {
        if !is_jwt(token) {
            return Ok(None);
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        if let Some((answer, until)) = self.results.lock().get(&digest)
            && now < *until
        {
            return Ok(answer.clone());
        }
        let _permit = self.permits.try_acquire().map_err(|_| Error::Throttled { seconds: 1 })?;
        let answer = self.request_review(token).await?;
        let until = now + if answer.is_some() { POSITIVE_TTL } else { NEGATIVE_TTL };
        let mut answers = self.results.lock();
        if answers.len() >= CACHE_CAPACITY {
            evict(&mut answers, now);
        }
        answers.insert(digest, (answer.clone(), until));
        Ok(answer)
    }

    /// Requests a `TokenReview` from Kubernetes.
    async fn request_review(&self, token: &str) -> Result<Option<ServiceAccountKey>, Error> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![AUDIENCE.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answered = Api::all(self.client.clone()).create(&post_params(), &review).await?;
        Ok(answered.status.as_ref().and_then(service_account))
    }
}

/// Whether the text has the form of a JWT. Saves a `TokenReview` for text that cannot be one.
fn is_jwt(text: &str) -> bool {
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    text.len() <= MAX_TOKEN_LEN
        && text.split('.').count() == 3
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(in_alphabet))
}

/// Removes expired entries. If the cache is still full, removes the entry that expires first.
fn evict(answers: &mut ReviewResults, now: Timestamp) {
    answers.retain(|_, (_, until)| now < *until);
    if answers.len() >= CACHE_CAPACITY {
        let first = answers.iter().min_by_key(|(_, (_, until))| *until).map(|(digest, _)| *digest);
        first.map(|digest| answers.remove(&digest));
    }
}

/// The ServiceAccount of a valid token. Requires our audience in the status: an API server without audience support leaves the
/// audiences out.
fn service_account(status: &TokenReviewStatus) -> Option<ServiceAccountKey> {
    let has_our_audience = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
    let user = status.user.as_ref().filter(|_| status.authenticated == Some(true) && has_our_audience)?;
    let (namespace, name) =
        user.username.as_deref()?.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_person = namespace == SYSTEM_NAMESPACE && name.parse::<UserId>().is_ok();
    (!is_person).then(|| (namespace.to_owned(), name.to_owned()))
}

/// The actor of a ServiceAccount with its current memberships.
fn actor(directory: &Directory, namespace: String, name: String) -> Actor {
    let workspace = directory.workspace_of(&namespace).filter(|workspace| {
        // A workspace that is closed or being deleted grants no roles.
        name == DEPLOYER
            && directory
                .workspace(workspace)
                .is_some_and(|workspace| !workspace.is_deleting && !workspace.is_closed)
    });
    Actor {
        principal: Principal::ServiceAccount { namespace, name },
        platform_roles: BTreeSet::new(),
        memberships: workspace
            .map(|workspace| (workspace, WorkspaceRole::Developer))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        auth_method: AuthMethod::Kubernetes,
    }
}

impl Tenancy {
    /// Authenticates by a ServiceAccount token.
    pub(crate) async fn authenticate_service_account(&self, token: &str) -> Result<Actor, Error> {
        let (namespace, name) = self.0.token_reviews.review(token).await?.ok_or(Error::Unauthenticated)?;
        Ok(actor(&self.0.directory, namespace, name))
    }
}

#[cfg(test)]
mod tests;
