//! Waiting for a condition instead of a fixed time.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Timeout, far above what any condition takes, also on a busy machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Polls `poll` until it returns a value. Panics after [`WAIT_TIMEOUT`], naming `what`.
pub async fn wait_for<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let answered = async {
        loop {
            if let Some(answer) = poll().await {
                return answer;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, answered)
        .await
        .unwrap_or_else(|_| panic!("waited {WAIT_TIMEOUT:?} in vain: {what}"))
}
