//! Request bodies that create or change a release.

use chart_store::ChartSource;
use kube_types::release::{DriftDetection, ManifestPatch, ReleaseOptions, Remediation, RoleOverride};
use releases::service::HOST_CLUSTER;
use releases::service::install;
use releases::service::update::ReleaseUpdate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::body::{BoundedString, DenyUnknown, JsonBody};
use crate::problem::Problem;

/// Values may have 256 KiB of text, which may double in size as JSON.
pub type ReleaseBody<T> = JsonBody<T, { 1 << 20 }>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CreateReleaseRequest {
    /// Cluster to deploy to [default: `host`].
    cluster: Option<BoundedString<63>>,
    namespace: BoundedString<63>,
    name: BoundedString<53>,
    chart: ChartSourceBody,
    values: Option<ValuesBody>,
    #[serde(default)]
    options: DenyUnknown<ReleaseOptions>,
    remediation: Option<DenyUnknown<Remediation>>,
    drift_detection: Option<DenyUnknown<DriftDetection>>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    patches: Vec<DenyUnknown<ManifestPatch>>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    roles: Vec<DenyUnknown<RoleOverride>>,
    /// Create the release with its workloads scaled to zero.
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    description: BoundedString<512>,
}

/// Absent fields are unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UpdateReleaseRequest {
    chart: Option<ChartSourceBody>,
    /// New values; they replace the previous ones unless `mergeValues` is set.
    values: Option<ValuesBody>,
    /// Merge `values` over the previous values instead of replacing them.
    #[serde(default)]
    merge_values: bool,
    options: Option<DenyUnknown<ReleaseOptions>>,
    #[schemars(length(max = 64))]
    patches: Option<Vec<DenyUnknown<ManifestPatch>>>,
    #[schemars(length(max = 64))]
    roles: Option<Vec<DenyUnknown<RoleOverride>>>,
    /// Suspends reconciliation.
    suspended: Option<bool>,
    description: Option<BoundedString<512>>,
}

/// Source of a chart: a repository (`repo` and `name`), a registry (`oci`) or an uploaded package (`package`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChartSource")]
pub struct ChartSourceBody {
    repo: Option<BoundedString<253>>,
    name: Option<BoundedString<253>>,
    oci: Option<BoundedString<1024>>,
    package: Option<BoundedString<253>>,
    /// Chart version or version range [default: the latest].
    version: Option<BoundedString<253>>,
}

/// Values as an object, or as a YAML string. The debug output omits them.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ValuesBody(Value);

impl std::fmt::Debug for ValuesBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Values(…)")
    }
}

impl ValuesBody {
    fn to_yaml(&self) -> Result<String, Problem> {
        match &self.0 {
            Value::String(text) => Ok(text.clone()),
            // JSON is valid YAML.
            Value::Object(_) => Ok(self.0.to_string()),
            Value::Null => Ok(String::new()),
            _ => Err(Problem::invalid("`values` must be an object or a YAML string")),
        }
    }
}

impl ChartSourceBody {
    fn to_source(&self) -> Result<ChartSource, Problem> {
        let Self { repo, name, oci, package, version } = self;
        let version = version.as_deref().unwrap_or_default().to_owned();
        match (repo, name, oci, package) {
            (Some(repo), Some(name), None, None) => {
                Ok(ChartSource::Repo { repo: repo.to_string(), chart: name.to_string(), version })
            }
            (None, None, Some(oci), None) => Ok(ChartSource::Oci { reference: oci.to_string(), version }),
            (None, None, None, Some(package)) => Ok(ChartSource::Package(package.to_string())),
            _ => Err(Problem::invalid("`chart` must have `repo` and `name`, or `oci`, or `package`")),
        }
    }
}

impl CreateReleaseRequest {
    pub fn to_install_request(&self) -> Result<(ChartSource, install::InstallRequest), Problem> {
        let Self {
            cluster,
            namespace,
            name,
            chart,
            values,
            options,
            remediation,
            drift_detection,
            patches,
            roles,
            paused,
            description,
        } = self;
        if let Some(cluster) = cluster.as_deref().filter(|cluster| *cluster != HOST_CLUSTER) {
            return Err(Problem::not_found("cluster", cluster));
        }
        let wanted = install::InstallRequest {
            namespace: namespace.to_string(),
            name: name.to_string(),
            values: values.as_ref().map(ValuesBody::to_yaml).transpose()?.unwrap_or_default(),
            options: options.0.clone(),
            remediation: remediation.as_ref().map(|remediation| remediation.0.clone()),
            drift_detection: drift_detection.as_ref().map(|drift| drift.0.clone()),
            patches: unwrap_strict(patches),
            roles: unwrap_strict(roles),
            paused: *paused,
            description: description.to_string(),
            idempotency_key: None,
            as_administrator: false,
        };
        Ok((chart.to_source()?, wanted))
    }
}

impl UpdateReleaseRequest {
    pub fn to_release_update(&self) -> Result<ReleaseUpdate, Problem> {
        let Self { chart, values, merge_values, options, patches, roles, suspended, description } = self;
        Ok(ReleaseUpdate {
            source: chart.as_ref().map(ChartSourceBody::to_source).transpose()?,
            values: values.as_ref().map(ValuesBody::to_yaml).transpose()?,
            merge_values: *merge_values,
            options: options.as_ref().map(|options| options.0.clone()),
            patches: patches.as_deref().map(unwrap_strict),
            roles: roles.as_deref().map(unwrap_strict),
            suspend: *suspended,
            description: description.as_ref().map(|text| text.to_string()),
            ..ReleaseUpdate::default()
        })
    }
}

fn unwrap_strict<T: Clone>(parts: &[DenyUnknown<T>]) -> Vec<T> {
    parts.iter().map(|part| part.0.clone()).collect()
}
