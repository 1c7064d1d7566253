//! The Secret that OpenYurt's node proxy (yurthub) reads from its account's namespace. It holds the token of the ServiceAccount
//! `default`, with which the proxy replaces the tokens of `kube-system` pods on that node.
//!
//! Kubernetes no longer creates such Secrets automatically. The Secret is created before the proxy gets its certificate, and is deleted
//! with the namespace.
//!
//! Such a token does not expire, and the account's owner can bind roles to `default`. So the ServiceAccount and the Secret are replaced when
//! the account's credentials are revoked, and removed while it is closed ([`super::tenant_access`]).

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta};
use kube::{Api, ResourceExt};
use kube_types::FIELD_MANAGER;
use kube_types::well_known::MANAGED_BY;

use super::deletion::ignore_not_found;
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::credential_store::{is_code, post_params};

pub(super) const YURTHUB_SECRET_NAME: &str = "yurthub-token";
const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const SERVICE_ACCOUNT: &str = "default";
const NAME_ANNOTATION: &str = "kubernetes.io/service-account.name";
const UID_ANNOTATION: &str = "kubernetes.io/service-account.uid";

impl TenancyController {
    /// Creates the Secret unless one of its name exists.
    pub(super) async fn ensure_yurthub_token(&self, namespace: &str) -> Result<(), ReconcileError> {
        let doing = || format!("make the Secret `{YURTHUB_SECRET_NAME}` in `{namespace}`");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = accounts.get_opt(SERVICE_ACCOUNT).await.context(doing)?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match secrets.create(&post_params(), &secret(account.and_then(|account| account.uid()))).await {
            Err(error) if is_code(&error, 409) => Ok(()),
            // The quota of Secrets in the namespace is used up. That must not keep machines from joining.
            Err(error) if is_code(&error, 403) => {
                tracing::warn!(namespace, %error, "cannot make the Secret that yurthub looks for");
                Ok(())
            }
            made => made.map(drop).context(doing),
        }
    }

    pub(super) async fn delete_yurthub_token(&self, namespace: &str) -> Result<(), ReconcileError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let deleted = secrets.delete(YURTHUB_SECRET_NAME, &DeleteParams::default()).await;
        ignore_not_found(deleted.map(drop))
            .context(|| format!("delete the Secret `{YURTHUB_SECRET_NAME}` in `{namespace}`"))
    }
}

/// The Secret for the ServiceAccount with this UID. Without a UID Kubernetes could fill it with a token of a deleted ServiceAccount, which it
/// still has in its cache, and then delete it.
fn secret(uid: Option<String>) -> Secret {
    let name = (NAME_ANNOTATION.to_owned(), SERVICE_ACCOUNT.to_owned());
    let uid = uid.map(|uid| (UID_ANNOTATION.to_owned(), uid));
    Secret {
        metadata: ObjectMeta {
            name: Some(YURTHUB_SECRET_NAME.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
            annotations: Some([name].into_iter().chain(uid).collect()),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        ..Secret::default()
    }
}
