//! What a release wants: a chart, values, and what is to be different in what comes of them.

use std::sync::Arc;

use chart_store::Reader;
use domain::Kind;
use domain::actor::Impersonation;
use helm_template::data::Members;
use kube_types::release::{Options, Patch, RoleOverride};
use kube_types::{HelmReleaseSpec, SYSTEM_NAMESPACE};
use serde::Serialize;

use super::identity::Identity;
use super::{Pass, failure};
use crate::charts::{self, Chart};
use crate::lead::Controller;
use crate::tell::Failure;
use crate::values::{self, InNamespace, Layers, Sensitive};

/// All that an operation needs.
pub(crate) struct Wanted {
    pub chart: Chart,
    pub values: Arc<Members>,
    /// md5 of the values.
    pub hash: String,
    pub spec_hash: String,
    /// What nobody may read in a message.
    pub sensitive: Sensitive,
}

/// What of a spec makes another deployment, beside chart and values.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Different<'a> {
    options: Deployable<'a>,
    patches: &'a [Patch],
    roles: &'a [RoleOverride],
    paused: bool,
}

/// Of the options, those that change what is deployed. How long one waits and how much is kept makes no new revision.
#[derive(Serialize)]
struct Deployable<'a> {
    skip_crds: bool,
    disable_hooks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<&'a str>,
}

impl Controller {
    /// Fetches the chart and gathers the values, each as whoever the release acts as.
    pub(crate) async fn wanted(&self, pass: &Pass<'_>, identity: &Identity) -> Result<Wanted, Failure> {
        let spec = &pass.release.spec;
        let (chart, gathered) = futures::try_join!(
            self.chart(&pass.key.namespace, spec),
            self.gather(&pass.key.namespace, spec, &identity.acts_as),
        )?;
        let spec_hash = values::spec_hash(&chart.resolved.digest, &gathered.values, &different(spec));
        let sensitive = Sensitive::of(chart.ready.chart(), &gathered, &[]);
        Ok(Wanted { chart, hash: gathered.hash, spec_hash, sensitive, values: Arc::new(gathered.values) })
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

    async fn gather(
        &self,
        namespace: &str,
        spec: &HelmReleaseSpec,
        acts_as: &Impersonation,
    ) -> Result<values::Gathered, Failure> {
        let theirs = InNamespace { client: self.clients.acting_as(acts_as), namespace: namespace.to_owned() };
        let ours = InNamespace { client: self.clients.own(), namespace: SYSTEM_NAMESPACE.to_owned() };
        let gathered = values::gather(&Layers::of(spec), &theirs, &ours).await;
        gathered.map_err(|error| {
            // Whoever brings what is referred to tells nobody: it is looked for again.
            let kind = if error.kind() == Kind::NotFound { Kind::Unavailable } else { error.kind() };
            failure(kind, "BadValues", error.to_string())
        })
    }
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
