//! Records when a token was last used, in the background and at most once an hour per token.

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::TokenId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_access::controller::runtime;
use kube_types::{FIELD_MANAGER, well_known};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};

use super::TokenRecord;
use crate::credential_store::{self, is_code};

/// The minimum interval of writes: enough to find unused tokens, with few writes for thousands of used ones.
const MIN_RECORD_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// The queue length. A use that finds the queue full is recorded at the token's next use.
const QUEUE_CAPACITY: usize = 1024;

/// The queue of uses to record.
pub(crate) struct LastUseRecorder(mpsc::Sender<(TokenId, Timestamp)>);

impl LastUseRecorder {
    /// Starts the writer. It ends when `self` is dropped and the queue is empty.
    pub fn start(client: kube::Client) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let uses = Arc::new(Mutex::new(receiver));
        let closed = uses.clone();
        let start = move || record_uses(credential_store::api(client.clone()), uses.clone());
        // The queue of uses outlives a restart. It is closed when the sender is gone.
        let is_closed = move || closed.try_lock().is_ok_and(|uses| uses.is_closed());
        tokio::spawn(async move { runtime().run_until("token-last-use", "", start, is_closed).await });
        Self(sender)
    }

    /// Queues a use of the token, unless one was recorded within the last hour.
    pub fn record(&self, token: &TokenRecord, now: Timestamp) {
        if is_due(token.last_use, now) {
            // A full queue must not delay the request.
            let _ = self.0.try_send((token.id.clone(), now));
        }
    }
}

/// Whether enough time has passed since the last record. A record in the future comes from a wrong clock.
fn is_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.duration_since(last).abs() >= MIN_RECORD_INTERVAL)
}

/// Records queued uses until the queue is closed.
async fn record_uses(secrets: Api<Secret>, uses: Arc<Mutex<mpsc::Receiver<(TokenId, Timestamp)>>>) {
    let mut uses = uses.lock().await;
    // Until the directory has our writes, further uses of the same token are queued.
    let mut written: HashMap<TokenId, Timestamp> = HashMap::new();
    while let Some((id, time)) = uses.recv().await {
        if !is_due(written.get(&id).copied(), time) {
            continue;
        }
        if written.len() >= QUEUE_CAPACITY {
            written.retain(|_, last| !is_due(Some(*last), time));
        }
        written.insert(id.clone(), time);
        let change =
            Patch::Merge(json!({"metadata": {"annotations": {well_known::LAST_USE: time.to_string()}}}));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match secrets.patch_metadata(&TokenRecord::secret_name(&id), &params, &change).await {
            Err(error) if !is_code(&error, 404) => {
                tracing::warn!(token.id = %id, error = &error as &dyn std::error::Error, "cannot write a token's last use");
            }
            // A token that was revoked in the meantime needs no record.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_use_is_recorded_once_an_hour() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (last, now, expected) in [
            (None, 100, true),
            (Some(100), 100, false),
            (Some(100), 3699, false),
            (Some(100), 3700, true),
            (Some(9000), 100, true),
        ] {
            assert_eq!(is_due(last.map(at), at(now)), expected, "{last:?} {now}");
        }
    }
}
