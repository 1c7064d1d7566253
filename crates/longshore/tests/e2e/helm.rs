//! Public charts with the real Helm 3 and Helm 4. Each chart is installed, upgraded, rolled back, tested and
//! uninstalled by one Helm 3 and by Helm 4. Each step waits until the cluster is in the expected state.
//!
//! There are two versions of Helm 3 with few differences. Half of the charts run with the older one.
//!
//! The charts come unmodified from `LONGSHORE_CORPUS`. This file has only their values and prerequisites.

use std::path::PathBuf;

use serde_json::Value;

use crate::clients::CliClient;
use crate::target::report_skipped;

/// Environment variables with the paths of the programs.
const HELM_3_17: &str = "LONGSHORE_HELM_3_17";
const HELM_3_22: &str = "LONGSHORE_HELM_3_22";
const HELM_4: &str = "LONGSHORE_HELM_4_3";

/// Lists objects that must not remain after `uninstall`.
const LIST_REMAINING: &str = "get deployments,statefulsets,daemonsets,services -o name";

struct HelmChartCase {
    id: &'static str,
    helm_3: &'static str,
    /// kubectl commands that create the prerequisites of the chart.
    setup: &'static [&'static str],
    /// Further arguments for `install`. No load balancer exists here, so no chart may request one.
    values: &'static str,
    /// Further arguments for `upgrade` that change pods.
    change: &'static str,
    /// API group of the kinds in the chart's `crds/`, which Helm does not remove.
    leftover_crd_group: Option<&'static str>,
}

const PLAIN: HelmChartCase = HelmChartCase {
    id: "",
    helm_3: HELM_3_22,
    setup: &[],
    values: "",
    change: "--set podAnnotations.step=two",
    leftover_crd_group: None,
};

#[test]
fn helm_lifecycle_database_with_claim() {
    run_lifecycle(&HelmChartCase {
        id: "bitnami__postgresql",
        change: "--set primary.podAnnotations.step=two",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_cache_with_replicas_and_claims() {
    run_lifecycle(&HelmChartCase {
        id: "bitnami__redis",
        helm_3: HELM_3_17,
        change: "--set replica.replicaCount=1",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_object_store_with_post_install_job() {
    run_lifecycle(&HelmChartCase {
        id: "minio__minio",
        values: "--set replicas=4,resources.requests.memory=1Gi",
        change: "--set resources.requests.memory=2Gi",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_search_engine_with_anti_affinity_and_test() {
    run_lifecycle(&HelmChartCase { id: "elastic__elasticsearch", helm_3: HELM_3_17, ..PLAIN });
}

#[test]
fn helm_lifecycle_daemonset_with_test() {
    run_lifecycle(&HelmChartCase { id: "fluent__fluent-bit", ..PLAIN });
}

#[test]
fn helm_lifecycle_daemonset_on_every_node() {
    run_lifecycle(&HelmChartCase { id: "grafana__promtail", helm_3: HELM_3_17, ..PLAIN });
}

#[test]
fn helm_lifecycle_crds_folder() {
    run_lifecycle(&HelmChartCase {
        id: "sealed-secrets__sealed-secrets",
        leftover_crd_group: Some("bitnami.com"),
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_many_kinds_and_test() {
    run_lifecycle(&HelmChartCase {
        id: "grafana__grafana-agent-operator",
        helm_3: HELM_3_17,
        leftover_crd_group: Some("monitoring.grafana.com"),
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_crds_in_templates_and_pre_install_job() {
    run_lifecycle(&HelmChartCase {
        id: "fluxcd-community__flux2",
        change: "--set helmController.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_all_hooks() {
    // Kibana does not work without Elasticsearch. A hook would request a token from it, but no container runs here.
    run_lifecycle(&HelmChartCase {
        id: "elastic__kibana",
        helm_3: HELM_3_17,
        setup: &[
            "create secret generic elasticsearch-master-certs --from-literal=ca.crt=text",
            "create secret generic elasticsearch-master-credentials --from-literal=username=elastic --from-literal=password=text",
            "create secret generic app-kibana-es-token --from-literal=token=text",
        ],
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_daemonset_pre_install_job_and_claim() {
    run_lifecycle(&HelmChartCase {
        id: "jupyterhub__jupyterhub",
        helm_3: HELM_3_17,
        values: "--set proxy.service.type=ClusterIP",
        change: "--set hub.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_umbrella_chart() {
    run_lifecycle(&HelmChartCase {
        id: "prometheus-community__prometheus",
        change: "--set server.podAnnotations.step=two",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_vault_with_test() {
    run_lifecycle(&HelmChartCase {
        id: "hashicorp__vault",
        helm_3: HELM_3_17,
        // The injector's webhook would be called, and no container runs here to serve it.
        values: "--set injector.enabled=false",
        change: "--set server.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn helm_lifecycle_site_with_database_and_test() {
    run_lifecycle(&HelmChartCase {
        id: "helm-stable__joomla",
        values: "--set service.type=ClusterIP",
        change: "--set mariadb.replication.enabled=false",
        ..PLAIN
    });
}

/// Runs the whole life cycle of a release with one Helm after the other on one cluster.
fn run_lifecycle(chart: &HelmChartCase) {
    let Some(archive) = chart_archive(chart.id) else { return };
    let Some(kubectl) = CliClient::kubectl() else { return };
    for line in chart.setup {
        kubectl.run(line);
    }
    for variable in [chart.helm_3, HELM_4] {
        let Some(helm) = kubectl.helm(variable) else { return };
        let HelmChartCase { values, change, .. } = chart;
        let wait = "--wait --timeout 3m";
        helm.run(&format!("install app {archive} {wait} {values}"));
        helm.run(&format!("upgrade app {archive} {wait} {values} {change}"));
        helm.run(&format!("rollback app 1 {wait}"));
        assert_eq!(states(&helm.run_json("history app -o json")), ["superseded", "superseded", "deployed"]);
        helm.run("test app --timeout 3m");
        helm.run(&format!("uninstall app {wait}"));
        helm.assert_prints("list --short", "");
        kubectl.assert_prints(LIST_REMAINING, "");
        // Claims outlive the release, as they should. Deleting them also deletes their volumes, so that the next Helm
        // starts with the same state.
        kubectl.run("delete persistentvolumeclaims --all --timeout=60s");
        if let Some(group) = chart.leftover_crd_group {
            remove_crds(&kubectl, group);
        }
    }
}

fn chart_archive(id: &str) -> Option<String> {
    let corpus = std::env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    let Some(corpus) = corpus else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        report_skipped("LONGSHORE_CORPUS names no folder with charts");
        return None;
    };
    Some(corpus.join("charts/dev").join(format!("{id}.tgz")).display().to_string())
}

fn states(history: &Value) -> Vec<&str> {
    history.as_array().unwrap().iter().map(|revision| revision["status"].as_str().unwrap()).collect()
}

fn remove_crds(kubectl: &CliClient, group: &str) {
    let kinds = kubectl.run("get customresourcedefinitions -o name");
    let ours: Vec<&str> = kinds.lines().filter(|name| name.ends_with(&format!(".{group}"))).collect();
    assert!(!ours.is_empty(), "no kind of {group} was made");
    kubectl.run(&format!("delete {} --timeout=60s", ours.join(" ")));
}
