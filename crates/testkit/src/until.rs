//! Waiting for a condition instead of a fixed time.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Timeout, far above what any condition takes, also on a busy machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Polls `ask` until it returns a value. Panics after [`LIMIT`], naming `what`.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answered = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, answered).await.unwrap_or_else(|_| panic!("waited {LIMIT:?} in vain: {what}"))
}
