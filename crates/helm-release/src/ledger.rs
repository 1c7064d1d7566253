//! Records written for sure.
//!
//! A call whose answer is lost may have been heard. Whoever writes a record and is not told that it was written looks again, so
//! that a line that breaks off for a moment does not turn a release that is deployed into one that has failed.

use std::time::Duration;

use domain::Kind;
use jiff::Timestamp;
use tokio::time::sleep;

use crate::record::{Info, Phase, Record, Status};
use crate::storage::{Storage, StorageError, Stored};

/// Between two attempts. Together they are shorter than a Lease.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];

pub(crate) async fn create(storage: &Storage, record: &Record) -> Result<Stored, StorageError> {
    let mut outcome = storage.create(record).await;
    for pause in PAUSES {
        match outcome {
            Err(error) if is_lost(&error) => sleep(pause).await,
            outcome => return outcome,
        }
        outcome = match storage.create(record).await {
            Err(StorageError::Exists { name, revision }) => {
                found(storage, record).await?.ok_or(StorageError::Exists { name, revision })
            }
            outcome => outcome,
        };
    }
    outcome
}

pub(crate) async fn update(storage: &Storage, stored: &Stored) -> Result<Stored, StorageError> {
    let mut outcome = storage.update(stored).await;
    for pause in PAUSES {
        match outcome {
            Err(error) if is_lost(&error) => sleep(pause).await,
            outcome => return outcome,
        }
        outcome = match storage.update(stored).await {
            Err(StorageError::Changed { name, revision }) => {
                found(storage, &stored.record).await?.ok_or(StorageError::Changed { name, revision })
            }
            outcome => outcome,
        };
    }
    outcome
}

/// The record, if it is there as it was to be written.
async fn found(storage: &Storage, record: &Record) -> Result<Option<Stored>, StorageError> {
    let found = storage.get(&record.name, record.version).await?;
    Ok(found.filter(|found| mark(&found.record) == mark(record)))
}

/// By what one knows one's own: nobody else says the same of a revision that was begun at the same nanosecond.
fn mark(record: &Record) -> (Option<Timestamp>, Status, &str, Vec<Phase>) {
    let Info { last_deployed, status, description, .. } = &record.info;
    (last_deployed.at(), *status, description, record.hooks.iter().map(|hook| hook.last_run.phase).collect())
}

/// It is not known whether it was done.
fn is_lost(error: &StorageError) -> bool {
    matches!(error, StorageError::Call { .. }) && matches!(error.kind(), Kind::Unavailable | Kind::Timeout)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use domain::clock::SystemClock;
    use http::Method;
    use kube::Client;
    use kube_embedded::access::User;
    use kube_embedded::cluster::Cluster;
    use tower::service_fn;

    use super::*;

    /// A client that does not hear of a write whenever it is told so.
    fn deaf(client: Client, lost: &Arc<AtomicBool>) -> Client {
        let lost = lost.clone();
        let call = move |request: http::Request<kube::client::Body>| {
            let (client, lost) = (client.clone(), lost.clone());
            async move {
                let write = *request.method() != Method::GET;
                let answer = client.send(request).await?;
                if write && lost.swap(false, Ordering::SeqCst) {
                    return Err(kube::Error::Service(Box::new(std::io::Error::other("broken off"))));
                }
                Ok(answer)
            }
        };
        Client::new(service_fn(call), "default")
    }

    #[tokio::test]
    async fn a_write_whose_answer_is_lost_is_found() {
        let cluster = Cluster::in_memory().await;
        let lost = Arc::new(AtomicBool::new(true));
        let client = deaf(cluster.client(User::admin()), &lost);
        let storage = Storage::new(client, "default", Arc::new(SystemClock));
        let mut record = Record { name: "web".into(), version: 1, ..Record::default() };
        record.set_status(Status::PendingInstall, "underway");
        let mut stored = create(&storage, &record).await.unwrap();
        // Somebody else's is not taken for ours.
        record.set_status(Status::Deployed, "theirs");
        lost.store(true, Ordering::SeqCst);
        assert!(matches!(create(&storage, &record).await, Err(StorageError::Exists { .. })));

        lost.store(true, Ordering::SeqCst);
        stored.record.set_status(Status::Deployed, "done");
        let written = update(&storage, &stored).await.unwrap();
        assert_ne!(written.resource_version, stored.resource_version);
        assert!(!lost.load(Ordering::SeqCst));
        // What is old is not written, whether or not one hears of it.
        stored.record.set_status(Status::Failed, "late");
        assert!(matches!(update(&storage, &stored).await, Err(StorageError::Changed { .. })));
        let now = storage.get("web", 1).await.unwrap().unwrap().record;
        assert_eq!((now.info.status, now.info.description.as_str()), (Status::Deployed, "done"));
    }
}
