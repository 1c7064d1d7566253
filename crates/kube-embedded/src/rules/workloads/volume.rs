//! Volumes of a pod. Only the first of several sources in one volume is validated.

use std::collections::{HashMap, HashSet};

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::{self, PathValue};

use super::defaults::VOLUME_SOURCES;
use super::{claim_spec, env, legacy_volume, paths, projected};

pub const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Reports errors of the volumes; returns the valid ones by name. `pod` is the pod's name, and
/// `None` in a template.
pub fn validate_all<'a>(
    list: &PathValue<'a>,
    pod: Option<&str>,
    errs: &mut FieldErrors,
) -> HashMap<&'a str, PathValue<'a>> {
    let pod_name = pod.filter(|name| !name.is_empty());
    let created: HashSet<_> = list
        .items()
        .filter(|volume| volume.has("ephemeral"))
        .filter_map(|volume| Some(format!("{}-{}", pod_name?, volume.get("name").text())))
        .collect();
    let mut sound: HashMap<&str, PathValue> = HashMap::new();
    for volume in list.items() {
        let before = errs.len();
        let name = volume.get("name");
        validate_source(&volume, pod, errs);
        check::required_text(&name, check::dns_label, errs);
        if sound.contains_key(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        if errs.len() == before {
            sound.insert(name.text(), volume.clone());
        }
        let claim = volume.nested("persistentVolumeClaim.claimName");
        if created.contains(claim.text()) {
            let words = "must not reference a PVC that gets created for an ephemeral volume";
            errs.push(FieldError::invalid(&claim.path, claim.text(), words));
        }
    }
    sound
}

fn validate_source(volume: &PathValue, pod: Option<&str>, errs: &mut FieldErrors) {
    let mut given = VOLUME_SOURCES.iter().filter(|name| volume.has(name));
    let Some(first) = given.next() else {
        errs.push(FieldError::required(&volume.path, "must specify a volume type"));
        return;
    };
    validate_source_kind(first, &volume.get(first), volume, pod, errs);
    for other in given {
        // Two names have a different spelling in this message.
        let name = match *other {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            name => name,
        };
        errs.push(FieldError::forbidden(&volume.path.field(name), "may not specify more than 1 volume type"));
    }
}

fn validate_source_kind(
    kind: &str,
    at: &PathValue,
    volume: &PathValue,
    pod: Option<&str>,
    errs: &mut FieldErrors,
) {
    match kind {
        "emptyDir" => {
            let size = at.get("sizeLimit");
            if size.value.and_then(Quantity::from_value).is_some_and(|amount| amount < Quantity::ZERO) {
                errs.push(FieldError::forbidden(
                    &size.path,
                    "SizeLimit field must be a valid resource quantity",
                ));
            }
        }
        "hostPath" => validate_host_path(at, errs),
        "gitRepo" => {
            check::required(&at.get("repository"), errs);
            paths::validate_descending_path(&at.get("directory"), errs);
        }
        "gcePersistentDisk" => {
            legacy_volume::validate_source(kind, &at.with_path(volume.path.field("persistentDisk")), errs);
        }
        "persistentVolumeClaim" => check::required(&at.get("claimName"), errs),
        "secret" | "configMap" => {
            check::required(&at.get(if kind == "secret" { "secretName" } else { "name" }), errs);
            paths::validate_file_mode(&at.get("defaultMode"), errs);
            at.get("items").items().for_each(|item| validate_key_to_path(&item, errs));
        }
        "nfs" => {
            check::required(&at.get("server"), errs);
            let path = at.get("path");
            check::required(&path, errs);
            if !path.text().starts_with('/') {
                errs.push(FieldError::invalid(&path.path, path.text(), "must be an absolute path"));
            }
        }
        "downwardAPI" => {
            paths::validate_file_mode(&at.get("defaultMode"), errs);
            at.get("items")
                .items()
                .for_each(|file| validate_downward_file(&file.with_path(at.path.clone()), errs));
        }
        "projected" => {
            paths::validate_file_mode(&at.get("defaultMode"), errs);
            projected::validate_sources(at, errs);
        }
        "csi" => validate_csi(at, errs),
        "ephemeral" => validate_ephemeral(at, volume, pod, errs),
        "image" => {
            if pod.is_some() {
                check::required(&at.get("reference"), errs);
            }
            check::required_one_of(&at.get("pullPolicy"), &["Always", "IfNotPresent", "Never"], errs);
        }
        _ => legacy_volume::validate_source(kind, at, errs),
    }
}

fn validate_host_path(at: &PathValue, errs: &mut FieldErrors) {
    let path = at.get("path");
    if path.is_empty() {
        errs.push(FieldError::required(&path.path, ""));
        return;
    }
    paths::validate_no_backsteps(&path, errs);
    if at.has("type") {
        check::one_of(&at.get("type"), HOST_PATH_TYPES, errs);
    }
}

/// One file of a Secret or a ConfigMap.
pub fn validate_key_to_path(item: &PathValue, errs: &mut FieldErrors) {
    check::required(&item.get("key"), errs);
    check::required(&item.get("path"), errs);
    paths::validate_not_reserved(&item.get("path"), errs);
    paths::validate_file_mode(&item.get("mode"), errs);
}

/// One file with a field of the pod. Errors are reported at the volume.
pub fn validate_downward_file(file: &PathValue, errs: &mut FieldErrors) {
    check::required(&file.get("path"), errs);
    paths::validate_not_reserved(&file.get("path"), errs);
    let (field, resource) = (file.get("fieldRef"), file.get("resourceFieldRef"));
    if field.exists() {
        env::validate_field_ref(&field, env::FIELDS_FOR_VOLUMES, errs);
        if resource.exists() {
            let words = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errs.push(FieldError::invalid(&file.path, "resource", words));
        }
    } else if resource.exists() {
        env::validate_resource_ref(&resource, true, errs);
    } else {
        errs.push(FieldError::required(&file.path, "one of fieldRef and resourceFieldRef is required"));
    }
    paths::validate_file_mode(&file.get("mode"), errs);
}

fn validate_csi(at: &PathValue, errs: &mut FieldErrors) {
    let driver = at.get("driver");
    if driver.is_empty() {
        errs.push(FieldError::required(&driver.path, ""));
    } else {
        if driver.len() > 63 {
            errs.push(FieldError::too_long(&driver.path, 63));
        }
        for words in check::dns_subdomain(&driver.text().to_lowercase()) {
            errs.push(FieldError::invalid(&driver.path, driver.text(), words));
        }
    }
    if at.has("nodePublishSecretRef") {
        let name = at.nested("nodePublishSecretRef.name");
        if name.is_empty() {
            errs.push(FieldError::required(&name.path, ""));
        } else {
            check::text(&name.with_path(at.path.field("name")), check::dns_subdomain, errs);
        }
    }
}

fn validate_ephemeral(at: &PathValue, volume: &PathValue, pod: Option<&str>, errs: &mut FieldErrors) {
    let template = at.get("volumeClaimTemplate");
    if template.exists() {
        claim_spec::validate_template(&template, errs);
    } else {
        errs.push(FieldError::required(&template.path, ""));
    }
    let name = volume.get("name");
    if let Some(pod) = pod.filter(|pod| !pod.is_empty() && !name.is_empty()) {
        let claim = format!("{pod}-{}", name.text());
        for words in check::dns_subdomain(&claim) {
            let words = format!("PVC name {claim:?}: {words}");
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
    }
}
