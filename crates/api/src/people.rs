//! Who there is, told to those who look after releases: the directory's answers in their words.

use domain::actor::{Actor, Impersonation, Via, Who};
use domain::ids::{UserId, WorkspaceName};
use releases::people::People;
use tenancy::Tenancy;

/// The accounts and workspaces of the platform.
pub struct Directory(pub Tenancy);

impl People for Directory {
    fn acts_as(&self, user: &UserId, uid: &str) -> Option<Impersonation> {
        // By what they were recognised when they asked is over: what they may do now counts.
        let actor = self.0.directory().actor(user, Via::Kubernetes)?;
        is_account(&actor, uid).then(|| actor.impersonation())
    }

    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        self.0.directory().workspace_of(namespace)
    }
}

/// Whether it is the account of that UID, and not a later one under the same id.
fn is_account(actor: &Actor, uid: &str) -> bool {
    matches!(&actor.who, Who::Person { uid: known, .. } if known == uid)
}
