//! Release commands on a platform, with their complete output.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use regex::Regex;

use crate::cli_user::CliUser;
use crate::test_platform::TestPlatform;

const SECRET: &str = "canary-in-the-mine";

/// A chart without workloads, because this platform runs none. Its objects are ready at once.
const CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: notes\nversion: 1.2.3\nappVersion: '4.5'\n"),
    ("values.yaml", "greeting: hello\npassword: change-me-soon\n"),
    (
        "values.schema.json",
        r#"{"properties": {"password": {"type": "string", "format": "password"}, "greeting": {"type": "string"}}}"#,
    ),
    (
        "templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}\nstringData:\n  password: {{ .Values.password | quote }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-before\n  annotations:\n    helm.sh/hook: pre-install\n",
    ),
    ("templates/NOTES.txt", "Say {{ .Values.greeting }} to {{ .Release.Name }}.\n"),
];

/// Output with values that differ between runs replaced.
fn steady(screen: &str, url: &str) -> String {
    let mut text = screen.replace(url, "URL").replace(url.trim_start_matches("http://"), "HOST");
    for (pattern, with) in [
        (r"lsh_[a-z2-7]{10}_[A-Za-z0-9_-]{43}", "TOKEN"),
        (r"\bu[a-z2-7]{10}\b", "USER"),
        (r"/tmp/[^ ]*", "FOLDER"),
        (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4}", "TIME"),
        (r"\b([0-9]+m)?[0-9]{1,3}s\b", "AGE"),
        (r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
        (r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "REQUEST"),
        (r"[ \t]{2,}", "  "),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// A signed-in user and the folder of a chart.
async fn signed_in_user(house: &TestPlatform) -> (CliUser, PathBuf) {
    let ana = CliUser::new();
    let url = &house.url;
    let told = ana
        .run(&format!(
            "register --server {url} --email ana@example.com --phone 18300000001 --organization Acme"
        ))
        .await
        .unwrap();
    ana.run_with_stdin(&format!("login {url} --token-stdin"), &told).await.unwrap();
    let folder = ana.folder().join("notes");
    for (file, text) in CHART {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    (ana, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_from_its_first_day_to_its_last() {
    let house = TestPlatform::new().await;
    let (ana, folder) = signed_in_user(&house).await;
    let chart = folder.display();
    ana.run("list").await.unwrap();
    ana.run(&format!("install board {chart} --dry-run --set password={SECRET}")).await.unwrap();
    assert_eq!(ana.run("list -q").await.unwrap(), "");
    ana.run(&format!("install board {chart} --wait --set password={SECRET}")).await.unwrap();
    ana.run("status board").await.unwrap();
    ana.run(&format!("diff board --with {chart} --reuse-values --set greeting=bye")).await.unwrap();
    ana.run(&format!("upgrade board {chart} --reuse-values --set greeting=bye --wait")).await.unwrap();
    // Previous values are kept together with new ones.
    let values = ana.run("get values board").await.unwrap();
    assert!(values.contains("greeting: bye") && values.contains("password: "), "{values}");
    for line in [
        "history board",
        "diff board",
        "diff board --live",
        "get metadata board",
        "get manifest board",
        "get hooks board",
        "get notes board",
        "rollback board",
        "history board",
        "pause board",
        "list",
        "recover board --wait",
        "restart board",
        "logs board",
        "test board",
        "list -A -o yaml -q",
        "uninstall board",
        "list",
    ] {
        ana.run(line).await.unwrap();
    }
    let screen = ana.transcript();
    for secret in [SECRET, "Y2FuYXJ5LWluLXRoZS1taW5l"] {
        let typed = screen.matches(&format!("password={secret}")).count();
        assert_eq!(screen.matches(secret).count(), typed, "{screen}");
        assert!(!house.audit_log().contains(secret));
    }
    insta::assert_snapshot!(steady(&screen, &house.url));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_said_and_changes_nothing() {
    let house = TestPlatform::new().await;
    let (ana, folder) = signed_in_user(&house).await;
    let chart = folder.display().to_string();
    let mut picture = String::new();
    for line in [
        "install board /nowhere/at/all",
        "install CHART",
        "install Board CHART",
        "install board CHART -n kube-system",
        "install board CHART --set broken",
        "install board no-such/chart",
        "install board oci://127.0.0.1:1/chart",
        "install board CHART --create-namespace",
        "install board CHART -l team=a",
        "install board CHART --wait=legacy",
        "upgrade board CHART",
        "upgrade board CHART --history-max 0",
        "rollback board",
        "rollback board one",
        "uninstall board",
        "uninstall board --keep-history",
        "status board",
        "history board",
        "get values board",
        "diff board 1 2",
        "diff board --live",
        "pause board",
        "restart board",
        "adopt board",
        "logs board",
        "test board",
        "list --superseded",
        "list --filter (",
        "list -l a=b=c",
        "status board --token lsh_nobody_knows",
        "status board --server http://127.0.0.1:1",
        "status board --kubeconfig /nowhere --server http://127.0.0.1:1",
    ] {
        let why = ana.run(&line.replace("CHART", &chart)).await.unwrap_err();
        let why = why.lines().next().unwrap_or_default();
        writeln!(picture, "{line}\n  {why}").unwrap();
    }
    assert_eq!(ana.run("list -q").await.unwrap(), "");
    assert_eq!(ana.run("uninstall board --ignore-not-found").await.unwrap(), "");
    // An error that only the controller can detect: the request is accepted, then fails with a reason, and can be
    // removed.
    let why = ana.run(&format!("install board {chart} --set greeting=1")).await.unwrap_err();
    writeln!(picture, "install board CHART --set greeting=1\n  {why}").unwrap();
    picture.push_str(&ana.run("status board").await.unwrap());
    picture.push_str(&ana.run("list").await.unwrap());
    assert_eq!(ana.run("uninstall board").await.unwrap(), "release \"board\" uninstalled\n");
    insta::assert_snapshot!(steady(&picture, &house.url));
}
