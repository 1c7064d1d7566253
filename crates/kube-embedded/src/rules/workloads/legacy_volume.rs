//! Volumes of former in-tree storage plugins. Few use them; they are still validated.

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

/// Sources with their required fields.
const REQUIRED_FIELDS: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("quobyte", &["volume"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

/// Errors of one source of any kind.
pub fn validate_source(kind: &str, at: &PathValue, errs: &mut FieldErrors) {
    for needed in REQUIRED_FIELDS.iter().filter(|(name, _)| *name == kind).flat_map(|(_, needed)| *needed) {
        check::required(&at.get(needed), errs);
    }
    let secret = at.nested("secretRef.name");
    match kind {
        "awsElasticBlockStore" | "gcePersistentDisk" => {
            let partition = at.get("partition");
            if !(0..=255).contains(&partition.int()) {
                errs.push(FieldError::invalid(&partition.path, partition.int(), check::between(1, 255)));
            }
        }
        "azureDisk" => validate_azure_disk(at, errs),
        "cinder" if at.has("secretRef") => check::required(&secret, errs),
        "fc" => validate_fibre_channel(at, errs),
        "flexVolume" => {
            for (key, option) in at.get("options").entries() {
                let owner = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
                if owner.ends_with(".kubernetes.io") || owner.ends_with(".k8s.io") {
                    let words = "kubernetes.io and k8s.io namespaces are reserved";
                    errs.push(FieldError::invalid(&option.path, key, words));
                }
            }
        }
        "flocker" => {
            let (name, uuid) = (at.get("datasetName"), at.get("datasetUUID"));
            if name.is_empty() && uuid.is_empty() {
                errs.push(FieldError::required(&at.path, "one of datasetName and datasetUUID is required"));
            } else if !name.is_empty() && !uuid.is_empty() {
                let words = "datasetName and datasetUUID can not be specified simultaneously";
                errs.push(FieldError::invalid(&at.path, "resource", words));
            }
            if name.text().contains('/') {
                errs.push(FieldError::invalid(&name.path, name.text(), "must not contain '/'"));
            }
        }
        "iscsi" => validate_iscsi(at, errs),
        "quobyte" => {
            let registry = at.get("registry");
            let words = "must be a host:port pair or multiple pairs separated by commas";
            if registry.is_empty() {
                errs.push(FieldError::required(&registry.path, words));
            }
            for _ in registry.text().split(',').filter(|pair| !registry.is_empty() && !pair.contains(':')) {
                errs.push(FieldError::invalid(&registry.path, registry.text(), words));
            }
        }
        "storageos" => {
            for name in
                ["volumeName", "volumeNamespace"].map(|name| at.get(name)).iter().filter(|at| !at.is_empty())
            {
                check::text(name, check::dns_label, errs);
            }
            if at.has("secretRef") {
                check::required(&secret, errs);
            }
        }
        _ => {}
    }
}

fn validate_azure_disk(at: &PathValue, errs: &mut FieldErrors) {
    let (kind, uri) = (at.get("kind"), at.get("diskURI"));
    if at.has("cachingMode") {
        check::one_of(&at.get("cachingMode"), &["None", "ReadOnly", "ReadWrite"], errs);
    }
    if !kind.exists() {
        return;
    }
    check::one_of(&kind, &["Dedicated", "Managed", "Shared"], errs);
    let (prefix, form) = if kind.text() == "Managed" {
        let form =
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        ("/subscriptions/", form)
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !uri.text().starts_with(prefix) {
        errs.push(FieldError::unsupported(&uri.path, uri.text(), &[form]));
    }
}

fn validate_fibre_channel(at: &PathValue, errs: &mut FieldErrors) {
    let (targets, ids, lun) = (at.get("targetWWNs"), at.get("wwids"), at.get("lun"));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => {
            let words = "must specify either targetWWNs or wwids, but not both";
            errs.push(FieldError::required(&targets.path, words));
        }
        (false, false) => {
            let words = "targetWWNs and wwids can not be specified simultaneously";
            errs.push(FieldError::invalid(&targets.path, targets.to_json(), words));
        }
        _ => {}
    }
    if !targets.is_empty() {
        if !lun.exists() {
            errs.push(FieldError::required(&lun.path, "lun is required if targetWWNs is specified"));
        }
        check::number_in_range(&lun, 0, 255, errs);
    }
}

fn validate_iscsi(at: &PathValue, errs: &mut FieldErrors) {
    check::number_in_range(&at.get("lun"), 0, 255, errs);
    let iqn = at.get("iqn");
    if !iqn.is_empty() && !["iqn", "eui", "naa"].iter().any(|prefix| iqn.text().starts_with(prefix)) {
        let words = "must be valid format starting with iqn, eui, or naa";
        errs.push(FieldError::invalid(&iqn.path, iqn.text(), words));
    }
    let secret = at.get("secretRef");
    if (at.get("chapAuthDiscovery").bool_or_false() || at.get("chapAuthSession").bool_or_false())
        && !secret.exists()
    {
        errs.push(FieldError::required(&secret.path, ""));
    }
}
