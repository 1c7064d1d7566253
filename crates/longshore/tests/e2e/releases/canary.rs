//! Secrets in releases must not appear anywhere but in Kubernetes Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::charts::{release_body, release_path, upload_chart, wait_for_state};
use crate::platform::{PlatformUser, until, unused_phone};
use crate::request::{get, send_body};
use crate::target::Cluster;

/// A chart that leaks its password: in the notes, in its failure message, and in a label that Kubernetes rejects.
const LEAKING_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: careless\nversion: 1.0.0\n"),
    ("values.yaml", "password: \"\"\nfails: false\nrefused: false\ncount: 1\n"),
    (
        "values.schema.json",
        r#"{"type": "object", "properties": {"password": {"type": "string", "writeOnly": true}, "count": {"type": "integer"}}}"#,
    ),
    (
        "templates/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\nstringData:\n  password: {{ .Values.password | quote }}\n  \
         address: \"postgres://me:{{ .Values.password }}@db\"\n",
    ),
    (
        "templates/fails.yaml",
        "{{ if .Values.fails }}{{ fail (printf \"%s is no password\" .Values.password) }}{{ end }}\n",
    ),
    (
        "templates/refused.yaml",
        "{{ if .Values.refused }}\napiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-refused\n  labels: {p: \"{{ .Values.password }}!\"}\n{{ end }}\n",
    ),
    ("templates/NOTES.txt", "Log in with {{ .Values.password }}.\n"),
];

#[tokio::test(flavor = "multi_thread")]
async fn release_secrets_are_in_kubernetes_secrets_only() {
    let (cluster, server) = Cluster::with_platform().await;
    let (admin, person) = (cluster.client().await, PlatformUser::register(&server, &cluster).await);
    let canary = |word: &str| format!("canary-{word}-{}", unused_phone());
    let [first, second, third, fourth, fifth] = ["one", "two", "three", "four", "five"].map(canary);
    let package = upload_chart(&server, &person, &person.id, LEAKING_CHART).await;
    let namespace = person.id.as_str();
    let mut seen: Vec<(String, String)> = Vec::new();

    // Through the platform API: an installation, an upgrade, and three upgrades that fail.
    let body = release_body(namespace, "web", &package, &json!({"password": first}));
    let made = person.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    seen.push(("the answer to asking".to_owned(), made.text));
    let web = release_path(namespace, "web");
    wait_for_state(&server, &person.token, &web, "active").await;
    let changes: [(Value, &str); 4] = [
        (json!({"password": second, "count": 2}), "active"),
        (json!({"password": second, "fails": true}), "failed"),
        (json!({"password": second, "refused": true}), "failed"),
        (json!({"password": {"in": third}, "count": second}), "failed"),
    ];
    for (version, (values, state)) in (2..).zip(changes) {
        let change = json!({"values": values, "options": {"maxHistory": 20}});
        let answer = person.call(Method::PATCH, &web, Some(&change)).await;
        seen.push((format!("the answer to change {version}"), answer.text.clone()));
        // A schema violation may be rejected before a version is created.
        if answer.code == 400 {
            continue;
        }
        assert_eq!(answer.code, 200, "{}", answer.text);
        let release = person
            .wait_until(&web, |release| release["state"] == state && release["version"] == version)
            .await;
        seen.push((format!("version {version}"), release.to_string()));
    }

    // Directly in Kubernetes: values from a referenced Secret.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "stringData": {"password": third}});
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let written = send_body(&admin, Method::POST, &secrets, "application/json", secret.to_string()).await;
    assert_eq!(written.code, 201, "{}", written.text);
    let releases = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases");
    for (name, values, state) in [("hand", json!({}), "active"), ("fails", json!({"fails": true}), "failed")]
    {
        let from =
            json!([{"kind": "Secret", "name": "mine", "valuesKey": "password", "targetPath": "password"}]);
        let release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": name},
            "spec": {"name": name, "source": {"package": package}, "valuesFrom": from, "valuesObject": values},
        });
        let written =
            send_body(&admin, Method::POST, &releases, "application/json", release.to_string()).await;
        assert_eq!(written.code, 201, "{}", written.text);
        until("the release has come to its state", async || {
            let release = get(&admin, &format!("{releases}/{name}")).await.json();
            (release["status"]["state"] == state).then_some(())
        })
        .await;
    }

    // A chart repository with a password that cannot be reached.
    let repo = json!({
        "name": "mine", "workspace": namespace, "url": "http://10.0.0.1/charts",
        "credentials": {"username": "me", "password": fourth},
    });
    let told = person.call(Method::POST, "repos?check=false", Some(&repo)).await;
    assert_eq!(told.code, 201, "{}", told.text);
    let key = told.json()["key"].as_str().unwrap().to_owned();
    cluster.remove_at_end(format!("/apis/longshore.dev/v1alpha1/helmrepos/{key}"));
    seen.push(("a repository".to_owned(), told.text));
    let change = json!({"credentials": {"token": fifth}});
    seen.push((
        "a change".to_owned(),
        person.call(Method::PATCH, &format!("repos/{key}"), Some(&change)).await.text,
    ));
    let mut wanted = release_body(namespace, "far", &package, &json!({"password": fifth}));
    wanted["chart"] = json!({"repo": key, "name": "web"});
    seen.push(("a refusal".to_owned(), person.call(Method::POST, "releases", Some(&wanted)).await.text));

    // Every response that describes one of these objects.
    let operation = person.get(&web).await["operation"].as_str().unwrap_or_default().to_owned();
    let mut paths = vec![
        "releases".to_owned(),
        "repos".to_owned(),
        format!("repos/{key}"),
        format!("repos/{key}/charts"),
    ];
    paths.push(format!("operations/{operation}"));
    for name in ["web", "hand", "fails"] {
        let release = release_path(namespace, name);
        paths.push(release.clone());
        for part in [
            "history",
            "values",
            "values?all=true",
            "values?revision=1",
            "manifest",
            "manifest?revision=1",
            "notes",
            "notes?revision=1",
            "diff?from=1&to=2",
            "diff?from=1&to=2&of=values",
            "diff?from=2&to=1&of=manifest",
            "diff?from=1&to=2&of=notes",
            "resources",
        ] {
            paths.push(format!("{release}/{part}"));
        }
    }
    let mut told = 0;
    for path in paths {
        let answer = person.call(Method::GET, &path, None).await;
        told += usize::from(answer.code == 200);
        seen.push((path, answer.text));
    }
    assert!(told > 20, "hardly anything was told: {told}");
    // All objects except Secrets. Large collections are read in the test's namespace only.
    for path in [
        "/apis/longshore.dev/v1alpha1/helmreleases".to_owned(),
        "/apis/longshore.dev/v1alpha1/helmrequests".to_owned(),
        "/apis/longshore.dev/v1alpha1/helmrepos".to_owned(),
        "/apis/longshore.dev/v1alpha1/helmpackages".to_owned(),
        "/api/v1/events".to_owned(),
        "/apis/events.k8s.io/v1/events".to_owned(),
        "/apis/coordination.k8s.io/v1/leases".to_owned(),
        "/api/v1/configmaps".to_owned(),
        format!("/api/v1/namespaces/{namespace}/pods"),
    ] {
        let answer = get(&admin, &path).await;
        assert_eq!(answer.code, 200, "{path}");
        seen.push((path, answer.text));
    }
    seen.push(("metrics".to_owned(), get(&server.platform(), "/metrics").await.text));
    seen.push(("log and audit".to_owned(), server.log()));
    // Names and labels of Secrets are visible to every client that lists them.
    let all = get(&admin, "/api/v1/secrets").await.json();
    for secret in all["items"].as_array().unwrap() {
        seen.push(("the metadata of a Secret".to_owned(), secret["metadata"].to_string()));
    }
    for (place, text) in &seen {
        for canary in [&first, &second, &third, &fourth, &fifth] {
            let encoded = STANDARD.encode(canary);
            assert!(
                !text.contains(canary.as_str()) && !text.contains(&encoded),
                "{place} tells {canary}: {text}"
            );
        }
    }
    // The check itself works: the secrets are found in Kubernetes Secrets.
    let secrets = all["items"].to_string();
    for canary in [&first, &second, &third, &fourth, &fifth] {
        let kept = secrets.contains(&STANDARD.encode(canary));
        assert!(
            kept || canary == &first || canary == &fourth || canary == &fifth,
            "{canary} is kept nowhere"
        );
    }
    assert!(seen.iter().any(|(place, text)| place.ends_with("/values") && text.contains("password")));
}
