//! Warnings about a pod or a template that is accepted.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::field::Path;
use crate::rules::check::{self, At};

use super::claim::{self, fractional};
use super::{podspec, scheduling, template};

const USELESS_ANNOTATIONS: &[(&str, &str)] = &[
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
const OLD_VOLUMES: &[(&str, &str, &str)] = &[
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
const SECCOMP_WORDS: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// The warning about a name that becomes part of host names.
pub fn name_for_hosts(object: &At, used_in: &str) -> Option<String> {
    let wrong = check::dns_label(object.down("metadata.name").text());
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// Warnings of a kind that creates pods from `template`: on create, and on an update with changes.
pub fn of_maker(new: &Value, old: Option<&Value>, template: &str, about_name: bool) -> Vec<String> {
    let object = At::root(new);
    if old.is_some_and(|old| !changes(new, old)) {
        return Vec::new();
    }
    let mut warnings: Vec<_> = if about_name && old.is_none() {
        name_for_hosts(&object, "Pod names and hostnames").into_iter().collect()
    } else {
        Vec::new()
    };
    if object.down(template).exists() {
        warnings.extend(of_pod(&object.down(template)));
    }
    warnings
}

/// Whether an update increments the generation.
pub fn changes(new: &Value, old: &Value) -> bool {
    let annotations = |object: &Value| object.get("metadata").and_then(|m| m.get("annotations")).cloned();
    let is_deployment = new.get("kind").is_some_and(|kind| kind == "Deployment");
    new.get("spec") != old.get("spec")
        || new.get("template") != old.get("template")
        || is_deployment && annotations(new) != annotations(old)
}

/// Warnings about a Pod, or about the template at a path.
pub fn of_pod(pod: &At) -> Vec<String> {
    let (spec, notes) = (pod.get("spec"), pod.down("metadata.annotations"));
    let mut warnings = scheduling::warnings(&spec);
    for (key, words) in USELESS_ANNOTATIONS {
        if notes.has(key) {
            warnings.push(format!("{}: {words}", notes.key(key).path));
        }
    }
    volumes(&spec.get("volumes"), &mut warnings);
    duplicates(&spec, &mut warnings);
    for name in ["memory", "ephemeral-storage"] {
        warnings.extend(fractional(&spec.get("overhead").key(name)));
    }
    profiles(pod, &notes, &mut warnings);
    for container in podspec::containers(&spec) {
        for (list, name) in [
            ("limits", "memory"),
            ("requests", "memory"),
            ("limits", "ephemeral-storage"),
            ("requests", "ephemeral-storage"),
        ] {
            warnings.extend(fractional(&container.get("resources").get(list).key(name)));
        }
        hidden_variables(&container.get("env"), &mut warnings);
    }
    ports(&spec, &mut warnings);
    let grace = spec.get("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        let words = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {words}", grace.path));
    }
    warnings
}

fn volumes(list: &At, warnings: &mut Vec<String>) {
    for volume in list.items() {
        for (name, shown, words) in OLD_VOLUMES {
            if volume.has(name) {
                warnings.push(format!("{}: {words}", volume.path.field(shown)));
            }
        }
        warnings.extend(claim::warnings(&volume.down("ephemeral.volumeClaimTemplate.spec")));
    }
    for volume in list.items() {
        overlaps(&volume, warnings);
    }
}

/// Limits of the warnings about pairs, of which there can be more than a response should hold.
const MOST_PAIRS: usize = 1_000;
const MOST_PAIR_BYTES: usize = 256 * 1024;
/// Maximum number of parent directories of one path that are compared.
const MOST_FOLDERS: usize = 100;

/// One file of a volume: its path, and its source.
type File = (String, String);

fn overlaps(volume: &At, warnings: &mut Vec<String>) {
    let name = volume.get("name").text();
    let files = |at: &At, source: &str| -> Vec<File> {
        let items = at.get("items");
        items.items().map(|item| (item.get("path").text().to_owned(), source.to_owned())).collect()
    };
    let (map, secret) = (volume.get("configMap"), volume.get("secret"));
    for (at, shown) in [
        (&map, format!("ConfigMap {:?}", map.get("name").text())),
        (&secret, format!("Secret {:?}", secret.get("secretName").text())),
        (&volume.get("downwardAPI"), "DownwardAPI".to_owned()),
    ] {
        collisions(files(at, ""), |body| {
            warnings.push(format!("volume {name:?} ({shown}): overlapping paths: {body}"));
        });
    }
    let mut all = Vec::new();
    for source in volume.down("projected.sources").items() {
        if source.is_empty() {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
        for (kind, shown) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
            let at = source.get(kind);
            all.extend(files(&at, &format!("{shown} {:?}", at.get("name").text())));
        }
        all.extend(files(&source.get("downwardAPI"), "DownwardAPI"));
        all.push((
            source.down("serviceAccountToken.path").text().to_owned(),
            "ServiceAccountToken".to_owned(),
        ));
    }
    collisions(all, |body| {
        warnings.push(format!("volume {name:?} (Projected): overlapping paths: {body}"));
    });
}

/// Reports every file at or below the path of an earlier one, up to [`MOST_PAIRS`] messages and
/// [`MOST_PAIR_BYTES`].
fn collisions(mut files: Vec<File>, mut tell: impl FnMut(String)) {
    let show = |(path, source): &File| {
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
        if told >= MOST_PAIRS {
            return;
        }
        let folders = file.0.match_indices('/').take(MOST_FOLDERS).map(|(at, _)| &file.0[..at]);
        let folders: Vec<&str> = folders.filter(|folder| !folder.is_empty()).collect();
        let is_at = |at: &usize, path: &str| files[*at].0 == path;
        let above = folders
            .iter()
            .flat_map(|folder| below.get(*folder).into_iter().flatten().filter(move |at| is_at(at, folder)));
        let inside = below.get(file.0.as_str()).into_iter().flatten();
        let mut others: Vec<usize> = above.chain(inside).take(MOST_PAIRS - told).copied().collect();
        others.sort_unstable();
        told += others.len();
        for other in others {
            let text = format!("{} with {}", show(file), show(&files[other]));
            bytes = bytes.saturating_add(text.len());
            tell(text);
            if bytes > MOST_PAIR_BYTES {
                return;
            }
        }
        for folder in folders.into_iter().chain([file.0.as_str()]) {
            below.entry(folder).or_default().push(this);
        }
    }
}

fn duplicates(spec: &At, warnings: &mut Vec<String>) {
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
fn profiles(pod: &At, notes: &At, warnings: &mut Vec<String>) {
    let spec = pod.get("spec");
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if !spec.down("securityContext.seccompProfile").exists() && notes.has(key) {
        warnings.push(format!("{}: {SECCOMP_WORDS}", notes.key(key).path));
    }
    for container in podspec::containers(&spec) {
        let name = container.get("name").text();
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
        if !container.down("securityContext.seccompProfile").exists() && notes.has(&key) {
            warnings.push(format!("{}: {SECCOMP_WORDS}", notes.key(&key).path));
        }
        let note = notes.key(&format!("{}{name}", template::APP_ARMOR));
        let own = container.down("securityContext.appArmorProfile");
        // In a Pod the annotation has become a field by now; a template keeps it.
        let is_pod = pod.path.as_str().is_empty();
        let only_noted = if is_pod { own.exists() } else { !own.exists() };
        if note.exists() && only_noted && !spec.down("securityContext.appArmorProfile").exists() {
            let words = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            warnings.push(format!("{}: {words}", note.path));
        }
    }
}

/// A variable defined twice, unless the second refers to the first.
fn hidden_variables(list: &At, warnings: &mut Vec<String>) {
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

fn ports(spec: &At, warnings: &mut Vec<String>) {
    let all: Vec<_> =
        podspec::containers(spec).flat_map(|container| container.get("ports").items()).collect();
    let mut by_number: HashMap<(i64, &str), Vec<usize>> = HashMap::new();
    let mut told = 0;
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
        let others = same.iter().map(|&at| &all[at]).take(MOST_PAIRS.saturating_sub(told));
        for other in others {
            told += 1;
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
        if same.len() < MOST_PAIRS {
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
