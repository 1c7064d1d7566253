//! Real Helm 3 and Helm 4 with public charts: each chart is installed, upgraded, rolled back, tested and uninstalled by
//! one Helm 3 and by Helm 4, waiting every time until everything is as it should be.
//!
//! There are two Helms 3, which differ in little: half of the charts are for the older one.
//!
//! The charts are those of `LONGSHORE_CORPUS`, as their publishers made them. Here is only what is said to them.

use std::path::PathBuf;

use serde_json::Value;

use crate::clients::Client;
use crate::target::skipped;

/// By the variables that name them.
const OLDER_3: &str = "LONGSHORE_HELM_3_17";
const NEWER_3: &str = "LONGSHORE_HELM_3_22";
const HELM_4: &str = "LONGSHORE_HELM_4_3";

/// What is never left of a release.
const GONE: &str = "get deployments,statefulsets,daemonsets,services -o name";

struct Chart {
    id: &'static str,
    helm_3: &'static str,
    /// Commands for kubectl that make what the chart expects to find.
    before: &'static [&'static str],
    /// Further words for `install`; nothing here can give a Service an address of its own, so none may ask for one.
    values: &'static str,
    /// Further words for `upgrade`, by which pods change.
    change: &'static str,
    /// The group of the kinds that it defines in `crds/`, which helm leaves behind.
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
    // It is of no use without Elasticsearch; and a hook asks that for a token, but here it runs no container.
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
        // Its webhook would be called, and nobody would answer.
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

/// The whole life of a release, by one helm after the other, on one cluster.
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
        // Claims stay, as they should. With them go their volumes, and the next helm begins where this one did.
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
