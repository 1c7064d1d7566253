//! The registry of retired names: workspaces and their namespaces share one set of names.
//!
//! Administrators bind rights to names: groups `longshore:ws:<name>:<role>`, ServiceAccounts of a namespace. A new holder of a name
//! would get them. So the name of a former workspace or namespace is reusable only by its owner and by the workspace that the
//! namespace was in. An administrator of the platform can reissue it to others after being shown the objects that still refer to it.
//!
//! Each retired name is one small ConfigMap `retired-<name>` in `longshore-system`, written before the object of that name is deleted.
//! A name that is in use again keeps its ConfigMap; the next removal replaces it. [`MAX_RETIRED_NAMES`] limits how many names one account
//! can retire. Names that begin with the id of an account are not recorded: no other account can choose them.

use std::collections::BTreeMap;

use domain::ids::UserId;
use domain::roles::WorkspaceRole;
use futures::TryStreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, Workspace, well_known};
use serde_json::json;

use crate::credential_store::{is_code, post_params};
use crate::paging;
use crate::workspaces::is_personal;

/// The limit of retired names per account. Above it the account can choose no new names.
pub const MAX_RETIRED_NAMES: usize = 100;
/// The limit of references in a message.
const MAX_LISTED_REFERENCES: usize = 20;
const PREFIX: &str = "retired-";

/// A name that no object has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetiredName {
    pub name: String,
    /// The account that may use it again. `None`: only an administrator can reissue it.
    pub owner: Option<UserId>,
    /// The UID of the workspace that had it.
    pub workspace_uid: String,
    pub retired: Timestamp,
}

impl RetiredName {
    /// The record of a name of this workspace. `None` for names of personal workspaces.
    pub fn new(workspace: &Workspace, name: &str, now: Timestamp) -> Option<Self> {
        (!is_personal(workspace)).then(|| Self {
            name: name.to_owned(),
            owner: owner(workspace),
            workspace_uid: workspace.uid().unwrap_or_default(),
            retired: now,
        })
    }

    /// Fields that cannot be parsed are left empty: then no account may use the name again.
    fn from_config_map(map: &ConfigMap) -> Self {
        let field = |key: &str| map.data.as_ref().and_then(|data| data.get(key));
        Self {
            name: map.name_any().strip_prefix(PREFIX).unwrap_or_default().to_owned(),
            owner: field("owner").and_then(|owner| owner.parse().ok()),
            workspace_uid: field("workspaceUID").cloned().unwrap_or_default(),
            retired: field("retired").and_then(|time| time.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }

    fn to_config_map(&self, version: Option<String>) -> ConfigMap {
        let mut labels = BTreeMap::from([(well_known::MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())]);
        let mut data = BTreeMap::from([
            ("workspaceUID".to_owned(), self.workspace_uid.clone()),
            ("retired".to_owned(), self.retired.to_string()),
        ]);
        if let Some(owner) = &self.owner {
            labels.insert(well_known::NAME_OWNER.to_owned(), owner.to_string());
            data.insert("owner".to_owned(), owner.to_string());
        }
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(object_name(&self.name)),
                namespace: Some(SYSTEM_NAMESPACE.to_owned()),
                labels: Some(labels),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        }
    }

    /// Whether this account, or a workspace with this UID, may use the name again.
    pub fn is_reusable_by(&self, account: Option<&UserId>, workspace_uid: Option<&str>) -> bool {
        let same_owner = self.owner.is_some() && self.owner.as_ref() == account;
        let same_workspace =
            workspace_uid.is_some_and(|uid| !uid.is_empty() && uid == self.workspace_uid.as_str());
        same_owner || same_workspace
    }
}

/// The account that names of a workspace belong to: its creator, while still one of its administrators.
fn owner(workspace: &Workspace) -> Option<UserId> {
    let creator = workspace.labels().get(well_known::USER)?;
    let is_admin = workspace
        .spec
        .members
        .iter()
        .any(|member| member.user == *creator && member.role == WorkspaceRole::Admin.as_str());
    is_admin.then(|| creator.parse().ok())?
}

fn object_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn api(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// Reads the record of a retired name. Call it after checking that the name is not in use: a name is retired before it is freed.
pub(crate) async fn find_retired(
    client: kube::Client,
    name: &str,
) -> Result<Option<RetiredName>, kube::Error> {
    Ok(api(client).get_opt(&object_name(name)).await?.as_ref().map(RetiredName::from_config_map))
}

/// Whether a new record replaces an existing record of another workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingRecord {
    Replace,
    Keep,
}

/// Records that a name is retired. Idempotent: a record of the same workspace stays unchanged.
pub(crate) async fn retire(
    client: kube::Client,
    record: &RetiredName,
    existing: ExistingRecord,
) -> Result<(), kube::Error> {
    let maps = api(client);
    match maps.create(&post_params(), &record.to_config_map(None)).await {
        Err(taken) if is_code(&taken, 409) => {}
        written => return written.map(drop),
    }
    if existing == ExistingRecord::Keep {
        return Ok(());
    }
    let Some(before) = maps.get_opt(&object_name(&record.name)).await? else {
        // Deleted in between by an administrator: the next attempt creates it.
        return maps.create(&post_params(), &record.to_config_map(None)).await.map(drop);
    };
    let found = RetiredName::from_config_map(&before);
    if (&found.workspace_uid, &found.owner) == (&record.workspace_uid, &record.owner) {
        return Ok(());
    }
    let replaced = record.to_config_map(before.resource_version());
    maps.replace(&object_name(&record.name), &post_params(), &replaced).await.map(drop)
}

/// How many names this account has retired.
pub(crate) async fn count(client: kube::Client, owner: &UserId) -> Result<usize, kube::Error> {
    let of_owner = ListParams::default().labels(&format!("{}={owner}", well_known::NAME_OWNER));
    Ok(api(client).list_metadata(&of_owner).await?.items.len())
}

/// Removes a deleted account as the owner of its retired names: from then on only an administrator can reissue them.
pub(crate) async fn clear_owner(client: kube::Client, owner: &UserId) -> Result<(), kube::Error> {
    let maps = api(client);
    let of_owner = ListParams::default().labels(&format!("{}={owner}", well_known::NAME_OWNER));
    let nobody =
        json!({ "metadata": { "labels": { well_known::NAME_OWNER: null } }, "data": { "owner": null } });
    let found = maps.list_metadata(&of_owner).await?;
    let patches: FuturesUnordered<_> = found
        .items
        .iter()
        .map(async |map| {
            match maps.patch_metadata(&map.name_any(), &PatchParams::default(), &Patch::Merge(&nobody)).await
            {
                Err(gone) if is_code(&gone, 404) => Ok(()),
                patched => patched.map(drop),
            }
        })
        .collect();
    patches.try_collect().await
}

/// Lists the bindings that grant rights to the name: bindings of the workspace's groups, or of the namespace's ServiceAccounts.
pub(crate) async fn references(client: kube::Client, name: &str) -> Result<Vec<String>, kube::Error> {
    let everything = ListParams::default();
    let cluster_bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let bindings: Api<RoleBinding> = Api::all(client);
    let cluster_wide = paging::list_all(&cluster_bindings, &everything, |binding| {
        any_refers(binding.subjects.as_ref(), name)
            .then(|| format!("ClusterRoleBinding {}", binding.name_any()))
    });
    let namespaced = paging::list_all(&bindings, &everything, |binding| {
        any_refers(binding.subjects.as_ref(), name).then(|| {
            format!("RoleBinding {}/{}", binding.namespace().unwrap_or_default(), binding.name_any())
        })
    });
    let (mut found, namespaced) = futures::try_join!(cluster_wide, namespaced)?;
    found.extend(namespaced);
    Ok(found)
}

/// Formats references to a name as one line.
pub(crate) fn format_references(references: &[String]) -> String {
    let shown =
        references.iter().take(MAX_LISTED_REFERENCES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match references.len().checked_sub(MAX_LISTED_REFERENCES) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ if references.is_empty() => "no bindings".to_owned(),
        _ => shown,
    }
}

fn any_refers(subjects: Option<&Vec<Subject>>, name: &str) -> bool {
    subjects.into_iter().flatten().any(|subject| refers(subject, name))
}

/// Whether a subject of a binding names a workspace's group or a namespace's ServiceAccount of this name.
fn refers(subject: &Subject, name: &str) -> bool {
    let of_workspace = subject
        .name
        .strip_prefix("longshore:ws:")
        .and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(':'));
    match subject.kind.as_str() {
        "Group" => of_workspace || subject.name.strip_prefix("system:serviceaccounts:") == Some(name),
        "ServiceAccount" => subject.namespace.as_deref() == Some(name),
        "User" => subject
            .name
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with(':')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kube_types::WorkspaceSpec;
    use kube_types::workspace::Member;

    use super::*;

    const ANA: &str = "uaaaaaaaaaa";
    const BEN: &str = "ubbbbbbbbbb";

    fn workspace(name: &str, creator: &str, members: &[(&str, &str)]) -> Workspace {
        let member = |(user, role): &(&str, &str)| Member { user: (*user).into(), role: (*role).into() };
        let spec =
            WorkspaceSpec { members: members.iter().map(member).collect(), ..WorkspaceSpec::default() };
        let mut workspace = Workspace::new(name, spec);
        workspace.labels_mut().insert(well_known::USER.to_owned(), creator.to_owned());
        workspace.metadata.uid = Some("1".to_owned());
        workspace
    }

    #[test]
    fn retired_name_is_reusable_by_its_owner_and_its_workspace_only() {
        let (ana, ben): (UserId, UserId) = (ANA.parse().unwrap(), BEN.parse().unwrap());
        let record = |workspace: &Workspace| RetiredName::new(workspace, "corp-prod", Timestamp::UNIX_EPOCH);
        let own = record(&workspace("corp", ANA, &[(ANA, "admin"), (BEN, "admin")])).unwrap();
        assert_eq!(RetiredName::from_config_map(&own.to_config_map(None)), own);
        assert!(own.is_reusable_by(Some(&ana), None));
        assert!(!own.is_reusable_by(Some(&ben), None) && !own.is_reusable_by(None, None));
        assert!(own.is_reusable_by(Some(&ben), Some("1")));
        assert!(!own.is_reusable_by(Some(&ben), Some("2")) && !own.is_reusable_by(Some(&ben), Some("")));
        for left in [&[(BEN, "admin")][..], &[(ANA, "viewer"), (BEN, "admin")]] {
            let nobody = record(&workspace("corp", ANA, left)).unwrap();
            assert_eq!(nobody.owner, None, "the creator no longer administrates it");
            assert!(!nobody.is_reusable_by(Some(&ana), None));
        }
        assert_eq!(record(&workspace(ANA, ANA, &[(ANA, "admin")])), None);
        let broken = RetiredName::from_config_map(&ConfigMap::default());
        assert!(!broken.is_reusable_by(Some(&ana), Some("")));
    }

    #[test]
    fn bindings_refer_to_a_name_by_group_and_service_account() {
        let subject = |kind: &str, name: &str, namespace: Option<&str>| Subject {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(Into::into),
            api_group: None,
        };
        #[rustfmt::skip]
        let rows = [
            (subject("Group", "longshore:ws:corp:admin", None), true),
            (subject("Group", "longshore:ws:corp-prod:admin", None), false),
            (subject("Group", "longshore:ws:xcorp:admin", None), false),
            (subject("Group", "system:serviceaccounts:corp", None), true),
            (subject("User", "system:serviceaccount:corp:app", None), true),
            (subject("User", "longshore:ws:corp:admin", None), false),
            (subject("ServiceAccount", "app", Some("corp")), true),
            (subject("ServiceAccount", "corp", Some("other")), false),
        ];
        for (subject, expected) in rows {
            assert_eq!(refers(&subject, "corp"), expected, "{subject:?}");
        }
    }

    #[test]
    fn long_lists_of_references_are_shortened() {
        let many: Vec<String> =
            (0..MAX_LISTED_REFERENCES + 2).map(|n| format!("RoleBinding a/{n}")).collect();
        assert!(format_references(&many).ends_with(" and 2 more"));
        assert!(!format_references(&many[..MAX_LISTED_REFERENCES]).contains("more"));
        assert_eq!(format_references(&[]), "no bindings");
    }
}
