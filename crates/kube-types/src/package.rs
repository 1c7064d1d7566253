//! `HelmPackage`: a stored chart archive, named by its digest. The bytes are in ConfigMaps owned by it.
//!
//! Invariant: the spec is immutable, so a package name always refers to the same bytes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefix of every package name.
pub const PACKAGE_NAME_PREFIX: &str = "pkg-";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "longshore.dev",
    version = "v1alpha1",
    kind = "HelmPackage",
    plural = "helmpackages",
    shortname = "hpkg",
    category = "longshore",
    status = "HelmPackageStatus",
    derive = "PartialEq",
    doc = "Stored chart archive, identified by its digest",
    printcolumn(name = "Chart", type_ = "string", json_path = ".spec.chart.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.chart.version"),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("a package is immutable: store other contents as another package"))]
pub struct HelmPackageSpec {
    /// SHA-256 of the archive.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Size of the archive in bytes.
    #[schemars(range(min = 1, max = 10_485_760))]
    pub size: i64,
    /// Number of ConfigMaps that contain the archive.
    #[schemars(range(min = 1, max = 100))]
    pub chunks: i64,
    pub chart: PackagedChart,
    pub origin: PackageOrigin,
}

/// Chart metadata from the archive, for lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackagedChart {
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    #[schemars(length(min = 1, max = 253))]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub app_version: String,
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub kind: String,
}

/// How the package was first stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PackageOrigin {
    #[default]
    Upload,
    /// Fetched from a repository or registry.
    RepoCache,
    Import,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HelmPackageStatus {
    /// `Ready` once all bytes are written, `Missing` if some of them were not found later.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Time of the last use, with a precision of about an hour. Unused packages are garbage-collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_use: Option<Time>,
}

/// Phases of a package.
pub mod phase {
    pub const READY: &str = "Ready";
    /// Bytes were missing when they were read. Storing the same archive again completes the package.
    pub const MISSING: &str = "Missing";
}
