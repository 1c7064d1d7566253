//! When somebody who was let in is to be let go.

use std::sync::Arc;
use std::time::Duration;

use domain::Actor;
use domain::actor::{Via, Who};
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::sessions::SessionId;

/// How often is looked where nothing changes but the time.
const LOOK: Duration = Duration::from_secs(1);

/// What Kubernetes said of a token is good for a minute, and whoever came with one has to show it again.
pub(crate) const REVIEW: Duration = Duration::from_mins(1);

pub(super) async fn until_revoked(shared: Arc<Shared>, then: Actor) {
    let begun = Instant::now();
    let mut changed = shared.changed.subscribe();
    while shared.is_still_good(&then) && (then.via != Via::Kubernetes || begun.elapsed() < REVIEW) {
        // Either way it is time to look again.
        let _ = timeout(LOOK, changed.changed()).await;
    }
}

impl Shared {
    /// Whether whoever was recognised as `then` would be recognised now, with at least the same roles.
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
