//! The caller of a request and its permissions.
//!
//! Every request carries an [`Actor`], whatever the transport. [`Actor::may`] checks the platform's own rules.
//! Kubernetes requests are made with [`Actor::impersonation`], so that Kubernetes authorises them.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Kind;
use crate::ids::{TokenId, UserId, WorkspaceName};
use crate::roles::{Capability, PlatformRole, WorkspaceRole};
use crate::scopes::Scopes;

/// An authenticated caller with its roles at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub who: Who,
    pub platform: BTreeSet<PlatformRole>,
    pub memberships: BTreeMap<WorkspaceName, WorkspaceRole>,
    pub via: Via,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    Person {
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
pub enum Via {
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
pub enum Place<'a> {
    /// The platform itself.
    Platform,
    Workspace(&'a WorkspaceName),
}

/// Authorisation error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("your roles do not include {0}")]
    Role(Capability),
    #[error("this token is not good for {0}")]
    Scope(Capability),
    /// A workspace that the caller may not see is reported as not found.
    #[error("there is no workspace `{0}`")]
    Unseen(WorkspaceName),
    #[error("this needs a sign-in of the person, or a token that is good for everything")]
    NotThemselves,
    #[error("only an administrator of the platform can use asAdministrator")]
    NotAdministrator,
    /// The account has no role in the workspace, whatever its other roles are.
    #[error("the account has no role in workspace `{0}`")]
    NoMember(WorkspaceName),
}

impl Refusal {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Role(_)
            | Self::Scope(_)
            | Self::NotThemselves
            | Self::NotAdministrator
            | Self::NoMember(_) => Kind::Forbidden,
            Self::Unseen(_) => Kind::NotFound,
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
pub fn group(workspace: &WorkspaceName, role: WorkspaceRole) -> String {
    format!("longshore:ws:{workspace}:{role}")
}

impl Actor {
    /// Checks whether the actor may do `what` at `place`.
    pub fn may(&self, what: Capability, place: Place<'_>) -> Result<(), Refusal> {
        let workspace = match place {
            Place::Platform => None,
            Place::Workspace(name) => Some(name),
        };
        if let Some(name) = workspace
            && what != Capability::ReadWorkspace
            && self.may(Capability::ReadWorkspace, place).is_err()
            && !self.has(what, workspace)
        {
            return Err(Refusal::Unseen(name.clone()));
        }
        if !self.has(what, workspace) {
            return Err(match workspace {
                Some(name) if what == Capability::ReadWorkspace => Refusal::Unseen(name.clone()),
                _ => Refusal::Role(what),
            });
        }
        match &self.via {
            Via::Token { scopes, .. } if !scopes.cover(what, workspace) => Err(Refusal::Scope(what)),
            _ => Ok(()),
        }
    }

    fn has(&self, what: Capability, workspace: Option<&WorkspaceName>) -> bool {
        self.platform.iter().any(|role| role.may(what))
            || workspace.and_then(|name| self.memberships.get(name)).is_some_and(|role| role.may(what))
    }

    /// The user id, for operations on the user's own account. Fails for service accounts and for tokens with limited
    /// scopes.
    pub fn themselves(&self) -> Result<&UserId, Refusal> {
        let whole = match &self.via {
            Via::Token { scopes, .. } => scopes.are_all(),
            Via::Session { .. } => true,
            Via::Kubernetes => false,
        };
        match &self.who {
            Who::Person { id, .. } if whole => Ok(id),
            _ => Err(Refusal::NotThemselves),
        }
    }

    /// The user id, whatever the token's scopes.
    pub fn id(&self) -> Option<&UserId> {
        match &self.who {
            Who::Person { id, .. } => Some(id),
            Who::ServiceAccount { .. } => None,
        }
    }

    /// The id of a platform administrator with an unscoped credential.
    pub fn administrator(&self) -> Result<&UserId, Refusal> {
        if self.is_platform_admin() { self.themselves() } else { Err(Refusal::NotAdministrator) }
    }

    pub fn is_platform_admin(&self) -> bool {
        self.platform.contains(&PlatformRole::Admin)
    }

    /// The identity of direct requests that concern no release, with all groups of the actor. Scoped tokens do not get
    /// here: [`Actor::may`] refuses first what their scopes do not cover.
    pub fn impersonation(&self) -> Impersonation {
        match &self.who {
            Who::Person { id, .. } => {
                let groups = self.memberships.iter().map(|(workspace, role)| group(workspace, *role));
                let administrator = self.is_platform_admin().then(|| administrator_group(id));
                Impersonation {
                    user: format!("longshore:user:{id}"),
                    groups: groups.chain(administrator).collect(),
                }
            }
            Who::ServiceAccount { namespace, name } => Impersonation::service_account(namespace, name),
        }
    }

    /// The identity of requests for a release of `workspace`, with that workspace's group only. Requires that role and
    /// token allow `what` there. A platform administrator who is not a member acts as a developer.
    pub fn impersonation_in(
        &self,
        what: Capability,
        workspace: &WorkspaceName,
    ) -> Result<Impersonation, Refusal> {
        self.may(what, Place::Workspace(workspace))?;
        let id = match &self.who {
            Who::Person { id, .. } => id,
            Who::ServiceAccount { namespace, name } => {
                return Ok(Impersonation::service_account(namespace, name));
            }
        };
        let stand_in = self.is_platform_admin().then_some(WorkspaceRole::Developer);
        let role = self.memberships.get(workspace).copied().or(stand_in);
        let role = role.ok_or_else(|| Refusal::NoMember(workspace.clone()))?;
        Ok(Impersonation { user: format!("longshore:user:{id}"), groups: vec![group(workspace, role)] })
    }

    /// Name in audit records and logs.
    pub fn label(&self) -> String {
        match &self.who {
            Who::Person { id, .. } => id.to_string(),
            Who::ServiceAccount { namespace, name } => format!("system:serviceaccount:{namespace}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> WorkspaceName {
        WorkspaceName::chosen(text).unwrap()
    }

    fn person(platform: &[PlatformRole], memberships: &[(&str, WorkspaceRole)], via: Via) -> Actor {
        let id = UserId::from_random([7; 10]);
        Actor {
            who: Who::Person { id, account: "user-1".to_owned(), uid: "x".to_owned() },
            platform: platform.iter().copied().collect(),
            memberships: memberships.iter().map(|(workspace, role)| (name(workspace), *role)).collect(),
            via,
        }
    }

    fn session() -> Via {
        Via::Session { id: "s".to_owned() }
    }

    #[test]
    fn a_workspace_that_is_not_ones_own_is_not_there() {
        let viewer = person(&[], &[("acme", WorkspaceRole::Viewer)], session());
        let (acme, other) = (name("acme"), name("other"));
        assert_eq!(viewer.may(Capability::ReadWorkspace, Place::Workspace(&acme)), Ok(()));
        let refused = viewer.may(Capability::ManageMembers, Place::Workspace(&acme)).unwrap_err();
        assert_eq!(refused.kind(), Kind::Forbidden);
        for what in [Capability::ReadWorkspace, Capability::ManageMembers] {
            let refused = viewer.may(what, Place::Workspace(&other)).unwrap_err();
            assert_eq!((refused.kind(), refused), (Kind::NotFound, Refusal::Unseen(other.clone())));
        }
    }

    #[test]
    fn a_token_never_does_more_than_its_scopes_and_its_owner() {
        let via = |words: &[&str]| Via::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = person(&[PlatformRole::Admin], &[], via(&["read"]));
        assert_eq!(admin.may(Capability::ReadUsers, Place::Platform), Ok(()));
        assert_eq!(
            admin.may(Capability::ManageUsers, Place::Platform),
            Err(Refusal::Scope(Capability::ManageUsers))
        );
        assert_eq!(admin.themselves(), Err(Refusal::NotThemselves));
        let nobody = person(&[], &[], via(&["all"]));
        assert_eq!(
            nobody.may(Capability::ReadUsers, Place::Platform),
            Err(Refusal::Role(Capability::ReadUsers))
        );
        assert!(nobody.themselves().is_ok());
    }

    #[test]
    fn administrator_needs_the_role_and_an_unscoped_credential() {
        let token = |words: &[&str]| Via::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = [PlatformRole::Admin];
        let owner = [("acme", WorkspaceRole::Admin)];
        let rows: &[(Actor, Result<(), Refusal>)] = &[
            (person(&admin, &[], session()), Ok(())),
            (person(&admin, &[], token(&["all"])), Ok(())),
            (person(&admin, &owner, token(&["workspace:acme"])), Err(Refusal::NotThemselves)),
            (person(&admin, &[], Via::Kubernetes), Err(Refusal::NotThemselves)),
            (person(&[], &owner, session()), Err(Refusal::NotAdministrator)),
            (person(&[], &owner, token(&["all"])), Err(Refusal::NotAdministrator)),
        ];
        for (actor, expected) in rows {
            let is = actor.administrator().map(drop);
            assert_eq!(is, *expected, "{actor:?}");
            assert!(is.is_ok() || is.unwrap_err().kind() == Kind::Forbidden);
        }
        let id = UserId::from_random([7; 10]);
        let identity = Impersonation::administrator(&id);
        assert_eq!(
            (identity.user(), identity.groups()),
            ("longshore:user:uhhhhhhhhhh", &[administrator_group(&id)][..])
        );
    }

    #[test]
    fn kubernetes_hears_the_id_and_the_groups_and_nothing_of_the_system() {
        let both = person(
            &[PlatformRole::Admin],
            &[("acme", WorkspaceRole::Admin), ("team", WorkspaceRole::Viewer)],
            session(),
        );
        let as_whom = both.impersonation();
        assert_eq!(as_whom.user(), "longshore:user:uhhhhhhhhhh");
        let administrator = "longshore:platform:admin:uhhhhhhhhhh";
        assert_eq!(as_whom.groups(), ["longshore:ws:acme:admin", "longshore:ws:team:viewer", administrator]);
    }

    #[test]
    fn release_identity_has_exactly_one_group() {
        use Capability::{ChangeReleases, ReadReleases};
        let token = |words: &[&str]| Via::Token {
            id: TokenId::from_random([0; 10]),
            scopes: Scopes::parse(words.iter().copied()).unwrap(),
        };
        let admin = [PlatformRole::Admin];
        let both = [("acme", WorkspaceRole::Admin), ("team", WorkspaceRole::Viewer)];
        let acme = name("acme");
        let scope = || Err(Refusal::Scope(ChangeReleases));
        let rows: &[(Actor, Capability, Result<&str, Refusal>)] = &[
            (person(&[], &both, session()), ChangeReleases, Ok("longshore:ws:acme:admin")),
            (person(&admin, &both, session()), ChangeReleases, Ok("longshore:ws:acme:admin")),
            (person(&admin, &[], session()), ChangeReleases, Ok("longshore:ws:acme:developer")),
            (person(&admin, &both[1..], session()), ChangeReleases, Ok("longshore:ws:acme:developer")),
            (person(&[], &both[1..], session()), ChangeReleases, Err(Refusal::Unseen(acme.clone()))),
            (person(&[], &both, token(&["workspace:acme"])), ChangeReleases, Ok("longshore:ws:acme:admin")),
            (person(&[], &both, token(&["workspace:team"])), ChangeReleases, scope()),
            (person(&admin, &[], token(&["nodes"])), ReadReleases, Err(Refusal::Scope(ReadReleases))),
            (person(&[], &both, token(&["read"])), ChangeReleases, scope()),
            (person(&[], &both, token(&["read"])), ReadReleases, Ok("longshore:ws:acme:admin")),
        ];
        for (actor, what, expected) in rows {
            let is = actor.impersonation_in(*what, &acme).map(|identity| identity.groups().join(","));
            assert_eq!(is, expected.clone().map(ToOwned::to_owned), "{actor:?}");
        }
    }
}
