//! Edited Helm records: nothing of them is executed with the rights of the release.
//!
//! The release uses a `ServiceAccount` that may write to another namespace; the deployer may not. See also: the same with requests and
//! users (end-to-end tests, `security::identities`).

use std::time::Duration;

use helm_release::record::HookRecord;
use helm_release::storage::MAX_REVISION;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

const OTHER: &str = "other";

/// A deployed release with the `ServiceAccount` `strong`. Unlike the deployer it may write `LimitRange`s, too.
async fn strong_harness(more: Value) -> TestHarness {
    let stage = TestHarness::new().await;
    let strong = json!([{"kind": "ServiceAccount", "namespace": SHOP, "name": "strong"}]);
    let binding = |namespace: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "strong", "namespace": namespace}, "subjects": strong,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
        })
    };
    stage
        .world
        .apply([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "strong", "namespace": SHOP}}),
            binding(SHOP),
            binding(OTHER),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "limits", "namespace": SHOP},
                "rules": [{"apiGroups": [""], "resources": ["limitranges"], "verbs": ["*"]}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "limits", "namespace": SHOP},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limits"}, "subjects": strong}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prey", "namespace": OTHER,
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": SHOP}}}),
        ])
        .await;
    let package = stage.store_chart(web_chart()).await;
    let mut spec = release_spec("web", &package);
    spec["serviceAccountName"] = "strong".into();
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    stage.create_release("web", spec).await.unwrap();
    stage.wait_for_state("web", "active").await;
    stage
}

fn config_map_manifest(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {OTHER}}}\n")
}

/// Changes the latest record, as a tenant can.
async fn edit_latest_record(stage: &TestHarness, change: impl FnOnce(&mut Record)) {
    let secrets = stage.namespaced_api::<Secret>();
    let of_release = ListParams::default().labels("owner=helm,name=web");
    let mut all = secrets.list(&of_release).await.unwrap().items;
    all.sort_by_key(|secret| secret.metadata.labels.as_ref().unwrap()["version"].parse::<i64>().unwrap());
    let mut secret = all.pop().unwrap();
    let mut record = Record::decode(&secret.data.as_ref().unwrap()["release"].0).unwrap();
    change(&mut record);
    secret.data = Some([("release".to_owned(), ByteString(record.encode().unwrap().into_bytes()))].into());
    let name = secret.metadata.name.clone().unwrap();
    secrets.replace(&name, &PostParams::default(), &secret).await.unwrap();
}

/// Adds hooks and objects to the latest record.
async fn forge_latest_record(stage: &TestHarness) {
    let events =
        ["pre-delete", "post-delete", "pre-rollback", "post-rollback", "pre-upgrade", "post-upgrade"];
    edit_latest_record(stage, |record| {
        record.hooks.push(HookRecord {
            name: "loot-hook".into(),
            kind: "ConfigMap".into(),
            manifest: config_map_manifest("loot-hook"),
            events: events.map(str::to_owned).to_vec(),
            ..HookRecord::default()
        });
        for name in ["loot-manifest", "prey"] {
            record.manifest.push_str("---\n");
            record.manifest.push_str(&config_map_manifest(name));
        }
    })
    .await;
}

/// The `ConfigMap` names in the other namespace.
async fn other_config_maps(stage: &TestHarness) -> Vec<String> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.world.admin_client(), OTHER);
    let all = maps.list(&ListParams::default()).await.unwrap().items;
    let names = all.into_iter().filter_map(|map| map.metadata.name);
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test]
async fn drift_correction_of_forged_record_gains_nothing() {
    let stage = strong_harness(json!({"interval": "300ms", "driftDetection": {"mode": "enabled"}})).await;
    forge_latest_record(&stage).await;
    // Several intervals. A slow machine can only hide a failure, not cause one.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(other_config_maps(&stage).await, ["prey"]);
}

#[tokio::test]
async fn upgrade_over_forged_record_prunes_nothing_of_others() {
    let stage = strong_harness(json!({})).await;
    forge_latest_record(&stage).await;
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    wait_for("it is deployed", async || {
        let map = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap();
        (map.data.unwrap()["greeting"] == "next").then_some(())
    })
    .await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(other_config_maps(&stage).await, ["prey"]);
    // The release's own revision is trusted and is removed with its rights.
    stage.namespaced_api::<HelmRelease>().delete("web", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&stage.namespaced_api::<HelmRelease>(), "web").await;
    assert_eq!(other_config_maps(&stage).await, ["prey"]);
}

/// A forged record of Helm 3 makes the next upgrade a three-way merge with that record as its base, which decides which fields are removed.
#[tokio::test]
async fn forged_base_removes_no_fields_beyond_the_rights_of_the_deployer() {
    let limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: web}\nspec: {limits: []}\n";
    let stage = strong_harness(json!({"valuesObject": {"extra": limits}})).await;
    // Fields of others. The deployer may change the ConfigMap and not the LimitRange.
    let (ranges, maps) = (stage.namespaced_api::<LimitRange>(), stage.namespaced_api::<ConfigMap>());
    let label = Patch::Merge(json!({"metadata": {"labels": {"guard": "on"}}}));
    ranges.patch("web", &PatchParams::default(), &label).await.unwrap();
    maps.patch("web", &PatchParams::default(), &label).await.unwrap();
    edit_latest_record(&stage, |record| {
        record.apply_method = None;
        let plain = record.manifest.clone();
        record.manifest =
            plain.replace("metadata: {name: web}", "metadata: {name: web, labels: {guard: 'on'}}").replace(
                "metadata:\n  name: web\ndata:",
                "metadata:\n  name: web\n  labels: {guard: 'on'}\ndata:",
            );
        assert_eq!(record.manifest.matches("guard").count(), 2, "{plain}");
    })
    .await;
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "next"}}})).await;
    wait_for("it is deployed", async || {
        (maps.get("web").await.unwrap().data.unwrap()["greeting"] == "next").then_some(())
    })
    .await;
    stage.wait_for_state("web", "active").await;
    let is_guarded = |metadata: ObjectMeta| metadata.labels.unwrap_or_default().contains_key("guard");
    assert!(is_guarded(ranges.get("web").await.unwrap().metadata), "the deployer may not write it");
    // As with Helm, a field that the base has and the chart lacks is removed.
    assert!(!is_guarded(maps.get("web").await.unwrap().metadata), "the deployer may write it");
}

#[tokio::test]
async fn remediation_with_forged_record_gains_nothing() {
    let stage = strong_harness(json!({"remediation": {"strategy": "rollback", "retries": 0}})).await;
    forge_latest_record(&stage).await;
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n  annotations: {x: 1}\n";
    stage.patch_release("web", json!({"spec": {"valuesObject": {"extra": broken}}})).await;
    stage.wait_for_state("web", "failed").await;
    assert_eq!(other_config_maps(&stage).await, ["prey"]);
}

#[tokio::test]
async fn uninstallation_with_forged_record_gains_nothing() {
    let stage = strong_harness(json!({})).await;
    forge_latest_record(&stage).await;
    stage.namespaced_api::<HelmRelease>().delete("web", &DeleteParams::default()).await.unwrap();
    wait_for("it was tried", async || {
        let release = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap();
        release.status.unwrap().message.contains("forbidden").then_some(())
    })
    .await;
    assert_eq!(other_config_maps(&stage).await, ["prey"]);
}

#[tokio::test]
async fn trusted_revisions_are_those_that_helm_keeps() {
    let stage = strong_harness(json!({"options": {"maxHistory": 2}})).await;
    for greeting in ["b", "c", "d"] {
        stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": greeting}}})).await;
        stage.wait_for_state("web", "active").await;
    }
    let revisions = stage.wait_for_state("web", "active").await.status.unwrap().revisions;
    let numbers: Vec<i64> = revisions.iter().map(|entry| entry.revision).collect();
    assert_eq!(numbers, [3, 4]);
    assert!(revisions.iter().all(|entry| entry.digest.len() == 64 && entry.by.ends_with(":shop:strong")));
}

/// Copies the first record to another revision, as a tenant can.
async fn forge_revision(stage: &TestHarness, revision: i64) -> String {
    let secrets = stage.namespaced_api::<Secret>();
    let mut secret = secrets.get(&secret_name("web", 1)).await.unwrap();
    let mut record = Record::decode(&secret.data.as_ref().unwrap()["release"].0).unwrap();
    record.version = revision;
    record.info.status = Status::Deployed;
    let name = secret_name("web", revision);
    let mut labels = secret.metadata.labels.take().unwrap();
    // The name of the Secret counts, and a label cannot begin with a sign.
    labels.insert("version".to_owned(), revision.unsigned_abs().to_string());
    labels.insert("status".to_owned(), "deployed".to_owned());
    secret.metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() };
    secret.data = Some([("release".to_owned(), ByteString(record.encode().unwrap().into_bytes()))].into());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    name
}

#[tokio::test]
async fn tenant_forges_records_with_extreme_revisions_and_stops_no_operation() {
    let stage = strong_harness(json!({})).await;
    for revision in [i64::MAX, i64::MIN, -1, 0, MAX_REVISION + 1] {
        forge_revision(&stage, revision).await;
    }
    let upgraded = async |greeting: &str| {
        stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": greeting}}})).await;
        wait_for("it is deployed", async || {
            let map = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap();
            (map.data.unwrap()["greeting"] == *greeting).then_some(())
        })
        .await;
        stage.wait_for_state("web", "active").await.status.unwrap().helm.unwrap().revision
    };
    assert_eq!(upgraded("second").await, 2);

    // The highest revision is a valid record, and no other can follow it.
    let highest = forge_revision(&stage, MAX_REVISION).await;
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "third"}}})).await;
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert!(status.message.contains("cannot have revision 2147483648"), "{}", status.message);
    stage.namespaced_api::<Secret>().delete(&highest, &DeleteParams::default()).await.unwrap();
    assert_eq!(upgraded("fourth").await, 3);

    stage.namespaced_api::<HelmRelease>().delete("web", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&stage.namespaced_api::<HelmRelease>(), "web").await;
    assert!(stage.namespaced_api::<ConfigMap>().get_opt("web").await.unwrap().is_none());
}
