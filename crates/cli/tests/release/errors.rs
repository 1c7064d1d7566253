//! Invalid arguments and unreachable clusters.

use clap::Parser;
use cli::platform::CommandEnv;

use crate::harness::ClusterHarness;

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: cli::release::Command,
}

async fn run_err(line: &str) -> String {
    let Program { command } =
        Program::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string()).unwrap();
    let mut world = CommandEnv::from_process(|| Ok(None));
    world.environment = [("HOME".to_owned(), "/nowhere".to_owned())].into();
    cli::release::run(&command, &world).await.unwrap_err().message
}

#[tokio::test]
async fn missing_or_unreachable_cluster_is_reported() {
    let nowhere = run_err("longshore list").await;
    assert!(nowhere.starts_with("no platform selected: run `longshore login SERVER`"), "{nowhere}");
    assert!(nowhere.ends_with("or give --kubeconfig FILE to act directly on a cluster"), "{nowhere}");
    let missing = run_err("longshore list --kubeconfig /nowhere/at/all").await;
    assert!(missing.starts_with("cannot use the kubeconfig `/nowhere/at/all`: "), "{missing}");
}

#[tokio::test]
async fn platform_only_commands_are_rejected_on_cluster() {
    for command in ["pause", "recover", "restart", "adopt", "suspend", "resume", "retry"] {
        let why = run_err(&format!("longshore {command} web --kubeconfig /nowhere")).await;
        assert!(why.starts_with(&format!("`longshore {command}` requires a platform: ")), "{why}");
    }
    let context = run_err("longshore list --kube-context here").await;
    assert_eq!(context, "--kube-context requires --kubeconfig");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_change_nothing() {
    let desk = ClusterHarness::new().await;
    let table = [
        ("install web CHART --timeout soon", "invalid value 'soon'"),
        ("install web CHART --wait=perhaps", "Valid inputs are hookOnly, watcher and legacy"),
        ("install web CHART --dry-run=maybe", "must be none, client or server"),
        ("install web CHART --force-replace --force-conflicts", "cannot be used with"),
        ("install web CHART -l team", "team must be formatted as key=value"),
        (
            "install web CHART --hide-secret",
            "INSTALLATION FAILED: hiding Kubernetes secrets requires a dry-run mode",
        ),
        ("install web CHART -n missing", "INSTALLATION FAILED: "),
        ("uninstall web --cascade sideways", "invalid value 'sideways'"),
        ("list --filter (", "error parsing regexp"),
        ("list -o xml", "invalid value 'xml'"),
    ];
    for (line, words) in table {
        let why = desk.run_longshore(line).await.expect_error();
        assert!(why.contains(words), "{line}: {why}");
    }
    assert_eq!(desk.run_longshore("list -A -a -q").await.expect_output(), "");
}
