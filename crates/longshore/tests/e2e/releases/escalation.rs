//! Attempts to gain another user's rights through a release: by every field that a tenant can write, by requests of
//! other users, and through the platform API. Kubernetes or the platform rejects each, and nothing changes.

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::platform::{PlatformUser, until, unused_phone};
use crate::program::Server;
use crate::request::{HttpResponse, get, send_body};
use crate::target::Cluster;

const API_GROUP_PATH: &str = "/apis/longshore.dev/v1alpha1";
const MERGE: &str = "application/merge-patch+json";

/// A victim with a release, and an attacker in another workspace.
struct EscalationScene {
    cluster: Cluster,
    server: Server,
    victim: PlatformUser,
    attacker: PlatformUser,
    /// Client with the attacker's own rights.
    kube: kube::Client,
    package: String,
}

impl EscalationScene {
    async fn new() -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let victim = PlatformUser::register(&server, &cluster).await;
        let attacker = PlatformUser::register(&server, &cluster).await;
        let mine = upload_chart(&server, &victim, &victim.id, GREETING).await;
        let body = release_body(&victim.id, "web", &mine, &json!({"greeting": "theirs"}));
        let made = victim.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        wait_for_state(&server, &victim.token, &release_path(&victim.id, "web"), "active").await;
        let kubeconfig = Kubeconfig::read_from(attacker.kubeconfig(&cluster).await).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let kube = kube::Client::try_from(config).unwrap();
        let package = upload_chart(&server, &attacker, &attacker.id, GREETING).await;
        Self { cluster, server, victim, attacker, kube, package }
    }

    fn releases(namespace: &str) -> String {
        format!("{API_GROUP_PATH}/namespaces/{namespace}/helmreleases")
    }

    /// A `HelmRelease` in the attacker's namespace, with `more` merged into its spec.
    fn release_manifest(&self, name: &str, more: &Value) -> Value {
        let mut spec =
            json!({"name": name, "source": {"package": self.package}, "remediation": {"retries": 0}});
        merge(&mut spec, more);
        json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec})
    }

    async fn create_release(&self, release: &Value) -> HttpResponse {
        let path = Self::releases(&self.attacker.id);
        send_body(&self.kube, Method::POST, &path, "application/json", release.to_string()).await
    }

    /// Objects of the victim's namespace with their resource versions.
    async fn victim_objects(&self) -> Vec<String> {
        let admin = self.cluster.client().await;
        let namespace = &self.victim.id;
        let mut all = Vec::new();
        for path in [
            format!("/api/v1/namespaces/{namespace}/configmaps"),
            format!("/api/v1/namespaces/{namespace}/secrets"),
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"),
            Self::releases(namespace),
            format!("{API_GROUP_PATH}/helmrequests"),
        ] {
            let answer = get(&admin, &path).await;
            assert_eq!(answer.code, 200, "{path}: {}", answer.text);
            for item in answer.json()["items"].as_array().unwrap() {
                let others = item["spec"]["namespace"].as_str().is_some_and(|place| place != namespace);
                if !others {
                    all.push(format!(
                        "{path} {} {}",
                        item["metadata"]["name"], item["metadata"]["resourceVersion"]
                    ));
                }
            }
        }
        all
    }

    /// Whether the object exists, read as cluster administrator.
    async fn object_exists(&self, path: &str) -> bool {
        get(&self.cluster.client().await, path).await.code == 200
    }
}

fn merge(value: &mut Value, more: &Value) {
    for (key, more) in more.as_object().unwrap() {
        value[key] = more.clone();
    }
}

fn object_manifest(kind: &str, api: &str, place: &str, rest: &str) -> Value {
    json!(format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{{place}}}\n{rest}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn release_fields_cannot_change_identity() {
    let scene = EscalationScene::new().await;
    let before = scene.victim_objects().await;
    let (victim, attacker) = (scene.victim.id.as_str(), scene.attacker.id.as_str());
    let everything = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
                      subjects: [{kind: ServiceAccount, name: longshore-deployer, namespace: default}]\n";
    let rbac = "rbac.authorization.k8s.io/v1";
    let mine = format!("name: mine-{attacker}");
    let elsewhere = format!("name: planted, namespace: {victim}");
    let moved =
        |operations: Value| json!([{"target": {"kind": "ConfigMap"}, "patch": operations.to_string()}]);
    let to = |path: &str, value: &str| json!([{"op": "add", "path": path, "value": value}]);
    let looks = |what: &str| {
        json!({"extra": format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot}}\ndata:\n  loot: {{{{ lookup {what} | toJson | quote }}}}\n"
        )})
    };
    // Name, spec, and part of the error message.
    #[rustfmt::skip]
    let attempts = [
        ("sa-system",   json!({"serviceAccountName": "longshore"}),                                        "system:serviceaccount:"),
        ("sa-path",     json!({"serviceAccountName": "longshore-system:longshore"}),                       ""),
        ("sa-person",   json!({"serviceAccountName": victim}),                                             ""),
        ("name",        json!({"username": "admin", "valuesObject": {"extra": object_manifest("ConfigMap", "v1", &elsewhere, "")}}), "must be in the namespaces"),
        ("system",      json!({"valuesObject": {"extra": object_manifest("ConfigMap", "v1", &format!("{mine}, namespace: kube-system"), "")}}), "must be in the namespaces"),
        ("cluster",     json!({"valuesObject": {"extra": object_manifest("ClusterRoleBinding", rbac, &mine, everything)}}), "cluster-scoped objects"),
        ("namespace",   json!({"valuesObject": {"extra": object_manifest("Namespace", "v1", &mine, "")}}),          "cluster-scoped objects"),
        ("binding",     json!({"valuesObject": {"extra": object_manifest("RoleBinding", rbac, "name: mine", everything)}}), ""),
        ("hook",        json!({"valuesObject": {"extra": object_manifest("ConfigMap", "v1", &format!("{elsewhere}, annotations: {{helm.sh/hook: pre-install}}"), "")}}), "must be in the namespaces"),
        ("provisioned", json!({"valuesObject": {"extra": object_manifest("ConfigMap", "v1", "name: p, labels: {longshore.dev/provisioned: \"true\"}", "")}}), "for what Longshore provisions"),
        ("taken",       json!({"options": {"takeOwnership": true, "force": true}, "valuesObject": {"extra": object_manifest("RoleBinding", rbac, "name: longshore-ws-admin", everything)}}), ""),
        ("patched",     json!({"patches": moved(to("/metadata/namespace", victim))}),                      "metadata.namespace cannot be changed by a patch"),
        ("patched-sys", json!({"patches": moved(to("/metadata/namespace", "longshore-system"))}),          "metadata.namespace cannot be changed by a patch"),
        ("patch-kind",  json!({"patches": moved(json!([{"op": "replace", "path": "/kind", "value": "Namespace"}]))}), ""),
        ("patch-merge", json!({"patches": [{"patch": format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  {mine}\n")}]}), ""),
        ("request",     json!({"valuesObject": {"extra": object_manifest("HelmRequest", "longshore.dev/v1alpha1", &mine, "spec: {}")}}), "cluster-scoped objects"),
        ("release",     json!({"valuesObject": {"extra": object_manifest("HelmRelease", "longshore.dev/v1alpha1", "name: inner", "spec: {name: inner, source: {package: p}, requestRef: {name: a, uid: b}}")}}), ""),
        ("from",        json!({"valuesFrom": [{"kind": "Secret", "name": "web", "namespace": victim}]}),   "Secret web not found"),
        ("from-path",   json!({"valuesFrom": [{"kind": "Secret", "name": format!("../../{victim}/secrets/web")}]}), ""),
        ("ref",         json!({"valuesRef": {"name": "longshore-administrator"}}),                         "not found"),
        ("sees",        json!({"valuesObject": looks(&format!("\"v1\" \"Secret\" \"{victim}\" \"\""))}),   ""),
        ("sees-system", json!({"valuesObject": looks("\"v1\" \"Secret\" \"longshore-system\" \"\"")}),     ""),
        ("sees-all",    json!({"valuesObject": looks("\"v1\" \"Secret\" \"\" \"\"")}),                     ""),
        ("sees-people", json!({"valuesObject": looks("\"user.openyurt.io/v1alpha1\" \"User\" \"\" \"\"")}), ""),
        ("package",     json!({"source": {"package": "pkg-aaaaaaaaaaaaaaaaaaaa"}}),                        "package `pkg-aaaaaaaaaaaaaaaaaaaa` not found"),
        ("repo",        json!({"source": {"repo": "nobodys"}, "chartName": "web"}),                        "repository `nobodys` not found"),
        ("inside",      json!({"source": {"oci": "oci://127.0.0.1:1/web"}}),                               ""),
        ("metadata",    json!({"source": {"oci": "oci://169.254.169.254/web"}}),                           ""),
    ];
    for (name, more, why) in &attempts {
        let written = scene.create_release(&scene.release_manifest(name, more)).await;
        if matches!(written.code, 400 | 403 | 422) {
            continue;
        }
        assert_eq!(written.code, 201, "{name}: {}", written.text);
        let path = format!("{}/{name}", EscalationScene::releases(attacker));
        let release = until("it has failed", async || {
            let release = get(&scene.kube, &path).await.json();
            let settled = release["status"]["state"].as_str().is_some_and(|state| !state.is_empty());
            let failed = release["status"]["state"] == "failed";
            assert_ne!(release["status"]["state"], "active", "{name} came to something: {release}");
            (settled && failed).then_some(release)
        })
        .await;
        let message = release["status"]["message"].as_str().unwrap();
        assert!(message.contains(why), "{name}: {message}");
        assert!(!message.contains("theirs"), "{name}: {message}");
    }
    for path in [
        format!("/api/v1/namespaces/kube-system/configmaps/mine-{attacker}"),
        format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mine-{attacker}"),
        format!("/api/v1/namespaces/mine-{attacker}"),
        format!("{API_GROUP_PATH}/helmrequests/mine-{attacker}"),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{attacker}/rolebindings/mine"),
        format!("/api/v1/namespaces/{attacker}/configmaps/loot"),
        format!("{}/inner", EscalationScene::releases(attacker)),
    ] {
        assert!(!scene.object_exists(&path).await, "{path}");
    }
    assert_eq!(scene.victim_objects().await, before, "nothing of the victim's was touched");
    // The same chart works with an honest spec. Fields of other Helm controllers that are unknown here have no
    // effect.
    let odd = json!({"targetNamespace": victim, "storageNamespace": victim, "kubeConfig": {"secretRef": {"name": "a"}}, "username": "admin"});
    let written = scene.create_release(&scene.release_manifest("fine", &odd)).await;
    assert_eq!(written.code, 201, "{}", written.text);
    until("it is deployed", async || {
        let release = get(&scene.kube, &format!("{}/fine", EscalationScene::releases(attacker))).await.json();
        (release["status"]["state"] == "active").then_some(())
    })
    .await;
    assert!(scene.object_exists(&format!("/api/v1/namespaces/{attacker}/configmaps/fine")).await);
    assert_eq!(scene.victim_objects().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_writable_by_platform_only() {
    let scene = EscalationScene::new().await;
    let (victim, attacker) = (scene.victim.id.as_str(), scene.attacker.id.as_str());
    let body = release_body(attacker, "asked", &scene.package, &json!({}));
    let made = scene.attacker.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    wait_for_state(&scene.server, &scene.attacker.token, &release_path(attacker, "asked"), "active").await;
    assert_eq!(scene.create_release(&scene.release_manifest("hand", &json!({}))).await.code, 201);
    let before = scene.victim_objects().await;
    let admin = scene.cluster.client().await;
    let requests = get(&admin, &format!("{API_GROUP_PATH}/helmrequests")).await.json();
    let of = |namespace: &str| {
        let items = requests["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["spec"]["namespace"] == namespace).unwrap();
        let text = |name: &str| found["metadata"][name].as_str().unwrap().to_owned();
        json!({"name": text("name"), "uid": text("uid")})
    };
    let (theirs, mine) = (of(victim), of(attacker));
    let request =
        |reference: &Value| format!("{API_GROUP_PATH}/helmrequests/{}", reference["name"].as_str().unwrap());
    let releases = EscalationScene::releases(attacker);
    let forged = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRequest", "metadata": {"name": "req-forged"},
        "spec": {"releaseName": "forged", "namespace": attacker, "workspace": attacker, "cluster": "host", "version": 1,
                 "source": {"package": scene.package}, "chart": {"name": "greeting", "version": "1.0.0", "package": scene.package},
                 "runAs": {"user": victim, "uid": "1"}},
    });
    let json_body = "application/json";
    #[rustfmt::skip]
    let attempts: &[(&str, Method, String, &str, Value)] = &[
        ("write a request",                Method::POST,   format!("{API_GROUP_PATH}/helmrequests"),  json_body, forged),
        ("read requests",                  Method::GET,    format!("{API_GROUP_PATH}/helmrequests"),  json_body, Value::Null),
        ("read the own request",           Method::GET,    request(&mine),                   json_body, Value::Null),
        ("change another's request",       Method::PATCH,  request(&theirs),                 MERGE, json!({"spec": {"paused": true}})),
        ("let the own act as another",     Method::PATCH,  request(&mine),                   MERGE, json!({"spec": {"runAs": {"user": victim}}})),
        ("delete another's request",       Method::DELETE, request(&theirs),                 json_body, Value::Null),
        ("claim another's request",        Method::POST,   releases.clone(),                 json_body, scene.release_manifest("web", &json!({"requestRef": theirs}))),
        ("claim the own request",          Method::POST,   releases.clone(),                 json_body, scene.release_manifest("again", &json!({"requestRef": mine}))),
        ("hang a request on",              Method::PATCH,  format!("{releases}/hand"),       MERGE, json!({"spec": {"requestRef": theirs}})),
        ("change what was asked for",      Method::PATCH,  format!("{releases}/asked"),      MERGE, json!({"spec": {"valuesObject": {"greeting": "x"}}})),
        ("take the request away",          Method::PATCH,  format!("{releases}/asked"),      MERGE, json!({"spec": {"requestRef": null}})),
        ("let it go",                      Method::PATCH,  format!("{releases}/asked"),      MERGE, json!({"metadata": {"finalizers": []}})),
        ("delete what was asked for",      Method::DELETE, format!("{releases}/asked"),      json_body, Value::Null),
        ("tell how it does",               Method::PATCH,  format!("{releases}/asked/status"), MERGE, json!({"status": {"state": "active", "inventory": [{"kind": "Namespace", "name": victim}]}})),
        ("tell how another does",          Method::PATCH,  format!("{releases}/hand/status"), MERGE, json!({"status": {"specHash": "x"}})),
        ("give it to another workspace",   Method::PATCH,  format!("{releases}/hand"),       MERGE, json!({"metadata": {"labels": {"longshore.dev/workspace": victim}}})),
        ("write into another's namespace", Method::POST,   EscalationScene::releases(victim),           json_body, scene.release_manifest("planted", &json!({}))),
        ("read another's releases",        Method::GET,    EscalationScene::releases(victim),           json_body, Value::Null),
        ("read packages",                  Method::GET,    format!("{API_GROUP_PATH}/helmpackages"),  json_body, Value::Null),
        ("read repositories",              Method::GET,    format!("{API_GROUP_PATH}/helmrepos"),     json_body, Value::Null),
        ("write a repository",             Method::POST,   format!("{API_GROUP_PATH}/helmrepos"),     json_body, json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": "mine"}, "spec": {"url": "http://127.0.0.1", "workspace": attacker}})),
    ];
    for (what, method, path, media, body) in attempts {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = send_body(&scene.kube, method.clone(), path, media, body).await;
        assert!(matches!(answer.code, 403 | 404 | 422), "{what}: {} {}", answer.code, answer.text);
    }
    assert_eq!(scene.victim_objects().await, before, "nothing of the victim's was touched");
    let asked = scene.attacker.get(&release_path(attacker, "asked")).await;
    assert_eq!((&asked["state"], &asked["version"]), (&json!("active"), &json!(1)), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_fields_cannot_change_identity() {
    let scene = EscalationScene::new().await;
    let before = scene.victim_objects().await;
    let workspace = format!("team-{}", unused_phone());
    scene.victim.workspace(&scene.cluster, &workspace).await;
    scene.victim.add_member(&workspace, &scene.attacker, "viewer").await;
    let (victim, attacker) = (scene.victim.id.as_str(), scene.attacker.id.as_str());
    let honest = release_body(attacker, "mine", &scene.package, &json!({}));
    let with_more = |more: Value| {
        let mut body = honest.clone();
        merge(&mut body, &more);
        body
    };
    let web = release_path(victim, "web");
    #[rustfmt::skip]
    let attempts: &[(&str, Method, String, Value, &[u16])] = &[
        ("ask in another's namespace",   Method::POST,   "releases".to_owned(),          with_more(json!({"namespace": victim})), &[403]),
        ("ask in nobody's namespace",    Method::POST,   "releases".to_owned(),          with_more(json!({"namespace": "kube-system"})), &[403]),
        ("ask where one may only look",  Method::POST,   "releases".to_owned(),          with_more(json!({"namespace": workspace})), &[403]),
        ("name a cluster",               Method::POST,   "releases".to_owned(),          with_more(json!({"cluster": "other"})), &[404]),
        ("say whom it acts as",          Method::POST,   "releases".to_owned(),          with_more(json!({"runAs": {"user": victim, "uid": "1"}})), &[400]),
        ("name an account",              Method::POST,   "releases".to_owned(),          with_more(json!({"serviceAccountName": "longshore"})), &[400]),
        ("name a user",                  Method::POST,   "releases".to_owned(),          with_more(json!({"username": "admin"})), &[400]),
        ("name a workspace",             Method::POST,   "releases".to_owned(),          with_more(json!({"workspace": victim})), &[400]),
        ("name a request",               Method::POST,   "releases".to_owned(),          with_more(json!({"requestRef": {"name": "a", "uid": "b"}})), &[400]),
        ("refer to values",              Method::POST,   "releases".to_owned(),          with_more(json!({"valuesRef": {"name": "a"}})), &[400]),
        ("refer to others' values",      Method::POST,   "releases".to_owned(),          with_more(json!({"valuesFrom": [{"kind": "Secret", "name": "a"}]})), &[400]),
        ("hide a field in a part",       Method::POST,   "releases".to_owned(),          with_more(json!({"options": {"serviceAccountName": "longshore"}})), &[400]),
        ("climb out of the namespace",   Method::POST,   "releases".to_owned(),          with_more(json!({"namespace": format!("{attacker}/../{victim}")})), &[400, 403]),
        ("climb out of the name",        Method::POST,   "releases".to_owned(),          with_more(json!({"name": "../web"})), &[400]),
        ("see another's",                Method::GET,    web.clone(),                    Value::Null, &[404]),
        ("read another's values",        Method::GET,    format!("{web}/values"),        Value::Null, &[404]),
        ("read another's manifest",      Method::GET,    format!("{web}/manifest"),      Value::Null, &[404]),
        ("compare another's",            Method::GET,    format!("{web}/diff?from=1&to=1"), Value::Null, &[404]),
        ("change another's",             Method::PATCH,  web.clone(),                    json!({"values": {"greeting": "mine"}}), &[404]),
        ("take back another's",          Method::POST,   format!("{web}/rollback"),      json!({"revision": 1}), &[404]),
        ("pause another's",              Method::POST,   format!("{web}/pause"),         Value::Null, &[404]),
        ("restart another's",            Method::POST,   format!("{web}/restart"),       Value::Null, &[403, 404]),
        ("test another's",               Method::POST,   format!("{web}/test"),          Value::Null, &[403, 404]),
        ("adopt another's",              Method::POST,   format!("{web}/adopt"),         Value::Null, &[403, 404]),
        ("delete another's",             Method::DELETE, web.clone(),                    Value::Null, &[404]),
        ("keep a chart for another",     Method::GET,    format!("packages?ws={victim}"), Value::Null, &[404, 405]),
        ("tell another of a repository", Method::POST,   "repos".to_owned(),             json!({"name": "r", "workspace": victim, "url": "https://charts.example.com"}), &[403, 404]),
        ("tell everybody of one",        Method::POST,   "repos".to_owned(),             json!({"name": "r", "url": "https://charts.example.com"}), &[403]),
        ("a name in an address",         Method::POST,   "repos".to_owned(),             json!({"name": "r", "workspace": attacker, "url": "https://a:b@charts.example.com"}), &[400]),
    ];
    for (what, method, path, body, codes) in attempts {
        let body = (!body.is_null()).then_some(body);
        let answer = scene.attacker.call(method.clone(), path, body).await;
        assert!(codes.contains(&answer.code), "{what}: {} {}", answer.code, answer.text);
        assert!(!answer.text.contains("theirs"), "{what}: {}", answer.text);
    }
    // Charts run with the identity of the user who creates the release, whatever they contain.
    let planted =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: planted, namespace: {victim}}}\n");
    let patch = json!([{"op": "add", "path": "/metadata/namespace", "value": victim}]).to_string();
    for (name, more) in [
        ("chart", json!({"values": {"extra": planted}})),
        ("patch", json!({"patches": [{"target": {"kind": "ConfigMap"}, "patch": patch}]})),
        ("role", json!({"values": {"extra": "apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n"}})),
    ] {
        let mut body = release_body(attacker, name, &scene.package, &json!({}));
        merge(&mut body, &more);
        body["remediation"] = json!({"retries": 0});
        let made = scene.attacker.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let failed =
            wait_for_state(&scene.server, &scene.attacker.token, &release_path(attacker, name), "failed")
                .await;
        let message = failed["message"].as_str().unwrap();
        let refusals = [
            "forbidden",
            "must be in the namespaces",
            "cluster-scoped objects",
            "cannot be changed by a patch",
        ];
        assert!(refusals.iter().any(|why| message.contains(why)), "{name}: {message}");
    }
    // The victim's namespace is unchanged. The new workspace, which the victim created, is not part of the list.
    let since: Vec<String> = scene.victim_objects().await;
    let touched: Vec<&String> = since.iter().filter(|line| !before.contains(line)).collect();
    assert!(touched.is_empty() && since.len() == before.len(), "{touched:?}");
}
