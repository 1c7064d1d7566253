//! What registrations that did not come to their end left behind.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use kube_types::{User, marks};

use super::claims::{self, Claim, PREFIX, only};
use crate::directory::Account;
use crate::secrets::{self, is_code};
use crate::{Error, Tenancy, pages};

/// Longer than any registration takes.
const AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Something to be taken away, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Orphan {
    /// A claim of an e-mail address that no account has.
    Claim(ObjectMeta),
    /// Credentials or a token of nobody.
    Secret(ObjectMeta),
    /// An account whose only token was never told, so that nobody can enter it and its owner cannot register again.
    User(ObjectMeta),
}

/// What is left over. Pure. The users must have been read after the others: whatever was made before its User is
/// then seen with it.
pub fn orphans(users: &[User], claims: &[ConfigMap], secrets: &[Secret], now: Timestamp) -> Vec<Orphan> {
    let by_name: BTreeMap<String, &User> = users.iter().map(|user| (user.name_any(), user)).collect();
    let ids: BTreeSet<UserId> = users.iter().filter_map(Account::of).map(|account| account.id).collect();
    let old = |time: Timestamp| now.duration_since(time) >= AFTER;
    let made = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map_or(now, |time| time.0);

    let stray_claim = |map: &&ConfigMap| {
        map.name_any().starts_with(PREFIX)
            && match Claim::of(map) {
                Some(claim) => {
                    let holder = by_name.get(&claim.account).copied();
                    old(claim.at) && !claim.counts(&map.name_any(), holder, now)
                }
                None => old(made(&map.metadata)),
            }
    };
    let stray_secret = |secret: &&Secret| {
        let ours = matches!(secret.type_.as_deref(), Some(marks::CREDENTIALS_TYPE | marks::TOKEN_TYPE));
        let owner = secret.labels().get(marks::USER).and_then(|id| id.parse().ok());
        ours && owner.is_some_and(|id: UserId| !ids.contains(&id)) && old(made(&secret.metadata))
    };
    let untold = |user: &&User| user.annotations().contains_key(marks::UNTOLD) && old(made(&user.metadata));

    let claims = claims.iter().filter(stray_claim).map(|map| Orphan::Claim(map.metadata.clone()));
    let secrets = secrets.iter().filter(stray_secret).map(|secret| Orphan::Secret(secret.metadata.clone()));
    let users = users.iter().filter(untold).map(|user| Orphan::User(user.metadata.clone()));
    claims.chain(secrets).chain(users).collect()
}

impl Tenancy {
    /// Takes away what is left over, and says how much it was.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let client = self.0.clients.own();
        let (maps, kept) = (claims::maps(client.clone()), secrets::api(client.clone()));
        let users: Api<User> = Api::all(client);
        let of_people = ListParams::default().labels(marks::USER);
        let claims = pages::all(&maps, &of_people, Some).await?;
        let secrets = pages::all(&kept, &of_people, |secret| Some(Secret { data: None, ..secret })).await?;
        let everybody = ListParams::default();
        let present = pages::all(&users, &everybody, |user| Some(without_history(user))).await?;
        let orphans = orphans(&present, &claims, &secrets, self.0.clock.now());
        for orphan in &orphans {
            let (name, deleted) = match orphan {
                Orphan::Claim(meta) => (&meta.name, maps.delete(name(meta), &only(meta)).await.map(drop)),
                Orphan::Secret(meta) => (&meta.name, kept.delete(name(meta), &only(meta)).await.map(drop)),
                Orphan::User(meta) => (&meta.name, users.delete(name(meta), &only(meta)).await.map(drop)),
            };
            match deleted {
                // It is gone, or somebody uses it after all.
                Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
                done => done?,
            }
            tracing::info!(object.name = name.as_deref(), "took away what a registration left behind");
        }
        Ok(orphans.len())
    }
}

/// What an account went through says nothing of whether it is one.
fn without_history(mut user: User) -> User {
    if let Some(status) = &mut user.status {
        (status.conditions, status.transitions) = (Vec::new(), Vec::new());
    }
    user
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}
