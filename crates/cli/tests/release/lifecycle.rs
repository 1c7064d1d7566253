//! Life of a release, with the complete output of every command.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;

use crate::harness::ClusterHarness;

#[tokio::test(flavor = "multi_thread")]
async fn release_lifecycle() {
    let desk = ClusterHarness::new().await;
    let installed = desk.run_longshore("install web CHART --wait --timeout 60s").await.expect_output();
    assert!(installed.contains("STATUS: deployed\nREVISION: 1\n"), "{installed}");
    assert!(installed.ends_with("NOTES:\nThank you for shop in web.\n"), "{installed}");

    let status = desk.run_longshore("status web").await.expect_output();
    for part in ["==> v1/Deployment\nNAME   READY", "==> v1/Pod(related)\nNAME", "==> v1/Secret"] {
        assert!(status.contains(part), "{part}: {status}");
    }

    desk.run_longshore("upgrade web CHART --set greeting=bye,password=battery-staple").await.expect_output();
    desk.run_longshore("rollback web").await.expect_output();
    let data = Api::<ConfigMap>::default_namespaced(desk.client()).get("web").await.unwrap().data.unwrap();
    assert_eq!(data["greeting"], "hello");

    let gone = desk.run_longshore("uninstall web --wait").await.expect_output();
    assert_eq!(
        gone,
        "These resources were kept due to the resource policy:\n[ConfigMap] web\n\nrelease \"web\" uninstalled\n"
    );
    let secrets =
        Api::<Secret>::default_namespaced(desk.client()).list(&ListParams::default()).await.unwrap();
    assert_eq!(secrets.items.len(), 0);
    assert_eq!(desk.run_longshore("list -q").await.expect_output(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_release_test_is_printed_and_fails() {
    let desk = ClusterHarness::new().await;
    desk.run_longshore("install web CHART --set broken=true").await.expect_output();
    let tested = desk.run_longshore("test web --logs --timeout 60s").await;
    assert!(tested.output.contains("TEST SUITE:     web-ping\n"), "{tested:#?}");
    assert!(tested.output.contains("Phase:          Failed\n"), "{tested:#?}");
    assert!(tested.expect_error().contains("web-ping"));
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_read_well_and_tell_no_secret() {
    let desk = ClusterHarness::new().await;
    desk.run_longshore("install web CHART").await.expect_output();
    let only = desk.run_longshore("diff web").await.expect_error();
    assert_eq!(only, "release web has only one revision: nothing to compare with");
    let line = "--with CHART --set greeting=bye,password=battery-staple,replicas=2";
    let planned = desk.run_longshore(&format!("diff web {line}")).await.expect_output();
    assert_eq!(
        desk.run_longshore("list -o json").await.expect_output().matches("\"revision\":\"1\"").count(),
        1
    );
    desk.run_longshore("upgrade web CHART --set greeting=bye,password=battery-staple,replicas=2")
        .await
        .expect_output();
    let made = desk.run_longshore("diff web").await.expect_output();
    assert_eq!(planned, made);
    insta::assert_snapshot!(made);
    for output in [
        &made,
        &desk.run_longshore("diff web 1 2 -o json").await.expect_output(),
        &desk.run_longshore("diff web 2 1 -o yaml").await.expect_output(),
    ] {
        assert!(!output.is_empty());
        for secret in ["correct-horse", "battery-staple", "Y29ycmVjdC1ob3JzZQ", "YmF0dGVyeS1zdGFwbGU"] {
            assert!(!output.contains(secret), "{output}");
        }
    }
}
