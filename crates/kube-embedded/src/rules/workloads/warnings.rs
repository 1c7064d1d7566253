//! Warnings about a pod or a template that is accepted.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::field::Path;
use crate::rules::check::{self, PathValue};

use super::claim_spec::{self, fractional_bytes_warning};
use super::{podspec, scheduling, template};

const IGNORED_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
/// Deprecated volumes, the name in their warning, and the reason.
const DEPRECATED_VOLUMES: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const SECCOMP_MESSAGE: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// The warning about a name that becomes part of host names.
pub fn host_name_warning(object: &PathValue, used_in: &str) -> Option<String> {
    let wrong = check::dns_label(object.nested("metadata.name").text());
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// Warnings of a kind that creates pods from `template`: on create, and on an update with changes.
pub fn for_controller(new: &Value, old: Option<&Value>, template: &str, about_name: bool) -> Vec<String> {
    let object = PathValue::root(new);
    if old.is_some_and(|old| !changes_generation(new, old)) {
        return Vec::new();
    }
    let mut warnings: Vec<_> = if about_name && old.is_none() {
        host_name_warning(&object, "Pod names and hostnames").into_iter().collect()
    } else {
        Vec::new()
    };
    if object.nested(template).exists() {
        warnings.extend(for_pod(&object.nested(template)));
    }
    warnings
}

/// Whether an update increments the generation.
pub fn changes_generation(new: &Value, old: &Value) -> bool {
    let annotations = |object: &Value| object.get("metadata").and_then(|m| m.get("annotations")).cloned();
    let is_deployment = new.get("kind").is_some_and(|kind| kind == "Deployment");
    new.get("spec") != old.get("spec")
        || new.get("template") != old.get("template")
        || is_deployment && annotations(new) != annotations(old)
}

/// Warnings about a Pod, or about the template at a path.
pub fn for_pod(pod: &PathValue) -> Vec<String> {
    let (spec, notes) = (pod.get("spec"), pod.nested("metadata.annotations"));
    let mut warnings = scheduling::warnings(&spec);
    for (key, words) in IGNORED_ANNOTATIONS {
        if notes.has(key) {
            warnings.push(format!("{}: {words}", notes.key(key).path));
        }
    }
    volume_warnings(&spec.get("volumes"), &mut warnings);
    duplicate_warnings(&spec, &mut warnings);
    for name in ["memory", "ephemeral-storage"] {
        warnings.extend(fractional_bytes_warning(&spec.get("overhead").key(name)));
    }
    profile_warnings(pod, &notes, &mut warnings);
    for container in podspec::containers(&spec) {
        for (list, name) in [
            ("limits", "memory"),
            ("requests", "memory"),
            ("limits", "ephemeral-storage"),
            ("requests", "ephemeral-storage"),
        ] {
            warnings.extend(fractional_bytes_warning(&container.get("resources").get(list).key(name)));
        }
        duplicate_variable_warnings(&container.get("env"), &mut warnings);
    }
    port_warnings(&spec, &mut warnings);
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        let words = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {words}", grace.path));
    }
    warnings
}

fn volume_warnings(list: &PathValue, warnings: &mut Vec<String>) {
    for volume in list.items() {
        for (name, shown, words) in DEPRECATED_VOLUMES {
            if volume.has(name) {
                warnings.push(format!("{}: {words}", volume.path.field(shown)));
            }
        }
        warnings.extend(claim_spec::warnings(&volume.nested("ephemeral.volumeClaimTemplate.spec")));
    }
    for volume in list.items() {
        overlap_warnings(&volume, warnings);
    }
}

/// Limits of the warnings about pairs, of which there can be more than a response should hold.
const MAX_PAIRS: usize = 1_000;
const MAX_PAIR_BYTES: usize = 256 * 1024;
/// Maximum number of parent directories of one path that are compared.
const MAX_PARENT_DIRS: usize = 100;

/// One file of a volume: its path, and its source.
type VolumeFile = (String, String);

fn overlap_warnings(volume: &PathValue, warnings: &mut Vec<String>) {
    let name = volume.get("name").text();
    let files = |at: &PathValue, source: &str| -> Vec<VolumeFile> {
        let items = at.get("items");
        items.items().map(|item| (item.get("path").text().to_owned(), source.to_owned())).collect()
    };
    let (map, secret) = (volume.get("configMap"), volume.get("secret"));
    for (at, shown) in [
        (&map, format!("ConfigMap {:?}", map.get("name").text())),
        (&secret, format!("Secret {:?}", secret.get("secretName").text())),
        (&volume.get("downwardAPI"), "DownwardAPI".to_owned()),
    ] {
        report_collisions(files(at, ""), |body| {
            warnings.push(format!("volume {name:?} ({shown}): overlapping paths: {body}"));
        });
    }
    let mut all = Vec::new();
    for source in volume.nested("projected.sources").items() {
        if source.is_empty() {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
        for (kind, shown) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
            let at = source.get(kind);
            all.extend(files(&at, &format!("{shown} {:?}", at.get("name").text())));
        }
        all.extend(files(&source.get("downwardAPI"), "DownwardAPI"));
        all.push((
            source.nested("serviceAccountToken.path").text().to_owned(),
            "ServiceAccountToken".to_owned(),
        ));
    }
    report_collisions(all, |body| {
        warnings.push(format!("volume {name:?} (Projected): overlapping paths: {body}"));
    });
}

/// Reports every file at or below the path of an earlier one, up to [`MAX_PAIRS`] messages and
/// [`MAX_PAIR_BYTES`].
fn report_collisions(mut files: Vec<VolumeFile>, mut tell: impl FnMut(String)) {
    let show = |(path, source): &VolumeFile| {
        if source.is_empty() { format!("{path:?}") } else { format!("{path:?} ({source})") }
    };
    for (path, _) in &mut files {
        path.truncate(path.trim_end_matches('/').len());
    }
    // Positions of earlier files by each of their parent directories, and by their own path. The keys are borrowed: the
    // parents of a long path are many times its length.
    let mut below: HashMap<&str, Vec<usize>> = HashMap::new();
    let (mut told, mut bytes) = (0, 0_usize);
    for (this, file) in files.iter().enumerate().filter(|(_, file)| !file.0.is_empty()) {
        if told >= MAX_PAIRS {
            return;
        }
        let folders = file.0.match_indices('/').take(MAX_PARENT_DIRS).map(|(at, _)| &file.0[..at]);
        let folders: Vec<&str> = folders.filter(|folder| !folder.is_empty()).collect();
        let is_at = |at: &usize, path: &str| files[*at].0 == path;
        let above = folders
            .iter()
            .flat_map(|folder| below.get(*folder).into_iter().flatten().filter(move |at| is_at(at, folder)));
        let inside = below.get(file.0.as_str()).into_iter().flatten();
        let mut others: Vec<usize> = above.chain(inside).take(MAX_PAIRS - told).copied().collect();
        others.sort_unstable();
        told += others.len();
        for other in others {
            let text = format!("{} with {}", show(file), show(&files[other]));
            bytes = bytes.saturating_add(text.len());
            tell(text);
            if bytes > MAX_PAIR_BYTES {
                return;
            }
        }
        for folder in folders.into_iter().chain([file.0.as_str()]) {
            below.entry(folder).or_default().push(this);
        }
    }
}

fn duplicate_warnings(spec: &PathValue, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for at in spec.get(list).items().map(|item| item.get(field)) {
            if seen.contains(&at.text()) {
                warnings.push(format!("{}: duplicate {field} {:?}", at.path, at.text()));
            }
            seen.insert(at.text());
        }
    }
    for secret in spec.get("imagePullSecrets").items().filter(|secret| secret.get("name").is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", secret.get("name").path));
    }
}

/// Security profiles that are set by annotation only.
fn profile_warnings(pod: &PathValue, notes: &PathValue, warnings: &mut Vec<String>) {
    let spec = pod.get("spec");
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if !spec.nested("securityContext.seccompProfile").exists() && notes.has(key) {
        warnings.push(format!("{}: {SECCOMP_MESSAGE}", notes.key(key).path));
    }
    for container in podspec::containers(&spec) {
        let name = container.get("name").text();
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
        if !container.nested("securityContext.seccompProfile").exists() && notes.has(&key) {
            warnings.push(format!("{}: {SECCOMP_MESSAGE}", notes.key(&key).path));
        }
        let note = notes.key(&format!("{}{name}", template::APP_ARMOR_ANNOTATION_PREFIX));
        let own = container.nested("securityContext.appArmorProfile");
        // In a Pod the annotation has become a field by now; a template keeps it.
        let is_pod = pod.path.as_str().is_empty();
        let only_noted = if is_pod { own.exists() } else { !own.exists() };
        if note.exists() && only_noted && !spec.nested("securityContext.appArmorProfile").exists() {
            let words = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            warnings.push(format!("{}: {words}", note.path));
        }
    }
}

/// A variable defined twice, unless the second refers to the first.
fn duplicate_variable_warnings(list: &PathValue, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for variable in list.items() {
        let (name, value) = (variable.get("name").text(), variable.get("value").text());
        let reference = format!("$({name})");
        let builds_on = !variable.has("valueFrom") && value != reference && value.contains(&reference);
        if seen.contains(&name) && !builds_on {
            let words = "which may be dropped when using apply";
            warnings.push(format!("{}: hides previous definition of {name:?}, {words}", variable.path));
        }
        seen.insert(name);
    }
}

fn port_warnings(spec: &PathValue, warnings: &mut Vec<String>) {
    let all: Vec<_> =
        podspec::containers(spec).flat_map(|container| container.get("ports").items()).collect();
    let mut by_number: HashMap<(i64, &str), Vec<usize>> = HashMap::new();
    let mut pair_count = 0;
    for (i, port) in all.iter().enumerate() {
        let (ip, host) = (port.get("hostIP"), port.get("hostPort").int());
        if !ip.is_empty() && host == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}",
                port.path,
                port.get("name").text(),
                port.get("containerPort").int(),
                port.get("protocol").text(),
                ip.text()
            ));
        }
        let same =
            by_number.entry((port.get("containerPort").int(), port.get("protocol").text())).or_default();
        let others = same.iter().map(|&at| &all[at]).take(MAX_PAIRS.saturating_sub(pair_count));
        for other in others {
            pair_count += 1;
            let (other_ip, other_host) = (other.get("hostIP"), other.get("hostPort").int());
            let words = if ip.text() == other_ip.text() && host == other_host {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{}: {words} port definition with {}", port.path, other.path));
        }
        if same.len() < MAX_PAIRS {
            same.push(i);
        }
    }
    let mut names: HashMap<&str, &Path> = HashMap::new();
    for port in &all {
        let name = port.get("name").text();
        match names.get(name) {
            _ if name.is_empty() => {}
            Some(first) => warnings.push(format!(
                "{}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}",
                port.path
            )),
            None => drop(names.insert(name, &port.path)),
        }
    }
}
