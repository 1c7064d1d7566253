//! Lists records by the labels of their Secrets. Reads metadata only and decodes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ListParams};

use super::{MAX_REVISION, RecordMeta, StorageError, labels, secret_name};

/// Page size of the list.
const PAGE_SIZE: u32 = 500;
/// Whether a Secret that is not a record was logged. Tenants can write such Secrets, so it is logged once.
static INVALID_SECRET_LOGGED: AtomicBool = AtomicBool::new(false);

/// Namespaces to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListScope {
    Namespace(String),
    All,
}

/// Lists every revision of every release in `scope`. `selector` selects by user labels and may be empty.
pub async fn list_metadata(
    client: &Client,
    scope: &ListScope,
    selector: &str,
) -> Result<Vec<RecordMeta>, StorageError> {
    let secrets: Api<Secret> = match scope {
        ListScope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        ListScope::All => Api::all(client.clone()),
    };
    let helm = labels::selector(None);
    let selector = if selector.is_empty() { helm } else { format!("{helm},{selector}") };
    let mut params = ListParams::default().labels(&selector).limit(PAGE_SIZE);
    let mut found = Vec::new();
    loop {
        let page = secrets.list_metadata(&params).await.map_err(StorageError::api_error("list"))?;
        found.extend(page.items.iter().filter_map(|item| parse_metadata(&item.metadata, "")));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
}

/// The newest revision of each release, sorted by namespace and name.
pub fn newest_revisions(heads: Vec<RecordMeta>) -> Vec<RecordMeta> {
    let mut newest: BTreeMap<(String, String), RecordMeta> = BTreeMap::new();
    for head in heads {
        let key = (head.namespace.clone(), head.name.clone());
        let known = newest.get(&key).is_some_and(|known| known.revision > head.revision);
        if !known {
            newest.insert(key, head);
        }
    }
    newest.into_values().collect()
}

/// Parses the metadata of a record's Secret; `None` if it is not a record.
pub(super) fn parse_metadata(metadata: &ObjectMeta, namespace: &str) -> Option<RecordMeta> {
    let labels = metadata.labels.as_ref()?;
    let name = labels.get("name")?.clone();
    Some(RecordMeta {
        revision: parse_revision(metadata)?,
        name,
        namespace: metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
        status: labels::status(labels),
        labels: labels::user_labels(labels),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    })
}

/// Revision of a record, from the name of its Secret as Helm does. `None` if the Secret is not a record: its name
/// differs from Helm's, or the revision is not in 1 to [`MAX_REVISION`].
pub fn parse_revision(metadata: &ObjectMeta) -> Option<i64> {
    let (release, secret) = (metadata.labels.as_ref()?.get("name")?, metadata.name.as_ref()?);
    let digits =
        secret.strip_prefix("sh.helm.release.v1.")?.strip_prefix(release.as_str())?.strip_prefix(".v")?;
    let revision = digits.parse().ok().filter(|revision| (1..=MAX_REVISION).contains(revision));
    // Another spelling of the number is a different Secret from the one that is written and deleted.
    let revision = revision.filter(|&revision| secret_name(release, revision) == *secret);
    if revision.is_none() && !INVALID_SECRET_LOGGED.swap(true, Ordering::Relaxed) {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        tracing::warn!(
            secret = secret.as_str(),
            namespace,
            "ignoring a Secret with the labels of a Helm record: its revision is not a number from 1 to {MAX_REVISION} (logged once)"
        );
    }
    revision
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision_of(secret: &str) -> Option<i64> {
        let labels = BTreeMap::from([("name".to_owned(), "web".to_owned())]);
        let name = Some(secret.to_owned());
        parse_revision(&ObjectMeta { name, labels: Some(labels), ..ObjectMeta::default() })
    }

    #[test]
    fn revision_outside_of_its_range_is_no_record() {
        assert_eq!(revision_of("sh.helm.release.v1.web.v1"), Some(1));
        assert_eq!(revision_of("sh.helm.release.v1.web.v2147483647"), Some(MAX_REVISION));
        for digits in
            ["0", "-1", "2147483648", "9223372036854775807", "9223372036854775808", "", "x", "01", "+1"]
        {
            assert_eq!(revision_of(&format!("sh.helm.release.v1.web.v{digits}")), None, "{digits}");
        }
        assert_eq!(revision_of("sh.helm.release.v1.other.v1"), None);
    }
}
