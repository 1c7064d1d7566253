//! Garbage collection of incomplete registrations.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use kube_types::{User, well_known};

use super::email_claims::{self, EmailClaim, PREFIX, delete_if_unchanged};
use crate::credential_store::{self, is_code};
use crate::directory::Account;
use crate::{Error, Tenancy, paging};

/// The age at which objects are collected: longer than any registration takes.
const MIN_ORPHAN_AGE: SignedDuration = SignedDuration::from_mins(10);
/// An object to be deleted, with its UID and `resourceVersion`.
#[derive(Clone, Debug, PartialEq)]
pub enum Orphan {
    /// A claim of an e-mail address that no account has.
    Claim(ObjectMeta),
    /// Credentials or a token without an account.
    Secret(ObjectMeta),
    /// An account whose only token was never disclosed: it is inaccessible, and blocks its owner from registering again.
    User(ObjectMeta),
}

/// Finds orphaned objects. Pure: no I/O, no clock. The users must have been read after the other objects, so that an object created before
/// its User is read together with it.
pub fn orphans(users: &[User], claims: &[ConfigMap], secrets: &[Secret], now: Timestamp) -> Vec<Orphan> {
    let by_name: BTreeMap<String, &User> = users.iter().map(|user| (user.name_any(), user)).collect();
    let ids: BTreeSet<UserId> =
        users.iter().filter_map(Account::from_user).map(|account| account.id).collect();
    let old = |time: Timestamp| now.duration_since(time) >= MIN_ORPHAN_AGE;
    let made = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map_or(now, |time| time.0);

    let stray_claim = |map: &&ConfigMap| {
        map.name_any().starts_with(PREFIX)
            && match EmailClaim::from_config_map(map) {
                Some(claim) => {
                    let holder = by_name.get(&claim.account).copied();
                    old(claim.created) && !claim.is_valid(&map.name_any(), holder, now)
                }
                None => old(made(&map.metadata)),
            }
    };
    let stray_secret = |secret: &&Secret| {
        let ours =
            matches!(secret.type_.as_deref(), Some(well_known::CREDENTIALS_TYPE | well_known::TOKEN_TYPE));
        let owner = secret.labels().get(well_known::USER).and_then(|id| id.parse().ok());
        ours && owner.is_some_and(|id: UserId| !ids.contains(&id)) && old(made(&secret.metadata))
    };
    let untold = |user: &&User| {
        user.annotations().contains_key(well_known::CREDENTIALS_UNDISCLOSED) && old(made(&user.metadata))
    };

    let claims = claims.iter().filter(stray_claim).map(|map| Orphan::Claim(map.metadata.clone()));
    let secrets = secrets.iter().filter(stray_secret).map(|secret| Orphan::Secret(secret.metadata.clone()));
    let users = users.iter().filter(untold).map(|user| Orphan::User(user.metadata.clone()));
    claims.chain(secrets).chain(users).collect()
}

impl Tenancy {
    /// Deletes orphaned objects and returns their number.
    pub async fn collect_registration_garbage(&self) -> Result<usize, Error> {
        let client = self.0.clients.platform();
        let (maps, kept) = (email_claims::config_maps(client.clone()), credential_store::api(client.clone()));
        let users: Api<User> = Api::all(client);
        let of_people = ListParams::default().labels(well_known::USER);
        let claims = paging::list_all(&maps, &of_people, Some).await?;
        let secrets =
            paging::list_all(&kept, &of_people, |secret| Some(Secret { data: None, ..secret })).await?;
        let everybody = ListParams::default();
        let present = paging::list_all(&users, &everybody, |user| Some(without_history(user))).await?;
        let orphans = orphans(&present, &claims, &secrets, self.0.clock.now());
        for orphan in &orphans {
            let (name, deleted) = match orphan {
                Orphan::Claim(meta) => {
                    (&meta.name, maps.delete(name(meta), &delete_if_unchanged(meta)).await.map(drop))
                }
                Orphan::Secret(meta) => {
                    (&meta.name, kept.delete(name(meta), &delete_if_unchanged(meta)).await.map(drop))
                }
                Orphan::User(meta) => {
                    (&meta.name, users.delete(name(meta), &delete_if_unchanged(meta)).await.map(drop))
                }
            };
            match deleted {
                // It is deleted already, or in use after all.
                Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
                done => done?,
            }
            tracing::info!(object.name = name.as_deref(), "deleted objects of an incomplete registration");
        }
        Ok(orphans.len())
    }
}

/// Drops conditions and transitions, which are not needed here, to save memory.
fn without_history(mut user: User) -> User {
    if let Some(status) = &mut user.status {
        (status.conditions, status.transitions) = (Vec::new(), Vec::new());
    }
    user
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}
