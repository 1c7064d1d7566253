//! Rows of networking kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::selector::{labels, selector};
use super::{Cells, age, name, name_with_default_marker};
use crate::rules::accessors::{int, is_empty_value, items, non_empty_text, text, texts};

pub fn service(service: &Value, now: Timestamp) -> Cells {
    let spec = &service["spec"];
    let ports = items(&spec["ports"]).iter().map(|port| {
        let (number, protocol) = (int(&port["port"]), text(&port["protocol"]));
        match int(&port["nodePort"]) {
            ..=0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    vec![
        name(service),
        text(&spec["type"]).into(),
        non_empty_text(&spec["clusterIPs"][0])
            .or(non_empty_text(&spec["clusterIP"]))
            .unwrap_or("<none>")
            .into(),
        external_address(service).into(),
        if ports.is_empty() { "<none>".into() } else { ports.into() },
        age(service, now),
        labels(&spec["selector"]).into(),
    ]
}

fn external_address(service: &Value) -> String {
    let spec = &service["spec"];
    let given = texts(&spec["externalIPs"]).collect::<Vec<_>>();
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let balanced = load_balancer_addresses(&service["status"]);
            let all: Vec<_> = balanced.into_iter().chain(given).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of load balancers, without duplicates, sorted.
fn load_balancer_addresses(status: &Value) -> BTreeSet<&str> {
    let points = items(&status["loadBalancer"]["ingress"]).iter();
    points.filter_map(|point| non_empty_text(&point["ip"]).or(non_empty_text(&point["hostname"]))).collect()
}

pub fn ingress(ingress: &Value, now: Timestamp) -> Cells {
    let spec = &ingress["spec"];
    let address: Vec<_> = load_balancer_addresses(&ingress["status"]).into_iter().collect();
    vec![
        name(ingress),
        spec["ingressClassName"].as_str().unwrap_or("<none>").into(),
        hosts(items(&spec["rules"])).into(),
        address.join(",").into(),
        if is_empty_value(&spec["tls"]) { "80" } else { "80, 443" }.into(),
        age(ingress, now),
    ]
}

/// The first three hosts; the rest is counted in rules, as in Kubernetes.
fn hosts(rules: &[Value]) -> String {
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == 3;
        if !more {
            list.extend(non_empty_text(&rule["host"]));
        }
    }
    match (list.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => list.join(","),
        (false, true) => format!("{} + {} more...", list.join(","), rules.len() - 3),
    }
}

pub fn ingress_class(class: &Value, now: Timestamp) -> Cells {
    let parameters = &class["spec"]["parameters"];
    let shown = if parameters.is_null() {
        "<none>".to_owned()
    } else {
        let group =
            non_empty_text(&parameters["apiGroup"]).map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
    };
    let default = name_with_default_marker(class, &["ingressclass.kubernetes.io/is-default-class"]);
    vec![default, text(&class["spec"]["controller"]).into(), shown.into(), age(class, now)]
}

pub fn network_policy(policy: &Value, now: Timestamp) -> Cells {
    vec![name(policy), selector(&policy["spec"]["podSelector"]).into(), age(policy, now)]
}

pub fn endpoints(endpoints: &Value, now: Timestamp) -> Cells {
    let subsets = items(&endpoints["subsets"]);
    let all = subsets.iter().flat_map(|subset| {
        let ports = items(&subset["ports"]);
        let addresses = items(&subset["addresses"]);
        let address = |point: &Value| text(&point["ip"]).to_owned();
        if ports.is_empty() {
            return addresses.iter().map(address).collect::<Vec<_>>();
        }
        let pairs = ports.iter().flat_map(|port| addresses.iter().map(move |point| (point, port)));
        pairs.map(|(point, port)| join_port(&address(point), int(&port["port"]))).collect()
    });
    let all: Vec<_> = all.collect();
    let shown = if subsets.is_empty() { "<none>".to_owned() } else { join_first_three(&all) };
    vec![name(endpoints), shown.into(), age(endpoints, now)]
}

fn join_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn join_first_three(all: &[impl AsRef<str>]) -> String {
    let first = all.iter().take(3).map(AsRef::as_ref).collect::<Vec<_>>().join(",");
    if all.len() > 3 { format!("{first} + {} more...", all.len() - 3) } else { first }
}

/// As [`join_first_three`], with `<unset>` for none.
fn first_three_or_unset(all: &[impl AsRef<str>]) -> String {
    let shown = join_first_three(all);
    if shown.is_empty() { "<unset>".to_owned() } else { shown }
}

pub fn endpoint_slice(slice: &Value, now: Timestamp) -> Cells {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => port["name"].as_str().unwrap_or("*").to_owned(),
    };
    let ports: Vec<_> = items(&slice["ports"]).iter().map(port).collect();
    let addresses: Vec<_> = items(&slice["endpoints"]).iter().flat_map(|e| texts(&e["addresses"])).collect();
    vec![
        name(slice),
        text(&slice["addressType"]).into(),
        first_three_or_unset(&ports).into(),
        first_three_or_unset(&addresses).into(),
        age(slice, now),
    ]
}

pub fn service_cidr(object: &Value, now: Timestamp) -> Cells {
    let ranges: Vec<_> = texts(&object["spec"]["cidrs"]).collect();
    vec![name(object), ranges.join(",").into(), age(object, now)]
}

pub fn ip_address(object: &Value, now: Timestamp) -> Cells {
    let parent = &object["spec"]["parentRef"];
    let shown = if parent.is_null() {
        "<none>".to_owned()
    } else {
        let resource = crate::error::qualified(text(&parent["resource"]), text(&parent["group"]));
        let namespace = non_empty_text(&parent["namespace"]).map(|ns| format!("/{ns}")).unwrap_or_default();
        format!("{}{namespace}/{}", resource.to_lowercase(), text(&parent["name"]))
    };
    vec![name(object), shown.into(), age(object, now)]
}
