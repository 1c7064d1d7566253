//! The caller's kubeconfig, generated for each request.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Kubeconfig")]
pub struct KubeconfigView {
    /// The file. It holds a token.
    kubeconfig: String,
    /// When its token ends.
    expires: String,
}

/// `POST kubeconfig`
pub async fn compose(call: Call) -> Result<Answer<KubeconfigView>, Problem> {
    let file = call.api.tenancy.kubeconfig(call.actor()?).await?;
    Ok(Answer::new(KubeconfigView { kubeconfig: file.text, expires: file.expires.to_string() }).secret())
}
