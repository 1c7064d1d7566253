//! Provisioning progress of an account: its conditions.

use domain::Actor;
use domain::ids::UserId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube_types::User;

use crate::{Error, Tenancy};

impl Tenancy {
    /// The conditions of an account: the actor's own, or any with the right to read accounts. Empty before provisioning has begun.
    /// Reads the cluster: the directory does not cache conditions.
    pub async fn user_conditions(&self, actor: &Actor, id: &UserId) -> Result<Vec<Condition>, Error> {
        let account = self.user(actor, id)?;
        let users: Api<User> = Api::all(self.0.clients.platform());
        let user = users.get_opt(&account.name).await?;
        Ok(user.and_then(|user| Some(user.status?.conditions)).unwrap_or_default())
    }
}
