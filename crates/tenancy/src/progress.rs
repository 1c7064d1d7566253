//! How far an account is prepared.

use domain::Actor;
use domain::ids::UserId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{Error, Tenancy};

impl Tenancy {
    /// The conditions of an account: one's own, or any for whoever may read accounts. None before anything was prepared.
    pub fn progress(&self, actor: &Actor, id: &UserId) -> Result<Vec<Condition>, Error> {
        let account = self.user(actor, id)?;
        let user = self.0.directory.feeds().users.get(&account.name);
        Ok(user.and_then(|user| Some(user.status.as_ref()?.conditions.clone())).unwrap_or_default())
    }
}
