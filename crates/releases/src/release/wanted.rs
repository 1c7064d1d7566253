//! The desired release: chart, values, and the parts of the spec that change the result.

use std::sync::Arc;

use chart_store::Reader;
use domain::Kind;
use domain::actor::Impersonation;
use helm_release::render::ReservedBytes;
use helm_release::render::share::WorkError;
use helm_template::data::Members;
use kube_types::release::{Options, Patch, RoleOverride};
use kube_types::{HelmReleaseSpec, SYSTEM_NAMESPACE};
use serde::Serialize;

use super::identity::Identity;
use super::{EXHAUSTED, Pass, failure};
use crate::charts::{self, Chart};
use crate::lead::Controller;
use crate::tell::Failure;
use crate::values::work::{ResolvedValues, ValuesPool, resolve};
use crate::values::{GatherError, InNamespace, Layers, Sensitive, Texts};

/// All inputs of an operation.
pub(crate) struct Wanted {
    pub chart: Chart,
    pub values: Arc<Members>,
    /// MD5 of the values.
    pub hash: String,
    pub spec_hash: String,
    /// Values that messages must not reveal.
    pub sensitive: Sensitive,
    /// The reservation for the values and the sensitive values.
    #[expect(dead_code, reason = "returns the bytes when it is dropped")]
    pub held: ReservedBytes,
}

/// The parts of the spec, besides chart and values, that make a new deployment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Different<'a> {
    options: Deployable<'a>,
    patches: &'a [Patch],
    roles: &'a [RoleOverride],
    paused: bool,
}

/// The options that change what is deployed. Timeouts and history limits make no new revision.
#[derive(Serialize)]
struct Deployable<'a> {
    skip_crds: bool,
    disable_hooks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<&'a str>,
}

impl Controller {
    /// Fetches the chart, and fetches and merges the values with the identity of the release.
    pub(crate) async fn wanted(&self, pass: &Pass<'_>, identity: &Identity) -> Result<Wanted, Failure> {
        let spec = &pass.release.spec;
        let pool = self.helm.values_pool(&pass.key.namespace);
        let (chart, (texts, fetched)) = futures::try_join!(
            self.chart(&pass.key.namespace, spec),
            self.fetch(&pool, &pass.key.namespace, spec, &identity.acts_as),
        )?;
        let options = serde_json::to_value(different(spec)).expect("options are plain data");
        let (ready, digest) = (chart.ready.clone(), chart.resolved.digest.clone());
        let judged = pool.merge(texts, move |gathered, admission| {
            resolve(ready.chart(), &digest, &options, gathered, admission)
        });
        let ResolvedValues { values, hash, spec_hash, sensitive, bytes } =
            judged.await.map_err(|error| not_gathered(&error))?;
        let held = pool.hold(bytes).map_err(|error| not_gathered(&error.into()))?;
        drop(fetched);
        Ok(Wanted { chart, values, hash, spec_hash, sensitive, held })
    }

    async fn chart(&self, namespace: &str, spec: &HelmReleaseSpec) -> Result<Chart, Failure> {
        let Some(source) = charts::source(spec) else {
            let message = "charts of the application store cannot be had yet: name a source";
            return Err(failure(Kind::Unsupported, "Unsupported", message));
        };
        let reader = match (&spec.request_ref, self.people.workspace_of(namespace)) {
            (None, Some(workspace)) => Reader::Workspace(workspace.to_string()),
            (Some(_), Some(workspace)) => Reader::PlatformFor(workspace.to_string()),
            _ => Reader::Platform,
        };
        let chart = self.charts.get(&source, &reader).await;
        let chart = chart.map_err(|error| failure(error.kind(), "ChartNotFound", error.to_string()))?;
        let (wanted, found) = (&spec.chart_name, &chart.resolved.name);
        if !wanted.is_empty() && wanted != found {
            let message = format!("the source has the chart `{found}` in it, and not `{wanted}`");
            return Err(failure(Kind::Invalid, "OtherChart", message));
        }
        Ok(chart)
    }

    async fn fetch(
        &self,
        pool: &ValuesPool,
        namespace: &str,
        spec: &HelmReleaseSpec,
        acts_as: &Impersonation,
    ) -> Result<(Texts, ReservedBytes), Failure> {
        let theirs = InNamespace { client: self.clients.acting_as(acts_as), namespace: namespace.to_owned() };
        let ours = InNamespace { client: self.clients.own(), namespace: SYSTEM_NAMESPACE.to_owned() };
        let fetched = pool.fetch(&Layers::of(spec), &theirs, &ours).await;
        fetched.map_err(|error| not_gathered(&error))
    }
}

fn not_gathered(error: &GatherError) -> Failure {
    let (kind, reason) = match error {
        // Nothing announces when a missing reference appears, so it is retried.
        GatherError::Values(error) if error.kind() == Kind::NotFound => (Kind::Unavailable, "BadValues"),
        GatherError::Values(error) => (error.kind(), "BadValues"),
        GatherError::Work(WorkError::Rejected(_)) => (Kind::Exhausted, EXHAUSTED),
        GatherError::Work(WorkError::DeadlineExceeded(_) | WorkError::Interrupted(_)) => {
            (Kind::Timeout, "TimedOut")
        }
        GatherError::Work(WorkError::Panicked) | GatherError::Stopped(_) => (Kind::Internal, "BadValues"),
    };
    failure(kind, reason, error.to_string())
}

fn different(spec: &HelmReleaseSpec) -> Different<'_> {
    let Options { skip_crds, disable_hooks, .. } = spec.options;
    Different {
        options: Deployable {
            skip_crds,
            disable_hooks,
            service_account: spec.service_account_name.as_deref(),
        },
        patches: &spec.patches,
        roles: &spec.roles,
        paused: spec.paused,
    }
}
