//! Invitations to a workspace.
//!
//! An invitation names an account id, an e-mail address or a phone number, which is stored as a digest. The inviter gets the same
//! response whether or not such an account exists.
//!
//! Invariant: an unverified address never suffices. An invitation to an id is accepted by that account. An invitation to an
//! address or a number is accepted with its one-time code. The response to its creation contains the code once; the invitation stores its
//! digest, so that using the code and removing the invitation is one write. The inviter must still be allowed to invite: invitations do
//! not outlive the membership of a removed admin. The code has 130 random bits; attempts are rate-limited like
//! sign-ins.

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use domain::fields::{Email, Phone};
use domain::ids::{UserId, WorkspaceName, truncate_for_error};
use domain::roles::{Capability, WorkspaceRole};
use domain::{AccessScope, Actor};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::workspace::Invitation;
use kube_types::{Workspace, WorkspaceSpec};
use sha2::{Digest, Sha256};

use super::{MAX_MEMBERS, add_member, check_is_shared, not_found};
use crate::credential_store::random_bytes;
use crate::directory::Account;
use crate::first_admin::PASSWORD_ALPHABET;
use crate::tokens::hex;
use crate::workspaces::WorkspaceInfo;
use crate::{Error, Tenancy};

/// How long an invitation can be accepted.
const INVITATION_TTL: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The length of a code in letters; each carries five bits.
pub(super) const CODE_LEN: usize = 26;

/// A one-time code. `Debug` omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct InvitationCode(String);

impl InvitationCode {
    fn new() -> Self {
        Self(
            random_bytes::<CODE_LEN>()
                .map(|byte| char::from(PASSWORD_ALPHABET[usize::from(byte & 31)]))
                .iter()
                .collect(),
        )
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for InvitationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationCode(…)")
    }
}

/// A new invitation with its code, which is disclosed only here. An invitation to an id has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    pub info: InvitationInfo,
    pub code: Option<InvitationCode>,
}

/// An invitation in the view of the workspace's admins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationInfo {
    /// The digest of the invitee. Identifies the invitation within the workspace.
    pub invitee_digest: String,
    pub role: WorkspaceRole,
    /// The id of the inviter.
    pub invited_by: String,
    pub expires: Timestamp,
}

/// An invitation in the view of the invitee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedInvitation {
    pub workspace: WorkspaceName,
    pub display_name: String,
    pub role: WorkspaceRole,
    pub expires: Timestamp,
}

impl InvitationInfo {
    fn from_invitation(invitation: &Invitation) -> Option<Self> {
        Some(Self {
            invitee_digest: invitation.to.clone(),
            role: invitation.role.parse().ok()?,
            invited_by: invitation.by.clone(),
            expires: invitation.expires.0,
        })
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The digest of the invitee, and a code for the invitation: none for an id.
fn parse_invitee(whom: &str) -> Result<(String, Option<InvitationCode>), Error> {
    let whom = whom.trim();
    if let Ok(id) = whom.parse::<UserId>() {
        return Ok((digest(id.as_str()), None));
    }
    let normal = Email::parse(whom)
        .map(|email| email.as_str().to_owned())
        .or_else(|_| Phone::parse(whom).map(|phone| phone.as_str().to_owned()))
        .map_err(|_| {
            Error::Invalid(format!(
                "`{}` is no e-mail address, no phone number and no id of a user",
                truncate_for_error(whom)
            ))
        })?;
    Ok((digest(&normal), Some(InvitationCode::new())))
}

/// Removes the invitations by a removed member, and those to it.
pub(super) fn remove_invitations_of(spec: &mut WorkspaceSpec, user: &UserId) {
    let own = digest(user.as_str());
    spec.invitations.retain(|invitation| invitation.by != user.as_str() && invitation.to != own);
}

/// The proof with which an account answers an invitation.
enum InvitationProof {
    /// The digest of its id.
    Account(String),
    /// The digest of a code.
    Code(String),
}

impl InvitationProof {
    fn new(account: &Account, code: Option<&str>) -> Self {
        match code {
            Some(code) => Self::Code(digest(&code.trim().to_lowercase())),
            None => Self::Account(digest(account.id.as_str())),
        }
    }

    /// Whether this claim answers the invitation.
    fn matches(&self, invitation: &Invitation) -> bool {
        match self {
            Self::Account(id) => invitation.code_hash.is_empty() && invitation.to == *id,
            Self::Code(hash) => {
                verify_slices_are_equal(invitation.code_hash.as_bytes(), hash.as_bytes()).is_ok()
            }
        }
    }

    /// Role and expiry of the open invitation that this claim fits.
    fn find_open<'i>(
        &self,
        invitations: impl IntoIterator<Item = &'i Invitation>,
        now: Timestamp,
    ) -> Option<(WorkspaceRole, Timestamp)> {
        let mut open = invitations.into_iter().filter(|one| one.expires.0 > now && self.matches(one));
        open.find_map(|one| Some((one.role.parse::<WorkspaceRole>().ok()?, one.expires.0)))
    }
}

impl Tenancy {
    /// Invites an account or an address. A repeated invitation replaces role and code.
    pub async fn invite(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        whom: &str,
        role: WorkspaceRole,
    ) -> Result<NewInvitation, Error> {
        actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        let ((to, code), now) = (parse_invitee(whom)?, self.0.clock.now());
        let expires = now.checked_add(INVITATION_TTL).unwrap_or(Timestamp::MAX);
        let code_hash = code.as_ref().map(|code| digest(code.expose())).unwrap_or_default();
        let invitation = Invitation {
            to,
            role: role.to_string(),
            by: actor.audit_name(),
            expires: Time(expires),
            code_hash,
        };
        self.update_workspace(actor, name, None, |workspace| {
            check_is_shared(workspace)?;
            let invitations = &mut workspace.spec.invitations;
            invitations.retain(|other| other.expires.0 > now && other.to != invitation.to);
            if invitations.len() >= MAX_MEMBERS {
                return Err(Error::Conflict(format!(
                    "a workspace has at most {MAX_MEMBERS} open invitations"
                )));
            }
            invitations.push(invitation.clone());
            Ok(())
        })
        .await?;
        let info = InvitationInfo { role, expires, invited_by: invitation.by, invitee_digest: invitation.to };
        Ok(NewInvitation { info, code })
    }

    /// The open invitations of a workspace.
    pub fn invitations(&self, actor: &Actor, name: &WorkspaceName) -> Result<Vec<InvitationInfo>, Error> {
        actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        let workspace = self.0.directory.workspace(name).ok_or_else(|| not_found("workspace", name))?;
        let now = self.0.clock.now();
        let open = workspace.invitations.iter().filter(|invitation| invitation.expires.0 > now);
        Ok(open.filter_map(InvitationInfo::from_invitation).collect())
    }

    /// Withdraws the invitation with this digest.
    pub async fn withdraw_invitation(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        to: &str,
    ) -> Result<(), Error> {
        actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        let withdrawn = |workspace: &mut Workspace| {
            let before = workspace.spec.invitations.len();
            workspace.spec.invitations.retain(|invitation| invitation.to != to);
            let found = workspace.spec.invitations.len() < before;
            if found { Ok(()) } else { Err(not_found("invitation", &truncate_for_error(to))) }
        };
        self.update_workspace(actor, name, None, withdrawn).await.map(drop)
    }

    /// The invitations to this account by its id. Those to an address are not listed: anyone can register an unverified address.
    pub fn received_invitations(&self, actor: &Actor) -> Result<Vec<ReceivedInvitation>, Error> {
        let account = self.unrestricted_account(actor)?;
        let (claim, now) = (InvitationProof::new(&account, None), self.0.clock.now());
        let workspaces = self.0.directory.workspaces();
        let invited = workspaces.iter().filter_map(|workspace| {
            let role_of = |user: &str| {
                let member = workspace.members.iter().find(|(member, _)| member.as_str() == user);
                member.and_then(|(_, role)| *role)
            };
            let valid = workspace.invitations.iter();
            let valid =
                valid.filter(|invitation| self.may_invite(&invitation.by, role_of(&invitation.by), now));
            let (role, expires) = claim.find_open(valid, now)?;
            let display_name = workspace.display_name.to_string();
            Some(ReceivedInvitation { workspace: workspace.name.parse().ok()?, display_name, role, expires })
        });
        Ok(invited.collect())
    }

    /// Joins a workspace by an invitation to the account's id, or by a code. Existing members keep their role if it is higher.
    pub async fn accept_invitation(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        code: Option<&str>,
        from: IpAddr,
    ) -> Result<WorkspaceInfo, Error> {
        let account = self.unrestricted_account(actor)?;
        let (claim, now) = (InvitationProof::new(&account, code), self.0.clock.now());
        self.answer_invitation(actor, name, code.map(|_| from), |workspace| {
            let role_of = |user: &str| {
                let member = workspace.spec.members.iter().find(|member| member.user == user);
                member.and_then(|member| member.role.parse().ok())
            };
            let valid = workspace.spec.invitations.iter();
            let valid =
                valid.filter(|invitation| self.may_invite(&invitation.by, role_of(&invitation.by), now));
            let open = claim.find_open(valid, now);
            let (role, _) = open.ok_or_else(|| not_found("invitation", name))?;
            check_is_shared(workspace)?;
            workspace.spec.invitations.retain(|invitation| !claim.matches(invitation));
            let members = &mut workspace.spec.members;
            let Some(member) = members.iter_mut().find(|member| member.user == account.id.as_str()) else {
                return add_member(&mut workspace.spec, &account.id, role);
            };
            let has = member.role.parse::<WorkspaceRole>().unwrap_or(WorkspaceRole::Viewer);
            member.role = has.min(role).to_string();
            Ok(())
        })
        .await
    }

    /// Whether an inviter with this role in the workspace, if any, can manage its members now.
    fn may_invite(&self, inviter: &str, role: Option<WorkspaceRole>, now: Timestamp) -> bool {
        let Some(account) = inviter.parse().ok().and_then(|id: UserId| self.0.directory.account(&id)) else {
            return false;
        };
        let is_active = !account.is_disabled && !account.is_deleting && !account.is_expired(now);
        is_active
            && (role.is_some_and(|role| role.allows(Capability::ManageMembers))
                || account.platform_roles.iter().any(|role| role.allows(Capability::ManageMembers)))
    }

    /// Declines an invitation to the account's id. One with a code is left to expire.
    pub async fn decline_invitation(&self, actor: &Actor, name: &WorkspaceName) -> Result<(), Error> {
        let account = self.unrestricted_account(actor)?;
        let (claim, now) = (InvitationProof::new(&account, None), self.0.clock.now());
        self.answer_invitation(actor, name, None, |workspace| {
            claim.find_open(&workspace.spec.invitations, now).ok_or_else(|| not_found("invitation", name))?;
            workspace.spec.invitations.retain(|invitation| !claim.matches(invitation));
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Answers an invitation. A workspace that does not exist and one without an invitation for the caller give the same error. `throttled`
    /// is the client address of a code: wrong codes are counted per account and network.
    async fn answer_invitation(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        throttled: Option<IpAddr>,
        decide: impl Fn(&mut Workspace) -> Result<(), Error>,
    ) -> Result<WorkspaceInfo, Error> {
        let subject = format!("invitation:{}", actor.audit_name());
        let attempt = throttled.map(|from| self.0.throttle.sign_in(&subject, from)).transpose()?;
        match (self.update_workspace(actor, name, None, decide).await, attempt) {
            // The attempt is dropped and so counts as failed.
            (Err(Error::NotFound { .. }), _) => Err(not_found("invitation", name)),
            (Ok(answered), attempt) => {
                attempt.into_iter().for_each(crate::throttle::SignInAttempt::succeed);
                Ok(answered)
            }
            (Err(error), attempt) => {
                attempt.into_iter().for_each(crate::throttle::SignInAttempt::withdraw);
                Err(error)
            }
        }
    }

    /// The account of an actor with an unrestricted credential.
    pub(crate) fn unrestricted_account(&self, actor: &Actor) -> Result<std::sync::Arc<Account>, Error> {
        let id = actor.require_unrestricted_user()?;
        self.0.directory.account(id).ok_or_else(|| not_found("user", id))
    }
}
