//! The spec of a pod, in pods and in templates.

use std::collections::{HashMap, HashSet};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::container::PodContext;
use super::defaults::CONTAINER_LISTS;
use super::{container, resources, scheduling, security, volume};

/// Every container of a pod, in the order in which Kubernetes visits them.
pub fn containers<'a>(spec: &PathValue<'a>) -> impl Iterator<Item = PathValue<'a>> {
    CONTAINER_LISTS.map(|list| spec.get(list)).into_iter().flat_map(|list| list.items())
}

/// Errors of a pod's spec. `pod` is the metadata of the Pod, and `None` in a template.
pub fn validate(spec: &PathValue, pod: Option<&PathValue>, errs: &mut FieldErrors) {
    let grace = spec.get("terminationGracePeriodSeconds");
    if !grace.exists() {
        errs.push(FieldError::required(&grace.path, ""));
    }
    let name = pod.map(|metadata| metadata.get("name").text());
    let volumes = volume::validate_all(&spec.get("volumes"), name, errs);
    let mut claims: Vec<_> =
        spec.get("resourceClaims").items().map(|claim| claim.get("name").text()).collect();
    claims.retain(|name| !name.is_empty());
    claims.sort_unstable();
    claims.dedup();
    validate_resource_claims(&spec.get("resourceClaims"), pod, errs);
    let around = PodContext {
        volumes,
        claims,
        termination_grace_period: grace.number(),
        restart_policy: spec.get("restartPolicy").text(),
        host_users: !spec.has("hostUsers") || spec.get("hostUsers").bool_or_false(),
    };
    container::validate_containers(&spec.get("containers"), &around, errs);
    container::validate_init_containers(&spec.get("initContainers"), &spec.get("containers"), &around, errs);
    container::validate_ephemeral_containers(spec, &around, errs);
    resources::validate_pod(spec, errs);
    validate_host_network(spec, pod.is_some(), errs);
    check::required_one_of(&spec.get("restartPolicy"), &["Always", "OnFailure", "Never"], errs);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::required_one_of(&spec.get("dnsPolicy"), &policies, errs);
    check::labels(&spec.get("nodeSelector"), errs);
    security::validate_pod(spec, errs);
    scheduling::validate_affinity(&spec.get("affinity"), errs);
    validate_dns_config(spec, errs);
    for gate in spec.get("readinessGates").items() {
        check::text(&gate.get("conditionType"), check::qualified_name, errs);
    }
    validate_scheduling_gates(&spec.get("schedulingGates"), errs);
    scheduling::validate_topology_spread(&spec.get("topologySpreadConstraints"), errs);
    validate_windows_host_process(spec, errs);
    if !around.host_users {
        validate_host_users(spec, errs);
    }
    validate_host_name(spec, errs);
    for (field, judge) in [
        ("serviceAccountName", check::dns_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", check::dns_subdomain),
        ("hostname", check::dns_label),
        ("subdomain", check::dns_label),
        ("priorityClassName", check::dns_subdomain),
    ] {
        if !spec.get(field).is_empty() {
            check::text(&spec.get(field), judge, errs);
        }
    }
    check::number_in_range(&spec.get("activeDeadlineSeconds"), 1, i64::from(i32::MAX), errs);
    scheduling::validate_tolerations(&spec.get("tolerations"), errs);
    for alias in spec.get("hostAliases").items() {
        check::text(&alias.get("ip"), check::ip, errs);
        alias.get("hostnames").items().for_each(|name| check::text(&name, check::dns_subdomain, errs));
    }
    if spec.has("runtimeClassName") {
        check::text(&spec.get("runtimeClassName"), check::dns_subdomain, errs);
    }
    if spec.has("preemptionPolicy") {
        check::required_one_of(&spec.get("preemptionPolicy"), &["PreemptLowerPriority", "Never"], errs);
    }
    validate_overhead(&spec.get("overhead"), errs);
    validate_operating_system(spec, errs);
    validate_file_references(spec, errs);
}

fn validate_resource_claims(list: &PathValue, pod: Option<&PathValue>, errs: &mut FieldErrors) {
    let mut names = HashSet::new();
    let mirror = pod.is_some_and(|metadata| metadata.get("annotations").has("kubernetes.io/config.mirror"));
    for claim in list.items() {
        if mirror {
            let path = crate::field::Path::root();
            errs.push(FieldError::forbidden(&path, "static pods do not support resource claims"));
            continue;
        }
        let name = claim.get("name");
        if !name.is_empty() && names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        } else {
            check::required_text(&name, check::dns_label, errs);
            names.insert(name.text());
        }
        let (direct, template) = (claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName"));
        match (direct.exists(), template.exists()) {
            (true, true) => errs.push(FieldError::invalid(
                &claim.path,
                claim.to_go_names(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )),
            (false, false) => errs.push(FieldError::invalid(
                &claim.path,
                claim.to_go_names(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )),
            _ => {}
        }
        for at in [direct, template].iter().filter(|at| at.exists()) {
            check::text(at, check::dns_subdomain, errs);
        }
    }
}

/// With host networking, container ports are host ports.
fn validate_host_network(spec: &PathValue, is_pod: bool, errs: &mut FieldErrors) {
    if !spec.get("hostNetwork").bool_or_false() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            if (is_pod || host.int() != 0) && host.int() != port.get("containerPort").int() {
                let words = "must match `containerPort` when `hostNetwork` is true";
                errs.push(FieldError::invalid(&host.path, host.int(), words));
            }
        }
    }
}

fn validate_dns_config(spec: &PathValue, errs: &mut FieldErrors) {
    let config = spec.get("dnsConfig");
    let servers = config.get("nameservers");
    if spec.get("dnsPolicy").text() == "None" {
        if !config.exists() {
            let words = "must provide `dnsConfig` when `dnsPolicy` is None";
            errs.push(FieldError::required(&config.path, words));
            return;
        }
        if servers.is_empty() {
            let words = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errs.push(FieldError::required(&servers.path, words));
            return;
        }
    }
    if servers.len() > 3 {
        let words = "must not have more than 3 nameservers";
        errs.push(FieldError::invalid(&servers.path, servers.to_json(), words));
    }
    servers.items().for_each(|server| check::text(&server, check::ip, errs));
    let searches = config.get("searches");
    if searches.len() > 32 {
        let words = "must not have more than 32 search paths";
        errs.push(FieldError::invalid(&searches.path, searches.to_json(), words));
    }
    let length = searches.items().map(|search| search.len() + 1).sum::<usize>();
    if length > 2048 + 1 {
        let words = "must not have more than 2048 characters (including spaces) in the search list";
        errs.push(FieldError::invalid(&searches.path, searches.to_json(), words));
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        for words in check::dns_subdomain_underscored(text) {
            errs.push(FieldError::invalid(&search.path, text, words));
        }
    }
    for option in config.get("options").items().filter(|option| option.get("name").is_empty()) {
        errs.push(FieldError::required(&option.path, "must not be empty"));
    }
}

fn validate_scheduling_gates(list: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for gate in list.items() {
        let name = gate.get("name").with_path(gate.path.clone());
        check::text(&name, check::qualified_name, errs);
        if seen.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        seen.insert(name.text());
    }
}

/// `hostUsers: false`: the pod has its own user namespace.
fn validate_host_users(spec: &PathValue, errs: &mut FieldErrors) {
    let words = "when `hostUsers` is false";
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field).bool_or_false() {
            errs.push(FieldError::forbidden(&spec.path.field(shown), words));
        }
    }
    for container in containers(spec).filter(|container| !container.get("volumeDevices").is_empty()) {
        errs.push(FieldError::forbidden(&container.get("volumeDevices").path, words));
    }
}

fn validate_host_name(spec: &PathValue, errs: &mut FieldErrors) {
    let own = spec.get("hostnameOverride");
    if !own.exists() {
        return;
    }
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(field).bool_or_false() {
            let words = format!("may not be specified when {field} is true");
            errs.push(FieldError::forbidden(&own.path, words));
        }
    }
    if own.len() > 64 {
        errs.push(FieldError::too_long(&own.path, 64));
    }
    check::text(&own, check::dns_subdomain, errs);
}

pub fn validate_overhead(list: &PathValue, errs: &mut FieldErrors) {
    for (name, at) in list.entries() {
        let at = at.with_path(list.path.field("limits").key(name));
        resources::validate_container_resource_name(name, &at.path, errs);
        resources::validate_quantity(name, &at, errs);
    }
}

fn validate_windows_host_process(spec: &PathValue, errs: &mut FieldErrors) {
    let of =
        |at: &PathValue| at.nested("securityContext.windowsOptions.hostProcess").value.map(|v| v == true);
    let pod = of(spec);
    let (mut count, mut host) = (0, 0);
    for container in containers(spec) {
        count += 1;
        let own = of(&container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let words = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let path = container.nested("securityContext.windowsOptions.hostProcess").path;
            errs.push(FieldError::invalid(&path, own, words));
        }
        host += usize::from(own.or(pod) == Some(true));
    }
    if host == 0 {
        return;
    }
    if host != count {
        let words =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errs.push(FieldError::invalid(&spec.path, "", words));
    }
    if !spec.get("hostNetwork").bool_or_false() {
        let words = "hostNetwork must be true if pod contains any hostProcess containers";
        errs.push(FieldError::invalid(&spec.get("hostNetwork").path, false, words));
    }
}

/// Fields of one operating system may not be set for the other.
fn validate_operating_system(spec: &PathValue, errs: &mut FieldErrors) {
    let os = spec.get("os");
    if !os.exists() {
        return;
    }
    match os.get("name").text() {
        "" => errs.push(FieldError::required(&os.get("name").path, "")),
        "linux" => {
            let words = "windows options cannot be set for a linux pod";
            for owner in std::iter::once(spec.clone()).chain(containers(spec)) {
                let options = owner.nested("securityContext.windowsOptions");
                if options.exists() {
                    errs.push(FieldError::forbidden(&options.path, words));
                }
            }
        }
        "windows" => validate_windows_fields(spec, errs),
        other => errs.push(FieldError::unsupported(&os.path, other, &["linux", "windows"])),
    }
}

fn validate_windows_fields(spec: &PathValue, errs: &mut FieldErrors) {
    let words = "cannot be set for a windows pod";
    let mut forbid = |at: PathValue| {
        if at.exists() {
            errs.push(FieldError::forbidden(&at.path, words));
        }
    };
    for name in [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ] {
        forbid(spec.get("securityContext").get(name));
    }
    for name in ["hostUsers", "shareProcessNamespace"] {
        forbid(spec.get(name));
    }
    for name in ["hostPID", "hostIPC"] {
        if spec.get(name).bool_or_false() {
            forbid(spec.get(name));
        }
    }
    for container in containers(spec) {
        for name in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            forbid(container.get("securityContext").get(name));
        }
    }
}

/// A variable from a file requires an `emptyDir` volume.
fn validate_file_references(spec: &PathValue, errs: &mut FieldErrors) {
    let mut volumes = HashMap::new();
    for volume in spec.get("volumes").items() {
        volumes.entry(volume.get("name").text()).or_insert(volume);
    }
    for container in containers(spec) {
        for variable in container.get("env").items() {
            let file = variable.nested("valueFrom.fileKeyRef");
            if !file.exists() {
                continue;
            }
            let name = file.get("volumeName");
            match volumes.get(name.text()) {
                None => errs.push(FieldError::not_found(&name.path, name.text())),
                Some(volume) if !volume.has("emptyDir") => {
                    let words = "referenced volume must be of type emptyDir";
                    errs.push(FieldError::invalid(&name.path, name.text(), words));
                }
                Some(_) => {}
            }
        }
    }
}
