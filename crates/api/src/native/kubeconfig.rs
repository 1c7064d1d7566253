//! The caller's kubeconfig, generated for each request.

use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Kubeconfig")]
pub struct KubeconfigView {
    /// The file. It holds a token.
    kubeconfig: String,
    /// When its token ends.
    expires: String,
}

/// `POST kubeconfig`
pub async fn create(call: ApiRequest) -> Result<JsonResponse<KubeconfigView>, Problem> {
    let file = call.api.tenancy.kubeconfig(call.actor()?).await?;
    Ok(JsonResponse::new(KubeconfigView { kubeconfig: file.text, expires: file.expires.to_string() })
        .no_store())
}
