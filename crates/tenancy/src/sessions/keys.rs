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
use kube_access::feed::Feed;
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, marks};
use tokio::time::timeout;

use super::{Key, Session};
use crate::Error;
use crate::secrets::{self, RACES, is_code, random, writing};

pub(crate) const NAME: &str = "session-keys";
const LENGTH: usize = 32;
/// The age at which the signing key is rotated.
const LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long to wait until the watch reports a write.
const PATIENCE: Duration = Duration::from_secs(5);

/// The content of the Secret.
pub(crate) struct Ring {
    current: [u8; LENGTH],
    previous: Option<[u8; LENGTH]>,
    made: Timestamp,
}

impl Ring {
    /// `None` if a key is missing or has another length: shorter keys are never used.
    fn of(secret: &Secret) -> Option<Self> {
        let bytes = |key: &str| secret.data.as_ref()?.get(key)?.0.as_slice().try_into().ok();
        Some(Self {
            current: bytes("current")?,
            previous: bytes("previous"),
            made: secrets::text(secret, "made")?.parse().ok()?,
        })
    }

    fn next(previous: Option<&Self>, now: Timestamp) -> Self {
        Self { current: random(), previous: previous.map(|ring| ring.current), made: now }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        now.duration_since(self.made) >= LIFE
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::from([
            ("current".to_owned(), ByteString(self.current.to_vec())),
            ("made".to_owned(), ByteString(self.made.to_string().into_bytes())),
        ]);
        data.extend(self.previous.map(|key| ("previous".to_owned(), ByteString(key.to_vec()))));
        data
    }
}

/// The session keys with a watch-fed cache.
pub(crate) struct Keys {
    client: kube::Client,
    feed: Feed<Secret>,
}

impl Keys {
    pub fn new(client: kube::Client, feed: Feed<Secret>) -> Self {
        Self { client, feed }
    }

    fn ring(&self) -> Option<Ring> {
        Ring::of(self.feed.get(NAME)?.as_ref())
    }

    /// The current signing key.
    pub async fn current(&self, now: Timestamp) -> Result<Key, Error> {
        match self.ring() {
            Some(ring) => Ok(Key::new(&ring.current)),
            None => Ok(Key::new(&self.refresh(now).await?.current)),
        }
    }

    /// Parses a cookie that one of our keys has signed. Returns that key too.
    pub fn open(&self, cookie: &str) -> Option<(Session, Key)> {
        let ring = self.ring()?;
        let keys = [Some(ring.current), ring.previous].into_iter().flatten();
        keys.map(|bytes| Key::new(&bytes)).find_map(|key| Some((key.open(cookie)?, key)))
    }

    /// Creates the keys if there are none, and rotates them when due. Returns once this server's cache has them, so that it accepts what
    /// they sign.
    pub async fn refresh(&self, now: Timestamp) -> Result<Ring, Error> {
        let ring = self.keep_fresh(now).await?;
        let mut changes = self.feed.changes();
        let heard = async {
            while self.ring().is_none_or(|heard| heard.made < ring.made) && changes.next().await.is_some() {}
        };
        // If the cluster is silent, the caller cannot help it: the write has succeeded.
        let _ = timeout(PATIENCE, heard).await;
        Ok(ring)
    }

    /// Creates or rotates the keys if due. Retries on conflict.
    async fn keep_fresh(&self, now: Timestamp) -> Result<Ring, Error> {
        let secrets = secrets::api(self.client.clone());
        for _ in 0..RACES {
            let written = match secrets.get_opt(NAME).await? {
                None => {
                    let ring = Ring::next(None, now);
                    secrets.create(&writing(), &object(&ring)).await.map(|_| ring)
                }
                Some(before) => match Ring::of(&before) {
                    Some(ring) if !ring.is_due(now) => return Ok(ring),
                    old => {
                        let ring = Ring::next(old.as_ref(), now);
                        let after = Secret { data: Some(ring.data()), ..before };
                        secrets.replace(NAME, &writing(), &after).await.map(|_| ring)
                    }
                },
            };
            match written {
                // Another server wrote first: use its keys.
                Err(lost) if is_code(&lost, 409) || is_code(&lost, 404) => {}
                other => return Ok(other?),
            }
        }
        Err(Error::Changed("the keys of sessions".to_owned()))
    }
}

fn object(ring: &Ring) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(SYSTEM_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(marks::MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some(marks::SESSION_KEYS_TYPE.to_owned()),
        data: Some(ring.data()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use domain::clock::Clock;
    use kube::api::{DeleteParams, Patch, PatchParams};
    use kube_types::UserSpec;
    use serde_json::json;
    use testkit::until;

    use super::*;
    use crate::Presented;
    use crate::testing::{HERE, PASSWORD, Stage};

    #[tokio::test]
    async fn keys_are_changed_after_thirty_days_and_the_last_one_still_counts() {
        let stage = Stage::new().await;
        let person = stage.person(UserSpec::default()).await;
        let keys = &stage.tenancy.0.keys;
        let made = keys.ring().expect("they are known from the start");
        assert_eq!(
            keys.refresh(stage.clock.now()).await.unwrap().current,
            made.current,
            "they are made once"
        );

        stage.clock.advance(LIFE);
        let signed_in = stage.sign_in(&person).await;
        let new = keys.refresh(stage.clock.now()).await.unwrap();
        assert_eq!((new.previous, new.current != made.current), (Some(made.current), true));
        assert!(keys.ring().unwrap().current == new.current, "it is known at once");
        assert!(keys.open(&signed_in.cookie).is_some(), "what the last key has signed is good");
        assert!(stage.sign_in(&person).await.cookie != signed_in.cookie);

        stage.clock.advance(LIFE);
        keys.refresh(stage.clock.now()).await.unwrap();
        assert!(keys.open(&signed_in.cookie).is_none(), "and what the one before has signed is not");
    }

    #[tokio::test]
    async fn without_keys_nobody_is_signed_in_and_the_next_one_makes_some() {
        let stage = Stage::new().await;
        let person = stage.person(UserSpec::default()).await;
        let keys = &stage.tenancy.0.keys;
        let secrets = secrets::api(stage.world.admin());
        let short = Patch::Merge(json!({"data": {"current": ""}}));
        for delete in [true, false] {
            let before = stage.sign_in(&person).await;
            assert!(keys.open(&before.cookie).is_some());
            if delete {
                secrets.delete(NAME, &DeleteParams::default()).await.unwrap();
            } else {
                secrets.patch(NAME, &PatchParams::default(), &short).await.unwrap();
            }
            until("no keys", async || keys.ring().is_none().then_some(())).await;
            let presented = Presented { cookie: Some(&before.cookie), ..Presented::default() };
            assert!(stage.tenancy.authenticate(&presented).await.is_err());
            let after = stage.tenancy.sign_in(person.id.as_str(), PASSWORD, HERE).await.unwrap();
            assert!(keys.open(&after.cookie).is_some() && keys.open(&before.cookie).is_none());
        }
    }
}
