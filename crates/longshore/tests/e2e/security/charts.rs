//! Small charts and patches that would expand to gigabytes or hours of work. Each fails with a message that names its
//! limit, and other tenants are served.

use std::fmt::Write as _;

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, until};
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{get, send_body};
use crate::target::Cluster;

/// Limit of the server's peak memory in a debug build.
const MAX_MEMORY: u64 = 1 << 30;

/// Files of a chart as (name, content).
pub type Files = Vec<(&'static str, String)>;

const SUBCHART_FILE: (&str, &str) = ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n");

fn chart_yaml(dependencies: &str) -> (&'static str, String) {
    ("Chart.yaml", format!("apiVersion: v2\nname: evil\nversion: 1.0.0\n{dependencies}"))
}

/// One table of 20,000 keys, imported under 3,000 parents.
pub fn many_imports_chart() -> Files {
    let imports: Vec<_> = (0..3_000).map(|n| format!("{{child: x, parent: p{n}}}")).collect();
    let table = (0..20_000).fold("x:\n".to_owned(), |mut table, n| {
        let _ = writeln!(table, "  k{n}: 1");
        table
    });
    let dependency =
        format!("dependencies:\n- name: sub\n  version: 1.0.0\n  import-values: [{}]\n", imports.join(", "));
    vec![
        chart_yaml(&dependency),
        (SUBCHART_FILE.0, SUBCHART_FILE.1.to_owned()),
        ("charts/sub/values.yaml", table),
    ]
}

/// Thousands of aliases of one subchart with a large table.
pub fn many_aliases_chart() -> Files {
    let dependencies = (0..4_000).fold("dependencies:\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "- {{name: sub, version: 1.0.0, alias: a{n}}}");
        text
    });
    let table = (0..5_000).fold(String::new(), |mut table, n| {
        let _ = writeln!(table, "k{n}: 1");
        table
    });
    vec![
        chart_yaml(&dependencies),
        (SUBCHART_FILE.0, SUBCHART_FILE.1.to_owned()),
        ("charts/sub/values.yaml", table),
    ]
}

/// 30,000 values, none of which is among the schema's 10,000 choices. Each validation error repeats the choices.
pub fn large_enum_chart() -> Files {
    let choices: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
    let schema = format!(r#"{{"properties": {{"list": {{"items": {{"enum": [{}]}}}}}}}}"#, choices.join(","));
    let values = format!("list: [{}]\n", vec!["x"; 30_000].join(","));
    vec![chart_yaml(""), ("values.schema.json", schema), ("values.yaml", values)]
}

/// A text of 8 MB, which patches of the release copy repeatedly.
fn large_text_chart() -> Files {
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata: {text: {{ repeat 8000000 \"x\" }}}\n";
    vec![chart_yaml(""), ("templates/a.yaml", template.to_owned())]
}

fn patch_bomb() -> Value {
    let copies: Vec<_> =
        (0..12).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/k{n}")})).collect();
    json!([{"patch": Value::from(copies).to_string(), "target": {"kind": "ConfigMap"}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_bombs_fail_without_affecting_other_tenants() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = PlatformUser::register(&server, &cluster).await;
    let victim = PlatformUser::register(&server, &cluster).await;
    let victim_package = upload_chart(&server, &victim, &victim.id, GREETING).await;
    let kubeconfig = Kubeconfig::read_from(attacker.kubeconfig(&cluster).await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let attacker_client = kube::Client::try_from(config.unwrap()).unwrap();
    let namespace = &attacker.id;
    let releases_path = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases");
    server.memory();

    let attacks: [(&str, Files, Value, &str); 4] = [
        ("imports", many_imports_chart(), json!([]), "too much"),
        ("aliases", many_aliases_chart(), json!([]), "too much"),
        ("choices", large_enum_chart(), json!([]), "too much"),
        ("patches", large_text_chart(), patch_bomb(), "the object becomes larger than 8388608 bytes"),
    ];
    for (name, files, patches, _) in &attacks {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let package = upload_chart(&server, &attacker, namespace, &files).await;
        let release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": name},
            "spec": {"name": name, "source": {"package": package}, "patches": patches, "remediation": {"retries": 0}},
        });
        let response = send_body(
            &attacker_client,
            Method::POST,
            &releases_path,
            "application/json",
            release.to_string(),
        )
        .await;
        assert_eq!(response.code, 201, "{}", response.text);
    }
    // Another tenant is served during the attack.
    let body = release_body(&victim.id, "web", &victim_package, &json!({"greeting": "hello"}));
    assert_eq!(victim.call(Method::POST, "releases", Some(&body)).await.code, 201);
    wait_for_state(&server, &victim.token, &release_path(&victim.id, "web"), "active").await;

    for (name, _, _, limit) in &attacks {
        let failed = until(name, async || {
            let release = get(&attacker_client, &format!("{releases_path}/{name}")).await.text;
            release.contains(limit).then_some(release)
        });
        let failed = failed.await;
        assert!(failed.contains("evil") || failed.contains("spec.patches[0]"), "{failed}");
    }
    let (_, peak) = server.memory();
    assert!(peak < MAX_MEMORY, "{} MiB", peak >> 20);
    let platform = server.platform();
    until("the server is ready", async || (get(&platform, "/readyz").await.code == 200).then_some(())).await;
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
