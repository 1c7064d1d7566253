//! Volume mounts. Some errors are reported at the list, not at the mount.

use std::collections::HashSet;

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

use super::container::PodContext;
use super::paths;

pub fn validate_mounts(container: &PathValue, pod: &PodContext, errs: &mut FieldErrors) {
    let (list, devices) = (container.get("volumeMounts"), container.get("volumeDevices"));
    let privileged = container.nested("securityContext.privileged").bool_or_false();
    let field = |name: &str| -> HashSet<&str> { devices.items().map(|d| d.get(name).text()).collect() };
    let (device_names, device_paths) = (field("name"), field("devicePath"));
    let mut places = HashSet::new();
    for mount in list.items() {
        let (name, place) = (mount.get("name"), mount.get("mountPath"));
        check::required(&name, errs);
        if !pod.volumes.contains_key(name.text()) {
            errs.push(FieldError::not_found(&name.path, name.text()));
        }
        check::required(&place, errs);
        if places.contains(&place.text()) {
            errs.push(FieldError::invalid(&place.path, place.text(), "must be unique"));
        }
        places.insert(place.text());
        if device_names.contains(name.text()) {
            let words = "must not already exist in volumeDevices";
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
        if device_paths.contains(place.text()) {
            let words = "must not already exist as a path in volumeDevices";
            errs.push(FieldError::invalid(&place.path, place.text(), words));
        }

        let at_list = |name: &str| mount.get(name).with_path(list.path.field(name));
        let (sub, expression) = (at_list("subPath"), at_list("subPathExpr"));
        paths::validate_descending_path(&sub, errs);
        if !expression.is_empty() {
            if !sub.is_empty() {
                let words = "subPathExpr and subPath are mutually exclusive";
                errs.push(FieldError::invalid(&mount.get("subPathExpr").path, expression.text(), words));
            }
            paths::validate_descending_path(&expression, errs);
        }
        let propagation = at_list("mountPropagation");
        if propagation.exists() {
            check::one_of(&propagation, &["Bidirectional", "HostToContainer", "None"], errs);
            if propagation.text() == "Bidirectional" && !privileged {
                let words = "Bidirectional mount propagation is available only to privileged containers";
                errs.push(FieldError::forbidden(&propagation.path, words));
            }
        }
        validate_recursive_read_only(&mount, &at_list("recursiveReadOnly"), &propagation, errs);
    }
}

fn validate_recursive_read_only(
    mount: &PathValue,
    recursive: &PathValue,
    propagation: &PathValue,
    errs: &mut FieldErrors,
) {
    if !recursive.exists() {
        return;
    }
    check::one_of(recursive, &["Disabled", "Enabled", "IfPossible"], errs);
    if matches!(recursive.text(), "Enabled" | "IfPossible") {
        if !mount.get("readOnly").bool_or_false() {
            let words = "may only be specified when readOnly is true";
            errs.push(FieldError::forbidden(&recursive.path, words));
        }
        if propagation.exists() && propagation.text() != "None" {
            let words = "may only be specified when mountPropagation is None or not specified";
            errs.push(FieldError::forbidden(&recursive.path, words));
        }
    }
}

pub fn validate_devices(container: &PathValue, pod: &PodContext, errs: &mut FieldErrors) {
    let mounts = container.get("volumeMounts");
    let field = |name: &str| -> HashSet<&str> { mounts.items().map(|m| m.get(name).text()).collect() };
    let (mount_names, mount_paths) = (field("name"), field("mountPath"));
    let (mut names, mut places) = (HashSet::new(), HashSet::new());
    for device in container.get("volumeDevices").items() {
        let (name, place) = (device.get("name"), device.get("devicePath"));
        check::required(&name, errs);
        if names.contains(&name.text()) {
            errs.push(FieldError::invalid(&name.path, name.text(), "must be unique"));
        }
        match pod.volumes.get(name.text()) {
            None => errs.push(FieldError::not_found(&name.path, name.text())),
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let words =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errs.push(FieldError::invalid(&name.path, name.text(), words));
            }
            Some(_) => {}
        }
        check::required(&place, errs);
        if places.contains(&place.text()) {
            errs.push(FieldError::invalid(&place.path, place.text(), "must be unique"));
        }
        if place.text().split('/').any(|part| part == "..") {
            let words = "can not contain backsteps ('..')";
            errs.push(FieldError::invalid(&place.path, place.text(), words));
        } else {
            places.insert(place.text());
        }
        if mount_names.contains(name.text()) {
            let words = "must not already exist in volumeMounts";
            errs.push(FieldError::invalid(&name.path, name.text(), words));
        }
        if mount_paths.contains(place.text()) {
            let words = "must not already exist as a path in volumeMounts";
            errs.push(FieldError::invalid(&place.path, place.text(), words));
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}
