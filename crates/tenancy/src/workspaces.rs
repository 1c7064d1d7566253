//! Workspaces: create, list and rename.
//!
//! Elsewhere: namespaces ([`namespaces`]), deletion ([`removal`]), members (`crate::members`), quotas (`crate::quota`), and the
//! provisioned objects (`crate::controller`).

use std::collections::BTreeMap;

use domain::ids::{UserId, WorkspaceName};
use domain::roles::{Capability, WorkspaceRole};
use domain::{AccessScope, Actor};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use kube_types::workspace::{Member, WorkspaceNamespace};
use kube_types::{Workspace, WorkspaceSpec, well_known};

use crate::credential_store::{is_code, post_params};
use crate::directory::WorkspaceRecord;
use crate::quota::{ResourceQuantities, account_quota};
use crate::register::email_claims::delete_if_unchanged;
use crate::retired_names::{self, RetiredName};
use crate::update::{is_at_least_version, update_with_retry};
use crate::{Error, Tenancy};

mod info;
pub mod namespaces;
pub mod removal;

pub use info::{NamespaceInfo, WorkspaceInfo};

/// The limit of workspaces that one account can create.
pub const MAX_WORKSPACES_PER_ACCOUNT: usize = 10;
/// The cluster that the platform runs on.
const HOST_CLUSTER: &str = "host";
const MAX_DISPLAY_NAME_LEN: usize = 128;

/// Whether this is a personal workspace.
pub(crate) fn is_personal(workspace: &Workspace) -> bool {
    is_personal_name(&workspace.spec.owner, &workspace.name_any())
}

/// Whether a workspace with that owner and name is personal.
pub(crate) fn is_personal_name(owner: &str, name: &str) -> bool {
    !owner.is_empty() || name.parse::<WorkspaceName>().is_ok_and(|name| name.is_personal())
}

/// Validates a display name: empty, or one line of text.
fn display_name(text: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.chars().count() > MAX_DISPLAY_NAME_LEN || text.chars().any(char::is_control) {
        let message = format!("a display name must have at most {MAX_DISPLAY_NAME_LEN} printable characters");
        return Err(Error::Invalid(message));
    }
    Ok(text.to_owned())
}

impl Tenancy {
    /// Lists the workspaces that the actor may read, by name.
    pub fn workspaces(&self, actor: &Actor) -> Vec<WorkspaceInfo> {
        let all = self.0.directory.workspaces();
        let seen = all.iter().filter_map(|workspace| WorkspaceInfo::from_record(workspace, actor));
        seen.filter(|info| {
            actor.authorize(Capability::ReadWorkspace, AccessScope::Workspace(&info.name)).is_ok()
        })
        .collect()
    }

    pub fn workspace(&self, actor: &Actor, name: &WorkspaceName) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::ReadWorkspace, AccessScope::Workspace(name))?;
        let known = self.0.directory.workspace(name);
        known
            .and_then(|workspace| WorkspaceInfo::from_record(&workspace, actor))
            .ok_or_else(|| workspace_not_found(name))
    }

    /// Creates a workspace with one namespace of the same name. The actor becomes its only member.
    pub async fn create_workspace(
        &self,
        actor: &Actor,
        name: &str,
        display: &str,
    ) -> Result<WorkspaceInfo, Error> {
        self.create_workspace_as(actor, name, display, ReissuePolicy::Denied).await
    }

    /// Like [`Tenancy::create_workspace`], also with a retired name of another owner if an administrator of the platform confirms it.
    pub async fn create_workspace_as(
        &self,
        actor: &Actor,
        name: &str,
        display: &str,
        reissue: ReissuePolicy,
    ) -> Result<WorkspaceInfo, Error> {
        let maker = actor.require_unrestricted_user()?;
        let name = WorkspaceName::parse_chosen(name)?;
        let display_name = display_name(display)?;
        let full =
            || Error::Conflict(format!("a user can create at most {MAX_WORKSPACES_PER_ACCOUNT} workspaces"));
        let made_by = |workspace: &WorkspaceRecord| {
            workspace.creator.as_ref() == Some(maker) && !workspace.is_personal()
        };
        let limited = !actor.is_platform_admin();
        if limited
            && self.0.directory.workspaces().iter().filter(|other| made_by(other)).count()
                >= MAX_WORKSPACES_PER_ACCOUNT
        {
            return Err(full());
        }
        let claimant = NameClaimant { account: Some(maker), workspace_uid: None };
        self.check_name_is_available(actor, name.as_str(), claimant, reissue).await?;
        let settings = &self.0.settings;
        let is_own = |workspace: &WorkspaceRecord| {
            workspace.creator.as_ref() == Some(maker) || *workspace.owner == *maker.as_str()
        };
        let known = self.0.directory.workspaces();
        let quota = if limited {
            let existing = known.iter().filter(|other| is_own(other)).map(|other| &*other.quota);
            account_quota::remaining(&settings.account_quota, existing, &settings.quota)
        } else {
            settings.quota.clone()
        };
        let personal = known.iter().find(|other| *other.owner == *maker.as_str());
        let personal = personal.map(|personal| ResourceQuantities::clone(&personal.quota));
        let workspace = Workspace {
            metadata: ObjectMeta {
                name: Some(name.to_string()),
                labels: Some(BTreeMap::from([(well_known::USER.to_owned(), maker.to_string())])),
                ..ObjectMeta::default()
            },
            spec: WorkspaceSpec {
                display_name,
                owner: String::new(),
                members: vec![Member { user: maker.to_string(), role: WorkspaceRole::Admin.to_string() }],
                invitations: Vec::new(),
                namespaces: vec![WorkspaceNamespace {
                    name: name.to_string(),
                    share: ResourceQuantities::new(),
                }],
                quota,
                allow: Vec::new(),
                clusters: vec![HOST_CLUSTER.to_owned()],
            },
            status: None,
        };
        let api = self.workspace_api();
        let made = match api.create(&post_params(), &workspace).await {
            Err(error) if is_code(&error, 409) => return Err(name_in_use(name.as_str())),
            made => made?,
        };
        // The name may have been taken, used and retired since it was checked.
        let retired = retired_names::find_retired(self.0.clients.platform(), name.as_str()).await?;
        if retired.is_some_and(|retired| !retired.is_reusable_by(Some(maker), None)) {
            let unused = ObjectMeta { resource_version: None, ..made.metadata };
            api.delete(name.as_str(), &delete_if_unchanged(&unused)).await?;
            return Err(name_in_use(name.as_str()));
        }
        if limited {
            // Concurrent requests see each other here. Every one that exceeds the limit deletes its own workspace.
            let own =
                api.list(&ListParams::default().labels(&format!("{}={maker}", well_known::USER))).await?;
            if own.iter().filter(|other| made_by(&WorkspaceRecord::from_workspace(other))).count()
                > MAX_WORKSPACES_PER_ACCOUNT
            {
                api.delete(
                    name.as_str(),
                    &delete_if_unchanged(&ObjectMeta { resource_version: None, ..made.metadata }),
                )
                .await?;
                return Err(full());
            }
            let others: Vec<ResourceQuantities> = own
                .into_iter()
                .filter(|other| other.uid() != made.uid() && !is_personal(other))
                .map(|other| other.spec.quota)
                .chain(personal)
                .collect();
            if account_quota::remaining(&settings.account_quota, &others, &made.spec.quota) != made.spec.quota
            {
                api.delete(
                    name.as_str(),
                    &delete_if_unchanged(&ObjectMeta { resource_version: None, ..made.metadata }),
                )
                .await?;
                return Err(Error::Conflict(format!(
                    "account {maker} creates several workspaces at once, which would have more than the quota of the account \
                     together: create one after the other"
                )));
            }
        }
        self.0.directory.wait_for_own_write(|directory| directory.workspace(&name).is_some()).await;
        self.wait_for_workspace(actor, made).await
    }

    /// Changes the display name.
    pub async fn rename_workspace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        display: &str,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::ManageNamespaces, AccessScope::Workspace(name))?;
        let display_name = display_name(display)?;
        self.update_workspace(actor, name, expected, |workspace| {
            workspace.spec.display_name.clone_from(&display_name);
            Ok(())
        })
        .await
    }

    /// Changes a workspace. Callers have authorised the actor from the directory; a write that removed or demoted the actor as a member
    /// since then refuses the change.
    pub(crate) async fn update_workspace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        expected: Option<&str>,
        decide: impl Fn(&mut Workspace) -> Result<(), Error>,
    ) -> Result<WorkspaceInfo, Error> {
        let decide = |workspace: &mut Workspace| {
            check_membership_is_current(actor, name, workspace)?;
            decide(workspace)
        };
        let written = update_with_retry(&self.workspace_api(), name.as_str(), expected, decide).await?;
        self.wait_for_workspace(actor, written).await
    }

    /// Returns the written workspace once the directory has it, so that the caller's next read finds it.
    async fn wait_for_workspace(&self, actor: &Actor, written: Workspace) -> Result<WorkspaceInfo, Error> {
        let name: WorkspaceName = written.name_any().parse()?;
        let version = written.resource_version().unwrap_or_default();
        let heard = |directory: &crate::Directory| {
            // A workspace that is not in the directory is deleted already.
            directory.workspace(&name).is_none_or(|known| is_at_least_version(&known.version, &version))
        };
        self.0.directory.wait_for_own_write(heard).await;
        // The write may have changed the actor's own membership.
        let role = actor.user_id().and_then(|id| self.0.directory.memberships(id).get(&name).copied());
        let info = WorkspaceInfo::from_record(&WorkspaceRecord::from_workspace(&written), actor)
            .ok_or_else(|| workspace_not_found(&name))?;
        Ok(WorkspaceInfo { role, ..info })
    }

    pub(crate) fn workspace_api(&self) -> Api<Workspace> {
        Api::all(self.0.clients.platform())
    }

    /// Checks that a workspace or namespace may take this name: it is not in use, and not retired or reusable. Concurrent requests for
    /// one name are resolved by the cluster: the later namespace gets a condition.
    pub(crate) async fn check_name_is_available(
        &self,
        actor: &Actor,
        name: &str,
        claimant: NameClaimant<'_>,
        reissue: ReissuePolicy,
    ) -> Result<(), Error> {
        if reissue == ReissuePolicy::Confirmed {
            actor.authorize(Capability::Configure, AccessScope::Platform)?;
        }
        let client = self.0.clients.platform();
        let claimed = self.0.directory.workspaces().iter().any(|workspace| {
            *workspace.name == *name || workspace.namespaces.iter().any(|other| other.name == name)
        });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        if claimed || namespaces.get_opt(name).await?.is_some() {
            return Err(name_in_use(name));
        }
        // Checked last: a name is retired before it is freed.
        let Some(retired) = retired_names::find_retired(client.clone(), name).await? else {
            return self.check_retired_name_limit(actor, claimant).await;
        };
        if retired.is_reusable_by(claimant.account, claimant.workspace_uid) {
            return Ok(());
        }
        if actor.authorize(Capability::Configure, AccessScope::Platform).is_err() {
            return Err(name_in_use(name));
        }
        if reissue == ReissuePolicy::Denied {
            let references =
                retired_names::format_references(&retired_names::references(client, name).await?);
            return Err(Error::Conflict(format!(
                "the name `{name}` belonged to another workspace or namespace until {}; its new owner gets all permissions still granted to it: \
                 {references}; remove these, or confirm with `reissue` (command line: --reissue-name)",
                retired.retired
            )));
        }
        let reissued = RetiredName {
            owner: claimant.account.cloned(),
            workspace_uid: claimant.workspace_uid.unwrap_or_default().to_owned(),
            ..retired
        };
        Ok(retired_names::retire(client, &reissued, retired_names::ExistingRecord::Replace).await?)
    }

    /// Checks that the account has not reached the limit of retired names.
    async fn check_retired_name_limit(&self, actor: &Actor, claimant: NameClaimant<'_>) -> Result<(), Error> {
        let Some(account) = claimant.account.filter(|_| !actor.is_platform_admin()) else { return Ok(()) };
        let used = retired_names::count(self.0.clients.platform(), account).await?;
        if used < retired_names::MAX_RETIRED_NAMES {
            return Ok(());
        }
        Err(Error::Conflict(format!(
            "account {account} has used {used} names of workspaces and namespaces that are retired, of {} at most: use one of them \
             again, or ask an administrator of the platform to release some",
            retired_names::MAX_RETIRED_NAMES
        )))
    }
}

/// The claimant of a name: an account, for a new workspace or for one that it created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameClaimant<'a> {
    pub account: Option<&'a UserId>,
    /// The UID of the workspace that a namespace is for.
    pub workspace_uid: Option<&'a str>,
}

/// Whether a retired name of another owner may be reissued. Only an administrator of the platform confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReissuePolicy {
    Denied,
    Confirmed,
}

/// The error for a name in use. Does not name the holder.
fn name_in_use(name: &str) -> Error {
    Error::Conflict(format!("the name `{name}` is already used"))
}

/// Fails if the actor was authorised as a member, and has a lower role or none in the workspace that is being changed.
fn check_membership_is_current(
    actor: &Actor,
    name: &WorkspaceName,
    workspace: &Workspace,
) -> Result<(), Error> {
    let Some((id, authorised)) = actor.user_id().zip(actor.memberships.get(name)) else { return Ok(()) };
    if !actor.platform_roles.is_empty() || is_personal(workspace) {
        return Ok(());
    }
    let member = workspace.spec.members.iter().find(|member| member.user == id.as_str());
    match member.and_then(|member| member.role.parse::<WorkspaceRole>().ok()) {
        Some(role) if role <= *authorised => Ok(()),
        Some(_) => {
            Err(Error::Conflict(format!("the caller's role in workspace `{name}` has changed: retry")))
        }
        None => Err(workspace_not_found(name)),
    }
}

fn workspace_not_found(name: &WorkspaceName) -> Error {
    Error::NotFound { kind: "workspace", name: name.to_string() }
}

#[cfg(test)]
mod tests;
