//! Changes of an account's e-mail address.

use domain::fields::Email;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_types::User;

use super::patch::Checked;
use crate::directory::Account;
use crate::register::claims::{self, Claim};
use crate::{Error, Tenancy};

impl Tenancy {
    /// Claims the new address, writes it, and releases the old one. After a crash the remaining claim is invalid.
    pub(super) async fn move_address(
        &self,
        account: &Account,
        email: &Email,
        patch: &Checked,
        expected: Option<&str>,
    ) -> Result<User, Error> {
        let client = self.0.clients.own();
        let old = Email::parse(&account.email).ok();
        if old.as_ref() == Some(email) {
            return self.write_user(account, patch, expected).await;
        }
        if self.0.directory.by_login(email.as_str()).is_some_and(|other| other.id != account.id) {
            return Err(Error::AccountExists);
        }
        let claim = Claim { account: account.name.clone(), user: account.id.clone(), at: self.0.clock.now() };
        let claimed = claims::claim(client.clone(), email, &claim).await?;
        let written = match self.write_user(account, patch, expected).await {
            Ok(written) => written,
            Err(error) => {
                // A write with unknown outcome may have succeeded; then the claim must stay.
                if !matches!(error, Error::Unavailable(_)) {
                    self.give_back(&claimed).await;
                }
                return Err(error);
            }
        };
        if let Some(old) = old
            && let Some(map) = claims::maps(client).get_opt(&claims::name(&old)).await?
            && Claim::of(&map).is_some_and(|claim| claim.user == account.id)
        {
            self.give_back(&map).await;
        }
        Ok(written)
    }

    /// Releases a claim. A failure is only logged, as an unused claim expires.
    async fn give_back(&self, claimed: &ConfigMap) {
        if let Err(error) = claims::release(self.0.clients.own(), claimed).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not give an e-mail address back");
        }
    }
}
