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

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks that decide readiness, by name.
#[derive(Clone, Default)]
pub struct Readiness {
    checks: Arc<Mutex<BTreeMap<&'static str, Check>>>,
}

impl Readiness {
    /// Adds a check. It must not block, and describes the failure in its error.
    pub fn require(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(check));
    }

    /// Runs every check.
    pub fn report(&self) -> Vec<(&'static str, Result<(), String>)> {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        checks.into_iter().map(|(name, check)| (name, check())).collect()
    }
}

/// `GET /healthz`
pub async fn alive() -> &'static str {
    "ok"
}

/// `GET /readyz`
pub async fn ready(State(api): State<Api>) -> Response {
    let report = api.readiness.report();
    let well = report.iter().all(|(_, found)| found.is_ok());
    if well {
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
    fn one_failing_check_is_named() {
        let readiness = Readiness::default();
        readiness.require("store", || Ok(()));
        readiness.require("cluster", || Err("no answer".to_owned()));
        assert_eq!(readiness.report(), [("cluster", Err("no answer".to_owned())), ("store", Ok(()))]);
    }
}
