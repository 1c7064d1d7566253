//! Pods that may run on a tenant's node, and objects that the node may read.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{NodeAttacker, TENANT_LABEL, assert_forbidden, operator_pod, ready_status};
use crate::console::ConsoleUser;
use crate::platform::until;
use crate::request::send_body;
use crate::target::Cluster;

const ALLOWED_DAEMONSETS_LABEL: &str = "longshore.dev/tenant-node-daemonsets";
const PLACEMENT_POLICY: &str = "longshore-tenant-node-placement";

fn from_json<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// An operator's DaemonSet `agent` with a Secret, a ServiceAccount and a toleration of all taints, on nodes with the
/// label `e2e`.
async fn deploy_agent(admin: &kube::Client, namespace: &str, label: &str) {
    let params = PostParams::default();
    let secret =
        from_json(json!({"metadata": {"name": "credentials"}, "stringData": {"password": "secret"}}));
    Api::<Secret>::namespaced(admin.clone(), namespace).create(&params, &secret).await.unwrap();
    let account = from_json(json!({"metadata": {"name": "agent"}}));
    Api::<ServiceAccount>::namespaced(admin.clone(), namespace).create(&params, &account).await.unwrap();
    let set = from_json(json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "serviceAccountName": "agent", "tolerations": [{"operator": "Exists"}], "nodeSelector": {"e2e": label},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "registry.invalid/x"}],
            "volumes": [{"name": "v", "secret": {"secretName": "credentials"}}]}}}}));
    Api::<DaemonSet>::namespaced(admin.clone(), namespace).create(&params, &set).await.unwrap();
}

/// A node of the cluster operator, which sorts after the tenants' nodes.
async fn create_operator_node(cluster: &Cluster, name: &str, label: &str) {
    cluster.remove_at_end(format!("/api/v1/nodes/{name}"));
    let nodes: Api<Node> = Api::all(cluster.client().await);
    let node = from_json(json!({"metadata": {"name": name, "labels": {"e2e": label}}}));
    nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(ready_status())).await.unwrap();
}

fn is_pod_on(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn daemonset_that_tolerates_everything_stays_off_a_tenants_node_until_it_is_allowed() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    let label = json!({"metadata": {"labels": {"e2e": attacker.name}}});
    let own: Api<Node> = Api::all(attacker.node.clone());
    own.patch(&attacker.name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let other = format!("z-{}", attacker.name);
    create_operator_node(&cluster, &other, &attacker.name).await;
    deploy_agent(&attacker.admin, &cluster.namespace, &attacker.name).await;

    let pods: Api<Pod> = Api::namespaced(attacker.admin.clone(), &cluster.namespace);
    let agents = ListParams::default().labels("app=agent");
    let waiting = until("the operator's node has its pod, the tenant's node has none", async || {
        let found = pods.list(&agents).await.unwrap().items;
        assert!(
            !found.iter().any(|pod| is_pod_on(pod, &attacker.name)),
            "a foreign pod is on a tenant's node"
        );
        let (placed, waiting): (Vec<_>, Vec<_>) = found.into_iter().partition(|pod| is_pod_on(pod, &other));
        (placed.len() == 1).then_some(waiting.into_iter().next()?)
    })
    .await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": waiting.name_any()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": attacker.name}});
    let at = format!("/api/v1/namespaces/{}/pods/{}/binding", cluster.namespace, waiting.name_any());
    let bound =
        send_body(&attacker.admin, http::Method::POST, &at, "application/json", binding.to_string()).await;
    assert!(bound.code == 403 && bound.text.contains(PLACEMENT_POLICY), "{}", bound.text);

    // The node cannot read the objects that the pod would have referred to.
    let secrets: Api<Secret> = Api::namespaced(attacker.node.clone(), &cluster.namespace);
    assert_forbidden("the Secret of a foreign pod", secrets.get("credentials").await);
    let accounts: Api<ServiceAccount> = Api::namespaced(attacker.node.clone(), &cluster.namespace);
    let request: TokenRequest = from_json(json!({"spec": {"audiences": [], "boundObjectRef":
        {"apiVersion": "v1", "kind": "Pod", "name": waiting.name_any(), "uid": waiting.uid()}}}));
    let token = accounts.create_token_request("agent", &PostParams::default(), &request).await;
    assert_forbidden("the token of a foreign pod", token);

    // An administrator allows it: kubectl annotate namespace <namespace> longshore.dev/tenant-node-daemonsets=other,agent
    let spaces: Api<Namespace> = Api::all(attacker.admin.clone());
    let allow = Patch::Merge(json!({"metadata": {"annotations": {ALLOWED_DAEMONSETS_LABEL: "other,agent"}}}));
    spaces.patch(&cluster.namespace, &PatchParams::default(), &allow).await.unwrap();
    until("the allowed DaemonSet has its pod on the tenant's node", async || {
        let found = pods.list(&agents).await.unwrap().items;
        found.iter().any(|pod| is_pod_on(pod, &attacker.name)).then_some(())
    })
    .await;
    until("the node reads the Secret of its pod", async || secrets.get("credentials").await.ok()).await;
    // Other pods of the namespace stay rejected.
    let placed = operator_pod("placed", &json!({"nodeName": attacker.name}));
    let refused = assert_forbidden("another pod", pods.create(&PostParams::default(), &placed).await);
    assert!(refused.contains(PLACEMENT_POLICY), "{refused}");

    let sets: Api<DaemonSet> = Api::namespaced(attacker.admin.clone(), &cluster.namespace);
    sets.delete("agent", &DeleteParams::default()).await.unwrap();
    for pod in pods.list(&agents).await.unwrap() {
        drop(pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_reads_secrets_and_configmaps_of_its_own_pods_only() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    let victim = ConsoleUser::register(&server, &cluster).await;
    attacker.report_ready().await;
    let spaces: Api<Namespace> = Api::all(attacker.admin.clone());
    let params = PostParams::default();
    for namespace in [&attacker.tenant, &victim.namespace] {
        until("the namespace is there", async || spaces.get_opt(namespace).await.unwrap()).await;
        for name in ["mounted", "other"] {
            let secret = from_json(json!({"metadata": {"name": name}, "stringData": {"a": "b"}}));
            Api::<Secret>::namespaced(attacker.admin.clone(), namespace)
                .create(&params, &secret)
                .await
                .unwrap();
            let map = from_json(json!({"metadata": {"name": name}, "data": {"a": "b"}}));
            Api::<ConfigMap>::namespaced(attacker.admin.clone(), namespace)
                .create(&params, &map)
                .await
                .unwrap();
        }
    }
    // The tenant's own pod is scheduled there, with its Secret and its ConfigMap.
    let pods: Api<Pod> = Api::namespaced(attacker.admin.clone(), &attacker.tenant);
    let pod = operator_pod(
        "own",
        &json!({"nodeSelector": {TENANT_LABEL: attacker.tenant}, "tolerations": [{"key": TENANT_LABEL, "value": attacker.tenant}],
            "volumes": [{"name": "s", "secret": {"secretName": "mounted"}}, {"name": "m", "configMap": {"name": "mounted"}}]}),
    );
    until("the namespace takes pods", async || pods.create(&params, &pod).await.ok()).await;
    until("the tenant's pod is on its node", async || {
        is_pod_on(&pods.get("own").await.unwrap(), &attacker.name).then_some(())
    })
    .await;

    let own = |namespace: &str| Api::<Secret>::namespaced(attacker.node.clone(), namespace);
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(attacker.node.clone(), namespace);
    until("the node reads what its pod mounts", async || {
        own(&attacker.tenant).get("mounted").await.ok()?;
        maps(&attacker.tenant).get("mounted").await.ok()
    })
    .await;
    for (namespace, name) in [
        (attacker.tenant.as_str(), "other"),
        (victim.namespace.as_str(), "mounted"),
        ("longshore-system", "mounted"),
        ("kube-system", "mounted"),
    ] {
        assert_forbidden(namespace, own(namespace).get(name).await);
        assert_forbidden(namespace, maps(namespace).get(name).await);
        assert_forbidden(namespace, own(namespace).list(&ListParams::default()).await);
        assert_forbidden(namespace, maps(namespace).list(&ListParams::default()).await);
    }
    assert_forbidden(
        "all Secrets",
        Api::<Secret>::all(attacker.node.clone()).list(&ListParams::default()).await,
    );
    // Kubernetes lets every node read the cluster's Services; EndpointSlices are for the identity of kube-proxy only.
    Api::<Service>::all(attacker.node.clone()).list(&ListParams::default()).await.unwrap();
    let slices = Api::<EndpointSlice>::all(attacker.node.clone()).list(&ListParams::default()).await;
    assert_forbidden("all EndpointSlices", slices);
    drop(pods.delete("own", &DeleteParams::default().grace_period(0)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_pods_stay_on_a_node_that_becomes_a_tenants() {
    let (cluster, _server) = Cluster::with_platform().await;
    let admin = cluster.client().await;
    let node = format!("z-{}", cluster.namespace);
    create_operator_node(&cluster, &node, &cluster.namespace).await;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), &cluster.namespace);
    let (params, tenant) = (PostParams::default(), "uaaaaaaaaaa");
    let foreign = operator_pod("foreign", &json!({"nodeName": node, "terminationGracePeriodSeconds": 0}));
    let tolerations = json!([{"key": TENANT_LABEL, "value": tenant}]);
    let own = operator_pod(
        "own",
        &json!({"nodeName": node, "terminationGracePeriodSeconds": 0, "tolerations": tolerations}),
    );
    for pod in [&foreign, &own] {
        until("the namespace takes pods", async || pods.create(&params, pod).await.ok()).await;
    }
    assert!(is_pod_on(&pods.get("foreign").await.unwrap(), &node));
    let taint = |effect: &str| json!({"key": TENANT_LABEL, "value": tenant, "effect": effect});
    let taints = json!({"spec": {"taints": [taint("NoSchedule"), taint("NoExecute")]}});
    let nodes: Api<Node> = Api::all(admin);
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(taints)).await.unwrap();
    until("the foreign pod is evicted", async || {
        let found = pods.get_opt("foreign").await.unwrap();
        found.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()).then_some(())
    })
    .await;
    let own = pods.get("own").await.unwrap();
    assert_eq!(own.metadata.deletion_timestamp, None, "the tenant's own pod tolerates the taint");
    drop(pods.delete("own", &DeleteParams::default().grace_period(0)).await);
}
