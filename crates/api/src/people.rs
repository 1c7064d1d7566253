//! Adapter from the tenancy directory to the account and identity traits of `releases`.

use chart_store::Accounts;
use domain::actor::{Impersonation, Via, Who};
use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::Capability;
use domain::scopes::Scopes;
use jiff::Timestamp;
use releases::people::{IdentityError, People};
use tenancy::Tenancy;

/// Accounts and workspaces of the platform.
pub struct Directory(pub Tenancy);

impl Accounts for Directory {
    fn account_of(&self, workspace: &str) -> Option<String> {
        let account = self.0.directory().account_of(&workspace.parse().ok()?);
        account.map(|account| account.to_string())
    }
}

impl People for Directory {
    fn acts_as(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError> {
        // The credential may be revoked by now; its scopes still limit the identity.
        let via = match scope {
            [] => Via::Kubernetes,
            words => {
                let scopes = Scopes::parse(words.iter().map(String::as_str));
                let scopes = scopes.map_err(|error| IdentityError::Scope(error.to_string()))?;
                Via::Token { id: TokenId::from_random([0; 10]), scopes }
            }
        };
        let actor = self.0.directory().actor(user, via).ok_or(IdentityError::NoAccount)?;
        // An account recreated under the same id is a different account.
        if !matches!(&actor.who, Who::Person { uid: known, .. } if known == uid) {
            return Err(IdentityError::NoAccount);
        }
        Ok(actor.impersonation_in(Capability::ChangeReleases, workspace)?)
    }

    fn administrator(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError> {
        let actor = self.0.directory().actor(user, Via::Kubernetes).ok_or(IdentityError::NoAccount)?;
        match &actor.who {
            Who::Person { uid: known, .. } if known != uid => Err(IdentityError::NoAccount),
            Who::Person { id, .. } if actor.is_platform_admin() => Ok(Impersonation::administrator(id)),
            _ => Err(IdentityError::NotAdministrator),
        }
    }

    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        self.0.directory().workspace_of(namespace)
    }

    fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
        self.0.directory().account_of(workspace)
    }

    fn workspace_identity(&self, workspace: &WorkspaceName) -> Option<(String, Timestamp)> {
        let workspace = self.0.directory().workspace(workspace)?;
        Some((workspace.uid.to_string(), workspace.created))
    }
}
