//! Life of a release, with the complete output of every command.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;

use crate::desk::Desk;

#[tokio::test(flavor = "multi_thread")]
async fn a_release_comes_and_goes() {
    let desk = Desk::new().await;
    let installed = desk.ours("install web CHART --wait --timeout 60s").await.ok();
    assert!(installed.contains("STATUS: deployed\nREVISION: 1\n"), "{installed}");
    assert!(installed.ends_with("NOTES:\nThank you for shop in web.\n"), "{installed}");

    let status = desk.ours("status web").await.ok();
    for part in ["==> v1/Deployment\nNAME   READY", "==> v1/Pod(related)\nNAME", "==> v1/Secret"] {
        assert!(status.contains(part), "{part}: {status}");
    }

    desk.ours("upgrade web CHART --set greeting=bye,password=battery-staple").await.ok();
    desk.ours("rollback web").await.ok();
    let data = Api::<ConfigMap>::default_namespaced(desk.client()).get("web").await.unwrap().data.unwrap();
    assert_eq!(data["greeting"], "hello");

    let gone = desk.ours("uninstall web --wait").await.ok();
    assert_eq!(
        gone,
        "These resources were kept due to the resource policy:\n[ConfigMap] web\n\nrelease \"web\" uninstalled\n"
    );
    let secrets =
        Api::<Secret>::default_namespaced(desk.client()).list(&ListParams::default()).await.unwrap();
    assert_eq!(secrets.items.len(), 0);
    assert_eq!(desk.ours("list -q").await.ok(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_that_fail_are_shown_and_are_a_failure() {
    let desk = Desk::new().await;
    desk.ours("install web CHART --set broken=true").await.ok();
    let tested = desk.ours("test web --logs --timeout 60s").await;
    assert!(tested.output.contains("TEST SUITE:     web-ping\n"), "{tested:#?}");
    assert!(tested.output.contains("Phase:          Failed\n"), "{tested:#?}");
    assert!(tested.why().contains("web-ping"));
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_read_well_and_tell_no_secret() {
    let desk = Desk::new().await;
    desk.ours("install web CHART").await.ok();
    let only = desk.ours("diff web").await.why();
    assert_eq!(only, "release web has one revision only: there is nothing to compare it with");
    let line = "--with CHART --set greeting=bye,password=battery-staple,replicas=2";
    let planned = desk.ours(&format!("diff web {line}")).await.ok();
    assert_eq!(desk.ours("list -o json").await.ok().matches("\"revision\":\"1\"").count(), 1);
    desk.ours("upgrade web CHART --set greeting=bye,password=battery-staple,replicas=2").await.ok();
    let made = desk.ours("diff web").await.ok();
    assert_eq!(planned, made);
    insta::assert_snapshot!(made);
    for output in
        [&made, &desk.ours("diff web 1 2 -o json").await.ok(), &desk.ours("diff web 2 1 -o yaml").await.ok()]
    {
        assert!(!output.is_empty());
        for secret in ["correct-horse", "battery-staple", "Y29ycmVjdC1ob3JzZQ", "YmF0dGVyeS1zdGFwbGU"] {
            assert!(!output.contains(secret), "{output}");
        }
    }
}
