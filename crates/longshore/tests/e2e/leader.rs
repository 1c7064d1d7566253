//! Leader election between several servers on one cluster: one leads, and another takes over when it is gone.

use std::time::{Duration, Instant};

use tempfile::tempdir;
use tokio::time::sleep;

use crate::program::Server;
use crate::request::get;
use crate::target::{Cluster, only_on_embedded};

/// Whether the server leads, by its own metric.
async fn is_leader(server: &Server) -> bool {
    let metrics = get(&server.platform(), "/metrics").await.text;
    match metrics.lines().find_map(|line| line.strip_prefix("longshore_leader ")) {
        Some("0") => false,
        Some("1") => true,
        other => panic!("longshore_leader is {other:?}"),
    }
}

/// Waits up to `timeout` until one of the servers leads. Returns its index.
async fn wait_for_leader(servers: &[&Server], timeout: Duration) -> usize {
    let began = Instant::now();
    loop {
        for (place, server) in servers.iter().enumerate() {
            if is_leader(server).await {
                return place;
            }
        }
        let logs = || servers.iter().map(|server| server.log()).collect::<Vec<_>>().join("\n");
        assert!(began.elapsed() < timeout, "nobody leads after {timeout:?}:\n{}", logs());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn another_server_leads_when_leader_is_gone() {
    let takeover = Duration::from_secs(20);
    let cluster = Cluster::for_servers();
    let start = |name| Server::start_on_cluster(&cluster.kubeconfig(), &cluster.folder.path().join(name));
    let mut servers = vec![start("one"), start("two")];
    // The server of an earlier test may have led and ended without releasing its Lease.
    let first = wait_for_leader(&[&servers[0], &servers[1]], takeover).await;
    for server in &servers {
        assert_eq!(get(&server.platform(), "/readyz").await.code, 200, "who follows is ready too");
    }

    servers.remove(first).kill();
    let second = servers.remove(0);
    wait_for_leader(&[&second], takeover).await;
    let third = start("three");
    sleep(Duration::from_secs(5)).await;
    assert!(is_leader(&second).await && !is_leader(&third).await, "who comes later does not steal");

    // A stopped process notices the loss of its Lease when it continues.
    second.signal("-STOP");
    wait_for_leader(&[&third], takeover).await;
    second.signal("-CONT");
    sleep(Duration::from_secs(1)).await;
    assert!(is_leader(&third).await && !is_leader(&second).await, "who wakes up does not go on");

    let began = Instant::now();
    third.stop();
    wait_for_leader(&[&second], Duration::from_secs(5)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "given back, not run out: {:?}", began.elapsed());
}

#[tokio::test]
async fn server_on_embedded_cluster_leads() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    assert!(is_leader(&Server::start(&folder.path().join("data"))).await);
}
