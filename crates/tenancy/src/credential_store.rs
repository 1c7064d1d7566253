//! Secrets of the system namespace: credentials of users. Also random bytes and helpers for writes.
//!
//! The credentials of a user are the Secret `credentials-<id>`: an Argon2id hash if there is a password, and an epoch.
//! Revocation raises the epoch, which invalidates every session of another epoch.

use std::collections::BTreeMap;

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, well_known};

use crate::Error;
use crate::sessions::SessionId;

/// The limit of attempts after conflicts.
pub(crate) const MAX_CONFLICT_RETRIES: usize = 10;

/// Returns random bytes from the operating system. Panics without randomness: no security guarantee would hold.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives randomness");
    bytes
}

/// Generates the id of a new user.
pub(crate) fn new_user_id() -> UserId {
    UserId::from_random(random_bytes())
}

/// The limit of individually ended sessions. Above it, all sessions are ended.
const MAX_ENDED_SESSIONS: usize = 50;

/// The credentials of a user. A new epoch starts at the current time, so that recreated credentials never revalidate an old
/// session.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The Argon2id hash.
    pub password_hash: Option<String>,
    pub epoch: u64,
    /// Sessions that were signed out before they expired.
    pub ended_sessions: Vec<SessionId>,
}

impl Credentials {
    pub fn new(password: Option<String>, now: Timestamp) -> Self {
        Self { password_hash: password, epoch: seconds(now), ended_sessions: Vec::new() }
    }

    /// Invalidates all sessions opened so far.
    pub fn raise_epoch(&mut self, now: Timestamp) {
        self.epoch = seconds(now).max(self.epoch.saturating_add(1));
        self.ended_sessions.clear();
    }

    /// Invalidates this session.
    pub fn end_session(&mut self, session: &SessionId, now: Timestamp) {
        self.ended_sessions.retain(|ended| ended != session && !ended.is_expired(now));
        self.ended_sessions.push(session.clone());
        if self.ended_sessions.len() > MAX_ENDED_SESSIONS {
            self.raise_epoch(now);
        }
    }

    /// Whether a session of this user is still valid.
    pub fn accepts_session(&self, session: &SessionId, now: Timestamp) -> bool {
        session.epoch == self.epoch && !session.is_expired(now) && !self.ended_sessions.contains(session)
    }

    pub fn secret_name(user: &UserId) -> String {
        format!("credentials-{user}")
    }

    pub fn to_secret(&self, user: &UserId) -> Secret {
        let mut data = BTreeMap::from([("epoch", self.epoch.to_string())]);
        data.extend(self.password_hash.clone().map(|password| ("password", password)));
        if !self.ended_sessions.is_empty() {
            data.insert(
                "ended",
                self.ended_sessions.iter().map(SessionId::to_string).collect::<Vec<_>>().join(" "),
            );
        }
        user_secret(Self::secret_name(user), well_known::CREDENTIALS_TYPE, user, data)
    }

    /// Parses a Secret of this type. `None` if a required field is missing or invalid.
    pub fn from_secret(secret: &Secret) -> Option<Self> {
        let ended = secret_text(secret, "ended").unwrap_or_default().split_whitespace();
        Some(Self {
            password_hash: secret_text(secret, "password").map(str::to_owned),
            epoch: secret_text(secret, "epoch")?.parse().ok()?,
            ended_sessions: ended.filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

/// Seconds since 1970-01-01; zero for earlier times.
fn seconds(now: Timestamp) -> u64 {
    u64::try_from(now.as_second()).unwrap_or_default()
}

/// Builds a Secret that belongs to a user.
pub(crate) fn user_secret(name: String, kind: &str, user: &UserId, data: BTreeMap<&str, String>) -> Secret {
    let labels = [(well_known::USER, user.as_str()), (well_known::MANAGED_BY, FIELD_MANAGER)];
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect(),
        ),
        ..Secret::default()
    }
}

/// A field of a Secret, as text.
pub(crate) fn secret_text<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    std::str::from_utf8(&secret.data.as_ref()?.get(key)?.0).ok()
}

/// The Secrets of the system's namespace.
pub(crate) fn api(client: kube::Client) -> Api<Secret> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// Parameters of writes with the platform's field manager.
pub(crate) fn post_params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Whether the error is an API status with this code.
pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Changes a user's credentials, creating them if there are none, and returns the result. Retries on conflict.
pub(crate) async fn update_credentials(
    client: kube::Client,
    user: &UserId,
    now: Timestamp,
    change: impl Fn(&mut Credentials),
) -> Result<Credentials, Error> {
    let secrets = api(client);
    let name = Credentials::secret_name(user);
    for _ in 0..MAX_CONFLICT_RETRIES {
        let written = match secrets.get_opt(&name).await? {
            None => {
                let mut credentials = Credentials::new(None, now);
                change(&mut credentials);
                let made = secrets.create(&post_params(), &credentials.to_secret(user)).await;
                made.map(|_| credentials)
            }
            Some(before) => {
                // Credentials that cannot be parsed have no epoch to continue: a new one starts at this time.
                let mut credentials =
                    Credentials::from_secret(&before).unwrap_or_else(|| Credentials::new(None, now));
                change(&mut credentials);
                let mut after = Secret { data: credentials.to_secret(user).data, ..before };
                // A caller that changes the credentials knows them: they no longer count as undisclosed.
                after.annotations_mut().remove(well_known::CREDENTIALS_UNDISCLOSED);
                secrets.replace(&name, &post_params(), &after).await.map(|_| credentials)
            }
        };
        match written {
            Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
            other => return Ok(other?),
        }
    }
    Err(Error::ConcurrentUpdate(format!("the credentials of {user}")))
}
