//! Validation of `spec.conversion`.

use std::collections::HashSet;

use serde_json::Value;

use super::label_errors;
use crate::field::{FieldError, FieldErrors, Path};

pub fn check(spec: &Value) -> FieldErrors {
    let conversion = &spec["conversion"];
    if !conversion.is_object() {
        return FieldErrors::new();
    }
    let mut errors = FieldErrors::new();
    let path = Path::new("spec.conversion");
    let strategy = conversion["strategy"].as_str().unwrap_or_default();
    match strategy {
        "" => errors.push(FieldError::required(&path.field("strategy"), "")),
        "None" | "Webhook" => {}
        other => {
            errors.push(FieldError::unsupported(&path.field("strategy"), other, &["None", "Webhook"]));
        }
    }
    let webhook = &conversion["webhook"];
    let client = &webhook["clientConfig"];
    let config = path.field("webhookClientConfig");
    let reviews = path.field("conversionReviewVersions");
    let versions = webhook["conversionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if strategy != "Webhook" {
        let forbidden = "should not be set when strategy is not set to Webhook";
        if client.is_object() {
            errors.push(FieldError::forbidden(&config, forbidden));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&reviews, forbidden));
        }
        return errors;
    }
    if spec["preserveUnknownFields"] == true {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&path.field("strategy"), strategy, detail));
    }
    if !client.is_object() {
        errors.push(FieldError::required(&config, "required when strategy is set to Webhook"));
    } else if client["url"].is_null() == client["service"].is_null() {
        errors.push(FieldError::required(&config, "exactly one of url or service is required"));
    } else if let Some(url) = client["url"].as_str() {
        errors.extend(url_error(url, &config.field("url")));
    } else {
        errors.extend(validate_service(&client["service"], &config.field("service")));
    }
    if versions.is_empty() {
        errors.push(FieldError::required(&reviews, ""));
        return errors;
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if !seen.insert(version) {
            errors.push(FieldError::invalid(&reviews.index(at), text, "duplicate version"));
            continue;
        }
        for complaint in label_errors(text) {
            errors.push(FieldError::invalid(&reviews.index(at), text, complaint));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(&reviews, versions.to_vec(), detail));
    }
    errors
}

fn url_error(url: &str, path: &Path) -> Option<FieldError> {
    let form = "; desired format: https://host[/path]";
    let Some((scheme, rest)) = url.split_once("://") else {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        return Some(FieldError::invalid(path, "", detail));
    };
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        return Some(FieldError::invalid(path, scheme, detail));
    }
    if rest.is_empty() || rest.starts_with('/') {
        return Some(FieldError::invalid(path, "", format!("host must be specified{form}")));
    }
    None
}

fn validate_service(service: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, words) in [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if service[key].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&path.field(key), words));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(&path.field("port"), port, detail));
    }
    if let Some(url) = service["path"].as_str()
        && !url.starts_with('/')
    {
        errors.push(FieldError::invalid(&path.field("path"), url, "must start with a '/'"));
    }
    errors
}
