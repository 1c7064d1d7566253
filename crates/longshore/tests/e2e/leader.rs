//! Leader election between several servers on one cluster: one leads, and another takes over when it is gone.

use std::time::{Duration, Instant};

use tempfile::tempdir;
use tokio::time::sleep;

use crate::program::Server;
use crate::request::get;
use crate::target::{Cluster, only_on_embedded};

/// Whether the server leads, by its own metric.
async fn leads(server: &Server) -> bool {
    let metrics = get(&server.platform(), "/metrics").await.text;
    match metrics.lines().find_map(|line| line.strip_prefix("longshore_leader ")) {
        Some("0") => false,
        Some("1") => true,
        other => panic!("longshore_leader is {other:?}"),
    }
}

/// Waits up to `at_most` until one of the servers leads. Returns its index.
async fn leader_among(servers: &[&Server], at_most: Duration) -> usize {
    let began = Instant::now();
    loop {
        for (place, server) in servers.iter().enumerate() {
            if leads(server).await {
                return place;
            }
        }
        let logs = || servers.iter().map(|server| server.log()).collect::<Vec<_>>().join("\n");
        assert!(began.elapsed() < at_most, "nobody leads after {at_most:?}:\n{}", logs());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn when_the_leader_is_gone_another_leads() {
    let takeover = Duration::from_secs(20);
    let cluster = Cluster::for_servers();
    let start = |name| Server::on(&cluster.kubeconfig(), &cluster.folder.path().join(name));
    let mut servers = vec![start("one"), start("two")];
    // The server of an earlier test may have led and ended without releasing its Lease.
    let first = leader_among(&[&servers[0], &servers[1]], takeover).await;
    for server in &servers {
        assert_eq!(get(&server.platform(), "/readyz").await.code, 200, "who follows is ready too");
    }

    servers.remove(first).kill();
    let second = servers.remove(0);
    leader_among(&[&second], takeover).await;
    let third = start("three");
    sleep(Duration::from_secs(5)).await;
    assert!(leads(&second).await && !leads(&third).await, "who comes later does not steal");

    // A stopped process notices the loss of its Lease when it continues.
    second.signal("-STOP");
    leader_among(&[&third], takeover).await;
    second.signal("-CONT");
    sleep(Duration::from_secs(1)).await;
    assert!(leads(&third).await && !leads(&second).await, "who wakes up does not go on");

    let began = Instant::now();
    third.stop();
    leader_among(&[&second], Duration::from_secs(5)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "given back, not run out: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_on_its_own_cluster_leads() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    assert!(leads(&Server::start(&folder.path().join("data"))).await);
}
