//! A chart in memory.

use bytes::Bytes;
use helm_template::data::Members;
use helm_template::value::Str;

use crate::metadata::{Lock, Metadata};
use crate::path;

/// A file of a chart; its name is a path with `/` from the chart's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: Str,
    /// Most files of a chart are slices of one unpacked archive.
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
    /// What is below `templates/`.
    pub templates: Vec<File>,
    /// What is neither a template nor one of the files with a meaning of their own; `crds/` is among them.
    pub files: Vec<File>,
    /// Every file as it was read, but those of subcharts.
    pub raw: Vec<File>,
    /// The charts below `charts/`, in the order in which they were found.
    pub dependencies: Vec<Chart>,
    /// What its templates are named after, where that is not `PARENT/charts/NAME`: Helm loses track of whom a chart
    /// belongs to below an alias. Known once the dependencies are prepared.
    pub path: Option<Str>,
}

impl Chart {
    /// What lies in its `crds/`, its own only.
    pub fn crds(&self) -> impl Iterator<Item = &File> {
        let is_manifest = |name: &str| {
            let end = path::extension(name);
            [".yaml", ".yml", ".json"].iter().any(|known| end.eq_ignore_ascii_case(known))
        };
        self.files.iter().filter(move |file| file.name.starts_with("crds/") && is_manifest(&file.name))
    }
}
