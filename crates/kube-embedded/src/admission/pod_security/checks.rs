//! The checks of the levels `baseline` and `restricted`: one function per check, in two tables.
//!
//! Each check has a minimum version. Messages and order match Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::{items, text};
use crate::go::quote;

/// A violation of one check.
pub(super) struct Violation {
    /// The short form, used for many pods at once.
    pub reason: String,
    pub detail: String,
}

impl Violation {
    fn new(reason: &str, detail: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), detail: detail.into() }
    }

    /// `hostPort (container "a" uses hostPort 80)`
    pub fn message(&self) -> String {
        format!("{} ({})", self.reason, self.detail)
    }
}

/// A check: its name, and the function that checks a pod (or template) under version 1.minor.
type Check = (&'static str, fn(&Value, u32) -> Option<Violation>);

#[rustfmt::skip]
const BASELINE: &[Check] = &[
    ("appArmorProfile", app_armor),
    ("capabilities", capabilities),
    ("hostNamespaces", host_namespaces),
    ("hostPathVolumes", host_paths),
    ("hostPorts", host_ports),
    ("hostProbes", host_probes),
    ("privileged", privileged),
    ("procMount", proc_mount_baseline),
    ("seLinuxOptions", selinux),
    ("seccompProfile", seccomp_baseline),
    ("sysctls", sysctls),
    ("windowsHostProcess", windows_host_process),
];

#[rustfmt::skip]
const RESTRICTED: &[Check] = &[
    ("allowPrivilegeEscalation", privilege_escalation),
    ("capabilities", capabilities_restricted),
    ("procMount", proc_mount_restricted),
    ("hostPathVolumes", restricted_volumes),
    ("runAsNonRoot", run_as_non_root),
    ("runAsUser", run_as_user_zero),
    ("seccompProfile", seccomp_restricted),
];

pub(super) fn baseline(pod: &Value, minor: u32) -> Vec<Violation> {
    BASELINE.iter().filter_map(|(_, check)| check(pod, minor)).collect()
}

/// The checks of `baseline`, except checks that a stricter one of the same name replaces, then the stricter checks.
pub(super) fn restricted(pod: &Value, minor: u32) -> Vec<Violation> {
    let replaced = |name: &str| match name {
        "capabilities" => minor >= 22,
        "procMount" => minor >= 35,
        "hostPathVolumes" => true,
        "seccompProfile" => minor >= 19,
        _ => false,
    };
    let kept = BASELINE.iter().filter(|(name, _)| !replaced(name));
    kept.chain(RESTRICTED).filter_map(|(_, check)| check(pod, minor)).collect()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| items(&pod["spec"], list))
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

fn quote_all<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(", ")
}

/// Formats as `container "a"` or `containers "a", "b"`.
fn quote_containers(containers: &[&str]) -> String {
    let noun = plural("container", "containers", containers.len());
    format!("{noun} {}", quote_all(containers.iter().copied()))
}

/// Formats as `pod and container "a"`: everything that sets a forbidden value.
fn describe_setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, some) => Some(quote_containers(some)),
        (true, some) => Some(format!("pod and {}", quote_containers(some))),
    }
}

/// The names of the containers for which `bad` holds.
fn violating_containers<'a>(pod: &'a Value, mut bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
    containers(pod).filter(|container| bad(container)).map(|container| text(container, "name")).collect()
}

fn is_windows(pod: &Value) -> bool {
    pod["spec"]["os"]["name"] == "windows"
}

/// In its own user namespace, root is unprivileged.
fn has_user_namespace(pod: &Value, minor: u32) -> bool {
    minor >= 35 && pod["spec"]["hostUsers"] == false
}

fn app_armor(pod: &Value, _: u32) -> Option<Violation> {
    let mut values: BTreeSet<String> = BTreeSet::new();
    let mut bad = |context: &Value| {
        let profile = &context["appArmorProfile"];
        let kind = text(profile, "type");
        let forbidden = !profile.is_null() && !matches!(kind, "RuntimeDefault" | "Localhost");
        if forbidden {
            values.insert(kind.to_owned());
        }
        forbidden
    };
    let pod_bad = bad(&pod["spec"]["securityContext"]);
    let bad_containers = violating_containers(pod, |container| bad(&container["securityContext"]));
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotated: BTreeSet<String> = annotations
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| {
            key.starts_with("container.apparmor.security.beta.kubernetes.io/")
                && !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    let mut who: Vec<String> = describe_setters(pod_bad, &bad_containers).into_iter().collect();
    if !annotated.is_empty() {
        who.push(plural("annotation", "annotations", annotated.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let all: Vec<&str> = values.iter().chain(&annotated).map(String::as_str).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len());
    let (who, what) = (who.join(" and "), quote_all(all.iter().copied()));
    Some(Violation::new(reason, format!("{who} must not set AppArmor profile type to {what}")))
}

/// Capabilities that a container may add under `baseline`.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// `container "a" must not include "X" in securityContext.capabilities.add`
fn disallowed_capabilities(pod: &Value, allowed: &[&str]) -> Option<String> {
    let mut beyond: BTreeSet<&str> = BTreeSet::new();
    let bad = violating_containers(pod, |container| {
        let added = items(&container["securityContext"]["capabilities"], "add").iter();
        let forbidden: Vec<&str> = added.filter_map(Value::as_str).filter(|c| !allowed.contains(c)).collect();
        beyond.extend(&forbidden);
        !forbidden.is_empty()
    });
    (!bad.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            quote_containers(&bad),
            quote_all(beyond)
        )
    })
}

fn capabilities(pod: &Value, _: u32) -> Option<Violation> {
    Some(Violation::new("non-default capabilities", disallowed_capabilities(pod, &DEFAULT_CAPABILITIES)?))
}

fn capabilities_restricted(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 22 || minor >= 25 && is_windows(pod) {
        return None;
    }
    let keeping = violating_containers(pod, |container| {
        let dropped = items(&container["securityContext"]["capabilities"], "drop");
        !dropped.iter().any(|capability| capability == "ALL")
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            quote_containers(&keeping)
        ));
    }
    details.extend(disallowed_capabilities(pod, &["NET_BIND_SERVICE"]));
    (!details.is_empty()).then(|| Violation::new("unrestricted capabilities", details.join("; ")))
}

fn host_namespaces(pod: &Value, _: u32) -> Option<Violation> {
    let used = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|name| pod["spec"][name] == true);
    let used: Vec<String> = used.map(|name| format!("{name}=true")).collect();
    (!used.is_empty()).then(|| Violation::new("host namespaces", used.join(", ")))
}

fn host_paths(pod: &Value, _: u32) -> Option<Violation> {
    let volumes = items(&pod["spec"], "volumes").iter().filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    let noun = plural("volume", "volumes", names.len());
    (!names.is_empty())
        .then(|| Violation::new("hostPath volumes", format!("{noun} {}", quote_all(names.iter().copied()))))
}

fn host_ports(pod: &Value, _: u32) -> Option<Violation> {
    let mut ports: BTreeSet<String> = BTreeSet::new();
    let bad = violating_containers(pod, |container| {
        let used = items(container, "ports").iter().filter_map(|port| port["hostPort"].as_i64());
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let any = !used.is_empty();
        ports.extend(used);
        any
    });
    let (verb, noun) = (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", ports.len()));
    let list: Vec<&str> = ports.iter().map(String::as_str).collect();
    (!bad.is_empty()).then(|| {
        Violation::new("hostPort", format!("{} {verb} {noun} {}", quote_containers(&bad), list.join(", ")))
    })
}

fn host_probes(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 34 {
        return None;
    }
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let bad = violating_containers(pod, |container| {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let named = handlers
            .into_iter()
            .flat_map(|handler| [text(&handler["httpGet"], "host"), text(&handler["tcpSocket"], "host")]);
        let named: Vec<&str> = named.filter(|host| !host.is_empty()).collect();
        hosts.extend(&named);
        !named.is_empty()
    });
    let bad: Vec<&str> = BTreeSet::from_iter(bad).into_iter().collect();
    let verb = plural("uses", "use", bad.len());
    let noun = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    (!bad.is_empty()).then(|| {
        let detail = format!("{} {verb} {noun} {}", quote_containers(&bad), quote_all(hosts));
        Violation::new("probe or lifecycle host", detail)
    })
}

fn privileged(pod: &Value, _: u32) -> Option<Violation> {
    let bad = violating_containers(pod, |container| container["securityContext"]["privileged"] == true);
    let detail = || format!("{} must not set securityContext.privileged=true", quote_containers(&bad));
    (!bad.is_empty()).then(|| Violation::new("privileged", detail()))
}

fn proc_mount(pod: &Value) -> Option<Violation> {
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    let bad = violating_containers(pod, |container| {
        let kind = container["securityContext"]["procMount"].as_str().filter(|kind| *kind != "Default");
        kinds.extend(kind);
        kind.is_some()
    });
    (!bad.is_empty()).then(|| {
        let detail = format!(
            "{} must not set securityContext.procMount to {}",
            quote_containers(&bad),
            quote_all(kinds)
        );
        Violation::new("procMount", detail)
    })
}

fn proc_mount_baseline(pod: &Value, minor: u32) -> Option<Violation> {
    if has_user_namespace(pod, minor) { None } else { proc_mount(pod) }
}

fn proc_mount_restricted(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 35 { None } else { proc_mount(pod) }
}

fn selinux(pod: &Value, minor: u32) -> Option<Violation> {
    let known = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || minor >= 31 && kind == "container_engine_t"
    };
    let sets = |context: &Value, key: &str| !text(&context["seLinuxOptions"], key).is_empty();
    let bad = |context: &Value| {
        !known(text(&context["seLinuxOptions"], "type")) || sets(context, "user") || sets(context, "role")
    };
    let of_pod = &pod["spec"]["securityContext"];
    let who = describe_setters(
        bad(of_pod),
        &violating_containers(pod, |container| bad(&container["securityContext"])),
    )?;
    let contexts = || containers(pod).map(|container| &container["securityContext"]).chain([of_pod]);
    let types = contexts().map(|context| text(&context["seLinuxOptions"], "type"));
    let types: BTreeSet<&str> = types.filter(|kind| !known(kind)).collect();
    let mut details = Vec::new();
    if !types.is_empty() {
        let noun = plural("type", "types", types.len());
        details.push(format!("{noun} {}", quote_all(types)));
    }
    for key in ["user", "role"] {
        if contexts().any(|context| sets(context, key)) {
            details.push(format!("{key} may not be set"));
        }
    }
    let details = details.join("; ");
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {details}");
    Some(Violation::new("seLinuxOptions", detail))
}

fn seccomp_type(context: &Value) -> Option<&str> {
    let profile = &context["seccompProfile"];
    (!profile.is_null()).then(|| text(profile, "type"))
}

fn is_allowed_seccomp(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}

/// The forbidden seccomp profiles of the pod and its containers.
fn forbidden_seccomp(pod: &Value) -> Option<Violation> {
    let set_badly = |context| seccomp_type(context).filter(|kind| !is_allowed_seccomp(kind));
    let of_pod = set_badly(&pod["spec"]["securityContext"]);
    let bad = violating_containers(pod, |container| set_badly(&container["securityContext"]).is_some());
    let who = describe_setters(of_pod.is_some(), &bad)?;
    let mut kinds: BTreeSet<&str> = of_pod.into_iter().collect();
    kinds.extend(containers(pod).filter_map(|container| set_badly(&container["securityContext"])));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quote_all(kinds));
    Some(Violation::new("seccompProfile", detail))
}

fn seccomp_baseline(pod: &Value, minor: u32) -> Option<Violation> {
    if minor >= 19 {
        return forbidden_seccomp(pod);
    }
    let annotations = &pod["metadata"]["annotations"];
    let mut keys = vec!["seccomp.security.alpha.kubernetes.io/pod".to_owned()];
    keys.extend(containers(pod).map(|container| {
        format!("container.seccomp.security.alpha.kubernetes.io/{}", text(container, "name"))
    }));
    let mut forbidden: BTreeSet<String> = BTreeSet::new();
    for key in keys {
        let Some(value) = annotations[&key].as_str() else { continue };
        if !matches!(value, "runtime/default" | "docker/default") && !value.starts_with("localhost/") {
            forbidden.insert(format!("{key}={}", quote(value)));
        }
    }
    let noun = plural("annotation", "annotations", forbidden.len());
    let list = forbidden.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    (!forbidden.is_empty()).then(|| Violation::new("seccompProfile", format!("forbidden {noun} {list}")))
}

fn seccomp_restricted(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 19 || minor >= 25 && is_windows(pod) {
        return None;
    }
    if let Some(complaint) = forbidden_seccomp(pod) {
        return Some(complaint);
    }
    if seccomp_type(&pod["spec"]["securityContext"]).is_some() {
        return None;
    }
    let without =
        violating_containers(pod, |container| seccomp_type(&container["securityContext"]).is_none());
    (!without.is_empty()).then(|| {
        let who = quote_containers(&without);
        let what = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
        Violation::new("seccompProfile", format!("pod or {who} {what}"))
    })
}

/// Sysctls that affect only the pod, with the version from which they are allowed.
#[rustfmt::skip]
const SAFE_SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0), ("net.ipv4.ip_local_port_range", 0), ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0), ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29), ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29), ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32), ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Value, minor: u32) -> Option<Violation> {
    let safe = |name: &str| SAFE_SYSCTLS.iter().any(|(known, since)| *known == name && *since <= minor);
    let set = items(&pod["spec"]["securityContext"], "sysctls").iter().map(|sysctl| text(sysctl, "name"));
    let unsafe_ones: Vec<&str> = set.filter(|name| !safe(name)).collect();
    (!unsafe_ones.is_empty()).then(|| Violation::new("forbidden sysctls", unsafe_ones.join(", ")))
}

fn windows_host_process(pod: &Value, _: u32) -> Option<Violation> {
    let is_host = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let bad = violating_containers(pod, |container| is_host(&container["securityContext"]));
    let who = describe_setters(is_host(&pod["spec"]["securityContext"]), &bad)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", detail))
}

fn privilege_escalation(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 8 || minor >= 25 && is_windows(pod) {
        return None;
    }
    let bad = violating_containers(pod, |container| {
        container["securityContext"]["allowPrivilegeEscalation"] != false
    });
    let detail =
        || format!("{} must set securityContext.allowPrivilegeEscalation=false", quote_containers(&bad));
    (!bad.is_empty()).then(|| Violation::new("allowPrivilegeEscalation != false", detail()))
}

/// Volume types without access to the node.
const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Volume types that are named in the message.
const REPORTED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn restricted_volumes(pod: &Value, _: u32) -> Option<Violation> {
    let mut names: Vec<&str> = Vec::new();
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    for volume in items(&pod["spec"], "volumes") {
        let is = |kind: &&&str| !volume[**kind].is_null();
        if ALLOWED_VOLUMES.iter().find(is).is_none() {
            names.push(text(volume, "name"));
            kinds.insert(REPORTED_VOLUMES.iter().find(is).unwrap_or(&"unknown"));
        }
    }
    let (noun, verb) = (plural("volume", "volumes", names.len()), plural("uses", "use", names.len()));
    let what = plural("restricted volume type", "restricted volume types", kinds.len());
    (!names.is_empty()).then(|| {
        let (names, kinds) = (quote_all(names.iter().copied()), quote_all(kinds));
        Violation::new("restricted volume types", format!("{noun} {names} {verb} {what} {kinds}"))
    })
}

fn run_as_non_root(pod: &Value, minor: u32) -> Option<Violation> {
    if has_user_namespace(pod, minor) {
        return None;
    }
    let reason = "runAsNonRoot != true";
    let of_pod = pod["spec"]["securityContext"]["runAsNonRoot"].as_bool();
    let of = |container: &Value| container["securityContext"]["runAsNonRoot"].as_bool();
    let bad = violating_containers(pod, |container| of(container) == Some(false));
    if let Some(who) = describe_setters(of_pod == Some(false), &bad) {
        return Some(Violation::new(
            reason,
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        ));
    }
    if of_pod == Some(true) {
        return None;
    }
    let silent = violating_containers(pod, |container| of(container).is_none());
    let detail =
        || format!("pod or {} must set securityContext.runAsNonRoot=true", quote_containers(&silent));
    (!silent.is_empty()).then(|| Violation::new(reason, detail()))
}

fn run_as_user_zero(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 23 || has_user_namespace(pod, minor) {
        return None;
    }
    let is_root = |context: &Value| context["runAsUser"].as_i64() == Some(0);
    let bad = violating_containers(pod, |container| is_root(&container["securityContext"]));
    let who = describe_setters(is_root(&pod["spec"]["securityContext"]), &bad)?;
    Some(Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}
