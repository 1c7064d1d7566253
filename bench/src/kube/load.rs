//! Closed-loop load: each client sends its next request when the last one is answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::future::try_join_all;
use http::Method;
use serde_json::Value;

use super::client::Client;
use super::objects::{CREATED, NAMESPACE, config_map, config_maps, deployment};
use super::server::Server;
use crate::report::Sample;

/// Number of concurrent clients for small requests.
const CLIENTS: usize = 16;
/// Number of objects in long lists.
pub const MANY: usize = 10_000;
const PAGE: usize = 500;

/// Length of a turn.
#[derive(Clone, Copy)]
enum Length {
    For(Duration),
    Times(u64),
}

/// Long enough for CPU time with a resolution of 10 ms.
const TURN: Length = Length::For(Duration::from_secs(2));
const WARM_UP: Length = Length::For(Duration::from_millis(300));
/// A fixed number, so that both servers end with the same objects.
const CREATES: Length = Length::Times(4_000);
const FIRST_CREATES: Length = Length::Times(200);

const SETTLE_PAUSE: Duration = Duration::from_secs(1);
const SETTLE_TRIES: usize = 30;

/// `GET` of one ConfigMap created by [`fill`].
pub async fn get(server: &Server) -> Result<Sample> {
    let path = format!("{}/{}", config_maps(NAMESPACE), filled_name(0));
    let work = async |client: &mut Client, _| {
        let body = client.get(&path).await?;
        ensure!(
            body.len() > config_map(&filled_name(0)).len(),
            "a GET was answered with {} bytes",
            body.len()
        );
        Ok(())
    };
    measure(server, CLIENTS, WARM_UP, TURN, work).await
}

/// Durable creates: both servers respond when the object is on disk.
pub async fn create(server: &Server, round: usize) -> Result<Sample> {
    let path = config_maps(CREATED);
    let create = async |client: &mut Client, n| {
        client.create(&path, config_map(&format!("created-{round}-{n:05}"))).await.map(drop)
    };
    measure(server, CLIENTS, FIRST_CREATES, CREATES, create).await
}

/// The complete list in one response.
pub async fn list_whole(server: &Server) -> Result<Sample> {
    let path = config_maps(NAMESPACE);
    let length = counted(&server.connect().await?.get(&path).await?, MANY)?;
    let work = async |client: &mut Client, _| {
        let found = client.get(&path).await?.len();
        ensure!(found == length, "a list has {found} bytes, another had {length}");
        Ok(())
    };
    measure(server, 1, WARM_UP, TURN, work).await
}

/// The complete list in pages; one pass over all pages counts as one request.
pub async fn list_pages(server: &Server) -> Result<Sample> {
    let work = async |client: &mut Client, _| {
        let mut next = String::new();
        for page in 1..=MANY / PAGE {
            let path = format!("{}?limit={PAGE}&continue={next}", config_maps(NAMESPACE));
            let body = client.get(&path).await?;
            continue_token(&body)?.clone_into(&mut next);
            ensure!(next.is_empty() == (page == MANY / PAGE), "page {page} ends with `{next}`");
        }
        Ok(())
    };
    measure(server, 1, WARM_UP, TURN, work).await
}

/// Applies of a Deployment without changes.
pub async fn apply(server: &Server) -> Result<Sample> {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/applied");
    let body = deployment("applied");
    let mut client = server.connect().await?;
    let before = settled(&mut client, &path).await?;
    let work = async |client: &mut Client, _| client.apply(&path, body.clone()).await.map(drop);
    let sample = measure(server, CLIENTS, WARM_UP, TURN, work).await?;
    let after = version(&mut client, &path).await?;
    ensure!(before == after, "an apply that changes nothing has written: version {before}, then {after}");
    Ok(sample)
}

/// Resource version of an object once it is stable: controllers write its status first.
async fn settled(client: &mut Client, path: &str) -> Result<String> {
    let mut before = version(client, path).await?;
    for _ in 0..SETTLE_TRIES {
        tokio::time::sleep(SETTLE_PAUSE).await;
        let now = version(client, path).await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    bail!("{path} does not come to rest");
}

async fn version(client: &mut Client, path: &str) -> Result<String> {
    let object: Value = serde_json::from_slice(&client.get(path).await?)?;
    let version = object["metadata"]["resourceVersion"].as_str().context("an object without a version")?;
    Ok(version.to_owned())
}

/// Creates the objects that the rows read: ConfigMaps and a Deployment.
///
/// One of the ConfigMaps is `kube-root-ca.crt`, which a control plane with controllers creates in every namespace. The
/// peer runs without controllers here, so it is created on both servers if missing.
pub async fn fill(server: &Server) -> Result<()> {
    let path = config_maps(NAMESPACE);
    let mut clients = connect(server, CLIENTS).await?;
    let usual = config_map("kube-root-ca.crt");
    let status = clients[0].send(Method::POST, &path, "application/json", usual).await?.status();
    ensure!(status == 201 || status == 409, "kube-root-ca.crt cannot be made: {status}");
    let create =
        async |client: &mut Client, n| client.create(&path, config_map(&filled_name(n))).await.map(drop);
    repeat(&mut clients, Length::Times(MANY as u64 - 1), &create).await?;
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
    server: &Server,
    clients: usize,
    before: Length,
    turn: Length,
    work: impl AsyncFn(&mut Client, u64) -> Result<()>,
) -> Result<Sample> {
    let mut clients = connect(server, clients).await?;
    let count = AtomicU64::new(0);
    let work = async |client: &mut Client, _| work(client, count.fetch_add(1, Ordering::Relaxed)).await;
    repeat(&mut clients, before, &work).await?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let done = repeat(&mut clients, turn, &work).await?;
    let (wall, cpu) = (began.elapsed(), server.cpu()?.saturating_sub(cpu));
    let each = |time: Duration| time.as_secs_f64() * 1e6 / done as f64;
    Ok(Sample { value: each(cpu), wall: Some(each(wall)) })
}

async fn connect(server: &Server, clients: usize) -> Result<Vec<Client>> {
    try_join_all((0..clients).map(|_| server.connect())).await
}

/// Repeats `work` on all clients; its second argument counts from 0. Returns the number of repetitions.
async fn repeat(
    clients: &mut [Client],
    length: Length,
    work: &impl AsyncFn(&mut Client, u64) -> Result<()>,
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
                    Length::For(time) => began.elapsed() >= time,
                    Length::Times(times) => n >= times,
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
fn counted(list: &[u8], count: usize) -> Result<usize> {
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
    fn the_token_is_found_in_the_head_of_a_list() {
        let list = br#"{"kind":"L","metadata":{"resourceVersion":"7","continue":"abc="},"items":[{}]}"#;
        assert_eq!(continue_token(list).unwrap(), "abc=");
        assert_eq!(
            continue_token(br#"{"kind":"L","metadata":{"resourceVersion":"7"},"items":[]}"#).unwrap(),
            ""
        );
    }
}
