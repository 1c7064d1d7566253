//! How far an account is prepared.

use domain::Actor;
use domain::ids::UserId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube_types::User;

use crate::{Error, Tenancy};

impl Tenancy {
    /// The conditions of an account: one's own, or any for whoever may read accounts. None before anything was prepared.
    /// Asks the cluster: the directory does not keep them.
    pub async fn progress(&self, actor: &Actor, id: &UserId) -> Result<Vec<Condition>, Error> {
        let account = self.user(actor, id)?;
        let users: Api<User> = Api::all(self.0.clients.own());
        let user = users.get_opt(&account.name).await?;
        Ok(user.and_then(|user| Some(user.status?.conditions)).unwrap_or_default())
    }
}
