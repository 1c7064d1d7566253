//! Status of an account from the observations of a reconcile. Pure: no I/O, no clock.

use std::time::Duration;

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::conditions::{ConditionUpdate, find_condition, set_conditions};
use kube_types::user::conditions;
use kube_types::{User, UserStatus};

use crate::controller::NOT_YET_REASON;
use crate::controller::nodes::NodeReport;
use crate::directory::WorkspaceRecord;

/// How long before its expiry an account gets the condition `Expiring`.
const EXPIRY_WARNING_PERIOD: SignedDuration = SignedDuration::from_hours(3 * 24);
/// How long a new account may take to become ready before it is deleted.
const READY_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// Whether an account has its ServiceAccount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceAccountAccess {
    Granted,
    /// The account is disabled or expired.
    Withheld,
    /// The id belongs to another account.
    Contested,
}

/// Whether the account can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum AccountState {
    Open,
    Disabled,
    Expired,
}

/// Decides whether the account is open, disabled or expired.
pub(in crate::controller) fn account_state(user: &User, now: Timestamp) -> AccountState {
    match expiry(user) {
        _ if user.spec.disabled => AccountState::Disabled,
        Some(expiry) if expiry <= now => AccountState::Expired,
        _ => AccountState::Open,
    }
}

/// When the account expires, once it has become effective.
fn expiry(user: &User) -> Option<Timestamp> {
    let begun = user.status.as_ref()?.effective_time.as_ref()?.0;
    let days = Some(user.spec.valid_period).filter(|days| *days > 0)?;
    // Not `from_hours`, which panics on overflow.
    begun.checked_add(SignedDuration::from_secs(days.saturating_mul(24 * 60 * 60))).ok()
}

/// The observations of a reconcile.
pub(super) struct UserObservation<'a> {
    pub id: &'a UserId,
    pub account_state: AccountState,
    pub access: ServiceAccountAccess,
    pub workspace: Option<&'a WorkspaceRecord>,
    pub has_credentials: bool,
    pub nodes: NodeReport,
}

/// Computes the status.
pub(super) fn status(user: &User, observation: &UserObservation<'_>, now: Timestamp) -> UserStatus {
    let mut status = user.status.clone().unwrap_or_default();
    observation.id.as_str().clone_into(&mut status.tenant_id);
    status.observed_generation = user.metadata.generation;
    status.nodes = observation.nodes.joined.iter().map(|joined| joined.name.clone()).collect();
    status.joined.clone_from(&observation.nodes.joined);
    status.node_num = i64::try_from(observation.nodes.reporting).unwrap_or(i64::MAX);
    let mut findings = readiness_conditions(observation);
    let complete = findings
        .iter()
        .filter(|finding| finding.condition_type != conditions::CREDENTIALS_ISSUED)
        .all(|finding| finding.is_true);
    if status.effective_time.is_none() && complete {
        status.effective_time = Some(Time(now));
    }
    let end = expiry(&User { status: Some(status.clone()), ..user.clone() });
    status.expire_time = end.map(Time);
    status.expired = end.is_some_and(|end| end <= now);
    findings.extend(expiry_conditions(end, now));
    let UserStatus { conditions, sequence, transitions, .. } = &mut status;
    set_conditions(conditions, sequence, transitions, &findings, user.metadata.generation, now);
    status
}

/// Why an account is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionReason {
    /// It expired, and the grace period has passed.
    Expired,
    NeverReady,
}

/// Whether an account is to be deleted now. `began` is when the controllers started: before that nothing could have made the account
/// ready. A disabled account is never deleted.
pub(super) fn deletion_due(
    user: &User,
    began: Timestamp,
    grace: Duration,
    now: Timestamp,
) -> Option<DeletionReason> {
    let (end, why) = deletion_deadline(user, began, grace)?;
    (end <= now).then_some(why)
}

/// The next time at which the account must be reconciled even without an event.
pub(super) fn next_reconcile_time(
    user: &User,
    began: Timestamp,
    grace: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    let end = expiry(user);
    let warning = end.and_then(|end| end.checked_sub(EXPIRY_WARNING_PERIOD).ok());
    let removal = deletion_deadline(user, began, grace).map(|(end, _)| end);
    [warning, end, removal].into_iter().flatten().filter(|moment| *moment > now).min()
}

/// When an account is to be deleted, as far as that is known. The grace period begins when the condition `Expired` was written, so that
/// a clock that was wrong for a while deletes nothing.
fn deletion_deadline(user: &User, began: Timestamp, grace: Duration) -> Option<(Timestamp, DeletionReason)> {
    let status = user.status.as_ref().filter(|_| !user.spec.disabled)?;
    if status.effective_time.is_none() {
        let ours = !user.spec.platform_roles.is_empty();
        let created = user.metadata.creation_timestamp.as_ref().map_or(began, |time| time.0).max(began);
        return Some((created.checked_add(READY_TIMEOUT).ok()?, DeletionReason::NeverReady))
            .filter(|_| !ours);
    }
    let expired =
        find_condition(&status.conditions, conditions::EXPIRED).filter(|said| said.status == "True")?;
    let over = expired.last_transition_time.0.max(expiry(user)?);
    Some((over.checked_add(grace).ok()?, DeletionReason::Expired))
}

/// The conditions about the expiry of an account.
fn expiry_conditions(end: Option<Timestamp>, now: Timestamp) -> [ConditionUpdate; 2] {
    let finding = |kind, holds, reason, message: String| ConditionUpdate {
        condition_type: kind,
        is_true: holds,
        reason,
        message,
    };
    let valid = || "the account's time is not over".to_owned();
    match end {
        Some(end) if end <= now => [
            finding(conditions::EXPIRING, false, "Over", "the account's time is over".to_owned()),
            finding(conditions::EXPIRED, true, "Over", "the account's time is over".to_owned()),
        ],
        Some(end) if end.duration_since(now) <= EXPIRY_WARNING_PERIOD => [
            finding(conditions::EXPIRING, true, "Soon", format!("the account's time is over at {end}")),
            finding(conditions::EXPIRED, false, "Valid", valid()),
        ],
        _ => [
            finding(conditions::EXPIRING, false, "Valid", valid()),
            finding(conditions::EXPIRED, false, "Valid", valid()),
        ],
    }
}

/// The conditions about namespace, access, credentials and readiness.
fn readiness_conditions(observation: &UserObservation<'_>) -> Vec<ConditionUpdate> {
    let own = observation.workspace.filter(|workspace| *workspace.owner == *observation.id.as_str());
    let workspace = |fact: fn(&WorkspaceRecord) -> bool| own.is_some_and(fact);
    let finding = |kind, holds, reason, message: &str| ConditionUpdate {
        condition_type: kind,
        is_true: holds,
        reason,
        message: message.to_owned(),
    };
    let workspace_message =
        own.filter(|workspace| !workspace.is_ready).and_then(|workspace| workspace.message.as_ref());
    let waiting = match workspace_message {
        Some(told) => format!("the personal workspace is not ready: {told}"),
        None => "the personal workspace is not ready".to_owned(),
    };
    let namespace = match (observation.workspace, own) {
        _ if workspace(|own| own.namespaces_ready) => {
            finding(conditions::NAMESPACE_READY, true, "Provisioned", "the namespace is there")
        }
        (Some(_), None) => finding(
            conditions::NAMESPACE_READY,
            false,
            "WorkspaceTaken",
            "there is a workspace with this id already, which is not this user's; it is left alone",
        ),
        _ => finding(conditions::NAMESPACE_READY, false, NOT_YET_REASON, &waiting),
    };
    let access = match (observation.access, observation.account_state) {
        (ServiceAccountAccess::Granted, _) if workspace(|own| own.access_ready) => {
            finding(conditions::ACCESS_READY, true, "Bound", "roles and ServiceAccount are there")
        }
        (ServiceAccountAccess::Granted, _) => {
            finding(conditions::ACCESS_READY, false, NOT_YET_REASON, &waiting)
        }
        (ServiceAccountAccess::Contested, _) => {
            finding(conditions::ACCESS_READY, false, "IdTaken", "the id is another user's")
        }
        (ServiceAccountAccess::Withheld, AccountState::Expired) => {
            finding(conditions::ACCESS_READY, false, "Expired", "the account has expired")
        }
        (ServiceAccountAccess::Withheld, _) => {
            finding(conditions::ACCESS_READY, false, "Disabled", "the account is disabled")
        }
    };
    let credentials = if observation.has_credentials {
        finding(conditions::CREDENTIALS_ISSUED, true, "Issued", "there are credentials")
    } else {
        let message = "no credentials yet: an administrator must set a password";
        finding(conditions::CREDENTIALS_ISSUED, false, "NoCredentials", message)
    };
    let missing = [&namespace, &access].into_iter().find(|finding| !finding.is_true);
    let ready = match missing {
        None => finding(conditions::READY, true, "Ready", "the account can be used"),
        Some(missing) => finding(conditions::READY, false, missing.reason, &missing.message),
    };
    vec![namespace, access, credentials, ready]
}
