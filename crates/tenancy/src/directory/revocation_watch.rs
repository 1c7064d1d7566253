//! Revocation of requests in progress, such as streams.

use std::sync::Arc;
use std::time::Duration;

use domain::Actor;
use domain::actor::{AuthMethod, Principal};
use tokio::time::{Instant, timeout};

use super::DirectoryState;
use crate::sessions::SessionId;

/// The interval of checks between changes: expiry produces no change.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A `TokenReview` is valid for a minute. After that the client must present its token again.
pub(super) const TOKEN_REVIEW_TTL: Duration = Duration::from_mins(1);

/// Resolves when `then` is no longer a valid actor. `review` limits how long an actor with a Kubernetes token stays valid.
pub(super) async fn wait_until_revoked(shared: Arc<DirectoryState>, then: Actor, review: Duration) {
    let begun = Instant::now();
    let mut changed = shared.changed.subscribe();
    while shared.is_still_valid(&then)
        && (then.auth_method != AuthMethod::Kubernetes || begun.elapsed() < review)
    {
        // Check again after a change or a timeout.
        let _ = timeout(CHECK_INTERVAL, changed.changed()).await;
    }
}

impl DirectoryState {
    /// Whether the same credential would authenticate the same actor now, with at least the same roles.
    fn is_still_valid(&self, then: &Actor) -> bool {
        let Principal::User { id, uid, .. } = &then.principal else {
            let index = self.index.read();
            return then.memberships.keys().all(|workspace| index.workspace(workspace).is_some());
        };
        let Some(now) = self.actor(id, then.auth_method.clone()) else { return false };
        let same = matches!(&now.principal, Principal::User { uid: present, .. } if present == uid);
        let roles = now.platform_roles.is_superset(&then.platform_roles)
            && then.memberships.iter().all(|(workspace, role)| now.memberships.get(workspace) == Some(role));
        same && roles && self.is_credential_valid(then)
    }

    /// Whether the token or session of the actor is still valid.
    fn is_credential_valid(&self, then: &Actor) -> bool {
        let (time, index) = (self.clock.now(), self.index.read());
        match (&then.auth_method, then.user_id()) {
            (AuthMethod::Token { id, .. }, Some(owner)) => {
                index.token(id).is_some_and(|token| token.owner == *owner && !token.is_expired(time))
            }
            (AuthMethod::Session { id }, Some(owner)) => id.parse::<SessionId>().is_ok_and(|session| {
                index
                    .credentials(owner)
                    .is_some_and(|credentials| credentials.accepts_session(&session, time))
            }),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use domain::clock::Clock;
    use domain::scopes::Scopes;
    use jiff::{SignedDuration, Timestamp};
    use kube::ResourceExt;
    use kube_types::{User, UserSpec, well_known};
    use parking_lot::RwLock;
    use testkit::ManualClock;
    use testkit::wait_for::WAIT_TIMEOUT;
    use tokio::sync::watch;

    use super::super::account::UserEntry;
    use super::super::index::Index;
    use super::super::user_secret::UserSecret;
    use super::*;
    use crate::credential_store::new_user_id;
    use crate::tokens::{TokenKind, mint};

    fn directory_state(clock: &ManualClock, index: Index) -> Arc<DirectoryState> {
        let clock = Arc::new(clock.clone());
        Arc::new(DirectoryState { index: RwLock::new(index), changed: watch::Sender::new(()), clock })
    }

    #[tokio::test]
    async fn expired_token_is_revoked_without_a_change_event() {
        let (clock, id, mut index) = (ManualClock::new(), new_user_id(), Index::default());
        let mut user = User::new("ana", UserSpec::default());
        user.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id.to_string());
        index.user_applied(&UserEntry::from_user(&user));
        let ends = Clock::now(&clock) + SignedDuration::from_mins(1);
        let (_, token) = mint(&id, TokenKind::Api, "x", Scopes::all(), Timestamp::UNIX_EPOCH, Some(ends));
        index.secret_applied(&UserSecret::from_secret(&token.to_secret()));
        let shared = directory_state(&clock, index);
        let actor = shared.actor(&id, AuthMethod::Token { id: token.id, scopes: token.scopes }).unwrap();
        let mut let_go = Box::pin(wait_until_revoked(shared, actor, TOKEN_REVIEW_TTL));
        assert!(futures::poll!(&mut let_go).is_pending());
        clock.advance(SignedDuration::from_mins(1));
        timeout(WAIT_TIMEOUT, let_go).await.unwrap();
    }

    #[tokio::test]
    async fn kubernetes_token_is_revoked_after_the_review_ttl() {
        let who = Principal::ServiceAccount { namespace: "acme".to_owned(), name: "x".to_owned() };
        let (platform, memberships) = (BTreeSet::new(), BTreeMap::new());
        let actor = Actor {
            principal: who,
            platform_roles: platform,
            memberships,
            auth_method: AuthMethod::Kubernetes,
        };
        let shared = directory_state(&ManualClock::new(), Index::default());
        let stays = wait_until_revoked(shared.clone(), actor.clone(), TOKEN_REVIEW_TTL);
        assert!(futures::poll!(Box::pin(stays)).is_pending());
        timeout(WAIT_TIMEOUT, wait_until_revoked(shared, actor, Duration::ZERO)).await.unwrap();
    }
}
