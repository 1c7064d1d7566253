//! Install: creates the request for a new release.

use std::collections::BTreeMap;

use chart_store::{Reader, Source};
use domain::Actor;
use domain::roles::Capability;
use helm_engine::names;
use helm_template::profile::Profile;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube_types::marks::{MANAGED_BY, REQUEST_FINALIZER, WORKSPACE};
use kube_types::release::{DriftDetection, Options, Patch, Remediation, RoleOverride, Source as Said};
use kube_types::request::RunAs;
use kube_types::{FIELD_MANAGER, HelmRequest, HelmRequestSpec};

use super::versions::request_name;
use super::view::ReleaseView;
use super::{Error, HOST, grant, once, run_as};
use crate::Releases;
use crate::charts::Chart;
use crate::people::{account_label, workspace_annotation};

/// The first version of a request.
const FIRST: i64 = 1;

/// Input of an installation.
#[derive(Clone, Debug, Default)]
pub struct NewRelease {
    pub namespace: String,
    pub name: String,
    /// YAML text.
    pub values: String,
    pub options: Options,
    pub remediation: Option<Remediation>,
    pub drift_detection: Option<DriftDetection>,
    pub patches: Vec<Patch>,
    pub roles: Vec<RoleOverride>,
    pub paused: bool,
    pub description: String,
    /// The caller's idempotency key, if any.
    pub key: Option<String>,
    /// Uses the caller's rights as an administrator of the platform.
    pub as_administrator: bool,
}

impl Releases {
    /// Creates the request for a release of the chart at `source`. The controllers deploy it.
    pub async fn install(
        &self,
        actor: &Actor,
        source: &Source,
        wanted: NewRelease,
    ) -> Result<ReleaseView, Error> {
        self.install_as(actor, source, wanted, run_as(actor)?).await
    }

    /// Like [`Releases::install`], with the identity `run_as`.
    pub(super) async fn install_as(
        &self,
        actor: &Actor,
        source: &Source,
        wanted: NewRelease,
        run_as: RunAs,
    ) -> Result<ReleaseView, Error> {
        let NewRelease {
            namespace,
            name,
            values,
            options,
            remediation,
            drift_detection,
            patches,
            roles,
            paused,
            description,
            key,
            as_administrator,
        } = wanted;
        let as_administrator = if as_administrator { Some(grant(actor, FIRST)?) } else { None };
        let (namespace, name, values) = (&namespace, &name, &values);
        let workspace = self.workspace(actor, Capability::ChangeReleases, namespace)?;
        names::check(name).map_err(Error::Invalid)?;
        is_map(values)?;
        self.allowed(actor, "create", namespace, name).await?;
        let request = request_name(HOST, namespace, name);
        let mark = key.map(|key| once::mark(actor, "install", &key));
        if mark.is_some()
            && let Some(made) = self.requests().get_opt(&request).await?
            && once::was_done(&made, mark.as_ref())
        {
            return Ok(ReleaseView::of_request(&made));
        }
        if self.parts().releases.get_in(namespace, name).is_some() {
            return Err(Error::Exists(name.clone()));
        }
        self.check_stays(workspace.as_str()).await?;
        self.check_requests(&workspace).await?;
        let reader = Reader::Workspace(workspace.to_string());
        let chart = self.parts().charts.get(source, &reader).await?;
        let mut spec = HelmRequestSpec {
            release_name: name.clone(),
            workspace: workspace.to_string(),
            cluster: HOST.to_owned(),
            namespace: namespace.clone(),
            source: said(source, &chart),
            chart: chart.resolved,
            values_ref: None,
            version: FIRST,
            rollback_of: None,
            options,
            remediation,
            drift_detection,
            patches,
            roles,
            paused,
            run_as,
            as_administrator,
            suspend: false,
            deletion_policy: kube_types::release::DeletionPolicy::default(),
            description,
        };
        let kept = self.keep_version(&request, &spec, values).await?;
        spec.values_ref = Some(kept.clone());
        let labels: BTreeMap<String, String> = [
            (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
            (WORKSPACE.to_owned(), workspace.to_string()),
        ]
        .into_iter()
        .chain(account_label(&*self.parts().people, &workspace))
        .collect();
        let mut written = HelmRequest {
            metadata: ObjectMeta {
                name: Some(request.clone()),
                labels: Some(labels),
                annotations: workspace_annotation(&*self.parts().people, &workspace),
                finalizers: Some(vec![REQUEST_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        };
        once::remember(&mut written, mark.clone());
        match self.requests().create(&PostParams::default(), &written).await {
            Ok(request) => Ok(ReleaseView::of_request(&request)),
            Err(error) => {
                self.drop_version(&kept).await;
                match error {
                    kube::Error::Api(status) if status.is_already_exists() => {
                        // The same call was sent twice concurrently.
                        let made = self.requests().get_opt(&request).await?;
                        let made = made.filter(|made| once::was_done(made, mark.as_ref()));
                        made.map(|made| ReleaseView::of_request(&made))
                            .ok_or_else(|| Error::Exists(name.clone()))
                    }
                    other => Err(other.into()),
                }
            }
        }
    }
}

/// Checks that values are a YAML map or empty.
pub(super) fn is_map(text: &str) -> Result<(), Error> {
    let read = helm_chart::values::read(text.as_bytes(), Profile::Helm4);
    read.map(drop).map_err(|_| Error::Invalid("the values are no map of YAML".to_owned()))
}

/// The source as recorded in a request. An archive is recorded as the package that it was stored as.
pub(super) fn said(source: &Source, chart: &Chart) -> Said {
    match source {
        Source::Repo { repo, .. } => Said { repo: Some(repo.clone()), ..Said::default() },
        Source::Oci { reference, .. } => Said { oci: Some(reference.clone()), ..Said::default() },
        Source::Package(_) | Source::Archive(_) => {
            Said { package: Some(chart.resolved.package.clone()), ..Said::default() }
        }
    }
}
