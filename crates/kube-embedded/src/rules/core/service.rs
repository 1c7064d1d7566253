//! Service: defaults, fields dropped when the type changes, validation of ports, policies and addresses.
//!
//! `crate::admission::services` allocates addresses and node ports before these rules run.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::service_addresses::{self as addresses, is_headless};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{
    go_duplicate, int, is_empty_value, items, maps_mut, members, set_if_absent, set_if_empty, text, texts,
};
use crate::rules::check::{self, PathValue};
use crate::rules::network::ip;
use crate::rules::{DEFAULT_RULES, KindRules, NamePolicy};

pub const RULES: &[KindRules] = &[KindRules {
    group: "",
    kind: "Service",
    naming: NamePolicy::Label,
    default,
    prepare_for_create: |service| {
        service["status"] = json!({"loadBalancer": {}});
        drop_internal_traffic_policy(service);
    },
    prepare_for_update: update,
    validate: |service| validate(service, None),
    validate_update: |new, old| {
        let mut errs = addresses::validate_change(new, old);
        validate_load_balancer_class_update(new, old, &mut errs);
        validate_load_balancer_class(new, &mut errs);
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
    ..DEFAULT_RULES
}];

fn service_type(service: &Value) -> &str {
    text(&service["spec"]["type"])
}

/// Whether the Service is reachable through nodes or external addresses.
fn is_externally_accessible(service: &Value) -> bool {
    match service_type(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !is_empty_value(&service["spec"]["externalIPs"]),
        _ => false,
    }
}

pub fn needs_health_check(service: &Value) -> bool {
    service_type(service) == "LoadBalancer" && text(&service["spec"]["externalTrafficPolicy"]) == "Local"
}

pub fn needs_node_port(service: &Value) -> bool {
    matches!(service_type(service), "NodePort" | "LoadBalancer")
}

pub fn needs_cluster_ip(service: &Value) -> bool {
    service_type(service) != "ExternalName"
}

fn default(service: &mut Value) {
    let spec = members(service, "spec");
    set_if_empty(spec, "sessionAffinity", "None");
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
    set_if_empty(spec, "type", "ClusterIP");
    for port in maps_mut(&mut service["spec"], "ports") {
        set_if_empty(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        if is_empty_value(target) || target.as_i64() == Some(0) {
            port.insert("targetPort".to_owned(), number);
        }
    }
    if is_externally_accessible(service) {
        set_if_empty(members(service, "spec"), "externalTrafficPolicy", "Cluster");
    }
    if matches!(service_type(service), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_if_absent(members(service, "spec"), "internalTrafficPolicy", "Cluster");
    }
    if service_type(service) == "LoadBalancer" {
        set_if_absent(members(service, "spec"), "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = service.get_mut("status").and_then(|s| s.get_mut("loadBalancer")) {
            for point in maps_mut(balancer, "ingress").filter(|point| point.contains_key("ip")) {
                set_if_absent(point, "ipMode", "VIP");
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
    let balanced = |service: &Value| service_type(service) == "LoadBalancer";
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
    if was(is_externally_accessible) && same("externalTrafficPolicy") {
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
    drop_internal_traffic_policy(new);
    if !balanced(new) {
        members(new, "status").insert("loadBalancer".to_owned(), Value::Object(Map::new()));
    }
}

/// An `ExternalName` Service has no internal traffic.
fn drop_internal_traffic_policy(service: &mut Value) {
    if service_type(service) == "ExternalName" {
        members(service, "spec").remove("internalTrafficPolicy");
    }
}

/// The node ports in the spec.
pub fn node_ports(service: &Value) -> Vec<i64> {
    let ports = items(&service["spec"]["ports"]).iter().map(|port| int(&port["nodePort"]));
    ports.filter(|port| *port != 0).collect()
}

fn validate(service: &Value, old: Option<&Value>) -> FieldErrors {
    let root = PathValue::root(service);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    topology_annotations(&root, &mut errs);
    validate_type_fields(service, &spec, &mut errs);
    validate_ports(&spec.get("ports"), &mut errs);
    check::labels(&spec.get("selector"), &mut errs);
    validate_session_affinity(&spec, &mut errs);
    errs.extend(addresses::validate(service, old));

    let known: HashSet<_> = old.into_iter().flat_map(|old| texts(&old["spec"]["externalIPs"])).collect();
    for address in spec.get("externalIPs").items() {
        let before = errs.len();
        ip::validate_legacy_ip(&address, &known, &mut errs);
        if errs.len() == before {
            ip::validate_endpoint_ip(&address, &mut errs);
        }
    }
    check::required_one_of(
        &spec.get("type"),
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        &mut errs,
    );
    validate_port_conflicts(&spec, &mut errs);
    validate_source_ranges(&root, old, &mut errs);
    let balanced = service_type(service) == "LoadBalancer";
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.exists() && !balanced {
        errs.push(FieldError::forbidden(&allocate.path, "may only be used when `type` is 'LoadBalancer'"));
    }
    validate_load_balancer_class(service, &mut errs);
    validate_traffic_policies(service, &spec, &mut errs);
    errs
}

fn topology_annotations(root: &PathValue, errs: &mut FieldErrors) {
    let annotations = root.nested("metadata.annotations");
    let old = annotations.key("service.kubernetes.io/topology-aware-hints");
    let mode = annotations.key("service.kubernetes.io/topology-mode");
    if old.exists() && mode.exists() && old.text() != mode.text() {
        let words =
            "must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified";
        errs.push(FieldError::invalid(&mode.path, mode.text(), words));
    }
}

fn validate_type_fields(service: &Value, spec: &PathValue, errs: &mut FieldErrors) {
    let kind = service_type(service);
    let headless = is_headless(service);
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

fn validate_ports(ports: &PathValue, errs: &mut FieldErrors) {
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

fn validate_session_affinity(spec: &PathValue, errs: &mut FieldErrors) {
    check::required_one_of(&spec.get("sessionAffinity"), &["ClientIP", "None"], errs);
    let config = spec.get("sessionAffinityConfig");
    match spec.get("sessionAffinity").text() {
        "ClientIP" => {
            let timeout = config.nested("clientIP.timeoutSeconds");
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
fn validate_port_conflicts(spec: &PathValue, errs: &mut FieldErrors) {
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

fn validate_source_ranges(root: &PathValue, old: Option<&Value>, errs: &mut FieldErrors) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let spec = root.get("spec");
    let balanced = spec.get("type").text() == "LoadBalancer";
    let ranges = spec.get("loadBalancerSourceRanges");
    let annotation = root.nested("metadata.annotations").key(ANNOTATION);
    if !ranges.is_empty() {
        // The path has a capital letter in Kubernetes.
        let path = spec.path.field("LoadBalancerSourceRanges");
        if !balanced {
            errs.push(FieldError::forbidden(&path, LOAD_BALANCER_ONLY));
        }
        let known = old.map(|old| texts(&old["spec"]["loadBalancerSourceRanges"]).map(str::trim).collect());
        let known: HashSet<_> = known.unwrap_or_default();
        for (at, range) in ranges.items().enumerate() {
            ip::validate_legacy_cidr(range.text().trim(), &path.index(at), &known, errs);
        }
    } else if annotation.exists() {
        if !balanced {
            errs.push(FieldError::forbidden(&annotation.path, LOAD_BALANCER_ONLY));
        }
        let known = old.map(|old| text(&old["metadata"]["annotations"][ANNOTATION]));
        let given = annotation.text().trim();
        if known != Some(annotation.text()) && !given.is_empty() {
            for range in given.split(',') {
                ip::validate_legacy_cidr(range.trim(), &annotation.path, &HashSet::<&str>::new(), errs);
            }
        }
    }
}

fn validate_load_balancer_class_update(new: &Value, old: &Value, errs: &mut FieldErrors) {
    let (now, was) = (&new["spec"]["loadBalancerClass"], &old["spec"]["loadBalancerClass"]);
    if service_type(new) == "LoadBalancer" && service_type(old) == "LoadBalancer" && now != was {
        let path = Path::new("spec.loadBalancerClass");
        errs.push(FieldError::invalid(&path, now.clone(), "may not change once set"));
    }
}

fn validate_load_balancer_class(service: &Value, errs: &mut FieldErrors) {
    let root = PathValue::root(service);
    let class = root.nested("spec.loadBalancerClass");
    if !class.exists() {
        return;
    }
    if service_type(service) == "LoadBalancer" {
        check::text(&class, check::qualified_name, errs);
    } else {
        errs.push(FieldError::forbidden(&class.path, "may only be used when `type` is 'LoadBalancer'"));
    }
}

fn validate_traffic_policies(service: &Value, spec: &PathValue, errs: &mut FieldErrors) {
    let policy = spec.get("externalTrafficPolicy");
    if is_externally_accessible(service) {
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
    } else if matches!(service_type(service), "NodePort" | "LoadBalancer" | "ClusterIP") {
        errs.push(FieldError::required(&policy.path, ""));
    }
    let distribution = spec.get("trafficDistribution");
    if distribution.exists() {
        check::one_of(&distribution, &["PreferClose", "PreferSameZone", "PreferSameNode"], errs);
    }
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let root = PathValue::root(new);
    let points = root.nested("status.loadBalancer.ingress");
    let mut errs = FieldErrors::new();
    if service_type(new) != "LoadBalancer" && !points.is_empty() {
        errs.push(FieldError::forbidden(&points.path, "may only be used when `spec.type` is 'LoadBalancer'"));
        return errs;
    }
    let known = items(&old["status"]["loadBalancer"]["ingress"]).iter().map(|point| text(&point["ip"]));
    let known: HashSet<_> = known.filter(|ip| !ip.is_empty()).collect();
    for point in points.items() {
        let (address, mode, host) = (point.get("ip"), point.get("ipMode"), point.get("hostname"));
        if !address.is_empty() {
            ip::validate_legacy_ip(&address, &known, &mut errs);
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
    let root = PathValue::root(service);
    let spec = root.get("spec");
    let kind = service_type(service);
    let headless = kind == "ClusterIP" && spec.get("clusterIP").text() == "None";
    let mut told = Vec::new();
    let mut tell = |holds: bool, words: &str| {
        if holds {
            told.push(words.to_owned());
        }
    };
    tell(
        root.nested("metadata.annotations").has("service.kubernetes.io/topology-aware-hints"),
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
        told.extend(spec.get(field).items().filter_map(|at| ip::ip_warning(&at)));
    }
    told.extend(ip::ip_warning(&spec.get("loadBalancerIP")));
    told.extend(spec.get("loadBalancerSourceRanges").items().flat_map(|at| ip::cidr_warnings(&at)));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_defaults_follow_type() {
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
    fn service_type_change_drops_fields_of_old_type() {
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
    fn invalid_services_have_kubernetes_messages() {
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
