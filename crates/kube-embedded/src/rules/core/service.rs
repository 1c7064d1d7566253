//! Service: defaults, fields dropped when the type changes, validation of ports, policies and addresses.
//!
//! `crate::admission::services` allocates addresses and node ports before these rules run.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::service_addresses::{self as addresses, headless};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::check::{self, At};
use crate::rules::network::ip;
use crate::rules::read::{empty, fill, fill_text, go_duplicate, int, items, maps_mut, members, text, texts};
use crate::rules::{Naming, PLAIN, Rules};

pub const RULES: &[Rules] = &[Rules {
    group: "",
    kind: "Service",
    naming: Naming::Label,
    default,
    create: |service| {
        service["status"] = json!({"loadBalancer": {}});
        no_internal_policy(service);
    },
    update,
    validate: |service| validate(service, None),
    validate_update: |new, old| {
        let mut errs = addresses::validate_change(new, old);
        class_change(new, old, &mut errs);
        class(new, &mut errs);
        if needs_health_check(new)
            && needs_health_check(old)
            && new["spec"]["healthCheckNodePort"] != old["spec"]["healthCheckNodePort"]
        {
            errs.push(FieldError::forbidden(&Path::new("spec.healthCheckNodePort"), check::IMMUTABLE));
        }
        errs.extend(validate(new, Some(old)));
        errs
    },
    validate_status,
    warnings: |service, _| warnings(service),
    ..PLAIN
}];

fn kind(service: &Value) -> &str {
    text(&service["spec"]["type"])
}

/// Whether the Service is reachable through nodes or external addresses.
fn externally_accessible(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !empty(&service["spec"]["externalIPs"]),
        _ => false,
    }
}

pub fn needs_health_check(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && text(&service["spec"]["externalTrafficPolicy"]) == "Local"
}

pub fn needs_node_port(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

pub fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

fn default(service: &mut Value) {
    let spec = members(service, "spec");
    fill_text(spec, "sessionAffinity", "None");
    match text(&spec["sessionAffinity"]) {
        "None" => _ = spec.remove("sessionAffinityConfig"),
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig").unwrap_or(&Value::Null);
            if config["clientIP"]["timeoutSeconds"].is_null() {
                let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    for port in maps_mut(&mut service["spec"], "ports") {
        fill_text(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if empty(target) || target.as_i64() == Some(0) {
            port.insert("targetPort".to_owned(), number);
        }
    }
    if externally_accessible(service) {
        fill_text(members(service, "spec"), "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind(service), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fill(members(service, "spec"), "internalTrafficPolicy", "Cluster");
    }
    if kind(service) == "LoadBalancer" {
        fill(members(service, "spec"), "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = service.get_mut("status").and_then(|s| s.get_mut("loadBalancer")) {
            for point in maps_mut(balancer, "ingress").filter(|point| point.contains_key("ip")) {
                fill(point, "ipMode", "VIP");
            }
        }
    }
}

/// A change of type drops the fields of the old type, unless the client changed them too: then
/// validation rejects them instead of dropping them silently.
fn update(new: &mut Value, old: &Value) {
    let before = new.clone();
    let same = |field: &str| before["spec"][field] == old["spec"][field];
    let (gained, lost) = (&before, old);
    let was = |holds: fn(&Value) -> bool| holds(lost) && !holds(gained);
    let balanced = |service: &Value| kind(service) == "LoadBalancer";
    let mut drop = Vec::new();
    if was(needs_cluster_ip) {
        if same("clusterIP") && same("clusterIPs") {
            drop.extend(["clusterIP", "clusterIPs"]);
        }
        drop.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| same(field)));
    }
    if was(needs_health_check) && same("healthCheckNodePort") {
        drop.push("healthCheckNodePort");
    }
    if balanced(old) && !balanced(&before) {
        drop.extend(
            ["allocateLoadBalancerNodePorts", "loadBalancerClass"].into_iter().filter(|field| same(field)),
        );
    }
    if was(externally_accessible) && same("externalTrafficPolicy") {
        drop.push("externalTrafficPolicy");
    }
    let known: HashSet<i64> = node_ports(old).into_iter().collect();
    let drop_ports = was(needs_node_port) && node_ports(&before).iter().all(|port| known.contains(port));
    let spec = members(new, "spec");
    for field in drop {
        spec.remove(field);
    }
    if drop_ports {
        for port in maps_mut(&mut new["spec"], "ports") {
            port.remove("nodePort");
        }
    }
    no_internal_policy(new);
    if !balanced(new) {
        members(new, "status").insert("loadBalancer".to_owned(), Value::Object(Map::new()));
    }
}

/// An `ExternalName` Service has no internal traffic.
fn no_internal_policy(service: &mut Value) {
    if kind(service) == "ExternalName" {
        members(service, "spec").remove("internalTrafficPolicy");
    }
}

/// The node ports in the spec.
pub fn node_ports(service: &Value) -> Vec<i64> {
    let ports = items(&service["spec"]["ports"]).iter().map(|port| int(&port["nodePort"]));
    ports.filter(|port| *port != 0).collect()
}

fn validate(service: &Value, old: Option<&Value>) -> FieldErrors {
    let root = At::root(service);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    topology_annotations(&root, &mut errs);
    shape_of_type(service, &spec, &mut errs);
    ports(&spec.get("ports"), &mut errs);
    check::labels(&spec.get("selector"), &mut errs);
    affinity(&spec, &mut errs);
    errs.extend(addresses::validate(service, old));

    let known: HashSet<_> = old.into_iter().flat_map(|old| texts(&old["spec"]["externalIPs"])).collect();
    for address in spec.get("externalIPs").items() {
        let before = errs.len();
        ip::legacy(&address, &known, &mut errs);
        if errs.len() == before {
            ip::endpoint(&address, &mut errs);
        }
    }
    check::required_one_of(
        &spec.get("type"),
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        &mut errs,
    );
    port_clashes(&spec, &mut errs);
    source_ranges(&root, old, &mut errs);
    let balanced = kind(service) == "LoadBalancer";
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.exists() && !balanced {
        errs.push(FieldError::forbidden(&allocate.path, "may only be used when `type` is 'LoadBalancer'"));
    }
    class(service, &mut errs);
    traffic(service, &spec, &mut errs);
    errs
}

fn topology_annotations(root: &At, errs: &mut FieldErrors) {
    let annotations = root.down("metadata.annotations");
    let old = annotations.key("service.kubernetes.io/topology-aware-hints");
    let mode = annotations.key("service.kubernetes.io/topology-mode");
    if old.exists() && mode.exists() && old.text() != mode.text() {
        let words =
            "must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified";
        errs.push(FieldError::invalid(&mode.path, mode.text(), words));
    }
}

fn shape_of_type(service: &Value, spec: &At, errs: &mut FieldErrors) {
    let kind = kind(service);
    let headless = headless(service);
    if spec.get("ports").is_empty() && !headless && kind != "ExternalName" {
        errs.push(FieldError::required(&spec.get("ports").path, ""));
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let words = format!("may not be set to 'None' for {kind} services");
        errs.push(FieldError::invalid(&spec.path.field("clusterIPs").index(0), "None", words));
    }
    if kind != "ExternalName" {
        return;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let at = spec.get(field);
        let set = if field == "ipFamilyPolicy" { at.exists() } else { !at.is_empty() };
        if set {
            errs.push(FieldError::forbidden(&at.path, "may not be set for ExternalName services"));
        }
    }
    let target = spec.get("externalName");
    let name = target.text().strip_suffix('.').unwrap_or(target.text());
    if name.is_empty() {
        errs.push(FieldError::required(&target.path, ""));
    } else {
        let words = check::dns_subdomain(name).into_iter();
        errs.extend(words.map(|words| FieldError::invalid(&target.path, name, words)));
    }
}

fn ports(ports: &At, errs: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.text().is_empty() {
            check::text(&name, check::dns_label, errs);
            if names.contains(&name.text()) {
                errs.push(FieldError::duplicate(&name.path, name.text()));
            }
            names.insert(name.text());
        } else if ports.len() > 1 {
            errs.push(FieldError::required(&name.path, ""));
        }
        check::port_number(&port.get("port"), errs);
        check::required_one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"], errs);
        check::port(&port.get("targetPort"), errs);
        let protocol = port.get("appProtocol");
        if protocol.exists() {
            check::text(&protocol, check::qualified_name, errs);
        }
    }
}

fn affinity(spec: &At, errs: &mut FieldErrors) {
    check::required_one_of(&spec.get("sessionAffinity"), &["ClientIP", "None"], errs);
    let config = spec.get("sessionAffinityConfig");
    match spec.get("sessionAffinity").text() {
        "ClientIP" => {
            let timeout = config.down("clientIP.timeoutSeconds");
            let missing =
                [&config, &config.get("clientIP"), &timeout].into_iter().find(|at| !at.exists()).cloned();
            if let Some(at) = missing {
                errs.push(FieldError::required(&at.path, "when session affinity type is ClientIP"));
            } else if !(1..=86_400).contains(&timeout.int()) {
                let words = "must be greater than 0 and less than 86400";
                errs.push(FieldError::invalid(&timeout.path, timeout.int(), words));
            }
        }
        "None" if config.exists() => {
            errs.push(FieldError::forbidden(&config.path, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Duplicate ports, and node ports where none are allowed.
fn port_clashes(spec: &At, errs: &mut FieldErrors) {
    let (mut nodes, mut numbers) = (HashSet::new(), HashSet::new());
    let clustered = spec.get("type").text() == "ClusterIP";
    for port in spec.get("ports").items() {
        let node = port.get("nodePort");
        if clustered && node.int() != 0 {
            errs.push(FieldError::forbidden(&node.path, "may not be used when `type` is 'ClusterIP'"));
        }
        let key = (port.get("protocol").text(), node.int());
        if node.int() != 0 {
            if nodes.contains(&key) {
                errs.push(FieldError::duplicate(&node.path, node.int()));
            }
            nodes.insert(key);
        }
        let key = (port.get("protocol").text(), port.get("port").int());
        if numbers.contains(&key) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(key.0),
                key.1
            );
            errs.push(go_duplicate(&port.path, shown));
        }
        numbers.insert(key);
    }
}

fn source_ranges(root: &At, old: Option<&Value>, errs: &mut FieldErrors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
    let spec = root.get("spec");
    let balanced = spec.get("type").text() == "LoadBalancer";
    let ranges = spec.get("loadBalancerSourceRanges");
    let annotation = root.down("metadata.annotations").key(ANNOTATION);
    if !ranges.is_empty() {
        // The path has a capital letter in Kubernetes.
        let path = spec.path.field("LoadBalancerSourceRanges");
        if !balanced {
            errs.push(FieldError::forbidden(&path, ONLY_BALANCED));
        }
        let known = old.map(|old| texts(&old["spec"]["loadBalancerSourceRanges"]).map(str::trim).collect());
        let known: HashSet<_> = known.unwrap_or_default();
        for (at, range) in ranges.items().enumerate() {
            ip::legacy_range(range.text().trim(), &path.index(at), &known, errs);
        }
    } else if annotation.exists() {
        if !balanced {
            errs.push(FieldError::forbidden(&annotation.path, ONLY_BALANCED));
        }
        let known = old.map(|old| text(&old["metadata"]["annotations"][ANNOTATION]));
        let given = annotation.text().trim();
        if known != Some(annotation.text()) && !given.is_empty() {
            for range in given.split(',') {
                ip::legacy_range(range.trim(), &annotation.path, &HashSet::<&str>::new(), errs);
            }
        }
    }
}

fn class_change(new: &Value, old: &Value, errs: &mut FieldErrors) {
    let (now, was) = (&new["spec"]["loadBalancerClass"], &old["spec"]["loadBalancerClass"]);
    if kind(new) == "LoadBalancer" && kind(old) == "LoadBalancer" && now != was {
        let path = Path::new("spec.loadBalancerClass");
        errs.push(FieldError::invalid(&path, now.clone(), "may not change once set"));
    }
}

fn class(service: &Value, errs: &mut FieldErrors) {
    let root = At::root(service);
    let class = root.down("spec.loadBalancerClass");
    if !class.exists() {
        return;
    }
    if kind(service) == "LoadBalancer" {
        check::text(&class, check::qualified_name, errs);
    } else {
        errs.push(FieldError::forbidden(&class.path, "may only be used when `type` is 'LoadBalancer'"));
    }
}

fn traffic(service: &Value, spec: &At, errs: &mut FieldErrors) {
    let policy = spec.get("externalTrafficPolicy");
    if externally_accessible(service) {
        check::required_one_of(&policy, &["Cluster", "Local"], errs);
    } else if !policy.is_empty() {
        let words = "may only be set for externally-accessible services";
        errs.push(FieldError::invalid(&policy.path, policy.text(), words));
    }
    let port = spec.get("healthCheckNodePort");
    match (needs_health_check(service), port.int()) {
        (false, 0) => {}
        (false, number) => {
            let words =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errs.push(FieldError::invalid(&port.path, number, words));
        }
        (true, 0) => errs.push(FieldError::required(&port.path, "")),
        (true, _) => check::port_number(&port, errs),
    }
    let policy = spec.get("internalTrafficPolicy");
    if policy.exists() {
        check::one_of(&policy, &["Cluster", "Local"], errs);
    } else if matches!(kind(service), "NodePort" | "LoadBalancer" | "ClusterIP") {
        errs.push(FieldError::required(&policy.path, ""));
    }
    let distribution = spec.get("trafficDistribution");
    if distribution.exists() {
        check::one_of(&distribution, &["PreferClose", "PreferSameZone", "PreferSameNode"], errs);
    }
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let root = At::root(new);
    let points = root.down("status.loadBalancer.ingress");
    let mut errs = FieldErrors::new();
    if kind(new) != "LoadBalancer" && !points.is_empty() {
        errs.push(FieldError::forbidden(&points.path, "may only be used when `spec.type` is 'LoadBalancer'"));
        return errs;
    }
    let known = items(&old["status"]["loadBalancer"]["ingress"]).iter().map(|point| text(&point["ip"]));
    let known: HashSet<_> = known.filter(|ip| !ip.is_empty()).collect();
    for point in points.items() {
        let (address, mode, host) = (point.get("ip"), point.get("ipMode"), point.get("hostname"));
        if !address.is_empty() {
            ip::legacy(&address, &known, &mut errs);
        }
        match (address.is_empty(), mode.exists()) {
            (false, false) => {
                errs.push(FieldError::required(&mode.path, "must be specified when `ip` is set"));
            }
            (true, true) => {
                errs.push(FieldError::forbidden(&mode.path, "may not be specified when `ip` is not set"));
            }
            (false, true) => check::one_of(&mode, &["Proxy", "VIP"], &mut errs),
            (true, false) => {}
        }
        if !host.is_empty() {
            check::text(&host, check::dns_subdomain, &mut errs);
            if ip::parse(host.text()).is_some() {
                let words = "must be a DNS name, not an IP address";
                errs.push(FieldError::invalid(&host.path, host.text(), words));
            }
        }
    }
    errs
}

fn warnings(service: &Value) -> Vec<String> {
    let root = At::root(service);
    let spec = root.get("spec");
    let kind = kind(service);
    let headless = kind == "ClusterIP" && spec.get("clusterIP").text() == "None";
    let mut told = Vec::new();
    let mut tell = |holds: bool, words: &str| {
        if holds {
            told.push(words.to_owned());
        }
    };
    tell(
        root.down("metadata.annotations").has("service.kubernetes.io/topology-aware-hints"),
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
    );
    let outside = !spec.get("externalIPs").is_empty();
    tell(
        headless && !spec.get("loadBalancerIP").is_empty(),
        "spec.loadBalancerIP is ignored for headless services",
    );
    tell(headless && outside, "spec.externalIPs is ignored for headless services");
    tell(
        headless && spec.get("sessionAffinity").text() != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    tell(
        outside && !headless && kind != "ExternalName",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    tell(kind == "ExternalName" && outside, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    tell(
        kind != "ExternalName" && !spec.get("externalName").is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    tell(
        spec.get("trafficDistribution").text() == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    for field in ["clusterIPs", "externalIPs"] {
        told.extend(spec.get(field).items().filter_map(|at| ip::warning(&at)));
    }
    told.extend(ip::warning(&spec.get("loadBalancerIP")));
    told.extend(spec.get("loadBalancerSourceRanges").items().flat_map(|at| ip::range_warnings(&at)));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_the_type() {
        let mut service = json!({"spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "x"}]}});
        default(&mut service);
        assert_eq!(
            service["spec"],
            json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80},
                {"port": 81, "protocol": "TCP", "targetPort": "x"},
            ]})
        );
        let mut service = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}});
        default(&mut service);
        assert_eq!(
            service["spec"],
            json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
                   "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                   "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10_800}}})
        );
    }

    #[test]
    fn a_change_of_type_drops_what_it_leaves_behind() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
            "externalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"port": 1, "nodePort": 30_001}]}});
        let mut new = old.clone();
        new["spec"]["type"] = "ClusterIP".into();
        update(&mut new, &old);
        assert_eq!(
            new["spec"],
            json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                   "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 1}]})
        );
        new["spec"]["type"] = "ExternalName".into();
        let plain = json!({"spec": new["spec"].clone(), "status": {}});
        let mut was = plain.clone();
        was["spec"]["type"] = "ClusterIP".into();
        let mut new = plain;
        update(&mut new, &was);
        assert_eq!(new["spec"], json!({"type": "ExternalName", "ports": [{"port": 1}]}));
    }

    #[test]
    fn bad_services_are_told_why() {
        let table = [
            (json!({"type": "ClusterIP"}), "spec.ports: Required value"),
            (
                json!({"type": "ExternalName", "clusterIPs": ["None"]}),
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services\nspec.externalName: Required value",
            ),
            (
                json!({"type": "ClusterIP", "ports": [{"port": 1, "protocol": "TCP", "targetPort": 1},
                                                       {"port": 1, "protocol": "TCP", "targetPort": 1}]}),
                "spec.ports[0].name: Required value\nspec.ports[1].name: Required value\nspec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":1,\"TargetPort\":0,\"NodePort\":0}",
            ),
        ];
        for (mut spec, expected) in table {
            spec["sessionAffinity"] = "None".into();
            spec["internalTrafficPolicy"] = "Cluster".into();
            let errs = validate(&json!({"spec": spec}), None);
            let told: Vec<_> = errs.iter().map(ToString::to_string).collect();
            assert_eq!(told.join("\n"), expected);
        }
    }
}
