//! Node object, status and Lease of this machine. Pure except for [`HostFacts::read`].

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube_types::well_known::{DESIRED_POOL, EDGE_WORKER, TENANT};
use serde_json::{Value, json};

use super::join_args::ServerAddress;

/// Lease duration and maximum number of pods, as in the kubelet.
const LEASE_DURATION_SECONDS: u32 = 40;
const MAX_PODS: u32 = 110;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Conditions of a healthy node: type, status, reason, message.
#[rustfmt::skip]
const HEALTHY_CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "machine has sufficient memory available"),
    ("DiskPressure",   "False", "KubeletHasNoDiskPressure",   "machine has no disk pressure"),
    ("PIDPressure",    "False", "KubeletHasSufficientPID",    "machine has sufficient PID available"),
    ("Ready",          "True",  "KubeletReady",               "machine is ready"),
];
/// Condition of a node that leaves.
const LEAVING_CONDITIONS: [(&str, &str, &str, &str); 1] =
    [("Ready", "False", "NodeReset", "machine has left the cluster")];

/// Facts about the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    pub cpus: usize,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub kernel: String,
    pub system: String,
    pub address: Option<IpAddr>,
}

impl HostFacts {
    /// Reads the facts. Sends nothing: the address is the local one that would be used to reach the server.
    pub fn read(server: &ServerAddress, dir: &Path) -> Self {
        let memory = rustix::system::sysinfo();
        let disk = rustix::fs::statvfs(dir).map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.totalram.saturating_mul(u64::from(memory.mem_unit)),
            disk_bytes: disk.unwrap_or_default(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            system: system.unwrap_or(std::env::consts::OS).trim_matches('"').to_owned(),
            address: local_address_for(server),
        }
    }
}

fn local_address_for(server: &ServerAddress) -> Option<IpAddr> {
    let there = server.host_and_port().to_socket_addrs().ok()?.next()?;
    let any = if there.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(there).ok()?;
    socket.local_addr().ok().map(|here| here.ip())
}

/// The data with which a node is registered.
#[derive(Clone, Debug)]
pub struct NodeRegistration {
    pub name: String,
    pub id: String,
    pub pool: Option<String>,
    pub labels: Vec<(String, String)>,
    pub facts: HostFacts,
}

impl NodeRegistration {
    /// The Node object for registration.
    pub fn node_object(&self, now: Timestamp) -> Value {
        let mut labels = self.registered_labels();
        labels.extend(self.pool.as_deref().map(|pool| (DESIRED_POOL, pool)));
        let mut status = self.status(None, &HEALTHY_CONDITIONS, now);
        // Without conditions: a node is not ready before it has reported for the first time.
        status.as_object_mut().map(|status| status.remove("conditions"));
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "status": status,
        })
    }

    /// All labels except the pool's.
    fn registered_labels(&self) -> BTreeMap<&str, &str> {
        let mut labels = BTreeMap::from([
            ("kubernetes.io/arch", architecture()),
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", std::env::consts::OS),
            (EDGE_WORKER, "true"),
        ]);
        labels.extend(self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        labels
    }

    /// Labels missing on an existing Node. The pool is excluded: it was chosen by the Node's creator.
    pub fn missing_labels(&self, node: &Node) -> BTreeMap<&str, &str> {
        let found = node.metadata.labels.as_ref();
        let has = |key: &str, value: &str| {
            found.and_then(|labels| labels.get(key)).is_some_and(|found| found == value)
        };
        self.registered_labels().into_iter().filter(|(key, value)| !has(key, value)).collect()
    }

    /// Status patch of a healthy node.
    pub fn ready_status_patch(&self, observed: &Node, now: Timestamp) -> Value {
        json!({ "status": self.status(Some(observed), &HEALTHY_CONDITIONS, now) })
    }

    fn status(&self, seen: Option<&Node>, conditions: &[ConditionRow], now: Timestamp) -> Value {
        let facts = &self.facts;
        let amounts = json!({
            "cpu": facts.cpus.to_string(), "memory": kibibytes(facts.memory_bytes),
            "ephemeral-storage": kibibytes(facts.disk_bytes), "pods": MAX_PODS.to_string(),
        });
        let mut addresses = vec![json!({"type": "Hostname", "address": self.name})];
        addresses.extend(facts.address.map(|ip| json!({"type": "InternalIP", "address": ip.to_string()})));
        json!({
            "capacity": amounts, "allocatable": amounts, "addresses": addresses,
            "conditions": conditions_with_transitions(seen, conditions, now),
            "nodeInfo": {
                "architecture": architecture(), "bootID": "", "containerRuntimeVersion": format!("none://{VERSION}"),
                "kernelVersion": facts.kernel, "kubeProxyVersion": "", "kubeletVersion": format!("v{VERSION}+longshore"),
                "machineID": self.id, "operatingSystem": std::env::consts::OS, "osImage": facts.system, "systemUUID": "",
            },
        })
    }

    /// Whether a Node is this machine's: it registered it, or the platform created it for a tenant and no machine has
    /// reported yet.
    pub fn owns(&self, node: &Node) -> bool {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let machine = info.map_or("", |info| info.machine_id.as_str());
        let of_tenant = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(TENANT));
        machine == self.id || machine.is_empty() && of_tenant
    }
}

type ConditionRow = (&'static str, &'static str, &'static str, &'static str);

/// Status patch of a node that leaves.
pub fn leaving_status_patch(seen: &Node, now: Timestamp) -> Value {
    json!({ "status": { "conditions": conditions_with_transitions(Some(seen), &LEAVING_CONDITIONS, now) } })
}

/// Conditions with their transition times.
fn conditions_with_transitions(
    seen: Option<&Node>,
    conditions: &[ConditionRow],
    now: Timestamp,
) -> Vec<Value> {
    let seconds = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let one = |(kind, status, reason, message): &ConditionRow| {
        let before =
            seen.and_then(|node| find_condition(node, kind)).filter(|before| before.status == *status);
        let since = before.and_then(|before| before.last_transition_time.as_ref());
        let since = since.map_or(json!(seconds), |since| json!(since));
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": seconds, "lastTransitionTime": since,
        })
    };
    conditions.iter().map(one).collect()
}

pub fn find_condition<'a>(
    node: &'a Node,
    kind: &str,
) -> Option<&'a k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().find(|condition| condition.type_ == kind)
}

/// A new Lease, owned by the Node so that it is deleted with it.
pub fn new_lease(node: &Node, now: Timestamp) -> Value {
    let (name, uid) = (&node.metadata.name, &node.metadata.uid);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": format_micro_time(now)},
    })
}

/// Patch that renews the Lease.
pub fn lease_renewal_patch(now: Timestamp) -> Value {
    json!({ "spec": { "renewTime": format_micro_time(now) } })
}

fn format_micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn kibibytes(bytes: u64) -> String {
    format!("{}Ki", bytes / 1024)
}

/// Go's name of the architecture, as Kubernetes uses it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}
