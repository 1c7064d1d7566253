//! Liveness and readiness probes.
//!
//! `/healthz` reports that the process answers. `/readyz` reports that requests can be served: every required component registers
//! a check by name, and one failing check makes the response 503.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::Api;

type ReadinessCheck = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks that decide readiness, by name.
#[derive(Clone, Default)]
pub struct ReadinessChecks {
    checks: Arc<Mutex<BTreeMap<&'static str, ReadinessCheck>>>,
}

impl ReadinessChecks {
    /// Adds a check. It must not block, and describes the failure in its error.
    pub fn add_check(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(check));
    }

    /// Runs every check.
    pub fn run(&self) -> Vec<(&'static str, Result<(), String>)> {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        checks.into_iter().map(|(name, check)| (name, check())).collect()
    }
}

/// `GET /healthz`
pub async fn healthz() -> &'static str {
    "ok"
}

/// `GET /readyz`
pub async fn readyz(State(api): State<Api>) -> Response {
    let report = api.readiness.run();
    let is_ready = report.iter().all(|(_, found)| found.is_ok());
    if is_ready {
        return "ok".into_response();
    }
    let mut body = String::new();
    for (name, found) in report {
        let line = match found {
            Ok(()) => format!("[+]{name} ok"),
            Err(why) => format!("[-]{name} failed: {why}"),
        };
        writeln!(body, "{line}").expect("writing to a String cannot fail");
    }
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_reports_failing_check_by_name() {
        let readiness = ReadinessChecks::default();
        readiness.add_check("store", || Ok(()));
        readiness.add_check("cluster", || Err("no answer".to_owned()));
        assert_eq!(readiness.run(), [("cluster", Err("no answer".to_owned())), ("store", Ok(()))]);
    }
}
