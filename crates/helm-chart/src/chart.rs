//! A chart in memory.

use bytes::Bytes;
use helm_template::data::Members;
use helm_template::value::Str;

use crate::metadata::{Lock, Metadata};
use crate::path;

/// A file of a chart; its name is a `/`-separated path from the chart's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: Str,
    /// Content; usually a slice of one unpacked archive.
    pub data: Bytes,
}

#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub metadata: Metadata,
    pub lock: Option<Lock>,
    /// `values.yaml`.
    pub values: Members,
    /// `values.schema.json`.
    pub schema: Option<Bytes>,
    /// Files below `templates/`.
    pub templates: Vec<File>,
    /// Files without a special meaning, including `crds/`.
    pub files: Vec<File>,
    /// All files as read, without files of subcharts.
    pub raw: Vec<File>,
    /// Subcharts below `charts/`, in the order of their files.
    pub dependencies: Vec<Chart>,
    /// Path prefix of the chart's template names where it is not `PARENT/charts/NAME`: Helm loses the parent of
    /// charts below an alias. Set when dependencies are prepared.
    pub path: Option<Str>,
}

impl Chart {
    /// Files in the chart's own `crds/` folder.
    pub fn crds(&self) -> impl Iterator<Item = &File> {
        let is_manifest = |name: &str| {
            let end = path::extension(name);
            [".yaml", ".yml", ".json"].iter().any(|known| end.eq_ignore_ascii_case(known))
        };
        self.files.iter().filter(move |file| file.name.starts_with("crds/") && is_manifest(&file.name))
    }
}
