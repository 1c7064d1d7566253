//! Tests of claims and volumes in a cluster without nodes, with the simulated provisioner.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A claim with additional fields in its spec.
fn claim(name: &str, size: &str, more: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    let Value::Object(more) = more else { panic!("fields are an object") };
    spec.as_object_mut().unwrap().extend(more);
    json!({"metadata": {"name": name}, "spec": spec})
}

fn volume(name: &str, size: &str, more: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}});
    let Value::Object(more) = more else { panic!("fields are an object") };
    spec.as_object_mut().unwrap().extend(more);
    json!({"metadata": {"name": name}, "spec": spec})
}

fn no_class() -> Value {
    json!({"storageClassName": ""})
}

fn csi_source() -> Value {
    json!({"csi": {"driver": "d", "volumeHandle": "h"}})
}

async fn get(world: &TestCluster, claim: &str) -> Value {
    world.get(&format!("{CLAIMS}/{claim}")).await
}

/// The phases of claims and volumes, by name.
async fn phases(world: &TestCluster) -> Vec<String> {
    let mut all = world.list(CLAIMS).await;
    all.extend(world.list(VOLUMES).await);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter().map(|o| format!("{} {}", text(&o["metadata"]["name"]), text(&o["status"]["phase"]))).collect()
}

#[tokio::test]
async fn claim_of_default_class_is_provisioned() {
    let world = TestCluster::without_nodes().await;
    world.create(CLAIMS, claim("data", "1Gi", json!({}))).await;
    let data = get(&world, "data").await;
    let name = format!("pvc-{}", data["metadata"]["uid"].as_str().unwrap());
    assert_eq!(data["spec"]["volumeName"], *name);
    assert_eq!(
        data["metadata"]["annotations"],
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
            "volume.beta.kubernetes.io/storage-provisioner": "sim.longshore.dev/volume",
            "volume.kubernetes.io/storage-provisioner": "sim.longshore.dev/volume"})
    );
    assert_eq!(
        data["status"],
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}})
    );
    let made = world.get(&format!("{VOLUMES}/{name}")).await;
    assert_eq!(
        (&made["status"]["phase"], &made["spec"]["storageClassName"]),
        (&json!("Bound"), &json!("standard"))
    );
    assert_eq!(
        made["metadata"]["annotations"],
        json!({"pv.kubernetes.io/provisioned-by": "sim.longshore.dev/volume"})
    );
    let told = world.list_events("default", "PersistentVolumeClaim").await;
    assert!(
        told.contains(&format!("ProvisioningSucceeded: Successfully provisioned volume {name}")),
        "{told:#?}"
    );
    world.delete(&format!("{CLAIMS}/data")).await;
    assert_eq!(phases(&world).await, Vec::<String>::new());
}

#[tokio::test]
async fn claim_is_expanded() {
    let world = TestCluster::without_nodes().await;
    world.create(CLAIMS, claim("data", "1Gi", json!({}))).await;
    world
        .patch(&format!("{CLAIMS}/data"), json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}))
        .await;
    let data = get(&world, "data").await;
    assert_eq!(data["status"]["capacity"], json!({"storage": "3Gi"}));
    let volume = world.get(&format!("{VOLUMES}/{}", data["spec"]["volumeName"].as_str().unwrap())).await;
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "3Gi"}));
}

#[tokio::test]
async fn class_with_delayed_binding_waits_for_pod_and_node() {
    let world = TestCluster::without_nodes().await;
    let class = json!({"metadata": {"name": "late"}, "provisioner": "sim.longshore.dev/volume",
        "volumeBindingMode": "WaitForFirstConsumer"});
    world.create(CLASSES, class).await;
    world.create(CLAIMS, claim("data", "1Gi", json!({"storageClassName": "late"}))).await;
    assert_eq!(
        world.list_events("default", "PersistentVolumeClaim").await,
        ["WaitForFirstConsumer: waiting for first consumer to be created before binding"]
    );
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}});
    world.patch(&format!("{CLAIMS}/data"), selected).await;
    assert_eq!(get(&world, "data").await["status"]["phase"], "Bound");
}

#[tokio::test]
async fn unsatisfiable_claims_get_events() {
    let world = TestCluster::without_nodes().await;
    let class =
        |name: &str, provisioner: &str| json!({"metadata": {"name": name}, "provisioner": provisioner});
    world.create(CLASSES, class("ext", "example.com/x")).await;
    world.create(CLASSES, class("none", "kubernetes.io/no-provisioner")).await;
    world.create(CLASSES, class("ebs", "kubernetes.io/aws-ebs")).await;
    world.create(VOLUMES, volume("small", "1Gi", csi_source())).await;
    let table = [
        (
            no_class(),
            "FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        (
            json!({"storageClassName": "no"}),
            "ProvisioningFailed: storageclass.storage.k8s.io \"no\" not found",
        ),
        (
            json!({"storageClassName": "none"}),
            "ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (
            json!({"storageClassName": "ext"}),
            "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'example.com/x' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.",
        ),
        (
            json!({"storageClassName": "", "volumeName": "small"}),
            "VolumeMismatch: Cannot bind to requested volume \"small\": requested PV is too small",
        ),
    ];
    for (at, (more, words)) in table.into_iter().enumerate() {
        world.create(CLAIMS, claim(&format!("c{at}"), "2Gi", more)).await;
        assert_eq!(world.list_events("default", "PersistentVolumeClaim").await.last().unwrap(), words);
        assert_eq!(get(&world, &format!("c{at}")).await["status"], json!({"phase": "Pending"}));
    }
    world.create(CLAIMS, claim("moved", "2Gi", json!({"storageClassName": "ebs"}))).await;
    let asked =
        &get(&world, "moved").await["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"];
    assert_eq!(asked, "ebs.csi.aws.com");
}

#[tokio::test]
async fn manual_volume_is_bound_retained_and_released() {
    let world = TestCluster::without_nodes().await;
    world.create(CLAIMS, claim("data", "1Gi", no_class())).await;
    world.create(VOLUMES, volume("large", "5Gi", csi_source())).await;
    assert_eq!(phases(&world).await, ["data Bound", "large Bound"]);
    let large = world.get(&format!("{VOLUMES}/large")).await;
    assert_eq!(large["metadata"]["annotations"], json!({"pv.kubernetes.io/bound-by-controller": "yes"}));
    assert_eq!(get(&world, "data").await["status"]["capacity"], json!({"storage": "5Gi"}));
    world.delete(&format!("{VOLUMES}/large")).await;
    assert_eq!(phases(&world).await, ["data Bound", "large Bound"], "a claim holds it");
    world.delete(&format!("{CLAIMS}/data")).await;
    assert_eq!(phases(&world).await, Vec::<String>::new());

    world.create(VOLUMES, volume("kept", "1Gi", csi_source())).await;
    world.create(CLAIMS, claim("data", "1Gi", no_class())).await;
    world.delete(&format!("{CLAIMS}/data")).await;
    assert_eq!(phases(&world).await, ["kept Released"]);
    world.create(CLAIMS, claim("data", "1Gi", no_class())).await;
    assert_eq!(
        phases(&world).await,
        ["data Pending", "kept Released"],
        "another claim of that name gets nothing"
    );
    world.patch(&format!("{VOLUMES}/kept"), json!({"spec": {"claimRef": null}})).await;
    assert_eq!(phases(&world).await, ["data Bound", "kept Bound"]);
}

#[tokio::test]
async fn reserved_volume_waits_for_its_claim() {
    let world = TestCluster::without_nodes().await;
    let mut meant = csi_source();
    meant["claimRef"] = json!({"namespace": "default", "name": "mine"});
    world.create(VOLUMES, volume("meant", "9Gi", meant)).await;
    world.create(VOLUMES, volume("free", "1Gi", csi_source())).await;
    world.create(CLAIMS, claim("other", "2Gi", no_class())).await;
    world.create(CLAIMS, claim("named", "1Gi", json!({"storageClassName": "", "volumeName": "meant"}))).await;
    assert_eq!(
        world.list_events("default", "PersistentVolumeClaim").await.last().unwrap(),
        "FailedBinding: volume \"meant\" already bound to a different claim."
    );
    world.create(CLAIMS, claim("mine", "1Gi", no_class())).await;
    assert_eq!(
        phases(&world).await,
        ["mine Bound", "named Pending", "other Pending", "free Available", "meant Bound"]
    );
    assert_eq!(world.get(&format!("{VOLUMES}/meant")).await["metadata"]["annotations"], Value::Null);
}

#[tokio::test]
async fn reclaim_policy_is_applied_after_claim_deletion() {
    let world = TestCluster::without_nodes().await;
    let table = [
        (json!({"hostPath": {"path": "/srv/a"}}), "Delete", "v Failed"),
        (json!({"hostPath": {"path": "/tmp/a"}}), "Delete", ""),
        (json!({"nfs": {"server": "s", "path": "/a"}}), "Delete", "v Failed"),
        (json!({"nfs": {"server": "s", "path": "/a"}}), "Recycle", "v Available"),
        (csi_source(), "Recycle", "v Failed"),
        (csi_source(), "Delete", "v Released"),
        (csi_source(), "Retain", "v Released"),
    ];
    for (source, policy, expected) in table {
        let mut spec = source.clone();
        spec["persistentVolumeReclaimPolicy"] = policy.into();
        world.create(VOLUMES, volume("v", "1Gi", spec)).await;
        world.create(CLAIMS, claim("data", "1Gi", no_class())).await;
        world.delete(&format!("{CLAIMS}/data")).await;
        assert_eq!(phases(&world).await.join(" "), expected, "{policy} {source}");
        if !expected.is_empty() {
            world.delete(&format!("{VOLUMES}/v")).await;
        }
    }
    let told = world.list_events("default", "PersistentVolume").await;
    let failed = "VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /srv/a";
    assert_eq!(told[0], failed);
}

#[tokio::test]
async fn claim_is_lost_when_its_volume_is_deleted() {
    let world = TestCluster::without_nodes().await;
    world.create(VOLUMES, volume("v", "1Gi", csi_source())).await;
    world.create(CLAIMS, claim("data", "1Gi", no_class())).await;
    world.delete(&format!("{VOLUMES}/v")).await;
    world.patch(&format!("{VOLUMES}/v"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(get(&world, "data").await["status"], json!({"phase": "Lost"}));
    assert_eq!(
        world.list_events("default", "PersistentVolumeClaim").await.last().unwrap(),
        "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    );
}

#[tokio::test]
async fn claim_in_use_is_protected_until_pod_is_deleted() {
    let world = TestCluster::without_nodes().await;
    world.create(CLAIMS, claim("data", "1Gi", json!({}))).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "node-0", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    world.create(PODS, pod).await;
    world.delete(&format!("{CLAIMS}/data")).await;
    assert_eq!(world.list(CLAIMS).await.len(), 1);
    world.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await;
    assert_eq!(world.list(CLAIMS).await.len(), 0);
}

#[tokio::test]
async fn ephemeral_claims_are_created_and_deleted_with_pod() {
    let world = TestCluster::without_nodes().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": claim("x", "1Gi", json!({}))["spec"]});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]}});
    world.create(PODS, pod).await;
    let own = get(&world, "p-v").await;
    assert_eq!((&own["metadata"]["labels"], &own["status"]["phase"]), (&json!({"a": "b"}), &json!("Bound")));
    world.delete(&format!("{PODS}/p")).await;
    assert_eq!(world.list(CLAIMS).await.len(), 0);
}

#[tokio::test]
async fn default_class_added_later_is_set_on_waiting_claims() {
    let world = TestCluster::without_nodes().await;
    world.delete(&format!("{CLASSES}/standard")).await;
    world.create(CLAIMS, claim("data", "1Gi", json!({}))).await;
    assert_eq!(get(&world, "data").await["spec"]["storageClassName"], Value::Null);
    let class = json!({"metadata": {"name": "new", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "sim.longshore.dev/volume"});
    world.create(CLASSES, class).await;
    let data = get(&world, "data").await;
    assert_eq!(
        (&data["spec"]["storageClassName"], &data["status"]["phase"]),
        (&json!("new"), &json!("Bound"))
    );
}
