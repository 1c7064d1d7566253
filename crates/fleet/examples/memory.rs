//! Memory of the fleet's cache: 5,000 nodes, 50,000 pods and the workloads of 2,000 accounts, from a fake API server so
//! that nothing else is measured. `cargo run --release -p fleet --example memory`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::clock::SystemClock;
use fleet::{Fleet, Namespaces, Page, Settings, Visibility};
use futures::stream::pending;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use kube_access::Clients;
use serde_json::{Value, json};
use tower::service_fn;

/// The same allocator as the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const ACCOUNTS: usize = 2_000;
const DEPLOYMENTS: usize = 10_000;
const JOBS: usize = 2_000;
const GOAL_MIB: u64 = 64;
const SETTLE_TIME: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = kube::Client::new(service_fn(fake_api_server), "default");
    let (before, begun) = (resident_mib()?, Instant::now());
    // The fake API server is slow in a debug build.
    let settings = Settings { sync_timeout: Duration::from_mins(10), ..Settings::default() };
    let fleet = Fleet::start(Clients::new(client), Arc::new(SystemClock), settings).await?;
    let took = begun.elapsed();
    // Temporary memory is freed shortly afterwards.
    tokio::time::sleep(SETTLE_TIME).await;
    let after = resident_mib()?;
    let whole = fleet.view(Visibility { tenant: None, namespaces: Namespaces::All });
    for kind in whole.overview().cluster_status {
        eprintln!("{:>6} {}", kind.total_num, kind.kind);
    }
    let taken = after.saturating_sub(before);
    eprintln!("resident: {before} MiB before, {after} MiB after {took:.1?}: {taken} MiB (goal {GOAL_MIB})");

    let (tenant, names) = ("u0000000007".to_owned(), ["u0000000007".to_owned()]);
    let own = fleet.view(Visibility { tenant: Some(&tenant), namespaces: Namespaces::Only(&names) });
    let page = Page { after: None, limit: 500 };
    measure("overview of an account", || own.overview().cluster_status.len());
    measure("nodes of an account", || own.nodes_page(page).0.len());
    measure("deployments of an account", || own.deployments_page(page).0.len());
    measure("overview of all", || whole.overview().cluster_status.len());
    measure("first nodes of all", || whole.nodes_page(page).0.len());
    Ok(())
}

fn measure(what: &str, look: impl Fn() -> usize) {
    const TIMES: u32 = 20;
    let begun = Instant::now();
    let rows: usize = (0..TIMES).map(|_| look()).sum();
    eprintln!("{what}: {:?} for {} rows", begun.elapsed() / TIMES, rows / TIMES as usize);
}

/// Resident memory, in MiB.
fn resident_mib() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024)
}

/// Lists in pages; a watch stays silent.
async fn fake_api_server(
    request: Request<Body>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if parameter("watch").is_some() {
        let silence = StreamBody::new(pending::<Result<Frame<Bytes>, Infallible>>());
        return Ok(Response::new(silence.boxed_unsync()));
    }
    let number =
        |name: &str, default: usize| parameter(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (from, limit) = (number("continue", 0), number("limit", usize::MAX));
    let (make, count): (fn(usize) -> Value, usize) = match request.uri().path() {
        "/api/v1/nodes" => (node, NODES),
        "/api/v1/pods" => (pod, PODS),
        "/apis/apps/v1/deployments" => (deployment, DEPLOYMENTS),
        "/apis/batch/v1/jobs" => (job, JOBS),
        _ => (node, 0),
    };
    let end = count.min(from.saturating_add(limit));
    let more = if end < count { end.to_string() } else { String::new() };
    let items: Vec<Value> = (from..end).map(make).collect();
    let list = json!({"metadata": {"resourceVersion": "1", "continue": more}, "items": items, "groups": []});
    Ok(Response::new(Full::from(list.to_string()).boxed_unsync()))
}

fn account(number: usize) -> String {
    format!("u{:010}", number % ACCOUNTS)
}

fn uid(number: usize) -> String {
    format!("0b5f4b3e-8f1c-4d2a-9d0e-{number:012}")
}

fn node(number: usize) -> Value {
    let name = format!("edge-node-{number:05}");
    json!({
        "metadata": {
            "name": name, "uid": uid(number), "resourceVersion": "1", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {
                "apps.openyurt.io/desired-nodepool": format!("pool-{}", number % 50), "apps.openyurt.io/nodepool": format!("pool-{}", number % 50),
                "beta.kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64",
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "openyurt.io/is-edge-worker": "true",
                "openyurt/tenant": account(number), "topology.kubernetes.io/region": "hz", "topology.kubernetes.io/zone": format!("hz-{}", number % 9),
            },
            "annotations": {
                "flannel.alpha.coreos.com/backend-data": format!("{{\"VNI\":1,\"VtepMAC\":\"{number:012x}\"}}"),
                "flannel.alpha.coreos.com/backend-type": "vxlan", "flannel.alpha.coreos.com/kube-subnet-manager": "true",
                "flannel.alpha.coreos.com/public-ip": format!("10.{}.{}.7", number / 250, number % 250),
                "kubeadm.alpha.kubernetes.io/cri-socket": "/run/containerd/containerd.sock", "node.alpha.kubernetes.io/ttl": "0",
                "nodepool.openyurt.io/previous-attributes": "{\"labels\":{\"apps.openyurt.io/nodepool\":\"pool\"}}",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"taints": [{"key": "openyurt/tenant", "value": account(number), "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "8145900Ki", "ephemeral-storage": "41152812Ki", "pods": "110"},
            "allocatable": {"cpu": "3920m", "memory": "7145900Ki", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}],
            "addresses": [{"type": "InternalIP", "address": format!("10.{}.{}.7", number / 250, number % 250)}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"kernelVersion": "5.10.0", "containerRuntimeVersion": "containerd://1.7", "osImage": "Debian 12", "operatingSystem": "linux",
                         "kubeletVersion": "v1.30.0", "kubeProxyVersion": "v1.30.0", "architecture": "arm64", "machineID": uid(number)},
            "images": [{"names": ["registry.example.com/some/image:1"], "sizeBytes": 1}],
        },
    })
}

fn containers(number: usize) -> Value {
    json!([{
        "name": "app", "image": format!("registry.example.com/team/app-{}:1.{}", number % 300, number % 7),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
    }])
}

fn pod(number: usize) -> Value {
    let workload = number % DEPLOYMENTS;
    json!({
        "metadata": {
            "name": format!("app-{workload}-7d4b9c8f6d-{number:05}"), "namespace": account(workload), "uid": uid(number), "resourceVersion": "1",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app.kubernetes.io/name": format!("app-{workload}"), "app.kubernetes.io/instance": format!("app-{workload}"),
                       "app.kubernetes.io/managed-by": "Helm", "pod-template-hash": "7d4b9c8f6d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app", "uid": uid(number)}],
        },
        "spec": {"nodeName": format!("edge-node-{:05}", number % NODES), "containers": containers(number), "serviceAccountName": "default"},
        "status": {"phase": "Running", "podIP": format!("10.244.{}.{}", number / 250, number % 250), "hostIP": "10.0.0.7",
                   "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}],
                   "containerStatuses": [{"name": "app", "restartCount": number % 3, "ready": true, "state": {"running": {}}, "image": "i", "imageID": ""}]},
    })
}

fn deployment(number: usize) -> Value {
    json!({
        "metadata": {"name": format!("app-{number}"), "namespace": account(number), "uid": uid(number), "resourceVersion": "1", "generation": 1,
                     "labels": {"app.kubernetes.io/name": format!("app-{number}"), "app.kubernetes.io/managed-by": "Helm"}},
        "spec": {"replicas": 5, "template": {"spec": {"containers": containers(number)}}},
        "status": {"replicas": 5, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 5, "observedGeneration": 1},
    })
}

fn job(number: usize) -> Value {
    json!({
        "metadata": {"name": format!("job-{number}"), "namespace": account(number), "uid": uid(number), "resourceVersion": "1"},
        "spec": {"template": {"spec": {"containers": containers(number)}}},
        "status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
    })
}
