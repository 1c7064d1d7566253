//! Actions on a release besides changing it: test, pause and resume, retry.

use axum::http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use testkit::wait_for;

use crate::releases::{AcmeFixture, CANARY, chart_archive_from};

const WEB: &str = "releases/host/acme/web";

const TESTED_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: tested\nversion: 1.0.0\n"),
    (
        "values.schema.json",
        r#"{"type": "object", "properties": {"password": {"type": "string", "writeOnly": true}}}"#,
    ),
    (
        "templates/tests.yaml",
        "{{- range $name, $code := dict \"good\" \"0\" \"bad\" \"4\" }}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  \
         name: {{ $.Release.Name }}-{{ $name }}\n  annotations:\n    helm.sh/hook: test\n    \
         sim.longshore.dev/behaviour: exit={{ $code }}\n    \
         sim.longshore.dev/log.c: {{ $name }} with {{ $.Values.password }}\n\
         spec: {restartPolicy: Never, containers: [{name: c, image: i}]}\n{{- end }}\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn release_tests_are_selected_by_name_and_logs_mask_secrets() {
    let acme = AcmeFixture::new().await;
    let made = acme.install_chart(chart_archive_from(TESTED_CHART), json!({"password": CANARY})).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    acme.wait_for_state("active", 1).await;
    let key = acme.developer.credential();
    let test = async |query: &str| {
        let answer = acme.house.post(&format!("{WEB}/test{query}"), &key, json!({})).await;
        assert_eq!(answer.code(), 200, "{query}: {}", answer.text);
        assert!(!answer.text.contains(CANARY), "{}", answer.text);
        answer.json()
    };
    let phases = |tested: &Value| -> Vec<(String, String)> {
        let tests = tested["tests"].as_array().unwrap().iter();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        tests.map(|test| (word(&test["name"]), word(&test["phase"]))).collect()
    };
    let named = |name: &str, phase: &str| (name.to_owned(), phase.to_owned());

    let tested = test("?only=web-good&logs").await;
    assert_eq!(tested["passed"], true, "{tested}");
    assert_eq!(phases(&tested), [named("web-bad", "Never"), named("web-good", "Succeeded")], "{tested}");
    assert_eq!(tested["tests"][0]["log"], Value::Null, "{tested}");
    let log = tested["tests"][1]["log"].as_str().unwrap();
    assert!(log.contains("good with [masked]\n"), "{tested}");
    assert_eq!(test("?except=web-bad,none").await["passed"], true);

    let tested = test("?logs").await;
    assert_eq!(tested["passed"], false, "{tested}");
    assert!(tested["why"].as_str().unwrap().contains("web-bad"), "{tested}");
    assert!(tested["tests"][0]["log"].as_str().unwrap().contains("bad with [masked]\n"), "{tested}");
    let viewer = acme.house.post(&format!("{WEB}/test"), &acme.viewer.credential(), json!({})).await;
    assert_eq!(viewer.code(), 403, "{}", viewer.text);
}

/// A test hook that takes an hour, with a timeout of a second.
#[tokio::test(flavor = "multi_thread")]
async fn release_test_honours_the_timeout() {
    let acme = AcmeFixture::new().await;
    let endless = [
        ("Chart.yaml", "apiVersion: v2\nname: endless\nversion: 1.0.0\n"),
        (
            "templates/test.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: endless\n  annotations:\n    helm.sh/hook: test\n    \
             sim.longshore.dev/behaviour: exit=0@1h\n\
             spec: {restartPolicy: Never, containers: [{name: c, image: i}]}\n",
        ),
    ];
    assert_eq!(acme.install_chart(chart_archive_from(&endless), json!({})).await.code(), 201);
    acme.wait_for_state("active", 1).await;
    let test = async |timeout: &str| {
        acme.house
            .post(&format!("{WEB}/test?timeout={timeout}"), &acme.developer.credential(), json!({}))
            .await
    };
    let tested = test("1500ms").await;
    assert_eq!((tested.code(), &tested.json()["passed"]), (200, &json!(false)), "{}", tested.text);
    for wrong in ["soon", "0s", "2h"] {
        let refused = test(wrong).await;
        assert_eq!(refused.code(), 400, "{wrong}: {}", refused.text);
        assert!(refused.text.contains("of at most 60 minutes"), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_release_is_not_reconciled_until_resumed() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    assert_eq!(acme.install(json!({})).await.code(), 201);
    acme.wait_for_state("active", 1).await;
    let act = async |act: &str| house.post(&format!("{WEB}/{act}"), &key, json!({})).await.code();
    assert_eq!(house.post(&format!("{WEB}/suspend"), &acme.viewer.credential(), json!({})).await.code(), 403);
    assert_eq!(act("retry").await, 409, "nothing has failed");
    assert_eq!(act("suspend").await, 200);
    assert_eq!(act("suspend").await, 200, "it is already");
    let shown = acme.wait_for_state("suspended", 1).await;
    assert_eq!((&shown["suspended"], &shown["version"]), (&json!(true), &json!(2)), "{shown}");
    let blocked = |shown: &Value, id: &str| {
        let actions = shown["actions"].as_array().unwrap();
        actions.iter().find(|action| action["id"] == id).unwrap()["allowed"] == false
    };
    assert!(blocked(&shown, "releases.suspend") && blocked(&shown, "releases.retry"), "{shown}");
    assert!(!blocked(&shown, "releases.resume"), "{shown}");
    let change = json!({"values": {"greeting": "bye"}});
    assert_eq!(house.call(Method::PATCH, WEB, &key, Some(change)).await.code(), 200);
    let list = house.get("releases?facets=state", &key).await.json();
    assert_eq!(list["facets"], json!({"state": {"suspended": 1}}), "{list}");
    assert_eq!(act("resume").await, 200);
    let shown = acme.wait_for_state("active", 4).await;
    assert_eq!(shown["revision"], 2, "what was asked for meanwhile is done once: {shown}");
    let maps: Api<ConfigMap> = Api::namespaced(house.world.admin_client(), "acme");
    assert_eq!(maps.get("web").await.unwrap().data.unwrap()["greeting"], "bye");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_reconciles_a_failed_release() {
    let acme = AcmeFixture::new().await;
    let (house, key) = (&acme.house, acme.developer.credential());
    let maps: Api<ConfigMap> = Api::namespaced(house.world.admin_client(), "acme");
    let in_the_way = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
    maps.create(&PostParams::default(), &in_the_way).await.unwrap();
    assert_eq!(acme.install(json!({})).await.code(), 201);
    wait_for("it has failed", async || {
        let shown = house.get(WEB, &key).await.json();
        (shown["state"] == "failed").then_some(())
    })
    .await;
    maps.delete("web", &DeleteParams::default()).await.unwrap();
    let again = house.post(&format!("{WEB}/retry"), &key, json!({})).await;
    assert_eq!(again.code(), 200, "{}", again.text);
    assert_eq!(again.json()["version"], 2);
    acme.wait_for_state("active", 2).await;
    assert_eq!(house.post(&format!("{WEB}/retry"), &key, json!({})).await.code(), 409);
}
