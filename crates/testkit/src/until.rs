//! Waiting for a condition, never for a time.

use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Far more than anything here takes, also on a machine that does other things.
pub const LIMIT: Duration = Duration::from_mins(1);

/// Asks again and again until there is an answer.
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
