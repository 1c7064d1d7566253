//! Keys that sign sessions: one Secret, rotated every 30 days.
//!
//! The previous key stays valid for verification, so that a rotation signs no user out.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube_access::cache::WatchCache;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, well_known};
use tokio::time::timeout;

use super::{Session, SessionKey};
use crate::Error;
use crate::credential_store::{self, MAX_CONFLICT_RETRIES, is_code, post_params, random_bytes};

pub(crate) const SECRET_NAME: &str = "session-keys";
const KEY_LEN: usize = 32;
/// The age at which the signing key is rotated.
const ROTATION_PERIOD: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long to wait until the watch reports a write.
const CACHE_TIMEOUT: Duration = Duration::from_secs(5);

/// The content of the Secret.
pub(crate) struct KeyRing {
    current: [u8; KEY_LEN],
    previous: Option<[u8; KEY_LEN]>,
    created: Timestamp,
}

impl KeyRing {
    /// `None` if a key is missing or has another length: shorter keys are never used.
    fn from_secret(secret: &Secret) -> Option<Self> {
        let bytes = |key: &str| secret.data.as_ref()?.get(key)?.0.as_slice().try_into().ok();
        Some(Self {
            current: bytes("current")?,
            previous: bytes("previous"),
            created: credential_store::secret_text(secret, "made")?.parse().ok()?,
        })
    }

    fn generate(previous: Option<&Self>, now: Timestamp) -> Self {
        Self { current: random_bytes(), previous: previous.map(|ring| ring.current), created: now }
    }

    fn is_rotation_due(&self, now: Timestamp) -> bool {
        now.duration_since(self.created) >= ROTATION_PERIOD
    }

    fn to_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::from([
            ("current".to_owned(), ByteString(self.current.to_vec())),
            ("made".to_owned(), ByteString(self.created.to_string().into_bytes())),
        ]);
        data.extend(self.previous.map(|key| ("previous".to_owned(), ByteString(key.to_vec()))));
        data
    }
}

/// The session keys with a watch-fed cache.
pub(crate) struct SessionKeys {
    client: kube::Client,
    cache: WatchCache<Secret>,
}

impl SessionKeys {
    pub fn new(client: kube::Client, feed: WatchCache<Secret>) -> Self {
        Self { client, cache: feed }
    }

    fn cached_ring(&self) -> Option<KeyRing> {
        KeyRing::from_secret(self.cache.get(SECRET_NAME)?.as_ref())
    }

    /// The current signing key.
    pub async fn signing_key(&self, now: Timestamp) -> Result<SessionKey, Error> {
        match self.cached_ring() {
            Some(ring) => Ok(SessionKey::new(&ring.current)),
            None => Ok(SessionKey::new(&self.rotate_and_wait(now).await?.current)),
        }
    }

    /// Parses a cookie that one of our keys has signed. Returns that key too.
    pub fn verify(&self, cookie: &str) -> Option<(Session, SessionKey)> {
        let ring = self.cached_ring()?;
        let keys = [Some(ring.current), ring.previous].into_iter().flatten();
        keys.map(|bytes| SessionKey::new(&bytes)).find_map(|key| Some((key.verify(cookie)?, key)))
    }

    /// Creates the keys if there are none, and rotates them when due. Returns once this server's cache has them, so that it accepts what
    /// they sign.
    pub async fn rotate_and_wait(&self, now: Timestamp) -> Result<KeyRing, Error> {
        let ring = self.rotate_if_due(now).await?;
        let mut changes = self.cache.subscribe();
        let heard = async {
            while self.cached_ring().is_none_or(|heard| heard.created < ring.created)
                && changes.next().await.is_some()
            {}
        };
        // If the cluster is silent, the caller cannot help it: the write has succeeded.
        let _ = timeout(CACHE_TIMEOUT, heard).await;
        Ok(ring)
    }

    /// Creates or rotates the keys if due. Retries on conflict.
    async fn rotate_if_due(&self, now: Timestamp) -> Result<KeyRing, Error> {
        let secrets = credential_store::api(self.client.clone());
        for _ in 0..MAX_CONFLICT_RETRIES {
            let written = match secrets.get_opt(SECRET_NAME).await? {
                None => {
                    let ring = KeyRing::generate(None, now);
                    secrets.create(&post_params(), &ring_secret(&ring)).await.map(|_| ring)
                }
                Some(before) => match KeyRing::from_secret(&before) {
                    Some(ring) if !ring.is_rotation_due(now) => return Ok(ring),
                    old => {
                        let ring = KeyRing::generate(old.as_ref(), now);
                        let after = Secret { data: Some(ring.to_data()), ..before };
                        secrets.replace(SECRET_NAME, &post_params(), &after).await.map(|_| ring)
                    }
                },
            };
            match written {
                // Another server wrote first: use its keys.
                Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
                other => return Ok(other?),
            }
        }
        Err(Error::ConcurrentUpdate("the keys of sessions".to_owned()))
    }
}

fn ring_secret(ring: &KeyRing) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(SECRET_NAME.to_owned()),
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(well_known::MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some(well_known::SESSION_KEYS_TYPE.to_owned()),
        data: Some(ring.to_data()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use domain::clock::Clock;
    use kube::api::{DeleteParams, Patch, PatchParams};
    use kube_types::UserSpec;
    use serde_json::json;
    use testkit::wait_for;

    use super::*;
    use crate::RequestCredentials;
    use crate::auth_test_harness::{AuthTestHarness, LOCAL_CLIENT, PASSWORD};

    #[tokio::test]
    async fn keys_are_rotated_after_thirty_days_and_the_previous_key_stays_valid() {
        let stage = AuthTestHarness::new().await;
        let person = stage.create_user(UserSpec::default()).await;
        let keys = &stage.tenancy.0.session_keys;
        let made = keys.cached_ring().expect("they are known from the start");
        assert_eq!(
            keys.rotate_and_wait(stage.clock.now()).await.unwrap().current,
            made.current,
            "they are made once"
        );

        stage.clock.advance(ROTATION_PERIOD);
        let signed_in = stage.sign_in(&person).await;
        let new = keys.rotate_and_wait(stage.clock.now()).await.unwrap();
        assert_eq!((new.previous, new.current != made.current), (Some(made.current), true));
        assert!(keys.cached_ring().unwrap().current == new.current, "it is known at once");
        assert!(keys.verify(&signed_in.cookie).is_some(), "what the last key has signed is good");
        assert!(stage.sign_in(&person).await.cookie != signed_in.cookie);

        stage.clock.advance(ROTATION_PERIOD);
        keys.rotate_and_wait(stage.clock.now()).await.unwrap();
        assert!(keys.verify(&signed_in.cookie).is_none(), "and what the one before has signed is not");
    }

    #[tokio::test]
    async fn missing_keys_invalidate_sessions_and_are_recreated() {
        let stage = AuthTestHarness::new().await;
        let person = stage.create_user(UserSpec::default()).await;
        let keys = &stage.tenancy.0.session_keys;
        let secrets = credential_store::api(stage.world.admin_client());
        let short = Patch::Merge(json!({"data": {"current": ""}}));
        for delete in [true, false] {
            let before = stage.sign_in(&person).await;
            assert!(keys.verify(&before.cookie).is_some());
            if delete {
                secrets.delete(SECRET_NAME, &DeleteParams::default()).await.unwrap();
            } else {
                secrets.patch(SECRET_NAME, &PatchParams::default(), &short).await.unwrap();
            }
            wait_for("no keys", async || keys.cached_ring().is_none().then_some(())).await;
            let presented =
                RequestCredentials { cookie: Some(&before.cookie), ..RequestCredentials::default() };
            assert!(stage.tenancy.authenticate(&presented).await.is_err());
            let after = stage.tenancy.sign_in(person.id.as_str(), PASSWORD, LOCAL_CLIENT).await.unwrap();
            assert!(keys.verify(&after.cookie).is_some() && keys.verify(&before.cookie).is_none());
        }
    }
}
