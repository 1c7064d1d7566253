//! From files to a chart.

use std::collections::HashMap;

use bytes::Bytes;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;

use crate::archive::{self, ArchiveError, Limits};
use crate::chart::{Chart, File};
use crate::metadata::{self, Draft, Invalid, Lock};
use crate::path;

/// What some editors put before a text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a chart cannot be loaded. The words are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("unable to load chart archive: {0}")]
    RootArchive(ArchiveError),
    #[error("cannot load {file}: {problem}")]
    Text { file: &'static str, problem: Str },
    #[error("Chart.yaml file is missing")]
    NoMetadata,
    #[error("unable to detect chart version, no Chart.yaml found")]
    NoVersion,
    #[error("unsupported chart version")]
    UnsupportedVersion,
    #[error("invalid chart apiVersion")]
    InvalidVersion,
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("error unpacking subchart tar in {chart}: expected {expected}, got {found}")]
    Misplaced { chart: Str, expected: Str, found: Str },
    #[error("error unpacking subchart {subchart} in {chart}: {problem}")]
    Subchart { subchart: Str, chart: Str, problem: Box<LoadError> },
    #[error("charts lie more than {0} deep in each other")]
    TooDeep(usize),
    #[error("{0}")]
    TooLarge(String),
}

/// Loads charts. What they may use up of the limits is counted over all that one loader loads.
pub struct Loader {
    profile: Profile,
    limits: Limits,
    /// What a chart's author should know.
    pub warnings: Vec<&'static str>,
}

impl Loader {
    pub fn new(profile: Profile) -> Self {
        Self::with_limits(profile, Limits::of(profile))
    }

    pub fn with_limits(profile: Profile, limits: Limits) -> Self {
        Self { profile, limits, warnings: Vec::new() }
    }

    /// A chart that was handed to us as an archive.
    pub fn archive(&mut self, archive: &[u8]) -> Result<Chart, LoadError> {
        let files = self.unpack(archive).map_err(|error| match self.profile {
            Profile::Helm4 if error != ArchiveError::NotGzip => LoadError::RootArchive(error),
            _ => LoadError::Archive(error),
        })?;
        if self.profile == Profile::Helm4 {
            let file = files.iter().find(|file| &*file.name == "Chart.yaml").ok_or(LoadError::NoVersion)?;
            self.check_kind(&file.data)?;
        }
        self.chart(files, self.limits.depth)
    }

    /// The files of an archive.
    pub fn unpack(&mut self, archive: &[u8]) -> Result<Vec<File>, ArchiveError> {
        archive::files(archive, self.profile, &mut self.limits)
    }

    /// A chart that was handed to us as files: those of a folder, ignored ones left out.
    pub fn files(&mut self, files: Vec<File>) -> Result<Chart, LoadError> {
        self.chart(files, self.limits.depth)
    }

    /// Whether this Helm takes charts of the kind that `Chart.yaml` names. Helm 4 asks it of the chart that it is
    /// given, not of those within; Helm 3 does not ask.
    pub fn check_kind(&self, chart_yaml: &[u8]) -> Result<(), LoadError> {
        if self.profile == Profile::Helm3 {
            return Ok(());
        }
        let version = metadata::api_version(chart_yaml, self.profile);
        match &*version.map_err(|problem| LoadError::Text { file: "Chart.yaml", problem })? {
            "" | "v1" | "v2" => Ok(()),
            // Charts of the third kind are behind a switch.
            "v3" => Err(LoadError::InvalidVersion),
            _ => Err(LoadError::UnsupportedVersion),
        }
    }

    /// How many bytes a folder's files may have, and how many one of them.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    fn chart(&mut self, files: Vec<File>, depth: usize) -> Result<Chart, LoadError> {
        let mut draft = self.draft(&files)?;
        let mut chart = Chart::default();
        let mut subcharts = Subcharts::default();
        let first_kind = draft.as_ref().is_some_and(|draft| &*draft.api_version() == "v1");
        for file in files {
            match &*file.name {
                "Chart.yaml" => {}
                "Chart.lock" => chart.lock = self.lock(&file.data, "Chart.lock")?,
                "values.yaml" => {
                    chart.values = self
                        .values(&file.data)
                        .map_err(|problem| LoadError::Text { file: "values.yaml", problem })?;
                }
                "values.schema.json" => chart.schema = Some(file.data.clone()),
                "requirements.yaml" => {
                    if !first_kind {
                        self.warnings.push(DEPENDENCIES_MOVED);
                    }
                    draft
                        .get_or_insert_with(Draft::empty)
                        .add(&file.data, self.profile)
                        .map_err(|problem| LoadError::Text { file: "requirements.yaml", problem })?;
                    if first_kind {
                        chart.files.push(file.clone());
                    }
                }
                "requirements.lock" => {
                    chart.lock = self.lock(&file.data, "requirements.lock")?;
                    draft.get_or_insert_with(Draft::empty);
                    if first_kind {
                        chart.files.push(file.clone());
                    } else {
                        self.warnings.push(LOCK_MOVED);
                    }
                }
                name if name.starts_with("templates/") => chart.templates.push(file.clone()),
                name if name.starts_with("charts/") => {
                    if path::extension(name) == ".prov" {
                        chart.files.push(file.clone());
                    } else {
                        subcharts.add(&file);
                        continue;
                    }
                }
                _ => chart.files.push(file.clone()),
            }
            chart.raw.push(file);
        }
        chart.metadata = draft.ok_or(LoadError::NoMetadata)?.finish(self.profile)?;
        for (name, files) in subcharts.found {
            if name.starts_with(['_', '.']) {
                continue;
            }
            let inner = self.subchart(&chart, &name, files, depth);
            let inner = inner.map_err(|problem| match problem {
                problem @ LoadError::Misplaced { .. } => problem,
                problem => LoadError::Subchart {
                    subchart: name.clone(),
                    chart: chart.metadata.name.clone(),
                    problem: Box::new(problem),
                },
            })?;
            chart.dependencies.push(inner);
        }
        Ok(chart)
    }

    fn draft(&self, files: &[File]) -> Result<Option<Draft>, LoadError> {
        let mut draft = None;
        for file in files.iter().filter(|file| &*file.name == "Chart.yaml") {
            let draft = draft.get_or_insert_with(Draft::empty);
            draft
                .add(&file.data, self.profile)
                .map_err(|problem| LoadError::Text { file: "Chart.yaml", problem })?;
            draft.default_api_version();
        }
        Ok(draft)
    }

    fn subchart(
        &mut self,
        parent: &Chart,
        name: &str,
        files: Vec<File>,
        depth: usize,
    ) -> Result<Chart, LoadError> {
        let depth = depth.checked_sub(1).ok_or(LoadError::TooDeep(Limits::of(self.profile).depth))?;
        if path::extension(name) != ".tgz" {
            // A file that lies beside the charts is no chart.
            let within = files.into_iter().filter_map(|file| {
                let name = file.name.split_once('/')?.1.into();
                Some(File { name, data: file.data })
            });
            return self.chart(within.collect(), depth);
        }
        let Some(file) = files.first().filter(|file| &*file.name == name) else {
            return Err(LoadError::Misplaced {
                chart: parent.metadata.name.clone(),
                expected: name.into(),
                found: files.first().map(|file| file.name.clone()).unwrap_or_default(),
            });
        };
        let files = archive::files(&file.data, self.profile, &mut self.limits)?;
        self.chart(files, depth)
    }

    fn lock(&self, text: &Bytes, file: &'static str) -> Result<Option<Lock>, LoadError> {
        Lock::parse(text, self.profile).map_err(|problem| LoadError::Text { file, problem })
    }

    fn values(&self, text: &[u8]) -> Result<Members, Str> {
        match self.profile {
            Profile::Helm3 => table(text),
            Profile::Helm4 => {
                let mut values = Members::new();
                for document in documents(text) {
                    let over = table(document?)
                        .map_err(|problem| format!("cannot unmarshal yaml document: {problem}"))?;
                    merge(&mut values, over);
                }
                Ok(values)
            }
        }
    }
}

const DEPENDENCIES_MOVED: &str = "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". \
                                  We recommend migrating dependencies to Chart.yaml.";
const LOCK_MOVED: &str = "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". \
                          We recommend migrating to Chart.lock.";

/// The files below `charts/`, by the first part of their name, in the order of their first file.
#[derive(Default)]
struct Subcharts {
    found: Vec<(Str, Vec<File>)>,
    places: HashMap<Str, usize>,
}

impl Subcharts {
    fn add(&mut self, file: &File) {
        let inner: Str = file.name.strip_prefix("charts/").unwrap_or(&file.name).into();
        let name: Str = inner.split('/').next().unwrap_or_default().into();
        let place = *self.places.entry(name.clone()).or_insert_with(|| {
            self.found.push((name, Vec::new()));
            self.found.len() - 1
        });
        self.found[place].1.push(File { name: inner, data: file.data.clone() });
    }
}

/// Reads one document that has to be a map.
fn table(text: &[u8]) -> Result<Members, Str> {
    let given = match yaml::parse(text)? {
        Data::Map(members) => return Ok(members),
        Data::Null => return Ok(Members::new()),
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
    };
    Err(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {given} into Go value of type \
         map[string]interface {{}}"
    )
    .into())
}

/// Splits a text at the lines that begin with `---`, as Kubernetes' reader of YAML does.
fn documents(text: &[u8]) -> impl Iterator<Item = Result<&[u8], Str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut at = 0;
        for line in rest.split_inclusive(|b| *b == b'\n') {
            if let Some(after) = line.strip_prefix(b"---") {
                let after = after.trim_ascii();
                if !matches!(after.first(), None | Some(b'#')) {
                    let after = String::from_utf8_lossy(after);
                    let error =
                        format!("error reading yaml document: invalid Yaml document separator: {after}");
                    rest = b"";
                    return Some(Err(error.into()));
                }
                if at > 0 {
                    let document = &rest[..at];
                    rest = &rest[at + line.len()..];
                    return Some(Ok(document));
                }
            }
            at += line.len();
        }
        (at > 0).then(|| Ok(std::mem::take(&mut rest)))
    })
}

fn merge(under: &mut Members, over: Members) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Data::Map(under)), Data::Map(over)) => merge(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}
