//! Mutations: create, update and delete pools; set the autonomy of nodes.

use fleet::acts::{PoolChange, PoolWish};
use fleet::rows::Pairs;
use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::form::{Form, Overlooked};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::Text;

/// Accepted query parameters of mutations.
pub const QUERY: &[&str] = &["token", "kubeConfig", "kubeconfig"];

/// Adds the fields `token` and `kubeConfig`, which old clients send with every request. A flattened struct would not work: serde does
/// not combine `flatten` with `deny_unknown_fields`.
macro_rules! bodies {
    ($($(#[$about:meta])* pub struct $name:ident { $($fields:tt)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub struct $name {
            $($fields)*
            #[expect(dead_code, reason = "the door has read it")]
            #[serde(default)]
            token: Overlooked,
            #[expect(dead_code, reason = "it is taken so that it can be overlooked")]
            #[serde(alias = "kubeconfig", default)]
            kube_config: Overlooked,
        }
    )*};
}

bodies! {
    pub struct NewPool {
        name: Text<63>,
        /// `Edge` or `Cloud`.
        #[serde(rename = "type")]
        pool_type: Text<16>,
        /// Whose it is to be, for administrators; everybody else's is their own.
        tenant: Option<Text<63>>,
        /// What its nodes get, as the next two.
        #[serde(default)]
        labels: Pairs,
        #[serde(default)]
        annotations: Pairs,
        #[serde(default)]
        taints: Vec<Taint>,
        #[serde(default)]
        host_network: bool,
    }

    /// What is to be different; what is absent stays.
    pub struct ChangedPool {
        labels: Option<Pairs>,
        annotations: Option<Pairs>,
        taints: Option<Vec<Taint>>,
    }

    pub struct Autonomy {
        #[serde(deserialize_with = "truth")]
        enabled: bool,
    }
}

/// It was done, as the OpenYurt console reads it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConsoleDone")]
pub struct ConsoleDone {
    msg: String,
    /// Always true.
    status: bool,
}

fn done(msg: String) -> Answer<ConsoleDone> {
    Answer::new(ConsoleDone { msg, status: true })
}

/// Deserialises a boolean from JSON, or from text as in a form.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Truth(bool),
        Word(String),
    }
    match Said::deserialize(deserializer)? {
        Said::Truth(truth) => Ok(truth),
        Said::Word(word) => word.parse().map_err(D::Error::custom),
    }
}

/// `POST /nodepools`
pub async fn create(call: Call<Form<NewPool>>) -> Result<Answer<ConsoleDone>, Problem> {
    let Form(NewPool { name, pool_type, tenant, labels, annotations, taints, host_network, .. }) = &call.body;
    let wish = PoolWish {
        name: name.to_string(),
        pool_type: pool_type.to_string(),
        tenant: tenant.as_ref().map(|tenant| tenant.to_string()),
        labels: labels.clone(),
        annotations: annotations.clone(),
        taints: taints.clone(),
        host_network: *host_network,
    };
    call.api.fleet.create_pool(call.actor()?, wish).await?;
    Ok(done(format!("the pool `{}` is made", &**name)).about(&&**name))
}

/// `PUT /nodepools/{pool}`
pub async fn change(call: Call<Form<ChangedPool>>) -> Result<Answer<ConsoleDone>, Problem> {
    let Form(ChangedPool { labels, annotations, taints, .. }) = &call.body;
    let change =
        PoolChange { labels: labels.clone(), annotations: annotations.clone(), taints: taints.clone() };
    let name = call.params.get("pool");
    call.api.fleet.change_pool(call.actor()?, name, change).await?;
    Ok(done(format!("the pool `{name}` is changed")))
}

/// `DELETE /nodepools/{pool}`
pub async fn delete(call: Call) -> Result<Answer<ConsoleDone>, Problem> {
    let name = call.params.get("pool");
    call.api.fleet.delete_pool(call.actor()?, name).await?;
    Ok(done(format!("the pool `{name}` is removed")))
}

/// `PUT /nodes/{node}/autonomy`
pub async fn autonomy(call: Call<Form<Autonomy>>) -> Result<Answer<ConsoleDone>, Problem> {
    let (name, enabled) = (call.params.get("node"), call.body.0.enabled);
    call.api.fleet.set_autonomy(call.actor()?, name, enabled).await?;
    let how = if enabled { "keeps" } else { "does not keep" };
    Ok(done(format!("the node `{name}` {how} its pods while it is cut off")))
}
