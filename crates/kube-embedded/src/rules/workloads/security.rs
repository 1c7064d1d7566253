//! Security contexts of pods and containers.

use std::collections::HashSet;

use crate::field::{FieldError, FieldErrors};
use crate::rules::accessors::go_names;
use crate::rules::check::{self, PathValue};

use super::paths;

const MAX_ID: i64 = i32::MAX as i64;
const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const IPC_SYSCTLS: &[&str] = &[
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];
const SYSCTL_PATTERN: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a pod; a few of its fields are in the spec itself.
pub fn validate_pod(spec: &PathValue, errs: &mut FieldErrors) {
    let context = spec.get("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check::number_in_range(&context.get(name), 0, MAX_ID, errs);
    }
    for group in context.get("supplementalGroups").items() {
        check::number_in_range(&group, 0, MAX_ID, errs);
    }
    if spec.get("hostPID").bool_or_false() && spec.get("shareProcessNamespace").bool_or_false() {
        let words = "ShareProcessNamespace and HostPID cannot both be enabled";
        errs.push(FieldError::invalid(&context.get("shareProcessNamespace").path, true, words));
    }
    validate_sysctls(spec, &context.get("sysctls"), errs);
    for (name, words) in [
        ("fsGroupChangePolicy", &["Always", "OnRootMismatch"] as &[&str]),
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["Recursive"]),
    ] {
        if context.has(name) {
            check::one_of(&context.get(name), words, errs);
        }
    }
    validate_seccomp(&context.get("seccompProfile"), errs);
    validate_windows_options(&context.get("windowsOptions"), errs);
    validate_app_armor(&context.get("appArmorProfile"), errs);
}

/// The security context of a container.
pub fn validate_container(context: &PathValue, host_users: bool, errs: &mut FieldErrors) {
    if !context.exists() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        check::number_in_range(&context.get(name), 0, MAX_ID, errs);
    }
    let proc_mount = context.get("procMount");
    if proc_mount.exists() {
        check::one_of(&proc_mount, &["Default", "Unmasked"], errs);
        if host_users && proc_mount.text() == "Unmasked" {
            let words = "`hostUsers` must be false to use `Unmasked`";
            errs.push(FieldError::invalid(&proc_mount.path, proc_mount.text(), words));
        }
    }
    validate_seccomp(&context.get("seccompProfile"), errs);
    let escalation = context.get("allowPrivilegeEscalation");
    if escalation.exists() && !escalation.bool_or_false() {
        if context.get("privileged").bool_or_false() {
            let words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errs.push(FieldError::invalid(&context.path, go_names(&context.to_json()), words));
        }
        for _ in
            context.nested("capabilities.add").items().filter(|cap| cap.text() == "CAP_SYS_ADMIN").take(10)
        {
            let words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errs.push(FieldError::invalid(&context.path, go_names(&context.to_json()), words));
        }
    }
    validate_windows_options(&context.get("windowsOptions"), errs);
    validate_app_armor(&context.get("appArmorProfile"), errs);
}

fn validate_sysctls(spec: &PathValue, list: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for sysctl in list.items() {
        let name = sysctl.get("name");
        if name.is_empty() {
            errs.push(FieldError::required(&name.path, ""));
        } else if !is_sysctl(name.text()) {
            let words = format!("must have at most 253 characters and match regex {SYSCTL_PATTERN}");
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        } else if seen.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        seen.insert(name.text());
        let dotted = name.text().replace('/', ".");
        let of_ipc = dotted.starts_with("fs.mqueue.") || IPC_SYSCTLS.contains(&dotted.as_str());
        if spec.get("hostNetwork").bool_or_false() && dotted.starts_with("net.") {
            let words = "may not be specified when 'hostNetwork' is true";
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        } else if spec.get("hostIPC").bool_or_false() && of_ipc {
            let words = "may not be specified when 'hostIPC' is true";
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let segment = |part: &str| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let (first, last) = (part.bytes().next(), part.bytes().next_back());
        first.is_some_and(fits)
            && last.is_some_and(fits)
            && part.bytes().all(|b| fits(b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}

fn validate_seccomp(profile: &PathValue, errs: &mut FieldErrors) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    if kind.is_empty() {
        errs.push(FieldError::required(&kind.path, "type is required when seccompProfile is set"));
    } else {
        check::one_of(&kind, PROFILE_TYPES, errs);
    }
    if kind.text() == "Localhost" {
        if local.exists() {
            paths::validate_descending_path(&local, errs);
        } else {
            errs.push(FieldError::required(&local.path, "must be set when seccomp type is Localhost"));
        }
    } else if local.exists() {
        let words = "can only be set when seccomp type is Localhost";
        errs.push(FieldError::invalid(&local.path, profile.to_go_names(), words));
    }
}

fn validate_app_armor(profile: &PathValue, errs: &mut FieldErrors) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            if local.text().trim() != local.text() {
                let words = "must not be padded with whitespace";
                errs.push(FieldError::invalid(&local.path, local.text(), words));
            } else if local.is_empty() {
                errs.push(FieldError::required(&local.path, "must be set when AppArmor type is Localhost"));
            }
            if local.len() > 4095 {
                errs.push(FieldError::too_long(&local.path, 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.exists() {
                let words = "can only be set when AppArmor type is Localhost";
                errs.push(FieldError::invalid(&local.path, local.text(), words));
            }
        }
        "" => errs.push(FieldError::required(&kind.path, "type is required when appArmorProfile is set")),
        _ => check::one_of(&kind, PROFILE_TYPES, errs),
    }
}

fn validate_windows_options(options: &PathValue, errs: &mut FieldErrors) {
    if options.has("gmsaCredentialSpecName") {
        check::text(&options.get("gmsaCredentialSpecName"), check::dns_subdomain, errs);
    }
    let mut bad = |at: &PathValue, words: &str| errs.push(FieldError::invalid(&at.path, at.text(), words));
    let credentials = options.get("gmsaCredentialSpec");
    if credentials.exists() && credentials.is_empty() {
        bad(&credentials, "gmsaCredentialSpec cannot be an empty string");
    } else if credentials.len() > 64 * 1024 {
        bad(&credentials, "gmsaCredentialSpec size must be under 64 KiB");
    }
    let name = options.get("runAsUserName");
    if !name.exists() {
        return;
    }
    if name.is_empty() {
        return bad(&name, "runAsUserName cannot be an empty string");
    }
    if name.text().chars().any(char::is_control) {
        return bad(&name, "runAsUserName cannot contain control characters");
    }
    let parts: Vec<_> = name.text().split('\\').collect();
    let user = match parts[..] {
        [user] => user,
        [domain, user] => {
            let dns = |label: &str| {
                !label.is_empty()
                    && label.len() <= 63
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            let net_bios = !domain.is_empty()
                && domain.chars().count() <= 15
                && !domain.starts_with('.')
                && !domain.contains(['/', ':', '*', '?', '"', '<', '>', '|']);
            if domain.len() >= 256 {
                bad(&name, "runAsUserName's Domain length must be under 256 characters");
            }
            if !net_bios && !domain.split('.').all(dns) {
                bad(&name, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
            }
            user
        }
        _ => return bad(&name, "runAsUserName cannot contain more than one backslash"),
    };
    if user.is_empty() {
        bad(&name, "runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        bad(&name, "runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        bad(&name, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        bad(&name, "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}
