//! Loads charts from files and archives.

use std::collections::HashMap;

use bytes::Bytes;
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::archive::{self, ArchiveError, ArchiveLimits};
use crate::chart::{Chart, File};
use crate::metadata::{self, InvalidMetadata, Lock, MetadataDraft};
use crate::path;
use crate::values;

/// Byte order mark that some editors write.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Error of loading a chart. Messages are Helm's.
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
    Invalid(#[from] InvalidMetadata),
    #[error("error unpacking subchart tar in {chart}: expected {expected}, got {found}")]
    NameMismatch { chart: Str, expected: Str, found: Str },
    #[error("error unpacking subchart {subchart} in {chart}: {problem}")]
    Subchart { subchart: Str, chart: Str, problem: Box<LoadError> },
    #[error("charts lie more than {0} deep in each other")]
    TooDeep(usize),
    #[error("values.yaml: the chart and its subcharts have more than {0} values")]
    TooManyValues(usize),
}

impl LoadError {
    /// Whether a size limit was exceeded.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::Archive(error) | Self::RootArchive(error) => matches!(error, ArchiveError::TooLarge(_)),
            Self::Subchart { problem, .. } => problem.is_too_large(),
            _ => false,
        }
    }
}

/// Loads charts. Limits apply to everything that one loader loads.
pub struct Loader {
    profile: Profile,
    limits: ArchiveLimits,
    /// Number of values counted so far.
    value_count: usize,
    /// Returns an error to stop.
    interrupt: Box<dyn Fn() -> Result<(), Str>>,
    /// Warnings for the chart's author.
    pub warnings: Vec<&'static str>,
}

impl Loader {
    pub fn new(profile: Profile) -> Self {
        Self::with_limits(profile, ArchiveLimits::for_profile(profile))
    }

    pub fn with_limits(profile: Profile, limits: ArchiveLimits) -> Self {
        Self { profile, limits, value_count: 0, interrupt: Box::new(|| Ok(())), warnings: Vec::new() }
    }

    /// Stops at the next file or chart when `interrupt` fails.
    #[must_use]
    pub fn with_interrupt(mut self, interrupt: impl Fn() -> Result<(), Str> + 'static) -> Self {
        self.interrupt = Box::new(interrupt);
        self
    }

    /// Loads a chart from an archive.
    pub fn load_archive(&mut self, archive: &[u8]) -> Result<Chart, LoadError> {
        let files = self.unpack(archive).map_err(|error| match self.profile {
            Profile::Helm4 if error != ArchiveError::NotGzip => LoadError::RootArchive(error),
            _ => LoadError::Archive(error),
        })?;
        if self.profile == Profile::Helm4 {
            let file = files.iter().find(|file| &*file.name == "Chart.yaml").ok_or(LoadError::NoVersion)?;
            self.check_api_version(&file.data)?;
        }
        self.load_chart(files, self.limits.depth)
    }

    /// Unpacks the files of an archive.
    pub fn unpack(&mut self, archive: &[u8]) -> Result<Vec<File>, ArchiveError> {
        archive::read_files_interruptible(archive, self.profile, &mut self.limits, &*self.interrupt)
    }

    /// Loads a chart from the files of a folder, without ignored ones.
    pub fn load_files(&mut self, files: Vec<File>) -> Result<Chart, LoadError> {
        self.load_chart(files, self.limits.depth)
    }

    /// Checks the `apiVersion` of `Chart.yaml`. Helm 4 checks it for the root chart only, not for subcharts; Helm 3
    /// does not check it.
    pub fn check_api_version(&self, chart_yaml: &[u8]) -> Result<(), LoadError> {
        if self.profile == Profile::Helm3 {
            return Ok(());
        }
        let version = metadata::api_version(chart_yaml, self.profile);
        match &*version.map_err(|problem| LoadError::Text { file: "Chart.yaml", problem })? {
            "" | "v1" | "v2" => Ok(()),
            // Charts of `apiVersion` v3 are behind a feature switch.
            "v3" => Err(LoadError::InvalidVersion),
            _ => Err(LoadError::UnsupportedVersion),
        }
    }

    /// Remaining limits.
    pub fn limits(&self) -> ArchiveLimits {
        self.limits
    }

    /// Counts the files of a chart that are about to be parsed.
    fn count_parsed(&mut self, files: &[File]) -> Result<(), LoadError> {
        let templates: usize =
            files.iter().filter(|file| file.name.starts_with("templates/")).map(|f| f.data.len()).sum();
        self.limits.templates = self.limits.templates.checked_sub(templates).ok_or_else(|| {
            ArchiveError::TooLarge("templates of the chart are larger than the maximum size".to_owned())
        })?;
        let size: usize =
            files.iter().filter(|file| PARSED_FILES.contains(&&*file.name)).map(|f| f.data.len()).sum();
        self.limits.parsed = self.limits.parsed.checked_sub(size).ok_or_else(|| {
            ArchiveError::TooLarge(
                "values and metadata of the chart are larger than the maximum size".to_owned(),
            )
        })?;
        Ok(())
    }

    fn load_chart(&mut self, files: Vec<File>, depth: usize) -> Result<Chart, LoadError> {
        (self.interrupt)().map_err(ArchiveError::Interrupted)?;
        self.count_parsed(&files)?;
        let mut draft = self.read_draft(&files)?;
        let mut chart = Chart::default();
        let mut subcharts = SubchartFiles::default();
        let first_kind = draft.as_ref().is_some_and(|draft| &*draft.api_version() == "v1");
        for file in files {
            (self.interrupt)().map_err(ArchiveError::Interrupted)?;
            match &*file.name {
                "Chart.yaml" => {}
                "Chart.lock" => chart.lock = self.parse_lock(&file.data, "Chart.lock")?,
                "values.yaml" => {
                    self.value_count += estimate_value_count(&file.data);
                    if self.value_count > MAX_VALUES {
                        return Err(LoadError::TooManyValues(MAX_VALUES));
                    }
                    chart.values = values::read(&file.data, self.profile)
                        .map_err(|problem| LoadError::Text { file: "values.yaml", problem })?;
                }
                "values.schema.json" => chart.schema = Some(file.data.clone()),
                "requirements.yaml" => {
                    if !first_kind {
                        self.warnings.push(DEPENDENCIES_MOVED_WARNING);
                    }
                    draft
                        .get_or_insert_with(MetadataDraft::empty)
                        .add(&file.data, self.profile)
                        .map_err(|problem| LoadError::Text { file: "requirements.yaml", problem })?;
                    if first_kind {
                        chart.files.push(file.clone());
                    }
                }
                "requirements.lock" => {
                    chart.lock = self.parse_lock(&file.data, "requirements.lock")?;
                    draft.get_or_insert_with(MetadataDraft::empty);
                    if first_kind {
                        chart.files.push(file.clone());
                    } else {
                        self.warnings.push(LOCK_MOVED_WARNING);
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
        for (name, files) in subcharts.groups {
            if name.starts_with(['_', '.']) {
                continue;
            }
            let inner = self.load_subchart(&chart, &name, files, depth);
            let inner = inner.map_err(|problem| match problem {
                problem @ LoadError::NameMismatch { .. } => problem,
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

    fn read_draft(&self, files: &[File]) -> Result<Option<MetadataDraft>, LoadError> {
        let mut draft = None;
        for file in files.iter().filter(|file| &*file.name == "Chart.yaml") {
            let draft = draft.get_or_insert_with(MetadataDraft::empty);
            draft
                .add(&file.data, self.profile)
                .map_err(|problem| LoadError::Text { file: "Chart.yaml", problem })?;
            draft.default_api_version();
        }
        Ok(draft)
    }

    fn load_subchart(
        &mut self,
        parent: &Chart,
        name: &str,
        files: Vec<File>,
        depth: usize,
    ) -> Result<Chart, LoadError> {
        let depth =
            depth.checked_sub(1).ok_or(LoadError::TooDeep(ArchiveLimits::for_profile(self.profile).depth))?;
        if path::extension(name) != ".tgz" {
            // A plain file in `charts/` is not a chart.
            let within = files.into_iter().filter_map(|file| {
                let name = file.name.split_once('/')?.1.into();
                Some(File { name, data: file.data })
            });
            return self.load_chart(within.collect(), depth);
        }
        let Some(file) = files.first().filter(|file| &*file.name == name) else {
            return Err(LoadError::NameMismatch {
                chart: parent.metadata.name.clone(),
                expected: name.into(),
                found: files.first().map(|file| file.name.clone()).unwrap_or_default(),
            });
        };
        let files = self.unpack(&file.data)?;
        self.load_chart(files, depth)
    }

    fn parse_lock(&self, text: &Bytes, file: &'static str) -> Result<Option<Lock>, LoadError> {
        Lock::parse(text, self.profile).map_err(|problem| LoadError::Text { file, problem })
    }
}

/// Maximum values in all `values.yaml` of a chart and its subcharts, estimated by punctuation. Each takes some 150
/// bytes while it is parsed.
const MAX_VALUES: usize = 1_000_000;

/// Upper bound of the values in a YAML text: each is next to a comma, colon, dash, bracket or line end.
fn estimate_value_count(text: &[u8]) -> usize {
    let marks = text.iter().filter(|byte| b",:-[{\n".contains(byte)).count();
    marks.min(text.len() / 2)
}
/// Files that are parsed when a chart is loaded.
const PARSED_FILES: [&str; 5] =
    ["Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"];

const DEPENDENCIES_MOVED_WARNING: &str = "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". \
                                  We recommend migrating dependencies to Chart.yaml.";
const LOCK_MOVED_WARNING: &str = "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". \
                          We recommend migrating to Chart.lock.";

/// Files below `charts/`, grouped by the first path segment, in the order of their first file.
#[derive(Default)]
struct SubchartFiles {
    groups: Vec<(Str, Vec<File>)>,
    group_indexes: HashMap<Str, usize>,
}

impl SubchartFiles {
    fn add(&mut self, file: &File) {
        let inner: Str = file.name.strip_prefix("charts/").unwrap_or(&file.name).into();
        let name: Str = inner.split('/').next().unwrap_or_default().into();
        let place = *self.group_indexes.entry(name.clone()).or_insert_with(|| {
            self.groups.push((name, Vec::new()));
            self.groups.len() - 1
        });
        self.groups[place].1.push(File { name: inner, data: file.data.clone() });
    }
}

#[cfg(test)]
mod tests {
    use helm_template::data::Data;

    use super::*;

    const CHART: (&str, &str) = ("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n");

    fn load(files: &[(&str, &str)], profile: Profile) -> Result<Chart, String> {
        let file = |(name, text): &(&str, &str)| File {
            name: (*name).into(),
            data: Bytes::copy_from_slice(text.as_bytes()),
        };
        Loader::new(profile).load_files(files.iter().map(file).collect()).map_err(|error| error.to_string())
    }

    fn names(files: &[File]) -> Vec<&str> {
        files.iter().map(|file| &*file.name).collect()
    }

    #[test]
    fn load_sorts_files_into_chart_fields() {
        let files = [
            ("README.md", ""),
            CHART,
            ("values.yaml", "a: 1\nb: ~\n"),
            ("values.schema.json", "{}"),
            ("templates/a.yaml", ""),
            ("templates/sub/_b.tpl", ""),
            ("crds/c.yaml", ""),
            ("charts/d/Chart.yaml", "name: d\nversion: 2\n"),
            ("charts/d/templates/x.yaml", ""),
            ("charts/d/charts/e/Chart.yaml", "name: e\nversion: 3\n"),
            ("charts/_ignored/x", ""),
            ("charts/.ignored/x", ""),
            ("charts/d-2.tgz.prov", ""),
        ];
        let chart = load(&files, Profile::Helm3).unwrap();
        assert_eq!(names(&chart.templates), ["templates/a.yaml", "templates/sub/_b.tpl"]);
        assert_eq!(names(&chart.files), ["README.md", "crds/c.yaml", "charts/d-2.tgz.prov"]);
        assert_eq!(chart.schema.as_deref(), Some(&b"{}"[..]));
        assert_eq!(chart.values["b"], Data::Null);
        assert_eq!(chart.dependencies.len(), 1);
        let [d] = &chart.dependencies[..] else { panic!("one subchart") };
        assert_eq!((&*d.metadata.name, &*d.metadata.api_version), ("d", "v1"));
        assert_eq!(names(&d.templates), ["templates/x.yaml"]);
        assert_eq!(&*d.dependencies[0].metadata.name, "e");
    }

    #[test]
    fn requirements_yaml_applies_to_api_version_v1() {
        let requirements = ("requirements.yaml", "dependencies: [{name: d}]\n");
        let lock = ("requirements.lock", "dependencies: []\ndigest: x\n");
        let chart =
            load(&[("Chart.yaml", "name: c\nversion: 1\n"), requirements, lock], Profile::Helm4).unwrap();
        assert_eq!(names(&chart.files), ["requirements.yaml", "requirements.lock"]);
        assert_eq!(&*chart.metadata.dependencies[0].name, "d");
        assert_eq!(chart.lock.as_ref().map(|lock| &*lock.digest), Some("x"));
        let mut loader = Loader::new(Profile::Helm4);
        let file = |(name, text): (&str, &str)| File {
            name: name.into(),
            data: Bytes::copy_from_slice(text.as_bytes()),
        };
        let chart = loader.load_files(vec![file(CHART), file(requirements), file(lock)]).unwrap();
        assert!(chart.files.is_empty());
        assert_eq!(chart.metadata.dependencies.len(), 1);
        assert_eq!(loader.warnings, [DEPENDENCIES_MOVED_WARNING, LOCK_MOVED_WARNING]);
    }

    /// Recorded from Helm 3.17.3 and 4.3.1.
    #[test]
    fn load_errors_match_helm() {
        let words = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type";
        let rows: [(&[(&str, &str)], String); 7] = [
            (&[("a", "")], "Chart.yaml file is missing".into()),
            (&[("Chart.yaml", "x: [")], "cannot load Chart.yaml: error converting YAML to JSON: yaml: line 1: did not find expected node content".into()),
            (&[("Chart.yaml", "name: c\n")], "validation: chart.metadata.version is required".into()),
            (&[CHART, ("values.yaml", "[1]")], format!("cannot load values.yaml: {words} map[string]interface {{}}")),
            (&[CHART, ("charts/README.md", "")], "error unpacking subchart README.md in c: Chart.yaml file is missing".into()),
            (&[CHART, ("charts/a.tgz/x", "")], "error unpacking subchart tar in c: expected a.tgz, got a.tgz/x".into()),
            (&[CHART, ("charts/a.tgz", "x")], "error unpacking subchart a.tgz in c: unexpected EOF".into()),
        ];
        for (files, expected) in rows {
            assert_eq!(load(files, Profile::Helm3).unwrap_err(), expected);
        }
        assert_eq!(
            load(&[CHART, ("values.yaml", "[1]")], Profile::Helm4).unwrap_err(),
            format!(
                "cannot load values.yaml: cannot unmarshal yaml document: {words} map[string]interface {{}}"
            )
        );
        let loader = Loader::new(Profile::Helm4);
        assert_eq!(
            loader.check_api_version(b"apiVersion: v4").unwrap_err().to_string(),
            "unsupported chart version"
        );
        assert_eq!(
            loader.check_api_version(b"apiVersion: v3").unwrap_err().to_string(),
            "invalid chart apiVersion"
        );
    }

    #[test]
    fn helm4_merges_values_documents() {
        let values = |text: &str, profile| {
            let chart = load(&[CHART, ("values.yaml", text)], profile);
            chart.map(|chart| helm_template::yaml::write(&Data::Map(chart.values)).unwrap())
        };
        let text = "---\na: {b: 1, c: 2}\n--- # next\na: {b: ~}\nd: e\n";
        assert_eq!(values(text, Profile::Helm4).unwrap(), "a:\n  b: null\n  c: 2\nd: e\n");
        assert_eq!(values(text, Profile::Helm3).unwrap(), "a:\n  b: 1\n  c: 2\n");
        assert_eq!(
            values("a: 1\n--- b\n", Profile::Helm4).unwrap_err(),
            "cannot load values.yaml: error reading yaml document: invalid Yaml document separator: b"
        );
    }

    #[test]
    fn load_stops_when_interrupted() {
        use std::cell::Cell;
        let names: Vec<String> = (0..100).map(|n| format!("templates/{n}")).collect();
        let mut all = vec![CHART];
        all.extend(names.iter().map(|name| (name.as_str(), "")));
        let file = |(name, text): &(&str, &str)| File {
            name: (*name).into(),
            data: Bytes::copy_from_slice(text.as_bytes()),
        };
        let files: Vec<File> = all.iter().map(file).collect();
        let archive =
            archive::write(&Loader::new(Profile::Helm4).load_files(files).unwrap(), Profile::Helm4, 0);
        let asked = std::rc::Rc::new(Cell::new(0));
        let loader = |most: u32| {
            let asked = asked.clone();
            asked.set(0);
            Loader::new(Profile::Helm4).with_interrupt(move || {
                asked.set(asked.get() + 1);
                if asked.get() > most { Err("the caller is gone".into()) } else { Ok(()) }
            })
        };
        let archive = archive.unwrap();
        // While unpacking, and while processing the files.
        for most in [50, 150] {
            let stopped = loader(most).load_archive(&archive).unwrap_err();
            assert!(stopped.to_string().ends_with("the caller is gone"), "{stopped}");
            assert_eq!(asked.get(), most + 1);
        }
        assert!(loader(u32::MAX).load_archive(&archive).is_ok());
    }

    #[test]
    fn templates_have_their_own_limit() {
        let limits = ArchiveLimits { templates: 10, ..ArchiveLimits::for_profile(Profile::Helm4) };
        let chart = |text: &'static [u8]| {
            let files = [
                ("Chart.yaml", CHART.1.as_bytes()),
                ("templates/a", text),
                ("charts/b/Chart.yaml", b"apiVersion: v2\nname: b\nversion: 1.0.0\n"),
                ("charts/b/templates/a", b"12345"),
                ("files/a", b"a longer text"),
            ];
            let file =
                |(name, data): (&str, &[u8])| File { name: name.into(), data: Bytes::copy_from_slice(data) };
            Loader::with_limits(Profile::Helm4, limits).load_files(files.into_iter().map(file).collect())
        };
        assert!(chart(b"12345").is_ok());
        let refused = chart(b"123456").unwrap_err();
        assert!(refused.is_too_large() && refused.to_string().contains("templates"), "{refused}");
    }

    #[test]
    fn load_rejects_deeply_nested_charts() {
        let depth = ArchiveLimits::for_profile(Profile::Helm3).depth;
        let nested = |depth: usize| {
            let names: Vec<_> =
                (0..=depth).map(|depth| format!("{}Chart.yaml", "charts/c/".repeat(depth))).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), CHART.1)).collect();
            load(&files, Profile::Helm3)
        };
        assert!(nested(depth).is_ok());
        assert!(nested(depth + 1).unwrap_err().ends_with("charts lie more than 32 deep in each other"));
    }

    #[test]
    fn nested_archives_share_one_limit() {
        let inner = Chart {
            raw: Vec::new(),
            files: vec![File { name: "a".into(), data: vec![0; 600].into() }],
            ..load(&[CHART], Profile::Helm3).unwrap()
        };
        let packed = archive::write(&inner, Profile::Helm3, 0).unwrap();
        let file = |name: &str, data: &[u8]| File { name: name.into(), data: Bytes::copy_from_slice(data) };
        let files = || {
            vec![
                file("Chart.yaml", CHART.1.as_bytes()),
                file("charts/a.tgz", &packed),
                file("charts/b.tgz", &packed),
            ]
        };
        let limits = ArchiveLimits { unpacked: 1000, ..ArchiveLimits::for_profile(Profile::Helm3) };
        assert!(Loader::new(Profile::Helm3).load_files(files()).is_ok());
        let error = Loader::with_limits(Profile::Helm3, limits).load_files(files()).unwrap_err().to_string();
        assert!(
            error.starts_with("error unpacking subchart b.tgz in c: decompressed chart is larger"),
            "{error}"
        );
    }

    #[test]
    fn values_are_counted_before_parsing() {
        let large = format!("a: [{}]\n", "1,".repeat(600_000));
        let values = ("values.yaml", large.as_str());
        assert!(load(&[CHART, values], Profile::Helm4).is_ok());
        let sub = ("charts/d/Chart.yaml", "apiVersion: v2\nname: d\nversion: 1.0.0\n");
        let error =
            load(&[CHART, values, sub, ("charts/d/values.yaml", &large)], Profile::Helm4).unwrap_err();
        assert!(error.contains("the chart and its subcharts have more than 1000000 values"), "{error}");
    }
}
