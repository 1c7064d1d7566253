//! What OpenYurt's proxy on a node (yurthub) looks for in its account's namespace: a Secret with the token of the ServiceAccount
//! `default`, which it puts in the place of those that pods of `kube-system` on that node send.
//!
//! Kubernetes makes no such Secrets by itself any more. It is made before the proxy has its certificate, and goes with the namespace.
//! Always true: that ServiceAccount is given no right here, and whoever may write Secrets in the namespace could make the same one.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ObjectMeta;
use kube_types::FIELD_MANAGER;
use kube_types::marks::MANAGED_BY;

use super::{Doing, ProvisionError, Provisioner};
use crate::secrets::{is_code, writing};

pub(super) const NAME: &str = "yurthub-token";
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";

impl Provisioner {
    /// Makes the Secret, where there is none of its name.
    pub(super) async fn give_hub_token(&self, namespace: &str) -> Result<(), ProvisionError> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match secrets.create(&writing(), &secret()).await {
            Err(error) if is_code(&error, 409) => Ok(()),
            // The namespace has as many Secrets as it may have: that keeps no machine from joining.
            Err(error) if is_code(&error, 403) => {
                tracing::warn!(namespace, %error, "cannot make the Secret that yurthub looks for");
                Ok(())
            }
            made => made.map(drop).doing(|| format!("make the Secret `{NAME}` in `{namespace}`")),
        }
    }
}

fn secret() -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned())].into()),
            annotations: Some([(ACCOUNT.to_owned(), "default".to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some(TYPE.to_owned()),
        ..Secret::default()
    }
}
