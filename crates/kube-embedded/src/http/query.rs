//! Query parameters of a request, parsed once.
//!
//! Unknown parameters are ignored, as in Kubernetes; invalid values are refused by the verb that uses them.

use std::collections::HashSet;

use super::target::percent_decode;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};

#[derive(Clone, Debug, Default)]
pub struct Query {
    pub watch: bool,
    pub label_selector: String,
    pub field_selector: String,
    pub limit: i64,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub dry_run: Vec<String>,
    pub field_manager: String,
    pub field_validation: String,
    pub force: Option<bool>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub include_object: String,
    /// Errors in the options of a list or watch, and of a deletion. Only the verbs that use them return these errors.
    pub list_error: Option<ApiError>,
    pub deletion_error: Option<ApiError>,
    /// All parameters in order, for subresources with parameters of their own.
    pub parameters: Vec<(String, String)>,
}

impl Query {
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            query
                .parameters
                .push((percent_decode(key.as_bytes(), true), percent_decode(value.as_bytes(), true)));
        }
        let mut seen = HashSet::new();
        for (key, value) in query.parameters.clone() {
            // Only `dryRun` accepts several values; of all others the first counts.
            if key != "dryRun" && !seen.insert(key.clone()) {
                continue;
            }
            match key.as_str() {
                "watch" => query.watch = parse_bool(&value),
                "labelSelector" => query.label_selector = value,
                "fieldSelector" => query.field_selector = value,
                "limit" => match parse_number(&value) {
                    Ok(limit) => query.limit = limit,
                    Err(why) => query.list_error = Some(ApiError::bad_request(why)),
                },
                "continue" => query.continue_token = value,
                "resourceVersion" => query.resource_version = value,
                "resourceVersionMatch" => query.resource_version_match = value,
                "allowWatchBookmarks" => query.allow_bookmarks = parse_bool(&value),
                "sendInitialEvents" => query.send_initial_events = Some(parse_bool(&value)),
                "timeoutSeconds" => match parse_number(&value) {
                    Ok(seconds) => query.timeout_seconds = u64::try_from(seconds).ok(),
                    Err(why) => query.list_error = Some(ApiError::bad_request(why)),
                },
                "dryRun" => query.dry_run.push(value),
                "fieldManager" => query.field_manager = value,
                "fieldValidation" => query.field_validation = value,
                "force" => query.force = Some(parse_bool(&value)),
                "gracePeriodSeconds" => match parse_number(&value) {
                    Ok(seconds) => query.grace_period_seconds = Some(seconds),
                    Err(why) => query.deletion_error = Some(ApiError::bad_request(why)),
                },
                "propagationPolicy" => query.propagation_policy = Some(value),
                "orphanDependents" => query.orphan_dependents = Some(parse_bool(&value)),
                "includeObject" => query.include_object = value,
                _ => {}
            }
        }
        query
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Refuses invalid options of a write: `options` is the Kubernetes kind (`CreateOptions`).
    pub fn check_write(&self, options: &str, patch: Option<bool>) -> Result<()> {
        let mut errors = check_dry_run(&self.dry_run);
        match patch {
            Some(true) if self.field_manager.is_empty() => {
                errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            Some(false) if self.force.is_some() => {
                let why = "may not be specified for non-apply patch";
                errors.push(FieldError::forbidden(&Path::new("force"), why));
            }
            _ => {}
        }
        let manager = Path::new("fieldManager");
        if self.field_manager.len() > 128 {
            errors.push(FieldError::too_long(&manager, 128));
        }
        if let Some((at, bad)) = self.field_manager.char_indices().find(|(_, c)| !is_printable(*c)) {
            let why = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
            errors.push(FieldError::invalid(&manager, self.field_manager.as_str(), why));
        }
        if !matches!(self.field_validation.as_str(), "" | "Ignore" | "Warn" | "Strict") {
            let validation = Path::new("fieldValidation");
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::unsupported(&validation, self.field_validation.as_str(), &supported));
        }
        check_errors(options, &errors)
    }
}

/// Returns 422 if there are errors.
pub fn check_errors(options: &str, errors: &[FieldError]) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", options, "", errors)) }
}

/// Checks that every value is `All`, the only kind of dry run.
pub fn check_dry_run(values: &[String]) -> FieldErrors {
    if values.iter().all(|value| value == "All") {
        return FieldErrors::new();
    }
    FieldError::unsupported(&Path::new("dryRun"), values.to_vec(), &["All"]).into()
}

fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

/// Go's query conversion: everything but `false` and `0` is true.
pub(crate) fn parse_bool(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

pub(crate) fn parse_number(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| {
        let digits = value.trim_start_matches(['-', '+']);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let problem = if is_number { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {value:?}: {problem}")
    })
}
