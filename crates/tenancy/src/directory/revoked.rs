//! Revocation of requests in progress, such as streams.

use std::sync::Arc;
use std::time::Duration;

use domain::Actor;
use domain::actor::{Via, Who};
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::sessions::SessionId;

/// The interval of checks between changes: expiry produces no change.
const LOOK: Duration = Duration::from_secs(1);

/// A `TokenReview` is valid for a minute. After that the client must present its token again.
pub(super) const REVIEW: Duration = Duration::from_mins(1);

/// Resolves when `then` is no longer a valid actor. `review` limits how long an actor with a Kubernetes token stays valid.
pub(super) async fn until_revoked(shared: Arc<Shared>, then: Actor, review: Duration) {
    let begun = Instant::now();
    let mut changed = shared.changed.subscribe();
    while shared.is_still_good(&then) && (then.via != Via::Kubernetes || begun.elapsed() < review) {
        // Check again after a change or a timeout.
        let _ = timeout(LOOK, changed.changed()).await;
    }
}

impl Shared {
    /// Whether the same credential would authenticate the same actor now, with at least the same roles.
    fn is_still_good(&self, then: &Actor) -> bool {
        let Who::Person { id, uid, .. } = &then.who else {
            let index = self.index.read();
            return then.memberships.keys().all(|workspace| index.workspace(workspace).is_some());
        };
        let Some(now) = self.actor(id, then.via.clone()) else { return false };
        let same = matches!(&now.who, Who::Person { uid: present, .. } if present == uid);
        let roles = now.platform.is_superset(&then.platform)
            && then.memberships.iter().all(|(workspace, role)| now.memberships.get(workspace) == Some(role));
        same && roles && self.is_credential_good(then)
    }

    /// Whether the token or session of the actor is still valid.
    fn is_credential_good(&self, then: &Actor) -> bool {
        let (time, index) = (self.clock.now(), self.index.read());
        match (&then.via, then.id()) {
            (Via::Token { id, .. }, Some(owner)) => {
                index.token(id).is_some_and(|token| token.owner == *owner && !token.is_expired(time))
            }
            (Via::Session { id }, Some(owner)) => id.parse::<SessionId>().is_ok_and(|session| {
                index.credentials(owner).is_some_and(|credentials| credentials.accept(&session, time))
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
    use kube_types::{User, UserSpec, marks};
    use parking_lot::RwLock;
    use testkit::HeldClock;
    use testkit::until::LIMIT;
    use tokio::sync::watch;

    use super::super::account::Person;
    use super::super::held::Held;
    use super::super::index::Index;
    use super::*;
    use crate::secrets::new_user_id;
    use crate::tokens::{TokenKind, mint};

    fn shared(clock: &HeldClock, index: Index) -> Arc<Shared> {
        let clock = Arc::new(clock.clone());
        Arc::new(Shared { index: RwLock::new(index), changed: watch::Sender::new(()), clock })
    }

    #[tokio::test]
    async fn a_token_whose_time_is_over_lets_go_although_nothing_changes() {
        let (clock, id, mut index) = (HeldClock::new(), new_user_id(), Index::default());
        let mut user = User::new("ana", UserSpec::default());
        user.annotations_mut().insert(marks::TENANT_ID.to_owned(), id.to_string());
        index.user_applied(&Person::of(&user));
        let ends = Clock::now(&clock) + SignedDuration::from_mins(1);
        let (_, token) = mint(&id, TokenKind::Api, "x", Scopes::all(), Timestamp::UNIX_EPOCH, Some(ends));
        index.secret_applied(&Held::of(&token.to_secret()));
        let shared = shared(&clock, index);
        let actor = shared.actor(&id, Via::Token { id: token.id, scopes: token.scopes }).unwrap();
        let mut let_go = Box::pin(until_revoked(shared, actor, REVIEW));
        assert!(futures::poll!(&mut let_go).is_pending());
        clock.advance(SignedDuration::from_mins(1));
        timeout(LIMIT, let_go).await.unwrap();
    }

    #[tokio::test]
    async fn a_program_has_to_show_its_token_again_after_a_while() {
        let who = Who::ServiceAccount { namespace: "acme".to_owned(), name: "x".to_owned() };
        let (platform, memberships) = (BTreeSet::new(), BTreeMap::new());
        let actor = Actor { who, platform, memberships, via: Via::Kubernetes };
        let shared = shared(&HeldClock::new(), Index::default());
        let stays = until_revoked(shared.clone(), actor.clone(), REVIEW);
        assert!(futures::poll!(Box::pin(stays)).is_pending());
        timeout(LIMIT, until_revoked(shared, actor, Duration::ZERO)).await.unwrap();
    }
}
