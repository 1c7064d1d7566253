//! Reads the objects that values refer to, with a given client.

use std::collections::BTreeMap;
use std::future::Future;

use domain::Kind;
use domain::names::check_subdomain;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use kube_apply::error::kind_of;
use kube_types::release::ValuesKind;

/// The keys of a `ConfigMap` or Secret and their content.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Why an object cannot be read, in the API server's words, which name only objects and users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    pub kind: Kind,
    pub why: String,
}

impl From<kube::Error> for Unread {
    fn from(error: kube::Error) -> Self {
        let kind = kind_of(&error);
        let why = match error {
            kube::Error::Api(status) => status.message.clone(),
            _ => "the cluster does not answer".to_owned(),
        };
        Self { kind, why }
    }
}

pub trait Reader: Sync {
    /// Reads an object in the release's namespace; `None` if it does not exist.
    fn read(
        &self,
        kind: ValuesKind,
        name: &str,
    ) -> impl Future<Output = Result<Option<Contents>, Unread>> + Send;
}

/// Reads the objects of one namespace with this client's identity.
#[derive(Clone)]
pub struct InNamespace {
    pub client: Client,
    pub namespace: String,
}

impl Reader for InNamespace {
    async fn read(&self, kind: ValuesKind, name: &str) -> Result<Option<Contents>, Unread> {
        check_subdomain(name).map_err(|invalid| Unread { kind: Kind::Invalid, why: invalid.to_string() })?;
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
        contents.map_err(Unread::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::World;

    use super::*;

    #[tokio::test]
    async fn what_the_identity_may_not_read_is_refused_by_the_cluster() {
        let world = World::new().await;
        let metadata = |name: &str| json!({"name": name, "namespace": "default"});
        world
            .apply([
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("c"), "data": {"a": "1"}, "binaryData": {"b": "Mg=="}}),
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("s"), "stringData": {"a": "hush"}}),
            ])
            .await;
        let reader = |client| InNamespace { client, namespace: "default".to_owned() };
        let admin = reader(world.admin());
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
        let nobody = reader(world.of("system:serviceaccount:default:web", &[]));
        let refused = nobody.read(ValuesKind::Secret, "s").await.unwrap_err();
        assert_eq!(refused.kind, Kind::Forbidden);
        assert!(refused.why.starts_with("secrets \"s\" is forbidden: User"), "{}", refused.why);
    }
}
