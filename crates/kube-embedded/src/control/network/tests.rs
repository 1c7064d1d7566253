//! Tests of Services and their endpoints through the API.

use serde_json::{Value, json};

use crate::clock::{Clock, rfc3339};
use crate::control::test_cluster::TestCluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// A cluster with one node that is not simulated.
async fn world() -> TestCluster {
    let world = TestCluster::without_nodes().await;
    let labels = json!({"sim.longshore.dev/node": "false", "topology.kubernetes.io/zone": "z"});
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n", "labels": labels}})).await;
    world
}

fn web_service() -> Value {
    json!({"metadata": {"name": "web", "labels": {"tier": "front"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}})
}

/// Creates a pod of `web` that listens on `port`, not ready yet.
async fn create_ready_pod(world: &TestCluster, name: &str, address: u8, port: u16) {
    let ports = json!([{"name": "http", "containerPort": port}]);
    let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": ports}]}});
    world.create(PODS, pod).await;
    let ip = format!("10.0.0.{address}");
    patch_status(world, name, json!({"podIP": ip, "podIPs": [{"ip": ip}], "phase": "Running"})).await;
}

async fn patch_status(world: &TestCluster, name: &str, status: Value) {
    world.patch(&format!("{PODS}/{name}/status"), json!({"status": status})).await;
}

async fn set_ready(world: &TestCluster, name: &str, truth: &str) {
    let now = rfc3339(world.clock.now());
    let condition = json!({"type": "Ready", "status": truth, "lastTransitionTime": now});
    patch_status(world, name, json!({"conditions": [condition]})).await;
}

/// Formats each slice of a Service as one line: ports, then endpoints with their true conditions.
async fn slices(world: &TestCluster, service: &str) -> Vec<String> {
    let query = format!("{SLICES}?labelSelector=kubernetes.io/service-name%3D{service}");
    let mut lines: Vec<String> = world.list(&query).await.iter().map(render_slice).collect();
    lines.sort();
    lines
}

fn render_slice(slice: &Value) -> String {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports = items(&slice["ports"]).into_iter().map(|port| port["port"].to_string());
    let endpoints = items(&slice["endpoints"]).into_iter().map(|endpoint| {
        let conditions = endpoint["conditions"].as_object().cloned().unwrap_or_default();
        let holding: Vec<_> =
            conditions.iter().filter(|(_, holds)| **holds == true).map(|(name, _)| name.as_str()).collect();
        let who = endpoint["targetRef"]["name"].as_str().or(endpoint["addresses"][0].as_str());
        format!("{}({})", who.unwrap(), holding.join(" "))
    });
    format!("{}: {}", ports.collect::<Vec<_>>().join(","), endpoints.collect::<Vec<_>>().join(" "))
}

#[tokio::test]
async fn a_service_follows_its_pods() {
    let world = world().await;
    world.create(SERVICES, web_service()).await;
    assert_eq!(slices(&world, "web").await, [": "]);
    create_ready_pod(&world, "a", 1, 8080).await;
    assert_eq!(slices(&world, "web").await, ["8080: a()"]);
    set_ready(&world, "a", "True").await;
    create_ready_pod(&world, "b", 2, 8080).await;
    create_ready_pod(&world, "c", 3, 8081).await;
    assert_eq!(slices(&world, "web").await, ["8080: a(ready serving) b()", "8081: c()"]);
    let endpoints = world.get(&format!("{ENDPOINTS}/web")).await;
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["targetRef"]["name"], "a");
    assert_eq!(endpoints["subsets"][0]["notReadyAddresses"][0]["ip"], "10.0.0.2");
    assert_eq!(endpoints["subsets"][1]["ports"], json!([{"name": "http", "port": 8081, "protocol": "TCP"}]));

    // A terminating pod may still serve, but is not ready.
    world.patch(&format!("{PODS}/a"), json!({"metadata": {"finalizers": ["x.dev/held"]}})).await;
    world.delete(&format!("{PODS}/a")).await;
    assert_eq!(slices(&world, "web").await, ["8080: a(serving terminating) b()", "8081: c()"]);
    patch_status(&world, "a", json!({"phase": "Succeeded"})).await;
    world.patch(&format!("{PODS}/c"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(slices(&world, "web").await, ["8080: b()"]);

    world.delete(&format!("{SERVICES}/web")).await;
    assert_eq!(slices(&world, "web").await, [""; 0]);
    assert_eq!(world.send("GET", &format!("{ENDPOINTS}/web"), "", Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_slice_is_written_as_kubernetes_writes_it() {
    let world = world().await;
    world.create(SERVICES, web_service()).await;
    create_ready_pod(&world, "a", 1, 8080).await;
    world.advance(5).await;
    set_ready(&world, "a", "True").await;
    let mut slice = world.list(&format!("{SLICES}?labelSelector=tier%3Dfront")).await.remove(0);
    let metadata = slice["metadata"].as_object_mut().unwrap();
    assert!(metadata.remove("name").unwrap().as_str().unwrap().starts_with("web-"));
    for part in ["managedFields", "resourceVersion", "uid"] {
        metadata.remove(part);
    }
    slice["endpoints"][0]["targetRef"]["uid"] = "u".into();
    slice["metadata"]["ownerReferences"][0]["uid"] = "u".into();
    insta::assert_json_snapshot!("slice", slice);
    let mut endpoints = world.get(&format!("{ENDPOINTS}/web")).await;
    endpoints["subsets"][0]["addresses"][0]["targetRef"]["uid"] = "u".into();
    for part in ["managedFields", "resourceVersion", "uid"] {
        endpoints["metadata"].as_object_mut().unwrap().remove(part);
    }
    insta::assert_json_snapshot!("endpoints", endpoints);
}

#[tokio::test]
async fn a_headless_service_names_hosts_and_may_publish_what_is_not_ready() {
    let world = world().await;
    let spec = json!({"selector": {"app": "web"}, "clusterIP": "None", "publishNotReadyAddresses": true,
        "trafficDistribution": "PreferSameNode"});
    world.create(SERVICES, json!({"metadata": {"name": "head"}, "spec": spec})).await;
    let pod = json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "spec": {"nodeName": "n",
        "hostname": "h", "subdomain": "head", "containers": [{"name": "c", "image": "i"}]}});
    world.create(PODS, pod).await;
    patch_status(
        &world,
        "a",
        json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"}),
    )
    .await;
    assert_eq!(slices(&world, "head").await, [": a(ready)"]);
    let slice = &world.list(&format!("{SLICES}?labelSelector=service.kubernetes.io/headless")).await[0];
    let endpoint = &slice["endpoints"][0];
    assert_eq!((&endpoint["hostname"], &endpoint["zone"]), (&json!("h"), &json!("z")));
    assert_eq!(endpoint["hints"], json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "n"}]}));
    let endpoints = world.get(&format!("{ENDPOINTS}/head")).await;
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["hostname"], "h");
    assert_eq!(endpoints["metadata"]["labels"]["service.kubernetes.io/headless"], "");
}

#[tokio::test]
async fn pod_on_unknown_node_is_added_when_node_appears() {
    let world = TestCluster::without_nodes().await;
    world.create(SERVICES, web_service()).await;
    create_ready_pod(&world, "a", 1, 8080).await;
    assert_eq!(slices(&world, "web").await, [": "]);
    let why = "Error updating Endpoint Slices for Service default/web: skipping Pod a for Service default/web: \
        Node n Not Found";
    assert_eq!(
        world.list_events("default", "Service").await,
        [format!("FailedToUpdateEndpointSlices: {why}")]
    );
    let labels = json!({"sim.longshore.dev/node": "false"});
    world.create("/api/v1/nodes", json!({"metadata": {"name": "n", "labels": labels}})).await;
    assert_eq!(slices(&world, "web").await, ["8080: a()"]);
}

#[tokio::test]
async fn custom_endpoints_are_mirrored() {
    let world = world().await;
    let service = |selector: Value| {
        json!({"metadata": {"name": "own"},
        "spec": {"selector": selector, "ports": [{"port": 80}]}})
    };
    let addresses = json!([{"ip": "10.1.1.2"}, {"ip": "10.1.1.1"}]);
    let endpoints = json!({"metadata": {"name": "own", "labels": {"a": "b"}},
        "subsets": [{"addresses": addresses, "notReadyAddresses": [{"ip": "10.1.1.3"}], "ports": [{"port": 80}]}]});
    world.create(ENDPOINTS, endpoints).await;
    assert_eq!(slices(&world, "own").await, [""; 0], "nobody asks for them yet");
    world.create(SERVICES, service(Value::Null)).await;
    assert_eq!(slices(&world, "own").await, ["80: 10.1.1.1(ready) 10.1.1.2(ready) 10.1.1.3()"]);

    let subsets = json!([{"addresses": [{"ip": "10.1.1.9"}], "ports": [{"port": 81}]}]);
    world.patch(&format!("{ENDPOINTS}/own"), json!({"subsets": subsets})).await;
    assert_eq!(slices(&world, "own").await, ["81: 10.1.1.9(ready)"]);
    assert_eq!(world.list(&format!("{SLICES}?labelSelector=a%3Db")).await.len(), 1);

    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    world.patch(&format!("{ENDPOINTS}/own"), json!({"metadata": {"labels": skip}})).await;
    assert_eq!(slices(&world, "own").await, [""; 0]);
    world.delete(&format!("{SERVICES}/own")).await;
    assert_eq!(world.send("GET", &format!("{ENDPOINTS}/own"), "", Value::Null).await.0, 404);
}

#[tokio::test]
async fn kubernetes_service_is_restored() {
    let world = TestCluster::without_nodes().await;
    let places = [SERVICES, ENDPOINTS, SLICES].map(|place| format!("{place}/kubernetes"));
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    for place in &places {
        let before = world.get(place).await;
        world.delete(place).await;
        let after = world.get(place).await;
        assert_ne!(before["metadata"]["uid"], after["metadata"]["uid"]);
        for part in ["spec", "subsets", "endpoints", "ports"] {
            assert_eq!(before[part], after[part]);
        }
        assert_eq!(world.list(addresses).await[0]["spec"]["parentRef"]["name"], "kubernetes");
    }
}

#[tokio::test]
async fn ip_address_names_its_service() {
    let world = TestCluster::without_nodes().await;
    let place = "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.9";
    let service = |name: &str| {
        json!({"metadata": {"name": name},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}})
    };
    world.create(SERVICES, service("one")).await;
    assert_eq!(world.get(place).await["spec"]["parentRef"]["name"], "one");
    world.delete(place).await;
    assert_eq!(world.get(place).await["spec"]["parentRef"]["name"], "one");
    world.delete(&format!("{SERVICES}/one")).await;
    assert_eq!(world.send("GET", place, "", Value::Null).await.0, 404);
    world.create(SERVICES, service("two")).await;
    assert_eq!(world.get(place).await["spec"]["parentRef"]["name"], "two");
}

#[tokio::test]
async fn service_cidr_is_deleted_after_its_last_address() {
    let world = TestCluster::without_nodes().await;
    let place = "/apis/networking.k8s.io/v1/servicecidrs";
    let ready = |range: &Value| range["status"]["conditions"][0]["status"] == "True";
    let first = world.get(&format!("{place}/kubernetes")).await;
    assert!(ready(&first));
    // The API's own address is always in use.
    world.delete(&format!("{place}/kubernetes")).await;
    let first = world.get(&format!("{place}/kubernetes")).await;
    assert_eq!(first["status"]["conditions"][0]["reason"], "Terminating");
    let wider = json!({"metadata": {"name": "wider"}, "spec": {"cidrs": ["10.0.0.0/8"]}});
    world.create(place, wider).await;
    assert!(ready(&world.get(&format!("{place}/wider")).await));
    let again = world.get(&format!("{place}/kubernetes")).await;
    assert!(ready(&again) && again["metadata"]["uid"] != first["metadata"]["uid"]);
    world.delete(&format!("{place}/wider")).await;
    assert_eq!(world.list(place).await.len(), 1);
}
