//! Lease, `RuntimeClass`, `CertificateSigningRequest`, `APIService`, and the kinds of dynamic resource allocation.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use x509_parser::prelude::FromDer;

use super::accessors::{
    go_duplicate, go_names, is_empty_value, items, list_mut, maps_mut, members, set_if_absent, set_if_empty,
    text,
};
use super::check::{self, PathValue};
use super::workloads::podspec;
use super::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy, meta};
use crate::field::{FieldError, FieldErrors, Path};

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "coordination.k8s.io",
        kind: "Lease",
        allows_any_finalizer: true,
        prepare_for_create: drop_coordination_fields,
        prepare_for_update: |new, _| drop_coordination_fields(new),
        validate: validate_lease,
        validate_update: |new, _| validate_lease(new),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        allows_any_finalizer: true,
        validate: validate_runtime_class,
        validate_update: |new, old| {
            let mut errs = meta::validate_custom_create(&new["metadata"], false);
            errs.extend(validate_runtime_class(new));
            check::immutable(
                &PathValue::root(new).get("handler"),
                &PathValue::root(old).get("handler"),
                &mut errs,
            );
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        naming: NamePolicy::PathSegment,
        prepare_for_create: |request| request["status"] = json!({}),
        prepare_for_update: |new, old| new["spec"] = old["spec"].clone(),
        validate: validate_request,
        validate_update: |new, old| validate_request_update(new, old, CsrStatusField::Nothing),
        validate_status: |new, old| validate_request_update(new, old, CsrStatusField::Certificate),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        naming: NamePolicy::PathSegment,
        default: |service| {
            if let Some(Value::Object(target)) = members(service, "spec").get_mut("service") {
                set_if_absent(target, "port", 443);
            }
        },
        validate: validate_api_service,
        validate_update: |new, _| {
            let mut errs = meta::validate_create(&new["metadata"], false, NamePolicy::PathSegment);
            errs.extend(validate_api_service(new));
            errs
        },
        validate_status: |new, _| {
            let mut errs = FieldErrors::new();
            for condition in PathValue::root(new).nested("status.conditions").items() {
                check::one_of(&condition.get("status"), &["True", "False", "Unknown"], &mut errs);
            }
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "resource.k8s.io",
        kind: "DeviceClass",
        generation: GenerationPolicy::Content,
        validate_update: |new, _| meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        default: |claim| default_devices(claim),
        validate: |claim| validate_devices(&PathValue::root(claim).nested("spec.devices")),
        validate_update: |new, old| validate_immutable_spec(new, old),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        default: |template| {
            members(template, "spec");
            default_devices(&mut template["spec"]);
        },
        validate: |template| validate_devices(&PathValue::root(template).nested("spec.spec.devices")),
        validate_update: |new, old| validate_immutable_spec(new, old),
        ..DEFAULT_RULES
    },
    KindRules {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        generation: GenerationPolicy::Content,
        validate: validate_slice,
        validate_update: |new, old| {
            let mut errs = validate_slice(new);
            let (now, was) = (PathValue::root(new).get("spec"), PathValue::root(old).get("spec"));
            for field in ["nodeName", "driver"] {
                check::immutable(&now.get(field), &was.get(field), &mut errs);
            }
            check::immutable(&now.nested("pool.name"), &was.nested("pool.name"), &mut errs);
            errs
        },
        ..DEFAULT_RULES
    },
];

/// Coordinated leader election is disabled, as by default in Kubernetes.
fn drop_coordination_fields(lease: &mut Value) {
    let spec = members(lease, "spec");
    spec.remove("strategy");
    spec.remove("preferredHolder");
}

fn validate_lease(lease: &Value) -> FieldErrors {
    let root = PathValue::root(lease);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    let duration = spec.get("leaseDurationSeconds");
    if duration.number().is_some_and(|seconds| seconds <= 0) {
        errs.push(FieldError::invalid(&duration.path, duration.int(), "must be greater than 0"));
    }
    check::not_negative(&spec.get("leaseTransitions"), &mut errs);
    errs
}

fn validate_runtime_class(class: &Value) -> FieldErrors {
    let root = PathValue::root(class);
    let mut errs = FieldErrors::new();
    check::required_text(&root.get("handler"), check::dns_label, &mut errs);
    podspec::validate_overhead(&root.nested("overhead.podFixed").with_path(Path::new("overhead")), &mut errs);
    check::labels(&root.nested("scheduling.nodeSelector"), &mut errs);
    let mut seen = HashSet::new();
    for toleration in root.nested("scheduling.tolerations").items() {
        validate_toleration(&toleration, &mut errs);
        let key: Vec<_> =
            ["key", "operator", "value", "effect"].iter().map(|field| toleration.get(field).text()).collect();
        if seen.contains(&key) {
            let field = |name: &str| json!(toleration.get(name).text());
            let shown = format!(
                "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{}}}",
                field("key"),
                field("operator"),
                field("value"),
                field("effect"),
                toleration.get("tolerationSeconds").to_json()
            );
            errs.push(go_duplicate(&toleration.path, shown));
        }
        seen.insert(key);
    }
    errs
}

fn validate_toleration(toleration: &PathValue, errs: &mut FieldErrors) {
    let (key, operator) = (toleration.get("key"), toleration.get("operator"));
    let (value, effect) = (toleration.get("value"), toleration.get("effect"));
    if !key.is_empty() {
        check::text(&key, check::qualified_name, errs);
    } else if operator.text() != "Exists" {
        let words =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errs.push(FieldError::invalid(&operator.path, operator.text(), words));
    }
    if toleration.has("tolerationSeconds") && effect.text() != "NoExecute" {
        let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errs.push(FieldError::invalid(&effect.path, effect.text(), words));
    }
    match operator.text() {
        "" | "Equal" => {
            let wrong = check::label_value(value.text());
            if !wrong.is_empty() {
                errs.push(FieldError::invalid(&operator.path, value.text(), wrong.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let words = "value must be empty when `operator` is 'Exists'";
            errs.push(FieldError::invalid(&operator.path, value.text(), words));
        }
        "Exists" => {}
        _ => check::one_of(&operator, &["Equal", "Exists"], errs),
    }
    if !effect.is_empty() {
        check::one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errs);
    }
}

#[rustfmt::skip]
const USAGES: &[&str] = &[
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
];

fn validate_request(request: &Value) -> FieldErrors {
    let root = PathValue::root(request);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    let pem = spec.get("request");
    if let Some(words) = csr_pem_error(pem.text()) {
        errs.push(FieldError::invalid(&pem.path, pem.text(), words));
    }
    let usages = spec.get("usages");
    check::required(&usages, &mut errs);
    let mut seen = HashSet::new();
    for usage in usages.items() {
        check::one_of(&usage, USAGES, &mut errs);
        if seen.contains(&usage.text()) {
            errs.push(FieldError::duplicate(&usage.path, usage.text()));
        }
        seen.insert(usage.text());
    }
    validate_signer_name(&spec.get("signerName"), &mut errs);
    let expiration = spec.get("expirationSeconds");
    if expiration.number().is_some_and(|seconds| seconds < 600) {
        let words = "may not specify a duration less than 600 seconds (10 minutes)";
        errs.push(FieldError::invalid(&expiration.path, expiration.int(), words));
    }
    validate_request_conditions(&root.nested("status.conditions"), &mut errs);
    errs
}

/// Returns the error of a base64-encoded PEM certificate request.
fn csr_pem_error(encoded: &str) -> Option<&'static str> {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let Some(pem) = x509_parser::pem::Pem::iter_from_buffer(&bytes).next().and_then(Result::ok) else {
        return Some("PEM block type must be CERTIFICATE REQUEST");
    };
    if pem.label != "CERTIFICATE REQUEST" {
        return Some("PEM block type must be CERTIFICATE REQUEST");
    }
    match x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents) {
        Ok(_) => None,
        Err(_) => Some("asn1: structure error: malformed certificate request"),
    }
}

fn validate_signer_name(at: &PathValue, errs: &mut FieldErrors) {
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    let name = at.text();
    if name.is_empty() {
        errs.push(FieldError::required(&at.path, ""));
        return;
    }
    if name == "kubernetes.io/legacy-unknown" {
        let words = "the legacy signerName is not allowed via this API version";
        errs.push(FieldError::invalid(&at.path, name, words));
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        errs.push(FieldError::invalid(&at.path, name, FORM));
        return;
    };
    validate_name_labels(at, domain, check::dns_label, errs);
    if !domain.contains('.') {
        let words = "should be a domain with at least two segments separated by dots";
        errs.push(FieldError::invalid(&at.path, domain, words));
    }
    validate_name_labels(at, path, check::dns_subdomain, errs);
    if name.len() > 571 {
        errs.push(FieldError::too_long(&at.path, 571));
    }
}

/// Reports the first invalid label of a part of the name.
fn validate_name_labels(at: &PathValue, part: &str, judge: fn(&str) -> Vec<String>, errs: &mut FieldErrors) {
    let bad = part.split('.').map(|label| (label, judge(label))).find(|(_, wrong)| !wrong.is_empty());
    for (label, words) in
        bad.into_iter().flat_map(|(label, wrong)| wrong.into_iter().map(move |w| (label, w)))
    {
        let words = format!("validating label {label:?}: {words}");
        errs.push(FieldError::invalid(&at.path, part, words));
    }
}

fn validate_request_conditions(conditions: &PathValue, errs: &mut FieldErrors) {
    let mut seen: HashSet<&str> = HashSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.get("type"), condition.get("status"));
        check::required(&kind, errs);
        let always_true = matches!(kind.text(), "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if always_true { &["True"] } else { &["False", "True", "Unknown"] };
        check::required_one_of(&status, allowed, errs);
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && seen.contains(&opposite) {
            let words = "Approved and Denied conditions are mutually exclusive";
            errs.push(FieldError::invalid(&conditions.path, kind.text(), words));
        }
        if seen.contains(&kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        seen.insert(kind.text());
    }
}

/// The status field that an update of a `CertificateSigningRequest` may set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CsrStatusField {
    Nothing,
    Certificate,
}

fn validate_request_update(new: &Value, old: &Value, setting: CsrStatusField) -> FieldErrors {
    let mut errs = validate_request(new);
    errs.extend(meta::validate_create(&new["metadata"], false, NamePolicy::PathSegment));
    let path = Path::new("status.conditions");
    let conditions = |request: &Value, kind: &str| -> Vec<Value> {
        let all = items(&request["status"]["conditions"]).iter();
        all.filter(|condition| text(&condition["type"]) == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        let (now, was) = (conditions(new, kind), conditions(old, kind));
        let decided = kind != "Failed"; // decisions come through `/approval`, which `access::csr` checks
        let verb = match now.len().cmp(&was.len()) {
            std::cmp::Ordering::Less => "remove",
            std::cmp::Ordering::Greater if decided => "add",
            std::cmp::Ordering::Equal if decided && now != was => "modify",
            _ => continue,
        };
        let words = format!("updates may not {verb} a condition of type {kind:?}");
        errs.push(FieldError::forbidden(&path, words));
    }
    let (now, was) = (&new["status"]["certificate"], &old["status"]["certificate"]);
    if text(now) != text(was) {
        let path = Path::new("status.certificate");
        if setting != CsrStatusField::Certificate {
            errs.push(FieldError::forbidden(&path, "updates may not set certificate content"));
        } else if !is_empty_value(was) {
            errs.push(FieldError::forbidden(&path, "updates may not modify existing certificate content"));
        }
        if let Some(why) = certificate_chain_error(text(now)) {
            errs.push(FieldError::invalid(&path, "<certificate data>", why));
        }
    }
    errs
}

/// Returns why a base64-encoded value is no chain of certificates; an empty value is valid.
fn certificate_chain_error(encoded: &str) -> Option<String> {
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    if pem.is_empty() {
        return None;
    }
    let mut certificates = 0;
    for block in x509_parser::pem::Pem::iter_from_buffer(&pem).map_while(Result::ok) {
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.parse_x509().is_err() {
            return Some("x509: malformed certificate".to_owned());
        }
        certificates += 1;
    }
    (certificates == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn validate_api_service(service: &Value) -> FieldErrors {
    let root = PathValue::root(service);
    let spec = root.get("spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    let mut errs = FieldErrors::new();
    let name = root.nested("metadata.name");
    let wanted = format!("{}.{}", version.text(), group.text());
    if name.text() != wanted && check::path_segment(name.text()).is_empty() {
        let words = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errs.push(FieldError::invalid(&name.path, name.text(), words));
    }
    if group.is_empty() {
        if version.text() != "v1" {
            let words = "only v1 may have an empty group and it better be legacy kube";
            errs.push(FieldError::required(&group.path, words));
        }
    } else {
        check::text(&group, check::dns_subdomain, &mut errs);
    }
    check::text(&version, check::dns_1035_label, &mut errs);
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let at = spec.get(field);
        if !(1..=most).contains(&at.int()) {
            let words = format!("must be positive and less than {most}");
            errs.push(FieldError::invalid(&at.path, at.int(), words));
        }
    }
    let (target, bundle, insecure) =
        (spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify"));
    if !target.exists() {
        if !bundle.is_empty() {
            let size = STANDARD.decode(bundle.text()).map_or(0, |bytes| bytes.len());
            let words = "local APIServices may not have a caBundle";
            errs.push(FieldError::invalid(&bundle.path, format!("{size} bytes"), words));
        }
        if insecure.bool_or_false() {
            let words = "local APIServices may not have insecureSkipTLSVerify";
            errs.push(FieldError::invalid(&insecure.path, true, words));
        }
        return errs;
    }
    check::required(&target.get("namespace"), &mut errs);
    check::required(&target.get("name"), &mut errs);
    let port = target.get("port");
    if !(1..=65_535).contains(&port.int()) {
        let words = format!("port is not valid: {}", check::between(1, 65_535));
        errs.push(FieldError::invalid(&port.path, port.int(), words));
    }
    if insecure.bool_or_false() && !bundle.is_empty() {
        let words = "may not be true if caBundle is present";
        errs.push(FieldError::invalid(&insecure.path, true, words));
    }
    errs
}

/// Device requests default to exactly one device.
fn default_devices(claim: &mut Value) {
    fn complete(request: &mut Map<String, Value>) {
        set_if_empty(request, "allocationMode", "ExactCount");
        if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount")
            && request.get("count").is_none_or(|count| count == 0)
        {
            request.insert("count".to_owned(), 1.into());
        }
        for toleration in request.get_mut("tolerations").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(fields) = toleration.as_object_mut() {
                set_if_empty(fields, "operator", "Equal");
            }
        }
    }
    let devices = claim.get_mut("spec").and_then(|spec| spec.get_mut("devices"));
    for request in devices.and_then(|devices| list_mut(devices, "requests")).into_iter().flatten() {
        if let Some(Value::Object(exactly)) = request.get_mut("exactly") {
            complete(exactly);
        }
        maps_mut(request, "firstAvailable").for_each(complete);
    }
}

fn validate_devices(devices: &PathValue) -> FieldErrors {
    const MAX_DEVICE_REQUESTS: usize = 32;
    let mut errs = FieldErrors::new();
    let requests = devices.get("requests");
    if requests.len() > MAX_DEVICE_REQUESTS {
        errs.push(FieldError::too_many(&requests.path, requests.len(), MAX_DEVICE_REQUESTS));
    }
    let mut names = HashSet::new();
    for request in requests.items() {
        let name = request.get("name");
        check::required_text(&name, check::dns_label, &mut errs);
        if names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&request.path, name.text()));
        }
        names.insert(name.text());
        let exactly = request.get("exactly");
        if exactly.exists() == request.has("firstAvailable") {
            let words = "exactly one of `exactly` or `firstAvailable` is required";
            errs.push(if exactly.exists() {
                FieldError::invalid(&request.path, Value::Null, words)
            } else {
                FieldError::required(&request.path, words)
            });
        } else if exactly.exists() {
            check::required_text(&exactly.get("deviceClassName"), check::dns_subdomain, &mut errs);
        }
    }
    errs
}

fn validate_immutable_spec(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain);
    if new["spec"] != old["spec"] {
        errs.push(FieldError::invalid(&Path::new("spec"), go_names(&new["spec"]), check::IMMUTABLE));
    }
    errs
}

fn validate_slice(slice: &Value) -> FieldErrors {
    const NODE_SELECTION_FIELDS: [&str; 4] =
        ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let root = PathValue::root(slice);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    check::required_text(&spec.get("driver"), check::dns_subdomain, &mut errs);
    check::required(&spec.nested("pool.name"), &mut errs);
    let generation = spec.nested("pool.generation");
    if generation.int() < 0 {
        let words = "must be greater than or equal to zero";
        errs.push(FieldError::invalid(&generation.path, generation.int(), words));
    }
    check::positive(&spec.nested("pool.resourceSliceCount"), &mut errs);
    let given: Vec<_> = NODE_SELECTION_FIELDS.iter().filter(|place| spec.has(place)).collect();
    let list = NODE_SELECTION_FIELDS.map(|place| format!("`{place}`")).join(", ");
    match given.len() {
        0 => errs.push(FieldError::required(&spec.path, format!("exactly one of {list} is required"))),
        1 => {}
        _ => {
            let words = format!("exactly one of {list} is required, but multiple fields are set");
            errs.push(FieldError::invalid(&spec.path, format!("{given:?}"), words));
        }
    }
    let mut names = HashSet::new();
    for device in spec.get("devices").items() {
        let name = device.get("name");
        check::required_text(&name, check::dns_label, &mut errs);
        if names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        names.insert(name.text());
    }
    errs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::error_messages;

    #[test]
    fn csr_decision_is_immutable() {
        let request = |conditions: Value| json!({"metadata": {"name": "c"}, "spec": {}, "status": {"conditions": conditions}});
        let approved = request(json!([{"type": "Approved", "status": "True"}]));
        let open = request(json!([]));
        let about_conditions = |errs: FieldErrors| {
            let about = errs.iter().filter(|e| e.path.as_str().starts_with("status.conditions"));
            about.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            about_conditions(validate_request_update(&approved, &open, CsrStatusField::Certificate)),
            ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
        );
        assert_eq!(
            about_conditions(validate_request_update(&open, &approved, CsrStatusField::Certificate)),
            ["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]
        );
    }

    #[test]
    fn api_service_name_is_version_and_group() {
        let service = json!({"metadata": {"name": "v1.a"}, "spec": {"group": "a.b", "version": "v1",
            "groupPriorityMinimum": 1, "versionPriority": 1}});
        assert_eq!(
            error_messages(&validate_api_service(&service)),
            ["metadata.name: Invalid value: \"v1.a\": must be `spec.version+\".\"+spec.group`: \"v1.a.b\""]
        );
    }

    #[test]
    fn device_request_count_defaults_to_one() {
        let mut claim = json!({"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}});
        default_devices(&mut claim);
        let exactly = json!({"allocationMode": "ExactCount", "count": 1});
        assert_eq!(claim["spec"]["devices"]["requests"][0]["exactly"], exactly);
    }
}
