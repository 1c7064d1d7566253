//! Writing the Secret of a record, on a cluster that does not always answer.
//!
//! When an act is done, all of it hangs on one more write. A cluster that is out of reach for a moment must not turn it
//! into one that was interrupted, so it is tried again. Whether a call without an answer was done is not known: what is there
//! tells, because no two acts write the same.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube_access::patience::is_out_of_reach;
use tokio::time::sleep;

use super::{Storage, error};

/// How long to wait before each further try: a connection that broke is soon another. Who is away for longer is for recovery.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(80)];

impl Storage {
    /// Creates a Secret, or replaces the version of it that it names.
    pub(super) async fn write(&self, secret: &Secret) -> kube::Result<Secret> {
        let mut written = self.send(secret).await;
        for pause in PAUSES {
            match written {
                Err(error) if is_out_of_reach(&error) => sleep(pause).await,
                written => return written,
            }
            written = self.send(secret).await;
            let unclear = written.as_ref().err().is_some_and(|error| error::code(error) == Some(409));
            // Somebody was faster: an earlier try of ours, perhaps.
            if unclear && let Some(found) = self.same(secret).await? {
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

    /// The Secret as it is there, if it holds what `wanted` does.
    async fn same(&self, wanted: &Secret) -> kube::Result<Option<Secret>> {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let found = self.secrets.get_opt(name).await?;
        Ok(found.filter(|found| found.data == wanted.data))
    }
}
