//! Allocation of cluster IPs and node ports of Services.
//!
//! Allocated values are read from the Services themselves, so there is no separate allocation state: a crash
//! loses nothing, and a deleted Service releases its values. Only values for
//! writes in progress are remembered, by a [`Reservation`] that releases them when it is dropped.
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

use self::pool::{Lease, Pool, Taken};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::rules::core::service::{needs_cluster_ip, needs_health_check, needs_node_port, node_ports};
use crate::rules::core::service_addresses::headless;
use crate::rules::network::ip;
use crate::rules::read::{empty, filled, int, items, list_mut, members, text, texts, truth};
use crate::store::{Object, Store};

/// The allocator of addresses and ports; one for the whole server.
#[derive(Default)]
pub struct Allocator {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Values for writes in progress, possibly more than once (a retried update).
    underway: Vec<Lease>,
    /// The values of each Service when it was last read, so that only changed ones are parsed.
    seen: HashMap<ServiceName, Seen>,
}

/// Namespace and name.
type ServiceName = (Box<str>, Box<str>);

/// A version of a Service, and its values.
type Seen = (u64, Vec<Lease>);

/// Reserves the values of a write until the write is over.
#[must_use = "what is not held is free for others"]
pub struct Reservation {
    allocator: Arc<Allocator>,
    leases: Vec<Lease>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut inner = self.allocator.inner.lock();
        for lease in &self.leases {
            if let Some(at) = inner.underway.iter().position(|held| held == lease) {
                inner.underway.swap_remove(at);
            }
        }
    }
}

impl Inner {
    /// Returns all allocated and reserved values.
    fn taken(&mut self, store: &Store) -> Taken {
        let services = store.list("services", None).objects;
        let mut seen = HashMap::with_capacity(services.len());
        for service in &services {
            let key = (service.namespace.clone(), service.name.clone());
            let known = self.seen.remove(&key).filter(|(version, _)| *version == service.version);
            seen.insert(key, known.unwrap_or_else(|| (service.version, held_by(service))));
        }
        self.seen = seen;
        let stored = self.seen.values().flat_map(|(_, leases)| leases.iter().copied());
        stored.chain(self.underway.iter().copied()).collect()
    }
}

fn held_by(service: &Object) -> Vec<Lease> {
    let service = service.value();
    let addresses = texts(&service["spec"]["clusterIPs"]).filter_map(ip::parse).map(Lease::Address);
    let health = int(&service["spec"]["healthCheckNodePort"]);
    let ports = node_ports(&service).into_iter().chain((health != 0).then_some(health)).map(Lease::Port);
    addresses.chain(ports).collect()
}

impl Allocator {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Allocates for a Service to create; runs before its validation.
    pub fn create(
        self: &Arc<Self>,
        store: &Store,
        service: &mut Value,
        dry_run: bool,
    ) -> Result<Reservation> {
        normalise(service, None);
        families::complete(service, None)?;
        self.reserve(store, dry_run, |grant| {
            grant.addresses(service)?;
            if needs_node_port(service) {
                grant.new_ports(service)?;
            }
            if needs_health_check(service) {
                grant.health_port(service)?;
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
    ) -> Result<Reservation> {
        keep_allocated(new, old);
        normalise(new, Some(old));
        families::complete(new, Some(old))?;
        self.reserve(store, dry_run, |grant| {
            if !needs_cluster_ip(old) && needs_cluster_ip(new) {
                grant.addresses(new)?;
            }
            if needs_node_port(new) {
                grant.changed_ports(new, old)?;
            }
            if needs_health_check(new) && !needs_health_check(old) {
                grant.health_port(new)?;
            }
            Ok(())
        })
    }

    fn reserve(
        self: &Arc<Self>,
        store: &Store,
        dry_run: bool,
        fill: impl FnOnce(&mut Grant<'_>) -> Result<()>,
    ) -> Result<Reservation> {
        // Choosing and reserving are atomic under one lock. The store is read under it as well: a write that
        // became visible since still has its reservation here, because releasing it needs the lock.
        let mut inner = self.inner.lock();
        let taken = inner.taken(store);
        let mut pool = Pool::new(taken);
        fill(&mut Grant { pool: &mut pool, dry_run })?;
        let leases = if dry_run { Vec::new() } else { pool.granted() };
        inner.underway.extend(leases.iter().copied());
        drop(inner);
        Ok(Reservation { allocator: self.clone(), leases })
    }
}

/// The allocation of one request.
struct Grant<'a> {
    pool: &'a mut Pool,
    dry_run: bool,
}

/// An internal error, as Kubernetes reports it.
fn failure(what: &str) -> ApiError {
    ApiError::internal(format!("Internal error occurred: {what}")).with_cause("", what, "")
}

fn invalid(service: &Value, error: FieldError) -> ApiError {
    ApiError::invalid("", "Service", text(&service["metadata"]["name"]), &[error])
}

impl Grant<'_> {
    /// Allocates one address per family, if the Service needs one.
    fn addresses(&mut self, service: &mut Value) -> Result<()> {
        if !needs_cluster_ip(service) || headless(service) {
            return Ok(());
        }
        let asked: Vec<String> = texts(&service["spec"]["clusterIPs"]).map(ToOwned::to_owned).collect();
        // This cluster has one address family, so there is one address.
        let address = if let Some(asked) = asked.first().filter(|asked| !asked.is_empty()) {
            let wanted =
                ip::parse(asked).ok_or_else(|| failure(&format!("failed to parse service IP {asked:?}")))?;
            self.pool.claim_address(wanted, self.dry_run).map_err(|words| {
                let words = format!("failed to allocate IP {asked}: {words}");
                let shown = service["spec"]["clusterIPs"].clone();
                invalid(service, FieldError::invalid(&Path::new("spec.clusterIPs"), shown, words))
            })?;
            asked.clone()
        } else {
            let name = text(&service["metadata"]["name"]);
            let full =
                || failure(&format!("failed to allocate a serviceIP for Service {name:?}: range is full"));
            self.pool.any_address().ok_or_else(full)?.to_string()
        };
        let spec = members(service, "spec");
        spec.insert("clusterIP".to_owned(), address.as_str().into());
        spec.insert("clusterIPs".to_owned(), vec![address].into());
        Ok(())
    }

    /// Allocates node ports of a new Service. Two ports with one number (TCP and UDP) share one node port.
    fn new_ports(&mut self, service: &mut Value) -> Result<()> {
        let allocate = allocates_ports(service);
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
                Some(_) => self.claim_port(service, at, asked)?,
                None => {
                    let given = match asked_with.get(&port) {
                        Some(&wanted) => self.claim_port(service, at, wanted)?,
                        None => self.any_port()?,
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
    fn changed_ports(&mut self, new: &mut Value, old: &Value) -> Result<()> {
        let allocate = allocates_ports(new);
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
                0 => self.any_port()?,
                asked if held.contains(&asked) || numbers.contains(&asked) => asked,
                asked => self.claim_port(new, at, asked)?,
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

    fn claim_port(&mut self, service: &Value, at: usize, port: i64) -> Result<i64> {
        self.pool.claim_port(port, self.dry_run).map_err(|words| {
            let path = Path::new("spec.ports").index(at).field("nodePort");
            invalid(service, FieldError::invalid(&path, port, words))
        })?;
        Ok(port)
    }

    fn any_port(&mut self) -> Result<i64> {
        if self.dry_run {
            return Ok(self.pool.pretended_port());
        }
        self.pool.any_port().ok_or_else(|| failure("failed to allocate a nodePort: range is full"))
    }

    fn health_port(&mut self, service: &mut Value) -> Result<()> {
        let asked = int(&service["spec"]["healthCheckNodePort"]);
        let port = if asked == 0 {
            self.any_port()?
        } else {
            self.pool.claim_port(asked, self.dry_run).map_err(|words| {
                failure(&format!("failed to allocate requested HealthCheck NodePort {asked}: {words}"))
            })?;
            asked
        };
        members(service, "spec").insert("healthCheckNodePort".to_owned(), port.into());
        Ok(())
    }
}

fn allocates_ports(service: &Value) -> bool {
    match text(&service["spec"]["type"]) {
        "NodePort" => true,
        "LoadBalancer" => truth(&service["spec"]["allocateLoadBalancerNodePorts"]),
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
fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        let spec = members(new, "spec");
        for field in ["clusterIP", "clusterIPs"] {
            let kept = &old["spec"][field];
            if spec.get(field).is_none_or(empty) && !empty(kept) {
                spec.insert(field.to_owned(), kept.clone());
            }
        }
    }
    if allocates_ports(old) && allocates_ports(new) {
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
fn normalise(new: &mut Value, old: Option<&Value>) {
    let one = filled(&new["spec"]["clusterIP"]).map(ToOwned::to_owned);
    let same_list =
        old.is_some_and(|old| items(&old["spec"]["clusterIPs"]) == items(&new["spec"]["clusterIPs"]));
    let spec = members(new, "spec");
    let Some(old) = old else {
        if let Some(one) = one
            && spec.get("clusterIPs").is_none_or(empty)
        {
            spec.insert("clusterIPs".to_owned(), vec![one].into());
        }
        return;
    };
    let was = filled(&old["spec"]["clusterIP"]);
    if one.as_deref() == was {
        if spec.get("clusterIPs").is_none_or(empty) && !empty(&old["spec"]["clusterIPs"]) {
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
pub const FIRST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

#[cfg(test)]
mod tests;
