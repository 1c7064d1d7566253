//! How somebody is asked to join, and answers.
//!
//! An invitation names an e-mail address, a phone number or an id, and is kept as a digest. Whoever invites gets the same
//! answer whether or not there is such an account, so that nobody learns from it who has one; somebody who
//! registers later finds it.

use domain::fields::{Email, Phone};
use domain::ids::{UserId, WorkspaceName, shortened};
use domain::roles::{Capability, WorkspaceRole};
use domain::{Actor, Place};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_types::Workspace;
use kube_types::workspace::Invitation;
use sha2::{Digest, Sha256};

use super::{MOST, add, is_shared, unknown};
use crate::directory::Account;
use crate::tokens::hex;
use crate::workspaces::WorkspaceInfo;
use crate::{Error, Tenancy};

/// How long one can accept.
const OPEN_FOR: SignedDuration = SignedDuration::from_hours(14 * 24);

/// An invitation, as the workspace's admins see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationInfo {
    /// The digest of whom it is for: its name among the workspace's invitations.
    pub to: String,
    pub role: WorkspaceRole,
    /// The id of whoever invited.
    pub by: String,
    pub expires: Timestamp,
}

/// An invitation, as the one sees it who was invited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invited {
    pub workspace: WorkspaceName,
    pub display_name: String,
    pub role: WorkspaceRole,
    pub expires: Timestamp,
}

impl InvitationInfo {
    fn of(invitation: &Invitation) -> Option<Self> {
        Some(Self {
            to: invitation.to.clone(),
            role: invitation.role.parse().ok()?,
            by: invitation.by.clone(),
            expires: invitation.expires.0,
        })
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The digest of whom somebody means.
fn meant(whom: &str) -> Result<String, Error> {
    let whom = whom.trim();
    let normal = Email::parse(whom)
        .map(|email| email.as_str().to_owned())
        .or_else(|_| Phone::parse(whom).map(|phone| phone.as_str().to_owned()))
        .or_else(|_| whom.parse::<UserId>().map(String::from))
        .map_err(|_| {
            Error::Invalid(format!(
                "`{}` is no e-mail address, no phone number and no id of a user",
                shortened(whom)
            ))
        })?;
    Ok(digest(&normal))
}

/// The digests by which somebody may have been meant.
fn own(account: &Account) -> Vec<String> {
    let email = Email::parse(&account.email).ok().map(|email| digest(email.as_str()));
    let phone = Phone::parse(&account.phone).ok().map(|phone| digest(phone.as_str()));
    [email, phone, Some(digest(account.id.as_str()))].into_iter().flatten().collect()
}

/// The most that somebody is invited as, and until when.
fn offer(invitations: &[Invitation], own: &[String], now: Timestamp) -> Option<(WorkspaceRole, Timestamp)> {
    let open = invitations.iter().filter(|one| one.expires.0 > now && own.contains(&one.to));
    // Roles are listed from the one who decides to the one who looks.
    open.filter_map(|one| Some((one.role.parse::<WorkspaceRole>().ok()?, one.expires.0))).min()
}

impl Tenancy {
    /// Asks somebody to join. Asked again, the latest role counts.
    pub async fn invite(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        whom: &str,
        role: WorkspaceRole,
    ) -> Result<InvitationInfo, Error> {
        actor.may(Capability::ManageMembers, Place::Workspace(name))?;
        let (to, now) = (meant(whom)?, self.0.clock.now());
        let expires = now.checked_add(OPEN_FOR).unwrap_or(Timestamp::MAX);
        let invitation = Invitation { to, role: role.to_string(), by: actor.label(), expires: Time(expires) };
        self.change_workspace(actor, name, None, |workspace| {
            is_shared(workspace)?;
            let invitations = &mut workspace.spec.invitations;
            invitations.retain(|other| other.expires.0 > now && other.to != invitation.to);
            if invitations.len() >= MOST {
                return Err(Error::Conflict(format!("a workspace has at most {MOST} open invitations")));
            }
            invitations.push(invitation.clone());
            Ok(())
        })
        .await?;
        Ok(InvitationInfo { role, expires, by: invitation.by, to: invitation.to })
    }

    /// The open invitations of a workspace.
    pub fn invitations(&self, actor: &Actor, name: &WorkspaceName) -> Result<Vec<InvitationInfo>, Error> {
        actor.may(Capability::ManageMembers, Place::Workspace(name))?;
        let workspace = self.0.directory.workspace(name).ok_or_else(|| unknown("workspace", name))?;
        let now = self.0.clock.now();
        let open = workspace.invitations.iter().filter(|invitation| invitation.expires.0 > now);
        Ok(open.filter_map(InvitationInfo::of).collect())
    }

    /// Takes an invitation back, by the digest that names it.
    pub async fn withdraw(&self, actor: &Actor, name: &WorkspaceName, to: &str) -> Result<(), Error> {
        actor.may(Capability::ManageMembers, Place::Workspace(name))?;
        let withdrawn = |workspace: &mut Workspace| {
            let before = workspace.spec.invitations.len();
            workspace.spec.invitations.retain(|invitation| invitation.to != to);
            let found = workspace.spec.invitations.len() < before;
            if found { Ok(()) } else { Err(unknown("invitation", &shortened(to))) }
        };
        self.change_workspace(actor, name, None, withdrawn).await.map(drop)
    }

    /// What somebody was invited to.
    pub fn invited(&self, actor: &Actor) -> Result<Vec<Invited>, Error> {
        let account = self.account_of(actor)?;
        let (own, now) = (own(&account), self.0.clock.now());
        let workspaces = self.0.directory.workspaces();
        let invited = workspaces.iter().filter_map(|workspace| {
            let (role, expires) = offer(&workspace.invitations, &own, now)?;
            let display_name = workspace.display_name.to_string();
            Some(Invited { workspace: workspace.name.parse().ok()?, display_name, role, expires })
        });
        Ok(invited.collect())
    }

    /// Joins a workspace that one was invited to. Whoever is a member already keeps what they have if it is more.
    pub async fn accept(&self, actor: &Actor, name: &WorkspaceName) -> Result<WorkspaceInfo, Error> {
        let account = self.account_of(actor)?;
        let (own, now) = (own(&account), self.0.clock.now());
        self.answer_invitation(actor, name, |workspace| {
            let open = offer(&workspace.spec.invitations, &own, now);
            let (role, _) = open.ok_or_else(|| unknown("invitation", name))?;
            is_shared(workspace)?;
            workspace.spec.invitations.retain(|invitation| !own.contains(&invitation.to));
            let members = &mut workspace.spec.members;
            let Some(member) = members.iter_mut().find(|member| member.user == account.id.as_str()) else {
                return add(&mut workspace.spec, &account.id, role);
            };
            let has = member.role.parse::<WorkspaceRole>().unwrap_or(WorkspaceRole::Viewer);
            member.role = has.min(role).to_string();
            Ok(())
        })
        .await
    }

    /// Says no.
    pub async fn decline(&self, actor: &Actor, name: &WorkspaceName) -> Result<(), Error> {
        let account = self.account_of(actor)?;
        let (own, now) = (own(&account), self.0.clock.now());
        self.answer_invitation(actor, name, |workspace| {
            offer(&workspace.spec.invitations, &own, now).ok_or_else(|| unknown("invitation", name))?;
            workspace.spec.invitations.retain(|invitation| !own.contains(&invitation.to));
            Ok(())
        })
        .await
        .map(drop)
    }

    /// A workspace that is not there and one that somebody was not invited to are the same to them.
    async fn answer_invitation(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        decide: impl Fn(&mut Workspace) -> Result<(), Error>,
    ) -> Result<WorkspaceInfo, Error> {
        match self.change_workspace(actor, name, None, decide).await {
            Err(Error::NotFound { .. }) => Err(unknown("invitation", name)),
            answered => answered,
        }
    }

    /// The account of whoever acts for themselves.
    pub(crate) fn account_of(&self, actor: &Actor) -> Result<std::sync::Arc<Account>, Error> {
        let id = actor.themselves()?;
        self.0.directory.account(id).ok_or_else(|| unknown("user", id))
    }
}
