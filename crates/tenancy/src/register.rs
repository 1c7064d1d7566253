//! Registration of accounts.
//!
//! Order of writes: the claim of the e-mail address, the Secrets, then the User object. The controllers (`crate::controller`)
//! create the rest (namespace, access, workspace) from the User. Objects that a crash leaves without their User are garbage
//! collected after a while ([`gc`]), and so are accounts whose only token cannot have been disclosed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use domain::fields::{Email, FieldError, Organization, Password, Phone};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use futures::future::join;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, User, UserSpec, well_known};
use serde_json::json;

use crate::credential_store::{self, Credentials, is_code, new_user_id, post_params};
use crate::tokens::{self, TokenText};
use crate::{Error, Tenancy};
use email_claims::EmailClaim;

pub(crate) mod email_claims;
pub mod gc;

/// The validated fields of a registration. The caller chooses nothing else: validity and limits of the account come from the
/// settings.
#[derive(Clone, Debug)]
pub struct Registration {
    pub email: Email,
    pub phone: Phone,
    pub organization: Organization,
    pub password: Option<Password>,
}

impl Registration {
    pub fn parse(
        email: &str,
        phone: &str,
        organization: &str,
        password: Option<&str>,
    ) -> Result<Self, FieldError> {
        Ok(Self {
            email: Email::parse(email)?,
            phone: Phone::parse(phone)?,
            organization: Organization::parse(organization)?,
            password: password.map(Password::parse_new).transpose()?,
        })
    }
}

/// A new account.
#[derive(Debug)]
pub struct RegisteredAccount {
    pub id: UserId,
    /// The name of the User object.
    pub name: String,
    /// The first namespace of the personal workspace.
    pub namespace: WorkspaceName,
    /// The login token. It is disclosed only here.
    pub token: TokenText,
    /// Whether provisioning is complete; if not, it continues in the background.
    pub is_ready: bool,
    /// When the account expires. `None` before it is ready, and for accounts without an expiry.
    pub expires: Option<Timestamp>,
}

impl Tenancy {
    /// Registers an account for a visitor while registration is open. Rate-limited by address.
    pub async fn register(
        &self,
        registration: Registration,
        from: IpAddr,
    ) -> Result<RegisteredAccount, Error> {
        if !self.0.settings.is_registration_open {
            return Err(Error::RegistrationClosed);
        }
        self.0.throttle.register(from)?;
        self.create_account(registration).await
    }

    /// Creates an account on behalf of an administrator. Platform roles are granted separately.
    pub async fn create_user(
        &self,
        actor: &Actor,
        registration: Registration,
    ) -> Result<RegisteredAccount, Error> {
        actor.authorize(Capability::ManageUsers, AccessScope::Platform)?;
        self.create_account(registration).await
    }

    /// Creates an account and waits until it is ready, for at most `registration_timeout`.
    async fn create_account(&self, registration: Registration) -> Result<RegisteredAccount, Error> {
        let Registration { email, phone, organization, password } = registration;
        let is_anothers = |login| self.0.directory.find_by_login(login).is_some();
        if is_anothers(email.as_str()) || is_anothers(phone.as_str()) {
            return Err(Error::AccountExists);
        }
        let hash = match &password {
            Some(password) => Some(self.0.hasher.hash(password).await?),
            None => None,
        };
        let (id, now) = (new_user_id(), self.0.clock.now());
        let (token, record) = tokens::mint_login(&id, now);
        let told_later = hash.is_none();
        let user = User {
            metadata: ObjectMeta {
                name: Some(format!("user-{}", phone.as_str())),
                annotations: Some(annotations(&id, told_later)),
                ..ObjectMeta::default()
            },
            spec: UserSpec {
                email: email.as_str().to_owned(),
                mobilephone: phone.as_str().to_owned(),
                organization: organization.as_str().to_owned(),
                valid_period: self.0.settings.validity_days,
                max_node_num: self.0.settings.max_nodes,
                ..UserSpec::default()
            },
            status: None,
        };
        let secrets = [Credentials::new(hash, now).to_secret(&id), record.to_secret()];
        let claim = EmailClaim { account: user.name_any(), user: id.clone(), created: now };
        self.write_account(&email, &claim, &secrets, &user).await?;

        let ready =
            |directory: &crate::Directory| directory.account(&id).is_some_and(|account| account.is_ready);
        let is_ready =
            tokio::time::timeout(self.0.settings.registration_timeout, self.0.directory.wait_until(ready))
                .await
                .is_ok();
        if told_later {
            self.mark_token_disclosed(&user.name_any()).await?;
        }
        Ok(RegisteredAccount {
            name: user.name_any(),
            namespace: WorkspaceName::personal(&id),
            token,
            is_ready,
            expires: self.0.directory.account(&id).and_then(|account| account.expires),
            id,
        })
    }

    /// Writes claim, Secrets and User. On failure deletes them if it is certain that the User was not created.
    async fn write_account(
        &self,
        email: &Email,
        claim: &EmailClaim,
        secrets: &[Secret; 2],
        user: &User,
    ) -> Result<(), Error> {
        let client = self.0.clients.platform();
        let claimed = email_claims::claim_email(client.clone(), email, claim).await?;
        let (kept, writing) = (credential_store::api(client.clone()), post_params());
        let (one, other) = join(kept.create(&writing, &secrets[0]), kept.create(&writing, &secrets[1])).await;
        let (made, failed) = match (one, other) {
            (Ok(one), Ok(other)) => (vec![one, other], None),
            (Ok(made), Err(error)) | (Err(error), Ok(made)) => (vec![made], Some(error)),
            (Err(error), Err(_)) => (Vec::new(), Some(error)),
        };
        if let Some(error) = failed {
            self.roll_back(&claimed, &made).await;
            return Err(error.into());
        }
        let users: Api<User> = Api::all(client);
        match users.create(&writing, user).await {
            Ok(_) => Ok(()),
            Err(taken) if is_code(&taken, 409) => {
                self.roll_back(&claimed, &made).await;
                Err(Error::AccountExists)
            }
            Err(error) => {
                // Without a definite refusal the User may exist: then its Secrets must stay.
                if matches!(&error, kube::Error::Api(status) if status.code < 500) {
                    self.roll_back(&claimed, &made).await;
                }
                Err(error.into())
            }
        }
    }

    /// Deletes the objects of a failed registration. Objects that cannot be deleted now are garbage collected later.
    async fn roll_back(&self, claimed: &ConfigMap, secrets: &[Secret]) {
        let client = self.0.clients.platform();
        let mut failed = email_claims::release_claim(client.clone(), claimed).await.err();
        for secret in secrets {
            let deleted = credential_store::api(client.clone())
                .delete(&secret.name_any(), &DeleteParams::default())
                .await;
            failed = failed.or(deleted.err());
        }
        if let Some(error) = failed {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot undo a failed registration completely"
            );
        }
    }

    /// Records that the login token is about to be sent to its owner: from here on the account is in use.
    async fn mark_token_disclosed(&self, name: &str) -> Result<(), Error> {
        let users: Api<User> = Api::all(self.0.clients.platform());
        let patch = json!({"metadata": {"annotations": {well_known::CREDENTIALS_UNDISCLOSED: null}}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = users.patch(name, &params, &Patch::Merge(patch)).await?;
        self.wait_for_user(&written).await;
        Ok(())
    }
}

fn annotations(id: &UserId, told_later: bool) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([(well_known::TENANT_ID.to_owned(), id.to_string())]);
    if told_later {
        annotations.insert(well_known::CREDENTIALS_UNDISCLOSED.to_owned(), String::new());
    }
    annotations
}

#[cfg(test)]
mod tests;
