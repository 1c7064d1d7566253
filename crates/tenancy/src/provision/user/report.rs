//! What the status of an account says of what a pass saw. Pure.

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::progress::{Finding, enter};
use kube_types::user::conditions;
use kube_types::{User, UserStatus};

use crate::directory::WorkspaceRecord;
use crate::provision::NOT_YET;

/// Whether an account has its ServiceAccount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Given,
    /// The account is closed.
    Withheld,
    /// Its id is another account's.
    Contested,
}

/// Whether somebody may use the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    Disabled,
    Expired,
}

pub(super) fn door(user: &User, now: Timestamp) -> Door {
    match expiry(user) {
        _ if user.spec.disabled => Door::Disabled,
        Some(expiry) if expiry <= now => Door::Expired,
        _ => Door::Open,
    }
}

/// When the account ends, once it has begun.
fn expiry(user: &User) -> Option<Timestamp> {
    let begun = user.status.as_ref()?.effective_time.as_ref()?.0;
    let days = Some(user.spec.valid_period).filter(|days| *days > 0)?;
    begun.checked_add(SignedDuration::from_hours(days.saturating_mul(24))).ok()
}

/// What a pass saw.
pub(super) struct Looked<'a> {
    pub id: &'a UserId,
    pub door: Door,
    pub access: Access,
    pub workspace: Option<&'a WorkspaceRecord>,
    pub credentials: bool,
}

/// The status that follows from what was seen.
pub(super) fn status(user: &User, seen: &Looked<'_>, now: Timestamp) -> UserStatus {
    let mut status = user.status.clone().unwrap_or_default();
    seen.id.as_str().clone_into(&mut status.tenant_id);
    status.observed_generation = user.metadata.generation;
    let findings = findings(seen);
    let complete = findings
        .iter()
        .filter(|finding| finding.kind != conditions::CREDENTIALS_ISSUED)
        .all(|finding| finding.holds != (finding.kind == conditions::EXPIRED));
    if status.effective_time.is_none() && complete {
        status.effective_time = Some(Time(now));
    }
    status.expire_time = expiry(&User { status: Some(status.clone()), ..user.clone() }).map(Time);
    status.expired = seen.door == Door::Expired;
    let UserStatus { conditions, sequence, transitions, .. } = &mut status;
    enter(conditions, sequence, transitions, &findings, user.metadata.generation, now);
    status
}

fn findings(seen: &Looked<'_>) -> [Finding; 5] {
    let own = seen.workspace.filter(|workspace| *workspace.owner == *seen.id.as_str());
    let workspace = |fact: fn(&WorkspaceRecord) -> bool| own.is_some_and(fact);
    let finding =
        |kind, holds, reason, message: &str| Finding { kind, holds, reason, message: message.to_owned() };
    let told = own.filter(|workspace| !workspace.ready).and_then(|workspace| workspace.message.as_ref());
    let waiting = match told {
        Some(told) => format!("the personal workspace is not ready: {told}"),
        None => "the personal workspace is not ready".to_owned(),
    };
    let namespace = match (seen.workspace, own) {
        _ if workspace(|own| own.namespaces_ready) => {
            finding(conditions::NAMESPACE_READY, true, "Provisioned", "the namespace is there")
        }
        (Some(_), None) => finding(
            conditions::NAMESPACE_READY,
            false,
            "WorkspaceTaken",
            "there is a workspace with this id already, which is not this user's; it is left alone",
        ),
        _ => finding(conditions::NAMESPACE_READY, false, NOT_YET, &waiting),
    };
    let access = match (seen.access, seen.door) {
        (Access::Given, _) if workspace(|own| own.access_ready) => {
            finding(conditions::ACCESS_READY, true, "Bound", "roles and ServiceAccount are there")
        }
        (Access::Given, _) => finding(conditions::ACCESS_READY, false, NOT_YET, &waiting),
        (Access::Contested, _) => {
            finding(conditions::ACCESS_READY, false, "IdTaken", "the id is another user's")
        }
        (Access::Withheld, Door::Expired) => {
            finding(conditions::ACCESS_READY, false, "Expired", "the account has expired")
        }
        (Access::Withheld, _) => {
            finding(conditions::ACCESS_READY, false, "Disabled", "the account is disabled")
        }
    };
    let credentials = if seen.credentials {
        finding(conditions::CREDENTIALS_ISSUED, true, "Issued", "there are credentials")
    } else {
        let message = "nobody can sign in yet: an administrator can set a password";
        finding(conditions::CREDENTIALS_ISSUED, false, "NoCredentials", message)
    };
    let expired = match seen.door {
        Door::Expired => finding(conditions::EXPIRED, true, "Over", "the account's time is over"),
        _ => finding(conditions::EXPIRED, false, "Valid", "the account's time is not over"),
    };
    let missing = [&namespace, &access].into_iter().find(|finding| !finding.holds);
    let ready = match missing {
        None => finding(conditions::READY, true, "Ready", "the account can be used"),
        Some(missing) => finding(conditions::READY, false, missing.reason, &missing.message),
    };
    [namespace, access, credentials, expired, ready]
}
