//! Controllers of Services and their endpoints.
//!
//! Modules:
//! - `service`: a Service and the pods that it selects
//! - `slices`: `EndpointSlices` of Services with a selector
//! - `endpoints`: their `Endpoints` objects, for older clients
//! - `mirror`: slices of `Endpoints` that clients wrote for a Service without selector
//! - `kubernetes`: the Service `default/kubernetes`
//! - `cluster_ips`: an `IPAddress` for each cluster IP
//! - `ranges`: `ServiceCIDRs`
//!
//! The last three are part of an API server, with or without simulated workloads.
//!
//! See also: `crate::admission::services` allocates addresses and ports; `crate::sim::addresses` assigns load balancer and
//! Ingress addresses.

mod cluster_ips;
mod endpoints;
mod kubernetes;
mod mirror;
mod plan;
mod port_order;
mod ranges;
mod service;
mod slice;
mod slices;
mod subsets;
#[cfg(test)]
mod tests;

pub(crate) use service::Service;

use super::RunningControllers;
use crate::error::ApiError;

const SERVICES: &str = "services";
const PODS: &str = "pods";
const NODES: &str = "nodes";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";

/// Annotation: when the pods of a Service last changed, as the controller knows.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Label of a headless Service and of its endpoints.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Starts the controllers that every API server has.
pub(super) fn start(control: &mut RunningControllers) {
    control.start_controller(kubernetes::Kubernetes);
    control.start_controller(cluster_ips::ClusterIps);
    control.start_controller(ranges::Ranges);
}

/// Starts the controllers of endpoints.
pub(super) fn start_endpoints(control: &mut RunningControllers) {
    control.start_controller(slices::EndpointSlices);
    control.start_controller(endpoints::Endpoints);
    control.start_controller(mirror::Mirror);
}

/// Whether the namespace is terminating, so that the object neither can nor needs to be created.
fn is_terminating(error: &ApiError) -> bool {
    let causes = error.details.as_ref().and_then(|details| details.get("causes")?.as_array());
    causes.is_some_and(|causes| causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating"))
}
