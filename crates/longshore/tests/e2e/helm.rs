//! Public charts with the real Helm 3 and Helm 4. Each chart is installed, upgraded, rolled back, tested and
//! uninstalled by one Helm 3 and by Helm 4. Each step waits until the cluster is in the expected state.
//!
//! There are two versions of Helm 3 with few differences. Half of the charts run with the older one.
//!
//! The charts come unmodified from `LONGSHORE_CORPUS`. This file has only their values and prerequisites.

use std::path::PathBuf;

use serde_json::Value;

use crate::clients::Client;
use crate::target::skipped;

/// Environment variables with the paths of the programs.
const OLDER_3: &str = "LONGSHORE_HELM_3_17";
const NEWER_3: &str = "LONGSHORE_HELM_3_22";
const HELM_4: &str = "LONGSHORE_HELM_4_3";

/// Lists objects that must not remain after `uninstall`.
const GONE: &str = "get deployments,statefulsets,daemonsets,services -o name";

struct Chart {
    id: &'static str,
    helm_3: &'static str,
    /// kubectl commands that create what the chart requires.
    before: &'static [&'static str],
    /// Further arguments for `install`. No load balancer exists here, so no chart may request one.
    values: &'static str,
    /// Further arguments for `upgrade` that change pods.
    change: &'static str,
    /// API group of the kinds in the chart's `crds/`, which Helm does not remove.
    leaves: Option<&'static str>,
}

const PLAIN: Chart = Chart {
    id: "",
    helm_3: NEWER_3,
    before: &[],
    values: "",
    change: "--set podAnnotations.step=two",
    leaves: None,
};

#[test]
fn a_database_with_a_claim() {
    live(&Chart { id: "bitnami__postgresql", change: "--set primary.podAnnotations.step=two", ..PLAIN });
}

#[test]
fn a_cache_with_replicas_and_claims() {
    live(&Chart { id: "bitnami__redis", helm_3: OLDER_3, change: "--set replica.replicaCount=1", ..PLAIN });
}

#[test]
fn an_object_store_with_a_job_afterwards() {
    live(&Chart {
        id: "minio__minio",
        values: "--set replicas=4,resources.requests.memory=1Gi",
        change: "--set resources.requests.memory=2Gi",
        ..PLAIN
    });
}

#[test]
fn a_search_engine_one_to_a_node_with_a_test() {
    live(&Chart { id: "elastic__elasticsearch", helm_3: OLDER_3, ..PLAIN });
}

#[test]
fn a_daemonset_with_a_test() {
    live(&Chart { id: "fluent__fluent-bit", ..PLAIN });
}

#[test]
fn a_daemonset_on_every_node() {
    live(&Chart { id: "grafana__promtail", helm_3: OLDER_3, ..PLAIN });
}

#[test]
fn kinds_beside_the_templates() {
    live(&Chart { id: "sealed-secrets__sealed-secrets", leaves: Some("bitnami.com"), ..PLAIN });
}

#[test]
fn many_kinds_and_a_test() {
    live(&Chart {
        id: "grafana__grafana-agent-operator",
        helm_3: OLDER_3,
        leaves: Some("monitoring.grafana.com"),
        ..PLAIN
    });
}

#[test]
fn kinds_among_the_templates_and_a_job_before() {
    live(&Chart {
        id: "fluxcd-community__flux2",
        change: "--set helmController.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn hooks_before_and_after_everything() {
    // Kibana does not work without Elasticsearch. A hook would request a token from it, but no container runs here.
    live(&Chart {
        id: "elastic__kibana",
        helm_3: OLDER_3,
        before: &[
            "create secret generic elasticsearch-master-certs --from-literal=ca.crt=text",
            "create secret generic elasticsearch-master-credentials --from-literal=username=elastic --from-literal=password=text",
            "create secret generic app-kibana-es-token --from-literal=token=text",
        ],
        ..PLAIN
    });
}

#[test]
fn a_daemonset_and_a_job_before_and_a_claim() {
    live(&Chart {
        id: "jupyterhub__jupyterhub",
        helm_3: OLDER_3,
        values: "--set proxy.service.type=ClusterIP",
        change: "--set hub.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn a_chart_of_charts() {
    live(&Chart {
        id: "prometheus-community__prometheus",
        change: "--set server.podAnnotations.step=two",
        ..PLAIN
    });
}

#[test]
fn a_vault_with_a_test() {
    live(&Chart {
        id: "hashicorp__vault",
        helm_3: OLDER_3,
        // The injector's webhook would be called, and no container runs here to serve it.
        values: "--set injector.enabled=false",
        change: "--set server.annotations.step=two",
        ..PLAIN
    });
}

#[test]
fn a_site_with_its_database_and_a_test() {
    live(&Chart {
        id: "helm-stable__joomla",
        values: "--set service.type=ClusterIP",
        change: "--set mariadb.replication.enabled=false",
        ..PLAIN
    });
}

/// Runs the whole life cycle of a release with one Helm after the other on one cluster.
fn live(chart: &Chart) {
    let Some(archive) = archive(chart.id) else { return };
    let Some(kubectl) = Client::kubectl() else { return };
    for line in chart.before {
        kubectl.ok(line);
    }
    for variable in [chart.helm_3, HELM_4] {
        let Some(helm) = kubectl.helm(variable) else { return };
        let Chart { values, change, .. } = chart;
        let wait = "--wait --timeout 3m";
        helm.ok(&format!("install app {archive} {wait} {values}"));
        helm.ok(&format!("upgrade app {archive} {wait} {values} {change}"));
        helm.ok(&format!("rollback app 1 {wait}"));
        assert_eq!(states(&helm.json("history app -o json")), ["superseded", "superseded", "deployed"]);
        helm.ok("test app --timeout 3m");
        helm.ok(&format!("uninstall app {wait}"));
        helm.prints("list --short", "");
        kubectl.prints(GONE, "");
        // Claims outlive the release, as they should. Deleting them also deletes their volumes, so that the next Helm
        // starts with the same state.
        kubectl.ok("delete persistentvolumeclaims --all --timeout=60s");
        if let Some(group) = chart.leaves {
            remove_kinds(&kubectl, group);
        }
    }
}

fn archive(id: &str) -> Option<String> {
    let corpus = std::env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    let Some(corpus) = corpus else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        skipped("LONGSHORE_CORPUS names no folder with charts");
        return None;
    };
    Some(corpus.join("charts/dev").join(format!("{id}.tgz")).display().to_string())
}

fn states(history: &Value) -> Vec<&str> {
    history.as_array().unwrap().iter().map(|revision| revision["status"].as_str().unwrap()).collect()
}

fn remove_kinds(kubectl: &Client, group: &str) {
    let kinds = kubectl.ok("get customresourcedefinitions -o name");
    let ours: Vec<&str> = kinds.lines().filter(|name| name.ends_with(&format!(".{group}"))).collect();
    assert!(!ours.is_empty(), "no kind of {group} was made");
    kubectl.ok(&format!("delete {} --timeout=60s", ours.join(" ")));
}
