//! `NetworkPolicy`, `EndpointSlice`, `IPAddress` and `ServiceCIDR`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::ip;
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{
    go_names, is_empty_value, items, list_mut, maps_mut, members, set_if_absent, text, texts,
};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy, meta};

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        generation: GenerationPolicy::Content,
        default: default_policy,
        validate: |policy| validate_policy(policy, &HashSet::new()),
        validate_update: |new, old| {
            let known: HashSet<_> =
                ip_blocks(old).flat_map(|block| block_cidrs(&block)).map(|at| at.text()).collect();
            validate_policy(new, &known)
        },
        warnings: |policy, _| {
            ip_blocks(policy)
                .flat_map(|block| block_cidrs(&block))
                .flat_map(|range| ip::cidr_warnings(&range))
                .collect()
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        generation: GenerationPolicy::ContentAndLabels,
        default: |slice| {
            for port in maps_mut(slice, "ports") {
                set_if_absent(port, "name", "");
                set_if_absent(port, "protocol", "TCP");
            }
        },
        prepare_for_create: |slice| drop_deprecated_topology(slice, None),
        prepare_for_update: |new, old| drop_deprecated_topology(new, Some(old)),
        validate: |slice| validate_slice(slice, None),
        validate_update: |new, old| {
            let mut errs = validate_slice(new, Some(old));
            check::immutable(
                &PathValue::root(new).get("addressType"),
                &PathValue::root(old).get("addressType"),
                &mut errs,
            );
            errs
        },
        warnings: slice_warnings,
        ..DEFAULT_RULES
    },
    KindRules {
        group: "networking.k8s.io",
        kind: "IPAddress",
        naming: NamePolicy::PathSegment,
        validate: validate_address,
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::PathSegment);
            errs.extend(validate_address(new));
            let (now, was) = (PathValue::root(new), PathValue::root(old));
            let parent = now.nested("spec.parentRef");
            if parent.to_json() != was.nested("spec.parentRef").to_json() {
                let shown = go_names(&parent.to_json());
                errs.push(FieldError::invalid(&parent.path, shown, check::IMMUTABLE));
            }
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "networking.k8s.io",
        kind: "ServiceCIDR",
        validate: |object| validate_service_cidrs(&PathValue::root(object).nested("spec.cidrs")),
        validate_update: validate_service_cidrs_update,
        ..DEFAULT_RULES
    },
];

fn default_policy(policy: &mut Value) {
    let spec = members(policy, "spec");
    if spec.get("policyTypes").is_none_or(is_empty_value) {
        let egress = spec.get("egress").is_some_and(|egress| !is_empty_value(egress));
        let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
    for direction in ["ingress", "egress"] {
        for rule in list_mut(&mut policy["spec"], direction).into_iter().flatten() {
            for port in maps_mut(rule, "ports") {
                set_if_absent(port, "protocol", "TCP");
            }
        }
    }
}

/// The directions of a policy: the field with the rules, and the field with their peers.
const DIRECTIONS: &[(&str, &str)] = &[("ingress", "from"), ("egress", "to")];

/// Every `ipBlock` of a policy.
fn ip_blocks(policy: &Value) -> impl Iterator<Item = PathValue<'_>> {
    let spec = PathValue::root(policy).get("spec");
    DIRECTIONS.iter().flat_map(move |(direction, peers)| {
        let rules = spec.get(direction).items();
        rules
            .flat_map(|rule| rule.get(peers).items().map(|peer| peer.get("ipBlock")))
            .filter(PathValue::exists)
    })
}

/// The CIDRs of a block: its own, then the exceptions.
fn block_cidrs<'a>(block: &PathValue<'a>) -> impl Iterator<Item = PathValue<'a>> + use<'a> {
    std::iter::once(block.get("cidr")).chain(block.get("except").items())
}

fn validate_policy(policy: &Value, known: &HashSet<&str>) -> FieldErrors {
    let root = PathValue::root(policy);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    check::label_selector(&spec.get("podSelector"), &mut errs);
    for (direction, peers) in DIRECTIONS {
        for rule in spec.get(direction).items() {
            for port in rule.get("ports").items() {
                validate_policy_port(&port, &mut errs);
            }
            for peer in rule.get(peers).items() {
                validate_policy_peer(&peer, known, &mut errs);
            }
        }
    }
    let types = spec.get("policyTypes");
    if types.len() > 2 {
        errs.push(FieldError::invalid(
            &types.path,
            types.to_json(),
            "may not specify more than two policyTypes",
        ));
        return errs;
    }
    for kind in types.items() {
        check::one_of(&kind, &["Ingress", "Egress"], &mut errs);
    }
    errs
}

fn validate_policy_port(port: &PathValue, errs: &mut FieldErrors) {
    let (protocol, number, end) = (port.get("protocol"), port.get("port"), port.get("endPort"));
    if protocol.exists() {
        check::one_of(&protocol, &["TCP", "UDP", "SCTP"], errs);
    }
    if !number.exists() {
        if end.exists() {
            let words = "may not be specified when `port` is not specified";
            errs.push(FieldError::invalid(&end.path, end.int(), words));
        }
    } else if number.value.is_some_and(Value::is_string) {
        if end.exists() {
            let words = "may not be specified when `port` is non-numeric";
            errs.push(FieldError::invalid(&end.path, end.int(), words));
        }
        check::text(&number, check::port_name, errs);
    } else {
        check::port_number(&number, errs);
        if end.exists() {
            if end.int() < number.int() {
                let words = "must be greater than or equal to `port`";
                errs.push(FieldError::invalid(&end.path, number.int(), words));
            }
            check::port_number(&end, errs);
        }
    }
}

fn validate_policy_peer(peer: &PathValue, known: &HashSet<&str>, errs: &mut FieldErrors) {
    let (pods, namespaces, block) =
        (peer.get("podSelector"), peer.get("namespaceSelector"), peer.get("ipBlock"));
    check::label_selector(&pods, errs);
    check::label_selector(&namespaces, errs);
    if block.exists() {
        validate_ip_block(&block, known, errs);
    }
    let selected = pods.exists() || namespaces.exists();
    match (selected, block.exists()) {
        (false, false) => errs.push(FieldError::required(&peer.path, "must specify a peer")),
        (true, true) => {
            errs.push(FieldError::forbidden(&peer.path, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

fn validate_ip_block(block: &PathValue, known: &HashSet<&str>, errs: &mut FieldErrors) {
    let range = block.get("cidr");
    if range.is_empty() {
        errs.push(FieldError::required(&range.path, ""));
        return;
    }
    ip::validate_legacy_cidr(range.text(), &range.path, known, errs);
    let Some(whole) = ip::Cidr::parse(range.text()) else { return };
    for except in block.get("except").items() {
        ip::validate_legacy_cidr(except.text(), &except.path, known, errs);
        let Some(part) = ip::Cidr::parse(except.text()) else { continue };
        if !whole.contains(part.network_address()) || whole.prefix >= part.prefix {
            errs.push(FieldError::invalid(&except.path, except.text(), "must be a strict subset of `cidr`"));
        }
    }
}

/// Drops a legacy field that is no longer accepted.
fn drop_deprecated_topology(slice: &mut Value, old: Option<&Value>) {
    if old.is_some_and(|old| old["endpoints"] == slice["endpoints"]) {
        return;
    }
    for endpoint in maps_mut(slice, "endpoints") {
        endpoint.remove("deprecatedTopology");
    }
}

fn validate_slice(slice: &Value, old: Option<&Value>) -> FieldErrors {
    let root = PathValue::root(slice);
    let mut errs = FieldErrors::new();
    check::required_one_of(&root.get("addressType"), &["FQDN", "IPv4", "IPv6"], &mut errs);
    validate_slice_ports(&root.get("ports"), &mut errs);
    if old.is_none_or(|old| old["endpoints"] != slice["endpoints"]) {
        validate_slice_endpoints(&root, &mut errs);
    }
    errs
}

fn validate_slice_ports(ports: &PathValue, errs: &mut FieldErrors) {
    const MAX_PORTS: usize = 20_000;
    if ports.len() > MAX_PORTS {
        errs.push(FieldError::too_many(&ports.path, ports.len(), MAX_PORTS));
        return;
    }
    let mut names = std::collections::HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.is_empty() {
            check::text(&name, check::dns_label, errs);
        }
        if !names.insert(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        check::required_one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"], errs);
        let protocol = port.get("appProtocol");
        if protocol.exists() {
            check::text(&protocol, check::qualified_name, errs);
        }
    }
}

fn validate_slice_endpoints(root: &PathValue, errs: &mut FieldErrors) {
    const MAX_ENDPOINTS: usize = 1000;
    const MAX_ADDRESSES: usize = 100;
    let endpoints = root.get("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errs.push(FieldError::too_many(&endpoints.path, endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    let family = root.get("addressType").text();
    for endpoint in endpoints.items() {
        let addresses = endpoint.get("addresses");
        if addresses.is_empty() {
            errs.push(FieldError::required(&addresses.path, "must contain at least 1 address"));
        } else if addresses.len() > MAX_ADDRESSES {
            errs.push(FieldError::too_many(&addresses.path, addresses.len(), MAX_ADDRESSES));
        }
        for address in addresses.items() {
            validate_slice_address(&address, family, &addresses.path, errs);
        }
        let (node, host) = (endpoint.get("nodeName"), endpoint.get("hostname"));
        if node.exists() {
            check::text(&node, check::dns_subdomain, errs);
        }
        if host.exists() {
            check::text(&host, check::dns_label, errs);
        }
        validate_hints(&endpoint.get("hints").get("forZones"), check::label_value, errs);
        validate_hints(&endpoint.get("hints").get("forNodes"), check::dns_subdomain, errs);
    }
}

fn validate_slice_address(address: &PathValue, family: &str, list: &Path, errs: &mut FieldErrors) {
    let before = errs.len();
    match family {
        "IPv4" => ip::validate_legacy_ip(address, &HashSet::<&str>::new(), errs),
        "IPv6" => ip::validate_strict_ip(address, errs),
        "FQDN" => {
            validate_domain_name(address, errs);
            return;
        }
        _ => return,
    }
    if errs.len() != before {
        return;
    }
    if ip::is_v6(address.text()) != (family == "IPv6") {
        errs.push(FieldError::invalid(list, address.text(), format!("must be an {family} address")));
    }
    ip::validate_endpoint_ip(address, errs);
}

/// A domain name of at least two labels; a trailing dot is ignored.
fn validate_domain_name(at: &PathValue, errs: &mut FieldErrors) {
    let name = at.text();
    if name.is_empty() {
        errs.push(FieldError::required(&at.path, ""));
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = check::dns_subdomain(name);
    if !wrong.is_empty() {
        errs.extend(wrong.into_iter().map(|words| FieldError::invalid(&at.path, name, words)));
        return;
    }
    if !name.contains('.') {
        let words = "should be a domain with at least two segments separated by dots";
        errs.push(FieldError::invalid(&at.path, name, words));
        return;
    }
    for label in name.split('.') {
        let words = check::dns_label(label).into_iter();
        errs.extend(words.map(|words| FieldError::invalid(&at.path, label, words)));
    }
}

fn validate_hints(list: &PathValue, judge: fn(&str) -> Vec<String>, errs: &mut FieldErrors) {
    const MAX_HINTS: usize = 8;
    if list.len() > MAX_HINTS {
        errs.push(FieldError::too_many(&list.path, list.len(), MAX_HINTS));
        return;
    }
    let mut seen = HashSet::new();
    for hint in list.items() {
        let name = hint.get("name");
        if seen.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        seen.insert(name.text());
        check::text(&name, judge, errs);
    }
}

fn slice_warnings(slice: &Value, old: Option<&Value>) -> Vec<String> {
    const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    let mut warnings = Vec::new();
    if old.is_none() && text(&slice["addressType"]) == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let manager = text(&slice["metadata"]["labels"][MANAGED_BY]);
    if manager.starts_with("endpointslice") && manager.ends_with("controller.k8s.io") {
        return warnings;
    }
    let endpoints = PathValue::root(slice).get("endpoints").items();
    warnings.extend(
        endpoints.flat_map(|e| e.get("addresses").items()).filter_map(|address| ip::ip_warning(&address)),
    );
    warnings
}

fn validate_address(object: &Value) -> FieldErrors {
    let root = PathValue::root(object);
    let mut errs = FieldErrors::new();
    ip::validate_strict_ip(&root.nested("metadata.name"), &mut errs);
    let parent = root.nested("spec.parentRef");
    if !parent.exists() {
        errs.push(FieldError::required(&parent.path, ""));
        return errs;
    }
    let (group, namespace) = (parent.get("group"), parent.get("namespace"));
    if !group.is_empty() {
        check::text(&group, check::dns_subdomain, &mut errs);
    }
    check::required_text(&parent.get("resource"), check::path_segment, &mut errs);
    check::required_text(&parent.get("name"), check::path_segment, &mut errs);
    if !namespace.is_empty() {
        check::text(&namespace, check::path_segment, &mut errs);
    }
    errs
}

fn validate_service_cidrs(ranges: &PathValue) -> FieldErrors {
    let mut errs = FieldErrors::new();
    if ranges.is_empty() {
        errs.push(FieldError::required(&ranges.path, "at least one CIDR required"));
        return errs;
    }
    if ranges.len() > 2 {
        let shown = json!({"CIDRs": ranges.to_json()});
        errs.push(FieldError::invalid(&ranges.path, shown, "may only hold up to 2 values"));
        return errs;
    }
    for range in ranges.items() {
        ip::validate_strict_cidr(&range, &mut errs);
    }
    let families: Vec<_> = ranges
        .items()
        .filter_map(|range| ip::Cidr::parse(range.text()))
        .map(|range| range.ip.is_ipv4())
        .collect();
    if let [first, second] = families[..]
        && first == second
    {
        let words =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errs.push(FieldError::invalid(&ranges.path, ranges.to_json(), words));
    }
    errs
}

fn validate_service_cidrs_update(new: &Value, old: &Value) -> FieldErrors {
    let path = Path::new("spec.cidrs");
    let (now, was) = (&new["spec"]["cidrs"], &old["spec"]["cidrs"]);
    let changed = texts(now).zip(texts(was)).enumerate().filter(|(_, (now, was))| now != was);
    let mut errs: FieldErrors =
        changed.map(|(at, (now, _))| FieldError::invalid(&path.index(at), now, check::IMMUTABLE)).collect();
    match (items(was).len(), items(now).len()) {
        (was, now) if was == now => {}
        (1, 2) => errs.extend(validate_service_cidrs(&PathValue::root(new).nested("spec.cidrs"))),
        _ => errs = FieldError::invalid(&path, now.clone(), check::IMMUTABLE).into(),
    }
    errs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::error_messages;

    #[test]
    fn network_policy_types_default_to_ingress_and_used_directions() {
        let mut policy = json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]}});
        default_policy(&mut policy);
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    }

    #[test]
    fn ip_block_must_contain_exceptions() {
        let peer = json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8"]}});
        let policy = json!({"spec": {"ingress": [{"from": [peer, {}]}]}});
        assert_eq!(
            error_messages(&validate_policy(&policy, &HashSet::new())),
            [
                "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[1]: Required value: must specify a peer",
            ]
        );
    }

    #[test]
    fn endpoint_slice_addresses_match_address_type() {
        let slice = |family: &str, address: &str| json!({"addressType": family, "endpoints": [{"addresses": [address]}]});
        assert_eq!(error_messages(&validate_slice(&slice("IPv4", "10.0.0.1"), None)), [""; 0]);
        assert_eq!(error_messages(&validate_slice(&slice("FQDN", "a.b."), None)), [""; 0]);
        assert_eq!(
            error_messages(&validate_slice(&slice("IPv4", "2001:db8::1"), None)),
            ["endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address"]
        );
        assert_eq!(
            error_messages(&validate_slice(&slice("IPv6", "::1"), None)),
            [
                "endpoints[0].addresses[0]: Invalid value: \"::1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"
            ]
        );
    }
}
