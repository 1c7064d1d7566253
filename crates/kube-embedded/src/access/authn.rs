//! Authentication: in-process identity, client certificate, bearer token, or anonymous.
//!
//! The first valid credential decides, in the order of kube-apiserver: a client certificate before a bearer token. An invalid bearer token
//! is refused with 401 even for paths that allow anonymous requests. Authenticated users get the group `system:authenticated`.
//!
//! See also: impersonation (`super::impersonate`), issuing tokens (`super::tokens`).

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::{constant_time, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, header, request};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::certificate::BACKDATED_SECONDS;
use super::jwt::{SigningKey, VerifyError};
use super::{AUTHENTICATED, User, node, quoted_list, split_service_account, text, texts};
use crate::clock::Clock;
use crate::error::{ApiError, Result};
use crate::store::{Object, Store};

/// Issuer of `ServiceAccount` tokens, and their default audience.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Issuer of tokens that are stored in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Tolerated difference between clocks.
const LEEWAY_SECONDS: i64 = 60;

/// The client's certificate, verified by TLS. The listener reads it once per connection and puts it into the extensions of each request.
#[derive(Clone, Debug)]
pub struct PeerCertificate {
    pub user: User,
    not_before: i64,
    not_after: i64,
}

impl PeerCertificate {
    /// Reads CN as the user and O as the groups; `None` for a certificate without a common name.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = certificate.subject().iter_organization().filter_map(|o| o.as_str().ok());
        let hash =
            digest::digest(&digest::SHA256, der).as_ref().iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
        let user = User {
            groups: groups.map(str::to_owned).collect(),
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")])]),
            name,
            uid: String::new(),
        };
        let validity = certificate.validity();
        (!user.name.is_empty()).then(|| Self {
            user,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }
}

/// The fixed identity of an in-process client.
#[derive(Clone, Debug)]
pub struct FixedIdentity(pub User);

/// Verifies bearer tokens that this server did not issue.
pub trait TokenVerifier: Send + Sync {
    /// Returns the owner of the token, without `system:authenticated`; `None` if the token is unknown to this verifier.
    fn verify(&self, token: &str) -> Option<User>;
}

/// An accepted token.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedToken {
    pub user: User,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

pub struct Authenticator {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    key: Arc<SigningKey>,
    verifiers: Vec<Arc<dyn TokenVerifier>>,
}

impl Authenticator {
    pub fn new(store: Arc<Store>, clock: Arc<dyn Clock>, key: Arc<SigningKey>) -> Self {
        Self { store, clock, key, verifiers: Vec::new() }
    }

    /// Also accepts the tokens that `verifier` accepts.
    #[must_use]
    pub fn with_verifier(mut self, verifier: Arc<dyn TokenVerifier>) -> Self {
        self.verifiers.push(verifier);
        self
    }

    /// Returns the user of a request: 401 for an invalid credential, and for a missing one where anonymous requests are not allowed.
    pub fn authenticate(&self, request: &request::Parts) -> Result<User> {
        let now = self.clock.now().as_second();
        if let Some(FixedIdentity(user)) = request.extensions.get::<FixedIdentity>() {
            return Ok(with_authenticated_group(user.clone()));
        }
        if let Some(peer) = request.extensions.get::<PeerCertificate>()
            && (peer.not_before..=peer.not_after).contains(&now)
        {
            let issued = peer.not_before.saturating_add(BACKDATED_SECONDS);
            if node::is_certificate_of_predecessor(&self.store, &peer.user, issued) {
                return Err(ApiError::unauthorized());
            }
            return Ok(with_authenticated_group(peer.user.clone()));
        }
        if let Some(token) = bearer(&request.headers) {
            let accepted = self.authenticate_token(token, &[ISSUER.to_owned()]);
            return accepted.map(|accepted| accepted.user).map_err(|_| ApiError::unauthorized());
        }
        if allows_anonymous(&request.method, request.uri.path()) {
            return Ok(User::anonymous());
        }
        Err(ApiError::unauthorized())
    }

    /// Returns the owner of a token that is valid for one of `audiences`; else the error for the status of a `TokenReview`.
    pub fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> std::result::Result<AcceptedToken, String> {
        let foreign = || "invalid bearer token".to_owned();
        let also = |why: String| format!("[invalid bearer token, {why}]");
        match self.key.verify(token) {
            Ok(claims) => return self.check_account_token(token, &claims, audiences).map_err(also),
            Err(VerifyError::Forged) => {
                return Err(also("go-jose/go-jose: error in cryptographic primitive".to_owned()));
            }
            Err(VerifyError::Foreign) => {}
        }
        // Bootstrap tokens and tokens of other verifiers have this server as their only audience.
        if !audiences.iter().any(|audience| audience == ISSUER) {
            return Err(foreign());
        }
        let user = self
            .authenticate_bootstrap_token(token)
            .or_else(|| self.verifiers.iter().find_map(|verifier| verifier.verify(token)))
            .ok_or_else(foreign)?;
        Ok(AcceptedToken { user: with_authenticated_group(user), audiences: vec![ISSUER.to_owned()] })
    }

    /// Checks that the claims hold now, and returns their `ServiceAccount`.
    fn check_account_token(
        &self,
        token: &str,
        claims: &Value,
        audiences: &[String],
    ) -> std::result::Result<AcceptedToken, String> {
        let (namespace, name) =
            split_service_account(text(claims, "sub")).ok_or("the token names no service account")?;
        if claims["iss"] == LEGACY_ISSUER {
            return self.check_legacy_token(token, claims, namespace, name, audiences);
        }
        if claims["iss"] != ISSUER {
            return Err("the token has another issuer".to_owned());
        }
        let meant = texts(claims, "aud");
        let named: HashSet<&String> = meant.iter().collect();
        let shared: Vec<String> = audiences.iter().filter(|a| named.contains(a)).cloned().collect();
        if shared.is_empty() {
            let (meant, wanted) = (quoted_list(&meant), quoted_list(audiences));
            return Err(format!("token audiences {meant} is invalid for the target audiences {wanted}"));
        }
        let now = self.clock.now().as_second();
        let time = |key: &str| claims[key].as_i64();
        if time("exp").is_none_or(|at| now > at.saturating_add(LEEWAY_SECONDS)) {
            return Err("service account token has expired".to_owned());
        }
        if time("nbf").is_none_or(|at| now < at.saturating_sub(LEEWAY_SECONDS)) {
            return Err("service account token is not valid yet".to_owned());
        }
        let private = &claims["kubernetes.io"];
        if text(private, "namespace") != namespace || text(&private["serviceaccount"], "name") != name {
            return Err("service account token has been invalidated".to_owned());
        }
        let invalidated = || "service account token has been invalidated".to_owned();
        let uid = text(&private["serviceaccount"], "uid");
        self.get_by_uid("serviceaccounts", namespace, name, uid).ok_or_else(invalidated)?;
        let mut user = User::service_account(namespace, name, uid);
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", text(claims, "jti"))]);
        for (claim, storage, space) in [("pod", "pods", namespace), ("secret", "secrets", namespace)] {
            let bound = &private[claim];
            if bound.is_null() {
                continue;
            }
            let (name, uid) = (text(bound, "name"), text(bound, "uid"));
            self.get_by_uid(storage, space, name, uid).ok_or_else(invalidated)?;
            if claim == "pod" {
                user.extra.insert("authentication.kubernetes.io/pod-name".to_owned(), vec![name.to_owned()]);
                user.extra.insert("authentication.kubernetes.io/pod-uid".to_owned(), vec![uid.to_owned()]);
            }
        }
        let node = &private["node"];
        if !node.is_null() {
            let (name, uid) = (text(node, "name"), text(node, "uid"));
            if private["pod"].is_null() {
                self.get_by_uid("nodes", "", name, uid).ok_or_else(invalidated)?;
            }
            for (key, value) in [("node-name", name), ("node-uid", uid)] {
                if !value.is_empty() {
                    let key = format!("authentication.kubernetes.io/{key}");
                    user.extra.insert(key, vec![value.to_owned()]);
                }
            }
        }
        Ok(AcceptedToken { user: with_authenticated_group(user), audiences: shared })
    }

    /// Checks a legacy token: valid as long as its Secret contains it.
    fn check_legacy_token(
        &self,
        token: &str,
        claims: &Value,
        namespace: &str,
        name: &str,
        audiences: &[String],
    ) -> std::result::Result<AcceptedToken, String> {
        if !audiences.iter().any(|audience| audience == ISSUER) {
            let wanted = quoted_list(audiences);
            return Err(format!("token audiences [] is invalid for the target audiences {wanted}"));
        }
        let invalidated = || "service account token has been invalidated".to_owned();
        let secret = text(claims, "kubernetes.io/serviceaccount/secret.name");
        let secret = self.store.get("secrets", namespace, secret).ok_or_else(invalidated)?;
        let uid = text(claims, "kubernetes.io/serviceaccount/service-account.uid");
        let account = self.get_by_uid("serviceaccounts", namespace, name, uid).ok_or_else(invalidated)?;
        let held = decode_entry(&secret.view::<TokenSecret>().data.token);
        if secret.is_deleting || constant_time::verify_slices_are_equal(&held, token.as_bytes()).is_err() {
            return Err(invalidated());
        }
        let user = User::service_account(&account.namespace, &account.name, uid);
        Ok(AcceptedToken { user: with_authenticated_group(user), audiences: vec![ISSUER.to_owned()] })
    }

    fn get_by_uid(&self, storage: &str, namespace: &str, name: &str, uid: &str) -> Option<Arc<Object>> {
        self.store.get(storage, namespace, name).filter(|object| !uid.is_empty() && *object.uid == *uid)
    }

    /// Checks a bootstrap token, `<id>.<secret>` of the Secret `bootstrap-token-<id>`, with which a node joins.
    fn authenticate_bootstrap_token(&self, token: &str) -> Option<User> {
        let (id, secret) = token.split_once('.')?;
        let plain = |part: &str, long: usize| {
            part.len() == long && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        if !plain(id, 6) || !plain(secret, 16) {
            return None;
        }
        let found = self.store.get("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
        let object = found.view::<TokenSecret>();
        let data = &object.data;
        let fits = !found.is_deleting
            && object.r#type == "bootstrap.kubernetes.io/token"
            && decode_entry(&data.token_id) == id.as_bytes()
            && constant_time::verify_slices_are_equal(&decode_entry(&data.token_secret), secret.as_bytes())
                .is_ok()
            && decode_entry(&data.usage_bootstrap_authentication) == b"true";
        let expiration = decode_entry(&data.expiration);
        let lasting = expiration.is_empty()
            || String::from_utf8(expiration)
                .ok()
                .and_then(|text| text.parse::<Timestamp>().ok())
                .is_some_and(|end| self.clock.now() < end);
        if !fits || !lasting {
            return None;
        }
        let mut user = User::named(&format!("system:bootstrap:{id}"), &["system:bootstrappers"]);
        let more = String::from_utf8(decode_entry(&data.auth_extra_groups)).ok()?;
        for group in more.split(',').filter(|group| !group.is_empty()) {
            // A Secret must not grant groups outside this prefix, `system:masters` above all.
            if !group.starts_with("system:bootstrappers:") {
                return None;
            }
            user.groups.push(group.to_owned());
        }
        Some(user)
    }
}

/// The fields of a Secret that authentication reads with every request of its token. Other entries are skipped because they may be large.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TokenSecret {
    r#type: String,
    data: TokenData,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct TokenData {
    token: String,
    token_id: String,
    token_secret: String,
    usage_bootstrap_authentication: String,
    auth_extra_groups: String,
    expiration: String,
}

/// Decodes an entry of a Secret's `data`; empty if it is absent or invalid.
fn decode_entry(entry: &str) -> Vec<u8> {
    STANDARD.decode(entry).unwrap_or_default()
}

/// Returns the token of `Authorization: Bearer`; other schemes are ignored.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether anonymous requests are allowed: health, version, and `cluster-info`, which a joining node reads before it has credentials.
fn allows_anonymous(method: &Method, path: &str) -> bool {
    let open = matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
        || path == "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    open && matches!(*method, Method::GET | Method::HEAD)
}

/// Adds the group of all authenticated users.
fn with_authenticated_group(mut user: User) -> User {
    if !user.in_group(AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}
