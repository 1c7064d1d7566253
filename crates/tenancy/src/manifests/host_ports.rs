//! Admission policy for pods in workspaces that are allowed `hostPorts`.
//!
//! Pod Security denies a `hostPort` at every level except `privileged`, so the namespaces of such a workspace have that level. This policy
//! denies everything else that the level `baseline` does (of Kubernetes 1.36, without the exceptions for user namespaces).
//!
//! The platform labels a namespace `privileged` only if the binding of this policy exists ([`NAME`]): manifests of an older version lack
//! it.

use kube_types::workspace::Allowance;
use serde_json::{Value, json};

use super::admission_policies::policy;

/// The name of the policy and of its binding.
pub(crate) const NAME: &str = "longshore-host-ports";

/// Capabilities that `baseline` permits to add.
const CAPABILITIES: [&str; 13] = [
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

/// Sysctls that `baseline` permits.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// `SELinux` types that `baseline` permits.
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// The prefix of annotations with the `AppArmor` profile of a container.
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn objects() -> [Value; 2] {
    let rule = |operation: &str, resource: &str| {
        json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource], "scope": "Namespaced",
        })
    };
    // Other updates of a Pod cannot change the fields that are checked here.
    let rules =
        json!({ "resourceRules": [rule("CREATE", "pods"), rule("UPDATE", "pods/ephemeralcontainers")] });
    let [mut policy, binding] = policy(NAME, rules, None, &baseline());
    let allowed = json!({ "key": Allowance::HostPorts.label(), "operator": "Exists" });
    if let Some(selected) =
        policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"].as_array_mut()
    {
        selected.push(allowed);
    }
    [policy, binding]
}

/// The field at `path` below `root` is not set, or `test` holds, in which `$` is the field.
fn unset_or(root: &str, path: &str, test: &str) -> String {
    let mut at = root.to_owned();
    let mut parts = Vec::new();
    for key in path.split('.') {
        at = format!("{at}.{key}");
        parts.push(format!("!has({at})"));
    }
    parts.push(test.replace('$', &at));
    format!("({})", parts.join(" || "))
}

/// `test` holds for every container `c`.
fn every_container(test: &str) -> String {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.map(|list| format!("(!has(object.spec.{list}) || object.spec.{list}.all(c, {test}))"));
    all.join(" && ")
}

/// The field is unset or passes in the security contexts of the pod and of all containers.
fn every_context(path: &str, test: &str) -> String {
    let of_pod = unset_or("object.spec", &format!("securityContext.{path}"), test);
    let of_containers = every_container(&unset_or("c", &format!("securityContext.{path}"), test));
    format!("{of_pod} && {of_containers}")
}

fn one_of(values: &[&str]) -> String {
    format!("$ in ['{}']", values.join("', '"))
}

/// Validations equivalent to the level `baseline`, except for host ports.
fn baseline() -> Value {
    let namespaces = ["hostNetwork", "hostPID", "hostIPC"].map(|field| unset_or("object.spec", field, "!$"));
    let handlers =
        ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"];
    let hosts = handlers.iter().flat_map(|handler| {
        ["httpGet", "tcpSocket"].map(|action| unset_or("c", &format!("{handler}.{action}.host"), "$ == ''"))
    });
    let hosts: Vec<String> = hosts.collect();
    let app_armor = format!(
        "$.all(key, !key.startsWith('{APP_ARMOR}') || $[key] in ['', 'runtime/default'] || $[key].startsWith('localhost/'))"
    );
    let profiles = one_of(&["RuntimeDefault", "Localhost"]);
    let selinux = |field: &str, test: &str| every_context(&format!("seLinuxOptions.{field}"), test);
    let added = format!("$.all(name, name in ['{}'])", CAPABILITIES.join("', '"));
    let sysctls = format!("$.all(sysctl, sysctl.name in ['{}'])", SYSCTLS.join("', '"));
    let checks = [
        ("namespaces of its node (hostNetwork, hostPID, hostIPC)", namespaces.join(" && ")),
        ("privileged containers", every_container(&unset_or("c", "securityContext.privileged", "!$"))),
        ("host processes of Windows", every_context("windowsOptions.hostProcess", "!$")),
        (
            "capabilities beyond the default",
            every_container(&unset_or("c", "securityContext.capabilities.add", &added)),
        ),
        ("hostPath volumes", unset_or("object.spec", "volumes", "$.all(volume, !has(volume.hostPath))")),
        ("probes or lifecycle hooks with a host", every_container(&hosts.join(" && "))),
        (
            "AppArmor profiles but RuntimeDefault and Localhost",
            format!(
                "{} && {}",
                every_context("appArmorProfile.type", &profiles),
                unset_or("object.metadata", "annotations", &app_armor)
            ),
        ),
        (
            "SELinux users, roles or types of the node",
            format!(
                "{} && {} && {}",
                selinux("type", &one_of(&SELINUX_TYPES)),
                selinux("user", "$ == ''"),
                selinux("role", "$ == ''")
            ),
        ),
        (
            "procMount but Default",
            every_container(&unset_or("c", "securityContext.procMount", "$ == 'Default'")),
        ),
        (
            "seccomp profiles but RuntimeDefault and Localhost",
            every_context("seccompProfile.type", &profiles),
        ),
        ("sysctls of the node", unset_or("object.spec", "securityContext.sysctls", &sysctls)),
    ];
    let validations = checks.map(|(what, expression)| {
        json!({
            "expression": expression,
            "message": format!("a pod in a workspace that is allowed hostPorts cannot have {what}"),
            "reason": "Forbidden",
        })
    });
    json!(validations)
}
