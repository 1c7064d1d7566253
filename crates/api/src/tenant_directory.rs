//! Adapter from the tenancy directory to the account and identity traits of `releases`.

use chart_store::AccountLookup;
use domain::actor::{AuthMethod, Impersonation, Principal};
use domain::ids::{TokenId, UserId, WorkspaceName};
use domain::roles::Capability;
use domain::scopes::Scopes;
use jiff::Timestamp;
use releases::tenant_directory::{IdentityError, TenantDirectory};
use tenancy::Tenancy;

/// Accounts and workspaces of the platform.
pub struct TenancyDirectory(pub Tenancy);

impl AccountLookup for TenancyDirectory {
    fn account_of(&self, workspace: &str) -> Option<String> {
        let account = self.0.directory().account_of(&workspace.parse().ok()?);
        account.map(|account| account.to_string())
    }
}

impl TenantDirectory for TenancyDirectory {
    fn impersonation_of(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError> {
        // The credential may be revoked by now; its scopes still limit the identity.
        let via = match scope {
            [] => AuthMethod::Kubernetes,
            words => {
                let scopes = Scopes::parse(words.iter().map(String::as_str));
                let scopes = scopes.map_err(|error| IdentityError::InvalidScope(error.to_string()))?;
                AuthMethod::Token { id: TokenId::from_random([0; 10]), scopes }
            }
        };
        let actor = self.0.directory().actor(user, via).ok_or(IdentityError::AccountNotActive)?;
        // An account recreated under the same id is a different account.
        if !matches!(&actor.principal, Principal::User { uid: known, .. } if known == uid) {
            return Err(IdentityError::AccountNotActive);
        }
        Ok(actor.workspace_impersonation(Capability::ChangeReleases, workspace)?)
    }

    fn administrator_impersonation(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError> {
        let actor =
            self.0.directory().actor(user, AuthMethod::Kubernetes).ok_or(IdentityError::AccountNotActive)?;
        match &actor.principal {
            Principal::User { uid: known, .. } if known != uid => Err(IdentityError::AccountNotActive),
            Principal::User { id, .. } if actor.is_platform_admin() => Ok(Impersonation::administrator(id)),
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
