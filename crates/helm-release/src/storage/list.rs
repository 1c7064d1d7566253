//! Many releases, by what the labels of their Secrets say: nothing is unpacked, and nothing is transferred but metadata.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams};

use super::{Head, StorageError, labels};

/// So many are asked for at a time.
const PAGE: u32 = 500;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespace(String),
    All,
}

/// Every revision of every release there. `selector` is one of the user's labels, and may be empty.
pub async fn heads(client: &Client, scope: &Scope, selector: &str) -> Result<Vec<Head>, StorageError> {
    let secrets: Api<Secret> = match scope {
        Scope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        Scope::All => Api::all(client.clone()),
    };
    let helm = labels::selector(None);
    let selector = if selector.is_empty() { helm } else { format!("{helm},{selector}") };
    let mut params = ListParams::default().labels(&selector).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = secrets.list_metadata(&params).await.map_err(StorageError::call("list"))?;
        found.extend(page.items.iter().filter_map(|item| head(&item.metadata, "")));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
}

/// Of each release the newest revision, by namespace and name.
pub fn newest(heads: Vec<Head>) -> Vec<Head> {
    let mut newest: BTreeMap<(String, String), Head> = BTreeMap::new();
    for head in heads {
        let key = (head.namespace.clone(), head.name.clone());
        let known = newest.get(&key).is_some_and(|known| known.revision > head.revision);
        if !known {
            newest.insert(key, head);
        }
    }
    newest.into_values().collect()
}

/// What a Secret says of its record; nothing if it is none.
pub(super) fn head(metadata: &ObjectMeta, namespace: &str) -> Option<Head> {
    let labels = metadata.labels.as_ref()?;
    let name = labels.get("name")?.clone();
    let rest = metadata.name.as_ref()?.strip_prefix("sh.helm.release.v1.")?.strip_prefix(name.as_str())?;
    // The name tells, as it is what Helm asks by; the label only says it again.
    let revision = rest.strip_prefix(".v")?.parse().ok()?;
    Some(Head {
        name,
        namespace: metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
        revision,
        status: labels::status(labels),
        labels: labels::of_user(labels),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    })
}
