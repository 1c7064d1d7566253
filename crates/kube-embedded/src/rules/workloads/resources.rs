//! Resource names and quantities: which can be requested, limited and counted, and how much.

use std::collections::HashSet;

use crate::field::{FieldError, FieldErrors, Path};
use crate::quantity::Quantity;
use crate::rules::check::quantity;
use crate::rules::check::{self, PathValue};

const COMPUTE_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const COUNTED_RESOURCES: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const QUOTA_ONLY_RESOURCES: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether the resource can be overcommitted, so that limits may exceed requests.
pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && check::qualified_name(&format!("requests.{name}")).is_empty()
}

pub fn is_standard_quota(name: &str) -> bool {
    COMPUTE_RESOURCES.contains(&name)
        || COUNTED_RESOURCES.contains(&name)
        || QUOTA_ONLY_RESOURCES.contains(&name)
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

/// Any resource name.
pub fn validate_name(name: &str, path: &Path, errs: &mut FieldErrors) {
    let before = errs.len();
    check::label_name(name, path, errs);
    if errs.len() == before && !name.contains('/') && !is_standard_quota(name) && name != "storage" {
        errs.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
}

/// A resource of a container.
pub fn validate_container_resource_name(resource: &str, path: &Path, errs: &mut FieldErrors) {
    validate_name(resource, path, errs);
    if !resource.contains('/') {
        if !COMPUTE_RESOURCES.contains(&resource) && !is_huge_pages(resource) {
            errs.push(FieldError::invalid(path, resource, "must be a standard resource for containers"));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errs.push(FieldError::invalid(path, resource, "doesn't follow extended resource name standard"));
    }
}

/// A resource of a pod as a whole.
fn validate_pod_resource_name(resource: &str, path: &Path, errs: &mut FieldErrors) {
    let before = errs.len();
    validate_name(resource, path, errs);
    if errs.len() == before && resource != "cpu" && resource != "memory" && !is_huge_pages(resource) {
        errs.push(FieldError::unsupported(path, resource, &["cpu", "hugepages-", "memory"]));
    }
}

/// A resource that a quota can count.
pub fn validate_quota_resource_name(resource: &str, path: &Path, errs: &mut FieldErrors) {
    validate_name(resource, path, errs);
    if !resource.contains('/') && !is_standard_quota(resource) {
        errs.push(FieldError::invalid(path, resource, "must be a standard resource for quota"));
    }
}

/// A quantity of a resource.
pub fn validate_quantity(name: &str, at: &PathValue, errs: &mut FieldErrors) {
    quantity::not_negative(at, errs);
    let whole = at.value.and_then(Quantity::from_value).is_none_or(|amount| amount.is_whole());
    if (COUNTED_RESOURCES.contains(&name) || is_extended(name)) && !whole {
        errs.push(FieldError::invalid(&at.path, at.to_json(), "must be an integer"));
    }
}

pub fn validate_container(resources: &PathValue, claims: &[&str], errs: &mut FieldErrors) {
    validate_requirements(resources, validate_container_resource_name, claims, errs);
}

fn validate_requirements(
    resources: &PathValue,
    judge: fn(&str, &Path, &mut FieldErrors),
    claims: &[&str],
    errs: &mut FieldErrors,
) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    for (name, at) in limits.entries().chain(requests.entries()) {
        judge(name, &at.path, errs);
        validate_quantity(name, &at, errs);
        if is_huge_pages(name) && !is_multiple_of_page(name, &at) {
            let words = format!("{} is not positive integer multiple of {name}", at.text());
            errs.push(FieldError::invalid(&at.path, at.to_json(), words));
        }
    }
    for (name, at) in requests.entries() {
        let (asked, limit) = (at.value.and_then(Quantity::from_value), limits.peek(name));
        match limit.and_then(Quantity::from_value) {
            Some(most) if !may_overcommit(name) && asked.as_ref() != Some(&most) => {
                let words = format!("must be equal to {name} limit of {}", limits.get(name).text());
                errs.push(FieldError::invalid(&requests.path, at.to_json(), words));
            }
            Some(most) if asked.as_ref() > Some(&most) => {
                let words =
                    format!("must be less than or equal to {name} limit of {}", limits.get(name).text());
                errs.push(FieldError::invalid(&requests.path, at.to_json(), words));
            }
            None if !may_overcommit(name) => {
                let words = "Limit must be set for non overcommitable resources";
                errs.push(FieldError::required(&limits.path, words));
            }
            _ => {}
        }
    }
    let names = || limits.entries().chain(requests.entries()).map(|(name, _)| name);
    if names().any(is_huge_pages) && !names().any(|name| name == "cpu" || name == "memory") {
        errs.push(FieldError::forbidden(&resources.path, "HugePages require cpu or memory"));
    }
    validate_claim_names(&resources.get("claims"), claims, errs);
}

fn is_multiple_of_page(name: &str, at: &PathValue) -> bool {
    let page = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok());
    match (page, at.value.and_then(Quantity::from_value)) {
        (Some(page), Some(amount)) => {
            page > Quantity::default() && page.is_whole() && amount.value() % page.value() == 0
        }
        _ => false,
    }
}

/// Limits of the names listed in one message: each unknown claim has such a message.
const MAX_NAMES: usize = 100;
const MAX_NAME_BYTES: usize = 8 * 1024;

/// `known` is sorted.
fn validate_claim_names(list: &PathValue, known: &[&str], errs: &mut FieldErrors) {
    let is_shown = known.len() <= MAX_NAMES
        && known.iter().map(|name| name.len()).fold(0, usize::saturating_add) <= MAX_NAME_BYTES;
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut names: HashSet<&str> = HashSet::new();
    for claim in list.items() {
        let (name, request) = (claim.get("name").text(), claim.get("request"));
        if name.is_empty() {
            errs.push(FieldError::required(&claim.path, ""));
            continue;
        }
        if seen.contains(&(name, "")) {
            errs.push(FieldError::duplicate(&claim.path, name));
        } else {
            if !request.is_empty() {
                check::text(&request, check::dns_label, errs);
            }
            if !request.is_empty() && seen.contains(&(name, request.text())) {
                errs.push(FieldError::duplicate(&claim.path, format!("{name}/{}", request.text())));
            } else if request.is_empty() && names.contains(name) {
                errs.push(FieldError::duplicate(&claim.path, name));
            }
            seen.insert((name, request.text()));
            names.insert(name);
        }
        if known.binary_search(&name).is_err() {
            let mut error = FieldError::not_found(&claim.path, name);
            "must be one of the names in pod.spec.resourceClaims".clone_into(&mut error.detail);
            match known {
                [] => error.detail.push_str(" which is empty"),
                _ if !is_shown => {}
                _ => error.detail = format!("{}: {}", error.detail, known.join(", ")),
            }
            errs.push(error);
        }
    }
}

/// The peak requirement of a pod's containers for a resource, as quantity and as string:
/// the sum of the main containers and sidecars, or an init container with the sidecars started before it.
pub fn aggregate(spec: &PathValue, list: &str, name: &str) -> Option<(Quantity, String)> {
    let of = |container: &PathValue| container.get("resources").get(list).peek(name).cloned();
    let (regular, init) = (spec.get("containers"), spec.get("initContainers"));
    regular.items().chain(init.items()).find_map(|container| of(&container))?;
    let amount =
        |container: &PathValue| of(container).as_ref().and_then(Quantity::from_value).unwrap_or_default();
    let mut together = regular.items().map(|c| amount(&c)).fold(Quantity::ZERO, |sum, own| sum.add(&own));
    let (mut sidecars, mut before) = (Quantity::default(), Quantity::default());
    for container in init.items() {
        let own = amount(&container);
        before = before.max(sidecars.add(&own));
        if container.get("restartPolicy").text() == "Always" {
            together = together.add(&own);
            sidecars = sidecars.add(&own);
        }
    }
    let most = together.max(before);
    let words = most.to_string();
    Some((most, words))
}

/// Validates pod-level resources, which must be at least the resources of the containers.
pub fn validate_pod(spec: &PathValue, errs: &mut FieldErrors) {
    let resources = spec.get("resources");
    if !resources.exists() {
        return;
    }
    if spec.nested("os.name").text() == "windows" {
        errs.push(FieldError::forbidden(&resources.path, "may not be set for a windows pod"));
        return;
    }
    if resources.has("claims") {
        let path = &resources.get("claims").path;
        errs.push(FieldError::forbidden(path, "claims may not be set for Resources at pod-level"));
    }
    validate_requirements(&resources, validate_pod_resource_name, &[], errs);

    for (name, at) in resources.get("requests").entries() {
        if let Some((total, words)) = aggregate(spec, "requests", name)
            && at.value.and_then(Quantity::from_value).is_some_and(|asked| total > asked)
        {
            let words = format!("must be greater than or equal to aggregate container requests of {words}");
            errs.push(FieldError::invalid(&at.path, at.to_json(), words));
        }
    }
    let limits = resources.get("limits");
    for (name, at) in limits.entries().filter(|(name, _)| is_huge_pages(name)) {
        if let Some((total, words)) = aggregate(spec, "limits", name)
            && at.value.and_then(Quantity::from_value).is_some_and(|most| total > most)
        {
            let words = format!("must be greater than or equal to aggregate container limits of {words}");
            errs.push(FieldError::invalid(&at.path, at.to_json(), words));
        }
    }
    for (i, container) in spec.get("containers").items().enumerate() {
        for (name, at) in container.nested("resources.limits").entries() {
            if let (Some(most), Some(asked)) =
                (limits.peek(name).and_then(Quantity::from_value), at.value.and_then(Quantity::from_value))
                && asked > most
            {
                let path = resources.path.field("containers").index(i).key(name).field("limits");
                let words =
                    format!("must be less than or equal to pod limits of {}", limits.get(name).text());
                errs.push(FieldError::invalid(&path, at.to_json(), words));
            }
        }
    }
}
