//! Install: creates the request for a new release.

use std::collections::BTreeMap;

use chart_store::{ChartReader, ChartSource};
use domain::Actor;
use domain::roles::Capability;
use helm_engine::names;
use helm_template::profile::Profile;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube_types::release::{
    DriftDetection, ManifestPatch, ReleaseOptions, ReleaseSource as Said, Remediation, RoleOverride,
};
use kube_types::request::RunAs;
use kube_types::well_known::{MANAGED_BY, REQUEST_FINALIZER, WORKSPACE};
use kube_types::{FIELD_MANAGER, HelmRequest, HelmRequestSpec};

use super::versions::request_name;
use super::view::ReleaseView;
use super::{Error, HOST_CLUSTER, administrator_grant, idempotency, run_as};
use crate::Releases;
use crate::charts::ReleaseChart;
use crate::tenant_directory::{account_label, workspace_annotation};

/// The first version of a request.
const FIRST_VERSION: i64 = 1;

/// Input of an installation.
#[derive(Clone, Debug, Default)]
pub struct InstallRequest {
    pub namespace: String,
    pub name: String,
    /// YAML text.
    pub values: String,
    pub options: ReleaseOptions,
    pub remediation: Option<Remediation>,
    pub drift_detection: Option<DriftDetection>,
    pub patches: Vec<ManifestPatch>,
    pub roles: Vec<RoleOverride>,
    pub paused: bool,
    pub description: String,
    /// The caller's idempotency key, if any.
    pub idempotency_key: Option<String>,
    /// Uses the caller's rights as an administrator of the platform.
    pub as_administrator: bool,
}

impl Releases {
    /// Creates the request for a release of the chart at `source`. The controllers deploy it.
    pub async fn install(
        &self,
        actor: &Actor,
        source: &ChartSource,
        wanted: InstallRequest,
    ) -> Result<ReleaseView, Error> {
        self.install_as(actor, source, wanted, run_as(actor)?).await
    }

    /// Like [`Releases::install`], with the identity `run_as`.
    pub(super) async fn install_as(
        &self,
        actor: &Actor,
        source: &ChartSource,
        wanted: InstallRequest,
        run_as: RunAs,
    ) -> Result<ReleaseView, Error> {
        let InstallRequest {
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
            idempotency_key: key,
            as_administrator,
        } = wanted;
        let as_administrator =
            if as_administrator { Some(administrator_grant(actor, FIRST_VERSION)?) } else { None };
        let (namespace, name, values) = (&namespace, &name, &values);
        let workspace = self.authorized_workspace(actor, Capability::ChangeReleases, namespace)?;
        names::check(name).map_err(Error::Invalid)?;
        check_values_map(values)?;
        self.check_access(actor, "create", namespace, name).await?;
        let request = request_name(HOST_CLUSTER, namespace, name);
        let mark = key.map(|key| idempotency::idempotency_hash(actor, "install", &key));
        if mark.is_some()
            && let Some(made) = self.request_api().get_opt(&request).await?
            && idempotency::is_replay(&made, mark.as_ref())
        {
            return Ok(ReleaseView::from_request(&made));
        }
        if self.inner().releases.get_namespaced(namespace, name).is_some() {
            return Err(Error::AlreadyExists(name.clone()));
        }
        self.check_not_terminating(workspace.as_str()).await?;
        self.check_request_limit(&workspace).await?;
        let reader = ChartReader::Workspace(workspace.to_string());
        let chart = self.inner().charts.get(source, &reader).await?;
        let mut spec = HelmRequestSpec {
            release_name: name.clone(),
            workspace: workspace.to_string(),
            cluster: HOST_CLUSTER.to_owned(),
            namespace: namespace.clone(),
            source: recorded_source(source, &chart),
            chart: chart.resolved,
            values_ref: None,
            version: FIRST_VERSION,
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
        let values_ref = self.save_version(&request, &spec, values).await?;
        spec.values_ref = Some(values_ref.clone());
        let labels: BTreeMap<String, String> = [
            (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
            (WORKSPACE.to_owned(), workspace.to_string()),
        ]
        .into_iter()
        .chain(account_label(&*self.inner().tenants, &workspace))
        .collect();
        let mut written = HelmRequest {
            metadata: ObjectMeta {
                name: Some(request.clone()),
                labels: Some(labels),
                annotations: workspace_annotation(&*self.inner().tenants, &workspace),
                finalizers: Some(vec![REQUEST_FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        };
        idempotency::set_idempotency_hash(&mut written, mark.clone());
        match self.request_api().create(&PostParams::default(), &written).await {
            Ok(request) => Ok(ReleaseView::from_request(&request)),
            Err(error) => {
                self.delete_version(&values_ref).await;
                match error {
                    kube::Error::Api(status) if status.is_already_exists() => {
                        // The same call was sent twice concurrently.
                        let made = self.request_api().get_opt(&request).await?;
                        let made = made.filter(|made| idempotency::is_replay(made, mark.as_ref()));
                        made.map(|made| ReleaseView::from_request(&made))
                            .ok_or_else(|| Error::AlreadyExists(name.clone()))
                    }
                    other => Err(other.into()),
                }
            }
        }
    }
}

/// Checks that values are a YAML map or empty.
pub(super) fn check_values_map(text: &str) -> Result<(), Error> {
    let read = helm_chart::values::read(text.as_bytes(), Profile::Helm4);
    read.map(drop).map_err(|_| Error::Invalid("the values must be a YAML map".to_owned()))
}

/// The source as recorded in a request. An archive is recorded as the package that it was stored as.
pub(super) fn recorded_source(source: &ChartSource, chart: &ReleaseChart) -> Said {
    match source {
        ChartSource::Repo { repo, .. } => Said { repo: Some(repo.clone()), ..Said::default() },
        ChartSource::Oci { reference, .. } => Said { oci: Some(reference.clone()), ..Said::default() },
        ChartSource::Package(_) | ChartSource::Archive(_) => {
            Said { package: Some(chart.resolved.package.clone()), ..Said::default() }
        }
    }
}
