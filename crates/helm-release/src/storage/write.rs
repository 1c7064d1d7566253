//! Writes the Secret of a record on an unreliable connection.
//!
//! An operation is complete only when its last record is written. A short network failure must not turn a finished
//! operation into an interrupted one, so the write is retried. After a call without an answer, the stored object
//! shows whether the write happened: no two operations write the same content.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube_access::timeout::is_unreachable;
use tokio::time::sleep;

use super::{Storage, error};

/// Delays between retries, enough to replace a broken connection. Longer outages are left to recovery.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(80)];

impl Storage {
    /// Creates a Secret, or replaces it if it carries a `resourceVersion`.
    pub(super) async fn write(&self, secret: &Secret) -> kube::Result<Secret> {
        let mut written = self.send(secret).await;
        for pause in RETRY_DELAYS {
            match written {
                Err(error) if is_unreachable(&error) => sleep(pause).await,
                written => return written,
            }
            written = self.send(secret).await;
            let unclear = written.as_ref().err().is_some_and(|error| error::status_code(error) == Some(409));
            // The conflict may come from an earlier attempt of ours.
            if unclear && let Some(found) = self.find_equal(secret).await? {
                return Ok(found);
            }
        }
        written
    }

    async fn send(&self, secret: &Secret) -> kube::Result<Secret> {
        let params = PostParams::default();
        match (&secret.metadata.resource_version, &secret.metadata.name) {
            (Some(_), Some(name)) => self.secrets.replace(name, &params, secret).await,
            _ => self.secrets.create(&params, secret).await,
        }
    }

    /// The stored Secret, if its data equals the data of `wanted`.
    async fn find_equal(&self, wanted: &Secret) -> kube::Result<Option<Secret>> {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let found = self.secrets.get_opt(name).await?;
        Ok(found.filter(|found| found.data == wanted.data))
    }
}
