//! Reads the objects that values refer to, with a given client.

use std::collections::BTreeMap;
use std::future::Future;

use domain::ErrorKind;
use domain::names::check_subdomain;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use kube_apply::error::api_error_kind;
use kube_types::release::ValuesKind;

/// The keys of a `ConfigMap` or Secret and their content.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Why an object cannot be read, in the API server's words, which name only objects and users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    pub kind: ErrorKind,
    pub message: String,
}

impl From<kube::Error> for ReadError {
    fn from(error: kube::Error) -> Self {
        let kind = api_error_kind(&error);
        let why = match error {
            kube::Error::Api(status) => status.message.clone(),
            _ => "the cluster does not answer".to_owned(),
        };
        Self { kind, message: why }
    }
}

pub trait ValuesReader: Sync {
    /// Reads an object in the release's namespace; `None` if it does not exist.
    fn read(
        &self,
        kind: ValuesKind,
        name: &str,
    ) -> impl Future<Output = Result<Option<Contents>, ReadError>> + Send;
}

/// Reads the objects of one namespace with this client's identity.
#[derive(Clone)]
pub struct NamespaceReader {
    pub client: Client,
    pub namespace: String,
}

impl ValuesReader for NamespaceReader {
    async fn read(&self, kind: ValuesKind, name: &str) -> Result<Option<Contents>, ReadError> {
        check_subdomain(name)
            .map_err(|invalid| ReadError { kind: ErrorKind::Invalid, message: invalid.to_string() })?;
        let (client, namespace) = (self.client.clone(), &self.namespace);
        let contents = match kind {
            ValuesKind::ConfigMap => {
                let found = Api::<ConfigMap>::namespaced(client, namespace).get_opt(name).await;
                found.map(|found| {
                    found.map(|map| {
                        let texts = map.data.unwrap_or_default().into_iter();
                        let bytes = map.binary_data.unwrap_or_default().into_iter();
                        let texts = texts.map(|(key, text)| (key, text.into_bytes()));
                        texts.chain(bytes.map(|(key, bytes)| (key, bytes.0))).collect()
                    })
                })
            }
            ValuesKind::Secret => {
                let found = Api::<Secret>::namespaced(client, namespace).get_opt(name).await;
                found.map(|found| {
                    found.map(|secret| {
                        let data = secret.data.unwrap_or_default().into_iter();
                        data.map(|(key, bytes)| (key, bytes.0)).collect()
                    })
                })
            }
        };
        contents.map_err(ReadError::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::TestCluster;

    use super::*;

    #[tokio::test]
    async fn reader_is_limited_by_rbac() {
        let world = TestCluster::new().await;
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        world
            .apply([
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("c"), "data": {"a": "1"}, "binaryData": {"b": "Mg=="}}),
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("s"), "stringData": {"a": "hush"}}),
            ])
            .await;
        let reader = |client| NamespaceReader { client, namespace: "default".to_owned() };
        let admin = reader(world.admin_client());
        let contents = |entries: &[(&str, &str)]| {
            entries
                .iter()
                .map(|(key, text)| ((*key).to_owned(), text.as_bytes().to_vec()))
                .collect::<Contents>()
        };
        assert_eq!(
            admin.read(ValuesKind::ConfigMap, "c").await,
            Ok(Some(contents(&[("a", "1"), ("b", "2")])))
        );
        assert_eq!(admin.read(ValuesKind::Secret, "s").await, Ok(Some(contents(&[("a", "hush")]))));
        assert_eq!(admin.read(ValuesKind::Secret, "c").await, Ok(None));
        let nobody = reader(world.client_for("system:serviceaccount:default:web", &[]));
        let refused = nobody.read(ValuesKind::Secret, "s").await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.message.starts_with("secrets \"s\" is forbidden: User"), "{}", refused.message);
    }
}
