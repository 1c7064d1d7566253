//! From Services to the addresses behind them.
//!
//! A Service with a selector has `EndpointSlices` (`slices`) and, for older readers, an `Endpoints` object of its name
//! (`endpoints`); both are made of the pods that it selects (`service`). An `Endpoints` object that somebody wrote for a
//! Service without selector is mirrored into slices (`mirror`). The API itself is the Service `default/kubernetes`
//! (`kubernetes`), each cluster address has an `IPAddress` that says whose it is (`cluster_ips`), and the ranges that they come
//! from are `ServiceCIDRs` (`ranges`); these are what an API server does by itself, with or without simulated workloads.
//!
//! Elsewhere: which addresses and ports a Service gets (`crate::admission::services`); addresses of load balancers and
//! Ingresses (`crate::sim::addresses`).

mod cluster_ips;
mod endpoints;
mod kubernetes;
mod mirror;
mod order;
mod plan;
mod ranges;
mod service;
mod slice;
mod slices;
mod subsets;
#[cfg(test)]
mod tests;

pub(crate) use service::Service;

use super::Control;
use crate::error::ApiError;

const SERVICES: &str = "services";
const PODS: &str = "pods";
const NODES: &str = "nodes";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";

/// When what is behind a Service last changed, as far as the writer of its endpoints knows.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// On a Service without address of its own, and on what is made of it.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Starts what belongs to every API server.
pub(super) fn start(control: &mut Control) {
    control.run(kubernetes::Kubernetes);
    control.run(cluster_ips::ClusterIps);
    control.run(ranges::Ranges);
}

/// Starts what belongs to workloads.
pub(super) fn start_endpoints(control: &mut Control) {
    control.run(slices::EndpointSlices);
    control.run(endpoints::Endpoints);
    control.run(mirror::Mirror);
}

/// The namespace is going: nothing new can be made in it, and nothing needs to be.
fn is_terminating(error: &ApiError) -> bool {
    let causes = error.details.as_ref().and_then(|details| details.get("causes")?.as_array());
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating"))
}
