//! Probes and lifecycle hooks.

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};

const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// The three probes of a container.
pub fn validate_probes(container: &PathValue, grace: Option<i64>, errs: &mut FieldErrors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !probe.exists() {
            continue;
        }
        validate_handler(&probe, grace, errs);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            check::not_negative(&probe.get(field), errs);
        }
        let own_grace = probe.get("terminationGracePeriodSeconds");
        if own_grace.number().is_some_and(|seconds| seconds <= 0) {
            errs.push(FieldError::invalid(&own_grace.path, own_grace.int(), "must be greater than 0"));
        }
        if name == "readinessProbe" {
            if own_grace.exists() {
                let words = "must not be set for readinessProbes";
                errs.push(FieldError::invalid(&own_grace.path, own_grace.to_json(), words));
            }
        } else if probe.get("successThreshold").int() != 1 {
            let threshold = probe.get("successThreshold");
            errs.push(FieldError::invalid(&threshold.path, threshold.int(), "must be 1"));
        }
    }
}

pub fn validate_lifecycle(lifecycle: &PathValue, grace: Option<i64>, errs: &mut FieldErrors) {
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.get(name);
        if hook.exists() {
            validate_handler(&hook, grace, errs);
        }
    }
}

/// Exactly one handler, and a valid one.
fn validate_handler(at: &PathValue, grace: Option<i64>, errs: &mut FieldErrors) {
    let mut given = HANDLERS.iter().map(|name| (*name, at.get(name))).filter(|(_, handler)| handler.exists());
    let Some((name, first)) = given.next() else {
        errs.push(FieldError::required(&at.path, "must specify a handler type"));
        return;
    };
    match name {
        "exec" => check::required(&first.get("command"), errs),
        "httpGet" => validate_http_get(&first, errs),
        "tcpSocket" | "grpc" => check::port(&first.get("port"), errs),
        _ => {
            let seconds = first.get("seconds").int();
            if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                let words =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errs.push(FieldError::invalid(&first.path, seconds, words));
            }
        }
    }
    for (_, other) in given {
        errs.push(FieldError::forbidden(&other.path, "may not specify more than 1 handler type"));
    }
}

fn validate_http_get(at: &PathValue, errs: &mut FieldErrors) {
    check::required(&at.get("path"), errs);
    check::port(&at.get("port"), errs);
    check::one_of(&at.get("scheme"), &["HTTP", "HTTPS"], errs);
    let headers = at.get("httpHeaders");
    for header in headers.items() {
        check::text(&header.get("name").with_path(headers.path.clone()), check::http_header_name, errs);
    }
}
