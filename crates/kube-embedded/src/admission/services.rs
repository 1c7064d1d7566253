//! Allocation of cluster IPs and node ports of Services.
//!
//! Allocated values are read from the Services themselves, so there is no separate allocation state: a crash
//! loses nothing, and a deleted Service releases its values. Only values for
//! writes in progress are remembered, by a [`ServiceReservation`] that releases them when it is dropped.
//!
//! Invariant: no two Services have the same address or node port, if writers hold their reservation until
//! the write is visible or has failed.
//! See also: `crate::rules::core::service` validates Services.

mod families;
mod pool;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use self::pool::{AllocatedSet, AllocatedValue, AllocationPool};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::rules::accessors::{
    bool_or_false, int, is_empty_value, items, list_mut, members, non_empty_text, text, texts,
};
use crate::rules::core::service::{needs_cluster_ip, needs_health_check, needs_node_port, node_ports};
use crate::rules::core::service_addresses::is_headless;
use crate::rules::network::ip;
use crate::store::{Object, Store};

/// The allocator of addresses and ports; one for the whole server.
#[derive(Default)]
pub struct ServiceAllocator {
    inner: Mutex<AllocatorState>,
}

#[derive(Default)]
struct AllocatorState {
    /// Values for writes in progress, possibly more than once (a retried update).
    in_flight: Vec<AllocatedValue>,
    /// The values of each Service when it was last read, so that only changed ones are parsed.
    by_service: HashMap<ServiceName, VersionedAllocation>,
}

/// Namespace and name.
type ServiceName = (Box<str>, Box<str>);

/// A version of a Service, and its values.
type VersionedAllocation = (u64, Vec<AllocatedValue>);

/// Reserves the values of a write until the write is over.
#[must_use = "what is not held is free for others"]
pub struct ServiceReservation {
    allocator: Arc<ServiceAllocator>,
    values: Vec<AllocatedValue>,
}

impl Drop for ServiceReservation {
    fn drop(&mut self) {
        let mut inner = self.allocator.inner.lock();
        for lease in &self.values {
            if let Some(at) = inner.in_flight.iter().position(|held| held == lease) {
                inner.in_flight.swap_remove(at);
            }
        }
    }
}

impl AllocatorState {
    /// Returns all allocated and reserved values.
    fn allocated_values(&mut self, store: &Store) -> AllocatedSet {
        let services = store.list("services", None).objects;
        let mut seen = HashMap::with_capacity(services.len());
        for service in &services {
            let key = (service.namespace.clone(), service.name.clone());
            let known = self.by_service.remove(&key).filter(|(version, _)| *version == service.version);
            seen.insert(key, known.unwrap_or_else(|| (service.version, values_of_service(service))));
        }
        self.by_service = seen;
        let stored = self.by_service.values().flat_map(|(_, leases)| leases.iter().copied());
        stored.chain(self.in_flight.iter().copied()).collect()
    }
}

fn values_of_service(service: &Object) -> Vec<AllocatedValue> {
    let service = service.value();
    let addresses = texts(&service["spec"]["clusterIPs"]).filter_map(ip::parse).map(AllocatedValue::Address);
    let health = int(&service["spec"]["healthCheckNodePort"]);
    let ports =
        node_ports(&service).into_iter().chain((health != 0).then_some(health)).map(AllocatedValue::Port);
    addresses.chain(ports).collect()
}

impl ServiceAllocator {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Allocates for a Service to create; runs before its validation.
    pub fn create(
        self: &Arc<Self>,
        store: &Store,
        service: &mut Value,
        dry_run: bool,
    ) -> Result<ServiceReservation> {
        normalise_cluster_ips(service, None);
        families::set_ip_families(service, None)?;
        self.reserve(store, dry_run, |grant| {
            grant.allocate_cluster_ips(service)?;
            if needs_node_port(service) {
                grant.allocate_node_ports(service)?;
            }
            if needs_health_check(service) {
                grant.allocate_health_check_port(service)?;
            }
            Ok(())
        })
    }

    /// Allocates for an updated Service; runs before its update rules and its validation.
    pub fn update(
        self: &Arc<Self>,
        store: &Store,
        new: &mut Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<ServiceReservation> {
        restore_allocated_fields(new, old);
        normalise_cluster_ips(new, Some(old));
        families::set_ip_families(new, Some(old))?;
        self.reserve(store, dry_run, |grant| {
            if !needs_cluster_ip(old) && needs_cluster_ip(new) {
                grant.allocate_cluster_ips(new)?;
            }
            if needs_node_port(new) {
                grant.update_node_ports(new, old)?;
            }
            if needs_health_check(new) && !needs_health_check(old) {
                grant.allocate_health_check_port(new)?;
            }
            Ok(())
        })
    }

    fn reserve(
        self: &Arc<Self>,
        store: &Store,
        dry_run: bool,
        fill: impl FnOnce(&mut AllocationRequest<'_>) -> Result<()>,
    ) -> Result<ServiceReservation> {
        // Choosing and reserving are atomic under one lock. The store is read under it as well: a write that
        // became visible since still has its reservation here, because releasing it needs the lock.
        let mut inner = self.inner.lock();
        let taken = inner.allocated_values(store);
        let mut pool = AllocationPool::new(taken);
        fill(&mut AllocationRequest { pool: &mut pool, dry_run })?;
        let leases = if dry_run { Vec::new() } else { pool.granted() };
        inner.in_flight.extend(leases.iter().copied());
        drop(inner);
        Ok(ServiceReservation { allocator: self.clone(), values: leases })
    }
}

/// The allocation of one request.
struct AllocationRequest<'a> {
    pool: &'a mut AllocationPool,
    dry_run: bool,
}

/// An internal error, as Kubernetes reports it.
fn internal_error(what: &str) -> ApiError {
    ApiError::internal(format!("Internal error occurred: {what}")).with_cause("", what, "")
}

fn invalid(service: &Value, error: FieldError) -> ApiError {
    ApiError::invalid("", "Service", text(&service["metadata"]["name"]), &[error])
}

impl AllocationRequest<'_> {
    /// Allocates one address per family, if the Service needs one.
    fn allocate_cluster_ips(&mut self, service: &mut Value) -> Result<()> {
        if !needs_cluster_ip(service) || is_headless(service) {
            return Ok(());
        }
        let requested_ips: Vec<String> =
            texts(&service["spec"]["clusterIPs"]).map(ToOwned::to_owned).collect();
        // This cluster has one address family, so there is one address.
        let address = if let Some(asked) = requested_ips.first().filter(|asked| !asked.is_empty()) {
            let wanted = ip::parse(asked)
                .ok_or_else(|| internal_error(&format!("failed to parse service IP {asked:?}")))?;
            self.pool.allocate_address(wanted, self.dry_run).map_err(|words| {
                let words = format!("failed to allocate IP {asked}: {words}");
                let shown = service["spec"]["clusterIPs"].clone();
                invalid(service, FieldError::invalid(&Path::new("spec.clusterIPs"), shown, words))
            })?;
            asked.clone()
        } else {
            let name = text(&service["metadata"]["name"]);
            let full = || {
                internal_error(&format!("failed to allocate a serviceIP for Service {name:?}: range is full"))
            };
            self.pool.allocate_next_address().ok_or_else(full)?.to_string()
        };
        let spec = members(service, "spec");
        spec.insert("clusterIP".to_owned(), address.as_str().into());
        spec.insert("clusterIPs".to_owned(), vec![address].into());
        Ok(())
    }

    /// Allocates node ports of a new Service. Two ports with one number (TCP and UDP) share one node port.
    fn allocate_node_ports(&mut self, service: &mut Value) -> Result<()> {
        let allocate = needs_allocated_node_ports(service);
        let mut by_port: HashMap<i64, i64> = HashMap::new();
        // The first requested node port of each port.
        let mut asked_with: HashMap<i64, i64> = HashMap::new();
        for port in items(&service["spec"]["ports"]) {
            if int(&port["nodePort"]) != 0 {
                asked_with.entry(int(&port["port"])).or_insert(int(&port["nodePort"]));
            }
        }
        for at in 0..items(&service["spec"]["ports"]).len() {
            let ports = items(&service["spec"]["ports"]);
            let (port, asked) = (int(&ports[at]["port"]), int(&ports[at]["nodePort"]));
            if asked == 0 && !allocate {
                continue;
            }
            let given = match by_port.get(&port) {
                Some(&shared) if asked == 0 || asked == shared => shared,
                Some(_) => self.allocate_node_port(service, at, asked)?,
                None => {
                    let given = match asked_with.get(&port) {
                        Some(&wanted) => self.allocate_node_port(service, at, wanted)?,
                        None => self.allocate_next_node_port()?,
                    };
                    by_port.insert(port, given);
                    given
                }
            };
            set_node_port(service, at, given);
        }
        Ok(())
    }

    /// Allocates node ports of an updated Service, which may keep its previous ones.
    fn update_node_ports(&mut self, new: &mut Value, old: &Value) -> Result<()> {
        let allocate = needs_allocated_node_ports(new);
        let held: HashSet<i64> = node_ports(old).into_iter().collect();
        let mut seen: HashSet<(String, i64)> = HashSet::new();
        let mut numbers: HashSet<i64> = HashSet::new();
        for at in 0..items(&new["spec"]["ports"]).len() {
            let port = &new["spec"]["ports"][at];
            let (asked, protocol) = (int(&port["nodePort"]), text(&port["protocol"]).to_owned());
            if asked == 0 && !allocate {
                continue;
            }
            let given = match asked {
                0 => self.allocate_next_node_port()?,
                asked if held.contains(&asked) || numbers.contains(&asked) => asked,
                asked => self.allocate_node_port(new, at, asked)?,
            };
            let key = (protocol, given);
            if seen.contains(&key) {
                let words = format!("duplicate nodePort: {{{} {given}}}", key.0);
                return Err(ApiError::new(500, "", words));
            }
            seen.insert(key);
            numbers.insert(given);
            set_node_port(new, at, given);
        }
        Ok(())
    }

    fn allocate_node_port(&mut self, service: &Value, at: usize, port: i64) -> Result<i64> {
        self.pool.allocate_port(port, self.dry_run).map_err(|words| {
            let path = Path::new("spec.ports").index(at).field("nodePort");
            invalid(service, FieldError::invalid(&path, port, words))
        })?;
        Ok(port)
    }

    fn allocate_next_node_port(&mut self) -> Result<i64> {
        if self.dry_run {
            return Ok(self.pool.dry_run_port());
        }
        self.pool
            .allocate_next_port()
            .ok_or_else(|| internal_error("failed to allocate a nodePort: range is full"))
    }

    fn allocate_health_check_port(&mut self, service: &mut Value) -> Result<()> {
        let asked = int(&service["spec"]["healthCheckNodePort"]);
        let port = if asked == 0 {
            self.allocate_next_node_port()?
        } else {
            self.pool.allocate_port(asked, self.dry_run).map_err(|words| {
                internal_error(&format!("failed to allocate requested HealthCheck NodePort {asked}: {words}"))
            })?;
            asked
        };
        members(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
        Ok(())
    }
}

fn needs_allocated_node_ports(service: &Value) -> bool {
    match text(&service["spec"]["type"]) {
        "NodePort" => true,
        "LoadBalancer" => bool_or_false(&service["spec"]["allocateLoadBalancerNodePorts"]),
        _ => false,
    }
}

fn set_node_port(service: &mut Value, at: usize, port: i64) {
    let ports = service.get_mut("spec").and_then(|spec| list_mut(spec, "ports"));
    if let Some(Value::Object(fields)) = ports.and_then(|ports| ports.get_mut(at)) {
        fields.insert("nodePort".to_owned(), port.into());
    }
}

/// Restores allocated fields that the client omitted.
fn restore_allocated_fields(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        let spec = members(new, "spec");
        for field in ["clusterIP", "clusterIPs"] {
            let kept = &old["spec"][field];
            if spec.get(field).is_none_or(is_empty_value) && !is_empty_value(kept) {
                spec.insert(field.to_owned(), kept.clone());
            }
        }
    }
    if needs_allocated_node_ports(old) && needs_allocated_node_ports(new) {
        let asked: HashSet<i64> = node_ports(new).into_iter().collect();
        let had: HashMap<&str, i64> = items(&old["spec"]["ports"])
            .iter()
            .map(|port| (text(&port["name"]), int(&port["nodePort"])))
            .collect();
        for at in 0..items(&new["spec"]["ports"]).len() {
            let port = &new["spec"]["ports"][at];
            let kept = had.get(text(&port["name"])).copied().unwrap_or_default();
            if int(&port["nodePort"]) == 0 && kept != 0 && !asked.contains(&kept) {
                set_node_port(new, at, kept);
            }
        }
    }
    if needs_health_check(old) && needs_health_check(new) {
        let kept = old["spec"]["healthCheckNodePort"].clone();
        let spec = members(new, "spec");
        if spec.get("healthCheckNodePort").is_none_or(|port| int(port) == 0) && !kept.is_null() {
            spec.insert("healthCheckNodePort".to_owned(), kept);
        }
    }
}

/// `clusterIP` and the first of `clusterIPs` are the same; a client may set or change only the first field.
fn normalise_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let one = non_empty_text(&new["spec"]["clusterIP"]).map(ToOwned::to_owned);
    let same_list =
        old.is_some_and(|old| items(&old["spec"]["clusterIPs"]) == items(&new["spec"]["clusterIPs"]));
    let spec = members(new, "spec");
    let Some(old) = old else {
        if let Some(one) = one
            && spec.get("clusterIPs").is_none_or(is_empty_value)
        {
            spec.insert("clusterIPs".to_owned(), vec![one].into());
        }
        return;
    };
    let was = non_empty_text(&old["spec"]["clusterIP"]);
    if one.as_deref() == was {
        if spec.get("clusterIPs").is_none_or(is_empty_value) && !is_empty_value(&old["spec"]["clusterIPs"]) {
            spec.insert("clusterIPs".to_owned(), old["spec"]["clusterIPs"].clone());
        }
    } else if same_list {
        match one {
            Some(one) => _ = spec.insert("clusterIPs".to_owned(), vec![one].into()),
            None => _ = spec.remove("clusterIPs"),
        }
    }
}

/// The address of the API server's own Service, the first of the range.
pub const API_SERVER_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

#[cfg(test)]
mod tests;
