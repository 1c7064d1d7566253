//! Open-loop load: requests at a constant rate, independent of earlier ones.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::platform_server::{BenchUser, PlatformServer};

/// Requests per second.
const REQUESTS_PER_SECOND: u32 = 200;
/// Duration of a route's measurement.
pub const ROUTE_DURATION: Duration = Duration::from_secs(10);
pub const REQUEST_COUNT: usize = 2_000;
/// Number of sequential list requests: lists cannot be served 200 times per second.
const LIST_COUNT: usize = 100;

/// A route and the Kubernetes lists with the same information.
pub struct Route {
    pub name: &'static str,
    pub description: &'static str,
    pub path: &'static str,
    /// Requested by an administrator, over all tenants.
    pub as_administrator: bool,
    /// `{}` is replaced by the tenant.
    pub lists: &'static [&'static str],
}

/// 99th percentile of latency in milliseconds. Measured from the scheduled time, so that queueing counts.
pub async fn measure_route(
    route: &Route,
    server: &PlatformServer,
    people: &[BenchUser],
    admin: &BenchUser,
) -> Result<f64> {
    let began = tokio::time::Instant::now();
    let asked = (0..REQUEST_COUNT).map(async |number| {
        let due = began + Duration::from_secs(1) * u32::try_from(number)? / REQUESTS_PER_SECOND;
        tokio::time::sleep_until(due).await;
        let who = if route.as_administrator { admin } else { &people[number % people.len()] };
        let answer = server.get(who, route.path).await?;
        ensure!(!answer.is_empty(), "an empty answer");
        anyhow::Ok(due.elapsed().as_secs_f64() * 1e3)
    });
    percentile(try_join_all(asked).await?)
}

/// The same for sequential lists from the Kubernetes API.
pub async fn measure_kubernetes_lists(route: &Route, cluster: &Cluster, people: &[BenchUser]) -> Result<f64> {
    let client = cluster.client(User::admin());
    let mut millis = Vec::with_capacity(LIST_COUNT);
    let times = if route.as_administrator { LIST_COUNT / 10 } else { LIST_COUNT };
    for number in 0..times {
        let began = Instant::now();
        for list in route.lists {
            let path = list.replace("{}", &people[number % people.len()].id);
            let answer = client.send(Request::get(&path).body(Body::empty())?).await?;
            ensure!(answer.status().is_success(), "{path}: {}", answer.status());
            answer.into_body().collect().await?;
        }
        millis.push(began.elapsed().as_secs_f64() * 1e3);
    }
    percentile(millis)
}

fn percentile(mut millis: Vec<f64>) -> Result<f64> {
    millis.sort_by(f64::total_cmp);
    millis.get(millis.len() * 99 / 100).copied().context("nothing was measured")
}

/// Counter of the cluster's requests.
pub struct RequestCounter(Registry);

impl RequestCounter {
    pub fn from_cluster(cluster: &Cluster) -> Self {
        let mut registry = Registry::default();
        cluster.metrics().register(&mut registry);
        Self(registry)
    }

    /// Number of requests during `work`.
    pub async fn count_during<T>(&self, work: impl Future<Output = Result<T>>) -> Result<u64> {
        let before = self.current()?;
        work.await?;
        Ok(self.current()? - before)
    }

    fn current(&self) -> Result<u64> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Ok(counts.sum())
    }
}
