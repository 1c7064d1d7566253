//! Closed-loop load: each client sends its next request when the last one is answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use http::Method;
use serde_json::Value;

use super::client::KubeClient;
use super::objects::{CREATE_NAMESPACE, NAMESPACE, config_map, config_maps_path, deployment};
use super::server::KubeServer;
use crate::report::Sample;

/// Number of concurrent clients for small requests.
const CLIENT_COUNT: usize = 16;
/// Number of objects in long lists.
pub const LIST_OBJECTS: usize = 10_000;
const PAGE_SIZE: usize = 500;

/// Length of a turn.
#[derive(Clone, Copy)]
enum RoundLength {
    Elapsed(Duration),
    Requests(u64),
}

/// Long enough for CPU time with a resolution of 10 ms.
const ROUND: RoundLength = RoundLength::Elapsed(Duration::from_secs(2));
const WARM_UP: RoundLength = RoundLength::Elapsed(Duration::from_millis(300));
/// A fixed number, so that both servers end with the same objects.
const CREATE_ROUND: RoundLength = RoundLength::Requests(4_000);
const CREATE_WARM_UP: RoundLength = RoundLength::Requests(200);

const SETTLE_PAUSE: Duration = Duration::from_secs(1);
const SETTLE_TRIES: usize = 30;

/// `GET` of one ConfigMap created by [`fill`].
pub async fn get(server: &KubeServer) -> Result<Sample> {
    let path = format!("{}/{}", config_maps_path(NAMESPACE), filled_name(0));
    let work = async |client: &mut KubeClient, _| {
        let body = client.get(&path).await?;
        ensure!(
            body.len() > config_map(&filled_name(0)).len(),
            "a GET was answered with {} bytes",
            body.len()
        );
        Ok(())
    };
    measure(server, CLIENT_COUNT, WARM_UP, ROUND, work).await
}

/// Durable creates: both servers respond when the object is on disk. `prefix` makes the names unique.
pub async fn create(server: &KubeServer, prefix: &str) -> Result<Sample> {
    let path = config_maps_path(CREATE_NAMESPACE);
    let create = async |client: &mut KubeClient, n| {
        client.create(&path, config_map(&format!("{prefix}-{n:05}"))).await.map(drop)
    };
    measure(server, CLIENT_COUNT, CREATE_WARM_UP, CREATE_ROUND, create).await
}

/// Mean duration during [`create`], by a histogram of Longshore's metrics.
pub async fn mean_duration(server: &KubeServer, histogram: &str, prefix: &str) -> Result<Sample> {
    let (sum_before, count_before) = server.histogram(histogram).await?;
    create(server, prefix).await?;
    let (sum, count) = server.histogram(histogram).await?;
    ensure!(count > count_before, "{histogram} has not counted any commit");
    Ok(Sample { value: (sum - sum_before) * 1e6 / (count - count_before), wall: None })
}

/// The complete list in one response.
pub async fn list_full(server: &KubeServer) -> Result<Sample> {
    let path = config_maps_path(NAMESPACE);
    let length = list_length(&server.connect().await?.get(&path).await?, LIST_OBJECTS)?;
    let work = async |client: &mut KubeClient, _| {
        let found = client.get(&path).await?.len();
        ensure!(found == length, "a list has {found} bytes, another had {length}");
        Ok(())
    };
    measure(server, 1, WARM_UP, ROUND, work).await
}

/// The complete list in pages; one pass over all pages counts as one request.
pub async fn list_pages(server: &KubeServer) -> Result<Sample> {
    let work = async |client: &mut KubeClient, _| {
        let mut next = String::new();
        for page in 1..=LIST_OBJECTS / PAGE_SIZE {
            let path = format!("{}?limit={PAGE_SIZE}&continue={next}", config_maps_path(NAMESPACE));
            let body = client.get(&path).await?;
            continue_token(&body)?.clone_into(&mut next);
            ensure!(next.is_empty() == (page == LIST_OBJECTS / PAGE_SIZE), "page {page} ends with `{next}`");
        }
        Ok(())
    };
    measure(server, 1, WARM_UP, ROUND, work).await
}

/// Applies of a Deployment without changes.
pub async fn apply(server: &KubeServer) -> Result<Sample> {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/applied");
    let body = deployment("applied");
    let mut client = server.connect().await?;
    let before = wait_until_stable(&mut client, &path).await?;
    let work = async |client: &mut KubeClient, _| client.apply(&path, body.clone()).await.map(drop);
    let sample = measure(server, CLIENT_COUNT, WARM_UP, ROUND, work).await?;
    let after = resource_version(&mut client, &path).await?;
    ensure!(before == after, "an apply that changes nothing has written: version {before}, then {after}");
    Ok(sample)
}

/// Resource version of an object once it is stable: controllers write its status first.
async fn wait_until_stable(client: &mut KubeClient, path: &str) -> Result<String> {
    let mut before = resource_version(client, path).await?;
    for _ in 0..SETTLE_TRIES {
        tokio::time::sleep(SETTLE_PAUSE).await;
        let now = resource_version(client, path).await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    bail!("{path} does not come to rest");
}

async fn resource_version(client: &mut KubeClient, path: &str) -> Result<String> {
    let object: Value = serde_json::from_slice(&client.get(path).await?)?;
    let version = object["metadata"]["resourceVersion"].as_str().context("an object without a version")?;
    Ok(version.to_owned())
}

/// Creates the objects that the rows read: ConfigMaps and a Deployment.
///
/// One of the ConfigMaps is `kube-root-ca.crt`, which a control plane with controllers creates in every namespace. The
/// peer runs without controllers here, so it is created on both servers if missing.
pub async fn fill(server: &KubeServer) -> Result<()> {
    let path = config_maps_path(NAMESPACE);
    let mut clients = connect(server, CLIENT_COUNT).await?;
    let usual = config_map("kube-root-ca.crt");
    let status = clients[0].send(Method::POST, &path, "application/json", usual).await?.status();
    ensure!(status == 201 || status == 409, "kube-root-ca.crt cannot be made: {status}");
    let create =
        async |client: &mut KubeClient, n| client.create(&path, config_map(&filled_name(n))).await.map(drop);
    repeat_on_all(&mut clients, RoundLength::Requests(LIST_OBJECTS as u64 - 1), &create).await?;
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/applied?fieldManager=bench");
    let media_type = "application/apply-patch+yaml";
    clients[0].exchange(Method::PATCH, &path, media_type, deployment("applied"), 201).await?;
    Ok(())
}

pub fn filled_name(n: u64) -> String {
    format!("settings-{n:05}")
}

/// CPU time of the server and elapsed time, each per request. `before` is the warm-up.
async fn measure(
    server: &KubeServer,
    clients: usize,
    before: RoundLength,
    turn: RoundLength,
    work: impl AsyncFn(&mut KubeClient, u64) -> Result<()>,
) -> Result<Sample> {
    let mut clients = connect(server, clients).await?;
    let count = AtomicU64::new(0);
    let work = async |client: &mut KubeClient, _| work(client, count.fetch_add(1, Ordering::Relaxed)).await;
    repeat_on_all(&mut clients, before, &work).await?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let done = repeat_on_all(&mut clients, turn, &work).await?;
    let (wall, cpu) = (began.elapsed(), server.cpu()?.saturating_sub(cpu));
    let each = |time: Duration| time.as_secs_f64() * 1e6 / done as f64;
    Ok(Sample { value: each(cpu), wall: Some(each(wall)) })
}

async fn connect(server: &KubeServer, clients: usize) -> Result<Vec<KubeClient>> {
    try_join_all((0..clients).map(|_| server.connect())).await
}

/// Repeats `work` on all clients; its second argument counts from 0. Returns the number of repetitions.
async fn repeat_on_all(
    clients: &mut [KubeClient],
    length: RoundLength,
    work: &impl AsyncFn(&mut KubeClient, u64) -> Result<()>,
) -> Result<u64> {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let loops = clients.iter_mut().map(|client| {
        let (next, done) = (&next, &done);
        async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let over = match length {
                    RoundLength::Elapsed(time) => began.elapsed() >= time,
                    RoundLength::Requests(times) => n >= times,
                };
                if over {
                    return anyhow::Ok(());
                }
                work(client, n).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    try_join_all(loops).await?;
    Ok(done.into_inner())
}

/// Length of a list with `count` items.
fn list_length(list: &[u8], count: usize) -> Result<usize> {
    let items = serde_json::from_slice::<Value>(list)?["items"].as_array().map_or(0, Vec::len);
    ensure!(items == count, "a list has {items} items, not {count}");
    Ok(list.len())
}

/// The continue token of a list, found in its head without parsing the items.
fn continue_token(list: &[u8]) -> Result<&str> {
    let head = std::str::from_utf8(&list[..list.len().min(1024)]);
    let head = head.or_else(|error| std::str::from_utf8(&list[..error.valid_up_to()]))?;
    let Some((_, token)) = head.split_once("\"continue\":\"") else { return Ok("") };
    token.split('"').next().context("a list is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_is_found_in_list_head() {
        let list = br#"{"kind":"L","metadata":{"resourceVersion":"7","continue":"abc="},"items":[{}]}"#;
        assert_eq!(continue_token(list).unwrap(), "abc=");
        assert_eq!(
            continue_token(br#"{"kind":"L","metadata":{"resourceVersion":"7"},"items":[]}"#).unwrap(),
            ""
        );
    }
}
