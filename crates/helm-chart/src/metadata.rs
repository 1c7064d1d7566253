//! `Chart.yaml`, `requirements.yaml` and their locks.

use std::collections::BTreeMap;

use helm_template::data::Data;
use helm_template::value::Str;

/// `Chart.yaml`. What it does not say is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    pub name: Str,
    pub home: Str,
    pub sources: Vec<Str>,
    pub version: Str,
    pub description: Str,
    pub keywords: Vec<Str>,
    pub maintainers: Vec<Maintainer>,
    pub icon: Str,
    pub api_version: Str,
    pub condition: Str,
    pub tags: Str,
    pub app_version: Str,
    pub deprecated: bool,
    pub annotations: BTreeMap<Str, Str>,
    pub kube_version: Str,
    pub dependencies: Vec<Dependency>,
    /// `application`, `library` or empty.
    pub chart_type: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    pub name: Str,
    pub email: Str,
    pub url: Str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    pub name: Str,
    pub version: Str,
    pub repository: Str,
    pub condition: Str,
    pub tags: Vec<Str>,
    pub enabled: bool,
    /// Texts, or maps of `child` and `parent`.
    pub import_values: Vec<Data>,
    pub alias: Str,
}

/// `Chart.lock`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    pub generated: Str,
    pub digest: Str,
    pub dependencies: Vec<Dependency>,
}
