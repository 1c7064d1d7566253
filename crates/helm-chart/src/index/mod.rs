//! Repository indexes: the charts of a repository and their versions.
//!
//! The index of a large repository has tens of megabytes, while a reader needs few entries. An [`Index`] keeps the
//! text and the position of each version; an entry is decoded on request. Helm's own layout is recognised line by
//! line (`scan`). Other layouts are cut into entries (`split`), each parsed once. A text that cannot be cut is
//! parsed as a whole, and its entries are kept as JSON.

mod build;
mod entry;
mod scan;
mod split;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use helm_template::data::Data;
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use helm_template::value::Str;

pub use build::{IndexBuilder, join_url};
pub use entry::ChartVersion;

use crate::metadata::get_text;
use crate::typed::{self, KeyMode, Shape};

/// Maximum size of an index in bytes. The largest public ones have some 50 MB.
pub const MAX_INDEX_LEN: usize = 256 << 20;
/// Maximum size in bytes of an entry that is parsed separately; a text with a larger one is parsed as a whole.
pub const MAX_ENTRY_LEN: usize = 1 << 20;
/// Maximum size in bytes of an index that [`Index::parse_bounded`] parses as a whole.
pub const MAX_FULL_PARSE_LEN: usize = 4 << 20;
/// Maximum number of warnings per index, and of characters of a name in each.
const MAX_WARNINGS: usize = 1_000;
const MAX_WARNING_NAME_LEN: usize = 253;

/// A repository's index.
#[derive(Clone, Debug)]
pub struct Index {
    profile: Profile,
    pub api_version: Str,
    pub generated: Str,
    /// Entries by chart name, newest version first.
    charts: BTreeMap<Str, Vec<EntryLocation>>,
    text: Bytes,
    /// Format of entries in the text.
    entry_format: EntryFormat,
    /// Skipped entries, with the reason.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum EntryFormat {
    /// A list with one item.
    Yaml,
    Json,
}

/// Position of an entry in the text.
#[derive(Clone, Debug)]
struct EntryLocation {
    version: Str,
    span: Range<usize>,
}

/// Error of reading an index or of a lookup in it. Messages are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("empty index.yaml file")]
    Empty,
    #[error("index is larger than {0} bytes")]
    TooLarge(usize),
    #[error("index is not laid out as Helm writes it and is larger than {0} bytes")]
    Layout(usize),
    #[error("{0}")]
    Text(Str),
    #[error("no API version specified")]
    NoApiVersion,
    #[error("no chart name found")]
    ChartNotFound,
    #[error("no chart version found")]
    NoVersions,
    #[error("no chart version found for {name}-{version}")]
    VersionNotFound { name: Str, version: Str },
    #[error("{0}")]
    Constraint(Str),
    /// Interrupted by the caller.
    #[error("{0}")]
    Interrupted(Str),
}

/// Returns an error to stop. Called for each entry that is read.
type Interrupt<'i> = &'i dyn Fn() -> Result<(), Str>;

impl Index {
    /// Parses an index in the fastest possible way.
    pub fn parse(text: &Bytes, profile: Profile) -> Result<Self, IndexError> {
        if text.is_empty() {
            return Err(IndexError::Empty);
        }
        if text.len() > MAX_INDEX_LEN {
            return Err(IndexError::TooLarge(MAX_INDEX_LEN));
        }
        Self::parse_interruptible(text, profile, &|| Ok(()))
    }

    fn parse_interruptible(
        text: &Bytes,
        profile: Profile,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, IndexError> {
        if let Some(index) = Self::parse_by_layout(text, profile, interrupt) {
            return index;
        }
        interrupt().map_err(IndexError::Interrupted)?;
        Self::parse_fully(text, profile)
    }

    /// Parses an index entry by entry, if its layout allows it.
    fn parse_by_layout(
        text: &Bytes,
        profile: Profile,
        interrupt: Interrupt<'_>,
    ) -> Option<Result<Self, IndexError>> {
        Self::scan_interruptible(text, profile, interrupt)
            .or_else(|| Self::parse_entries_interruptible(text, profile, interrupt))
    }

    /// Parses an index with bounded memory: entries are parsed one by one, each of at most [`MAX_ENTRY_LEN`] bytes. Only
    /// a text of at most [`MAX_FULL_PARSE_LEN`] bytes is parsed as a whole if its layout requires it. Stops at the next entry
    /// when `interrupt` fails.
    pub fn parse_bounded(
        text: &Bytes,
        profile: Profile,
        interrupt: &dyn Fn() -> Result<(), Str>,
    ) -> Result<Self, IndexError> {
        if text.is_empty() {
            return Err(IndexError::Empty);
        }
        if text.len() <= MAX_FULL_PARSE_LEN {
            return Self::parse_interruptible(text, profile, interrupt);
        }
        let cut = Self::parse_by_layout(text, profile, interrupt);
        cut.unwrap_or(Err(IndexError::Layout(MAX_FULL_PARSE_LEN)))
    }

    /// Length of the text in bytes.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Number of chart versions.
    pub fn len(&self) -> usize {
        self.charts.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parses an index in Helm's layout. `None` for another layout or an invalid text.
    pub fn scan(text: &Bytes, profile: Profile) -> Option<Result<Self, IndexError>> {
        Self::scan_interruptible(text, profile, &|| Ok(()))
    }

    fn scan_interruptible(
        text: &Bytes,
        profile: Profile,
        interrupt: Interrupt<'_>,
    ) -> Option<Result<Self, IndexError>> {
        let found = scan::scan(text)?;
        let mut index = Self::empty(profile, text.clone());
        index.api_version = found.api_version.into();
        index.generated = found.generated;
        for chart in found.charts {
            let mut places = Vec::with_capacity(chart.versions.len());
            for seen in chart.versions {
                if let Err(why) = interrupt() {
                    return Some(Err(IndexError::Interrupted(why)));
                }
                if seen.span.len() > MAX_ENTRY_LEN {
                    return None;
                }
                if seen.is_plainly_valid(profile) {
                    places.push(EntryLocation { version: seen.version.into(), span: seen.span });
                } else {
                    let data = entry::parse(text.get(seen.span.clone())?, profile).ok()?;
                    index.add_entry(chart.name, data, |version| {
                        places.push(EntryLocation { version, span: seen.span });
                    });
                }
            }
            index.charts.insert(chart.name.into(), places);
        }
        Some(index.sorted())
    }

    /// Parses an index entry by entry. `None` if the text cannot be cut or is invalid.
    pub fn parse_entries(text: &Bytes, profile: Profile) -> Option<Result<Self, IndexError>> {
        Self::parse_entries_interruptible(text, profile, &|| Ok(()))
    }

    fn parse_entries_interruptible(
        text: &Bytes,
        profile: Profile,
        interrupt: Interrupt<'_>,
    ) -> Option<Result<Self, IndexError>> {
        let pieces = split::split_entries(text)?;
        let longest = pieces.charts.iter().flat_map(|(_, items)| items).map(ExactSizeIterator::len).max();
        if longest.unwrap_or_default().max(pieces.header.len()) > MAX_ENTRY_LEN {
            return None;
        }
        let head =
            typed::read(pieces.header.as_bytes(), &entry::INDEX_FILE, profile, KeyMode::Strict).ok()?;
        let mut index = Self::empty(profile, text.clone());
        index.api_version = get_text(&head, "apiVersion");
        index.generated = get_text(&head, "generated");
        for (name, items) in pieces.charts {
            let mut places = Vec::with_capacity(items.len());
            for span in items {
                if let Err(why) = interrupt() {
                    return Some(Err(IndexError::Interrupted(why)));
                }
                let data = entry::parse(text.get(span.clone())?, profile).ok()?;
                index.add_entry(name, data, |version| places.push(EntryLocation { version, span }));
            }
            if index.charts.insert(name.into(), places).is_some() {
                return None;
            }
        }
        Some(index.sorted())
    }

    /// Parses any index as a whole.
    pub fn parse_fully(text: &[u8], profile: Profile) -> Result<Self, IndexError> {
        let json = std::str::from_utf8(text).ok().filter(|text| text.trim_start().starts_with(['{', '[']));
        let data = match json.and_then(|text| json::parse(text).ok()) {
            Some(data) => typed::decode(data, Shape::Struct(&entry::INDEX_FILE), profile, KeyMode::Any),
            None => typed::read(text, &entry::INDEX_FILE, profile, KeyMode::Strict),
        };
        let data = data.map_err(IndexError::Text)?;
        let mut index = Self::empty(profile, Bytes::new());
        index.api_version = get_text(&data, "apiVersion");
        index.generated = get_text(&data, "generated");
        let entries = match data {
            Data::Map(mut members) => members.remove("entries").unwrap_or_default(),
            _ => Data::Null,
        };
        let Data::Map(entries) = entries else { return index.sorted() };
        let mut arena = String::with_capacity(text.len());
        index.entry_format = EntryFormat::Json;
        for (name, versions) in entries {
            let Data::List(versions) = versions else { continue };
            let mut places = Vec::with_capacity(versions.len());
            for data in versions {
                let start = arena.len();
                let text = json::write(&data, JsonStyle::Plain);
                arena.push_str(&text.map_err(|problem| IndexError::Text(problem.to_string().into()))?);
                let span = start..arena.len();
                index.add_entry(&name, data, |version| places.push(EntryLocation { version, span }));
            }
            index.charts.insert(name, places);
        }
        index.text = arena.into();
        index.sorted()
    }

    /// Passes the version of a valid entry to `place`; records a warning for others.
    fn add_entry(&mut self, name: &str, data: Data, place: impl FnOnce(Str)) {
        if data == Data::Null {
            self.warn(name, ": empty entry");
            return;
        }
        match ChartVersion::from_data(data, self.profile) {
            Ok(version) => place(version.metadata.version),
            Err((version, problem)) => self.warn(name, &format!(" {version:?}: {problem}")),
        }
    }

    fn warn(&mut self, name: &str, problem: &str) {
        if self.warnings.len() < MAX_WARNINGS {
            let name: String = name.chars().take(MAX_WARNING_NAME_LEN).collect();
            let problem: String = problem.chars().take(4 * MAX_WARNING_NAME_LEN).collect();
            self.warnings.push(format!("skipping loading invalid entry for chart {name:?}{problem}"));
        }
    }

    fn empty(profile: Profile, text: Bytes) -> Self {
        Self {
            profile,
            api_version: Str::default(),
            generated: Str::default(),
            charts: BTreeMap::new(),
            text,
            entry_format: EntryFormat::Yaml,
            warnings: Vec::new(),
        }
    }

    /// Sorts the newest versions first.
    fn sorted(mut self) -> Result<Self, IndexError> {
        for places in self.charts.values_mut() {
            let versions: Vec<_> =
                places.iter().map(|place| Version::parse(&place.version, self.profile).ok()).collect();
            if versions.is_sorted_by(|a, b| newest_first(a.as_ref(), b.as_ref()).is_le()) {
                continue;
            }
            let mut paired: Vec<_> = versions.into_iter().zip(std::mem::take(places)).collect();
            paired.sort_by(|(a, _), (b, _)| newest_first(a.as_ref(), b.as_ref()));
            places.extend(paired.into_iter().map(|(_, place)| place));
        }
        if self.api_version.is_empty() { Err(IndexError::NoApiVersion) } else { Ok(self) }
    }

    /// Chart names.
    pub fn names(&self) -> impl Iterator<Item = &Str> {
        self.charts.keys()
    }

    /// Versions of a chart, newest first.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &Str> {
        self.charts.get(name).into_iter().flatten().map(|place| &place.version)
    }

    /// Decoded entries of all versions of a chart.
    pub fn entries(&self, name: &str) -> impl Iterator<Item = Result<ChartVersion, IndexError>> {
        self.charts.get(name).into_iter().flatten().map(|place| self.entry(place))
    }

    /// The newest version of a chart that satisfies a constraint; without one, the newest version that is not a
    /// prerelease.
    pub fn get(&self, name: &str, version: &str) -> Result<ChartVersion, IndexError> {
        let places = self.charts.get(name).ok_or(IndexError::ChartNotFound)?;
        if places.is_empty() {
            return Err(IndexError::NoVersions);
        }
        let wanted = if version.is_empty() { "*" } else { version };
        let constraints = Constraints::parse(wanted, self.profile).map_err(IndexError::Constraint)?;
        let exact = places.iter().find(|place| &*place.version == version);
        let found = exact.or_else(|| {
            places.iter().find(|place| {
                Version::parse(&place.version, self.profile).is_ok_and(|version| constraints.check(&version))
            })
        });
        let place = found
            .ok_or_else(|| IndexError::VersionNotFound { name: name.into(), version: version.into() })?;
        self.entry(place)
    }

    fn entry(&self, place: &EntryLocation) -> Result<ChartVersion, IndexError> {
        let text = self.text.get(place.span.clone()).unwrap_or_default();
        let data = match self.entry_format {
            EntryFormat::Yaml => entry::parse(text, self.profile),
            EntryFormat::Json => entry::parse_json(text, self.profile),
        };
        let data = data.map_err(IndexError::Text)?;
        ChartVersion::from_data(data, self.profile).map_err(|(_, problem)| IndexError::Text(problem.into()))
    }
}

fn newest_first(a: Option<&Version>, b: Option<&Version>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.compare(a),
        // Invalid versions sort last.
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
