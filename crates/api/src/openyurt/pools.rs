//! Mutations: create, update and delete pools; set the autonomy of nodes.

use fleet::rows::Pairs;
use fleet::service::{CreatePool, UpdatePool};
use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::form_body::{Form, IgnoredField};
use crate::body::BoundedString;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

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
            #[expect(dead_code, reason = "read during authentication")]
            #[serde(default)]
            token: IgnoredField,
            #[expect(dead_code, reason = "accepted and ignored")]
            #[serde(alias = "kubeconfig", default)]
            kube_config: IgnoredField,
        }
    )*};
}

bodies! {
    pub struct NewPool {
        name: BoundedString<63>,
        /// Type: `Edge` or `Cloud`.
        #[serde(rename = "type")]
        pool_type: BoundedString<16>,
        /// Tenant that owns the pool; administrators only. Other callers own the pools they create.
        tenant: Option<BoundedString<63>>,
        /// Labels of the pool's nodes.
        #[serde(default)]
        labels: Pairs,
        #[serde(default)]
        annotations: Pairs,
        #[serde(default)]
        taints: Vec<Taint>,
        #[serde(default)]
        host_network: bool,
    }

    /// Absent fields are unchanged.
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

/// Success response in the format of the OpenYurt console.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ConsoleDone")]
pub struct ConsoleResult {
    msg: String,
    /// Always true.
    status: bool,
}

fn console_result(msg: String) -> JsonResponse<ConsoleResult> {
    JsonResponse::new(ConsoleResult { msg, status: true })
}

/// Deserialises a boolean from JSON, or from text as in a form.
fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum BoolOrText {
        Truth(bool),
        Word(String),
    }
    match BoolOrText::deserialize(deserializer)? {
        BoolOrText::Truth(truth) => Ok(truth),
        BoolOrText::Word(word) => word.parse().map_err(D::Error::custom),
    }
}

/// `POST /nodepools`
pub async fn create(call: ApiRequest<Form<NewPool>>) -> Result<JsonResponse<ConsoleResult>, Problem> {
    let Form(NewPool { name, pool_type, tenant, labels, annotations, taints, host_network, .. }) = &call.body;
    let wish = CreatePool {
        name: name.to_string(),
        pool_type: pool_type.to_string(),
        tenant: tenant.as_ref().map(|tenant| tenant.to_string()),
        labels: labels.clone(),
        annotations: annotations.clone(),
        taints: taints.clone(),
        host_network: *host_network,
    };
    call.api.fleet.create_pool(call.actor()?, wish).await?;
    Ok(console_result(format!("pool `{}` created", &**name)).audit_object(&&**name))
}

/// `PUT /nodepools/{pool}`
pub async fn update(call: ApiRequest<Form<ChangedPool>>) -> Result<JsonResponse<ConsoleResult>, Problem> {
    let Form(ChangedPool { labels, annotations, taints, .. }) = &call.body;
    let change =
        UpdatePool { labels: labels.clone(), annotations: annotations.clone(), taints: taints.clone() };
    let name = call.params.get("pool");
    call.api.fleet.update_pool(call.actor()?, name, change).await?;
    Ok(console_result(format!("pool `{name}` updated")))
}

/// `DELETE /nodepools/{pool}`
pub async fn delete(call: ApiRequest) -> Result<JsonResponse<ConsoleResult>, Problem> {
    let name = call.params.get("pool");
    call.api.fleet.delete_pool(call.actor()?, name).await?;
    Ok(console_result(format!("pool `{name}` deleted")))
}

/// `PUT /nodes/{node}/autonomy`
pub async fn set_autonomy(call: ApiRequest<Form<Autonomy>>) -> Result<JsonResponse<ConsoleResult>, Problem> {
    let (name, enabled) = (call.params.get("node"), call.body.0.enabled);
    call.api.fleet.set_autonomy(call.actor()?, name, enabled).await?;
    let how = if enabled { "keeps" } else { "does not keep" };
    Ok(console_result(format!("node `{name}` {how} its pods while it is disconnected")))
}
