//! Fills the cluster through its API and the platform's.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{ACCOUNTS, DEPLOYMENTS_PER_ACCOUNT, NODES, PODS};
use crate::platform_server::{BenchUser, PlatformServer};

/// Number of concurrent creations.
const MAX_CONCURRENT: usize = 32;

pub async fn fill(server: &PlatformServer, client: Client) -> Result<Vec<BenchUser>> {
    let people: Vec<BenchUser> = stream::iter(0..ACCOUNTS)
        .map(|number| server.register(number))
        .buffered(MAX_CONCURRENT)
        .try_collect()
        .await
        .context("cannot register everybody")?;
    let nodes: Api<Node> = Api::all(client.clone());
    let owner = |number: usize| people[number % people.len()].id.as_str();
    create_concurrently(NODES, async |number| {
        let node = serde_json::from_value(node(number, owner(number)))?;
        nodes.create(&PostParams::default(), &node).await?;
        let status = json!({"status": node_status(number)});
        nodes.patch_status(&node_name(number), &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    })
    .await
    .context("cannot make the nodes")?;
    create_concurrently(ACCOUNTS * DEPLOYMENTS_PER_ACCOUNT, async |number| {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), owner(number));
        let made = serde_json::from_value(deployment(number))?;
        deployments.create(&PostParams::default(), &made).await?;
        let status = json!({"status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3}});
        deployments.patch_status(&format!("web-{number}"), &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    })
    .await
    .context("cannot make the deployments")?;
    create_concurrently(PODS, async |number| {
        let pods: Api<Pod> = Api::namespaced(client.clone(), owner(number));
        let made = serde_json::from_value(pod(number))?;
        pods.create(&PostParams::default(), &made).await?;
        let status = json!({"status": {
            "phase": "Running", "podIP": "10.244.1.7", "hostIP": "10.0.0.7", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
            "containerStatuses": [{"name": "app", "image": "nginx:1.25", "imageID": "", "ready": true, "restartCount": 0}],
        }});
        pods.patch_status(&format!("web-{number}"), &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    })
    .await
    .context("cannot make the pods")?;
    Ok(people)
}

async fn create_concurrently(count: usize, make: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
    stream::iter(0..count).map(|number| make(number)).buffer_unordered(MAX_CONCURRENT).try_collect().await
}

fn node_name(number: usize) -> String {
    format!("edge-{number:05}")
}

/// A node as a kubelet and the join tool register it.
fn node(number: usize, tenant: &str) -> Value {
    let name = node_name(number);
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "openyurt/tenant": tenant, "openyurt.io/is-edge-worker": "true", "apps.openyurt.io/nodepool": format!("pool-{}", number % 50),
                "kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "kubernetes.io/hostname": name,
                "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [{"key": "openyurt/tenant", "value": tenant, "effect": "NoSchedule"}]},
    })
}

fn node_status(number: usize) -> Value {
    let [_, _, high, low] = u32::try_from(number).unwrap_or_default().to_be_bytes();
    let resources =
        json!({"cpu": "4", "memory": "7966876Ki", "ephemeral-storage": "41921540Ki", "pods": "110"});
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": format!("kubelet says {reason}"),
               "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "capacity": resources, "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": format!("10.1.{high}.{low}")}, {"type": "Hostname", "address": node_name(number)}],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"), condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", if number.is_multiple_of(10) { "Unknown" } else { "True" }, "KubeletReady"),
        ],
        "nodeInfo": {
            "machineID": format!("{number:032x}"), "systemUUID": format!("{number:032x}"), "bootID": format!("{number:032x}"),
            "kernelVersion": "5.10.134-16.al8.aarch64", "osImage": "Alibaba Cloud Linux (Aliyun Linux) 3", "containerRuntimeVersion": "containerd://1.6.21",
            "kubeletVersion": "v1.32.3", "kubeProxyVersion": "v1.32.3", "operatingSystem": "linux", "architecture": "arm64",
        },
    })
}

fn containers() -> Value {
    let asked =
        json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}});
    json!([{"name": "app", "image": "nginx:1.25", "resources": asked}])
}

fn deployment(number: usize) -> Value {
    let labels = json!({"app": format!("web-{number}"), "tier": "front"});
    json!({
        "metadata": {"name": format!("web-{number}"), "labels": labels},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers()}}},
    })
}

fn pod(number: usize) -> Value {
    json!({
        "metadata": {"name": format!("web-{number}"), "labels": {"app": format!("web-{}", number % 4000), "pod-template-hash": "5d78c9869d"}},
        "spec": {"nodeName": node_name(number % NODES), "containers": containers(), "tolerations": [{"operator": "Exists"}]},
    })
}
