//! Who there is, as far as releases must know: asked of whoever keeps accounts and workspaces.

use domain::actor::{Impersonation, Refusal};
use domain::ids::{UserId, WorkspaceName};
use jiff::Timestamp;
#[cfg(test)]
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use kube_types::marks::{ACCOUNT, WORKSPACE_UID};

/// Why a release has no identity to act with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the account is closed, expired or gone")]
    NoAccount,
    /// The account's role, or the scope of the token that the release was changed with.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the account is no administrator of the platform any more")]
    NotAdministrator,
    #[error("the scope of the token is not valid: {0}")]
    Scope(String),
}

/// Answers from memory.
pub trait People: Send + Sync + 'static {
    /// The identity of a release of `workspace` that acts for this account, by its UID: the user and exactly one group, by
    /// the role that the account has there now. `scope` is that of the token by which the release was changed; empty
    /// for one that is not limited.
    fn acts_as(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError>;

    /// The identity of this account, by its UID, as an administrator of the platform, if it is one now.
    fn administrator(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError>;

    /// The workspace whose namespace this is.
    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName>;

    /// The account whose budgets this workspace uses; none where it has budgets of its own.
    fn account_of(&self, _workspace: &WorkspaceName) -> Option<UserId> {
        None
    }

    /// The UID and the creation time of the workspace that has this name now; nothing where workspaces are not known.
    fn workspace_identity(&self, _workspace: &WorkspaceName) -> Option<(String, Timestamp)> {
        None
    }
}

/// Whether an object that names a workspace was made for the one that has the name now: by the recorded UID, or where none is
/// recorded by its age. What a former workspace of the name left behind is not valid.
pub(crate) fn is_of_living_workspace(
    people: &dyn People,
    workspace: &WorkspaceName,
    object: &ObjectMeta,
) -> bool {
    let Some((uid, created)) = people.workspace_identity(workspace) else { return true };
    match object.annotations.as_ref().and_then(|annotations| annotations.get(WORKSPACE_UID)) {
        Some(recorded) => *recorded == uid,
        None => object.creation_timestamp.as_ref().is_none_or(|time| time.0 >= created),
    }
}

/// Whether an object of `workspace` in this namespace was made for the workspace that has the namespace now.
pub(crate) fn is_of_owner(
    people: &dyn People,
    namespace: &str,
    workspace: &str,
    object: &ObjectMeta,
) -> bool {
    people
        .workspace_of(namespace)
        .is_some_and(|owner| owner.as_str() == workspace && is_of_living_workspace(people, &owner, object))
}

/// The flow of a workspace in pools and fair queues: its account or, where it has budgets of its own, itself. The name of a workspace
/// that is not personal never has the form of an id.
pub(crate) fn flow_of(people: &dyn People, workspace: &WorkspaceName) -> String {
    people.account_of(workspace).map_or_else(|| workspace.to_string(), |account| account.to_string())
}

/// The label of the account whose budgets an object of a workspace uses.
pub(crate) fn account_label(people: &dyn People, workspace: &WorkspaceName) -> Option<(String, String)> {
    people.account_of(workspace).map(|account| (ACCOUNT.to_owned(), account.to_string()))
}

/// The annotation that records for which workspace an object is made.
pub(crate) fn workspace_annotation(
    people: &dyn People,
    workspace: &WorkspaceName,
) -> Option<std::collections::BTreeMap<String, String>> {
    let (uid, _) = people.workspace_identity(workspace)?;
    Some([(WORKSPACE_UID.to_owned(), uid)].into())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Workspaces with their accounts. Each has one namespace of its name.
    pub(crate) struct Accounts(HashMap<WorkspaceName, UserId>);

    impl Accounts {
        pub fn new(accounts: &[(&str, &str)]) -> Self {
            let parsed = accounts.iter().map(|(name, id)| (name.parse().unwrap(), id.parse().unwrap()));
            Self(parsed.collect())
        }
    }

    impl People for Accounts {
        fn acts_as(
            &self,
            _: &UserId,
            _: &str,
            _: &WorkspaceName,
            _: &[String],
        ) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::NoAccount)
        }

        fn administrator(&self, _: &UserId, _: &str) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::NotAdministrator)
        }

        fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
            namespace.parse().ok().filter(|workspace| self.0.contains_key(workspace))
        }

        fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
            self.0.get(workspace).cloned()
        }
    }

    struct Acme;

    impl People for Acme {
        fn acts_as(
            &self,
            _: &UserId,
            _: &str,
            _: &WorkspaceName,
            _: &[String],
        ) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::NoAccount)
        }

        fn administrator(&self, _: &UserId, _: &str) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::NotAdministrator)
        }

        fn workspace_of(&self, _: &str) -> Option<WorkspaceName> {
            None
        }

        fn workspace_identity(&self, workspace: &WorkspaceName) -> Option<(String, Timestamp)> {
            (workspace.as_str() == "acme").then(|| ("new".to_owned(), Timestamp::from_second(100).unwrap()))
        }
    }

    #[test]
    fn objects_of_a_former_workspace_of_the_name_are_not_valid() {
        let acme: WorkspaceName = "acme".parse().unwrap();
        let object = |uid: Option<&str>, created: i64| ObjectMeta {
            annotations: uid.map(|uid| [(WORKSPACE_UID.to_owned(), uid.to_owned())].into()),
            creation_timestamp: Some(Time(Timestamp::from_second(created).unwrap())),
            ..ObjectMeta::default()
        };
        #[rustfmt::skip]
        let rows = [(Some("new"), 50, true), (Some("old"), 200, false), (None, 200, true), (None, 50, false)];
        for (uid, created, valid) in rows {
            assert_eq!(
                is_of_living_workspace(&Acme, &acme, &object(uid, created)),
                valid,
                "{uid:?} {created}"
            );
        }
        assert_eq!(workspace_annotation(&Acme, &acme).unwrap()[WORKSPACE_UID], "new");
    }
}
