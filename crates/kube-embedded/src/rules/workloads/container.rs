//! Containers of a pod: main, init and ephemeral containers.

use std::collections::{HashMap, HashSet};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::{env, mount, probe, resources, security};

/// The parts of a pod that the rules of its containers need.
pub struct PodContext<'a> {
    /// The valid volumes, by name.
    pub volumes: HashMap<&'a str, PathValue<'a>>,
    /// The names of the pod's resource claims, sorted.
    pub claims: Vec<&'a str>,
    /// `terminationGracePeriodSeconds`
    pub termination_grace_period: Option<i64>,
    pub restart_policy: &'a str,
    /// The pod uses the host's user namespace.
    pub host_users: bool,
}

const SIDECAR_ONLY: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// `spec.containers`
pub fn validate_containers(list: &PathValue, pod: &PodContext, errs: &mut FieldErrors) {
    if list.is_empty() {
        errs.push(FieldError::required(&list.path, ""));
        return;
    }
    let mut names = HashSet::new();
    for container in list.items() {
        validate_common(&container, pod, errs);
        validate_unique_name(&container, &mut names, errs);
        if container.has("lifecycle") {
            probe::validate_lifecycle(&container.get("lifecycle"), pod.termination_grace_period, errs);
        }
        probe::validate_probes(&container, pod.termination_grace_period, errs);
        validate_restart_policy(&container, errs);
    }
    validate_host_ports(list.items(), errs);
}

/// `spec.initContainers`
pub fn validate_init_containers(
    list: &PathValue,
    regular: &PathValue,
    pod: &PodContext,
    errs: &mut FieldErrors,
) {
    let mut names: HashSet<_> = regular.items().map(|container| container.get("name").text()).collect();
    for container in list.items() {
        validate_common(&container, pod, errs);
        validate_restart_policy(&container, errs);
        validate_unique_name(&container, &mut names, errs);
        validate_host_ports(std::iter::once(container.with_path(list.path.index(0))), errs);
        let sidecar = container.get("restartPolicy").text() == "Always";
        if sidecar {
            if container.has("lifecycle") {
                probe::validate_lifecycle(&container.get("lifecycle"), pod.termination_grace_period, errs);
            }
            probe::validate_probes(&container, pod.termination_grace_period, errs);
        } else {
            for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(name) {
                    errs.push(FieldError::forbidden(&container.get(name).path, SIDECAR_ONLY));
                }
            }
            for policy in container.get("resizePolicy").items() {
                let restart = policy.get("restartPolicy");
                if restart.text() == "RestartContainer" {
                    let words = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errs.push(FieldError::invalid(&restart.path, restart.text(), words));
                }
            }
        }
    }
}

/// `spec.ephemeralContainers`
pub fn validate_ephemeral_containers(spec: &PathValue, pod: &PodContext, errs: &mut FieldErrors) {
    let (regular, init) = (spec.get("containers"), spec.get("initContainers"));
    let others: HashSet<_> = regular.items().chain(init.items()).map(|c| c.get("name").text()).collect();
    let mut names = others.clone();
    for container in spec.get("ephemeralContainers").items() {
        validate_common(&container, pod, errs);
        validate_trimmed_image(&container, errs);
        validate_unique_name(&container, &mut names, errs);
        let target = container.get("targetContainerName");
        if !target.is_empty() && !others.contains(&target.text()) {
            errs.push(FieldError::not_found(&target.path, target.text()));
        }
        let never = [
            "ports",
            "resources",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
        ];
        for name in never {
            let at = container.get(name);
            if at.exists() && !at.is_empty() {
                errs.push(FieldError::forbidden(&at.path, NOT_EPHEMERAL));
            }
        }
        for mount in container.get("volumeMounts").items() {
            for name in ["subPath", "subPathExpr"] {
                if !mount.get(name).is_empty() {
                    errs.push(FieldError::forbidden(&mount.get(name).path, NOT_EPHEMERAL));
                }
            }
        }
    }
}

/// Pods validate the image's name more strictly than templates.
pub fn validate_trimmed_image(container: &PathValue, errs: &mut FieldErrors) {
    let image = container.get("image");
    if image.text().trim() != image.text() {
        let words = "must not have leading or trailing whitespace";
        errs.push(FieldError::invalid(&image.path, image.text(), words));
    }
}

fn validate_unique_name<'a>(container: &PathValue<'a>, names: &mut HashSet<&'a str>, errs: &mut FieldErrors) {
    let name = container.get("name");
    if names.contains(&name.text()) {
        errs.push(FieldError::duplicate(&name.path, name.text()));
    } else {
        names.insert(name.text());
    }
}

fn validate_common(container: &PathValue, pod: &PodContext, errs: &mut FieldErrors) {
    check::required_text(&container.get("name"), check::dns_label, errs);
    check::required(&container.get("image"), errs);
    let message = container.get("terminationMessagePolicy");
    check::required_one_of(&message, &["File", "FallbackToLogsOnError"], errs);
    validate_ports(&container.get("ports"), errs);
    env::validate_variables(&container.get("env"), errs);
    env::validate_env_from(&container.get("envFrom"), errs);
    mount::validate_mounts(container, pod, errs);
    mount::validate_devices(container, pod, errs);
    let pull = container.get("imagePullPolicy");
    check::required_one_of(&pull, &["Always", "IfNotPresent", "Never"], errs);
    resources::validate_container(&container.get("resources"), &pod.claims, errs);
    validate_resize_policy(&container.get("resizePolicy"), pod.restart_policy, errs);
    security::validate_container(&container.get("securityContext"), pod.host_users, errs);
}

fn validate_ports(list: &PathValue, errs: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in list.items() {
        let name = port.get("name");
        if !name.is_empty() {
            let before = errs.len();
            check::text(&name, check::port_name, errs);
            if errs.len() == before {
                if names.contains(&name.text()) {
                    errs.push(FieldError::duplicate(&name.path, name.text()));
                } else {
                    names.insert(name.text());
                }
            }
        }
        let number = port.get("containerPort");
        if number.int() == 0 {
            errs.push(FieldError::required(&number.path, ""));
        } else {
            check::port_number(&number, errs);
        }
        if port.get("hostPort").int() != 0 {
            check::port_number(&port.get("hostPort"), errs);
        }
        check::required_one_of(&port.get("protocol"), &["SCTP", "TCP", "UDP"], errs);
    }
}

/// No two ports of these containers have the same host port.
fn validate_host_ports<'a>(containers: impl Iterator<Item = PathValue<'a>>, errs: &mut FieldErrors) {
    let mut taken = HashSet::new();
    for container in containers {
        for port in container.get("ports").items() {
            let number = port.get("hostPort");
            if number.int() == 0 {
                continue;
            }
            let (protocol, ip) = (port.get("protocol").text(), port.get("hostIP").text());
            let key = format!("{protocol}/{ip}/{}", number.int());
            if taken.contains(&key) {
                errs.push(FieldError::duplicate(&number.path, key));
            } else {
                taken.insert(key);
            }
        }
    }
}

fn validate_resize_policy(list: &PathValue, pod_restart_policy: &str, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for policy in list.items() {
        let resource = policy.get("resourceName").text();
        if seen.contains(&resource) {
            errs.push(FieldError::duplicate(&policy.path, resource));
        }
        seen.insert(resource);
        let restart = policy.get("restartPolicy").with_path(list.path.clone());
        check::required_one_of(
            &policy.get("resourceName").with_path(list.path.clone()),
            &["cpu", "memory"],
            errs,
        );
        check::required_one_of(&restart, &["NotRequired", "RestartContainer"], errs);
        if pod_restart_policy == "Never" && restart.text() != "NotRequired" {
            let words = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errs.push(FieldError::invalid(&list.path, restart.text(), words));
        }
    }
}

fn validate_restart_policy(container: &PathValue, errs: &mut FieldErrors) {
    let (policy, rules) = (container.get("restartPolicy"), container.get("restartPolicyRules"));
    if policy.exists() {
        check::one_of(&policy, &["Always", "Never", "OnFailure"], errs);
    } else if !rules.is_empty() {
        errs.push(FieldError::required(
            &policy.path,
            "must specify restartPolicy when restart rules are used",
        ));
    }
    if rules.len() > 20 {
        errs.push(FieldError::too_many(&rules.path, rules.len(), 20));
    }
    for rule in rules.items() {
        check::one_of(&rule.get("action"), &["Restart", "RestartAllContainers"], errs);
        let codes = rule.get("exitCodes");
        if !codes.exists() {
            errs.push(FieldError::required(&codes.path, "must be specified"));
            continue;
        }
        check::one_of(&codes.get("operator"), &["In", "NotIn"], errs);
        if codes.get("values").len() > 255 {
            errs.push(FieldError::too_many(&codes.get("values").path, codes.get("values").len(), 255));
        }
    }
}
