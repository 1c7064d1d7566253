//! The caller of a request and its permissions.
//!
//! Every request carries an [`Actor`], whatever the transport. [`Actor::authorize`] checks the platform's own rules.
//! Kubernetes requests are made with [`Actor::impersonation`], so that Kubernetes authorises them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ErrorKind;
use crate::ids::{TokenId, UserId, WorkspaceName};
use crate::roles::{Capability, PlatformRole, WorkspaceRole};
use crate::scopes::Scopes;

/// An authenticated caller with its roles at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub principal: Principal,
    pub platform_roles: BTreeSet<PlatformRole>,
    pub memberships: BTreeMap<WorkspaceName, WorkspaceRole>,
    pub auth_method: AuthMethod,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    User {
        id: UserId,
        /// The name of the User object.
        account: String,
        /// UID of the User object. A new account with the same name has another UID.
        uid: String,
    },
    /// A workload inside the cluster.
    ServiceAccount { namespace: String, name: String },
}

/// Authentication method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// Session of the console or the command line.
    Session {
        id: String,
    },
    Token {
        id: TokenId,
        scopes: Scopes,
    },
    /// Kubernetes bearer token.
    Kubernetes,
}

/// Scope of an operation.
#[derive(Clone, Copy, Debug)]
pub enum AccessScope<'a> {
    /// The platform itself.
    Platform,
    Workspace(&'a WorkspaceName),
}

/// Authorisation error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
    #[error("your roles do not include {0}")]
    MissingCapability(Capability),
    #[error("the token's scopes do not include {0}")]
    TokenScope(Capability),
    /// A workspace that the caller may not see is reported as not found.
    #[error("workspace `{0}` not found")]
    WorkspaceNotFound(WorkspaceName),
    #[error("this requires a user session or an unscoped API token")]
    UnrestrictedUserRequired,
    #[error("only platform administrators can use asAdministrator")]
    AdministratorRequired,
    /// The account has no role in the workspace, whatever its other roles are.
    #[error("the account has no role in workspace `{0}`")]
    NotAMember(WorkspaceName),
}

impl AuthorizationError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingCapability(_)
            | Self::TokenScope(_)
            | Self::UnrestrictedUserRequired
            | Self::AdministratorRequired
            | Self::NotAMember(_) => ErrorKind::Forbidden,
            Self::WorkspaceNotFound(_) => ErrorKind::NotFound,
        }
    }
}

/// The identity that a Kubernetes request impersonates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Impersonation {
    user: String,
    groups: Vec<String>,
}

impl Impersonation {
    /// The ServiceAccount in the release's own namespace, without further groups.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: Vec::new() }
    }

    /// An administrator of the platform, with only the group that is bound to cluster-admin.
    pub fn administrator(id: &UserId) -> Self {
        Self { user: format!("longshore:user:{id}"), groups: vec![administrator_group(id)] }
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn groups(&self) -> &[String] {
        &self.groups
    }
}

/// The group that is bound to cluster-admin for one administrator of the platform. It is part of the administrator's
/// direct requests, and of writes of a release version that the administrator requested with `asAdministrator`.
pub fn administrator_group(id: &UserId) -> String {
    format!("longshore:platform:admin:{id}")
}

/// The group of members with `role` in `workspace`, as RoleBindings name it.
pub fn workspace_group(workspace: &WorkspaceName, role: WorkspaceRole) -> String {
    format!("longshore:ws:{workspace}:{role}")
}

impl Actor {
    /// Checks whether the actor may do `what` at `place`.
    pub fn authorize(&self, what: Capability, place: AccessScope<'_>) -> Result<(), AuthorizationError> {
        let workspace = match place {
            AccessScope::Platform => None,
            AccessScope::Workspace(name) => Some(name),
        };
        if let Some(name) = workspace
            && what != Capability::ReadWorkspace
            && self.authorize(Capability::ReadWorkspace, place).is_err()
            && !self.has_capability(what, workspace)
        {
            return Err(AuthorizationError::WorkspaceNotFound(name.clone()));
        }
        if !self.has_capability(what, workspace) {
            return Err(match workspace {
                Some(name) if what == Capability::ReadWorkspace => {
                    AuthorizationError::WorkspaceNotFound(name.clone())
                }
                _ => AuthorizationError::MissingCapability(what),
            });
        }
        match &self.auth_method {
            AuthMethod::Token { scopes, .. } if !scopes.allows(what, workspace) => {
                Err(AuthorizationError::TokenScope(what))
            }
            _ => Ok(()),
        }
    }

    fn has_capability(&self, what: Capability, workspace: Option<&WorkspaceName>) -> bool {
        self.platform_roles.iter().any(|role| role.allows(what))
            || workspace.and_then(|name| self.memberships.get(name)).is_some_and(|role| role.allows(what))
    }

    /// The user id, for operations on the user's own account. Fails for service accounts and for tokens with limited
    /// scopes.
    pub fn require_unrestricted_user(&self) -> Result<&UserId, AuthorizationError> {
        let is_unrestricted = match &self.auth_method {
            AuthMethod::Token { scopes, .. } => scopes.is_unrestricted(),
            AuthMethod::Session { .. } => true,
            AuthMethod::Kubernetes => false,
        };
        match &self.principal {
            Principal::User { id, .. } if is_unrestricted => Ok(id),
            _ => Err(AuthorizationError::UnrestrictedUserRequired),
        }
    }

    /// The user id, whatever the token's scopes.
    pub fn user_id(&self) -> Option<&UserId> {
        match &self.principal {
            Principal::User { id, .. } => Some(id),
            Principal::ServiceAccount { .. } => None,
        }
    }

    /// The id of a platform administrator with an unscoped credential.
    pub fn require_administrator(&self) -> Result<&UserId, AuthorizationError> {
        if self.is_platform_admin() {
            self.require_unrestricted_user()
        } else {
            Err(AuthorizationError::AdministratorRequired)
        }
    }

    pub fn is_platform_admin(&self) -> bool {
        self.platform_roles.contains(&PlatformRole::Admin)
    }

    /// The identity of direct requests that concern no release, with all groups of the actor. Scoped tokens do not get
    /// here: [`Actor::authorize`] refuses first what their scopes do not cover.
    pub fn impersonation(&self) -> Impersonation {
        match &self.principal {
            Principal::User { id, .. } => {
                let groups =
                    self.memberships.iter().map(|(workspace, role)| workspace_group(workspace, *role));
                let administrator = self.is_platform_admin().then(|| administrator_group(id));
                Impersonation {
                    user: format!("longshore:user:{id}"),
                    groups: groups.chain(administrator).collect(),
                }
            }
            Principal::ServiceAccount { namespace, name } => Impersonation::service_account(namespace, name),
        }
    }

    /// The identity of requests for a release of `workspace`, with that workspace's group only. Requires that role and
    /// token allow `what` there. A platform administrator without membership acts as a developer.
    pub fn workspace_impersonation(
        &self,
        what: Capability,
        workspace: &WorkspaceName,
    ) -> Result<Impersonation, AuthorizationError> {
        self.authorize(what, AccessScope::Workspace(workspace))?;
        let id = match &self.principal {
            Principal::User { id, .. } => id,
            Principal::ServiceAccount { namespace, name } => {
                return Ok(Impersonation::service_account(namespace, name));
            }
        };
        let admin_role = self.is_platform_admin().then_some(WorkspaceRole::Developer);
        let role = self.memberships.get(workspace).copied().or(admin_role);
        let role = role.ok_or_else(|| AuthorizationError::NotAMember(workspace.clone()))?;
        Ok(Impersonation {
            user: format!("longshore:user:{id}"),
            groups: vec![workspace_group(workspace, role)],
        })
    }

    /// Name in audit records and logs.
    pub fn audit_name(&self) -> String {
        match &self.principal {
            Principal::User { id, .. } => id.to_string(),
            Principal::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> WorkspaceName {
        WorkspaceName::parse_chosen(text).unwrap()
    }

    fn user_actor(
        platform: &[PlatformRole],
        memberships: &[(&str, WorkspaceRole)],
        via: AuthMethod,
    ) -> Actor {
        let id = UserId::from_random([7; 10]);
        Actor {
            principal: Principal::User { id, account: "user-1".to_owned(), uid: "x".to_owned() },
            platform_roles: platform.iter().copied().collect(),
            memberships: memberships.iter().map(|(workspace, role)| (name(workspace), *role)).collect(),
            auth_method: via,
        }
    }

    fn session() -> AuthMethod {
        AuthMethod::Session { id: "s".to_owned() }
    }

    #[test]
    fn authorize_reports_foreign_workspace_as_not_found() {
        let viewer = user_actor(&[], &[("acme", WorkspaceRole::Viewer)], session());
        let (acme, other) = (name("acme"), name("other"));
        assert_eq!(viewer.authorize(Capability::ReadWorkspace, AccessScope::Workspace(&acme)), Ok(()));
        let refused = viewer.authorize(Capability::ManageMembers, AccessScope::Workspace(&acme)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Forbidden);
        for what in [Capability::ReadWorkspace, Capability::ManageMembers] {
            let refused = viewer.authorize(what, AccessScope::Workspace(&other)).unwrap_err();
            assert_eq!(
                (refused.kind(), refused),
                (ErrorKind::NotFound, AuthorizationError::WorkspaceNotFound(other.clone()))
            );
        }
    }

    #[test]
    fn token_is_limited_by_its_scopes_and_the_roles_of_its_owner() {
        let via = |words: &[&str]| AuthMethod::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = user_actor(&[PlatformRole::Admin], &[], via(&["read"]));
        assert_eq!(admin.authorize(Capability::ReadUsers, AccessScope::Platform), Ok(()));
        assert_eq!(
            admin.authorize(Capability::ManageUsers, AccessScope::Platform),
            Err(AuthorizationError::TokenScope(Capability::ManageUsers))
        );
        assert_eq!(admin.require_unrestricted_user(), Err(AuthorizationError::UnrestrictedUserRequired));
        let nobody = user_actor(&[], &[], via(&["all"]));
        assert_eq!(
            nobody.authorize(Capability::ReadUsers, AccessScope::Platform),
            Err(AuthorizationError::MissingCapability(Capability::ReadUsers))
        );
        assert!(nobody.require_unrestricted_user().is_ok());
    }

    #[test]
    fn administrator_needs_the_role_and_an_unscoped_credential() {
        let token = |words: &[&str]| AuthMethod::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = [PlatformRole::Admin];
        let owner = [("acme", WorkspaceRole::Admin)];
        let rows: &[(Actor, Result<(), AuthorizationError>)] = &[
            (user_actor(&admin, &[], session()), Ok(())),
            (user_actor(&admin, &[], token(&["all"])), Ok(())),
            (
                user_actor(&admin, &owner, token(&["workspace:acme"])),
                Err(AuthorizationError::UnrestrictedUserRequired),
            ),
            (
                user_actor(&admin, &[], AuthMethod::Kubernetes),
                Err(AuthorizationError::UnrestrictedUserRequired),
            ),
            (user_actor(&[], &owner, session()), Err(AuthorizationError::AdministratorRequired)),
            (user_actor(&[], &owner, token(&["all"])), Err(AuthorizationError::AdministratorRequired)),
        ];
        for (actor, expected) in rows {
            let is = actor.require_administrator().map(drop);
            assert_eq!(is, *expected, "{actor:?}");
            assert!(is.is_ok() || is.unwrap_err().kind() == ErrorKind::Forbidden);
        }
        let id = UserId::from_random([7; 10]);
        let identity = Impersonation::administrator(&id);
        assert_eq!(
            (identity.user(), identity.groups()),
            ("longshore:user:uhhhhhhhhhh", &[administrator_group(&id)][..])
        );
    }

    #[test]
    fn impersonation_has_user_id_and_workspace_groups_only() {
        let both = user_actor(
            &[PlatformRole::Admin],
            &[("acme", WorkspaceRole::Admin), ("team", WorkspaceRole::Viewer)],
            session(),
        );
        let identity = both.impersonation();
        assert_eq!(identity.user(), "longshore:user:uhhhhhhhhhh");
        let administrator = "longshore:platform:admin:uhhhhhhhhhh";
        assert_eq!(identity.groups(), ["longshore:ws:acme:admin", "longshore:ws:team:viewer", administrator]);
    }

    #[test]
    fn release_identity_has_exactly_one_group() {
        use Capability::{ChangeReleases, ReadReleases};
        let token = |words: &[&str]| AuthMethod::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = [PlatformRole::Admin];
        let both = [("acme", WorkspaceRole::Admin), ("team", WorkspaceRole::Viewer)];
        let acme = name("acme");
        let scope = || Err(AuthorizationError::TokenScope(ChangeReleases));
        let rows: &[(Actor, Capability, Result<&str, AuthorizationError>)] = &[
            (user_actor(&[], &both, session()), ChangeReleases, Ok("longshore:ws:acme:admin")),
            (user_actor(&admin, &both, session()), ChangeReleases, Ok("longshore:ws:acme:admin")),
            (user_actor(&admin, &[], session()), ChangeReleases, Ok("longshore:ws:acme:developer")),
            (user_actor(&admin, &both[1..], session()), ChangeReleases, Ok("longshore:ws:acme:developer")),
            (
                user_actor(&[], &both[1..], session()),
                ChangeReleases,
                Err(AuthorizationError::WorkspaceNotFound(acme.clone())),
            ),
            (
                user_actor(&[], &both, token(&["workspace:acme"])),
                ChangeReleases,
                Ok("longshore:ws:acme:admin"),
            ),
            (user_actor(&[], &both, token(&["workspace:team"])), ChangeReleases, scope()),
            (
                user_actor(&admin, &[], token(&["nodes"])),
                ReadReleases,
                Err(AuthorizationError::TokenScope(ReadReleases)),
            ),
            (user_actor(&[], &both, token(&["read"])), ChangeReleases, scope()),
            (user_actor(&[], &both, token(&["read"])), ReadReleases, Ok("longshore:ws:acme:admin")),
        ];
        for (actor, what, expected) in rows {
            let is = actor.workspace_impersonation(*what, &acme).map(|identity| identity.groups().join(","));
            assert_eq!(is, expected.clone().map(ToOwned::to_owned), "{actor:?}");
        }
    }
}
