//! Kubeconfigs with which users access Kubernetes as themselves.
//!
//! A kubeconfig carries a token of the user's own ServiceAccount. Kubernetes issues the token, expires it, and revokes it when the
//! ServiceAccount is deleted. Users get only their own kubeconfig, and it is not stored.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Actor;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube_types::SYSTEM_NAMESPACE;
use serde_json::json;

use crate::credential_store::is_code;
use crate::directory::Account;
use crate::{Error, Tenancy};

/// The longest lifetime of a token.
const MAX_TOKEN_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// The shortest lifetime that Kubernetes accepts.
const MIN_TOKEN_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// A kubeconfig. A bearer credential until it expires, so `Debug` omits its text.
pub struct KubeconfigFile {
    pub text: String,
    pub expires: Timestamp,
}

impl fmt::Debug for KubeconfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeconfigFile").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The API server's URL and CA certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiServerEndpoint {
    pub server: String,
    /// The CA certificate in base64. `None`: kubectl uses the trusted roots of its machine.
    pub ca_data: Option<String>,
}

impl Tenancy {
    /// Creates a kubeconfig for the actor's own account.
    pub async fn kubeconfig(&self, actor: &Actor) -> Result<KubeconfigFile, Error> {
        let account = self.unrestricted_account(actor)?;
        let now = self.0.clock.now();
        if !account.is_open(now) {
            return Err(Error::AccountExpired);
        }
        let left = account.expires.map_or(MAX_TOKEN_LIFETIME, |end| end.duration_since(now));
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(left.clamp(MIN_TOKEN_LIFETIME, MAX_TOKEN_LIFETIME).as_secs()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.0.clients.platform(), SYSTEM_NAMESPACE);
        let made = accounts.create_token_request(account.id.as_str(), &PostParams::default(), &request).await;
        let issued = match made {
            Err(error) if is_code(&error, 404) => {
                let message = format!("user `{}` is not ready yet", account.id);
                return Err(Error::Conflict(message));
            }
            made => made?.status.unwrap_or_default(),
        };
        let (Some(token), Some(Time(expires))) = (issued.token, issued.expiration_timestamp) else {
            return Err(Error::Internal("the cluster answered a TokenRequest without a token".into()));
        };
        let address = self.api_server_endpoint().await?;
        let text = render(&account, &address, &token)?;
        Ok(KubeconfigFile { text, expires })
    }

    /// The address of the API server: from the settings, otherwise from `kube-public/cluster-info`.
    pub(crate) async fn api_server_endpoint(&self) -> Result<ApiServerEndpoint, Error> {
        let maps = |namespace: &str| Api::<ConfigMap>::namespaced(self.0.clients.platform(), namespace);
        let field = |map: Option<ConfigMap>, key: &str| map?.data?.remove(key);
        let info = field(maps("kube-public").get_opt("cluster-info").await?, "kubeconfig");
        let cluster_info = info.as_deref().and_then(parse_cluster_info);
        let server = self
            .0
            .settings
            .kube_url
            .clone()
            .or_else(|| cluster_info.as_ref().map(|said| said.server.clone()));
        let server = server.ok_or_else(|| {
            Error::Conflict(
                "the address of the cluster is unknown: an administrator can set [kube] external_url"
                    .to_owned(),
            )
        })?;
        let mut authority = cluster_info.and_then(|said| said.ca_data);
        if authority.is_none() {
            // Kubernetes publishes this ConfigMap in every namespace.
            let root = field(maps(SYSTEM_NAMESPACE).get_opt("kube-root-ca.crt").await?, "ca.crt");
            authority = root.map(|pem| STANDARD.encode(pem));
        }
        Ok(ApiServerEndpoint { server, ca_data: authority })
    }
}

/// Parses the kubeconfig of `kube-public/cluster-info`.
fn parse_cluster_info(kubeconfig: &str) -> Option<ApiServerEndpoint> {
    let cluster = Kubeconfig::from_yaml(kubeconfig).ok()?.clusters.into_iter().next()?.cluster?;
    Some(ApiServerEndpoint { server: cluster.server?, ca_data: cluster.certificate_authority_data })
}

/// Writes the kubeconfig. Its entries have OpenYurt's names.
fn render(account: &Account, address: &ApiServerEndpoint, token: &str) -> Result<String, Error> {
    let user =
        format!("user-{}", if account.phone.is_empty() { account.id.as_str() } else { &account.phone });
    let namespace = if account.namespace.is_empty() { account.id.as_str() } else { &account.namespace };
    let mut cluster = json!({"server": address.server});
    if let Some(authority) = &address.ca_data {
        cluster["certificate-authority-data"] = json!(authority);
    }
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "contexts": [{
            "name": "default-context",
            "context": {"cluster": "default-cluster", "namespace": namespace, "user": user},
        }],
        "current-context": "default-context",
        "users": [{"name": user, "user": {"token": token}}],
    });
    serde_norway::to_string(&file).map_err(|error| Error::Internal(Box::new(error)))
}

#[cfg(test)]
mod tests;
