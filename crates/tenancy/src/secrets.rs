//! What is kept in Secrets of the system's namespace: credentials of people, and random bits.
//!
//! A person's credentials are `credentials-<id>`: an Argon2id string where they have a password, and an epoch. Whoever
//! revokes sessions raises the epoch, and every session that was opened at another epoch is no longer good.

use std::collections::BTreeMap;

use domain::ids::UserId;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, marks};

use crate::Error;
use crate::sessions::SessionId;

/// How often a write is tried again that somebody else was faster with.
pub(crate) const RACES: usize = 10;

/// As many bytes from the system. Without randomness nothing that we promise holds.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system gives randomness");
    bytes
}

/// A new id of a person.
pub(crate) fn new_user_id() -> UserId {
    UserId::from_random(random())
}

/// How many sessions can have been ended one by one; with more than that, all are.
const MOST_ENDED: usize = 50;

/// What is known of a person's credentials. The epoch of a new one is the time of its making, so that not even
/// credentials that were deleted and made anew bring an old session back.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// An Argon2id string.
    pub password: Option<String>,
    pub epoch: u64,
    /// Sessions that were signed out of before their time.
    pub ended: Vec<SessionId>,
}

impl Credentials {
    pub fn new(password: Option<String>, now: Timestamp) -> Self {
        Self { password, epoch: seconds(now), ended: Vec::new() }
    }

    /// No session that was opened before is good any more.
    pub fn raise_epoch(&mut self, now: Timestamp) {
        self.epoch = seconds(now).max(self.epoch.saturating_add(1));
        self.ended.clear();
    }

    /// This session is not good any more.
    pub fn end(&mut self, session: &SessionId, now: Timestamp) {
        self.ended.retain(|ended| ended != session && !ended.is_expired(now));
        self.ended.push(session.clone());
        if self.ended.len() > MOST_ENDED {
            self.raise_epoch(now);
        }
    }

    /// Whether a session of this person is still good.
    pub fn accept(&self, session: &SessionId, now: Timestamp) -> bool {
        session.epoch == self.epoch && !session.is_expired(now) && !self.ended.contains(session)
    }

    pub fn name(user: &UserId) -> String {
        format!("credentials-{user}")
    }

    pub fn to_secret(&self, user: &UserId) -> Secret {
        let mut data = BTreeMap::from([("epoch", self.epoch.to_string())]);
        data.extend(self.password.clone().map(|password| ("password", password)));
        if !self.ended.is_empty() {
            data.insert("ended", self.ended.iter().map(SessionId::to_string).collect::<Vec<_>>().join(" "));
        }
        secret(Self::name(user), marks::CREDENTIALS_TYPE, user, data)
    }

    /// Of a Secret of this type; `None` where it does not say what it must.
    pub fn of(secret: &Secret) -> Option<Self> {
        let ended = text(secret, "ended").unwrap_or_default().split_whitespace();
        Some(Self {
            password: text(secret, "password").map(str::to_owned),
            epoch: text(secret, "epoch")?.parse().ok()?,
            ended: ended.filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

fn seconds(now: Timestamp) -> u64 {
    u64::try_from(now.as_second()).unwrap_or_default()
}

/// A Secret of a person.
pub(crate) fn secret(name: String, kind: &str, user: &UserId, data: BTreeMap<&str, String>) -> Secret {
    let labels = [(marks::USER, user.as_str()), (marks::MANAGED_BY, FIELD_MANAGER)];
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
pub(crate) fn text<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    std::str::from_utf8(&secret.data.as_ref()?.get(key)?.0).ok()
}

/// The Secrets of the system's namespace.
pub(crate) fn api(client: kube::Client) -> Api<Secret> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// Writes as the platform's own manager.
pub(crate) fn writing() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Whether Kubernetes answered with this code.
pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Changes a person's credentials and returns what they became. Somebody who has none yet gets some.
pub(crate) async fn change_credentials(
    client: kube::Client,
    user: &UserId,
    now: Timestamp,
    change: impl Fn(&mut Credentials),
) -> Result<Credentials, Error> {
    let secrets = api(client);
    let name = Credentials::name(user);
    for _ in 0..RACES {
        let written = match secrets.get_opt(&name).await? {
            None => {
                let mut credentials = Credentials::new(None, now);
                change(&mut credentials);
                let made = secrets.create(&writing(), &credentials.to_secret(user)).await;
                made.map(|_| credentials)
            }
            Some(before) => {
                // What cannot be read has no epoch that could be carried on: it begins anew, at this time.
                let mut credentials = Credentials::of(&before).unwrap_or_else(|| Credentials::new(None, now));
                change(&mut credentials);
                let mut after = Secret { data: credentials.to_secret(user).data, ..before };
                // Whoever changes credentials knows them.
                after.annotations_mut().remove(marks::UNTOLD);
                secrets.replace(&name, &writing(), &after).await.map(|_| credentials)
            }
        };
        match written {
            Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
            other => return Ok(other?),
        }
    }
    Err(Error::Changed(format!("the credentials of {user}")))
}
