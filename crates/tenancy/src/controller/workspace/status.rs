//! Status of a workspace from the results of a reconcile. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use domain::roles::WorkspaceRole;
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::conditions::{ConditionUpdate, set_conditions};
use kube_types::well_known::{KEEP_BINDINGS, MEMBER_LEFT, REMOVE_AFTER};
use kube_types::workspace::{OwnedNamespace, conditions};
use kube_types::{Workspace, WorkspaceStatus};

use crate::controller::{HOST_CLUSTER, NOT_YET_REASON, ReconcileError};

/// The phase of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkspacePhase {
    Open,
    /// To be deleted at that time (`None` if the annotation cannot be parsed). Until then it can be restored, and members have no roles.
    Closed(Option<Timestamp>),
    Expired,
}

/// The phase by the annotation with the removal time.
pub(super) fn phase(workspace: &Workspace, now: Timestamp) -> WorkspacePhase {
    match workspace.annotations().get(REMOVE_AFTER).map(|text| text.parse::<Timestamp>()) {
        None => WorkspacePhase::Open,
        Some(Ok(after)) if after <= now => WorkspacePhase::Expired,
        Some(after) => WorkspacePhase::Closed(after.ok()),
    }
}

/// The result for one namespace.
#[derive(Debug)]
pub(super) enum NamespaceOutcome {
    Ready {
        uid: String,
    },
    /// Being deleted; recreated afterwards.
    Terminating {
        uid: String,
    },
    /// The recorded namespace does not exist: the record is dropped first, and the next reconcile recreates the namespace.
    Missing,
    Foreign,
    /// Not a name that a namespace of this workspace may have.
    InvalidName,
    /// Nothing is created without a valid quota.
    InvalidQuota,
    Failed {
        uid: Option<String>,
        error: ReconcileError,
    },
}

/// The results of a reconcile.
pub(super) struct ReconcileOutcome {
    pub outcomes: Vec<(String, NamespaceOutcome)>,
    /// Namespaces that the spec no longer lists and that still exist.
    pub terminating: Vec<OwnedNamespace>,
    /// Why the quota cannot be split into shares.
    pub quota_error: Option<String>,
    pub phase: WorkspacePhase,
    pub deployers: DeployerAction,
}

/// The decision about `longshore-deployer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeployerAction {
    Keep,
    /// Recreate it in every namespace: a former member may know one of its tokens and must not use it any more.
    Recreate,
}

/// The members that can use `longshore-deployer`: all members that can start pods.
fn deployer_users(workspace: &Workspace) -> Vec<String> {
    let can_start_pods =
        |role: &str| role.parse::<WorkspaceRole>().is_ok_and(|role| role != WorkspaceRole::Viewer);
    let mut users: Vec<String> = workspace
        .spec
        .members
        .iter()
        .filter(|member| can_start_pods(&member.role))
        .map(|member| member.user.clone())
        .collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// When a member last lost write access, as the annotation records it.
fn member_left(workspace: &Workspace) -> &str {
    workspace.annotations().get(MEMBER_LEFT).map_or("", String::as_str)
}

/// Decides by the recorded deployers. A status without a record is older than the record: members who left before it may still
/// have tokens.
pub(super) fn deployer_action(workspace: &Workspace) -> DeployerAction {
    let recorded = workspace.status.as_ref().and_then(|status| status.deployers.as_ref());
    let current = deployer_users(workspace);
    let left = workspace.status.as_ref().is_some_and(|status| status.member_left != member_left(workspace));
    match recorded {
        Some(recorded) if !left && recorded.iter().all(|user| current.contains(user)) => DeployerAction::Keep,
        _ => DeployerAction::Recreate,
    }
}

/// Whether the access by ServiceAccounts that a former user may have must be revoked. Not without a record or an annotation: then no
/// removal was observed.
pub(super) fn must_revoke_tenant_access(workspace: &Workspace) -> bool {
    let has_record = workspace.status.as_ref().is_some_and(|status| status.deployers.is_some());
    let is_observed = has_record || !member_left(workspace).is_empty();
    is_observed && deployer_action(workspace) == DeployerAction::Recreate
}

/// Whether RoleBindings that a former user may have created must be deleted.
pub(super) fn must_delete_bindings(workspace: &Workspace) -> bool {
    let kept = workspace.annotations().get(KEEP_BINDINGS).map_or("", String::as_str);
    must_revoke_tenant_access(workspace) && (kept.is_empty() || kept != member_left(workspace))
}

/// The record of a namespace in the workspace's status.
pub(in crate::controller) fn recorded_namespace<'a>(
    workspace: &'a Workspace,
    name: &str,
) -> Option<&'a OwnedNamespace> {
    let mut records = workspace.status.iter().flat_map(|status| &status.namespaces);
    records.find(|record| record.name == name && record.cluster == HOST_CLUSTER)
}

/// The share of a namespace, as the spec gives it.
fn share(workspace: &Workspace, name: &str) -> BTreeMap<String, String> {
    let own = workspace.spec.namespaces.iter().find(|namespace| namespace.name == name);
    own.map(|namespace| namespace.share.clone()).unwrap_or_default()
}

/// Computes the status.
pub(super) fn status(workspace: &Workspace, done: &ReconcileOutcome, now: Timestamp) -> WorkspaceStatus {
    let mut status = workspace.status.clone().unwrap_or_default();
    let record = |(name, outcome): &(String, NamespaceOutcome)| match outcome {
        NamespaceOutcome::Ready { uid }
        | NamespaceOutcome::Terminating { uid }
        | NamespaceOutcome::Failed { uid: Some(uid), .. } => {
            let share = match (outcome, recorded_namespace(workspace, name)) {
                // The share of the former namespace of this name counts until that is deleted.
                (NamespaceOutcome::Terminating { .. }, Some(record)) => record.share.clone(),
                _ => share(workspace, name),
            };
            Some(OwnedNamespace {
                name: name.clone(),
                uid: uid.clone(),
                cluster: HOST_CLUSTER.to_owned(),
                share,
            })
        }
        // The record is kept, so that another namespace of this name is never taken for ours.
        NamespaceOutcome::Foreign => recorded_namespace(workspace, name).cloned(),
        NamespaceOutcome::Missing
        | NamespaceOutcome::InvalidName
        | NamespaceOutcome::InvalidQuota
        | NamespaceOutcome::Failed { uid: None, .. } => None,
    };
    status.namespaces =
        done.outcomes.iter().filter_map(record).chain(done.terminating.iter().cloned()).collect();
    status.members = i64::try_from(workspace.spec.members.len()).unwrap_or(i64::MAX);
    // A failed namespace still has the old deployer: the record stays, and the next reconcile repeats it.
    let reached =
        done.outcomes.iter().all(|(_, outcome)| !matches!(outcome, NamespaceOutcome::Failed { .. }));
    if done.deployers == DeployerAction::Keep || reached {
        status.deployers = Some(deployer_users(workspace));
        member_left(workspace).clone_into(&mut status.member_left);
    }
    status.observed_generation = workspace.metadata.generation;
    let findings = condition_updates(workspace, done);
    let WorkspaceStatus { conditions, sequence, transitions, .. } = &mut status;
    set_conditions(conditions, sequence, transitions, &findings, workspace.metadata.generation, now);
    status
}

/// The conditions of a workspace.
fn condition_updates(
    workspace: &Workspace,
    ReconcileOutcome { outcomes, quota_error: unshared, phase: life, .. }: &ReconcileOutcome,
) -> [ConditionUpdate; 3] {
    let elsewhere = workspace.spec.clusters.iter().find(|cluster| *cluster != HOST_CLUSTER);
    let trouble = outcomes.iter().find_map(|(name, outcome)| match outcome {
        NamespaceOutcome::Ready { .. } => None,
        NamespaceOutcome::Foreign => Some((
            "NamespaceTaken",
            format!("there is a namespace `{name}` already, which is not this workspace's; it is left alone"),
        )),
        NamespaceOutcome::InvalidName => {
            Some(("NotOwnName", format!("`{name}` does not begin with the workspace's name")))
        }
        NamespaceOutcome::Terminating { .. } => {
            Some(("NamespaceLeaving", format!("namespace `{name}` is being deleted; it will be made anew")))
        }
        NamespaceOutcome::Missing => {
            Some(("NamespaceGone", format!("namespace `{name}` was deleted; it is being made anew")))
        }
        NamespaceOutcome::InvalidQuota => {
            Some(("QuotaInvalid", format!("namespace `{name}` is not made without a quota")))
        }
        NamespaceOutcome::Failed { error, .. } => Some(("ProvisioningFailed", error.to_string())),
    });
    let trouble = unshared.clone().map(|error| ("QuotaInvalid", error)).or(trouble);
    let trouble = trouble
        .or_else(|| elsewhere.map(|cluster| ("ClusterUnknown", format!("there is no cluster `{cluster}`"))));
    let (made, reason, message) = match trouble {
        Some((reason, message)) => (false, reason, message),
        None => (true, "Provisioned", "all namespaces are there".to_owned()),
    };
    let (bound, why, text) = match life {
        WorkspacePhase::Open
            if outcomes.iter().all(|(_, outcome)| matches!(outcome, NamespaceOutcome::Ready { .. })) =>
        {
            (true, "Bound", "members have their roles".to_owned())
        }
        WorkspacePhase::Open => (false, NOT_YET_REASON, "not all namespaces are there".to_owned()),
        WorkspacePhase::Closed(Some(after)) => {
            (false, "Removing", format!("will be removed after {after}; until then it can be restored"))
        }
        WorkspacePhase::Closed(None) | WorkspacePhase::Expired => {
            (false, "Removing", "is to be removed, at a time that cannot be read".to_owned())
        }
    };
    let (ready_reason, ready_message) = match (made, bound) {
        (true, true) => ("Ready", "the workspace can be used".to_owned()),
        (true, false) => (why, text.clone()),
        (false, _) => (reason, message.clone()),
    };
    [
        ConditionUpdate { condition_type: conditions::NAMESPACES_READY, is_true: made, reason, message },
        ConditionUpdate {
            condition_type: conditions::ACCESS_READY,
            is_true: bound,
            reason: why,
            message: text,
        },
        ConditionUpdate {
            condition_type: conditions::READY,
            is_true: made && bound,
            reason: ready_reason,
            message: ready_message,
        },
    ]
}

#[cfg(test)]
mod tests {
    use kube_types::WorkspaceSpec;
    use kube_types::workspace::Member;

    use super::*;

    fn workspace(members: &[(&str, &str)], left: &str, recorded: Option<(&[&str], &str)>) -> Workspace {
        let member = |(user, role): &(&str, &str)| Member { user: (*user).into(), role: (*role).into() };
        let members = members.iter().map(member).collect();
        let mut workspace = Workspace::new("acme", WorkspaceSpec { members, ..WorkspaceSpec::default() });
        if !left.is_empty() {
            workspace.annotations_mut().insert(MEMBER_LEFT.to_owned(), left.to_owned());
        }
        workspace.status = recorded.map(|(users, left)| WorkspaceStatus {
            deployers: Some(users.iter().map(|user| (*user).to_owned()).collect()),
            member_left: left.to_owned(),
            ..WorkspaceStatus::default()
        });
        workspace
    }

    #[test]
    fn deployer_is_recreated_when_a_member_may_no_longer_use_it() {
        let (ana, bob) = (("ana", "admin"), ("bob", "developer"));
        #[rustfmt::skip]
        let rows = [
            (workspace(&[ana],                    "",  None),                        DeployerAction::Recreate, "older than the record"),
            (workspace(&[ana],                    "1", None),                        DeployerAction::Recreate, "left before the record"),
            (workspace(&[ana],                    "",  Some((&["ana"], ""))),        DeployerAction::Keep,     "unchanged"),
            (workspace(&[ana, bob],               "",  Some((&["ana"], ""))),        DeployerAction::Keep,     "joined"),
            (workspace(&[ana],                    "",  Some((&["ana", "bob"], ""))), DeployerAction::Recreate, "left"),
            (workspace(&[ana, ("bob", "viewer")], "",  Some((&["ana", "bob"], ""))), DeployerAction::Recreate, "became a viewer"),
            (workspace(&[ana],                    "1", Some((&["ana"], ""))),        DeployerAction::Recreate, "joined and left unseen"),
            (workspace(&[ana],                    "1", Some((&["ana"], "1"))),       DeployerAction::Keep,     "recreated for it"),
        ];
        for (mut workspace, due, why) in rows {
            assert_eq!(deployer_action(&workspace), due, "{why}");
            let left = member_left(&workspace).to_owned();
            let is_observed = workspace.status.is_some() || !left.is_empty();
            let is_revoked = due == DeployerAction::Recreate && is_observed;
            assert_eq!(must_revoke_tenant_access(&workspace), is_revoked, "{why}");
            assert_eq!(must_delete_bindings(&workspace), is_revoked, "{why}");
            workspace.annotations_mut().insert(KEEP_BINDINGS.to_owned(), left.clone());
            assert_eq!(must_delete_bindings(&workspace), is_revoked && left.is_empty(), "{why}, kept");
            assert_eq!(must_revoke_tenant_access(&workspace), is_revoked, "{why}, kept");
        }
    }
}
