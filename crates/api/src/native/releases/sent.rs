//! Request bodies that create or change a release.

use chart_store::Source;
use kube_types::release::{DriftDetection, Options, Patch, Remediation, RoleOverride};
use releases::acts::HOST;
use releases::acts::ask;
use releases::acts::change::Changes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;
use crate::sent::{Sent, Strict, Text};

/// Values may have 256 KiB of text, which may double in size as JSON.
pub type SentRelease<T> = Sent<T, { 1 << 20 }>;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewRelease {
    /// Where it is to run; `host` where nothing is said.
    cluster: Option<Text<63>>,
    namespace: Text<63>,
    name: Text<53>,
    chart: SentChart,
    values: Option<Values>,
    #[serde(default)]
    options: Strict<Options>,
    remediation: Option<Strict<Remediation>>,
    drift_detection: Option<Strict<DriftDetection>>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    patches: Vec<Strict<Patch>>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    roles: Vec<Strict<RoleOverride>>,
    /// Its workloads begin at zero.
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    description: Text<512>,
}

/// What is not said stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChangedRelease {
    chart: Option<SentChart>,
    /// In place of all that were given before.
    values: Option<Values>,
    /// The values are put over those that were given before, and not in their place.
    #[serde(default)]
    merge_values: bool,
    options: Option<Strict<Options>>,
    #[schemars(length(max = 64))]
    patches: Option<Vec<Strict<Patch>>>,
    #[schemars(length(max = 64))]
    roles: Option<Vec<Strict<RoleOverride>>>,
    /// Nobody looks after it for as long as this holds.
    suspended: Option<bool>,
    description: Option<Text<512>>,
}

/// Where a chart is: in a repository (`repo` and `name`), in a registry (`oci`), or kept here already (`package`).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChartSource")]
pub struct SentChart {
    repo: Option<Text<253>>,
    name: Option<Text<253>>,
    oci: Option<Text<1024>>,
    package: Option<Text<253>>,
    /// May be a range; the newest where nothing is said.
    version: Option<Text<253>>,
}

/// An object, or YAML as a text. It shows itself to nobody who debugs.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Values(Value);

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Values(…)")
    }
}

impl Values {
    fn text(&self) -> Result<String, Problem> {
        match &self.0 {
            Value::String(text) => Ok(text.clone()),
            // JSON is valid YAML.
            Value::Object(_) => Ok(self.0.to_string()),
            Value::Null => Ok(String::new()),
            _ => Err(Problem::invalid("`values`: an object, or YAML as a text")),
        }
    }
}

impl SentChart {
    fn source(&self) -> Result<Source, Problem> {
        let Self { repo, name, oci, package, version } = self;
        let version = version.as_deref().unwrap_or_default().to_owned();
        match (repo, name, oci, package) {
            (Some(repo), Some(name), None, None) => {
                Ok(Source::Repo { repo: repo.to_string(), chart: name.to_string(), version })
            }
            (None, None, Some(oci), None) => Ok(Source::Oci { reference: oci.to_string(), version }),
            (None, None, None, Some(package)) => Ok(Source::Package(package.to_string())),
            _ => Err(Problem::invalid("`chart`: either `repo` and `name`, or `oci`, or `package`")),
        }
    }
}

impl NewRelease {
    pub fn read(&self) -> Result<(Source, ask::NewRelease), Problem> {
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
        if let Some(cluster) = cluster.as_deref().filter(|cluster| *cluster != HOST) {
            return Err(Problem::not_found("cluster", cluster));
        }
        let wanted = ask::NewRelease {
            namespace: namespace.to_string(),
            name: name.to_string(),
            values: values.as_ref().map(Values::text).transpose()?.unwrap_or_default(),
            options: options.0.clone(),
            remediation: remediation.as_ref().map(|remediation| remediation.0.clone()),
            drift_detection: drift_detection.as_ref().map(|drift| drift.0.clone()),
            patches: all(patches),
            roles: all(roles),
            paused: *paused,
            description: description.to_string(),
            key: None,
            as_administrator: false,
        };
        Ok((chart.source()?, wanted))
    }
}

impl ChangedRelease {
    pub fn read(&self) -> Result<Changes, Problem> {
        let Self { chart, values, merge_values, options, patches, roles, suspended, description } = self;
        Ok(Changes {
            source: chart.as_ref().map(SentChart::source).transpose()?,
            values: values.as_ref().map(Values::text).transpose()?,
            merge_values: *merge_values,
            options: options.as_ref().map(|options| options.0.clone()),
            patches: patches.as_deref().map(all),
            roles: roles.as_deref().map(all),
            suspend: *suspended,
            description: description.as_ref().map(|text| text.to_string()),
            ..Changes::default()
        })
    }
}

fn all<T: Clone>(parts: &[Strict<T>]) -> Vec<T> {
    parts.iter().map(|part| part.0.clone()).collect()
}
