//! Ingress and `IngressClass`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::ip;
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{items, members, set_if_absent, text};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy, meta};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "networking.k8s.io",
        kind: "Ingress",
        generation: GenerationPolicy::Content,
        prepare_for_create: |ingress| ingress["status"] = json!({"loadBalancer": {}}),
        validate: |ingress| {
            let root = PathValue::root(ingress);
            let mut errs = validate_spec(&root.get("spec"), None);
            let annotation = root.nested("metadata.annotations").get(CLASS_ANNOTATION);
            let class = root.nested("spec.ingressClassName");
            if annotation.exists() && class.exists() && annotation.text() != class.text() {
                // The path lacks `metadata` in Kubernetes.
                let path = Path::new("annotations").field(CLASS_ANNOTATION);
                let words = "must match `ingressClassName` when both are specified";
                errs.push(FieldError::invalid(&path, annotation.text(), words));
            }
            errs
        },
        validate_update: |new, old| {
            let mut errs = meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain);
            errs.extend(validate_spec(&PathValue::root(new).get("spec"), Some(old)));
            errs
        },
        validate_status: |new, old| {
            let known =
                items(&old["status"]["loadBalancer"]["ingress"]).iter().map(|point| text(&point["ip"]));
            let known: HashSet<_> = known.collect();
            let mut errs = FieldErrors::new();
            for point in PathValue::root(new).nested("status.loadBalancer.ingress").items() {
                let (address, host) = (point.get("ip"), point.get("hostname"));
                if !address.is_empty() {
                    ip::validate_legacy_ip(&address, &known, &mut errs);
                }
                if !host.is_empty() {
                    check::text(&host, check::dns_subdomain, &mut errs);
                    validate_not_ip(&host, &mut errs);
                }
            }
            errs
        },
        warnings: |ingress, old| {
            let annotated = ingress["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some();
            if old.is_some() || !annotated || !ingress["spec"]["ingressClassName"].is_null() {
                return Vec::new();
            }
            vec![format!(
                "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
            )]
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "networking.k8s.io",
        kind: "IngressClass",
        generation: GenerationPolicy::Content,
        default: |class| {
            if let Some(Value::Object(parameters)) = members(class, "spec").get_mut("parameters") {
                set_if_absent(parameters, "scope", "Cluster");
            }
        },
        validate: |class| validate_class_spec(&PathValue::root(class).get("spec")),
        validate_update: |new, old| {
            let mut errs = FieldErrors::new();
            let (now, was) = (PathValue::root(new), PathValue::root(old));
            check::immutable(&now.nested("spec.controller"), &was.nested("spec.controller"), &mut errs);
            errs.extend(meta::validate_create(&new["metadata"], false, NamePolicy::Subdomain));
            errs.extend(validate_class_spec(&now.get("spec")));
            errs
        },
        ..DEFAULT_RULES
    },
];

fn validate_not_ip(host: &PathValue, errs: &mut FieldErrors) {
    if ip::parse(host.text()).is_some() {
        let words = "must be a DNS name, not an IP address";
        errs.push(FieldError::invalid(&host.path, host.text(), words));
    }
}

/// A host name, whose first label may be `*`.
fn validate_host(host: &PathValue, errs: &mut FieldErrors) {
    let wildcard = host.text().contains('*');
    check::text(host, if wildcard { check::dns_wildcard } else { check::dns_subdomain }, errs);
}

fn validate_spec(spec: &PathValue, old: Option<&Value>) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (rules, backend_at) = (spec.get("rules"), spec.get("defaultBackend"));
    if rules.is_empty() && !backend_at.exists() {
        let words = "either `defaultBackend` or `rules` must be specified";
        errs.push(FieldError::invalid(&spec.path, rules.to_json(), words));
    }
    if backend_at.exists() {
        validate_backend(&backend_at, &mut errs);
    }
    // Values that older versions accepted must not block other changes.
    let lax = old.is_some_and(|old| {
        let rules = PathValue::root(old);
        rules.nested("spec.rules").items().any(|rule| {
            let mut errs = FieldErrors::new();
            validate_http(&rule.get("http"), &mut errs);
            rule.get("host").text().contains('*') && !errs.is_empty()
        })
    });
    for rule in rules.items() {
        let name = rule.get("host");
        if !name.is_empty() {
            validate_not_ip(&name, &mut errs);
            validate_host(&name, &mut errs);
        }
        if !(lax && name.text().contains('*')) {
            validate_http(&rule.get("http"), &mut errs);
        }
    }
    let bad_secret = |name: &str| !name.is_empty() && !check::dns_subdomain(name).is_empty();
    let lax = old
        .is_some_and(|old| items(&old["spec"]["tls"]).iter().any(|tls| bad_secret(text(&tls["secretName"]))));
    for tls in spec.get("tls").items() {
        for name in tls.get("hosts").items() {
            validate_host(&name, &mut errs);
        }
        let secret = tls.get("secretName");
        if !secret.is_empty() && !lax {
            check::text(&secret, check::dns_subdomain, &mut errs);
        }
    }
    let class = spec.get("ingressClassName");
    if class.exists() {
        check::text(&class, check::dns_subdomain, &mut errs);
    }
    errs
}

fn validate_http(http: &PathValue, errs: &mut FieldErrors) {
    if !http.exists() {
        return;
    }
    let paths = http.get("paths");
    check::required(&paths, errs);
    for path in paths.items() {
        validate_http_path(&path, errs);
    }
}

fn validate_http_path(path: &PathValue, errs: &mut FieldErrors) {
    let (kind, text) = (path.get("pathType"), path.get("path"));
    if !kind.exists() {
        errs.push(FieldError::required(&kind.path, "pathType must be specified"));
        return;
    }
    let mut refuse = |words: String| errs.push(FieldError::invalid(&text.path, text.text(), words));
    let absolute = text.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.text().contains(part) {
                    refuse(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.text().ends_with(end) {
                    refuse(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !absolute && !text.is_empty() => {
            refuse("must be an absolute path".to_owned());
        }
        "ImplementationSpecific" => {}
        _ => check::one_of(&kind, &["Exact", "ImplementationSpecific", "Prefix"], errs),
    }
    validate_backend(&path.get("backend"), errs);
}

fn validate_backend(backend: &PathValue, errs: &mut FieldErrors) {
    let (resource, service) = (backend.get("resource"), backend.get("service"));
    let mut refuse = |words: &str| errs.push(FieldError::invalid(&backend.path, "", words));
    match (resource.exists(), service.exists()) {
        (true, true) => refuse("cannot set both resource and service backends"),
        (false, false) => refuse("resource or service backend is required"),
        (true, false) => validate_reference(&resource, errs),
        (false, true) => {
            check::required_text(&service.get("name"), check::dns_label, errs);
            let port = service.get("port");
            let (name, number) = (port.get("name"), port.get("number"));
            match (name.is_empty(), number.int()) {
                (true, 0) => {
                    errs.push(FieldError::required(&backend.path, "port name or number is required"));
                }
                (true, _) => check::port_number(&number, errs),
                (false, 0) => check::text(&name, check::port_name, errs),
                (false, _) => errs.push(FieldError::invalid(
                    &backend.path,
                    "",
                    "cannot set both port name & port number",
                )),
            }
        }
    }
}

/// A reference to an object by group, kind and name.
fn validate_reference(at: &PathValue, errs: &mut FieldErrors) {
    let group = at.get("apiGroup");
    if group.exists() {
        check::text(&group, check::dns_subdomain, errs);
    }
    check::required_text(&at.get("kind"), check::path_segment, errs);
    check::required_text(&at.get("name"), check::path_segment, errs);
}

fn validate_class_spec(spec: &PathValue) -> FieldErrors {
    const MAX_CONTROLLER_LEN: usize = 250;
    let mut errs = FieldErrors::new();
    let controller = spec.get("controller");
    if controller.len() > MAX_CONTROLLER_LEN {
        errs.push(FieldError::too_long(&controller.path, MAX_CONTROLLER_LEN));
    }
    validate_domain_path(&controller, &mut errs);
    let parameters = spec.get("parameters");
    if !parameters.exists() {
        return errs;
    }
    validate_reference(&parameters, &mut errs);
    let (scope, namespace) = (parameters.get("scope"), parameters.get("namespace"));
    match scope.text() {
        "" if !scope.exists() => errs.push(FieldError::required(&scope.path, "")),
        "Namespace" if namespace.exists() => check::text(&namespace, check::dns_label, &mut errs),
        "Namespace" => {
            errs.push(FieldError::required(&namespace.path, "`parameters.scope` is set to 'Namespace'"));
        }
        "Cluster" if namespace.exists() => {
            errs.push(FieldError::forbidden(&namespace.path, "`parameters.scope` is set to 'Cluster'"));
        }
        "Cluster" => {}
        _ => check::one_of(&scope, &["Cluster", "Namespace"], &mut errs),
    }
    errs
}

/// A domain-prefixed path: `example.com/controller`.
fn validate_domain_path(at: &PathValue, errs: &mut FieldErrors) {
    let text = at.text();
    if text.is_empty() {
        errs.push(FieldError::required(&at.path, ""));
        return;
    }
    let Some((domain, path)) =
        text.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let words = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errs.push(FieldError::invalid(&at.path, text, words));
        return;
    };
    let words = check::dns_subdomain(domain).into_iter();
    errs.extend(words.map(|words| FieldError::invalid(&at.path, domain, words)));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/.%:_+-~!$&'()*,;=".contains(&b);
    if !path.bytes().all(allowed) {
        let words = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errs.push(FieldError::invalid(&at.path, path, words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingress_validation_errors() {
        let table = [
            (json!({}), "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
            (
                json!({"defaultBackend": {}}),
                "spec.defaultBackend: Invalid value: \"\": resource or service backend is required",
            ),
            (
                json!({"rules": [{"host": "1.2.3.4"}]}),
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            ),
            (
                json!({"rules": [{"http": {"paths": [{"path": "a/../b", "pathType": "Exact", "backend":
                    {"service": {"name": "s", "port": {}}}}]}}]}),
                "spec.rules[0].http.paths[0].path: Invalid value: \"a/../b\": must be an absolute path\nspec.rules[0].http.paths[0].path: Invalid value: \"a/../b\": must not contain '/../'\nspec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ),
        ];
        for (given, expected) in table {
            let errs = validate_spec(&PathValue { value: Some(&given), path: Path::new("spec") }, None);
            assert_eq!(errs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
        }
    }
}
