//! Attacks with unread responses, lists too long for memory, and work that would block the listeners.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::BodyExt;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::tenant::{Tenant, reserved_bytes};
use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::http::accept::{ConnectionLimits, accept};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    accept: &str,
    body: Vec<u8>,
) -> (u16, Vec<u8>) {
    let media = if method == "PATCH" { "application/json-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", media).header("accept", accept);
    let answer = client.send(request.body(body.into()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    (code, answer.into_body().collect().await.unwrap().to_bytes().to_vec())
}

async fn create(client: &kube::Client, name: &str, bytes: usize) -> u16 {
    let object = json!({"metadata": {"name": name}, "data": {"a": "line: x\n".repeat(bytes / 8)}});
    send(client, "POST", CONFIG_MAPS, "application/json", object.to_string().into_bytes()).await.0
}

#[tokio::test]
async fn only_large_requests_wait_for_the_pool() {
    let mut config = Config::default();
    config.work_limits.slots = 0;
    config.work_limits.wait = Duration::from_millis(10);
    let client = Cluster::open(config).await.unwrap().client(User::admin());
    assert_eq!(create(&client, "small", 1_000).await, 201);
    assert_eq!(create(&client, "large", 100_000).await, 429);
    let delete_all = async || {
        let selected = format!("{CONFIG_MAPS}?labelSelector=none");
        send(&client, "DELETE", &selected, "application/json", Vec::new()).await.0
    };
    assert_eq!(delete_all().await, 200, "a small collection");
    for n in 0..150 {
        assert_eq!(create(&client, &format!("small-{n}"), 8).await, 201);
    }
    assert_eq!(delete_all().await, 429, "a large collection");
    let (code, _) =
        send(&client, "GET", &format!("{CONFIG_MAPS}/small"), "application/json", Vec::new()).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn lists_that_are_printed_while_sent_are_complete_in_every_format() {
    let client = Cluster::in_memory().await.client(User::admin());
    for name in ["a", "b", "c", "d"] {
        assert_eq!(create(&client, name, 90_000).await, 201);
    }
    let list = async |accept: &str| {
        let (code, body) = send(&client, "GET", CONFIG_MAPS, accept, Vec::new()).await;
        assert_eq!(code, 200);
        body
    };
    let json: Value = serde_json::from_slice(&list("application/json").await).unwrap();
    let yaml: Value = serde_norway::from_slice(&list("application/yaml").await).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["kind"], "ConfigMapList");
    let names = |list: &Value, key: &str, name: &str| -> Vec<String> {
        let items = list[key].as_array().unwrap().iter();
        items.map(|item| item.pointer(name).unwrap().as_str().unwrap().to_owned()).collect()
    };
    let expected = ["a", "b", "c", "d", "kube-root-ca.crt"];
    assert_eq!(names(&json, "items", "/metadata/name"), expected);
    assert_eq!(json["items"][3]["data"]["a"].as_str().unwrap().len(), 90_000);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table: Value = serde_json::from_slice(&list(table).await).unwrap();
    assert_eq!(names(&table, "rows", "/cells/0"), expected);
    assert!(table["columnDefinitions"].as_array().unwrap().len() > 1);
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial: Value = serde_json::from_slice(&list(partial).await).unwrap();
    assert_eq!(names(&partial, "items", "/metadata/name"), expected);
}

#[tokio::test]
async fn endless_timeout_of_a_watch_is_cut() {
    let cluster = Cluster::in_memory().await;
    let request = http::Request::get(format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=9223372036854775807"));
    let answer = cluster.client(User::admin()).send(request.body(Vec::new().into()).unwrap()).await.unwrap();
    assert_eq!((answer.status().as_u16(), cluster.metrics().panic_count()), (200, 0));
}

#[tokio::test]
async fn definition_with_thousands_of_heavy_patterns_is_refused_at_once() {
    let client = Cluster::in_memory().await.client(User::admin());
    let pattern = |n: usize| {
        (format!("p{n}"), json!({"type": "string", "pattern": format!("^([a-z]{{1,60}}){{1,60}}{n}$")}))
    };
    let properties: serde_json::Map<String, Value> = (0..5_000).map(pattern).collect();
    let definition = json!({
        "metadata": {"name": "as.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}}]},
    });
    let began = std::time::Instant::now();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, body) =
        send(&client, "POST", path, "application/json", definition.to_string().into_bytes()).await;
    let text = String::from_utf8_lossy(&body);
    assert!(code == 422 && text.contains("too large to be compiled"), "{code}: {text:.2000}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_lists_neither_fill_memory_nor_keep_others_waiting() {
    const CONNECTIONS: usize = 60;
    let cluster = Cluster::in_memory().await;
    let admin = cluster.client(User::admin());
    for n in 0..10 {
        assert_eq!(create(&admin, &format!("large-{n}"), 900_000).await, 201);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = cluster.service_as(User::admin());
    let of_peer = move |_: SocketAddr, _: Option<&CertificateDer<'_>>| service.clone();
    tokio::spawn(accept(listener, None, ConnectionLimits::default(), of_peer, cluster.wait_until_stopped()));
    // Requests with impersonation are charged to the impersonated user.
    let request = |user: &str| {
        let as_user = format!("impersonate-user: {user}\r\nimpersonate-group: testers\r\nconnection: close");
        format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\naccept: application/yaml\r\n{as_user}\r\n\r\n")
    };
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "all"}, "rules": rules});
    let binding = json!({"metadata": {"name": "all"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "testers"}]});
    for (name, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{group}/v1/{name}");
        let (code, body) =
            send(&admin, "POST", &path, "application/json", object.to_string().into_bytes()).await;
        assert_eq!(code, 201, "{}", String::from_utf8_lossy(&body));
    }
    let mut unread = Vec::new();
    for _ in 0..CONNECTIONS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(request("hostile").as_bytes()).await.unwrap();
        unread.push(stream);
    }
    // Each request has been answered as far as possible without a reader: few with a list, the others with 429.
    let mut lists = 0;
    for stream in &mut unread {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert!(matches!(&answer[9..], b"200" | b"429"), "{}", String::from_utf8_lossy(&answer));
        lists += u64::from(&answer[9..] == b"200");
    }
    assert!((1..=12).contains(&lists), "{lists} lists of 9 MB are being sent");
    assert!(
        reserved_bytes(&cluster) >= lists << 20 && reserved_bytes(&cluster) <= 48 << 20,
        "{}",
        reserved_bytes(&cluster)
    );
    let mut good = TcpStream::connect(address).await.unwrap();
    good.write_all(request("good").as_bytes()).await.unwrap();
    let mut whole = Vec::new();
    good.read_to_end(&mut whole).await.unwrap();
    let start = String::from_utf8_lossy(&whole[..whole.len().min(2_000)]);
    assert!(start.starts_with("HTTP/1.1 200") && whole.len() > 9_000_000, "{}: {start}", whole.len());
    drop((good, unread));
    let returned = async {
        while reserved_bytes(&cluster) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), returned)
        .await
        .expect("what is sent or given up is returned");
    cluster.stop();
}

#[tokio::test]
async fn stored_write_is_acknowledged_when_its_large_response_exceeds_the_budget_of_its_user() {
    // The response has an entry of managed fields for each key: it is longer than twice the body, which is reserved before the write.
    let data: serde_json::Map<String, Value> = (0..3000).map(|n| (format!("k{n}"), "".into())).collect();
    let map = json!({"metadata": {"name": "a"}, "data": data});
    let budget = 2 * map.to_string().len() as u64 + (3 << 10);
    let mut config = Config::default();
    config.level_limits.0[1].bytes_per_flow = budget;
    let cluster = Cluster::open(config).await.unwrap();
    let rules = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let tenant = Tenant::new(&cluster, rules).await;
    let (code, answer) = tenant.post(CONFIG_MAPS, &map).await;
    assert!(code == 201 && answer.to_string().len() as u64 > budget, "{code} {answer:.500}");
    // The same response to a read is refused.
    let (code, answer) = tenant.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(code, 429, "{answer:.500}");
    cluster.stop();
}
