//! The desired release: chart, values, and the parts of the spec that change the result.

use std::sync::Arc;

use chart_store::{ChartError, ChartReader};
use domain::ErrorKind;
use domain::actor::Impersonation;
use helm_release::render::ReservedBytes;
use helm_release::render::share::WorkError;
use helm_template::data::Members;
use kube_types::release::{ManifestPatch, ReleaseOptions, RoleOverride};
use kube_types::{HelmReleaseSpec, SYSTEM_NAMESPACE};
use serde::Serialize;

use super::identity::ReleaseIdentity;
use super::{EXHAUSTED_REASON, ReleaseContext, status_failure};
use crate::charts::{self, ReleaseChart};
use crate::controller::ReleaseController;
use crate::status_update::StatusFailure;
use crate::values::pool::{ResolvedValues, ValuesPool, resolve_values};
use crate::values::{LoadValuesError, NamespaceReader, SensitiveValues, ValuesSources, ValuesTexts};

/// All inputs of an operation.
pub(crate) struct DesiredRelease {
    pub chart: ReleaseChart,
    pub values: Arc<Members>,
    /// MD5 of the values.
    pub hash: String,
    pub spec_hash: String,
    /// Values that messages must not reveal.
    pub sensitive: SensitiveValues,
    /// The reservation for the values and the sensitive values.
    #[expect(dead_code, reason = "returns the bytes when it is dropped")]
    pub reservation: ReservedBytes,
}

/// The parts of the spec, besides chart and values, that make a new deployment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpecHashInput<'a> {
    options: HashedOptions<'a>,
    patches: &'a [ManifestPatch],
    roles: &'a [RoleOverride],
    paused: bool,
}

/// The options that change the deployed objects. Timeouts and history limits create no new revision.
#[derive(Serialize)]
struct HashedOptions<'a> {
    skip_crds: bool,
    disable_hooks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<&'a str>,
}

impl ReleaseController {
    /// Fetches the chart, and fetches and merges the values with the identity of the release.
    pub(crate) async fn desired_release(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
    ) -> Result<DesiredRelease, StatusFailure> {
        let spec = &pass.release.spec;
        let pool = self.helm_factory.values_pool(&pass.key.namespace);
        let (chart, (texts, fetched)) = futures::try_join!(
            self.resolve_chart(&pass.key.namespace, spec),
            self.fetch_values(&pool, &pass.key.namespace, spec, &identity.impersonation),
        )?;
        let options = serde_json::to_value(spec_hash_input(spec)).expect("options are plain data");
        let (ready, digest) = (chart.prepared.clone(), chart.resolved.digest.clone());
        let judged = pool.merge(texts, move |gathered, admission| {
            resolve_values(ready.chart(), &digest, &options, gathered, admission)
        });
        let ResolvedValues { values, hash, spec_hash, sensitive, bytes } =
            judged.await.map_err(|error| values_failure(&error))?;
        let held = pool.reserve_operation(bytes).map_err(|error| values_failure(&error.into()))?;
        drop(fetched);
        Ok(DesiredRelease { chart, values, hash, spec_hash, sensitive, reservation: held })
    }

    async fn resolve_chart(
        &self,
        namespace: &str,
        spec: &HelmReleaseSpec,
    ) -> Result<ReleaseChart, StatusFailure> {
        let Some(source) = charts::chart_source(spec) else {
            let message = "charts of the application store are not supported yet: set spec.source";
            return Err(status_failure(ErrorKind::Unsupported, "Unsupported", message));
        };
        let reader = match (&spec.request_ref, self.tenants.workspace_of(namespace)) {
            (None, Some(workspace)) => ChartReader::Workspace(workspace.to_string()),
            (Some(_), Some(workspace)) => ChartReader::PlatformFor(workspace.to_string()),
            _ => ChartReader::Platform,
        };
        let chart = self.charts.get(&source, &reader).await;
        let chart = chart.map_err(|error| chart_failure(&error))?;
        let (wanted, found) = (&spec.chart_name, &chart.resolved.name);
        if !wanted.is_empty() && wanted != found {
            let message = format!("the source contains chart `{found}`, expected `{wanted}`");
            return Err(status_failure(ErrorKind::Invalid, "OtherChart", message));
        }
        Ok(chart)
    }

    async fn fetch_values(
        &self,
        pool: &ValuesPool,
        namespace: &str,
        spec: &HelmReleaseSpec,
        acts_as: &Impersonation,
    ) -> Result<(ValuesTexts, ReservedBytes), StatusFailure> {
        let theirs =
            NamespaceReader { client: self.clients.impersonating(acts_as), namespace: namespace.to_owned() };
        let ours =
            NamespaceReader { client: self.clients.platform(), namespace: SYSTEM_NAMESPACE.to_owned() };
        let fetched = pool.fetch(&ValuesSources::from_spec(spec), &theirs, &ours).await;
        fetched.map_err(|error| values_failure(&error))
    }
}

fn chart_failure(error: &ChartError) -> StatusFailure {
    let reason = match error {
        // Memory and slots are released when other work ends. A quota needs a change by a user.
        ChartError::Work(WorkError::Rejected(_)) => EXHAUSTED_REASON,
        _ => "ChartNotFound",
    };
    status_failure(error.kind(), reason, error.to_string())
}

fn values_failure(error: &LoadValuesError) -> StatusFailure {
    let (kind, reason) = match error {
        // Nothing announces when a missing reference appears, so it is retried.
        LoadValuesError::Values(error) if error.kind() == ErrorKind::NotFound => {
            (ErrorKind::Unavailable, "BadValues")
        }
        LoadValuesError::Values(error) => (error.kind(), "BadValues"),
        LoadValuesError::Work(WorkError::Rejected(_)) => (ErrorKind::Exhausted, EXHAUSTED_REASON),
        LoadValuesError::Work(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => {
            (ErrorKind::Timeout, "TimedOut")
        }
        LoadValuesError::Work(WorkError::Panicked) | LoadValuesError::Stopped(_) => {
            (ErrorKind::Internal, "BadValues")
        }
    };
    status_failure(kind, reason, error.to_string())
}

fn spec_hash_input(spec: &HelmReleaseSpec) -> SpecHashInput<'_> {
    let ReleaseOptions { skip_crds, disable_hooks, .. } = spec.options;
    SpecHashInput {
        options: HashedOptions {
            skip_crds,
            disable_hooks,
            service_account: spec.service_account_name.as_deref(),
        },
        patches: &spec.patches,
        roles: &spec.roles,
        paused: spec.paused,
    }
}

#[cfg(test)]
mod tests {
    use helm_release::render::operations::OperationBudget;

    use super::*;

    #[test]
    fn chart_over_a_work_budget_waits_and_one_over_a_quota_fails() {
        let rejected = OperationBudget::default().reserve("shop", u64::MAX).err().unwrap();
        let rejected = chart_failure(&ChartError::from(rejected));
        assert_eq!((rejected.kind, rejected.reason), (ErrorKind::Exhausted, EXHAUSTED_REASON));
        assert!(rejected.message.contains("is over its budget (limit "), "{}", rejected.message);
        let quota = chart_failure(&ChartError::StoreFull { wanted: 2, limit: 1 });
        assert_eq!((quota.kind, quota.reason), (ErrorKind::Exhausted, "ChartNotFound"));
    }
}
