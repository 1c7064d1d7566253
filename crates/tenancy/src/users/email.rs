//! Changes of an account's e-mail address.

use domain::fields::Email;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_types::User;

use super::patch::ValidatedPatch;
use crate::directory::Account;
use crate::register::email_claims::{self, EmailClaim};
use crate::{Error, Tenancy};

impl Tenancy {
    /// Claims the new address, writes it, and releases the old one. After a crash the remaining claim is invalid.
    pub(super) async fn change_email(
        &self,
        account: &Account,
        email: &Email,
        patch: &ValidatedPatch,
        expected: Option<&str>,
    ) -> Result<User, Error> {
        let client = self.0.clients.platform();
        let old = Email::parse(&account.email).ok();
        if old.as_ref() == Some(email) {
            return self.write_user(account, patch, expected).await;
        }
        if self.0.directory.find_by_login(email.as_str()).is_some_and(|other| other.id != account.id) {
            return Err(Error::AccountExists);
        }
        let claim = EmailClaim {
            account: account.name.clone(),
            user: account.id.clone(),
            created: self.0.clock.now(),
        };
        let claimed = email_claims::claim_email(client.clone(), email, &claim).await?;
        let written = match self.write_user(account, patch, expected).await {
            Ok(written) => written,
            Err(error) => {
                // A write with unknown outcome may have succeeded; then the claim must stay.
                if !matches!(error, Error::Unavailable(_)) {
                    self.release_email_claim(&claimed).await;
                }
                return Err(error);
            }
        };
        if let Some(old) = old
            && let Some(map) =
                email_claims::config_maps(client).get_opt(&email_claims::claim_name(&old)).await?
            && EmailClaim::from_config_map(&map).is_some_and(|claim| claim.user == account.id)
        {
            self.release_email_claim(&map).await;
        }
        Ok(written)
    }

    /// Releases a claim. A failure is only logged, as an unused claim expires.
    async fn release_email_claim(&self, claimed: &ConfigMap) {
        if let Err(error) = email_claims::release_claim(self.0.clients.platform(), claimed).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot release an e-mail address");
        }
    }
}
