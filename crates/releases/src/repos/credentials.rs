//! Credentials of repositories: immutable Secrets in the platform's namespace, a new one for each change.

use std::fmt;

use chart_store::credentials::keys;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_types::repo::CredentialRef;
use kube_types::well_known::REPO_CREDENTIALS_TYPE;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE};

use super::repo_error;
use crate::Releases;
use crate::service::Error;

/// Credentials as the caller provides them. Empty texts are absent.
#[derive(Clone, Default)]
pub struct Credentials {
    pub username: String,
    pub password: String,
    pub token: String,
    /// CA certificates as PEM.
    pub ca: String,
    /// The client certificate and its key as PEM.
    pub certificate: String,
    pub key: String,
    /// Skips TLS verification.
    pub insecure_skip_tls_verify: bool,
}

/// Maximum bytes of the credentials of one repository: names, tokens, certificates and keys.
pub const MAX_CREDENTIALS_BYTES: usize = 64 << 10;

/// Omits the credentials, for logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Releases {
    fn credentials_api(&self) -> Api<Secret> {
        Api::namespaced(self.inner().clients.platform(), SYSTEM_NAMESPACE)
    }

    /// Stores the credentials of a repository that is about to be written, and sets the reference to them. Returns the name of the
    /// Secret.
    pub(super) async fn store_credentials(
        &self,
        repo: &mut HelmRepo,
        given: Option<Credentials>,
    ) -> Result<Option<String>, Error> {
        repo.spec.credential_ref = None;
        let Some(given) = given else { return Ok(None) };
        let Credentials {
            username,
            password,
            token,
            ca,
            certificate,
            key,
            insecure_skip_tls_verify: believe_anything,
        } = given;
        repo.spec.credential.insecure_skip_tls_verify = believe_anything;
        let pairs = [
            (keys::USERNAME, username),
            (keys::PASSWORD, password),
            (keys::TOKEN, token),
            (keys::CA, ca),
            (keys::CERTIFICATE, certificate),
            (keys::KEY, key),
        ];
        let data: std::collections::BTreeMap<String, ByteString> = pairs
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect();
        if data.is_empty() {
            return Ok(None);
        }
        let size = data.values().map(|text| text.0.len()).fold(0, usize::saturating_add);
        if size > MAX_CREDENTIALS_BYTES {
            let what = "the credentials of the repository";
            return Err(Error::TooLarge { what, size, limit: MAX_CREDENTIALS_BYTES });
        }
        let annotations = self.workspace_annotations(&repo.spec.workspace).await?;
        repo.annotations_mut().extend(annotations.clone().unwrap_or_default());
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("repo-{}-{}", repo.name_any(), &unique[..8]);
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(self.workspace_labels(&repo.spec.workspace)),
                annotations,
                ..ObjectMeta::default()
            },
            type_: Some(REPO_CREDENTIALS_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(data),
            ..Secret::default()
        };
        self.credentials_api().create(&PostParams::default(), &secret).await.map_err(repo_error)?;
        repo.spec.credential_ref = Some(CredentialRef { name: name.clone() });
        Ok(Some(name))
    }

    /// Deletes credentials that no repository refers to.
    pub(super) async fn delete_credentials(&self, name: Option<&str>) {
        let Some(name) = name else { return };
        if let Err(error) = self.credentials_api().delete(name, &DeleteParams::default()).await {
            tracing::warn!(%error, "cannot delete unused credentials");
        }
    }
}
