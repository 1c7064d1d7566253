//! Objects of tenants with extreme numbers and times.

use helm_release::lock::lease_name;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::*;

/// Writes a Lease as a developer of the namespace can.
async fn write_lease(stage: &TestHarness, release: &str, renew_time: &str, spec: Value) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lease_name(release), "namespace": SHOP}, "spec": spec,
    });
    let mut lease: Lease = serde_json::from_value(lease).unwrap();
    lease.spec.get_or_insert_default().renew_time = Some(MicroTime(renew_time.parse().unwrap()));
    stage.namespaced_api::<Lease>().create(&PostParams::default(), &lease).await.unwrap();
}

#[tokio::test]
async fn hostile_lease_does_not_keep_a_release_from_being_installed() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let (max, long) = (i32::MAX, i32::MAX);
    let spec_of = |transitions: i32| json!({"leaseDurationSeconds": long, "leaseTransitions": transitions});
    write_lease(&stage, "late", "9999-01-01T00:00:00.000000Z", spec_of(max)).await;
    write_lease(&stage, "early", "0001-01-01T00:00:00.000000Z", spec_of(max)).await;
    for name in ["late", "early"] {
        stage.create_release(name, release_spec(name, &package)).await.unwrap();
    }
    for name in ["late", "early"] {
        stage.wait_for_state(name, "active").await;
    }
}

#[tokio::test]
async fn hostile_release_does_not_keep_others_from_being_installed() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let lengths = ["9223372036854775807s", "8783h", "0s", "0.0000000001ms", "99999999999999999999999h"];
    for (number, length) in lengths.iter().enumerate() {
        let mut hostile = release_spec(&format!("hostile-{number}"), &package);
        hostile["interval"] = json!(length);
        hostile["options"] = json!({"timeout": length, "maxHistory": i64::MAX});
        hostile["remediation"] = json!({"retries": i64::MAX});
        hostile["version"] = json!(i64::MAX);
        // Objects that the schema rejects have no effect.
        let written = stage.create_release(&format!("hostile-{number}"), hostile).await;
        assert!(written.is_ok() || matches!(&written, Err(kube::Error::Api(_))), "{written:?}");
    }
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    stage.wait_for_state("web", "active").await;
    assert!(stage.releases.stale_for().is_none());
}
