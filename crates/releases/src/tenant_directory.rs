//! Directory of accounts and workspaces, as far as releases need it. Implemented by the crate that manages them.

use domain::actor::{AuthorizationError, Impersonation};
use domain::ids::{UserId, WorkspaceName};
use jiff::Timestamp;
#[cfg(test)]
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use kube_types::well_known::{ACCOUNT, WORKSPACE_UID};

/// Why no identity is available for a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the account is closed, expired or gone")]
    AccountNotActive,
    /// The account's role or the scope of the token that last changed the release does not permit it.
    #[error(transparent)]
    Unauthorized(#[from] AuthorizationError),
    #[error("the account is no administrator of the platform any more")]
    NotAdministrator,
    #[error("the scope of the token is not valid: {0}")]
    InvalidScope(String),
}

/// Answers from memory, without I/O.
pub trait TenantDirectory: Send + Sync + 'static {
    /// The identity of a release of `workspace` that runs as this account (by UID): the user and exactly one group, by the account's
    /// current role there. `scope` is the scope of the token that changed the release; empty means unrestricted.
    fn impersonation_of(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError>;

    /// The identity of this account (by UID) as an administrator of the platform, if it is one now.
    fn administrator_impersonation(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError>;

    /// The workspace that owns this namespace.
    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName>;

    /// The account whose budgets this workspace uses; `None` if the workspace has its own.
    fn account_of(&self, _workspace: &WorkspaceName) -> Option<UserId> {
        None
    }

    /// The UID and creation time of the current workspace of this name. `None` if workspaces are not managed here.
    fn workspace_identity(&self, _workspace: &WorkspaceName) -> Option<(String, Timestamp)> {
        None
    }
}

/// Whether an object that names a workspace belongs to the current workspace of that name. Compares the recorded UID or, if none is
/// recorded, the creation times. Objects of a deleted workspace of the same name are not valid.
pub(crate) fn is_of_current_workspace(
    people: &dyn TenantDirectory,
    workspace: &WorkspaceName,
    object: &ObjectMeta,
) -> bool {
    let Some((uid, created)) = people.workspace_identity(workspace) else { return true };
    match object.annotations.as_ref().and_then(|annotations| annotations.get(WORKSPACE_UID)) {
        Some(recorded) => *recorded == uid,
        None => object.creation_timestamp.as_ref().is_none_or(|time| time.0 >= created),
    }
}

/// Whether an object of `workspace` in this namespace belongs to the workspace that owns the namespace now.
pub(crate) fn is_of_namespace_owner(
    people: &dyn TenantDirectory,
    namespace: &str,
    workspace: &str,
    object: &ObjectMeta,
) -> bool {
    people
        .workspace_of(namespace)
        .is_some_and(|owner| owner.as_str() == workspace && is_of_current_workspace(people, &owner, object))
}

/// The flow of a workspace in pools and fair queues: its account, or the workspace itself if it has its own budgets. The two never
/// collide: only personal workspaces are named like an account id.
pub(crate) fn flow_for_workspace(people: &dyn TenantDirectory, workspace: &WorkspaceName) -> String {
    people.account_of(workspace).map_or_else(|| workspace.to_string(), |account| account.to_string())
}

/// The label with the account whose budgets an object of a workspace uses.
pub(crate) fn account_label(
    people: &dyn TenantDirectory,
    workspace: &WorkspaceName,
) -> Option<(String, String)> {
    people.account_of(workspace).map(|account| (ACCOUNT.to_owned(), account.to_string()))
}

/// The annotation with the UID of the workspace that an object is created for.
pub(crate) fn workspace_annotation(
    people: &dyn TenantDirectory,
    workspace: &WorkspaceName,
) -> Option<std::collections::BTreeMap<String, String>> {
    let (uid, _) = people.workspace_identity(workspace)?;
    Some([(WORKSPACE_UID.to_owned(), uid)].into())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Workspaces with their accounts. Each owns one namespace of the same name.
    pub(crate) struct AccountDirectory(HashMap<WorkspaceName, UserId>);

    impl AccountDirectory {
        pub fn new(accounts: &[(&str, &str)]) -> Self {
            let parsed = accounts.iter().map(|(name, id)| (name.parse().unwrap(), id.parse().unwrap()));
            Self(parsed.collect())
        }
    }

    impl TenantDirectory for AccountDirectory {
        fn impersonation_of(
            &self,
            _: &UserId,
            _: &str,
            _: &WorkspaceName,
            _: &[String],
        ) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::AccountNotActive)
        }

        fn administrator_impersonation(&self, _: &UserId, _: &str) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::NotAdministrator)
        }

        fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
            namespace.parse().ok().filter(|workspace| self.0.contains_key(workspace))
        }

        fn account_of(&self, workspace: &WorkspaceName) -> Option<UserId> {
            self.0.get(workspace).cloned()
        }
    }

    struct AcmeDirectory;

    impl TenantDirectory for AcmeDirectory {
        fn impersonation_of(
            &self,
            _: &UserId,
            _: &str,
            _: &WorkspaceName,
            _: &[String],
        ) -> Result<Impersonation, IdentityError> {
            Err(IdentityError::AccountNotActive)
        }

        fn administrator_impersonation(&self, _: &UserId, _: &str) -> Result<Impersonation, IdentityError> {
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
                is_of_current_workspace(&AcmeDirectory, &acme, &object(uid, created)),
                valid,
                "{uid:?} {created}"
            );
        }
        assert_eq!(workspace_annotation(&AcmeDirectory, &acme).unwrap()[WORKSPACE_UID], "new");
    }
}
