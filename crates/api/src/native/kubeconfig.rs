//! The caller's kubeconfig, generated for each request.

use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Kubeconfig")]
pub struct KubeconfigView {
    /// Content of the kubeconfig, including a token.
    kubeconfig: String,
    /// Time at which the token expires.
    expires: String,
}

/// `POST kubeconfig`
pub async fn create(call: ApiRequest) -> Result<JsonResponse<KubeconfigView>, Problem> {
    let file = call.api.tenancy.kubeconfig(call.actor()?).await?;
    Ok(JsonResponse::new(KubeconfigView { kubeconfig: file.text, expires: file.expires.to_string() })
        .no_store())
}
